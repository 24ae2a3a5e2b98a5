// Builds the kernel of a group: finds the level and phase of each value, then emits statements and
// pointers.
//
// The level of a value is the deepest loop along which it varies. Its phase is one more than that
// of the last reduction that it needs. A value of level OUTER is computed once for each unit, that
// is for each iteration of the outer loops. A value of level INNER is recomputed in every phase
// that needs it, from loads, which are cheap while a row is in cache (softmax in kernel.h).
#include <string.h>

#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

// -- levels and phases of values ---------------------------------------------------------------

static bool is_stored(const Group *g, NodeId n) {
  for (uint32_t i = 0; i < g->nstored; i++)
    if (g->stored[i] == n) return true;
  return false;
}

// Returns whether op reads its argument i at other positions than the loop counters. It does so for
// the table of a lookup and for the value that a window reads.
static bool is_address(Op op, int i) { return op_looks_up(op, i) || op_looks_through(op, i); }

// Returns whether the kernel reads argument i of node n elsewhere than at the loop counters: there
// or along loops of its own.
static bool is_elsewhere(const KernelBuilder *k, NodeId n, int i) {
  return is_address((Op)graph_node(k->g, n)->op, i) || is_dot(k->f, n);
}

// Sets KernelValue.direct of the values that are computed at the loop counters. They are the stored
// values, the values that are not recomputed, and the arguments that these read, directly or
// through other nodes. Values that only windows read are emitted by view_emit, at the positions
// that the window reads. The first position of a WINDOW_AT is a number, computed at the loop
// counters.
static void find_direct(KernelBuilder *k) {
  for (uint32_t i = k->n; i-- > 0;) {
    NodeId n = k->node[i];
    const Node *x = graph_node(k->g, n);
    KernelValue *v = &k->value[i];
    v->stored = is_stored(k->group, n);
    v->direct |= v->stored || !k->f->recomputed[n];
    for (int j = 0; j < x->nargs; j++) {
      int a = group_index(k->group, x->args[j]);
      if (a < 0) continue;
      bool start = x->op == OP_WINDOW_AT && j == 1;
      k->value[a].direct |=
          start || (v->direct && !is_elsewhere(k, n, j)); // a lookup reads its table in memory
    }
  }
}

static void find_reduction(KernelBuilder *k, NodeId n, KernelValue *v) {
  const Dims *outer = &k->plan.outer, *inner = &k->plan.inner;
  Dims space = node_space(k->g, n), deep = list_minus(&space, outer);
  v->level = (uint8_t)(deep.n ? LEVEL_INNER : LEVEL_OUTER);
  if (graph_node(k->g, n)->op == OP_SCATTER_ADD) return;
  v->accumulates = reduce_accumulates(k->g, n, outer, inner);
  v->reduces = !v->accumulates;
  if (!v->reduces) return;
  v->level = (uint8_t)LEVEL_OUTER;
  v->ready = (uint8_t)(v->phase + 1);
}

static void find_value(KernelBuilder *k, int at) {
  NodeId n = k->node[at];
  const Node *x = graph_node(k->g, n);
  KernelValue *v = &k->value[at];
  v->stmt = NO_STMT;
  v->inner_phase = -1;
  v->level = (uint8_t)LEVEL_PROLOGUE;
  if (!v->direct) return;
  if (op_row(x->op)->cls == SOURCE || op_looks_through((Op)x->op, 0) || is_dot(k->f, n))
    v->level = (uint8_t)loops_level(k, x->dims);
  if (x->op == OP_TAKE) {
    Dims rest = *graph_node(k->g, x->args[0])->dims;
    dims_remove(&rest, x->attr->dims[0]);
    v->level = (uint8_t)loops_level(k, &rest);
  }
  for (int i = 0; i < x->nargs; i++) {
    if (is_elsewhere(k, n, i)) continue;
    int a = group_index(k->group, x->args[i]);
    uint8_t level =
        a >= 0 ? k->value[a].level : (uint8_t)loops_level(k, graph_node(k->g, x->args[i])->dims);
    if (level > v->level) v->level = level;
    if (a >= 0 && k->value[a].ready > v->phase) v->phase = k->value[a].ready;
  }
  v->ready = v->phase;
  if (op_reduces((Op)x->op) && !is_dot(k->f, n)) find_reduction(k, n, v);
}

