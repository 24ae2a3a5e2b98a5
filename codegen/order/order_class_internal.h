// Order classes: values whose orders are chosen together, and the operations that join classes.
// Private to the search for orders.
//
//   order_class.c    the classes of a graph, and its uses of them
//   order_cost.c     the cost of an operation for given orders
//   order_known.c    costs that were computed before
//   order_starts.c   orders to start from
//   order_search.c   the orders of least cost
//   order_refused.c  steps of the search that were no improvement
//
// All values with the same dims that kernels compute are one class, and all results of contractions
// with these dims are another one. So equal layers of a model share their classes, and the search
// takes as long for one layer as for many.
#ifndef CODEGEN_ORDER_CLASS_H
#define CODEGEN_ORDER_CLASS_H

#include "codegen/order/order_internal.h"

typedef uint32_t ClassId; // 0: a value without an order, such as a number
typedef enum ClassKind {
  CLASS_NONE,
  CLASS_POINT,    // computed by kernels, in any order
  CLASS_CONTRACT, // results of contractions, in any order
  CLASS_FIXED,    // declared tensors: they have one order, which `order` is from the start
  CLASS_STORED,   // declared tensors that a step changes: they are stored in any order
  CLASS_READ,     // copies of class `of`, which is declared, that contractions read
  CLASS_DERIVED,  // views, collectives, windows: the order follows from that of class `of`
} ClassKind;

typedef struct OrderClass {
  ClassKind kind;
  Dims dims;
  ClassId of;    // the class from which it is derived or copied, or that it updates; else 0
  ClassId with;  // CLASS_READ: the class of the other argument of the contractions
  NodeId node;   // a value of the class; the op of a derived class
  DimList order; // the order of all values of the class
  uint64_t key;  // hash of the order, where class_order has set it
  ClassId next;  // another class with the same hash
  VEC(ClassId) derived;
  VEC(uint32_t) use; // the uses that have the class or a class derived from it
} OrderClass;

// An operation on values of some classes. All nodes with the same classes are one use.
typedef struct OrderUse {
  NodeId node;
  ClassId arg[3], result;
  bool copy;     // a copy from arg[0] to `result` if their orders differ; no operation
  double times;  // how often a step runs it; 0 if it recomputes a value
  double cost;   // of all of them, in ns
  uint32_t next; // another use with the same hash
} OrderUse;

// What costs depend on beside the graph and the orders.
typedef struct OrderFacts {
  const Rows *rows;
  bool vectors; // kernels compute vectors of neighbours, as on a CPU; false on a GPU
  double times; // StoreOptions.times, at least 1
} OrderFacts;

typedef struct OrderClasses {
  Arena *a;
  const Graph *g;
  const OrderFacts *facts;
  const Chooser *plain;     // the orders by requests alone
  VEC(OrderClass) cls;      // entry 0 is unused
  VEC(OrderUse) use;        // entry 0 is unused
  ClassId *of;              // by node: its class
  NodeId *target;           // by node: the source of the tensor that it updates, 0: none
  uint32_t *classes, *uses; // hash tables of `buckets` lists
  uint32_t buckets;
  struct KnownCosts *known; // costs of uses, NULL: none yet
} OrderClasses;
typedef struct KnownCosts KnownCosts;

// Finds the classes and uses of graph plain->from. The orders of classes that are not fixed are
// empty.
OrderClasses *order_classes(Arena *a, const Chooser *plain, const OrderFacts *facts);
static inline bool class_is_free(const OrderClass *c) {
  return c->kind != CLASS_NONE && c->kind != CLASS_FIXED && c->kind != CLASS_DERIVED &&
         c->dims.n > 1;
}
// Returns the order in which contractions with value `with` read value n of s->g, if n is a
// declared tensor; otherwise no dims.
DimList order_read(const OrderClasses *s, NodeId n, NodeId with);

// -- order_cost.c
// Returns the cost of node n of graph g in ns, if its arguments have orders arg[i] and its result
// has order `result`. An argument without an order (a number) is NULL.
double order_cost(const Graph *g, const OrderFacts *facts, NodeId n, const DimList *const arg[3],
                  const DimList *result);
// Returns the cost in ns of a copy of `bytes` bytes from one order to another; 0 if they are equal.
double order_copy_cost(const Graph *g, const DimList *from, const DimList *to, double bytes);
// Returns the cost in ns of all nodes of the graph that `c` has made, but for those that recompute
// a value.
double order_graph_cost(const Chooser *c, const OrderFacts *facts);

// -- order_known.c
// Sets the order of a class.
void class_order(OrderClass *c, const DimList *order);
// Returns the cost in ns of use number `use`, with the orders that its classes have now, which
// class_order has set.
double order_use_cost(OrderClasses *s, uint32_t use);

// -- order_starts.c
// Gives each class the order that `c` has chosen for its values.
void order_start_plain(OrderClasses *s, const Chooser *c);
// Gives each class whose order is free its dims, sorted by what they are (dim_weights).
void order_start_sorted(OrderClasses *s);

// -- order_search.c
// Gives each free class the order of least estimated cost. `c` has chosen orders for all nodes,
// which are the start of the search. Returns the estimated cost.
double order_search(OrderClasses *s, const Chooser *c);

#endif
