// Builds the decoding form of a language model (decode.h): a graph that computes the positions
// position .. position + n - 1 of a model, with states for what it needs of earlier positions.
//
// Each node of the model's graph is needed in one or more forms:
//
//   full      as it is: it depends on no ids
//   past      its time dims cover all positions up to the last of this run. A value that depends on
//             ids is a state then, to which each run adds its rows
//   chunk(t)  time dim t covers the positions of this run only, other time dims are past
//   last(t)   time dim t covers the last valid position only
//
//   q[t], keys[s], score[t, s] = sum[k](q * keys), p = softmax[s](...), sum[s](p * v[s])
//   last(t) of the result needs last(t) of p, of score and of q, and the past of keys and v: these
//   states need chunk(s) of keys and v, which is chunk(t) of what they rename
//
// The forms that are needed are found from the output backwards (decode_want.c); then each is
// built, after those of its arguments.
#include "frontend/step/decode_build_internal.h"

#include <string.h>

DimId decode_dim(const Decode *d, Form f, DimId dim) {
  int k = causal_time(&d->c, dim);
  if (k < 0 || f == FORM_FULL) return dim;
  if (f == FORM_PAST || form_time(f) != k) return d->past[k];
  return d->run[k][form_is_last(f)];
}

NodeId decode_got(const Decode *d, NodeId id, Form f) {
  NodeId got = d->got[(size_t)id * d->nforms + f];
  if (!got) BUG("node %%%u has not been built in form %d", id, f);
  return got;
}

// -- copies --------------------------------------------------------------------------------------

// Returns the region of the new graph that is the loop r in form f. A loop over time is its single
// step in a run of one position: a loop inside it is then in none.
RegionId decode_region(Decode *d, RegionId r, Form f) {
  RegionId *at = &d->region[(size_t)r * d->nforms + f];
  if (!r || f == FORM_FULL) return r;
  if (*at) return *at;
  Region copy = *region_get(d->from, r);
  bool single = d->positions == 1 && causal_loop(&d->c, copy.parent);
  copy.parent = single ? 0 : decode_region(d, copy.parent, f);
  copy.t = decode_dim(d, f, copy.t);
  return *at = graph_region(d->g, &copy);
}

static NodeId copied(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  NodeId args[MAX_ARGS];
  DimId dims[MAX_RANK], to[MAX_RANK];
  Attr attr = *n->attr;
  if (op_is_decl((Op)n->op)) return graph_decl_node(d->g, n->attr->decl);
  for (int k = 0; k < n->nargs; k++)
    args[k] = decode_got(d, n->args[k], decode_argument(d, id, k, f));
  for (int i = 0; i < attr.ndims; i++) dims[i] = decode_dim(d, f, attr.dims[i]);
  for (int i = 0; i < attr.nto; i++) to[i] = decode_dim(d, f, attr.to[i]);
  attr.dims = dims;
  attr.to = to;
  attr.region = decode_region(d, attr.region, f);
  NodeId made = graph_add(d->g, (Op)n->op, n->nargs, args, &attr);
  if (decode_is_lookup(d, id)) return graph_cast(d->g, made, (Dtype)n->type);
  return decode_split(d, n, args, &attr, made);
}

// Returns x with the rows from `start` on, along dim `from`, as many as dim `to` has. start: an i32
// scalar, or 0 for the first rows.
static NodeId rows_from(Graph *g, NodeId x, DimId from, DimId to, NodeId start) {
  Attr attr = {.ndims = 1, .dims = &from, .nto = 1, .to = &to, .affine = {.out = 1, .divisor = 1}};
  if (from == to) return x;
  return start ? graph_add(g, OP_WINDOW_AT, 2, (NodeId[]){x, start}, &attr)
               : graph_add(g, OP_WINDOW, 1, &x, &attr);
}

// Returns the part of a value, computed in full, that form f covers.
static NodeId sliced(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  NodeId x = decode_got(d, id, FORM_FULL);
  for (int i = 0; i < n->dims->n; i++) {
    int k = causal_time(&d->c, n->dims->at[i]);
    if (k < 0) continue;
    bool own = f != FORM_PAST && form_time(f) == k;
    d->bounded = true;
    x = rows_from(d->g, x, n->dims->at[i], decode_dim(d, f, n->dims->at[i]),
                  own ? decode_start(d, f) : 0);
  }
  return x;
}

static NodeId index_of(Decode *d, Form f) {
  NodeId own = graph_index(d->g, form_is_last(f) ? d->one : d->many);
  return graph_binary(d->g, OP_ADD, own, decode_start(d, f));
}

