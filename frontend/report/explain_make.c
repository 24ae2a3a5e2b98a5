// Makes the structure behind `explain` (explain.h). In: a compilation. Out: the ledger and values
// of the partitioner, the memory of the plan, and the times of the simulator.
#include "frontend/report/explain.h"

#include <string.h>

// Returns true if buffer b holds the value `name`. The field b->value is the name of the buffer's
// value, or a node number and the name: "%17 layer.0.x".
static bool holds(const PlanBuffer *b, const char *name) {
  const char *of = b->value;
  if (*of == '%') of += strcspn(of, " ");
  return strcmp(of + (*of == ' '), name) == 0;
}

static const char *memory_of(Arena *a, const Compiled *c, const char *name) {
  uint32_t n = c->program->ninstrs, first = UINT32_MAX, last = 0, count = 0;
  int64_t most = 0;
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (!holds(b, name)) continue;
    count++;
    if (b->first < first) first = b->first;
    if (b->last > last) last = b->last;
    if (b->bytes > most) most = b->bytes;
  }
  if (!count) return NULL;
  return arena_printf(
      a, "%u buffer%s of the work arena, at most %lld B, from instruction %u to %u of %u", count,
      plural(count), (long long)most, first, last, n);
}

// -- the structure ------------------------------------------------------------------------------

// Returns the pins of the what-ifs, as the ledger reads them.
static const LedgerPin *ledger_pins(Arena *a, const WhatIfs *w) {
  LedgerPin *pin = arena_array(a, LedgerPin, w->npins + 1);
  for (uint32_t i = 0; i < w->npins; i++) {
    const WhatIf *x = &w->without[w->nrules + i];
    pin[i] = (LedgerPin){
        .text = x->text, .axes = w->pin[i].axes, .without = x->known ? x->step.facts : NULL};
  }
  return pin;
}

// Returns the calls of the step without each layout rule, as the ledger reads them.
static const CollFacts *const *calls_without(Arena *a, const WhatIfs *w) {
  const CollFacts **out = arena_array(a, const CollFacts *, w->nrules + 1);
  for (uint32_t i = 0; i < w->nrules; i++)
    out[i] = w->without[i].known ? w->without[i].step.facts : NULL;
  return out;
}

enum {
  TOGETHER = 4,    // sets of rules and pins that are left out together at most
  FEW_NODES = 1500 // nodes of a step that is compiled again to find which of a set suffice
};

// Leaves out the rules and pins of `asked` together, and says it of the calls that they may ask
// for. In small models one after another stays in as long as the calls stay gone: what is then
// left out is all needed.
static void try_set(Session *s, const Selected *of, WhatIfs *w, uint64_t asked, Ledger *l) {
  WhatIf x = what_if_without_several(s, of, w, asked);
  uint64_t set = asked;
  if (!x.known) return;
  ledger_blame_together(l, asked, set, x.step.facts, what_if_advice(s->arena, w, &x));
  for (uint32_t i = 0; graph_count(of->graph) <= FEW_NODES && i < l->nrules + l->npins; i++) {
    uint64_t fewer = set & ~(1ull << i);
    if (fewer == set || !(fewer & (fewer - 1))) continue; // each alone has been tried
    x = what_if_without_several(s, of, w, fewer);
    if (!x.known || !ledger_all_gone(l, asked, x.step.facts)) continue;
    set = fewer;
    ledger_blame_together(l, asked, set, x.step.facts, what_if_advice(s->arena, w, &x));
  }
}

// Where no rule and no pin alone removes a call, tries those that may ask for it together.
static void try_together(Session *s, const Selected *of, WhatIfs *w, Ledger *l) {
  uint64_t done[TOGETHER];
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->nrows && n < TOGETHER; i++) {
    uint64_t asked = ledger_asked_by(l, &l->row[i]);
    bool seen = !asked;
    for (uint32_t k = 0; k < n; k++) seen |= done[k] == asked;
    if (seen) continue;
    done[n++] = asked;
    try_set(s, of, w, asked, l);
  }
}

// Writes the costs of the what-ifs into the ledger, as text.
static void add_what_ifs(Arena *a, const WhatIfs *w, bool all, Ledger *l) {
  for (uint32_t i = 0; i < l->nrules + l->npins; i++) {
    l->rule[i].without = what_if_without_text(a, w, &w->without[i]);
    l->rule[i].advice = what_if_advice(a, w, &w->without[i]);
  }
  l->what_ifs = arena_printf(a, "%s%s", what_if_lines(a, w, all), what_if_idle_lines(a, w));
}

Explain *explain_new(Session *s, const Compilation *c, const Selected *of, WhatIfAsk ask) {
  Arena *a = s->arena;
  WhatIfs *w = what_ifs(s, of, c, ask);
  if (!w) return NULL;
  LedgerSource from = {.placement = c->placement,
                       .graph = c->order->graph,
                       .lowered = c->lowered,
                       .buckets = c->buckets,
                       .facts = c->facts,
                       .partition = c->partition,
                       .machine = &s->machine,
                       .diag = s->diag,
                       .without = calls_without(a, w),
                       .npins = w->npins,
                       .pin = ledger_pins(a, w)};
  Explain *e = arena_new_of(a, Explain);
  *e = (Explain){.session = s,
                 .made = c,
                 .purpose = of->purpose,
                 .ledger = ledger_new(a, &from),
                 .step = session_simulate(s, c),
                 .what_if = w};
  e->ledger->peak_bytes = program_bytes(c->compiled->program);
  e->memory = memory_timeline(a, c);
  e->ledger->step = simulation_text(a, e->step);
  e->ledger->memory = explain_memory_text(a, e);
  if (ask.depth >= WHAT_IF_PINS) try_together(s, of, w, e->ledger);
  add_what_ifs(a, w, ask.depth == WHAT_IF_ALL, e->ledger);
  e->values = explained_values(a, e->ledger);
  for (uint32_t i = 0; i < e->values->n; i++)
    e->values->at[i].memory = memory_of(a, c->compiled, e->values->at[i].name);
  e->ledger->copies = alike_memory(a, e->ledger, e->values);
  return e;
}
