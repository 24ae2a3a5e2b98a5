// Explains single values: which axes split each dim, into which blocks and by which rule; who reads
// the value in which sharding; what its movement costs.
#include "ir/base/stream.h"
#include "ir/base/units.h"
#include "partition/explain/ledger_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const value_kinds[] = {"input",           "parameter", "state",
                                   "optimizer state", "value",     "gradient"};

// -- the list -----------------------------------------------------------------------------------

typedef struct NamedNode {
  const char *name, *gradient_of;
  NodeId node;
  bool output;
} NamedNode;
typedef VEC(NamedNode) NamedNodes;

static int by_name(const void *x, const void *y) {
  const NamedNode *a = x, *b = y;
  int order = strcmp(a->name, b->name);
  if (order) return order;
  return a->output != b->output ? a->output - b->output
         : a->node < b->node    ? -1
                                : a->node > b->node;
}

static int by_node(const void *x, const void *y) {
  const NamedNode *a = x, *b = y;
  return a->node != b->node ? (a->node < b->node ? -1 : 1) : strcmp(a->name, b->name);
}

// Returns the named values of the graph, in graph order. If several nodes have one name, the list
// has the node that is an output, else the last node. Nodes with the name of a declared tensor,
// such as casts of it, are left out.
static NamedNodes named_nodes(Arena *a, const Placer *p) {
  NamedNodes all = {0}, out = {0};
  for (NodeId n = 1; n <= graph_count(p->g); n++)
    if (p->graph->subject[n].name && !graph_node(p->g, n)->attr->decl &&
        !graph_find_decl(p->g, p->graph->subject[n].name))
      vec_push(a, all) =
          (NamedNode){p->graph->subject[n].name, p->graph->subject[n].gradient_of, n, false};
  for (uint32_t o = 0; o < p->g->output.n; o++)
    if (p->g->output.at[o].kind == OUT_VALUE && !graph_find_decl(p->g, p->g->output.at[o].name))
      vec_push(a, all) = (NamedNode){p->g->output.at[o].name, p->g->output.at[o].gradient_of,
                                     p->g->output.at[o].value, true};
  if (all.n) qsort(all.at, all.n, sizeof *all.at, by_name);
  for (uint32_t i = 0; i < all.n; i++)
    if (i + 1 == all.n || strcmp(all.at[i].name, all.at[i + 1].name) != 0)
      vec_push(a, out) = all.at[i];
  if (out.n) qsort(out.at, out.n, sizeof *out.at, by_node);
  return out;
}

// Returns the size, the blocks and the axes of dim k of node n, in the settled sharding (the one
// that readers see).
static ValueDim dim_of(Arena *a, const Placer *p, NodeId n, int k) {
  const Dim *d = dim_get(p->g->dims, graph_node(p->g, n)->dims->at[k]);
  Axes split = p->result.settled[n]->split[k];
  ValueDim out = {.name = d->name,
                  .size = d->size,
                  .block = block_length(p->g->mesh, d->size, split),
                  .axes = split,
                  .rule = -1};
  if (split.n)
    out.rule = placement_rule(&p->result, n, graph_node(p->g, n)->dims->at[k], split.at[0]);
  if (split.n && graph_node(p->g, n)->op == OP_PIN)
    out.rule = -1,
    out.why = arena_printf(a, "layout(...) at line %u", graph_node(p->g, n)->origin->pos.line);
  if (split.n && out.rule < 0 && !out.why) out.why = "as its arguments and users";
  return out;
}

// Returns the axes of size 2 or more along which all processors have the same values under sharding
// s.
static Axes replicated_axes(const Mesh *m, const Sharding *s) {
  Axes out = {0};
  for (int axis = 0; axis < m->naxes; axis++)
    if (m->axis[axis].size > 1 && sharding_dim_of(s, axis) < 0 && !axes_has(s->partial, axis))
      axes_append(&out, axis);
  return out;
}

