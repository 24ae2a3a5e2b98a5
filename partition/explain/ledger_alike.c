// Finds what processors do alike: work that several of them repeat, tensors of which each has a
// copy, and processors that have no block of a dim.
//
//   computed alike by the 4 of cols: q, score, a (lines 9 to 11), 49152 flops; heads, t, s are replicated, no rule splits them
//   kept alike by the 2 of rows: 12.9 MiB a processor could be spared: table 8.0 MiB, head.w 4.9 MiB
#include "ir/base/units.h"
#include "partition/explain/ledger_internal.h"

#include <stdlib.h>
#include <string.h>

enum { NAMES_SHOWN = 4, DIMS_SHOWN = 6, DIMS_KEPT = 16 };

// -- groups -------------------------------------------------------------------------------------

// Returns the group of `list` for the axes, which is added if it is new.
static Alike *group_of(Arena *a, AlikeList *list, Axes axes) {
  for (uint32_t i = 0; i < list->n; i++)
    if (axes_equal(list->at[i].axes, axes)) return &list->at[i];
  if (!list->at) list->at = arena_array(a, Alike, (uint32_t)1 << MAX_AXES);
  list->at[list->n] = (Alike){.axes = axes, .dim = arena_array(a, const char *, DIMS_KEPT)};
  return &list->at[list->n++];
}

// Adds an amount (flops or bytes) of value `name` to a group. Values of the rounds of a loop count
// as one: layer.*.q.
static void add_amount(Arena *a, Alike *g, const char *name, uint32_t line, double amount) {
  const char *all = name_with_stars(a, name);
  uint32_t k = 0;
  while (k < g->value.n && strcmp(g->value.at[k].name, all) != 0) k++;
  if (k == g->value.n) vec_push(a, g->value) = (AlikeValue){.name = all};
  g->value.at[k].amount += amount;
  g->total += amount;
  if (line && (!g->first_line || line < g->first_line)) g->first_line = line;
  if (line > g->last_line) g->last_line = line;
}

static int by_amount(const void *x, const void *y) {
  const AlikeValue *a = x, *b = y;
  if (a->amount != b->amount) return a->amount > b->amount ? -1 : 1;
  return strcmp(a->name, b->name);
}

static int by_total(const void *x, const void *y) {
  const Alike *a = x, *b = y;
  return a->total != b->total ? (a->total > b->total ? -1 : 1) : 0;
}

static void sort_groups(AlikeList *list) {
  for (uint32_t i = 0; i < list->n; i++)
    qsort(list->at[i].value.at, list->at[i].value.n, sizeof *list->at[i].value.at, by_amount);
  if (list->n) qsort(list->at, list->n, sizeof *list->at, by_total);
}

// -- work ---------------------------------------------------------------------------------------

static void remove_axes(Axes *from, Axes gone) {
  Axes left = {0};
  for (int i = 0; i < from->n; i++)
    if (!axes_has(gone, from->at[i])) left.at[left.n++] = from->at[i];
  *from = left;
}

// Calls `visit` with each dim of the contraction: those of its result, and those that it sums.
static void each_dim(const Graph *g, const Node *n, void (*visit)(void *with, const Dim *d),
                     void *with) {
  for (int i = 0; i < n->dims->n; i++) visit(with, dim_get(g->dims, n->dims->at[i]));
  for (int i = 0; i < n->attr->ndims; i++) visit(with, dim_get(g->dims, n->attr->dims[i]));
}

static void drop_split(void *with, const Dim *d) { remove_axes(with, d->axes); }

// Returns the axes of size 2 or more that split no dim of contraction n.
static Axes unsplit_axes(const Graph *g, const Node *n) {
  Axes axes = {0};
  for (int k = 0; k < g->mesh->naxes; k++)
    if (g->mesh->axis[k].size > 1) axes.at[axes.n++] = (uint8_t)k;
  each_dim(g, n, drop_split, &axes);
  return axes;
}

// Returns those of the axes over which the result of the contraction is partial although they split
// none of its dims: its arguments are partial sums there, so that processors do not compute alike.
static Axes partial_axes(const Placement *p, const Node *n, Axes unsplit) {
  Axes out = {0};
  if (!n->origin->of) return out;
  for (int i = 0; i < unsplit.n; i++)
    if (axes_has(p->computed[n->origin->of]->partial, unsplit.at[i]))
      out.at[out.n++] = unsplit.at[i];
  return out;
}