// -- statements that compute or load values ----------------------------------------------------

// Returns the index of a pointer to the element of `node` at the loop counters. Its stride along
// the loop of dim `except` is 0; except 0: there is no such dim. `address`: the pointer is for a
// lookup, a scatter or an accumulator, and is not shared with loads and stores.
static int32_t pointer(KernelBuilder *k, NodeId node, DimId except, bool written, bool address) {
  KPtr ptr;
  memset(&ptr, 0, sizeof ptr); // pointers are compared byte by byte, padding included
  ptr.type = (Dtype)graph_node(k->g, node)->type;
  ptr.written = written;
  for (int i = 0; i < plan_loops(&k->plan) - k->plan.dots.n; i++) {
    DimId d = plan_dim(&k->plan, i);
    if (d != except) ptr.stride[i] = order_stride(k->g, &k->f->order->at[node], d);
  }
  return kernel_add_pointer(k, node, &ptr, address);
}

static int32_t load(KernelBuilder *k, NodeId node, int phase) {
  const Node *x = graph_node(k->g, node);
  KLevel level = loops_level(k, x->dims);
  int at = level == LEVEL_PROLOGUE ? 0 : phase;
  for (uint32_t i = 0; i < k->load.n; i++) {
    const KernelLoad *l = &k->load.at[i];
    if (l->node == node && (level != LEVEL_INNER || l->phase == phase)) return l->stmt;
  }
  KStmt s = stmt_new(K_LOAD, OP_CAST, x->type, level, at, node);
  s.index = pointer(k, node, 0, false, false);
  int32_t stmt = kernel_add(k, s);
  vec_push(k->a, k->load) = (KernelLoad){node, level, phase, stmt};
  return stmt;
}

// Returns the index of the statement that holds the value of node a in phase `phase`, a pass over
// the inner loops. Emits a load if the kernel does not compute a.
static int32_t value_of(KernelBuilder *k, NodeId a, int phase) {
  int at = group_index(k->group, a);
  if (at < 0) return load(k, a, phase);
  const KernelValue *v = &k->value[at];
  if (v->stmt == NO_STMT || (v->level == LEVEL_INNER && v->inner_phase != phase))
    BUG("value %u is not there in phase %d", a, phase);
  return v->stmt;
}

static int32_t cast(KernelBuilder *k, int32_t arg, Dtype type, KLevel level, int phase, NodeId n) {
  if (k->stmt.at[arg].type == type) return arg;
  const KStmt *from = &k->stmt.at[arg];
  KLevel from_level = from->kind == K_REDUCE ? LEVEL_OUTER : from->level;
  if (from_level > level) level = from_level;
  KStmt s = stmt_new(K_OP, OP_CAST, type, level, level == LEVEL_PROLOGUE ? 0 : phase, n);
  s.arg[0] = arg;
  return kernel_add(k, s);
}

static int32_t emit_index(KernelBuilder *k, const Node *x, KStmt s) {
  if (dim_get(k->g->dims, x->dims->at[0])->axes.n)
    s.slot = kernel_add_slot(k, slot_of_dim(k->g->dims, x->dims->at[0], SLOT_OFFSET));
  int32_t stmt = kernel_add(k, s);
  k->stmt_dim.at[stmt] = x->dims->at[0];
  return stmt;
}

static int32_t emit_take(KernelBuilder *k, const Node *x, KStmt s, int phase) {
  s.kind = K_LOAD_AT;
  s.arg[0] = value_of(k, x->args[1], phase);
  s.index = pointer(k, x->args[0], x->attr->dims[0], false, true);
  s.step = order_stride(k->g, &k->f->order->at[x->args[0]], x->attr->dims[0]);
  return kernel_add(k, s);
}

// Returns whether n is one of the two values between which some `where` node of the kernel chooses.
static bool is_choice(const KernelBuilder *k, NodeId n) {
  for (uint32_t i = 0; i < k->n; i++) {
    const Node *x = graph_node(k->g, k->node[i]);
    if (x->op == OP_WHERE && (x->args[1] == n || x->args[2] == n)) return true;
  }
  return false;
}