// Returns the axes over which node n is partial for all that read it: none of them needs the full
// sum.
static Axes partial_for_all(const Placer *p, NodeId n) {
  Axes out = p->result.computed[n]->partial;
  const Read *r = reads_of(p, n), *outputs = outputs_of(p, n);
  if (!r->node && !outputs->output) return (Axes){0};
  for (; r->node; r++) {
    Axes has = out, need = need_of(p, r).partial;
    out = (Axes){0};
    for (int i = 0; i < has.n; i++)
      if (axes_has(need, has.at[i])) out.at[out.n++] = has.at[i];
  }
  return outputs->output ? (Axes){0} : out;
}

// Returns the number of nodes of the backward pass that read the value of forward node n.
static uint32_t backward_uses(const Placer *p, NodeId n) {
  uint32_t count = 0;
  if (graph_node(p->g, n)->origin->backward) return 0;
  for (const Read *r = reads_of(p, n); r->node; r++)
    if (graph_node(p->g, r->node)->origin->backward && r[1].node != r->node) count++;
  return count;
}

static ExplainedValue value_of(Arena *a, const Ledger *l, const char *name, ValueKind kind,
                               NodeId n) {
  const Placer *p = placer_of(l->placement);
  const Node *node = graph_node(p->g, n);
  Sharding settled = *p->result.settled[n];
  settled.partial = partial_for_all(p, n);
  settled.monoid = p->result.computed[n]->monoid;
  ExplainedValue v = {.name = name,
                      .kind = kind,
                      .node = n,
                      .type = (Dtype)node->type,
                      .pos = node->origin->pos,
                      .ndims = node->dims->n,
                      .partial = p->result.computed[n]->partial,
                      .monoid = p->result.computed[n]->monoid,
                      .gradient = -1};
  for (int k = 0; k < v.ndims; k++) v.dim[k] = dim_of(a, p, n, k);
  v.same = replicated_axes(p->g->mesh, &settled);
  v.computed = sharding_text(a, p->g, node->dims, p->result.computed[n]);
  v.seen = sharding_text(a, p->g, node->dims, &settled);
  v.constant = !p->graph->given[n];
  v.why = placement_why(l->placement, l->diag, n);
  v.bytes = node_bytes(p->g, n);
  v.block_bytes = sharding_bytes(p->g, n, &settled);
  if (kind == VALUE_COMPUTED) v.kept_for = backward_uses(p, n);
  return v;
}

static void add_rows(Arena *a, const Ledger *l, ExplainedValue *v) {
  for (uint32_t i = 0; i < l->nrows; i++) {
    const LedgerRow *row = &l->row[i];
    int64_t mine = 0, all = 0;
    for (uint32_t k = 0; k < row->nparts; k++) {
      all += row->part[k].bytes;
      if (!strcmp(row->part[k].value, v->name)) mine += row->part[k].bytes;
    }
    if (!mine) continue;
    if (!v->row) v->row = arena_array(a, uint32_t, l->nrows - i);
    v->row[v->nrows++] = i;
    const CollFact *c = row->fact;
    double parts = (double)(all ? all : 1);
    v->calls += c->times;
    v->wire_bytes += (int64_t)((double)(c->wire_bytes * c->times) * (double)mine / parts);
    v->seconds += c->seconds * (double)c->times * (double)mine / parts;
  }
}

int explained_find(const ExplainedValues *v, const char *name) {
  for (uint32_t i = 0; i < v->n; i++)
    if (!strcmp(v->at[i].name, name)) return (int)i;
  return -1;
}

// Sets in `param` the indices, in the list v, of the parameter's gradient and of its optimizer
// tensors.
static void add_training(Arena *a, const Graph *g, ExplainedValues *v, ExplainedValue *param) {
  for (uint32_t i = 0; i < v->n && param->gradient < 0; i++)
    if (v->at[i].gradient_of && !strcmp(v->at[i].gradient_of, param->name))
      param->gradient = (int)i;
  param->slot = arena_array(a, uint32_t, v->n);
  for (uint32_t i = 0; i < v->n; i++)
    if (v->at[i].kind == VALUE_SLOT && g->decl.at[v->at[i].decl - 1].of == param->decl)
      param->slot[param->nslots++] = i;
}

