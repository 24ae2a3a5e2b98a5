// What a decoding graph keeps from run to run (decode.c), as states of the graph:
//
//   a value with a row for each position    where(position <= index[s] < position + n, the new
//                                           rows, the state)
//   a running sum or maximum                its value before the first position of the run
//   a carry of a loop over time             its value before the first position of the run
//
// Running values are updated by the step. The new rows of a value with a row for each position are
// an output, which the caller writes to the state: so a step neither copies nor rewrites the state.
//
// At position 0 running values begin anew, so that a run over new ids needs no other preparation.
// Rows of positions that have not been computed are 0, or left from earlier ids: finite, and
// masked, as causal.c has proved.
#include "ir/program/decode_state.h"
#include "frontend/step/decode_build_internal.h"

#include <math.h>
#include <string.h>

NodeId decode_last(Decode *d) {
  return graph_binary(d->g, OP_SUB, d->count, graph_const(d->g, TYPE_I32, 1));
}

NodeId decode_start(Decode *d, Form f) {
  return form_is_last(f) ? graph_binary(d->g, OP_ADD, d->start, decode_last(d)) : d->start;
}

// Declares a state of node id over the dims of list. A node may have two, of which one is
// `running`: its value before the run, beside its rows. Returns the declaration.
static DeclId declared(Decode *d, NodeId id, const DimList *list, bool running) {
  const Node *n = graph_node(d->from, id);
  Decl decl = {.kind = DECL_STATE,
               .name = dim_intern(d->g->dims, arena_printf(d->a, DECODE_STATE "%s.%u%s",
                                                           causal_name(d->from, id), id,
                                                           running ? ".before" : "")),
               .type = (Dtype)n->type,
               .rank = list->n,
               .pos = n->origin->pos};
  memcpy(decl.dims, list->at, list->n * sizeof *list->at);
  d->nstates++;
  return graph_decl(d->g, &decl);
}

// Returns the dims of node id in form f: that of positions, then the others in the order of those
// of the model. So the row of a position is one piece of memory.
static DimList dims_in_form(const Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  DimList list = {.n = 0};
  for (int times = 1; times >= 0; times--)
    for (int i = 0; i < n->dims->n; i++)
      if ((causal_time(&d->c, n->dims->at[i]) >= 0) == times)
        list.at[list.n++] = decode_dim(d, f, n->dims->at[i]);
  return list;
}

static void update(Decode *d, DeclId state, NodeId value) {
  Output o = {
      .kind = OUT_UPDATE, .name = d->g->decl.at[state - 1].name, .value = value, .target = state};
  vec_push(d->g->arena, d->g->output) = o;
}

static NodeId at_first(Decode *d, NodeId x, DimId dim) {
  return graph_add(d->g, OP_WINDOW, 1, &x,
                   &(Attr){.ndims = 1, .dims = &dim, .affine = {.divisor = 1}});
}

NodeId decode_is_new(Decode *d, DimId dim) {
  Graph *g = d->g;
  NodeId index = graph_index(g, dim);
  if (d->positions == 1) return graph_binary(g, OP_EQ, index, d->start);
  NodeId end = graph_binary(g, OP_ADD, d->start, graph_const(g, TYPE_I32, (double)d->positions));
  return graph_binary(g, OP_AND, graph_binary(g, OP_LE, d->start, index),
                      graph_binary(g, OP_LT, index, end));
}

// Returns the rows of this run, which are over d->many, at their places along `dim`.
static NodeId placed(Decode *d, NodeId rows, DimId dim) {
  if (d->positions == 1) return at_first(d, rows, d->many);
  Attr attr = {
      .ndims = 1, .dims = &d->many, .nto = 1, .to = &dim, .affine = {.out = 1, .divisor = 1}};
  return graph_add(d->g, OP_WINDOW_AT, 2, (NodeId[]){rows, graph_unary(d->g, OP_NEG, d->start)},
                   &attr);
}

// Makes the rows of this run an output, for the state.
static void add_rows(Decode *d, NodeId id, Form f, NodeId rows, DeclId state) {
  DimList list = dims_in_form(d, id, f);
  Output o = {.kind = OUT_VALUE,
              .name = dim_intern(d->g->dims, arena_printf(d->a, "decode.rows.%u", id)),
              .value = rows,
              .rank = list.n};
  memcpy(o.dims, list.at, list.n * sizeof *list.at);
  vec_push(d->g->arena, d->g->output) = o;
  vec_push(d->a, d->kept) = (DecodeKept){d->g->decl.at[state - 1].name, o.name, 0};
}

NodeId decode_keep(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  int k = 0;
  while (!dims_has(n->dims, d->c.time[k])) k++;
  Form own = form_of(k, false);
  DimList list = dims_in_form(d, id, f);
  DeclId state = declared(d, id, &list, false);
  NodeId rows = decode_got(d, id, own), fresh = placed(d, rows, d->past[k]);
  d->bounded = true;
  add_rows(d, id, own, rows, state);
  NodeId old = graph_decl_node(d->g, state);
  NodeId past = graph_where(d->g, decode_is_new(d, d->past[k]), fresh, old);
  if (d->positions == 1) decode_note_past(d, past, (PastParts){fresh, old, d->past[k]});
  return past;
}

// Returns the state of node id at the first position of the run: `init` if that is position 0.
static NodeId before(Decode *d, DeclId state, NodeId init) {
  NodeId first = graph_binary(d->g, OP_EQ, d->start, graph_const(d->g, TYPE_I32, 0));
  return graph_where(d->g, first, init, graph_decl_node(d->g, state));
}

