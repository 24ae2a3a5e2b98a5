// Compares two compiled steps. See compare.h.
//
//   step             34.630 ms -> 12.011 ms (x0.35)
//   moved layer.*.x, forward: all_reduce over cols x2, 4 times, 768.0 KiB, 83.1 us -> nothing
#include "frontend/report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/report/kernel_facts.h"
#include "ir/base/stream.h"

enum { MOST_SHOWN = 12 };

// -- figures ------------------------------------------------------------------------------------

static const char *bytes_of(Arena *a, double x) { return bytes_text(a, (int64_t)x); }
static const char *count_of(Arena *a, double x) { return arena_printf(a, "%.0f", x); }

static double calls_of(const Explain *e) { return (double)e->ledger->calls; }
static double sent_of(const Explain *e) { return (double)e->ledger->wire_bytes; }
static double step_of(const Explain *e) { return e->step->seconds; }
static double products_of(const Explain *e) { return e->step->of_kind[INSTR_GEMM]; }
static double kernels_of(const Explain *e) { return e->step->of_kind[INSTR_KERNEL]; }
static double rest_of(const Explain *e) {
  return e->step->compute - products_of(e) - kernels_of(e);
}
static double transfer_of(const Explain *e) { return e->step->transfer; }
static double hidden_of(const Explain *e) { return e->step->hidden; }
static double flops_of(const Explain *e) { return (double)e->ledger->partition.flops; }
static double peak_of(const Explain *e) { return (double)e->ledger->peak_bytes; }
static double parameters_of(const Explain *e) {
  return (double)e->ledger->partition.parameter_bytes;
}
static double optimizer_of(const Explain *e) {
  return (double)e->ledger->partition.optimizer_bytes;
}
static double launched_of(const Explain *e) {
  return (double)count_instructions(e->made->compiled->program, INSTR_KERNEL);
}
static double multiplied_of(const Explain *e) {
  return (double)count_instructions(e->made->compiled->program, INSTR_GEMM);
}

static const struct {
  const char *name;
  const char *(*text)(Arena *, double);
  double (*of)(const Explain *);
} figures[] = {
    {"predicted step", seconds_text, step_of},
    {"  products", seconds_text, products_of},
    {"  kernels", seconds_text, kernels_of},
    {"  copies and rest", seconds_text, rest_of},
    {"  collectives", seconds_text, transfer_of},
    {"  hidden of them", seconds_text, hidden_of},
    {"calls", count_of, calls_of},
    {"bytes sent", bytes_of, sent_of},
    {"flops", flops_text, flops_of},
    {"peak", bytes_of, peak_of},
    {"  parameters", bytes_of, parameters_of},
    {"  optimizer", bytes_of, optimizer_of},
    {"kernels run", count_of, launched_of},
    {"products run", count_of, multiplied_of},
};

static bool is_given(const Options *o, OptionId id, const char *text) {
  for (uint32_t i = 0; i < o->use[id].n; i++)
    if (!strcmp(o->use[id].at[i].text, text)) return true;
  return false;
}

// Returns the options of a step that the other one lacks, beside those that title_of names:
// ", --set depth=8".
static const char *own_options(Arena *a, const Options *o, const Options *other) {
  const char *text = "";
  for (int id = 0; id < OPTION_COUNT; id++)
    for (uint32_t i = 0; i < o->use[id].n; i++) {
      const char *value = o->use[id].at[i].text;
      bool named = id == OPTION_MESH || id == OPTION_LAYOUT || id == OPTION_MACHINE;
      if (!named && !is_given(other, (OptionId)id, value))
        text = arena_printf(a, "%s, %s%s%s", text, option_name((OptionId)id), *value ? " " : "",
                            value);
    }
  return text;
}

