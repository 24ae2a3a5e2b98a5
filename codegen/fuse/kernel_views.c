// Emits values that are read at other positions than the loop counters: windows, SLICE_OWN (the own
// block of the processor in a value), and pointwise nodes that are computed where windows read
// them.
//
// Such a value is followed through its arguments down to values in memory. An environment maps each
// dim to the position that is read: an affine form of the global positions of loops, over a
// divisor. A window computes the position along the dim that it reads from those along the dims of
// its result. It adds to the guard, a bool, the condition that this position is inside the dim. So
// a chain of windows is one load with one guard:
//
//   window[y -> oy, ky](window[x -> ox, kx](img))
//     %g = inside(oy + ky - 1, size of y), inside(ox + kx - 1, size of x)
//     %v = load p0[.. oy + ky - 1, ox + kx - 1 ..] if %g
//
// A position with divisor 1 becomes strides, offset and bases of the pointer. A position with
// another divisor is first computed as an integer. The divisor of a window may cancel against the
// factor of a window below it: the gradient of a pooling reads the pooled image at the loop
// counters.
#include <string.h>

#include "codegen/fuse/fuse_internal.h"
#include "codegen/fuse/kernel_build_internal.h"

enum { MAX_AFFINE_TERMS = MAX_LOOPS };

// A term of a position (AffineIndex): a factor, and what it multiplies. That is the global position
// along a dim, or the value of a statement.
typedef struct AffineTerm {
  DimId dim; // 0: the term is the value of statement `stmt`
  int32_t stmt;
  int64_t factor;
} AffineTerm;

// A position along a dim: (offset + sum of the terms, each times its factor) / divisor.
typedef struct AffineIndex {
  int64_t divisor, offset;
  int n;
  AffineTerm terms[MAX_AFFINE_TERMS];
} AffineIndex;

// An environment tells at which positions a window reads its argument. It is a linked list of the
// dims that are read at other positions than the loop counters. If a dim has several entries, the
// first one counts. The bool statement with index `guard` tells whether all positions are inside
// their dims; NO_STMT: they always are.
typedef struct ViewEnv {
  const struct ViewEnv *up; // NULL: end of the list
  DimId dim;                // 0: the entry has a guard only
  AffineIndex at;
  int32_t guard;
} ViewEnv;

// The value of a node at the positions that an environment (ViewEnv) gives. stmt: index of its
// statement. If `known`, the value is the number `outside` wherever a position is outside its dim
// (ViewEnv.guard is false).
typedef struct ViewValue {
  int32_t stmt;
  bool known;
  double outside;
} ViewValue;

static ViewValue view(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase);

// -- positions and environments ----------------------------------------------------------------

static void affine_add_term(AffineIndex *p, DimId dim, int32_t stmt, int64_t factor) {
  for (int i = 0; i < p->n; i++)
    if (p->terms[i].dim == dim && (dim || p->terms[i].stmt == stmt)) {
      p->terms[i].factor += factor;
      if (p->terms[i].factor == 0) p->terms[i] = p->terms[--p->n];
      return;
    }
  if (p->n == MAX_AFFINE_TERMS) BUG("a window is read through too many others");
  if (factor) p->terms[p->n++] = (AffineTerm){dim, stmt, factor};
}

static void affine_add(AffineIndex *p, const AffineIndex *q, int64_t factor) {
  p->offset += factor * q->offset;
  for (int i = 0; i < q->n; i++)
    affine_add_term(p, q->terms[i].dim, q->terms[i].stmt, factor * q->terms[i].factor);
}

static void affine_reduce(AffineIndex *p) {
  int64_t g = gcd64(p->divisor, p->offset);
  for (int i = 0; i < p->n; i++) g = gcd64(g, p->terms[i].factor);
  p->divisor /= g;
  p->offset /= g;
  for (int i = 0; i < p->n; i++) p->terms[i].factor /= g;
}

static const ViewEnv *env_find(const ViewEnv *env, DimId d) {
  for (; env; env = env->up)
    if (env->dim == d) return env;
  return NULL;
}

