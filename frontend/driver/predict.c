// Predicts the time of a compiled program with the figures of the session's machine, as text and
// JSON. The simulator is codegen/simulate.
#include "frontend/driver/session.h"

const Simulation *session_simulate(const Session *s, const Compilation *c) {
  return simulate(s->arena, c->compiled, &s->machine);
}

double predicted_seconds(const Session *s, const Compilation *c) {
  return c->predicted > 0 ? c->predicted : session_simulate(s, c)->seconds;
}

json_t *simulation_json(const Simulation *t) {
  json_t *out = json_object();
  json_object_set_new(out, "compute", json_real(t->compute));
  json_object_set_new(out, "transfer", json_real(t->transfer));
  json_object_set_new(out, "hidden", json_real(t->hidden));
  json_object_set_new(out, "kernels", json_real(t->of_kind[INSTR_KERNEL]));
  json_object_set_new(out, "products", json_real(t->of_kind[INSTR_GEMM]));
  json_object_set_new(out, "ordered", json_real(t->of_kind[INSTR_ORDERED]));
  json_object_set_new(out, "matrices", json_real(t->of_kind[INSTR_MATRIX]));
  json_object_set_new(out, "copies", json_real(t->of_kind[INSTR_FILL] + t->of_kind[INSTR_COPY]));
  return out;
}

const char *simulation_text(Arena *a, const Simulation *t) {
  double products = t->of_kind[INSTR_GEMM], kernels = t->of_kind[INSTR_KERNEL];
  const char *text = arena_printf(a, "%s: products %s, kernels %s", seconds_text(a, t->seconds),
                                  seconds_text(a, products), seconds_text(a, kernels));
  double rest = t->compute - products - kernels;
  if (rest > 0.005 * t->seconds)
    text = arena_printf(a, "%s, copies and the rest %s", text, seconds_text(a, rest));
  text = arena_printf(a, "%s, collectives %s", text, seconds_text(a, t->transfer));
  return t->hidden > 0
             ? arena_printf(a, "%s (%s of it overlapped)", text, seconds_text(a, t->hidden))
             : text;
}
