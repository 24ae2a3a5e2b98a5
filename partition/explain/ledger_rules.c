// Finds which collective calls each layout rule and each pin causes: those that are gone if the
// graph is placed and lowered without it.
#include "partition/explain/ledger_internal.h"

#include <string.h>

void rules_list(Arena *a, const LedgerSource *from, Ledger *l) {
  const Layout *layout = l->placement->layout;
  l->nrules = layout ? layout->n : 0;
  l->npins = from->npins;
  l->rule = arena_array(a, LedgerRule, l->nrules + l->npins + 1);
  for (uint32_t i = 0; i < l->nrules; i++)
    l->rule[i] = (LedgerRule){.rule = &layout->rule[i],
                              .axes = layout->rule[i].axes,
                              .text = layout_rule_text(a, l->graph->mesh, &layout->rule[i]),
                              .place = ledger_place(a, l, layout->rule[i].pos)};
  for (uint32_t i = 0; i < l->npins; i++)
    l->rule[l->nrules + i] =
        (LedgerRule){.axes = from->pin[i].axes, .text = from->pin[i].text, .place = ""};
}

// -- the step without a rule --------------------------------------------------------------------

static Layout layout_without(Arena *a, const Layout *layout, uint32_t gone) {
  Layout out = {.rule = arena_array(a, LayoutRule, layout->n)};
  for (uint32_t i = 0; i < layout->n; i++)
    if (i != gone) out.rule[out.n++] = layout->rule[i];
  return out;
}

// Returns whether the place of a call in the model says which value it moves. It does not for a
// bucket of several values, which has the place of the first one, and it need not for a gradient,
// whose name no other value has.
static bool place_decides(const LedgerRow *row) {
  return row->nparts == 1 && !row->part[0].gradient_of;
}

// Returns the call among `facts` (the calls without one layout rule or pin) that still moves the
// first value of the row, or NULL. Such a call agrees with the row in operation and pass (forward,
// backward) and has an axis in common with the row. Where the place decides, the call is also from
// the same line of the model.
static const CollFact *still_moves(const LedgerRow *row, const CollFacts *facts) {
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    if (f->kind == row->fact->kind && f->backward == row->fact->backward &&
        axes_meet(f->axes, row->fact->axes) && names_mention(f->value, row->part[0].value) &&
        (!place_decides(row) || f->pos.line == row->fact->pos.line))
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
  const Graph *shared = collectives_share(scratch, lowered);
  blame(l, rule,
        collectives_facts(scratch, shared, collectives_bucket(scratch, shared, machine), machine));
  arena_free(scratch);
}

static void add_row(LedgerRule *r, const LedgerRow *row) {
  r->rows++;
  r->calls += row->fact->times;
  r->wire_bytes += row->fact->wire_bytes * row->fact->times;
}

// Adds to pin l->rule[pin] the rows whose calls are gone in `without`, the calls of a step without
// the pin. It becomes the cause of those that no rule causes.
static void blame_pin(Ledger *l, uint32_t pin, const CollFacts *without) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    LedgerRow *row = &l->row[i];
    if (still_moves(row, without)) continue;
    add_row(&l->rule[pin], row);
    if (row->cause < 0) row->cause = (int)pin;
  }
}

static bool no_rule_behind(const LedgerRow *row) {
  for (uint32_t i = 0; i < row->nparts; i++)
    if (row->part[i].has.rule >= 0 || row->part[i].wants.rule >= 0) return false;
  return true;
}

// Makes a rule the cause of the rows that it is not behind, but whose calls are gone in `without`:
// conversions of values that follow others, such as those in an update. Only rows with no rule
// behind them and without any cause are changed.
static void blame_indirectly(Ledger *l, uint32_t rule, const CollFacts *without) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    LedgerRow *row = &l->row[i];
    if (row->cause >= 0 || !no_rule_behind(row) || still_moves(row, without)) continue;
    row->cause = (int)rule;
    add_row(&l->rule[rule], row);
  }
}

void rules_try(const LedgerSource *from, Ledger *l) {
  for (uint32_t r = 0; r < l->nrules; r++)
    if (from->without && from->without[r])
      blame(l, r, from->without[r]);
    else
      try_without(from->machine, l, r);
  for (uint32_t i = 0; i < l->nrows; i++)
    if (l->row[i].cause >= 0) add_row(&l->rule[l->row[i].cause], &l->row[i]);
  for (uint32_t i = 0; i < l->npins; i++)
    if (from->pin[i].without) blame_pin(l, l->nrules + i, from->pin[i].without);
  for (uint32_t r = 0; r < l->nrules; r++)
    if (from->without && from->without[r]) blame_indirectly(l, r, from->without[r]);
}

// -- several rules and pins together ------------------------------------------------------------

enum { MOST_TOGETHER = 64 };

uint64_t ledger_asked_by(const Ledger *l, const LedgerRow *row) {
  const LedgerPart *p = &row->part[0];
  int rule = p->has.rule >= 0 ? p->has.rule : p->wants.rule;
  uint64_t set = 0;
  if (row->cause >= 0 || row->partly >= 0 || l->nrules + l->npins > MOST_TOGETHER) return 0;
  for (uint32_t i = 0; i < l->nrules + l->npins; i++)
    if ((int)i == rule || axes_meet(l->rule[i].axes, row->fact->axes)) set |= 1ull << i;
  return (set & (set - 1)) ? set : 0;
}

bool ledger_all_gone(const Ledger *l, uint64_t asked, const CollFacts *without) {
  for (uint32_t i = 0; i < l->nrows; i++)
    if (ledger_asked_by(l, &l->row[i]) == asked && (l->row[i].together || !l->row[i].left_out) &&
        still_moves(&l->row[i], without))
      return false;
  return true;
}

void ledger_blame_together(Ledger *l, uint64_t asked, uint64_t left_out, const CollFacts *without,
                           const char *advice) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    LedgerRow *row = &l->row[i];
    if (ledger_asked_by(l, row) != asked || (row->left_out && !row->together)) continue;
    row->left_out = left_out;
    row->together = !still_moves(row, without);
    row->advice = advice;
  }
}