ExplainedValues *explained_values(Arena *a, const Ledger *l) {
  static const ValueKind kind[] = {[DECL_INPUT] = VALUE_INPUT,
                                   [DECL_PARAM] = VALUE_PARAM,
                                   [DECL_STATE] = VALUE_STATE,
                                   [DECL_SLOT] = VALUE_SLOT};
  const Graph *g = l->placement->graph;
  NamedNodes named = named_nodes(a, placer_of(l->placement));
  ExplainedValues *v = arena_new_of(a, ExplainedValues);
  v->at = arena_array(a, ExplainedValue,
                      g->decl.n + named.n + 2); // 2 spare entries: explained_part appends one
  for (uint32_t d = 0; d < g->decl.n; d++) {
    const Decl *decl = &g->decl.at[d];
    if (!decl->node) continue;
    v->at[v->n] = value_of(a, l, decl->name, kind[decl->kind], decl->node);
    v->at[v->n].pos = decl->pos;
    v->at[v->n++].decl = d + 1;
  }
  for (uint32_t i = 0; i < named.n; i++) {
    const NamedNode *b = &named.at[i];
    v->at[v->n] =
        value_of(a, l, b->name, b->gradient_of ? VALUE_GRADIENT : VALUE_COMPUTED, b->node);
    v->at[v->n++].gradient_of = b->gradient_of;
  }
  for (uint32_t i = 0; i < v->n; i++) {
    add_rows(a, l, &v->at[i]);
    if (v->at[i].kind == VALUE_PARAM) add_training(a, g, v, &v->at[i]);
  }
  return v;
}

int explained_part(Arena *a, const Ledger *l, ExplainedValues *v, const char *name) {
  const Graph *g = l->placement->graph;
  for (int backward = 0; backward < 2; backward++)
    for (NodeId n = graph_count(g); n > 0; n--) {
      const Origin *o = graph_node(g, n)->origin;
      if (!o->value || o->backward != backward || strcmp(o->value, name) != 0) continue;
      v->at[v->n] = value_of(a, l, name, VALUE_COMPUTED, n);
      add_rows(a, l, &v->at[v->n]);
      return (int)v->n++;
    }
  return -1;
}

// -- who reads it -------------------------------------------------------------------------------

static bool same_use(const ValueUse *x, const ValueUse *y) {
  bool same_of = x->of == y->of || (x->of && y->of && !strcmp(x->of, y->of));
  return same_of && x->backward == y->backward && !strcmp(x->user, y->user) &&
         !strcmp(x->wants, y->wants);
}

static void add_use(ValueUse *list, uint32_t *n, ValueUse use) {
  for (uint32_t i = 0; i < *n; i++)
    if (same_use(&list[i], &use)) {
      list[i].times++;
      return;
    }
  list[(*n)++] = use;
}

// Returns the reader of a value as text. A scan reads the next value of a carry, and a carry its
// value in the first step: both are named by the carry.
static const char *user_text(Arena *a, const Graph *g, const Read *r) {
  const Node *x = r->node ? graph_node(g, r->node) : NULL;
  bool scan = x && x->op == OP_SCAN;
  if (!scan && !(x && x->op == OP_CARRY)) return reader_text(a, g, r);
  const Region *region = region_get(g, x->attr->region);
  const char *name = scan ? NULL : x->origin->value;
  for (NodeId n = 1; scan && n <= graph_count(g) && !name; n++) {
    const Node *carry = graph_node(g, n);
    if (carry->op == OP_CARRY && carry->attr->region == x->attr->region &&
        (int)carry->attr->carry == r->arg)
      name = carry->origin->value;
  }
  return arena_printf(a, "the %s step of the scan over %s at line %u%s%s", scan ? "next" : "first",
                      dim_get(g->dims, region->t)->name, region->pos.line, name ? ", as " : "",
                      name ? name : "");
}