// Emits the statement of node k->node[at], which must not be a reduction. Returns the index of the
// statement. `phase` is the pass over the inner loops that computes it.
static int32_t emit_value(KernelBuilder *k, int at, int phase) {
  NodeId n = k->node[at];
  const Node *x = graph_node(k->g, n);
  KStmt s = stmt_new(K_OP, (Op)x->op, (Dtype)x->type, (KLevel)k->value[at].level, phase, n);
  switch ((Op)x->op) {
  case OP_CONST:
    s.kind = K_NUM;
    s.index = kernel_add_num(k, x->attr->num[0], 0);
    if (is_choice(k, n)) s.step = number_known(x->attr->num[0], s.type);
    return kernel_add(k, s);
  case OP_INDEX: return emit_index(k, x, s);
  case OP_BROADCAST: return value_of(k, x->args[0], phase);
  case OP_SLICE_OWN:
  case OP_WINDOW:
  case OP_WINDOW_AT:
  case OP_RANDOM_UNIFORM:
  case OP_RANDOM_NORMAL: return view_emit(k, n, phase);
  case OP_TAKE: return emit_take(k, x, s, phase);
  case OP_CONTRACT: return dot_emit(k, n, phase);
  case OP_BOUND:
    s.step = dim_get(k->g->dims, x->attr->dims[0])->size;
    s.index = kernel_add_num(k, 0, n);
    break;
  case OP_TO_PARTIAL:
    s.slot = kernel_add_slot(k, (Slot){.kind = SLOT_RANK, .dim = "", .axes = x->attr->axes});
    break;
  default: break;
  }
  for (int i = 0; i < x->nargs; i++) s.arg[i] = value_of(k, x->args[i], phase);
  stmt_order_args(&s);
  return kernel_add(k, s);
}

// -- statements of reductions and stores -------------------------------------------------------

// Returns the type in which reduction x accumulates. Sums of narrow floats are kept in f32.
// Integers wrap in their own type. Products of floats are kept in f64, because each rounding of a
// product adds a relative error to the result, in whatever order the factors come.
static Dtype accumulator_of(const KernelBuilder *k, const Node *x) {
  Monoid m = op_row((Op)x->op)->monoid;
  if (dtype_class((Dtype)x->type) == CLASS_INT) return (Dtype)x->type;
  if (m == MONOID_PROD) return TYPE_F64;
  bool half = x->type == TYPE_BF16 || x->type == TYPE_F16;
  Dtype type = m == MONOID_SUM || half ? dtype_accumulator((Dtype)x->type) : (Dtype)x->type;
  if (x->op != OP_CONTRACT) return type;
  for (int i = 0; i < 2; i++)
    type = dtype_join(type, dtype_accumulator((Dtype)graph_node(k->g, x->args[i])->type));
  return type;
}

// Emits the value that reduction n combines. It is the argument of n or, if n is a contraction, the
// product of its arguments. Returns the index of the statement with this value.
static int32_t emit_reduced(KernelBuilder *k, NodeId n, KLevel level, int phase) {
  const Node *x = graph_node(k->g, n);
  Dtype type = accumulator_of(k, x);
  int32_t a = cast(k, value_of(k, x->args[0], phase), type, LEVEL_PROLOGUE, phase, n);
  if (x->op != OP_CONTRACT) return a;
  KStmt s = stmt_new(K_OP, OP_MUL, type, level, phase, n);
  s.arg[0] = a;
  s.arg[1] = cast(k, value_of(k, x->args[1], phase), type, LEVEL_PROLOGUE, phase, n);
  return kernel_add(k, s);
}

// Emits the statement of reduction k->node[at]. It is a K_ACCUM if the reduction combines values
// over all iterations of the outer loops, else a K_REDUCE.
static void emit_combine(KernelBuilder *k, int at) {
  NodeId n = k->node[at];
  const Node *x = graph_node(k->g, n);
  KernelValue *v = &k->value[at];
  KLevel level = v->reduces ? LEVEL_INNER : (KLevel)v->level;
  Op op = x->op == OP_CONTRACT ? OP_SUM : (Op)x->op;
  KStmt s = stmt_new(v->reduces ? K_REDUCE : K_ACCUM, op, accumulator_of(k, x), level, v->phase, n);
  s.arg[0] = emit_reduced(k, n, level, v->phase);
  if (v->accumulates) s.index = pointer(k, n, 0, true, true);
  int32_t stmt = kernel_add(k, s);
  if (v->reduces) v->stmt = stmt;
}

