// Adds measured times to the JSON list of collectives that `check` also prints. A *fact* describes
// one collective; its time is that of the instruction that carries it out.
#include "frontend/driver/session.h"

#include <string.h>

static bool is_fact(const Instr *in, const CollFact *f) {
  const Collective *c = &in->u.collective;
  return in->kind == INSTR_COLLECTIVE && c->kind == f->kind && c->bytes == f->bytes &&
         c->type == f->type && c->backward == f->backward && c->pos.line == f->pos.line &&
         c->pos.col == f->pos.col;
}

// Returns the index of the instruction for the collective of a fact, or -1 if there is none. Facts
// and instructions have different orders, so this is the first matching instruction that is not yet
// `taken` by another fact.
static int64_t instr_of(const Program *p, const CollFact *f, bool *taken) {
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (taken[i] || !is_fact(&p->instr[i], f)) continue;
    taken[i] = true;
    return i;
  }
  return -1;
}

void collectives_measured(const Session *s, json_t *list, const Compilation *c, const Exec *e,
                          int64_t steps) {
  const Program *p = c->compiled->program;
  const double *seconds = exec_profile(e);
  bool *taken = arena_array(s->arena, bool, p->ninstrs + 1);
  for (uint32_t i = 0; seconds && i < c->facts->n; i++) {
    int64_t at = instr_of(p, &c->facts->fact[i], taken);
    double calls = (double)(steps * c->facts->fact[i].times);
    if (at >= 0)
      json_object_set_new(json_array_get(list, i), "measured_seconds",
                          json_real(seconds[at] / calls));
  }
}