ValueUse *explained_uses(Arena *a, const Ledger *l, const ExplainedValue *v, uint32_t *n) {
  const Placer *p = placer_of(l->placement);
  const Read *end = outputs_of(p, v->node);
  while (end->output) end++;
  ValueUse *list = arena_array(a, ValueUse, end - reads_of(p, v->node) + 1);
  *n = 0;
  for (const Read *r = reads_of(p, v->node); r < end; r++) {
    Sharding need = need_of(p, r);
    ValueUse use = {.node = r->node,
                    .user = user_text(a, p->g, r),
                    .wants = sharding_text(a, p->g, graph_node(p->g, v->node)->dims, &need),
                    .times = 1,
                    .converts = !sharding_equal(&need, p->result.computed[v->node])};
    if (r->node) {
      const Subject *subject = &p->graph->subject[r->node];
      const Origin *o = graph_node(p->g, r->node)->origin;
      use.of = subject->name ? subject->name : o->value;
      use.gradient = subject->name ? subject->gradient_of : o->gradient_of;
      use.backward = o->backward;
    }
    add_use(list, n, use);
  }
  return list;
}

// -- text ---------------------------------------------------------------------------------------

static void put_dims(FILE *f, Arena *a, const Ledger *l, const ExplainedValue *v) {
  for (int k = 0; k < v->ndims; k++) {
    const ValueDim *d = &v->dim[k];
    if (!d->axes.n) {
      fprintf(f, "  %s: %lld, not split; no rule\n", d->name, (long long)d->size);
      continue;
    }
    const char *by = d->rule >= 0 ? l->rule[d->rule].text : d->why,
               *place = d->rule >= 0 ? l->rule[d->rule].place : "";
    fprintf(f, "  %s: %lld over %s in blocks of %lld; %s%s%s\n", d->name, (long long)d->size,
            axes_text(a, l->graph->mesh, d->axes), (long long)d->block, by, *place ? ": " : "",
            place);
  }
  if (v->same.n)
    fprintf(f, "  the same on all processors along %s\n", axes_text(a, l->graph->mesh, v->same));
}

static void put_uses(FILE *f, Arena *a, const Ledger *l, const ExplainedValue *v) {
  uint32_t n;
  ValueUse *use = explained_uses(a, l, v, &n);
  for (uint32_t i = 0; i < n; i++) {
    const ValueUse *u = &use[i];
    const char *why = u->node ? graph_node(l->placement->graph, u->node)->origin->why : NULL;
    const char *what = why && !strcmp(why, "optimizer") ? "the update of "
                       : why && !strcmp(why, "norm")    ? ""
                       : u->backward && !u->gradient    ? "the gradient of "
                                                        : "";
    const char *of = u->of ? arena_printf(a, " for %s%s", what, u->of) : "";
    const char *times = u->times > 1 ? arena_printf(a, " (%u times)", u->times) : "";
    fprintf(f, "  read by %s%s%s: requests %s%s\n", u->user, of, times, u->wants,
            u->converts ? ", converted" : "");
  }
}

// Prints a line about v, the gradient or an optimizer state of a parameter. `what` begins the line.
static void put_other(FILE *f, const char *what, const ExplainedValue *v) {
  fprintf(f, "  %s %s: computed %s", what, v->name, v->computed);
  if (strcmp(v->computed, v->seen) != 0) fprintf(f, "; seen by its uses: %s", v->seen);
  fprintf(f, "; %lld B a processor", (long long)v->block_bytes);
  if (v->calls)
    fprintf(f, "; %lld call%s, %lld B sent", (long long)v->calls, plural(v->calls),
            (long long)v->wire_bytes);
  fprintf(f, "\n");
}

// Prints the splits that the value has where it is computed, and that its readers do not see.
static void put_computed_splits(FILE *f, const Ledger *l, const ExplainedValue *v) {
  const Placement *p = l->placement;
  const Mesh *m = l->graph->mesh;
  for (int k = 0; k < v->ndims; k++) {
    Axes split = p->computed[v->node]->split[k];
    for (int i = 0; i < split.n; i++)
      if (!axes_has(v->dim[k].axes, split.at[i]))
        fprintf(f, "  where it is computed, %s also splits %s, to share the work\n",
                m->axis[split.at[i]].name, v->dim[k].name);
  }
}