static void emit_scatter(KernelBuilder *k, int at) {
  NodeId n = k->node[at];
  const Node *x = graph_node(k->g, n);
  KernelValue *v = &k->value[at];
  Op op = x->attr->monoid == MONOID_MAX ? OP_MAX : OP_SUM;
  KStmt s = stmt_new(K_SCATTER, op, (Dtype)x->type, (KLevel)v->level, v->phase, n);
  s.arg[0] = value_of(k, x->args[0], v->phase);
  s.arg[1] = value_of(k, x->args[1], v->phase);
  s.index = pointer(k, n, x->attr->to[0], true, true);
  s.step = order_stride(k->g, &k->f->order->at[n], x->attr->to[0]);
  kernel_add(k, s);
}

static void emit_store(KernelBuilder *k, int at, KLevel level, int phase) {
  NodeId n = k->node[at];
  KStmt s = stmt_new(K_STORE, OP_CAST, (Dtype)graph_node(k->g, n)->type, level, phase, n);
  s.arg[0] = k->value[at].stmt;
  s.index = pointer(k, n, 0, true, false);
  kernel_add(k, s);
}

// -- the statements of each phase --------------------------------------------------------------

static bool is_scatter(const KernelBuilder *k, int at) {
  return graph_node(k->g, k->node[at])->op == OP_SCATTER_ADD;
}
static bool is_check(const KernelBuilder *k, int at) {
  return op_row(graph_node(k->g, k->node[at])->op)->flags & CHECKS;
}

static bool ends_here(const KernelValue *v) { return v->accumulates || v->reduces; }

// Returns whether value i is stored in phase p (a pass over the inner loops) at level `level`.
// Returns false for values that vary along the inner loops: emit_inner stores them where it
// computes them. Other values are stored at level INNER if they are broadcasts over inner loops
// that other kernels read, else at level OUTER.
static bool stores_at(const KernelBuilder *k, int i, int p, KLevel level) {
  const KernelValue *v = &k->value[i];
  if (!v->stored || v->accumulates || is_scatter(k, i) || v->level == LEVEL_INNER) return false;
  bool inner = loops_level(k, graph_node(k->g, k->node[i])->dims) == LEVEL_INNER;
  return (v->level == LEVEL_PROLOGUE ? 0 : v->ready) == p && inner == (level == LEVEL_INNER);
}

// Emits the values of level `level`, OUTER or PROLOGUE, that can be computed in phase p but in no
// earlier phase. A phase is a pass over the inner loops. Accumulators and the casts of reductions
// are among these values. Then, at level OUTER, emits the stores of phase p.
static void emit_outer(KernelBuilder *k, KLevel level, int p) {
  for (uint32_t i = 0; i < k->n; i++) {
    KernelValue *v = &k->value[i];
    if (!v->direct || v->level != level || (level == LEVEL_OUTER && v->ready != p)) continue;
    if (is_scatter(k, (int)i))
      emit_scatter(k, (int)i);
    else if (v->accumulates)
      emit_combine(k, (int)i);
    else if (v->reduces)
      v->stmt =
          cast(k, v->stmt, (Dtype)graph_node(k->g, k->node[i])->type, LEVEL_OUTER, p, k->node[i]);
    else
      v->stmt = emit_value(k, (int)i, level == LEVEL_OUTER ? p : 0);
  }
  for (uint32_t i = 0; i < k->n && level == LEVEL_OUTER; i++)
    if (stores_at(k, (int)i, p, LEVEL_OUTER)) emit_store(k, (int)i, LEVEL_OUTER, p);
}

static bool roots_inner(const KernelBuilder *k, int i, int p) {
  const KernelValue *v = &k->value[i];
  if (v->phase != p) return false;
  if (v->reduces || ((v->accumulates || is_scatter(k, i)) && v->level == LEVEL_INNER)) return true;
  return v->level == LEVEL_INNER && (v->stored || is_check(k, i));
}

static bool needs_inner(KernelBuilder *k, int p) {
  bool any = false;
  for (uint32_t i = 0; i < k->n; i++) any |= k->value[i].needed = roots_inner(k, (int)i, p);
  for (int i = (int)k->n - 1; i >= 0; i--) {
    if (!k->value[i].needed) continue;
    const Node *x = graph_node(k->g, k->node[i]);
    for (int j = 0; j < x->nargs; j++) {
      int a = is_elsewhere(k, k->node[i], j) ? -1 : group_index(k->group, x->args[j]);
      if (a >= 0 && k->value[a].level == LEVEL_INNER && !ends_here(&k->value[a]))
        k->value[a].needed = true;
    }
  }
  return any;
}