// Returns what distinguishes a step, as text: its model, mesh, layout and machine, and the options
// that the other one lacks.
static const char *title_of(Arena *a, const Explain *e, const Explain *other) {
  const Session *s = e->session;
  const char *machine = option_text(s->opt, OPTION_MACHINE);
  return arena_printf(
      a, "%s, mesh %s, layout %s%s%s%s", s->opt->argument.at[0], mesh_option(a, &s->model->mesh),
      layout_option(a, &s->model->mesh, &s->model->layout), machine ? ", machine " : "",
      machine ? machine : "", own_options(a, s->opt, other->session->opt));
}

// -- values -------------------------------------------------------------------------------------

static ComparedValue *entry(Arena *a, ComparedValues *all, const char *value, const char *phase) {
  for (uint32_t i = 0; i < all->differ.n; i++)
    if (!strcmp(all->differ.at[i].value, value) && !strcmp(all->differ.at[i].phase, phase))
      return &all->differ.at[i];
  vec_push(a, all->differ) = (ComparedValue){.value = value, .phase = phase};
  return &all->differ.at[all->differ.n - 1];
}

// Adds what one step does for a value. Several ways are listed once each.
static void add(Arena *a, ComparedValue *v, int side, const char *how, int64_t calls, int64_t bytes,
                double seconds) {
  const char *known = v->of[side].how;
  if (!known)
    v->of[side].how = how;
  else if (!strstr(known, how))
    v->of[side].how = arena_printf(a, "%s, %s", known, how);
  v->of[side].calls += calls;
  v->of[side].bytes += bytes;
  v->of[side].seconds += seconds;
}

// Returns the name of a moved value in a list of such values: without a name of its own, its
// operation and line.
static const char *moved_name(Arena *a, const LedgerPart *p, Pos pos) {
  if (!p->unnamed || !pos.line) return name_with_stars(a, p->value);
  return arena_printf(a, "%s at line %u", p->value, pos.line);
}

static void add_moved(Arena *a, const Explain *e, int side, ComparedValues *all) {
  const Ledger *l = e->ledger;
  for (uint32_t i = 0; i < l->nrows; i++) {
    const LedgerRow *row = &l->row[i];
    const CollFact *c = row->fact;
    int64_t bytes = 0;
    for (uint32_t k = 0; k < row->nparts; k++) bytes += row->part[k].bytes;
    const char *how = arena_printf(a, "%s over %s x%lld", coll_text(c->kind),
                                   axes_text(a, l->graph->mesh, c->axes), (long long)c->group);
    for (uint32_t k = 0; k < row->nparts; k++) {
      const LedgerPart *p = &row->part[k];
      double share = bytes ? (double)p->bytes / (double)bytes : 0, times = (double)c->times;
      add(a, entry(a, all, moved_name(a, p, c->pos), c->backward ? "backward" : "forward"), side,
          how, c->times, (int64_t)(share * (double)c->wire_bytes * times + 0.5),
          share * c->seconds * times);
    }
  }
}

// Returns the operation of a group whose values have no names, with its line.
static const char *unnamed(Arena *a, const Compilation *c, uint32_t group) {
  const Group *g = &c->fusion->group[group];
  const Node *x = graph_node(c->fusion->graph, g->nstored ? g->stored[0] : g->node[0]);
  const char *op = node_source_name(c->fusion->graph, g->nstored ? g->stored[0] : g->node[0]);
  return x->origin->pos.line ? arena_printf(a, "%s at line %u", op, x->origin->pos.line) : op;
}

static void add_kernels(Arena *a, const Explain *e, int side, ComparedValues *all) {
  const Compilation *c = e->made;
  for (uint32_t g = 0; g < c->fusion->ngroups; g++) {
    if (!kernel_runs(c, g) || c->fusion->group[g].kind == GROUP_COLLECTIVE) continue;
    KernelFact k = kernel_fact(a, c, e->step, g);
    const char *phase = k.update ? "update" : k.backward ? "backward" : "forward";
    const char *value = *k.names ? name_with_stars(a, k.names) : unnamed(a, c, g);
    double together = k.together > 1 ? k.together : 1;
    add(a, entry(a, all, value, phase), side, k.kind, k.rounds, k.bytes * k.rounds,
        k.seconds / together);
  }
}