// Prints where layout(...) in the model pins the value.
static void put_pins(FILE *f, const Ledger *l, const ExplainedValue *v) {
  const Graph *g = l->placement->graph;
  if (graph_node(g, v->node)->op == OP_PIN)
    fprintf(f, "  pinned by layout(...) at line %u\n", graph_node(g, v->node)->origin->pos.line);
  for (const Read *r = reads_of(placer_of(l->placement), v->node); r->node; r++)
    if (graph_node(g, r->node)->op == OP_PIN)
      fprintf(f, "  pinned after it is computed, by layout(...) at line %u\n",
              graph_node(g, r->node)->origin->pos.line);
}

// Returns the number of conversions that readers of v request.
static uint32_t conversions(Arena *a, const Ledger *l, const ExplainedValue *v) {
  uint32_t n, out = 0;
  const ValueUse *use = explained_uses(a, l, v, &n);
  for (uint32_t i = 0; i < n; i++) out += use[i].converts;
  return out;
}

static void put_no_costs(FILE *f, Arena *a, const Ledger *l, const ExplainedValue *v) {
  fputs(conversions(a, l, v)
            ? "  costs nothing: the conversions that readers request send nothing, or cancel with "
              "later ones\n"
            : "  costs nothing: no collective moves it\n",
        f);
}

// Returns why the call of `row` moves value v. The values of a call may have causes of their own.
static const char *why_moved(const LedgerRow *row, const ExplainedValue *v) {
  for (uint32_t k = 0; k < row->nparts; k++)
    if (!strcmp(row->part[k].value, v->name) && row->part[k].why) return row->part[k].why;
  return row->fact->why ? row->fact->why : "";
}

// Returns what of value v the call of `row` moves if it is not v itself: another operation of the
// statement that binds v, whose dims are others. "of take[b, t, d] at line 7; ", or "".
static const char *moved_part(Arena *a, const Ledger *l, const LedgerRow *row,
                              const ExplainedValue *v) {
  const Graph *g = l->placement->graph;
  for (uint32_t k = 0; k < row->nparts; k++) {
    const LedgerPart *p = &row->part[k];
    if (strcmp(p->value, v->name) != 0 || !p->node) continue;
    const Node *x = graph_node(g, p->node);
    if (p->node == v->node || dims_equal(x->dims, graph_node(g, v->node)->dims)) return "";
    return arena_printf(a, "of %s[%s] at line %u; ", node_source_name(g, p->node),
                        dims_text(a, g->dims, x->dims), x->origin->pos.line);
  }
  return "";
}

static void put_cost(FILE *f, Arena *a, const Ledger *l, const ExplainedValue *v,
                     const LedgerRow *row) {
  const CollFact *c = row->fact;
  const char *with = row->nparts > 1 ? arena_printf(a, " with %u other%s", row->nparts - 1,
                                                    plural(row->nparts - 1))
                                     : "";
  fprintf(f, "  costs %s over %s x%lld, %s: %lld B%s%s, %s\n    %s%s; %s\n", coll_text(c->kind),
          axes_text(a, l->graph->mesh, c->axes), (long long)c->group,
          c->backward ? "backward" : "forward", (long long)c->wire_bytes,
          c->times > 1 ? arena_printf(a, " x%lld", (long long)c->times) : "", with,
          seconds_text(a, c->seconds), moved_part(a, l, row, v), why_moved(row, v),
          ledger_remedy(a, l, row));
  for (uint32_t k = 0; k < row->nparts; k++) {
    const char *choice =
        strcmp(row->part[k].value, v->name) ? NULL : ledger_choice(a, l, row, &row->part[k]);
    if (choice) fprintf(f, "    %s\n", choice);
  }
}

