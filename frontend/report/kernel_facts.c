// Collects what each kernel of a step does and costs, from fusion, program and simulator.
#include "frontend/report/kernel_facts.h"

#include <string.h>

enum { MOST_NAMES = 2, MOST_APART = 4 };

bool kernel_runs(const Compilation *c, uint32_t group) {
  return c->compiled->group[group].instr != 0;
}

bool kernel_shows(const Compilation *c, NodeId n) {
  return graph_node(c->fusion->graph, n)->op != OP_CONST;
}

// -- names --------------------------------------------------------------------------------------

// Sets in *out the names of the values that fusion group g stores: at most MOST_NAMES names, each
// once. Returns whether the first of these values is a gradient.
static bool name_values(Arena *a, const Fusion *f, const Group *g, KernelFact *out) {
  const char *seen[MOST_NAMES + 1];
  uint32_t n = 0, all = 0;
  bool gradient = false;
  for (uint32_t i = 0; i < g->nstored; i++) {
    const Origin *o = graph_node(f->graph, g->stored[i])->origin;
    const char *name = o->value;
    bool before = !name;
    for (uint32_t k = 0; name && k < n; k++) before |= !strcmp(seen[k], name);
    if (before) continue;
    if (!all++) gradient = o->gradient_of != NULL;
    if (n <= MOST_NAMES) seen[n++] = name;
  }
  out->value = "";
  for (uint32_t k = 0; k < n && k < MOST_NAMES; k++)
    out->value = arena_printf(a, "%s%s%s", out->value, k ? ", " : "", seen[k]);
  if (all > MOST_NAMES) out->value = arena_printf(a, "%s, ...", out->value);
  for (uint32_t i = g->nstored; i-- > 0 && !out->of;)
    out->of = origin_subject(graph_node(f->graph, g->stored[i])->origin);
  return gradient;
}

// -- costs --------------------------------------------------------------------------------------

// Returns how often one step runs the instruction: the product of the numbers of iterations of the
// loops around the instruction.
static int64_t rounds_of(const Program *p, uint32_t instr) {
  int64_t rounds = 1;
  for (uint32_t i = 0; i < instr; i++)
    if (p->instr[i].kind == INSTR_LOOP && p->instr[i].u.loop.end > instr)
      rounds *= p->instr[i].u.loop.count.base;
  return rounds;
}

static const char *cost_text(Arena *a, const KernelFact *k, bool collective) {
  const char *text =
      arena_printf(a, "%s %s", collective ? "sends" : "moves", bytes_text(a, k->bytes));
  if (k->saved) text = arena_printf(a, "%s, saves %s", text, bytes_text(a, k->saved));
  if (k->flops) text = arena_printf(a, "%s, %s", text, flops_text(a, (double)k->flops));
  if (k->rounds > 1) text = arena_printf(a, "%s, x%lld", text, (long long)k->rounds);
  text = arena_printf(a, "%s, %s", text, seconds_text(a, k->seconds));
  return k->together > 1 ? arena_printf(a, "%s for %u", text, k->together) : text;
}

KernelFact kernel_fact(Arena *a, const Compilation *c, const Simulation *t, uint32_t group) {
  const Group *g = &c->fusion->group[group];
  const GroupNote *note = &c->compiled->group[group];
  const Node *first = graph_node(c->fusion->graph, g->nstored ? g->stored[0] : g->node[0]);
  bool collective = g->kind == GROUP_COLLECTIVE;
  KernelFact out = {.kind = collective ? op_row((Op)first->op)->text : group_kinds[g->kind],
                    .bytes = note->bytes,
                    .flops = note->flops};
  out.saved = group_saved_bytes(c->fusion, group);
  out.together = note->together;
  out.update = c->fusion->update[g->nstored ? g->stored[0] : g->node[0]];
  out.backward = first->origin->backward && !out.update;
  if (collective && note->instr)
    out.bytes = c->compiled->program->instr[note->instr - 1].u.collective.wire_bytes;
  if (note->instr) out.rounds = rounds_of(c->compiled->program, note->instr - 1);
  if (note->instr) out.seconds = t->of[note->instr - 1];
  bool gradient = name_values(a, c->fusion, g, &out);
  out.names = out.value;
  if (out.backward && !gradient) out.value = arena_printf(a, "%s, backward", out.value);
  out.cost = cost_text(a, &out, collective);
  return out;
}

const char *kernel_apart(Arena *a, const Compilation *c, uint32_t group) {
  const Group *g = &c->fusion->group[group];
  const char *text = "";
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->nrefusals; i++) {
    if (!group_says_apart(c->fusion, g, &g->refusal[i])) continue;
    if (n++ < MOST_APART)
      text = arena_printf(a, "%s%s#%u: %s", text, *text ? "; " : "", g->refusal[i].group,
                          apart_text(g->refusal[i].why));
  }
  return n > MOST_APART ? arena_printf(a, "%s; %u more", text, n - MOST_APART) : text;
}

// -- groups whose values a group reads ----------------------------------------------------------

// Returns true if fusion group g computes node n. Several groups may compute one node.
static bool has_node(const Group *g, NodeId n) {
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (g->node[i] == n) return true;
  return false;
}

uint32_t *kernel_sources(Arena *a, const Compilation *c, uint32_t group, uint32_t *n) {
  const Fusion *f = c->fusion;
  bool *seen = arena_array(a, bool, f->ngroups + 1);
  uint32_t *found = arena_array(a, uint32_t, f->ngroups + 1);
  VEC(uint32_t) todo = {0};
  vec_push(a, todo) = group;
  seen[group] = true;
  for (uint32_t at = 0; at < todo.n; at++) {
    const Group *g = &f->group[todo.at[at]];
    for (uint32_t i = 0; i < g->nnodes; i++) {
      const Node *x = graph_node(f->graph, g->node[i]);
      for (int k = 0; k < x->nargs; k++) {
        uint32_t from = f->of[x->args[k]];
        if (seen[from] || has_node(g, x->args[k])) continue;
        if (!kernel_runs(c, from)) vec_push(a, todo) = from;
        seen[from] = true;
      }
    }
  }
  *n = 0;
  for (uint32_t i = 0; i < f->ngroups; i++)
    if (seen[i] && i != group && kernel_runs(c, i)) found[(*n)++] = i;
  return found;
}