static double apart(const ComparedValue *v) { return fabs(v->of[1].seconds - v->of[0].seconds); }

static bool differs(const ComparedValue *v) {
  const char *x = v->of[0].how, *y = v->of[1].how;
  double most = fmax(v->of[0].seconds, v->of[1].seconds);
  return !x || !y || strcmp(x, y) != 0 || v->of[0].calls != v->of[1].calls ||
         v->of[0].bytes != v->of[1].bytes || apart(v) > 0.01 * most;
}

static int by_difference(const void *x, const void *y) {
  const ComparedValue *a = x, *b = y;
  if (apart(a) != apart(b)) return apart(a) > apart(b) ? -1 : 1;
  int order = strcmp(a->value, b->value);
  return order ? order : strcmp(a->phase, b->phase);
}

// Keeps the values that differ, most different time first.
static void keep_different(ComparedValues *all) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->differ.n; i++)
    if (differs(&all->differ.at[i])) all->differ.at[n++] = all->differ.at[i];
  all->nequal = all->differ.n - n;
  all->differ.n = n;
  if (n) qsort(all->differ.at, n, sizeof *all->differ.at, by_difference);
}

Comparison *compare_steps(Arena *a, const Explain *const of[SIDES]) {
  Comparison *c = arena_new_of(a, Comparison);
  memcpy(c->side, of, sizeof c->side);
  c->nfigures = countof(figures);
  c->figure = arena_array(a, ComparedFigure, countof(figures));
  for (size_t i = 0; i < countof(figures); i++)
    c->figure[i] = (ComparedFigure){
        figures[i].name, figures[i].text, {figures[i].of(of[0]), figures[i].of(of[1])}};
  for (int side = 0; side < SIDES; side++) {
    const Timeline *t = &of[side]->memory;
    c->title[side] = title_of(a, of[side], of[1 - side]);
    c->peak[side] = t->ngroups ? peak_group_text(a, &t->group[0]) : "nothing";
    add_moved(a, of[side], side, &c->moved);
    add_kernels(a, of[side], side, &c->kernels);
  }
  keep_different(&c->moved);
  keep_different(&c->kernels);
  return c;
}

// -- text ---------------------------------------------------------------------------------------

static void put_figures(FILE *f, Arena *a, const Comparison *c) {
  const char *equal = "";
  for (uint32_t i = 0; i < c->nfigures; i++) {
    const ComparedFigure *x = &c->figure[i];
    const char *name = x->name + strspn(x->name, " ");
    const char *text[SIDES] = {x->text(a, x->of[0]), x->text(a, x->of[1])};
    if (!strcmp(text[0], text[1]) && fabs(x->of[1] - x->of[0]) < 0.005 * (1 + x->of[0])) {
      equal = arena_printf(a, "%s%s%s", equal, *equal ? ", " : "", name);
      continue;
    }
    fprintf(f, "%-17s %s -> %s", x->name, text[0], text[1]);
    if (x->of[0] > 0) fprintf(f, " (x%.2f)", x->of[1] / x->of[0]);
    fprintf(f, "\n");
  }
  if (*equal) fprintf(f, "equal             %s\n", equal);
}

static const char *done(Arena *a, const ComparedValue *v, int side) {
  if (!v->of[side].how) return "nothing";
  return arena_printf(a, "%s, %lld time%s, %s, %s", v->of[side].how, (long long)v->of[side].calls,
                      plural(v->of[side].calls), bytes_text(a, v->of[side].bytes),
                      seconds_text(a, v->of[side].seconds));
}