// The group to which add_unsplit adds the dims of contractions that no layout rule names. Dims with
// a dot in the name are left out: a call has made them from a dim of the model (conv2.out from c1).
typedef struct Unsplit {
  const Layout *layout;
  Alike *group;
} Unsplit;

static void add_unsplit(void *with, const Dim *d) {
  const Unsplit *u = with;
  Alike *g = u->group;
  bool known = d->axes.n || d->out || d->size < 2 || strchr(d->name, '.') || g->ndims == DIMS_KEPT;
  for (uint32_t i = 0; i < g->ndims; i++) known |= g->dim[i] == d->name;
  for (uint32_t i = 0; u->layout && i < u->layout->n; i++)
    known |= u->layout->rule[i].dim && !strcmp(u->layout->rule[i].dim, d->name);
  if (!known) g->dim[g->ndims++] = d->name;
}

// Adds contraction n to the group of the axes, if there are any.
static void add_work(Arena *a, const Graph *lowered, NodeId n, Axes axes, AlikeList *list) {
  const Node *node = graph_node(lowered, n);
  const Origin *o = node->origin;
  if (!axes.n) return;
  Alike *g = group_of(a, list, axes);
  double flops =
      (double)contract_flops(lowered, n, NULL, NULL) * (double)region_times(lowered, node->region);
  add_amount(a, g, o->value ? o->value : op_row((Op)node->op)->text, o->pos.line, flops);
  each_dim(lowered, node, add_unsplit, &(Unsplit){&lowered->layout, g});
}

void alike_work(Arena *a, const Graph *lowered, Ledger *l) {
  for (NodeId n = 1; n <= graph_count(lowered); n++) {
    const Node *node = graph_node(lowered, n);
    if (node->op != OP_CONTRACT) continue;
    Axes alike = unsplit_axes(lowered, node), partial = partial_axes(l->placement, node, alike);
    remove_axes(&alike, partial);
    add_work(a, lowered, n, alike, &l->work);
    add_work(a, lowered, n, partial, &l->of_sums);
  }
  sort_groups(&l->work);
  sort_groups(&l->of_sums);
}

// -- memory -------------------------------------------------------------------------------------

// Returns whether the value is in memory for long: a tensor of the model, or kept for gradients.
// Values that have no buffer, such as windows that a product reads in place, are not.
static bool is_kept(const ExplainedValue *v) {
  return v->kind < VALUE_COMPUTED || (v->kind == VALUE_COMPUTED && v->kept_for > 0 && v->memory);
}

AlikeList alike_memory(Arena *a, const Ledger *l, const ExplainedValues *values) {
  AlikeList out = {0};
  for (uint32_t i = 0; i < values->n; i++) {
    const ExplainedValue *v = &values->at[i];
    if (!v->same.n || !is_kept(v) || v->constant) continue;
    double copies = (double)axes_size(l->graph->mesh, v->same);
    add_amount(a, group_of(a, &out, v->same), v->name, v->pos.line,
               (double)v->block_bytes * (1 - 1 / copies));
  }
  sort_groups(&out);
  return out;
}

// -- processors without a block -------------------------------------------------------------------

IdleBlocks *idle_blocks(Arena *a, const Graph *lowered, uint32_t *n) {
  const DimTable *t = lowered->dims;
  IdleBlocks *out = arena_array(a, IdleBlocks, dim_count(t) + 1);
  *n = 0;
  for (DimId d = 1; d <= dim_count(t); d++) {
    const Dim *dim = dim_get(t, d), *whole = dim_get(t, dim->whole);
    if (!dim->axes.n || dim->out || whole->local) continue;
    int64_t parts = axes_size(lowered->mesh, dim->axes),
            used = (whole->size + dim->size - 1) / dim->size;
    if (used < parts)
      out[(*n)++] = (IdleBlocks){whole->name, dim->axes, whole->size, dim->size, parts, used};
  }
  return out;
}

enum { UNEVEN_SHARE = 20 }; // a dim is named if its blocks have one in so many elements too many

