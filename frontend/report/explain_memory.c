// Writes what a step holds at its peak of memory as text and JSON, and what a memory budget would
// cost.
//
//   peak 2.5 GiB at instruction 66 of 141: p of l.0 to l.3 (exp at line 12), 8 buffers of 256 MiB, kept for the backward pass at line 18; --memory 1GiB: +28.0 % time
#include "frontend/report/explain.h"

enum { MOST_GROUPS = 5 };

// Returns a size as --memory takes it: "24MiB".
static const char *size_option(Arena *a, int64_t bytes) {
  static const char *const unit[] = {"", "KiB", "MiB", "GiB", "TiB"};
  int i = 0;
  for (; i + 1 < (int)countof(unit) && bytes % 1024 == 0; i++) bytes /= 1024;
  return arena_printf(a, "%lld%s", (long long)bytes, unit[i]);
}

// Returns what the budget that was tried changes, for the end of the first line.
static const char *budget_text(Arena *a, const Explain *e) {
  const BudgetTrial *b = &e->what_if->budget;
  if (!b->tried) return "";
  const char *cost =
      arena_printf(a, "%s time, peak %s", percent_change_text(a, b->seconds, e->step->seconds),
                   bytes_text(a, b->peak));
  return b->budget ? arena_printf(a, "; --memory %s: %s", size_option(a, b->budget), cost)
                   : arena_printf(a, "; without --memory: %s", cost);
}

const char *explain_memory_text(Arena *a, const Explain *e) {
  const Timeline *t = &e->memory;
  const PartitionFacts *p = &e->ledger->partition;
  if (!t->ngroups) return NULL;
  const char *text = arena_printf(a, "peak %s at instruction %u of %u: %s%s\n",
                                  bytes_text(a, e->ledger->peak_bytes), t->peak, t->n,
                                  peak_group_text(a, &t->group[0]), budget_text(a, e));
  uint32_t i = 1;
  for (; i < t->ngroups && i < MOST_GROUPS; i++)
    text = arena_printf(a, "%s    %s\n", text, peak_group_text(a, &t->group[i]));
  if (i < t->ngroups)
    text = arena_printf(a, "%s    %s in smaller buffers\n", text,
                        bytes_text(a, peak_rest_bytes(t, i)));
  return arena_printf(a, "%s    beside the work arena %s: parameters %s, optimizer %s\n", text,
                      bytes_text(a, t->persistent), bytes_text(a, p->parameter_bytes),
                      bytes_text(a, p->optimizer_bytes));
}

static json_t *groups_json(const Timeline *t) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < t->ngroups; i++) {
    const PeakGroup *g = &t->group[i];
    json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:I, s:I}", "values", g->what, "live",
                                         g->until, "buffers", (int)g->n, "each",
                                         (json_int_t)g->each, "bytes", (json_int_t)g->bytes));
  }
  return out;
}

json_t *explain_memory_json(const Explain *e) {
  const Timeline *t = &e->memory;
  const BudgetTrial *b = &e->what_if->budget;
  json_t *live = json_array(), *alive = json_array();
  for (uint32_t i = 0; i < t->n; i++) json_array_append_new(live, json_integer(t->live[i]));
  for (uint32_t i = 0; i < t->nalive; i++) {
    const PlanBuffer *p = t->alive[i];
    json_array_append_new(alive, json_pack("{s:s, s:I, s:i, s:i, s:b}", "value", p->value, "bytes",
                                           (json_int_t)p->bytes, "first", (int)p->first, "last",
                                           (int)p->last, "kept", p->kept));
  }
  json_t *out = json_pack("{s:I, s:i, s:o, s:o, s:o}", "persistent", (json_int_t)t->persistent,
                          "peak", (int)t->peak, "live", live, "alive_at_peak", alive,
                          "groups_at_peak", groups_json(t));
  json_t *budget = b->tried ? json_pack("{s:o, s:I, s:f}", "memory",
                                        b->budget ? json_integer(b->budget) : json_null(), "peak",
                                        (json_int_t)b->peak, "step_seconds", b->seconds)
                            : json_null();
  json_object_set_new(out, "budget_tried", budget);
  return out;
}
