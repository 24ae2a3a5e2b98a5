// Builds the ledger of all collective calls (ledger.h) and prints it as text. Columns of an entry:
// operation, axes x group size, bytes of one call x number of calls, pass, value, place, time.
//
//   mesh rows=2,cols=2: 23 collectives, 5228554 bytes sent by a processor in a step
//   all_reduce     cols x2            196608 B x4  forward  layer.0.x ... layer.3.x [b/rows, t, d]  gpt.mesh:30  118.8 us
//       heads is summed and split over cols; needed whole by add at line 45; leaving out heads -> cols (--layout) would remove it
#include "ir/base/stream.h"
#include "ir/base/units.h"
#include "partition/explain/ledger_internal.h"

#include <stdio.h>
#include <string.h>

// -- making the ledger ---------------------------------------------------------------------------

// Returns the text that names the first output whose value is node n, or "an output".
static const char *output_text(Arena *a, const Placer *p, NodeId n) {
  const Read *r = outputs_of(p, n);
  return r->output ? reader_text(a, p->g, r) : "an output";
}

static LedgerRow row_of(Arena *a, const LedgerSource *from, CollSizes *sizes, uint32_t i) {
  const Bucket *b = &from->buckets->bucket[i];
  LedgerRow row = {.fact = &from->facts->fact[i],
                   .nparts = b->n,
                   .part = arena_array(a, LedgerPart, b->n),
                   .cause = -1,
                   .partly = -1};
  const Placer *p = placer_of(from->placement);
  for (uint32_t k = 0; k < b->n; k++) {
    const Node *n = graph_node(from->graph, b->node[k]);
    const Node *value = coll_moved_value(from->graph, n);
    LedgerPart *part = &row.part[k];
    *part = (LedgerPart){.value = coll_value_name(from->graph, n),
                         .unnamed = !value->origin->value,
                         .gradient_of = value->origin->gradient_of,
                         .node = n->origin->of,
                         .reader = n->origin->reader,
                         .why = n->origin->why,
                         .user = ""};
    part->bytes = coll_call_bytes(sizes, &b->node[k], 1);
    if (part->reader)
      part->user = reader_text(a, p->g, &(Read){.node = part->reader});
    else if (part->node)
      part->user = output_text(a, p, part->node);
    sides_find(a, p, from->graph, b->node[k], part);
  }
  return row;
}

static void add_totals(Arena *a, Ledger *l) {
  l->total = arena_array(a, LedgerTotal, l->nrows + 1);
  for (uint32_t i = 0; i < l->nrows; i++) {
    const CollFact *f = l->row[i].fact;
    uint32_t k = 0;
    while (k < l->ntotals && !axes_equal(l->total[k].axes, f->axes)) k++;
    if (k == l->ntotals) l->total[l->ntotals++] = (LedgerTotal){.axes = f->axes, .group = f->group};
    l->total[k].calls += f->times;
    l->total[k].wire_bytes += f->wire_bytes * f->times;
    l->total[k].seconds += f->seconds * (double)f->times;
    l->calls += f->times;
    l->seconds += f->seconds * (double)f->times;
  }
  l->wire_bytes = l->facts->wire_bytes;
}

Ledger *ledger_new(Arena *a, const LedgerSource *from) {
  Ledger *l = arena_new_of(a, Ledger);
  *l = (Ledger){.placement = from->placement,
                .graph = from->graph,
                .diag = from->diag,
                .facts = from->facts,
                .partition = from->partition,
                .nrows = from->facts->n};
  l->row = arena_array(a, LedgerRow, l->nrows + 1);
  CollSizes *sizes = coll_sizes_new(a, from->graph);
  for (uint32_t i = 0; i < l->nrows; i++) l->row[i] = row_of(a, from, sizes, i);
  rules_list(a, from, l);
  rules_try(from, l);
  lines_find(a, l);
  add_totals(a, l);
  alike_work(a, from->lowered ? from->lowered : from->graph, l);
  l->uneven = uneven_text(a, from->lowered ? from->lowered : from->graph);
  return l;
}

// -- the ledger as text --------------------------------------------------------------------------

static const char *axes_group(Arena *a, const Ledger *l, Axes axes, int64_t group) {
  return arena_printf(a, "%s x%lld", axes_text(a, l->graph->mesh, axes), (long long)group);
}

static const char *rule_with_place(Arena *a, const LedgerRule *r) {
  return *r->place ? arena_printf(a, "%s (%s)", r->text, r->place) : r->text;
}

// Returns what leaving out rule r does to time and memory, as the end of a sentence, or "".
static const char *advice_of(Arena *a, const LedgerRule *r) {
  return r->advice ? arena_printf(a, ": %s", r->advice) : "";
}

