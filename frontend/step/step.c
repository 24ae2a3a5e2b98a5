// A training step under construction: keeps the value that each parameter, slot and state has at
// the current point of the step, and declares slots and states of the optimizer.
#include "frontend/step/step_internal.h"

#include <string.h>

void step_grow(Step *s) {
  while (s->now.n < s->g->decl.n) vec_push(s->m->arena, s->now) = 0;
  while (s->block.n < s->g->decl.n) vec_push(s->m->arena, s->block) = 0;
  while (s->kept.n < s->g->decl.n) vec_push(s->m->arena, s->kept) = 0;
  while (s->fresh.n < s->g->decl.n) vec_push(s->m->arena, s->fresh) = 0;
}

NodeId step_value(Step *s, DeclId d) {
  step_grow(s);
  return s->now.at[d - 1] ? s->now.at[d - 1] : graph_decl_node(s->g, d);
}

void step_assign(Step *s, DeclId d, NodeId value) {
  step_grow(s);
  if (!s->now.at[d - 1]) vec_push(s->m->arena, s->order) = d;
  s->now.at[d - 1] = graph_cast(s->g, value, s->g->decl.at[d - 1].type);
}

DeclId step_slot(Step *s, uint32_t block, DeclId p, const char *which, Dtype type, int rank,
                 const DimId *dims) {
  Graph *g = s->g;
  Decl d = {.kind = DECL_SLOT, .type = type, .rank = (uint8_t)rank, .of = p};
  d.pos = g->decl.at[p - 1].pos;
  if (rank > 0) memcpy(d.dims, dims, sizeof *dims * (size_t)rank); // dims may be NULL
  for (unsigned i = 0;; i++) {
    const char *number = i ? arena_printf(g->arena, "_%u", i) : "";
    d.name = arena_printf(g->arena, "optimizer.%s.%s%s", g->decl.at[p - 1].name, which, number);
    DeclId old = graph_find_decl(g, d.name);
    if (!old) break;
    step_grow(s);
    if (s->block.at[old - 1] == block + 1) return old;
  }
  DeclId id = graph_decl(g, &d);
  step_grow(s);
  s->block.at[id - 1] = block + 1;
  return id;
}

void step_put_updates(Step *s) {
  for (uint32_t i = 0; i < s->order.n; i++) {
    DeclId d = s->order.at[i];
    Output o = {.kind = OUT_UPDATE,
                .name = s->g->decl.at[d - 1].name,
                .target = d,
                .value = s->now.at[d - 1]};
    vec_push(s->g->arena, s->g->output) = o;
  }
}

DeclId step_state(Step *s, const char *name, Dtype type, double start) {
  Decl d = {.kind = DECL_STATE, .name = name, .type = type, .init = {.a = start}};
  DeclId old = graph_find_decl(s->g, name);
  return old ? old : graph_decl(s->g, &d);
}
