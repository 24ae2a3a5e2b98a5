// Finds loops that may end before their last round, and pairs of loops of which one runs.
//
// The body of a scan with `while` is a guarded loop, and the guard is carried: once it is false, it
// stays false, and the body runs in no later round. If nothing else happens in the loop, later
// rounds change nothing, and the loop ends.
//
//   loop t { alive = carry(true, next go); go = alive and c(x); x' = final of the body, or x }
//     =>  the loop ends after the round in which go was false
//
// What the loop collects is zero in the rounds that are left, so its memory is cleared before. A
// carry that is collected for the backward pass has other values there, which only guarded loops
// read.
#include "codegen/program/program_internal.h"

// Returns the guard of the guarded loop that `scan` ends, as it is outside of the loop; 0: it is
// not guarded.
static NodeId guard_of(const Builder *b, NodeId scan) {
  RegionId r = graph_node(b->g, scan)->attr->region;
  if (!region_get(b->g, r)->guarded) return 0;
  for (uint32_t i = b->carries.first[r]; i < b->carries.first[r + 1]; i++) {
    const Node *c = graph_node(b->g, b->carries.node[i]);
    if (c->attr->carry == 0) return c->args[0];
  }
  return 0;
}

static bool is_number(const Graph *g, NodeId n, double number) {
  while (graph_node(g, n)->op == OP_BROADCAST) n = graph_node(g, n)->args[0];
  return graph_node(g, n)->op == OP_CONST && graph_node(g, n)->attr->num[0] == number;
}

// Returns the value that node n has if `go` is false: the start of a carry of a loop that `go`
// guards. 0: n is another node.
static NodeId left_alone(const Builder *b, NodeId n, NodeId go) {
  const Node *x = graph_node(b->g, n);
  if (x->op != OP_FINAL || guard_of(b, x->args[0]) != go) return 0;
  return graph_node(b->g, x->args[1])->args[0];
}

// -- what is collected --------------------------------------------------------------------------

// Returns whether the guard of the loop of carry n is what `scan` collects of `go`.
static bool guarded_by(const Builder *b, NodeId n, NodeId scan, NodeId go) {
  NodeId guard = guard_of(b, b->scan[graph_node(b->g, n)->region]);
  const Node *x = graph_node(b->g, guard ? guard : n);
  if (x->op != OP_AT) return false;
  const Node *all = graph_node(b->g, x->args[0]);
  return all->op == OP_COLLECT && all->args[0] == scan && all->args[1] == go;
}

static bool is_read_by(const Node *x, NodeId n) {
  for (int i = 0; i < x->nargs; i++)
    if (x->args[i] == n) return true;
  return false;
}

// Returns whether a collected value is read only where loops that ran in that round bring it in.
static bool read_guarded(const Builder *b, NodeId collect, NodeId scan, NodeId go) {
  const Graph *g = b->g;
  for (uint32_t o = 0; o < g->output.n; o++)
    if (g->output.at[o].value == collect) return false;
  for (NodeId at = collect + 1; at <= graph_count(g); at++) {
    if (!is_read_by(graph_node(g, at), collect)) continue;
    if (graph_node(g, at)->op != OP_AT) return false;
    for (NodeId n = at + 1; n <= graph_count(g); n++)
      if (is_read_by(graph_node(g, n), at) &&
          !(carry_is_constant(g, b->scan, n) && guarded_by(b, n, scan, go)))
        return false;
  }
  return true;
}

// Returns whether a COLLECT of the loop may have zero in the rounds after `go` was false.
static bool zero_after(const Builder *b, NodeId collect, NodeId scan, NodeId go) {
  const Graph *g = b->g;
  NodeId x = graph_node(g, collect)->args[1], start = left_alone(b, x, go);
  if (x == go || (start && is_number(g, start, 0))) return true;
  if (graph_node(g, x)->op == OP_COLLECT && guard_of(b, graph_node(g, x)->args[0]) == go)
    return true;
  return read_guarded(b, collect, scan, go);
}

// -- loops that may end -------------------------------------------------------------------------

// Returns the carry that begins as true and whose next value is itself and a condition; 0: the loop
// has none.
static NodeId alive_of(const Builder *b, NodeId scan) {
  const Node *s = graph_node(b->g, scan);
  RegionId r = s->attr->region;
  for (uint32_t i = b->carries.first[r]; i < b->carries.first[r + 1]; i++) {
    NodeId n = b->carries.node[i];
    const Node *c = graph_node(b->g, n);
    if (c->attr->carry >= s->nargs) continue;
    const Node *next = graph_node(b->g, s->args[c->attr->carry]);
    if (next->op == OP_AND && is_read_by(next, n) && is_number(b->g, c->args[0], 1)) return n;
  }
  return 0;
}

static NodeId stop_of(const Builder *b, NodeId scan) {
  const Graph *g = b->g;
  RegionId r = graph_node(g, scan)->attr->region;
  NodeId alive = region_get(g, r)->guarded ? 0 : alive_of(b, scan);
  if (!alive) return 0;
  NodeId go = carry_next(g, b->scan, alive);
  for (uint32_t i = b->carries.first[r]; i < b->carries.first[r + 1]; i++) {
    NodeId n = b->carries.node[i], next = carry_next(g, b->scan, n);
    if (n != alive && next != n && left_alone(b, next, go) != n) return 0;
  }
  for (uint32_t i = b->collects.first[r]; i < b->collects.first[r + 1]; i++)
    if (!zero_after(b, b->collects.node[i], scan, go)) return 0;
  return alive;
}

void stops_find(Builder *b) {
  b->stop = arena_array(b->a, NodeId, b->g->region.n + 1);
  if (b->opt->gpu) return; // a step of a GPU has all rounds: the host does not know the condition
  for (NodeId n = 1; n <= graph_count(b->g); n++)
    if (graph_node(b->g, n)->op == OP_SCAN)
      b->stop[graph_node(b->g, n)->attr->region] = stop_of(b, n);
}

// -- pairs of loops -----------------------------------------------------------------------------

void guard_note(Builder *b, NodeId guard, RegionId parent) {
  uint32_t begin = b->instr.n;
  const Node *x = graph_node(b->g, guard);
  for (uint32_t i = b->guard.n; i-- > 0 && x->op == OP_NOT;) {
    const GuardNote *other = &b->guard.at[i];
    if (other->guard != x->args[0] || other->parent != parent || other->instead) continue;
    GuardNote second = {guard, parent, begin, other->begin + 1};
    vec_push(b->a, b->guard) = second;
    return;
  }
  vec_push(b->a, b->guard) = (GuardNote){guard, parent, begin, 0};
}