enum { MOST_RULES = 3 }; // that one line names

// Returns the rules and pins of a set (bit i for l->rule[i]) as text: "ff -> cols, d -> rows, t ->
// rows and 2 more".
static const char *rules_of(Arena *a, const Ledger *l, uint64_t set) {
  const char *text = "";
  uint32_t n = 0;
  for (uint32_t i = 0; i < l->nrules + l->npins && set >> i; i++)
    if (set >> i & 1 && ++n <= MOST_RULES)
      text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", l->rule[i].text);
  return n > MOST_RULES ? arena_printf(a, "%s and %u more", text, n - MOST_RULES) : text;
}

static int first_of(uint64_t set) {
  int i = 0;
  while (!(set >> i & 1)) i++;
  return i;
}

// Returns the remedy of a call that stays without any single rule or pin: what removes it together,
// as far as that has been tried.
static const char *several_remedy(Arena *a, const Ledger *l, const LedgerRow *row) {
  const LedgerPart *p = &row->part[0];
  int rule = p->has.rule >= 0 ? p->has.rule : p->wants.rule;
  uint64_t set = row->left_out;
  if (rule < 0 && !set) return "no rule of the layout asks for it";
  if (rule < 0 || (row->together && !(set >> rule & 1))) rule = first_of(set);
  const char *first = rule_with_place(a, &l->rule[rule]);
  // of more than 64 rules and pins none are left out together: then no bit is that of the rule
  uint64_t others = set ? set & ~(1ull << rule) : 0;
  if (row->together)
    return arena_printf(a, "asked for by %s, and by %s; leaving out %s would remove it%s%s", first,
                        rules_of(a, l, others), others & (others - 1) ? "all of them" : "both",
                        row->advice ? ": " : "", row->advice ? row->advice : "");
  return arena_printf(a, "asked for by %s, but it stays without that%s%s%s", first,
                      others ? ", also if " : "", rules_of(a, l, others),
                      !others                 ? ""
                      : others & (others - 1) ? " are left out, too"
                                              : " is left out, too");
}

const char *ledger_remedy(Arena *a, const Ledger *l, const LedgerRow *row) {
  const LedgerRule *cause = row->cause >= 0 ? &l->rule[row->cause] : NULL,
                   *partly = row->partly >= 0 ? &l->rule[row->partly] : NULL;
  if (cause)
    return arena_printf(a, "leaving out %s would remove it%s", rule_with_place(a, cause),
                        advice_of(a, cause));
  if (partly)
    return arena_printf(a, "leaving out %s would leave it over %s only%s",
                        rule_with_place(a, partly), axes_text(a, l->graph->mesh, row->left),
                        advice_of(a, partly));
  return several_remedy(a, l, row);
}

// Returns as text the bytes of one collective call and the number of calls: "   196608 B x12". With
// `in_all`, `bytes` is the sum of calls of different sizes: "  1302528 B in 9 calls".
static const char *bytes_of(Arena *a, int64_t bytes, int64_t calls, bool in_all) {
  const char *times =
      calls < 2 ? "" : arena_printf(a, in_all ? " in %lld calls" : " x%lld", (long long)calls);
  return arena_printf(a, "%12lld B%s", (long long)bytes, times);
}

// Prints one entry of the ledger: a line about the collective call of `row`, then a line with its
// cause. `value` is the text for the values that the call moves.
static void put_head(FILE *f, Arena *a, const Ledger *l, const LedgerRow *row, const char *value,
                     const char *bytes, double seconds) {
  const CollFact *c = row->fact;
  const char *place = ledger_place(a, l, c->pos), *wants = row->part[0].wants.why;
  if (row->nparts == 1)
    value = arena_printf(a, "%s%s%s", value, strchr(value, ' ') ? " " : "",
                         ledger_dims(a, l, &row->part[0].wants));
  fprintf(f, "%-14s %-12s %s  %-8s %s%s%s  %s\n", coll_text(c->kind),
          axes_group(a, l, c->axes, c->group), bytes, c->backward ? "backward" : "forward", value,
          *place ? "  " : "", place, seconds_text(a, seconds));
  fprintf(f, "    %s%s%s%s; %s\n", c->why ? c->why : "", wants ? " (" : "", wants ? wants : "",
          wants ? ")" : "", ledger_remedy(a, l, row));
}

// Returns the text of a sharding, followed by its cause in parentheses if one is known. The cause
// is a layout rule, or LedgerSide.why.
static const char *side_text(Arena *a, const Ledger *l, const LedgerSide *s) {
  const char *state = ledger_sharding(a, l, s),
             *why = s->rule >= 0 ? rule_with_place(a, &l->rule[s->rule]) : s->why;
  return why ? arena_printf(a, "%s (%s)", state, why) : state;
}