// Returns x with `instead` at positions of this run that are not valid.
static NodeId valid(Decode *d, NodeId x, double instead) {
  if (!d->partly) return x;
  NodeId is = graph_binary(d->g, OP_LT, graph_index(d->g, d->many), d->count);
  return graph_where(d->g, is, x, graph_const(d->g, (Dtype)graph_node(d->g, x)->type, instead));
}

const RunningRule *decode_running_rule(Op op) {
  static const RunningRule rules[] = {{OP_CUMSUM, OP_SUM, OP_ADD, 0},
                                      {OP_CUMPROD, OP_PROD, OP_MUL, 1},
                                      {OP_CUMMAX, OP_MAX, OP_MAXIMUM, -(double)INFINITY}};
  for (size_t i = 0; i < countof(rules); i++)
    if (rules[i].running == op) return &rules[i];
  return NULL;
}

static double neutral(const RunningRule *rule, Dtype t) {
  if (rule->neutral >= -1 || dtype_is_float(t)) return rule->neutral;
  return t == TYPE_I32 ? INT32_MIN : 0; // the least number
}

// A running sum is that of the run plus the state. So are a running product and maximum.
NodeId decode_running(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  const RunningRule *rule = decode_running_rule((Op)n->op);
  Graph *g = d->g;
  NodeId x = decode_got(d, n->args[0], decode_argument(d, id, 0, f));
  Dtype type = (Dtype)n->type;
  double none = neutral(rule, type);
  Dims rest = *graph_node(g, x)->dims, over = {.n = 1, .at = {d->many}};
  dims_remove(&rest, d->many);
  DeclId state = declared(d, id, &rest, true);
  NodeId kept = before(d, state, graph_const(g, type, none));
  NodeId all = graph_reduce(g, rule->reduce, valid(d, x, none), &over);
  update(d, state, graph_binary(g, rule->join, kept, all));
  Attr attr = *n->attr;
  attr.dims = &d->many;
  return graph_binary(g, rule->join, kept, graph_add(g, (Op)n->op, 1, &x, &attr));
}

// -- loops over time -----------------------------------------------------------------------------

static bool unrolled(const Decode *d) { return d->positions == 1; }

static NodeId carry(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  NodeId init = decode_got(d, n->args[0], decode_argument(d, id, 0, f));
  DimList list = dims_in_form(d, id, f);
  NodeId start = before(d, declared(d, id, &list, false), init);
  Attr attr = *n->attr;
  attr.region = decode_region(d, attr.region, f);
  return unrolled(d) ? start : graph_add(d->g, OP_CARRY, 1, &start, &attr);
}

static NodeId at(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  NodeId x = decode_got(d, n->args[0], decode_argument(d, id, 0, f));
  return unrolled(d) ? at_first(d, x, d->many)
                     : graph_at(d->g, decode_region(d, n->attr->region, f), x);
}

// Finds the carries of the loop r in the model's graph: carry[k] is number k.
static void find_carries(const Decode *d, RegionId r, NodeId *carries) {
  for (NodeId id = 1; id <= graph_count(d->from); id++) {
    const Node *n = graph_node(d->from, id);
    if (n->op == OP_CARRY && n->attr->region == r) carries[n->attr->carry] = id;
  }
}

static NodeId state_of(const Decode *d, NodeId id) {
  const char *name = arena_printf(d->a, DECODE_STATE "%s.%u", causal_name(d->from, id), id);
  return graph_find_decl(d->g, name);
}

// Builds the loop, or its single step, and the next values of the states of its carries. A step at
// a position that is not valid leaves the carries as they are.
static NodeId scan(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  Graph *g = d->g;
  NodeId carries[MAX_ARGS] = {0}, next[MAX_ARGS];
  RegionId r = unrolled(d) ? 0 : decode_region(d, n->attr->region, f);
  find_carries(d, n->attr->region, carries);
  NodeId is = 0;
  if (r && d->partly)
    is = graph_binary(g, OP_LT, graph_at(g, r, graph_index(g, d->many)), d->count);
  for (int k = 0; k < n->nargs; k++) {
    next[k] = decode_got(d, n->args[k], decode_argument(d, id, k, f));
    if (is && carries[k]) next[k] = graph_where(g, is, next[k], decode_got(d, carries[k], f));
  }
  NodeId loop = r ? graph_add(g, OP_SCAN, n->nargs, next, &(Attr){.region = r}) : d->start;
  for (int k = 0; k < n->nargs; k++) {
    if (!carries[k]) continue;
    NodeId after[] = {loop, decode_got(d, carries[k], f)};
    update(d, state_of(d, carries[k]), r ? graph_add(g, OP_FINAL, 2, after, NULL) : next[k]);
  }
  return loop;
}

NodeId decode_loop(Decode *d, NodeId id, Form f) {
  const Node *n = graph_node(d->from, id);
  if (n->op == OP_CARRY) return carry(d, id, f);
  if (n->op == OP_AT) return at(d, id, f);
  if (n->op == OP_SCAN) return scan(d, id, f);
  NodeId x = decode_got(d, n->args[1], decode_argument(d, id, 1, f));
  if (!unrolled(d)) return graph_collect(d->g, decode_got(d, n->args[0], f), x);
  return graph_add(d->g, OP_BROADCAST, 1, &x, &(Attr){.ndims = 1, .dims = &d->many});
}
