// Makes the graph of one processor from a placement: block dims, and conversions as collective
// nodes.
//
//   %4 = contract(%3, %2) {dims=[h]} : f32[b, o]        partial over cols
//   %5 = relu(%4) : f32[b, o]                           replicated
// becomes
//   %4 = contract(%3, %2) {dims=[h/cols]} : f32[b, o]
//   %5 = all_reduce(%4) {monoid=sum axes=[cols]} : f32[b, o]
//   %6 = relu(%5) : f32[b, o]
//
// place_versions.c decides in which shardings a value is made, and which of these is converted to
// which.
#include "partition/lower/lower_internal.h"

#include <string.h>

typedef struct Lower {
  Versions versions; // must be first: convert_value casts a pointer to it to Lower
  const Placer *p;
  const Graph *g;
  Graph *out;
  Arena *scratch;
} Lower;

// Gives *o, the origin of a conversion of n, the name that layout rules use for n.
static void name_origin(const Lower *l, NodeId n, Origin *o) {
  const Subject *s = &l->p->graph->subject[n];
  if (s->name) o->value = s->name, o->gradient_of = s->gradient_of;
}

// -- why a value is converted -------------------------------------------------------------------

// Returns the name of the dim whose sum makes n partial over `axis`, or NULL if none is found.
static const char *summed_dim(const Lower *l, NodeId n, int axis) {
  int inner;
  NodeId begin = partial_sum_begin(l->p, n, axis, &inner);
  return begin ? dim_get(l->g->dims, graph_node(l->g, begin)->attr->dims[inner])->name : NULL;
}

// Returns the dims whose sums make n partial over the axes, with their verb: "b is", "b and h are",
// each dim once, or "it is" if none is found.
static const char *summed_dims(const Lower *l, NodeId n, Axes axes) {
  const char *name[MAX_AXES], *text = "it";
  int names = 0;
  for (int i = 0; i < axes.n; i++) {
    const char *dim = summed_dim(l, n, axes.at[i]);
    int k = 0;
    while (dim && k < names && strcmp(name[k], dim) != 0) k++;
    if (dim && k == names) name[names++] = dim;
  }
  for (int i = 0; i < names; i++)
    text = i ? arena_printf(l->scratch, "%s%s%s", text, i + 1 < names ? ", " : " and ", name[i])
             : name[i];
  return arena_printf(l->scratch, "%s %s", text, names > 1 ? "are" : "is");
}

static const char *use_text(const Lower *l, const Read *user, const char *how) {
  return arena_printf(l->out->arena, "needed %s by %s", how, reader_text(l->scratch, l->g, user));
}

static const char *state_after(const Lower *l, NodeId n, const ConvertStep *s) {
  const Dims *dims = graph_node(l->g, n)->dims;
  if (s->to < 0) return "in full";
  return arena_printf(l->scratch, "split by %s", dim_get(l->g->dims, dims->at[s->to])->name);
}

// Returns what a conversion of several dims at once makes: "in full", "as b/rows d/cols".
static const char *sharding_after(const Lower *l, NodeId n, const Sharding *s) {
  bool splits = false;
  for (int k = 0; k < graph_node(l->g, n)->dims->n; k++) splits |= s->split[k].n > 0;
  if (!splits && !s->partial.n) return "in full";
  return arena_printf(l->scratch, "as %s",
                      sharding_text(l->scratch, l->g, graph_node(l->g, n)->dims, s));
}

static const char *step_why(const Lower *l, NodeId n, const ConvertStep *s, const Read *user) {
  const Graph *g = l->g;
  const char *axes = axes_text(l->scratch, g->mesh, s->axes);
  const char *use = use_text(l, user, state_after(l, n, s));
  Arena *a = l->out->arena;
  if (s->op == OP_TO_PARTIAL)
    return arena_printf(a, "added to partial sums over %s: counted once", axes);
  if (s->op == OP_SLICE_OWN) return arena_printf(a, "replicated over %s; %s", axes, use);
  if (s->op == OP_ALL_REDUCE || s->op == OP_REDUCE_SCATTER) {
    const char *how = node_monoid(graph_node(g, n)) > MONOID_SUM ? "reduced" : "summed";
    return arena_printf(a, "%s %s and split over %s; %s", summed_dims(l, n, s->axes), how, axes,
                        use);
  }
  if (s->from < 0)
    return arena_printf(a, "it is split otherwise over %s; %s", axes,
                        use_text(l, user, sharding_after(l, n, &s->sharding)));
  const char *dim = dim_get(g->dims, graph_node(g, n)->dims->at[s->from])->name;
  return arena_printf(a, "%s is split over %s; %s", dim, axes, use);
}

