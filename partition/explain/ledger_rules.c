// The effect of each layout rule: the graph is placed and lowered once more without the rule, and
// the collectives, flops and memory are compared.
#include "partition/explain/ledger_internal.h"

#include <string.h>

void rules_list(Arena *a, Ledger *l) {
  const Layout *layout = l->placement->layout;
  l->nrules = layout ? layout->n : 0;
  l->rule = arena_array(a, LedgerRule, l->nrules + 1);
  for (uint32_t i = 0; i < l->nrules; i++)
    l->rule[i] = (LedgerRule){.rule = &layout->rule[i],
                              .text = layout_rule_text(a, l->graph->mesh, &layout->rule[i]),
                              .place = ledger_place(a, l, layout->rule[i].pos)};
}

// -- the step without a rule --------------------------------------------------------------------

static Layout layout_without(Arena *a, const Layout *layout, uint32_t gone) {
  Layout out = {.rule = arena_array(a, LayoutRule, layout->n)};
  for (uint32_t i = 0; i < layout->n; i++)
    if (i != gone) out.rule[out.n++] = layout->rule[i];
  return out;
}

// Returns the call among `facts` (the calls without one layout rule) that still moves the first
// value of the row, or NULL. Such a call agrees with the row in operation and pass (forward,
// backward) and has an axis in common with the row. Unless the row is a bucket of several values,
// the call is also from the same line of the model.
static const CollFact *still_moves(const LedgerRow *row, const CollFacts *facts) {
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    if (f->kind == row->fact->kind && f->backward == row->fact->backward &&
        axes_meet(f->axes, row->fact->axes) && names_mention(f->value, row->part[0].value) &&
        (row->nparts > 1 || f->pos.line == row->fact->pos.line))
      return f;
  }
  return NULL;
}

static bool is_behind_row(const LedgerRow *row, uint32_t rule) {
  for (uint32_t i = 0; i < row->nparts; i++)
    if (row->part[i].has.rule == (int)rule || row->part[i].wants.rule == (int)rule) return true;
  return false;
}

// Compares the ledger rows with `without`, the calls of a placement without layout rule
// l->rule[rule]. For each row whose call is gone, sets this rule as the cause.
static void blame(Ledger *l, uint32_t rule, const CollFacts *without) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    LedgerRow *row = &l->row[i];
    if (!is_behind_row(row, rule)) continue;
    const CollFact *left = still_moves(row, without);
    if (left && left->axes.n < row->fact->axes.n && axes_within(left->axes, row->fact->axes) &&
        row->partly < 0)
      row->partly = (int)rule, row->left = left->axes;
    if (left || (row->cause >= 0 && row->part[0].has.rule != (int)rule))
      continue; // a second rule becomes the cause only if it is behind the sharding before the call
    row->cause = (int)rule;
  }
}

static void try_without(const Machine *machine, Ledger *l, uint32_t rule) {
  Arena *scratch = arena_new();
  const Graph *g = l->placement->graph;
  Layout layout = layout_without(scratch, l->placement->layout, rule);
  Graph *lowered = lower(scratch, place(scratch, g, &layout, machine));
  PartitionFacts facts = partition_facts(g, lowered);
  const Graph *shared = collectives_share(scratch, lowered);
  const CollFacts *moved =
      collectives_facts(scratch, shared, collectives_bucket(scratch, shared, machine), machine);
  LedgerRule *r = &l->rule[rule];
  for (uint32_t i = 0; i < moved->n; i++) r->without_calls += moved->fact[i].times;
  r->without_bytes = moved->wire_bytes;
  r->without_flops = facts.flops;
  r->without_memory = facts.parameter_bytes + facts.optimizer_bytes;
  blame(l, rule, moved);
  arena_free(scratch);
}

static void add_costs(Ledger *l) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    const LedgerRow *row = &l->row[i];
    if (row->cause < 0) continue;
    LedgerRule *r = &l->rule[row->cause];
    r->rows++;
    r->calls += row->fact->times;
    r->wire_bytes += row->fact->wire_bytes * row->fact->times;
  }
}

void rules_try(const Machine *machine, Ledger *l) {
  for (uint32_t r = 0; r < l->nrules; r++) try_without(machine, l, r);
  add_costs(l);
}