static void put_parts(FILE *f, Arena *a, const Ledger *l, const LedgerRow *row) {
  for (uint32_t i = 0; i < row->nparts; i++) {
    const LedgerPart *p = &row->part[i];
    fprintf(f, "      %s%s: %s to %s, %lld B; first read by %s\n", p->value,
            ledger_dims(a, l, &p->wants), side_text(a, l, &p->has), side_text(a, l, &p->wants),
            (long long)p->bytes, *p->user ? p->user : "what is made of it");
  }
}

static void put_lines(FILE *f, Arena *a, const Ledger *l) {
  for (uint32_t i = 0; i < l->nlines; i++) {
    const LedgerLine *line = &l->line[i];
    const LedgerRow *row = &l->row[line->row[0]];
    const char *bytes = bytes_of(a, line->unequal ? line->wire_bytes : row->fact->wire_bytes,
                                 line->calls, line->unequal);
    put_head(f, a, l, row, line->value, bytes, line->seconds);
  }
}

static void put_rows(FILE *f, Arena *a, const Ledger *l) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    const LedgerRow *row = &l->row[i];
    const char *bytes = bytes_of(a, row->fact->wire_bytes, row->fact->times, false);
    put_head(f, a, l, row, row->fact->value, bytes, row->fact->seconds * (double)row->fact->times);
    put_parts(f, a, l, row);
  }
}

static void put_totals(FILE *f, Arena *a, const Ledger *l) {
  for (uint32_t k = 0; k < l->ntotals; k++)
    fprintf(f, "over %s: %lld call%s, %lld B, %s\n",
            axes_group(a, l, l->total[k].axes, l->total[k].group), (long long)l->total[k].calls,
            plural(l->total[k].calls), (long long)l->total[k].wire_bytes,
            seconds_text(a, l->total[k].seconds));
}

static const char *calls_text(Arena *a, int64_t n) {
  return arena_printf(a, "%lld call%s", (long long)n, plural(n));
}

static void put_rules(FILE *f, Arena *a, const Ledger *l) {
  for (uint32_t i = 0; i < l->nrules + l->npins; i++) {
    const LedgerRule *r = &l->rule[i];
    if (r->rule)
      fprintf(f, "rule %s: causes", rule_with_place(a, r));
    else
      fprintf(f, "%s causes", r->text);
    fprintf(f, " %s, %lld B%s%s\n", calls_text(a, r->calls), (long long)r->wire_bytes,
            r->without ? "; " : "", r->without ? r->without : "");
  }
  if (l->what_ifs) fputs(l->what_ifs, f);
}

// Returns the share of flops that is no work, ", idle 14.3 % (i is 14 in blocks of 4 over tile)",
// or
// "".
static const char *idle_text(Arena *a, const Ledger *l) {
  if (l->partition.idle_flops <= 0) return "";
  return arena_printf(a, ", idle %.1f %%%s", l->partition.idle_flops * 100, l->uneven);
}

static bool any_shortened(const Ledger *l) {
  for (uint32_t i = 0; i < l->nlines; i++)
    if (l->line[i].shortened || l->line[i].n > 1) return true;
  return false;
}

char *ledger_text(Arena *a, const Ledger *l, bool all) {
  TextStream text;
  FILE *f = stream_begin(&text);
  const PartitionFacts *p = &l->partition;
  fprintf(f, "mesh %s: %u collective%s, %lld byte%s sent by a processor in a step\n",
          l->graph->mesh->naxes ? mesh_option(a, l->graph->mesh) : "of one processor", l->nrows,
          plural(l->nrows), (long long)l->wire_bytes, plural(l->wire_bytes));
  (all ? put_rows : put_lines)(f, a, l);
  put_totals(f, a, l);
  put_rules(f, a, l);
  fputs(alike_text(a, l, all), f);
  fprintf(f,
          "predicted time of all collectives: %s\nflops of a processor %lld of %lld, "
          "redundant %.1f %%%s; padding %.1f %%\n",
          seconds_text(a, l->seconds), (long long)p->flops, (long long)p->flops_whole,
          (p->redundant_flops - p->idle_flops) * 100, idle_text(a, l), p->padding * 100);
  fprintf(f, "parameters %lld B, optimizer %lld B", (long long)p->parameter_bytes,
          (long long)p->optimizer_bytes);
  if (l->peak_bytes) fprintf(f, ", peak %lld B", (long long)l->peak_bytes);
  if (l->step) fprintf(f, "\npredicted step %s", l->step);
  fprintf(f, "\n%s%s", l->memory ? l->memory : "",
          !all && any_shortened(l) ? "explain -v lists every call and every name\n" : "");
  return stream_end(&text, a);
}