// -- conversions --------------------------------------------------------------------------------

static DimId block_of(const Lower *l, NodeId n, int k, const Sharding *s) {
  return dim_block(l->out->dims, l->g->mesh, graph_node(l->g, n)->dims->at[k], s->split[k]);
}

static NodeId add_step(Lower *l, NodeId n, NodeId value, const Sharding *before,
                       const ConvertStep *s, const Read *user) {
  const Node *node = graph_node(l->g, n);
  DimId from[MAX_RANK], to[MAX_RANK];
  Attr attr = {.axes = s->axes, .dims = from, .to = to};
  int gone = s->from >= 0 ? s->from : -1;
  if (gone >= 0)
    from[attr.ndims++] = block_of(l, n, gone, before),
    to[attr.nto++] = block_of(l, n, gone, &s->sharding);
  if (s->to >= 0 && s->to != gone)
    from[attr.ndims++] = block_of(l, n, s->to, before),
    to[attr.nto++] = block_of(l, n, s->to, &s->sharding);
  for (int k = 0; k < node->dims->n && s->op == OP_PERMUTE && gone < 0;
       k++) // a permute may change several dims
    if (!axes_equal(before->split[k], s->sharding.split[k]))
      from[attr.ndims++] = block_of(l, n, k, before),
      to[attr.nto++] = block_of(l, n, k, &s->sharding);
  bool reduces = s->op == OP_ALL_REDUCE ||
                 s->op == OP_REDUCE_SCATTER; // a sum belongs to computing the value, so a backward
                                             // reader does not make it backward
  if (reduces) attr.monoid = before->monoid;
  l->out->origin = *node->origin;
  l->out->origin.of = n;
  l->out->origin.reader = user->node;
  l->out->origin.why = l->p->silent ? NULL : step_why(l, n, s, user);
  name_origin(l, n, &l->out->origin);
  if (!reduces && user->node && graph_node(l->g, user->node)->origin->backward)
    l->out->origin.backward = true;
  return reduces || s->op == OP_TO_PARTIAL ? graph_add(l->out, s->op, 1, &value, &attr)
                                           : lower_below(l->out, s->op, value, &attr);
}

// Returns `value` cast to the type of n if it is a full sum of narrow floats that was kept in f32.
// Else returns `value`.
static NodeId finish_type(Lower *l, NodeId n, NodeId value, const Sharding *s) {
  Dtype type = (Dtype)graph_node(l->g, n)->type;
  if (s->partial.n || graph_node(l->out, value)->type == type) return value;
  l->out->origin = *graph_node(l->g, n)->origin;
  return graph_cast(l->out, value, type);
}

// Marks `value`, n in sharding *s, as `checkpoint` does if it is the one to be kept.
static NodeId mark_kept(Lower *l, NodeId n, NodeId value, const Sharding *s) {
  if (!place_is_kept(l->p, n, s)) return value;
  NodeId mark = l->p->graph->mark[n];
  l->out->origin = *graph_node(l->g, mark)->origin;
  l->out->origin.value = graph_node(l->g, n)->origin->value;
  l->out->origin.of = l->out->origin.reader = n;
  return graph_unary(l->out, OP_CHECKPOINT, value);
}

static NodeId convert_value(Versions *v, NodeId n, const Version *from, const ConvertStep *s,
                            const Read *user) {
  Lower *l = (Lower *)v;
  NodeId value = add_step(l, n, from->node, from->s, s, user);
  return mark_kept(l, n, finish_type(l, n, value, &s->sharding), &s->sharding);
}

// -- nodes over block dims ----------------------------------------------------------------------

static DimId *map_list(Lower *l, int n, const DimId *list, const Axes *axes) {
  DimId *out = arena_array(l->scratch, DimId, n + 1);
  for (int i = 0; i < n; i++) out[i] = dim_block(l->out->dims, l->g->mesh, list[i], axes[i]);
  return out;
}