// Returns a rename, merge or split that makes the time dim of form f. In a rename this dim may be
// the same before and after it, and is left out.
static NodeId renamed(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  Form arg = decode_argument(d, id, 0, f);
  NodeId x = decode_got(d, n->args[0], arg);
  DimId dims[MAX_RANK], to[MAX_RANK];
  Attr attr = {.dims = dims, .to = to, .ndims = n->attr->ndims, .nto = n->attr->nto};
  for (int i = 0; i < n->attr->ndims; i++) dims[i] = decode_dim(d, arg, n->attr->dims[i]);
  for (int i = 0; i < n->attr->nto; i++) to[i] = decode_dim(d, f, n->attr->to[i]);
  if (n->op != OP_RENAME) return graph_add(d->g, (Op)n->op, 1, &x, &attr);
  attr.ndims = attr.nto = 0;
  for (int i = 0; i < n->attr->ndims; i++)
    if (dims[i] != to[i]) dims[attr.ndims++] = dims[i], to[attr.nto++] = to[i];
  return attr.ndims ? graph_add(d->g, OP_RENAME, 1, &x, &attr) : x;
}

// Returns a window over positions of time: its argument is a state, or is computed in full.
static NodeId windowed(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  Form arg = decode_argument(d, id, 0, f);
  DimId from = decode_dim(d, arg, n->attr->dims[0]);
  DimId to[2] = {decode_dim(d, f, n->attr->to[0])};
  if (n->attr->nto > 1) to[1] = decode_dim(d, f, n->attr->to[1]);
  Attr attr = *n->attr;
  attr.dims = &from;
  attr.to = to;
  NodeId start = decode_start(d, f);
  if (attr.affine.out != 1)
    start = graph_binary(d->g, OP_MUL, start, graph_const(d->g, TYPE_I32, (double)attr.affine.out));
  d->bounded = true;
  return graph_add(d->g, OP_WINDOW_AT, 2, (NodeId[]){decode_got(d, n->args[0], arg), start}, &attr);
}

static NodeId built(Decode *d, NodeId id, Form f) {
  switch (decode_way(d, id, f)) {
  case WAY_COPY: return copied(d, id, f);
  case WAY_SLICE: return sliced(d, id, f);
  case WAY_PART: return rows_from(d->g, decode_got(d, id, f - 1), d->many, d->one, decode_last(d));
  case WAY_IDS: return d->ids;
  case WAY_INDEX: return index_of(d, f);
  case WAY_RENAME: return renamed(d, id, f);
  case WAY_WINDOW: return windowed(d, id, f);
  case WAY_KEEP: return decode_keep(d, id, f);
  case WAY_RUNNING: return decode_running(d, id, f);
  case WAY_LOOP: return decode_loop(d, id, f);
  case WAY_NONE: break;
  }
  BUG("node %%%u has no form %d", id, f);
}

static void build_one(Decode *d, NodeId id, Form f) {
  size_t at = (size_t)id * d->nforms + f;
  if (!d->want[at]) return;
  d->g->origin = *graph_node(d->from, id)->origin;
  d->got[at] = built(d, id, f);
}

static void build_all(Decode *d) {
  for (NodeId id = 1; id <= graph_count(d->from); id++) {
    build_one(d, id, FORM_FULL);
    for (Form f = FORM_FIRST; f < d->nforms; f++) build_one(d, id, f);
    build_one(d, id, FORM_PAST); // last: a state is made from the rows of a run
  }
}

// -- inputs and output ---------------------------------------------------------------------------

static NodeId new_input(Decode *d, const char *name, int rank, const DimId *dims) {
  Decl decl = {.kind = DECL_INPUT,
               .name = dim_intern(d->g->dims, name),
               .type = TYPE_I32,
               .rank = (uint8_t)rank};
  memcpy(decl.dims, dims, (size_t)rank * sizeof *dims);
  return graph_decl_node(d->g, graph_decl(d->g, &decl));
}

// Returns a new dim with `size` elements, named after dim `of`.
static DimId new_dim(Decode *d, DimId of, const char *what, int64_t size) {
  const Dim *dim = dim_get(d->from->dims, of);
  const char *name = arena_printf(d->a, "%s.%s%lld", dim->name, what, (long long)size);
  DimId found = dim_find(d->from->dims, name);
  return found ? found : dim_add(d->from->dims, dim_intern(d->from->dims, name), size, dim->pos);
}