static void emit_inner(KernelBuilder *k, int p) {
  needs_inner(k, p);
  for (uint32_t i = 0; i < k->n; i++) {
    KernelValue *v = &k->value[i];
    if (stores_at(k, (int)i, p, LEVEL_INNER)) emit_store(k, (int)i, LEVEL_INNER, p);
    if (!v->needed) continue;
    if (v->reduces || v->accumulates)
      emit_combine(k, (int)i);
    else if (is_scatter(k, (int)i))
      emit_scatter(k, (int)i);
    else {
      v->stmt = emit_value(k, (int)i, p);
      v->inner_phase = p;
      if (v->stored && v->phase == p) emit_store(k, (int)i, LEVEL_INNER, p);
    }
  }
}

static int emit_phases(KernelBuilder *k) {
  int last = 0;
  find_direct(k);
  for (uint32_t i = 0; i < k->n; i++) {
    find_value(k, (int)i);
    if (k->value[i].ready > last) last = k->value[i].ready;
  }
  emit_outer(k, LEVEL_PROLOGUE, 0);
  for (int p = 0; p <= last; p++) {
    emit_outer(k, LEVEL_OUTER, p);
    emit_inner(k, p);
  }
  int phases = 1;
  for (uint32_t i = 0; i < k->stmt.n; i++)
    if (k->stmt.at[i].phase + 1 > phases) phases = k->stmt.at[i].phase + 1;
  return phases;
}

static BuiltKernel *built_kernel(KernelBuilder *k, bool any_size) {
  Arena *a = k->lasting;
  Kernel *kernel = arena_new_of(a, Kernel);
  loops_finish(k, kernel, any_size);
  kernel->ptr = arena_copy(a, k->ptr.at, k->ptr.n * sizeof *k->ptr.at);
  kernel->nptr = (uint16_t)k->ptr.n;
  kernel->walk = arena_copy(a, k->walk.at, k->walk.n * sizeof *k->walk.at);
  kernel->nwalks = (uint16_t)k->walk.n;
  kernel->stmt = arena_copy(a, k->stmt.at, k->stmt.n * sizeof *k->stmt.at);
  kernel->nstmts = (uint16_t)k->stmt.n;
  kernel->nslots = (uint16_t)k->slot.n;
  kernel->nnum = (uint16_t)k->num.n;
  kernel->why = k->group->why;
  BuiltKernel *out = arena_new_of(a, BuiltKernel);
  *out = (BuiltKernel){.kernel = kernel,
                       .ptr = arena_copy(a, k->ptr_node.at, k->ptr_node.n * sizeof *k->ptr_node.at),
                       .slot = arena_copy(a, k->slot.at, k->slot.n * sizeof *k->slot.at),
                       .num = arena_copy(a, k->num.at, k->num.n * sizeof *k->num.at),
                       .check = arena_copy(a, k->check.at, k->check.n * sizeof *k->check.at),
                       .outer = k->plan.outer,
                       .inner = k->plan.inner};
  return out;
}

BuiltKernel *kernel_build(Arena *a, Arena *scratch, const Fusion *f, const Group *g, bool any_size,
                          bool images) {
  ArenaMark mark = arena_mark(scratch);
  KernelBuilder k = {.a = scratch,
                     .lasting = a,
                     .f = f,
                     .g = f->graph,
                     .group = g,
                     .n = g->nnodes,
                     .node = g->node,
                     .value = arena_array(scratch, KernelValue, g->nnodes),
                     .plan = loops_choose(f, g)};
  bug_context("kernels", g->node[0]);
  int phases = emit_phases(&k);
  BuiltKernel *b = built_kernel(&k, any_size);
  b->kernel->nphases = (uint8_t)phases;
  if (images) kernel_by_images(b->kernel);
  ProductForm product;
  if (kernel_product(b->kernel, &product)) b->kernel->block = product_columns(b->kernel, &product);
  char why[200];
  if (!kernel_verify(b->kernel, why)) BUG("%s\n%s", why, kernel_print(a, b->kernel));
  arena_reset(scratch, mark);
  return b;
}