// Returns the block dims (dims of one processor's block) of the n dims in `list`. They are split as
// in sharding s of a value over `dims`; dims that this value lacks are full.
static DimId *map_dims(Lower *l, int n, const DimId *list, const Dims *dims, const Sharding *s) {
  Axes axes[MAX_RANK] = {{0}};
  for (int i = 0; i < n; i++) {
    int k = dims_index(dims, list[i]);
    if (k >= 0) axes[i] = s->split[k];
  }
  return map_list(l, n, list, axes);
}

static Attr map_attr(Lower *l, NodeId n) {
  const Node *node = graph_node(l->g, n);
  Attr attr = *node->attr;
  const Sharding *at = l->p->result.computed[n];
  if (node_inner(node)) attr.dims = map_list(l, attr.ndims, attr.dims, l->p->inner[n]);
  if (attr.nto) attr.to = map_dims(l, attr.nto, attr.to, node->dims, at);
  OpClass cls = op_row((Op)node->op)->cls;
  if (attr.ndims && (cls == SOURCE || node->op == OP_BROADCAST))
    attr.dims = map_dims(l, attr.ndims, attr.dims, node->dims, at);
  bool moves = node->op == OP_RENAME || node->op == OP_SPLIT || node->op == OP_MERGE;
  if (moves || ((cls == WINDOW || cls == ORDERED) && !node_inner(node))) {
    Sharding need = read_sharding(l->p, n, 0);
    attr.dims = map_dims(l, attr.ndims, attr.dims, graph_node(l->g, node->args[0])->dims, &need);
  }
  return attr;
}

static NodeId block_valid(Graph *g, DimId d) {
  Dims over = {.n = 1, .at = {d}};
  if (!dim_uneven(g->dims, g->mesh, d))
    return graph_const(g, TYPE_I32, (double)dim_get(g->dims, d)->size);
  return graph_reduce(g, OP_SUM, graph_broadcast(g, graph_const(g, TYPE_I32, 1), &over), &over);
}

// Returns a node that converts `ids`, indices of the full dim, to indices into d, the dim of the
// processor's block. Sets *own to a bool node that is true for ids within this block.
static NodeId local_ids(Graph *g, NodeId ids, DimId d, NodeId *own) {
  NodeId zero = graph_const(g, TYPE_I32, 0), one = graph_const(g, TYPE_I32, 1);
  NodeId valid = block_valid(g, d), local = graph_binary(g, OP_SUB, ids, block_start(g, d));
  NodeId last = graph_binary(g, OP_MAXIMUM, graph_binary(g, OP_SUB, valid, one), zero);
  *own = graph_binary(g, OP_AND, graph_binary(g, OP_LE, zero, local),
                      graph_binary(g, OP_LT, local, valid));
  NodeId clip[3] = {local, zero, last};
  return graph_add(g, OP_CLIP, 3, clip, NULL);
}

static NodeId lower_take(Lower *l, NodeId *args, const Attr *attr) {
  Graph *g = l->out;
  if (!dim_get(g->dims, attr->dims[0])->axes.n) return graph_add(g, OP_TAKE, 2, args, attr);
  NodeId own, local[2] = {args[0], local_ids(g, args[1], attr->dims[0], &own)};
  NodeId found = graph_add(g, OP_TAKE, 2, local, attr);
  return graph_where(g, own, found, graph_const(g, (Dtype)graph_node(g, found)->type, 0));
}

static NodeId lower_scatter(Lower *l, NodeId *args, const Attr *attr) {
  Graph *g = l->out;
  if (!dim_get(g->dims, attr->to[0])->axes.n) return graph_add(g, OP_SCATTER_ADD, 2, args, attr);
  NodeId own, ids = local_ids(g, args[1], attr->to[0], &own);
  NodeId zero = graph_const(g, (Dtype)graph_node(g, args[0])->type, 0);
  NodeId local[2] = {graph_where(g, own, args[0], zero), ids};
  return graph_add(g, OP_SCATTER_ADD, 2, local, attr);
}

// Changes args and *attr so that n, a sum of narrow floats, computes its partial sums in f32. The
// sum is then rounded only once.
static void widen(Lower *l, NodeId n, NodeId *args, Attr *attr) {
  const Node *node = graph_node(l->g, n);
  Dtype wide = dtype_accumulator((Dtype)node->type);
  const Sharding *at = l->p->result.computed[n];
  if (!at->partial.n || at->monoid != MONOID_SUM || wide == (Dtype)node->type ||
      !dtype_is_float(wide))
    return;
  if (node->op == OP_CONTRACT) attr->type = wide;
  if (node->op == OP_SUM || node->op == OP_SCATTER_ADD) args[0] = graph_cast(l->out, args[0], wide);
}

