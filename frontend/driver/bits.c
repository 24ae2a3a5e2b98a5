// Finds out which results of a program have equal bits under which circumstances. See bits.h.
#include "frontend/driver/bits.h"

#include <string.h>

#include "frontend/driver/asynchronous.h"

#include "partition/explain/ledger.h"

enum { EXACT_NODES = 40000 }; // of a larger graph --exact is not compiled for its cost

// -- sums ---------------------------------------------------------------------------------------

static bool is_float(const Node *n) { return dtype_is_float((Dtype)n->type); }

static bool is_block(const Graph *g, DimId d) { return dim_get(g->dims, d)->whole != d; }

static bool adds(Monoid m) { return m == MONOID_SUM || m == MONOID_PROD; }

// Returns whether n is the result of a lookup or a window, possibly converted. At most one
// processor has each of its elements, and the others add zeros.
static bool is_looked_up(const Graph *g, const Node *n) {
  while (op_row((Op)n->op)->cls == COLLECTIVE) n = graph_node(g, n->args[0]);
  return n->op == OP_TAKE || op_row((Op)n->op)->cls == WINDOW;
}

// Returns whether n combines floats of several processors.
static bool is_apart(const Graph *g, const Node *n) {
  return (n->op == OP_ALL_REDUCE || n->op == OP_REDUCE_SCATTER) && is_float(n) &&
         adds(n->attr->monoid) && !is_looked_up(g, n);
}

// Returns whether n adds or multiplies floats in an order that may depend on the sizes of blocks.
static bool is_sum(const Node *n) {
  const OpRow *row = op_row((Op)n->op);
  if (!is_float(n)) return false;
  if (n->op == OP_SCATTER_ADD) return n->attr->monoid != MONOID_MAX;
  return (row->cls == REDUCE || row->cls == CONTRACT || row->cls == ORDERED) && adds(row->monoid);
}

static bool has_block(const Graph *g, const Node *n) {
  for (int i = 0; i < n->dims->n; i++)
    if (is_block(g, n->dims->at[i])) return true;
  return false;
}

// Returns whether a processor has only a block of the terms or results of sum n, or adds zeros for
// elements of other processors.
static bool is_resized(const Graph *g, const Node *n) {
  bool converts = n->op == OP_ALL_REDUCE || n->op == OP_REDUCE_SCATTER;
  if (converts) return is_float(n) && adds(n->attr->monoid) && is_looked_up(g, n);
  if (!is_sum(n)) return false;
  bool any = has_block(g, n);
  for (int i = 0; i < n->nargs; i++) any |= has_block(g, graph_node(g, n->args[i]));
  return any;
}

static const char *name_of(Session *s, const Node *n) {
  const char *name = n->origin->value ? n->origin->value : n->origin->gradient_of;
  return intern(s->names, name_with_stars(s->arena, name ? name : op_row((Op)n->op)->text));
}

static bool has_sum(const BitsSums *list, const char *value) {
  return map_get(&list->known, value) != NULL;
}

static void add_sum(Session *s, BitsSums *list, const Graph *g, const Node *n) {
  const Node *of = op_row((Op)n->op)->cls == COLLECTIVE ? coll_moved_value(g, n) : n;
  const char *value = name_of(s, of);
  if (has_sum(list, value)) return;
  vec_push(s->arena, *list) = (BitsSum){value, of->origin->pos};
  map_put(s->arena, &list->known, value, list);
}

// -- what depends on them -----------------------------------------------------------------------

// Marks in `other` (by NodeId) that node n has other bits if one of its arguments has. Returns
// whether the mark is new.
static bool spread(const Graph *g, NodeId n, const NodeId *scan, bool *other) {
  const Node *x = graph_node(g, n);
  bool any = false;
  for (int i = 0; i < x->nargs; i++) any |= other[x->args[i]];
  if (x->op == OP_CARRY && scan[x->attr->region])
    any |= other[graph_node(g, scan[x->attr->region])->args[x->attr->carry]];
  bool fresh = any && !other[n];
  other[n] |= any;
  return fresh;
}

// Marks all nodes that depend on a marked one, also by the carries of loops.
static void spread_all(Arena *a, const Graph *g, bool *other) {
  NodeId *scan = arena_array(a, NodeId, g->region.n + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == OP_SCAN) scan[graph_node(g, n)->attr->region] = n;
  for (bool more = true; more;) {
    more = false;
    for (NodeId n = 1; n <= graph_count(g); n++) more |= spread(g, n, scan, other);
  }
}