static AffineIndex affine_of(const ViewEnv *env, DimId d) {
  const ViewEnv *at = env_find(env, d);
  if (at) return at->at;
  AffineIndex p = {.divisor = 1};
  affine_add_term(&p, d, NO_STMT, 1);
  return p;
}

static const ViewEnv *env_new(KernelBuilder *k, const ViewEnv *up, DimId d, const AffineIndex *at,
                              int32_t guard) {
  ViewEnv *e = arena_new_of(k->a, ViewEnv);
  *e = (ViewEnv){.up = up, .dim = d, .at = *at, .guard = guard};
  return e;
}

static int32_t env_guard(const ViewEnv *env) { return env ? env->guard : NO_STMT; }

// Returns whether position p is in 0..size-1 for all values of the loop counters.
static bool always_inside(const KernelBuilder *k, const AffineIndex *p, int64_t size) {
  int64_t low = p->offset, high = p->offset;
  if (p->divisor != 1) return false;
  for (int i = 0; i < p->n; i++) {
    const AffineTerm *t = &p->terms[i];
    if (!t->dim) return false;
    int64_t span = t->factor * (dim_get(k->g->dims, dim_get(k->g->dims, t->dim)->whole)->size - 1);
    if (span < 0)
      low += span;
    else
      high += span;
  }
  return low >= 0 && high < size;
}

// -- statements and addresses ------------------------------------------------------------------

static bool same_stmt(const KStmt *a, const KStmt *b) {
  // numbers of different nodes may differ in another call of the kernel
  bool number = a->kind == K_NUM && a->node != b->node;
  return a->kind == b->kind && a->op == b->op && a->type == b->type && a->level == b->level &&
         !number && (a->level != LEVEL_INNER || a->phase == b->phase) &&
         memcmp(a->arg, b->arg, sizeof a->arg) == 0 && (a->kind == K_NUM || a->index == b->index) &&
         a->slot == b->slot && a->step == b->step;
}

static int32_t emit_shared(KernelBuilder *k, KStmt s, int phase) {
  for (int i = 0; i < 3; i++)
    if (s.arg[i] != NO_STMT && k->stmt.at[s.arg[i]].level > s.level)
      s.level = k->stmt.at[s.arg[i]].level;
  s.phase = (uint8_t)(s.level == LEVEL_PROLOGUE ? 0 : phase);
  for (uint32_t i = 0; i < k->stmt.n; i++)
    if (same_stmt(&k->stmt.at[i], &s)) return (int32_t)i;
  if (s.kind == K_NUM) s.index = kernel_add_num(k, graph_node(k->g, s.node)->attr->num[0], 0);
  return kernel_add(k, s);
}

// Emits the number attr.num[0] of node n: the value of a constant, or the value of a window outside
// its argument. Returns the index of its statement.
static int32_t number_of(KernelBuilder *k, NodeId n) {
  KStmt s = stmt_new(K_NUM, OP_CAST, (Dtype)graph_node(k->g, n)->type, LEVEL_PROLOGUE, 0, n);
  s.step = number_known(graph_node(k->g, n)->attr->num[0], s.type);
  return emit_shared(k, s, 0);
}

// An address: a walk (offset, bases and strides along the loops) plus the sum of value[i].factor
// times the value of statement value[i].stmt.
typedef struct Address {
  KPtr walk;
  KLevel level;
  int n;
  AffineTerm value[MAX_AFFINE_TERMS];
} Address;

static int loop_of(const KernelBuilder *k, DimId d) {
  int i = dims_index(&k->plan.outer, d);
  if (i >= 0) return i;
  i = dims_index(&k->plan.inner, d);
  if (i < 0) BUG("a window reads along %s, which is no loop", dim_get(k->g->dims, d)->name);
  return k->plan.outer.n + i;
}

static void address_loop(const KernelBuilder *k, Address *a, DimId d, int64_t factor) {
  int l = loop_of(k, d);
  KLevel level = l < k->plan.outer.n ? LEVEL_OUTER : LEVEL_INNER;
  a->walk.stride[l] += factor;
  if (level > a->level) a->level = level;
}