// Returns the origin (place in the model, and reason text) of the halo node that window n reads.
static Origin halo_origin(const Lower *l, NodeId n, const Attr *attr) {
  NodeId source = graph_node(l->g, n)->args[0];
  const Dim *have = dim_get(l->out->dims, attr->dims[0]);
  Origin o = *graph_node(l->g, source)->origin;
  name_origin(l, source, &o);
  o.backward |= graph_node(l->g, n)->origin->backward;
  o.of = source;
  o.reader = n;
  o.why = NULL;
  if (l->p->silent) return o;
  const char *how =
      arena_printf(l->scratch, "in the intervals of %s", dim_get(l->out->dims, attr->to[0])->name);
  o.why = arena_printf(
      l->out->arena, "%s is split over %s; %s", dim_get(l->out->dims, have->whole)->name,
      axes_text(l->scratch, l->g->mesh, have->axes), use_text(l, &(Read){.node = n}, how));
  return o;
}

static NodeId lower_ordered(Lower *l, const Node *node, const NodeId *args, const Attr *attr) {
  bool split = dim_get(l->out->dims, attr->dims[0])->axes.n > 0;
  if (split && node->op == OP_TOP_K) return lower_top_k(l->out, args[0], attr);
  if (split) return lower_cumulated(l->out, (Op)node->op, args[0], attr);
  return graph_add(l->out, (Op)node->op, 1, args, attr);
}

static NodeId lower_node(Lower *l, NodeId n) {
  const Node *node = graph_node(l->g, n);
  NodeId args[MAX_ARGS];
  versions_read(&l->versions, n, args);
  l->out->origin = *node->origin;
  l->out->origin.of = l->out->origin.reader = n;
  if (op_row((Op)node->op)->cls == SOURCE && node->attr->decl) {
    Dims dims = sharding_dims(l->g, node->dims, l->p->result.computed[n]);
    return graph_decl_node_over(l->out, node->attr->decl, &dims);
  }
  Attr attr = map_attr(l, n);
  widen(l, n, args, &attr);
  if (node->op == OP_TAKE) return lower_take(l, args, &attr);
  if (node->op == OP_PIN) return args[0];
  if (op_row((Op)node->op)->cls == ORDERED) return lower_ordered(l, node, args, &attr);
  if (op_row((Op)node->op)->cls == WINDOW) {
    Origin halo = attr.nto ? halo_origin(l, n, &attr) : (Origin){0};
    return lower_window(l->out, node->nargs, args, &attr, &halo);
  }
  if (node->op == OP_SCATTER_ADD) return lower_scatter(l, args, &attr);
  return graph_add(l->out, (Op)node->op, node->nargs, args, &attr);
}

static void lower_outputs(Lower *l) {
  for (uint32_t o = 0; o < l->g->output.n; o++) {
    Output out = l->g->output.at[o];
    out.value = version_for(&l->versions, out.value, &(Read){.output = o + 1});
    vec_push(l->out->arena, l->out->output) = out;
  }
}

Graph *lower(Arena *a, const Placement *placement) {
  const Placer *p = placer_of(placement);
  const Graph *g = placement->graph;
  Lower l = {.p = p, .g = g, .out = graph_like(a, g, STAGE_LOWER), .scratch = arena_new()};
  l.versions = versions_new(l.scratch, p);
  l.versions.convert = convert_value;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    bug_context("lower", n);
    if (p->graph->marked[n]) continue;
    NodeId node = lower_node(&l, n);
    const Sharding *at = placement->computed[n];
    Dims want = sharding_dims(g, graph_node(g, n)->dims, at), got = *graph_node(l.out, node)->dims;
    if (!dims_equal(&want, &got))
      BUG("%s came out over other blocks", op_row((Op)graph_node(g, n)->op)->text);
    version_add(&l.versions, n, at, mark_kept(&l, n, node, at));
  }
  lower_outputs(&l);
  arena_free(l.scratch);
  return graph_prune_in_place(a, l.out, STAGE_LOWER);
}