static void put_values(FILE *f, Arena *a, const ComparedValues *all, bool moved, bool list_all) {
  uint32_t n = list_all || all->differ.n < MOST_SHOWN ? all->differ.n : MOST_SHOWN;
  for (uint32_t i = 0; i < n; i++) {
    const ComparedValue *v = &all->differ.at[i];
    fprintf(f, "%s %s, %s: %s -> %s\n", moved ? "moved" : "kernel", v->value, v->phase,
            done(a, v, 0), done(a, v, 1));
  }
  const char *before = moved ? "moved value" : "value", *after = moved ? "" : " of kernels";
  if (n < all->differ.n) {
    uint32_t more = all->differ.n - n;
    fprintf(f, "%u more %s%s%s: -v lists them\n", more, before, plural(more), after);
  }
  if (all->nequal)
    fprintf(f, "alike: %u %s%s%s\n", all->nequal, before, plural(all->nequal), after);
}

char *compare_text(Arena *a, const Comparison *c, bool all) {
  TextStream text;
  FILE *f = stream_begin(&text);
  fprintf(f, "this   %s\nother  %s\n", c->title[0], c->title[1]);
  put_figures(f, a, c);
  put_values(f, a, &c->moved, true, all);
  put_values(f, a, &c->kernels, false, all);
  if (strcmp(c->peak[0], c->peak[1]) != 0)
    fprintf(f, "largest at the peak: %s\n                 -> %s\n", c->peak[0], c->peak[1]);
  return stream_end(&text, a);
}

char *compare_value_text(Arena *a, const Comparison *c, int value) {
  const ExplainedValues *other = c->side[1]->values;
  const char *name = c->side[0]->values->at[value].name;
  int there = explained_find(other, name);
  return arena_printf(a, "this   %s\n%sother  %s\n%s", c->title[0],
                      explained_text(a, c->side[0]->ledger, c->side[0]->values, value), c->title[1],
                      there < 0 ? arena_printf(a, "no value is named %s\n", name)
                                : explained_text(a, c->side[1]->ledger, other, there));
}

const char *compare_pattern_text(Arena *a, const Comparison *c, const char *pattern) {
  const char *text = "";
  for (int side = 0; side < SIDES; side++) {
    const Explain *e = c->side[side];
    const char *own = explained_pattern_text(a, e->ledger, e->values, pattern);
    text = arena_printf(a, "%s%-6s %s\n%s", text, side ? "other" : "this", c->title[side],
                        own ? own : arena_printf(a, "no value matches %s\n", pattern));
  }
  return text;
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *values_json(const ComparedValues *all) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < all->differ.n; i++) {
    const ComparedValue *v = &all->differ.at[i];
    json_t *one = json_pack("{s:s, s:s}", "value", v->value, "phase", v->phase);
    for (int side = 0; side < SIDES; side++)
      json_object_set_new(one, side ? "other" : "this",
                          v->of[side].how
                              ? json_pack("{s:s, s:I, s:I, s:f}", "how", v->of[side].how, "calls",
                                          (json_int_t)v->of[side].calls, "bytes",
                                          (json_int_t)v->of[side].bytes, "predicted_seconds",
                                          v->of[side].seconds)
                              : json_null());
    json_array_append_new(out, one);
  }
  return out;
}

json_t *compare_json(const Comparison *c) {
  json_t *out = json_pack("{s:s, s:s}", "this", c->title[0], "other", c->title[1]);
  json_t *list = json_array();
  for (uint32_t i = 0; i < c->nfigures; i++) {
    const ComparedFigure *x = &c->figure[i];
    json_array_append_new(list, json_pack("{s:s, s:f, s:f}", "name", x->name + strspn(x->name, " "),
                                          "this", x->of[0], "other", x->of[1]));
  }
  json_object_set_new(out, "figures", list);
  json_object_set_new(out, "moved", values_json(&c->moved));
  json_object_set_new(out, "moved_alike", json_integer(c->moved.nequal));
  json_object_set_new(out, "kernels", values_json(&c->kernels));
  json_object_set_new(out, "kernels_alike", json_integer(c->kernels.nequal));
  json_object_set_new(out, "peak",
                      json_pack("{s:s, s:s}", "this", c->peak[0], "other", c->peak[1]));
  return out;
}
