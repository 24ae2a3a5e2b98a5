// Builds guarded regions: parts of a step that run only if a bool scalar is true. `cond` has one
// for each of its sides, a scan with `while` one for its body.
//
//   y = cond(c, f(x), g(x))
//     region 1 guarded {
//       k = carry(c); u = carry(x) constant; r = carry(0); next of r: f(u)
//     }
//     region 2 guarded {
//       k = carry(not c); v = carry(x) constant; q = carry(final r); next of q: g(v)
//     }
//     y = final q
#include "frontend/model/build_internal.h"

const Loop *loop_scanned(const Loop *l) {
  while (l && l->side) l = l->outer;
  return l;
}

// Returns the dim of one position over which the guarded regions at this depth run.
static DimId once_dim(Build *b) {
  uint32_t depth = 0;
  for (const Loop *l = b->loop; l; l = l->outer) depth += l->side != NULL;
  const char *name =
      depth ? intern_printf(b->names, "cond.once_%u", depth) : intern(b->names, "cond.once");
  DimId d = dim_find(b->g->dims, name);
  return d ? d : dim_add(b->g->dims, name, 1, (Pos){0});
}

// Adds a carry to the region that brings node n in.
static NodeId add_entry(Build *b, Side *s, NodeId n) {
  NodeId carry =
      graph_add(b->g, OP_CARRY, 1, &n, &(Attr){.region = s->loop.region, .carry = s->entry.n});
  vec_push(b->a, s->entry) = (SideEntry){n, carry};
  return carry;
}

void side_open(Build *b, Side *s, NodeId guard, Pos pos) {
  Region region = {.parent = loop_region(b), .t = once_dim(b), .guarded = true, .pos = pos};
  *s = (Side){.loop = {.outer = b->loop, .graph = b->g, .t = region.t, .pos = pos}};
  s->loop.region = graph_region(b->g, &region);
  s->loop.side = s;
  (void)add_entry(b, s, guard);
  b->loop = &s->loop;
}

void side_leave(Build *b, const Side *s) { b->loop = s->loop.outer; }

// Numbers, positions and draws are cheap to have outside.
static bool stays_outside(Build *b, NodeId n) {
  const Node *x = graph_node(b->g, n);
  return (op_row((Op)x->op)->cls == SOURCE && !op_is_decl((Op)x->op)) || node_is_weak(b, n);
}

NodeId side_enter(Build *b, Side *s, NodeId n) {
  if (region_encloses(b->g, s->loop.region, graph_node(b->g, n)->region) || stays_outside(b, n))
    return n;
  for (uint32_t i = 0; i < s->entry.n; i++)
    if (s->entry.at[i].outside == n || s->entry.at[i].carry == n) return s->entry.at[i].carry;
  if (s->entry.n < MAX_ENTRIES) return add_entry(b, s, n);
  if (!s->full)
    diag_error(b->d, DIAG_TOO_DEEP, s->loop.pos,
               "more than %d values are read where a condition holds", MAX_ENTRIES);
  s->full = true;
  return n;
}

uint32_t side_result(Build *b, Side *s, NodeId start, NodeId next) {
  vec_push(b->a, s->start) = start;
  vec_push(b->a, s->next) = next;
  return s->start.n - 1;
}

void side_close(Build *b, Side *s, NodeId *out) {
  NodeId args[MAX_ARGS], carry[MAX_ARGS];
  int n = 0;
  for (uint32_t i = 0; i < s->entry.n; i++) args[n++] = s->entry.at[i].carry;
  for (uint32_t k = 0; k < s->start.n; k++) {
    Attr attr = {.region = s->loop.region, .carry = (uint32_t)n};
    carry[k] = graph_add(b->g, OP_CARRY, 1, &s->start.at[k], &attr);
    args[n++] = s->next.at[k];
  }
  NodeId scan = graph_add(b->g, OP_SCAN, n, args, &(Attr){.region = s->loop.region});
  for (uint32_t k = 0; k < s->start.n; k++)
    out[k] = graph_add(b->g, OP_FINAL, 2, (NodeId[]){scan, carry[k]}, NULL);
}

NodeId side_condition(Build *b, const Value *v, const char *what, Pos pos) {
  if (!value_is_tensor(b, v, pos)) return 0;
  bool truth = v->kind == VALUE_TENSOR && graph_node(b->g, v->node)->type == TYPE_BOOL;
  if (!truth) {
    diag_error(b->d, DIAG_BAD_TYPE, pos, "the condition of %s is a bool", what);
    diag_hint(b->d, "compare it: x != 0");
    return 0;
  }
  if (graph_node(b->g, v->node)->dims->n == 0) return v->node;
  diag_error(b->d, DIAG_NOT_SCALAR, pos, "the condition of %s is a scalar, this is over %s", what,
             dims_listed(b, build_dims(b, v)));
  diag_hint(b->d, "reduce it, any(x) or all(x); where(x, a, b) chooses element by element");
  return 0;
}