// Adds to address a, `factor` times, the index in the full tensor of the first element of dim d
// that this processor has.
static void address_offset(KernelBuilder *k, Address *a, DimId d, int64_t factor) {
  Slot slot;
  if (!offset_slot(k->g, d, &slot)) return;
  int16_t s = kernel_add_slot(k, slot);
  KPtr *w = &a->walk;
  for (int i = 0; i < w->nbases; i++)
    if (w->base[i].slot == s) {
      w->base[i].stride += factor;
      if (w->base[i].stride == 0) w->base[i] = w->base[--w->nbases];
      return;
    }
  if (w->nbases == MAX_BASES) BUG("a window is read through too many blocks");
  w->base[w->nbases++] = (KBase){s, factor};
}

static int32_t quotient_of(KernelBuilder *k, const AffineIndex *p, int phase);

static void address_add(KernelBuilder *k, Address *a, const AffineIndex *p, int64_t factor,
                        int phase) {
  if (p->divisor != 1) {
    a->value[a->n++] = (AffineTerm){0, quotient_of(k, p, phase), factor};
    return;
  }
  a->walk.offset += factor * p->offset;
  for (int i = 0; i < p->n; i++) {
    const AffineTerm *t = &p->terms[i];
    if (!t->dim) {
      a->value[a->n++] = (AffineTerm){0, t->stmt, factor * t->factor};
      continue;
    }
    address_loop(k, a, t->dim, factor * t->factor);
    address_offset(k, a, t->dim, factor * t->factor);
  }
}

static int32_t walk_new(KernelBuilder *k, const KPtr *w) {
  for (uint32_t i = 0; i < k->walk.n; i++)
    if (memcmp(&k->walk.at[i], w, sizeof *w) == 0) return (int32_t)i;
  vec_push(k->a, k->walk) = *w;
  return (int32_t)(k->walk.n - 1);
}

// Emits the value of address a as an integer. Returns the index of the statement that holds it.
// `phase` is the pass over the inner loops that computes it.
static int32_t position_of(KernelBuilder *k, const Address *a, int phase) {
  int32_t at = NO_STMT;
  static const KPtr none;
  for (int i = 0; i == 0 || i < a->n; i++) {
    KStmt s = stmt_new(K_POSITION, OP_CAST, TYPE_I64, i ? LEVEL_PROLOGUE : a->level, phase, 0);
    s.index = walk_new(k, i ? &none : &a->walk);
    if (i < a->n) s.arg[0] = a->value[i].stmt;
    if (i < a->n) s.step = a->value[i].factor;
    s.arg[1] = at;
    at = emit_shared(k, s, phase);
  }
  return at;
}

static int32_t numerator_of(KernelBuilder *k, const AffineIndex *p, int phase) {
  AffineIndex numerator = *p;
  Address a = {.level = LEVEL_PROLOGUE};
  numerator.divisor = 1;
  address_add(k, &a, &numerator, 1, phase);
  return position_of(k, &a, phase);
}

static int32_t quotient_of(KernelBuilder *k, const AffineIndex *p, int phase) {
  KStmt s = stmt_new(K_QUOTIENT, OP_CAST, TYPE_I64, LEVEL_PROLOGUE, phase, 0);
  s.arg[0] = numerator_of(k, p, phase);
  s.step = p->divisor;
  return emit_shared(k, s, phase);
}

// -- guards: whether a position is inside a dim ------------------------------------------------

static int32_t inside(KernelBuilder *k, int32_t x, int64_t limit, int32_t slot, int32_t guard,
                      int phase) {
  KStmt s = stmt_new(K_INSIDE, OP_CAST, TYPE_BOOL, LEVEL_PROLOGUE, phase, 0);
  s.arg[0] = x;
  s.arg[1] = guard;
  s.step = limit;
  s.slot = slot;
  return emit_shared(k, s, phase);
}

static int32_t guard_exact(KernelBuilder *k, const AffineIndex *p, int32_t guard, int phase) {
  static const KPtr none;
  if (p->divisor == 1) return guard;
  KStmt rest = stmt_new(K_POSITION, OP_CAST, TYPE_I64, LEVEL_PROLOGUE, phase, 0);
  rest.index = walk_new(k, &none);
  rest.arg[0] = quotient_of(k, p, phase);
  rest.step = -p->divisor;
  rest.arg[1] = numerator_of(k, p, phase);
  return inside(k, emit_shared(k, rest, phase), 1, -1, guard, phase);
}