// Makes the dims of time dim k in a run: with the positions of the run, and with the last one. A
// merged dim has these positions of the dims that it was merged with.
static void make_run_dims(Decode *d, int k, int64_t positions) {
  const Node *merge = d->c.merge[k] ? graph_node(d->from, d->c.merge[k]) : NULL;
  int64_t each = 1;
  int time = merge ? causal_merged(&d->c, merge) : 0;
  for (int i = 0; merge && i < merge->attr->ndims; i++)
    if (i != time) each *= dim_get(d->from->dims, merge->attr->dims[i])->size;
  d->run[k][0] = merge ? new_dim(d, d->c.time[k], "new", each * positions) : d->many;
  d->run[k][1] = merge ? new_dim(d, d->c.time[k], "new", each) : d->one;
}

static void make_dims(Decode *d, const DecodeAsk *ask) {
  d->many = new_dim(d, d->c.time[0], "new", ask->positions);
  d->one = ask->positions == 1 ? d->many : new_dim(d, d->c.time[0], "new", 1);
  for (int k = 0; k < d->c.ntimes; k++) {
    int64_t size = dim_get(d->from->dims, d->c.time[k])->size;
    make_run_dims(d, k, ask->positions);
    d->past[k] =
        size <= ask->context ? d->c.time[k] : new_dim(d, d->c.time[k], "kept", ask->context);
  }
}

static void make_inputs(Decode *d, const Decl *ids, const DecodeAsk *ask) {
  DimId dims[MAX_RANK];
  for (int i = 0; i < ids->rank; i++)
    dims[i] = causal_time(&d->c, ids->dims[i]) >= 0 ? d->many : ids->dims[i];
  d->ids = graph_cast(d->g, new_input(d, DECODE_IDS, ids->rank, dims), ids->type);
  d->start = new_input(d, DECODE_POSITION, 0, dims);
  d->count = ask->partly ? new_input(d, DECODE_COUNT, 0, dims)
                         : graph_const(d->g, TYPE_I32, (double)ask->positions);
  d->partly = ask->partly;
}

static Graph *with_output(Decode *d, NodeId logits, Form f, DimId vocab) {
  const Node *n = graph_node(d->from, logits);
  NodeId x = decode_got(d, logits, f);
  Output o = {.kind = OUT_VALUE, .name = dim_intern(d->g->dims, DECODE_LOGITS), .value = x};
  const DimId order[3] = {0, d->one, vocab};
  for (int i = 0; i < n->dims->n; i++)
    if (n->dims->at[i] != vocab && causal_time(&d->c, n->dims->at[i]) < 0)
      o.dims[o.rank++] = n->dims->at[i];
  for (int i = 1; i < 3; i++) o.dims[o.rank++] = order[i];
  Dtype type = (Dtype)graph_node(d->g, x)->type;
  o.value = type == TYPE_F64 ? x : graph_cast(d->g, x, TYPE_F32);
  vec_push(d->g->arena, d->g->output) = o;
  return graph_prune(d->a, d->g, STAGE_GRAD, NULL);
}

Graph *decode_graph(Arena *a, const Graph *from, NodeId logits, const LanguageModel *lm,
                    const DecodeAsk *ask, Diag *diag, DecodeFacts *out) {
  NodeId source = from->decl.at[lm->ids - 1].node;
  Decode d = {.a = a, .from = from, .diag = diag, .positions = ask->positions};
  if (!causal_find(a, from, source, lm->time, diag, &d.c)) return NULL;
  d.nforms = FORM_FIRST + 2 * d.c.ntimes;
  d.want = arena_array(a, bool, (size_t)(graph_count(from) + 1) * d.nforms);
  d.got = arena_array(a, NodeId, (size_t)(graph_count(from) + 1) * d.nforms);
  d.region = arena_array(a, RegionId, (size_t)(from->region.n + 1) * d.nforms);
  Form f = form_of(0, ask->positions > 1);
  if (!decode_want(&d, logits, f)) return NULL;
  make_dims(&d, ask);
  d.g = graph_like(a, from, STAGE_GRAD);
  if (ask->narrow) decode_narrow(&d);
  make_inputs(&d, &from->decl.at[lm->ids - 1], ask);
  build_all(&d);
  Graph *g = with_output(&d, logits, f, lm->vocab);
  *out = (DecodeFacts){
      .bounded = d.bounded, .nstates = d.nstates, .nkept = d.kept.n, .kept = d.kept.at};
  if (ask->positions == 1) out->growing = decode_growing(a, g, d.kept.n, d.kept.at);
  return g;
}
