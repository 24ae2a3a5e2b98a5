// What the files of the order pass share. Private to the room.
//
//   order_again.c      nodes that recompute a value
//   order_requests.c   requests, from users to arguments
//   order_defaults.c   orders without a request, from arguments to results
//   order_copies.c     copies in another order
//   order.c            the graph with orders
//   loop_panels.c      weights of products in loops, packed before the loop
#ifndef CODEGEN_ORDER_H
#define CODEGEN_ORDER_H

#include "codegen/values/values_internal.h"

// A copy in another physical order of the value of node `of`. The copy and `of` are nodes of the
// new graph.
typedef struct OrderCopy {
  NodeId of, copy;
} OrderCopy;

// The state of the pass. "Old" nodes are those of the graph that comes in (`from`), "new" ones
// those of the graph that is made (`to`).
typedef struct Chooser {
  Arena *a;
  const Graph *from;
  Graph *to;
  RegionNodes carries; // of the loops of `from` (region_ends)
  // By old node: the first node with its value if the node recomputes it or is a mark, else the
  // node itself. NULL if there are no such nodes.
  const NodeId *first;
  DimList *requested; // by old node: the order that a user requested; no dims: no request
  bool *forced;       // by old node: if the request is not met, the user needs a copy
  DimId *front;       // by old node: the dim that should be outermost; 0: no preference
  NodeId *map;
  uint32_t *rank;  // by dim that is no block: its precedence, 1 is slowest
  VEC(DimList) at; // by new node: the order of its dims; entry 0 is unused
  VEC(bool) loose; // by new node: made of random draws only, so that its order may still change
  VEC(bool) again; // by new node: made for an old node that recomputes a value
  bool repeats;    // the node that is being made is one of these
  VEC(OrderCopy) copy;
  // A chooser that needed no copies. While this one needs none either, it uses the graph of `like`
  // as `to`, whose nodes are the same. NULL: `to` is a new graph.
  const struct Chooser *like;
  bool differs; // this chooser has needed a copy, which `like` lacks
  // The classes of `from`, with the orders that the search has found; NULL before the search.
  const struct OrderClasses *classes;
  // By declaration of `from` (DeclId): its whole dims as they lie in memory, slowest first. Inputs
  // have their declared order.
  DimList *stored;
  bool free; // whether the search may store parameters, states and slots in another order
} Chooser;

// Returns whether op only informs earlier passes. The graph with chosen orders has no nodes with
// such an op.
static inline bool op_is_mark(Op op) { return op == OP_CHECKPOINT || op == OP_PIN; }

// -- order_again.c
// Returns Chooser.first of graph g, in `a`.
const NodeId *order_first(Arena *a, const Graph *g);
static inline NodeId first_of(const Chooser *c, NodeId n) { return c->first ? c->first[n] : n; }

// -- order_requests.c
// Sets requested, forced and front of all old nodes. Needs c->rank.
void request_all(Chooser *c);
// Returns the dims of a node, sorted. Each of `dims` is a processor's block of one of the dims
// whole[0..rank) of the full tensor. They are sorted in the order of `whole`.
DimList blocks_in_order(const Graph *g, const Dims *dims, int rank, const DimId *whole);
// Returns the dims of a node that reads or updates declaration d, as they lie in memory.
DimList stored_order(const Chooser *c, DeclId d, const Dims *dims);
// Returns the carry of old node `scan` with number i, or 0 if there is none.
NodeId carry_of(const Chooser *c, NodeId scan, int i);

// -- order_defaults.c
// Ranks the dims (c->rank).
void rank_dims(Chooser *c);
// Inserts d into `list`, whose dims are sorted by precedence (rank_dims), and keeps the list
// sorted.
void insert_ranked(const Chooser *c, DimList *list, DimId d);
// Returns the order that new node n has without a request. Its arguments have their orders.
DimList order_default(const Chooser *c, const Node *n);

// Returns the order of n, a view, move of dims, window or collective, if its argument has order
// *arg.
DimList order_derived(const Node *n, const DimList *arg);

// -- order_copies.c
// Sets the order of new node n if it has none yet.
void set_order(Chooser *c, NodeId n, DimList list);
// Returns a copy of new node n with order `list`, the earlier one if there is one. why: the reason
// that dumps show. With c->like it only sets c->differs.
NodeId copy_in_order(Chooser *c, NodeId n, DimList list, const char *why);
// Returns a node whose value is in memory: n itself, or a copy of n if n is a number. Numbers
// (constants, indices) are not in memory, because kernels compute them where they use them.
NodeId in_memory(Chooser *c, NodeId n, const char *why);
// Enters in c->map copies of the arguments of contraction n, where kernel_argument makes copies.
// was[i]: the entry of argument i, which the caller restores.
void contract_copies(Chooser *c, const Node *n, const NodeId was[2]);
// Moves the dims that merge n joins next to each other in *list, if they are apart.
void order_adjacent(const Node *n, DimList *list);
// Replaces the first arguments of n (arg[1] only if it has two) by copies where n needs them in
// memory or in another order.
void argument_copies(Chooser *c, const Node *n, NodeId arg[2]);
// Returns the node that is to be the argument of the copy of node n, whose number in the old graph
// is `old`. It is `arg` or, for an AT or CARRY, a copy of `arg` if the order of `arg` does not fit
// the loop.
NodeId region_argument(Chooser *c, const Node *n, NodeId old, NodeId arg);
// Returns the node with the next value of `carry`: `arg` or a copy of it. A carry passes a value
// from one iteration of a loop to the next. A copy is made if `arg` has another order than the
// carry. It is also made if `arg` is the memory of another carry of the loop: that memory may be
// overwritten before this carry is set.
NodeId next_argument(Chooser *c, NodeId carry, NodeId arg);
// Returns whether n is in memory that is kept from step to step.
bool persistent_root(const Graph *g, NodeId n);
// Returns the value that the update of tensor d writes: n or a copy of n. A copy is made if n has
// another order than the tensor, is not computed, or has the memory of an earlier output. The
// function sets taken[n], which tells that an output has the memory of node n.
NodeId update_value(Chooser *c, NodeId n, DeclId d, bool *taken);

// -- loop_panels.c
// Returns the order of a graph in which products in loops read their weights in panels, or `order`
// if there are no loops.
Order *order_loop_panels(Arena *a, Order *order);

#endif