static void find_sums(Session *s, const Graph *g, BitsFacts *out) {
  Arena *a = s->arena;
  bool *other = arena_array(a, bool, graph_count(g) + 1);
  BitsSums resized = {0};
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    bool apart = is_apart(g, x), sized = !apart && is_resized(g, x);
    if (apart) add_sum(s, &out->apart, g, x);
    if (sized) add_sum(s, &resized, g, x);
    other[n] = apart || sized;
  }
  for (uint32_t i = 0; i < resized.n; i++) // the part of a processor of a sum has its name
    if (!has_sum(&out->apart, resized.at[i].value)) vec_push(a, out->resized) = resized.at[i];
  spread_all(a, g, other);
  for (uint32_t i = 0; i < g->output.n; i++)
    if (!other[g->output.at[i].value]) vec_push(a, out->equal) = g->output.at[i].name;
  out->outputs = g->output.n;
}

// -- products of the library --------------------------------------------------------------------

static void find_library(Session *s, const Fusion *f, BitsFacts *out) {
  for (uint32_t i = 0; i < f->ngroups; i++) {
    if (f->group[i].kind != GROUP_GEMM) continue;
    const Node *n = graph_node(f->graph, f->group[i].stored[0]);
    Dtype factors = (Dtype)graph_node(f->graph, n->args[0])->type;
    const ProductWay *way = product_way(factors, NULL);
    if (way && product_is_blas(way)) add_sum(s, &out->library, f->graph, n);
  }
}

// -- --exact ------------------------------------------------------------------------------------

static bool has_pins(const Graph *g) {
  for (NodeId n = 1; n <= graph_count(g); n++)
    if (graph_node(g, n)->op == OP_PIN) return true;
  return false;
}

// Foresees the step with --exact: without layout rules, and all products in generated kernels.
// Returns false if it cannot be compiled.
static bool foresee_exact(Session *s, const Selected *of, Foreseen *out) {
  Session exact = *s;
  Options options = *s->opt;
  OptionUse given = {.text = ""};
  options.use[OPTION_EXACT].at = &given;
  options.use[OPTION_EXACT].n = 1;
  exact.opt = &options;
  exact.diag = diag_new(s->arena);
  out->choice = (SearchChoice){.mesh = &s->model->mesh};
  return foresee_step(&exact, of, out);
}

static bool find_cost(Session *s, const Selected *of, const Compilation *made, BitsFacts *out) {
  out->no_exact = has_pins(of->graph) ? "it is refused, as layout(...) splits a value"
                  : graph_count(of->graph) > EXACT_NODES
                      ? "the model is large: check --exact says what it costs"
                  : !foresee_exact(s, of, &out->with_exact) ? "it cannot be compiled"
                                                            : NULL;
  return out->no_exact || foresee_made(s, made, &out->now);
}

bool bits_find(Session *s, const Selected *of, const Compilation *made, BitsFacts *out) {
  *out = (BitsFacts){.exact = option_given(s->opt, OPTION_EXACT), .gpu = session_for_gpu(s)};
  find_sums(s, made->collected, out);
  if (!out->gpu) find_library(s, made->fusion, out);
  if (strcmp(of->purpose, "train") == 0 && stale_given(s)) {
    out->raced = axes_size(&s->model->mesh, sync_axes(s->model)) > 1;
    out->no_exact = "updates are asynchronous";
    return true;
  }
  return out->exact || find_cost(s, of, made, out);
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *sums_json(const Session *s, const BitsSums *list) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < list->n; i++) {
    const BitsSum *x = &list->at[i];
    json_t *one = json_pack("{s:o}", "value", json_text(x->value));
    json_object_set_new(one, "file", x->pos.line ? json_text(line_file(s, x->pos)) : json_null());
    json_object_set_new(one, "line", x->pos.line ? json_integer(x->pos.line) : json_null());
    json_array_append_new(out, one);
  }
  return out;
}

static json_t *exact_json(const BitsFacts *b) {
  if (b->exact || b->no_exact) return json_null();
  return json_pack("{s:f, s:I, s:I, s:I, s:b}", "seconds", b->with_exact.time->seconds, "flops",
                   (json_int_t)b->with_exact.work.flops, "wire_bytes",
                   (json_int_t)b->with_exact.bytes, "peak", (json_int_t)b->with_exact.peak, "fits",
                   b->with_exact.fits);
}

json_t *bits_json(const Session *s, const BitsFacts *b) {
  json_t *out = json_object(), *equal = json_array();
  for (uint32_t i = 0; i < b->equal.n; i++) json_array_append_new(equal, json_text(b->equal.at[i]));
  json_object_set_new(out, "runs", json_boolean(!b->raced));
  json_object_set_new(out, "exact", json_boolean(b->exact));
  json_object_set_new(out, "threads", json_boolean(!b->library.n));
  json_object_set_new(out, "library", sums_json(s, &b->library));
  json_object_set_new(out, "apart", sums_json(s, &b->apart));
  json_object_set_new(out, "resized", sums_json(s, &b->resized));
  json_object_set_new(out, "equal", equal);
  json_object_set_new(out, "outputs", json_integer(b->outputs));
  json_object_set_new(out, "with_exact", exact_json(b));
  json_object_set_new(out, "no_exact", b->no_exact ? json_string(b->no_exact) : json_null());
  return out;
}