// Emits a bool: statement `guard` is true and position p is inside dim d. Returns the index of its
// statement, or `guard` itself if p is always inside d.
static int32_t guard_range(KernelBuilder *k, DimId d, const AffineIndex *p, int32_t guard,
                           int phase) {
  const Dim *dim = dim_get(k->g->dims, d);
  Slot extent;
  bool partial = extent_slot(k->g, k->f->rows, d, &extent);
  if (!partial && dim->whole == d && always_inside(k, p, dim->size)) return guard;
  Address a = {.level = LEVEL_PROLOGUE};
  address_add(k, &a, p, 1, phase);
  address_offset(k, &a, d, -1);
  int32_t slot = partial ? kernel_add_slot(k, extent) : -1;
  return inside(k, position_of(k, &a, phase), dim->size, slot, guard, phase);
}

// -- values in an environment ------------------------------------------------------------------

static ViewValue load_seen(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  const Node *x = graph_node(k->g, n);
  const DimList *order = &k->f->order->at[n];
  Address a = {.level = LEVEL_PROLOGUE};
  bool elsewhere = false;
  for (int i = 0; i < x->dims->n; i++) {
    DimId d = x->dims->at[i];
    int64_t stride = order_stride(k->g, order, d);
    const ViewEnv *at = env_find(env, d);
    elsewhere |= at != NULL;
    if (!at) {
      address_loop(k, &a, d, stride);
      continue;
    }
    address_add(k, &a, &at->at, stride, phase);
    address_offset(k, &a, d, -stride);
  }
  KStmt s = stmt_new(a.n ? K_LOAD_AT : K_LOAD, OP_CAST, (Dtype)x->type, a.level, phase, n);
  a.walk.type = (Dtype)x->type;
  s.index = kernel_add_pointer(k, n, &a.walk, false);
  if (a.n > 1) {
    Address rest = {.level = LEVEL_PROLOGUE, .n = a.n};
    memcpy(rest.value, a.value, sizeof a.value);
    a.value[0] = (AffineTerm){0, position_of(k, &rest, phase), 1};
  }
  if (a.n) s.arg[0] = a.value[0].stmt;
  if (a.n) s.step = a.value[0].factor;
  if (elsewhere) s.arg[1] = env_guard(env);
  return (ViewValue){emit_shared(k, s, phase), elsewhere, 0};
}

static ViewValue window_seen(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  const Node *x = graph_node(k->g, n);
  const Affine *f = &x->attr->affine;
  AffineIndex to[2] = {{.divisor = 1}, {.divisor = 1}}, at = {.divisor = 1};
  for (int i = 0; i < x->attr->nto; i++) to[i] = affine_of(env, x->attr->to[i]);
  int64_t common = to[0].divisor / gcd64(to[0].divisor, to[1].divisor) * to[1].divisor;
  at.offset = f->offset * common;
  affine_add(&at, &to[0], f->out * (common / to[0].divisor));
  affine_add(&at, &to[1], f->tap * (common / to[1].divisor));
  if (x->nargs > 1) affine_add_term(&at, 0, view(k, x->args[1], NULL, phase).stmt, common);
  at.divisor = f->divisor * common;
  affine_reduce(&at);
  int32_t guard = guard_exact(k, &at, env_guard(env), phase);
  guard = guard_range(k, x->attr->dims[0], &at, guard, phase);
  ViewValue y = view(k, x->args[0], env_new(k, env, x->attr->dims[0], &at, guard), phase);
  if (guard == env_guard(env) || (y.known && y.outside == x->attr->num[0])) return y;
  KStmt s = stmt_new(K_OP, OP_WHERE, (Dtype)x->type, LEVEL_PROLOGUE, phase, n);
  s.arg[0] = guard;
  s.arg[1] = y.stmt;
  s.arg[2] = number_of(k, n);
  return (ViewValue){emit_shared(k, s, phase), true, x->attr->num[0]};
}

