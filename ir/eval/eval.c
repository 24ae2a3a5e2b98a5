// The driver of the evaluator, and the rules of sources.
//
// A graph before lowering is run as one processor, without its mesh. In a lowered graph each node
// is computed on all processors before the next node, so that a collective can read the operands of
// all processors.
#include "ir/eval/eval_rules.h"

#include <math.h>
#include <string.h>

static EvalRule *const eval_rule[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = BY_CLASS(cls, eval_point, eval_##eval),
#include "ir/graph/ops.def"
};

// -- sources ------------------------------------------------------------------------------------

static const EvalFeed *find_feed(const EvalNode *c) {
  for (uint32_t i = 0; i < c->run->nfeeds; i++)
    if (c->run->feeds[i].decl == c->n->attr->decl) return &c->run->feeds[i];
  BUG("%s is not fed", c->g->decl.at[c->n->attr->decl - 1].name);
}

// Fills the result with the block that c's processor has of `data`. `data` is a row-major array of
// n numbers over the whole dims `order`.
static void load_block(const EvalNode *c, int rank, const DimId *order, const double *data,
                       int64_t n) {
  StrideWalk w = walk_over(c->out, c->out, NULL);
  int64_t from = walk_whole(&w, c->g, c->r, rank, order), want = 1;
  for (int i = 0; i < rank; i++) want *= dim_get(c->g->dims, order[i])->size;
  if (want != n) BUG("%lld numbers for a tensor of %lld", (long long)n, (long long)want);
  for (bool on = walk_first(&w); on; on = walk_next(&w))
    c->out->value[w.at[0]] = dtype_round(c->out->type, data[from + w.at[1]]);
}

void eval_decl(const EvalNode *c) {
  const Decl *d = &c->g->decl.at[c->n->attr->decl - 1];
  const EvalFeed *feed = find_feed(c);
  load_block(c, d->rank, d->dims, feed->value, feed->n);
}

void eval_values(const EvalNode *c) {
  DimId full[MAX_RANK];
  const Attr *t = c->n->attr;
  for (int i = 0; i < t->ndims; i++) full[i] = dim_get(c->g->dims, t->dims[i])->whole;
  load_block(c, t->ndims, full, t->data, t->ndata);
}

void eval_constant(const EvalNode *c) {
  c->out->value[0] = dtype_round(c->out->type, c->n->attr->num[0]);
}

void eval_index(const EvalNode *c) {
  int64_t first = dim_offset(c->g->dims, c->g->mesh, c->n->attr->dims[0], c->r);
  for (int64_t i = 0; i < c->out->elements; i++) c->out->value[i] = (double)(first + i);
}

void eval_step(const EvalNode *c) { c->out->value[0] = (double)c->run->step; }
void eval_training(const EvalNode *c) { c->out->value[0] = 1; }

// -- the run ------------------------------------------------------------------------------------

// Returns a random number of absolute value 0.5 to 1. An error is this number times a bound: never
// small, so that a few runs show the sensitivity of every element. The generator is splitmix64
// (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
static double next_error(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  double size = 0.5 + (double)(z >> 12) * 0x1p-53;
  return z & 1 ? -size : size;
}

// Returns x, of type t, plus a random error of at most `bound`. If the run rounds, x is rounded to
// t, and only the rest of the bound is random. Numbers here are f64, so f64 is not rounded.
static double with_error(EvalRun *run, Dtype t, double x, double bound) {
  double e = next_error(run->errors);
  if (!run->rounds || t == TYPE_F64) return x + bound * e;
  double rest = bound - unit_roundoff(t) * fabs(x) - least_subnormal(t);
  return dtype_round(t, rest > 0 ? x + rest * e : x);
}

// Adds a random error to each element of t, the result of node n, and sets the error bounds of all
// elements to 0. A cast gets no error, because IEEE 754 determines its result.
static void perturb(EvalRun *run, const Node *n, Tensor *t) {
  for (int64_t i = 0; i < t->elements; i++) {
    if (n->op == OP_CAST)
      t->value[i] = dtype_round(t->type, t->value[i]);
    else if (dtype_is_float(t->type) && isfinite(t->value[i]))
      t->value[i] = with_error(run, t->type, t->value[i], t->bound[i]);
    t->bound[i] = 0;
  }
}

static void run_on(EvalRun *run, NodeId n, int64_t r) {
  EvalNode c = {.run = run,
                .arena = run->scratch,
                .g = run->e->graph,
                .n = graph_node(run->e->graph, n),
                .id = n,
                .r = r,
                .out = &run->e->at[(int64_t)n * run->e->processors + r]};
  ArenaMark mark = arena_mark(run->scratch);
  bug_context("eval", n);
  eval_shape(run, n, r);
  for (int k = 0; k < c.n->nargs && k < (int)countof(c.arg); k++)
    c.arg[k] = eval_at(run->e, c.n->args[k], r);
  eval_rule[c.n->op](&c);
  if (run->errors) perturb(run, c.n, c.out);
  arena_reset(run->scratch, mark);
}

void eval_shape(EvalRun *run, NodeId n, int64_t r) {
  Tensor *t = &run->e->at[(int64_t)n * run->e->processors + r];
  if (!t->value) {
    tensor_shape(run->a, run->e->graph, graph_node(run->e->graph, n), r, t);
    return;
  }
  memset(t->value, 0, (size_t)t->elements * sizeof *t->value);
  memset(t->bound, 0, (size_t)t->elements * sizeof *t->bound);
  memset(t->tainted, 0, (size_t)t->elements);
}

void eval_node(EvalRun *run, NodeId n) {
  for (int64_t r = 0; r < run->e->processors; r++) run_on(run, n, r);
}

static Eval *run_all(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds, int64_t step,
                     uint64_t *errors, bool rounds) {
  Eval *e = arena_new_of(a, Eval);
  bool lowered = g->stage >= STAGE_LOWER;
  *e = (Eval){.graph = g, .processors = lowered ? mesh_size(g->mesh) : 1};
  e->at = arena_array(a, Tensor, (int64_t)(graph_count(g) + 1) * e->processors);
  EvalRun run = {.a = a,
                 .scratch = arena_new(),
                 .e = e,
                 .nfeeds = nfeeds,
                 .feeds = feeds,
                 .step = step,
                 .errors = errors,
                 .rounds = rounds};
  run.nodes = region_nodes(a, g);
  run.now = arena_array(a, int64_t, g->region.n + 1);
  eval_region(&run, 0);
  arena_free(run.scratch);
  return e;
}

Eval *eval_run(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds, int64_t step) {
  return run_all(a, g, nfeeds, feeds, step, NULL, false);
}

Eval *eval_run_perturbed(Arena *a, const Graph *g, uint32_t nfeeds, const EvalFeed *feeds,
                         int64_t step, uint64_t seed, bool rounds) {
  return run_all(a, g, nfeeds, feeds, step, &seed, rounds);
}

// -- assembling whole tensors from blocks --------------------------------------------------------

static bool agree(Cell x, Cell y) {
  if (x.t || y.t || x.v == y.v || (isnan(x.v) && isnan(y.v))) return true;
  return fabs(x.v - y.v) <= x.b + y.b;
}

static Tensor *full_shape(Arena *a, const Graph *g, const Node *n, int rank, const DimId *order) {
  Tensor *t = arena_new_of(a, Tensor);
  *t = (Tensor){.type = (Dtype)n->type, .dims = {.n = n->dims->n}, .elements = 1};
  if (rank != 0 && rank != n->dims->n)
    BUG("an order of %d dims for a tensor of %d", rank, n->dims->n);
  for (int i = 0; i < n->dims->n; i++) {
    t->dims.at[i] = rank ? order[i] : dim_get(g->dims, n->dims->at[i])->whole;
    t->extent[i] = dim_get(g->dims, t->dims.at[i])->size;
    t->elements *= t->extent[i];
  }
  tensor_alloc(a, t);
  return t;
}

// Copies the block of processor r into `full`. filled[i] tells whether element i of `full` was
// copied before, from another processor. Returns false if the two copies of such an element differ
// by more than their bounds.
static bool place_block(const Eval *e, const Tensor *block, int64_t r, Tensor *full,
                        uint8_t *filled) {
  StrideWalk w = walk_over(block, block, NULL);
  int64_t from = walk_whole(&w, e->graph, r, full->dims.n, full->dims.at);
  bool same = true;
  for (bool on = walk_first(&w); on; on = walk_next(&w)) {
    int64_t at = from + w.at[1];
    Cell x = tensor_cell(block, w.at[0]);
    if (filled[at])
      same = same && agree(tensor_cell(full, at), x);
    else
      tensor_put(full, at, x);
    filled[at] = 1;
  }
  return same;
}

Tensor *eval_full(Arena *a, const Eval *e, NodeId n, int rank, const DimId *order,
                  bool *replicas_agree) {
  Tensor *full = full_shape(a, e->graph, graph_node(e->graph, n), rank, order);
  uint8_t *filled = arena_array(a, uint8_t, full->elements);
  bool same = true;
  for (int64_t r = 0; r < e->processors; r++)
    same = place_block(e, eval_at(e, n, r), r, full, filled) && same;
  if (replicas_agree) *replicas_agree = same;
  return full;
}
