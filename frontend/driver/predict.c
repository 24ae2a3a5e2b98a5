// Predicts the time of a compiled program with the figures of the session's machine, as text and
// JSON. The simulator is codegen/simulate.
#include "frontend/driver/session.h"

const Simulation *session_simulate(const Session *s, const Compilation *c) {
  return simulate(s->arena, c->compiled, &s->machine);
}

double predicted_seconds(const Session *s, const Compilation *c) {
  return session_simulate(s, c)->seconds;
}

json_t *simulation_json(const Simulation *t) {
  json_t *out = json_object();
  json_object_set_new(out, "compute", json_real(t->compute));
  json_object_set_new(out, "transfer", json_real(t->transfer));
  json_object_set_new(out, "hidden", json_real(t->hidden));
  json_object_set_new(out, "kernels", json_real(t->of_kind[INSTR_KERNEL]));
  json_object_set_new(out, "products", json_real(t->of_kind[INSTR_GEMM]));
  json_object_set_new(out, "ordered", json_real(t->of_kind[INSTR_ORDERED]));
  json_object_set_new(out, "copies", json_real(t->of_kind[INSTR_FILL] + t->of_kind[INSTR_COPY]));
  return out;
}

// Returns the instructions of the program as a JSON list, without loop instructions. The time of a
// loop is that of the instructions inside the loop, which are in the list.
json_t *instructions_json(const Simulation *t, const Program *p, const Exec *e, int64_t steps) {
  static const char *const words[] = {
      [INSTR_KERNEL] = "kernel",   [INSTR_GEMM] = "product", [INSTR_COLLECTIVE] = "collective",
      [INSTR_ORDERED] = "ordered", [INSTR_FILL] = "fill",    [INSTR_COPY] = "copy",
      [INSTR_COMMIT] = "commit",
  };
  json_t *list = json_array();
  const double *seconds = exec_profile(e);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    InstrKind kind = p->instr[i].kind;
    if (kind == INSTR_LOOP || kind == INSTR_END) continue;
    json_t *one = json_object();
    json_object_set_new(one, "kind", json_string(words[kind]));
    if (kind == INSTR_KERNEL)
      json_object_set_new(one, "kernel", json_string(p->kernel[p->instr[i].u.kernel.kernel].name));
    Pos pos;
    json_object_set_new(one, "value", json_string(program_instr_name(p, i, &pos)));
    if (pos.line) json_object_set_new(one, "line", json_integer(pos.line));
    const InstrValue *made = program_instr_value(p, i);
    if (made) json_object_set_new(one, "op", json_string(made->op));
    json_object_set_new(one, "bytes", json_integer(p->note[i].bytes));
    json_object_set_new(one, "flops", json_integer(p->note[i].flops));
    json_object_set_new(one, "predicted_seconds", json_real(t->of[i]));
    if (seconds)
      json_object_set_new(one, "measured_seconds", json_real(seconds[i] / (double)steps));
    json_array_append_new(list, one);
  }
  return list;
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