static ViewValue renamed_seen(KernelBuilder *k, const Node *x, const ViewEnv *env, int phase) {
  const ViewEnv *all = env;
  for (int i = 0; i < x->attr->nto; i++) {
    AffineIndex at = affine_of(env, x->attr->to[i]);
    all = env_new(k, all, x->attr->dims[i], &at, env_guard(env));
  }
  return view(k, x->args[0], all, phase);
}

static int32_t global_index(KernelBuilder *k, const Node *x, const ViewEnv *env, int phase) {
  AffineIndex at = affine_of(env, x->dims->at[0]);
  Address a = {.level = LEVEL_PROLOGUE};
  address_add(k, &a, &at, 1, phase);
  KStmt s = stmt_new(K_OP, OP_CAST, TYPE_I32, LEVEL_PROLOGUE, phase, 0);
  s.arg[0] = position_of(k, &a, phase);
  return emit_shared(k, s, phase);
}

// Emits random draw n at the positions of environment env (ViewEnv). The number drawn depends on
// the position of the element in the full tensor, row-major in order of declaration
// (ir/base/philox.h). So it is the same on every mesh.
static int32_t draw(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  const Node *x = graph_node(k->g, n);
  Address a = {.level = LEVEL_PROLOGUE};
  int64_t stride = 1;
  for (int i = x->dims->n - 1; i >= 0; i--) {
    AffineIndex at = affine_of(env, x->dims->at[i]);
    address_add(k, &a, &at, stride, phase);
    stride *= dim_get(k->g->dims, dim_get(k->g->dims, x->dims->at[i])->whole)->size;
  }
  KStmt s = stmt_new(K_OP, (Op)x->op, (Dtype)x->type, LEVEL_PROLOGUE, phase, n);
  s.arg[0] = position_of(k, &a, phase);
  s.index = kernel_add_num(k, (double)(uint32_t)x->attr->key, 0);
  kernel_add_num(k, (double)(x->attr->key >> 32), 0);
  return emit_shared(k, s, phase);
}

static int32_t pointwise(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  const Node *x = graph_node(k->g, n);
  KStmt s = stmt_new(K_OP, (Op)x->op, (Dtype)x->type, LEVEL_PROLOGUE, phase, n);
  for (int i = 0; i < x->nargs; i++) s.arg[i] = view(k, x->args[i], env, phase).stmt;
  stmt_order_args(&s);
  if (x->op == OP_TO_PARTIAL)
    s.slot = kernel_add_slot(k, (Slot){.kind = SLOT_RANK, .dim = "", .axes = x->attr->axes});
  return emit_shared(k, s, phase);
}

// Emits the value of node n at the positions of environment env (ViewEnv), computed from the
// arguments of n.
static ViewValue computed(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  const Node *x = graph_node(k->g, n);
  switch ((Op)x->op) {
  case OP_WINDOW:
  case OP_WINDOW_AT: return window_seen(k, n, env, phase);
  case OP_SLICE_OWN: return renamed_seen(k, x, env, phase);
  case OP_BROADCAST: return view(k, x->args[0], env, phase);
  case OP_CONST: return (ViewValue){number_of(k, n), true, x->attr->num[0]};
  case OP_INDEX: return (ViewValue){global_index(k, x, env, phase), false, 0};
  case OP_RANDOM_UNIFORM:
  case OP_RANDOM_NORMAL: return (ViewValue){draw(k, n, env, phase), false, 0};
  default: return (ViewValue){pointwise(k, n, env, phase), false, 0};
  }
}

// Emits the value of node n at the positions of environment env (ViewEnv). Computes the value if
// the kernel recomputes n, otherwise loads it. fuse_roles.c limits the depth of the recursion.
static ViewValue view(KernelBuilder *k, NodeId n, const ViewEnv *env, int phase) {
  bool recomputed = group_index(k->group, n) >= 0 && k->f->recomputed[n];
  return recomputed ? computed(k, n, env, phase) : load_seen(k, n, env, phase);
}

int32_t view_emit(KernelBuilder *k, NodeId n, int phase) {
  return computed(k, n, NULL, phase).stmt;
}
