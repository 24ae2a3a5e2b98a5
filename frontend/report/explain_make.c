// Makes the structure behind `explain` (explain.h). In: a compilation. Out: the ledger and values
// of the partitioner, the memory of the plan, and the times of the simulator.
#include "frontend/report/explain.h"

#include <stdlib.h>
#include <string.h>

// -- memory over the step -----------------------------------------------------------------------

static int by_size(const void *x, const void *y) {
  const PlanBuffer *const *a = x, *const *b = y;
  if ((*a)->bytes != (*b)->bytes) return (*a)->bytes > (*b)->bytes ? -1 : 1;
  return *a < *b ? -1 : *a > *b;
}

// Lists in t->alive the buffers that are live when the step needs most memory, largest first. A
// buffer in the memory of another buffer is not listed separately.
static void find_alive(Arena *a, const Compiled *c, Timeline *t) {
  t->alive = arena_array(a, const PlanBuffer *, c->nbuffers + 1);
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (!b->same && b->first <= t->peak && t->peak <= b->last) t->alive[t->nalive++] = b;
  }
  if (t->nalive) qsort(t->alive, t->nalive, sizeof *t->alive, by_size);
}

// Returns the memory of the step over time, computed from the live ranges of the buffers: the live
// bytes at each instruction, and their peak.
static Timeline timeline(Arena *a, const Compiled *c) {
  Timeline t = {.n = c->program->ninstrs,
                .persistent = program_bytes(c->program) - c->program->arena_bytes};
  int64_t *change = arena_array(a, int64_t, t.n + 2), live = 0;
  t.live = arena_array(a, int64_t, t.n + 1);
  for (uint32_t i = 0; i < c->nbuffers; i++) {
    const PlanBuffer *b = &c->buffer[i];
    if (b->same) continue;
    change[b->first] += b->bytes;
    if (b->last < t.n) change[b->last + 1] -= b->bytes;
  }
  for (uint32_t i = 0; i < t.n; i++) {
    t.live[i] = live += change[i];
    if (live > t.live[t.peak]) t.peak = i;
  }
  find_alive(a, c, &t);
  return t;
}

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

Explain *explain_new(Session *s, const Compilation *c, const char *purpose) {
  Arena *a = s->arena;
  LedgerSource from = {.placement = c->placement,
                       .graph = c->order->graph,
                       .buckets = c->buckets,
                       .facts = c->facts,
                       .partition = c->partition,
                       .machine = &s->machine,
                       .diag = s->diag};
  Explain *e = arena_new_of(a, Explain);
  *e = (Explain){.session = s, .made = c, .purpose = purpose, .ledger = ledger_new(a, &from)};
  e->ledger->peak_bytes = program_bytes(c->compiled->program);
  e->memory = timeline(a, c->compiled);
  e->step = session_simulate(s, c);
  e->ledger->step = simulation_text(a, e->step);
  e->values = explained_values(a, e->ledger);
  for (uint32_t i = 0; i < e->values->n; i++)
    e->values->at[i].memory = memory_of(a, c->compiled, e->values->at[i].name);
  return e;
}