const char *uneven_text(Arena *a, const Graph *lowered) {
  const DimTable *t = lowered->dims;
  const char *text = "";
  double most = 1.0 / UNEVEN_SHARE;
  for (DimId d = 1; d <= dim_count(t); d++) {
    const Dim *dim = dim_get(t, d), *whole = dim_get(t, dim->whole);
    if (!dim->axes.n || dim->out || whole->local) continue;
    int64_t parts = axes_size(lowered->mesh, dim->axes);
    double room = (double)dim->size * (double)parts;
    if ((whole->size + dim->size - 1) / dim->size < parts) continue; // idle_blocks has it
    if (1 - (double)whole->size / room <= most) continue;
    most = 1 - (double)whole->size / room;
    text = arena_printf(a, " (%s is %lld in blocks of %lld over %s)", whole->name,
                        (long long)whole->size, (long long)dim->size,
                        axes_text(a, lowered->mesh, dim->axes));
  }
  return text;
}

// -- text ---------------------------------------------------------------------------------------

static const char *lines_of(Arena *a, const Alike *g) {
  if (!g->first_line) return "";
  return g->first_line == g->last_line
             ? arena_printf(a, " (line %u)", g->first_line)
             : arena_printf(a, " (lines %u to %u)", g->first_line, g->last_line);
}

// Returns "computed alike by the 4 of cols", with `what` in place of the first words.
static const char *head_of(Arena *a, const Mesh *m, const Alike *g, const char *what) {
  return arena_printf(a, "%s by the %lld of %s", what, (long long)axes_size(m, g->axes),
                      axes_text(a, m, g->axes));
}

static const char *dims_of(Arena *a, const Alike *g) {
  const char *text = "";
  for (uint32_t i = 0; i < g->ndims && i < DIMS_SHOWN; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "; ", g->dim[i]);
  if (!g->ndims) return "";
  return arena_printf(a, "%s%s %s replicated, no rule splits %s", text,
                      g->ndims > DIMS_SHOWN ? ", ..." : "", g->ndims == 1 ? "is" : "are",
                      g->ndims == 1 ? "it" : "them");
}

static const char *work_text(Arena *a, const Mesh *m, const Alike *g, const char *what) {
  const char *text = arena_printf(a, "%s: ", head_of(a, m, g, what));
  for (uint32_t i = 0; i < g->value.n && i < NAMES_SHOWN; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", g->value.at[i].name);
  if (g->value.n > NAMES_SHOWN)
    text = arena_printf(a, "%s and %u more", text, g->value.n - NAMES_SHOWN);
  return arena_printf(a, "%s%s, %.0f flops%s\n", text, lines_of(a, g), g->total, dims_of(a, g));
}

static const char *memory_text(Arena *a, const Mesh *m, const Alike *g) {
  const char *text =
      arena_printf(a, "%s: %s a processor could be spared:", head_of(a, m, g, "kept alike"),
                   bytes_text(a, (int64_t)g->total));
  for (uint32_t i = 0; i < g->value.n && i < NAMES_SHOWN; i++)
    text = arena_printf(a, "%s%s %s %s", text, i ? "," : "", g->value.at[i].name,
                        bytes_text(a, (int64_t)g->value.at[i].amount));
  return arena_printf(a, "%s%s\n", text, g->value.n > NAMES_SHOWN ? ", ..." : "");
}

const char *alike_text(Arena *a, const Ledger *l, bool all) {
  const Mesh *m = l->graph->mesh;
  const char *text = "";
  for (uint32_t i = 0; i < l->work.n + l->of_sums.n; i++) {
    bool partial = i >= l->work.n;
    const Alike *g = partial ? &l->of_sums.at[i - l->work.n] : &l->work.at[i];
    if (all || g->total >= 0.01 * (double)l->partition.flops)
      text =
          arena_printf(a, "%s%s", text,
                       work_text(a, m, g, partial ? "computed of partial sums" : "computed alike"));
  }
  for (uint32_t i = 0; i < l->copies.n; i++)
    if (all || l->copies.at[i].total >= 0.01 * (double)l->peak_bytes)
      text = arena_printf(a, "%s%s", text, memory_text(a, m, &l->copies.at[i]));
  return text;
}