static void put_costs(FILE *f, Arena *a, const Ledger *l, const ExplainedValue *v) {
  if (!v->nrows) put_no_costs(f, a, l, v);
  for (uint32_t i = 0; i < v->nrows; i++) put_cost(f, a, l, v, &l->row[v->row[i]]);
  if (v->calls > 1)
    fprintf(f, "  in a step: %lld calls, %lld B sent for it, %s\n", (long long)v->calls,
            (long long)v->wire_bytes, seconds_text(a, v->seconds));
}

char *explained_text(Arena *a, const Ledger *l, const ExplainedValues *values, int index) {
  const ExplainedValue *v = &values->at[index];
  const Graph *g = l->placement->graph;
  TextStream text;
  FILE *f = stream_begin(&text);
  const char *place = ledger_place(a, l, v->pos);
  fprintf(f, "%s[%s]%s%s  %s, %s, %lld B, %lld B a processor\n", v->name,
          dims_text(a, g->dims, graph_node(g, v->node)->dims), *place ? "  " : "", place,
          value_kinds[v->kind], dtype_text(v->type), (long long)v->bytes,
          (long long)v->block_bytes);
  fprintf(f, "  computed: %s\n  seen by its uses: %s\n  because: %s\n", v->computed, v->seen,
          v->why);
  put_pins(f, l, v);
  put_dims(f, a, l, v);
  put_computed_splits(f, l, v);
  if (v->gradient >= 0) put_other(f, "gradient", &values->at[v->gradient]);
  for (uint32_t i = 0; i < v->nslots; i++) put_other(f, "optimizer", &values->at[v->slot[i]]);
  put_uses(f, a, l, v);
  if (v->kept_for)
    fprintf(f, "  kept for the backward pass, which reads it in %u place%s\n", v->kept_for,
            plural(v->kept_for));
  if (v->memory) fprintf(f, "  memory: %s\n", v->memory);
  put_costs(f, a, l, v);
  return stream_end(&text, a);
}

// Returns the text of a value without what differs between the rounds of a loop.
static const char *text_of_rounds(Arena *a, const Ledger *l, const ExplainedValues *values,
                                  uint32_t index) {
  ExplainedValue *v = &values->at[index];
  const char *memory = v->memory;
  v->memory = NULL;
  const char *text = name_with_stars(a, explained_text(a, l, values, (int)index));
  v->memory = memory;
  return text;
}

// Returns the calls of these rows that are not marked in `counted`, and marks them: a call may move
// several values.
static int64_t count_calls(const Ledger *l, const ExplainedValue *v, bool *counted) {
  int64_t calls = 0;
  for (uint32_t i = 0; i < v->nrows; i++) {
    if (!counted[v->row[i]]) calls += l->row[v->row[i]].fact->times;
    counted[v->row[i]] = true;
  }
  return calls;
}

char *explained_pattern_text(Arena *a, const Ledger *l, const ExplainedValues *values,
                             const char *pattern) {
  TextStream text;
  FILE *f = stream_begin(&text);
  VEC(const char *) seen = {0};
  bool *counted = arena_array(a, bool, l->nrows + 1);
  uint32_t n = 0;
  int64_t calls = 0, bytes = 0;
  double seconds = 0;
  for (uint32_t i = 0; i < values->n; i++) {
    const ExplainedValue *v = &values->at[i];
    if (!name_matches(pattern, v->name)) continue;
    n++;
    calls += count_calls(l, v, counted);
    bytes += v->wire_bytes;
    seconds += v->seconds;
    const char *own = text_of_rounds(a, l, values, i);
    uint32_t k = 0;
    while (k < seen.n && strcmp(seen.at[k], own) != 0) k++;
    if (k < seen.n) continue;
    vec_push(a, seen) = own;
    fputs(explained_text(a, l, values, (int)i), f);
  }
  fprintf(f, "%u value%s match %s, in %u way%s: %lld call%s, %lld B sent for them, %s\n", n,
          plural(n), pattern, seen.n, plural(seen.n), (long long)calls, plural(calls),
          (long long)bytes, seconds_text(a, seconds));
  char *out = stream_end(&text, a);
  return n ? out : NULL;
}
