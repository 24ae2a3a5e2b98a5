// Private: helpers that the selections for running, training and evaluating share. A *row* is one
// example of a batch: one position along the batch dim.
#ifndef FRONTEND_SELECT_H
#define FRONTEND_SELECT_H

#include "frontend/frontend.h"
#include "ir/base/map.h"

// How a part of the model is copied into graph g, which has the declarations of the model. The
// constant `training` replaces the TRAINING nodes.
typedef struct SelectCopy {
  const Model *m;
  Graph *g;
  bool training;
  // indexed by region of the model: the region of g (select_regions); NULL: their numbers are equal
  const RegionId *region;
  uint64_t round; // number of the repetition of a train block; each gets other random draws
  // over: the dim of the rows of a micro-batch; micro: the dim that numbers micro-batches; part:
  // the number of the micro-batch that is copied. A random draw over `over` gets part number `part`
  // of the draw for the whole batch. All are 0 without micro-batches
  DimId over, micro;
  int64_t part;
  // with `sync`, the dim of the replicas: values that depend on inputs and parameters get it, and a
  // random draw over `over` too. 0 without `sync`
  DimId replica;
  // asynchronous updates: the number of replicas. The program counts the steps of all of them, and
  // random draws go by that, but `step` of the model is the step of the training. Else 0
  int64_t turns;
  // indexed by DeclId - 1: the node of g that replaces the declaration; 0: the node of the
  // declaration itself. NULL: nothing is replaced
  const NodeId *instead;
  // indexed by DimId: true if the dim runs over rows of a batch. A batch may have fewer rows than
  // the size of the dim, so they are counted at run time. NULL: every batch is full
  const bool *rows;
} SelectCopy;
// Adds copies of the model's regions (scans) to g, for a copy whose scans may start from other
// values. Returns a table indexed by region of the model: its copy in g.
const RegionId *select_regions(const Model *m, Graph *g);
// Returns a node with the elements of x at position `at` of dim d; it does not have d.
NodeId select_at(Graph *g, NodeId x, DimId d, int64_t at);
// Copies the nodes that the n roots need. Returns a table indexed by model node: its copy in c->g,
// or 0 if it is not needed.
NodeId *select_into(const SelectCopy *c, uint32_t n, const NodeId *roots);
// Adds an output named `as` (OUT_VALUE) with the value of node v. Its dims are in the order that
// the model states for `name`, or in ascending order of DimId if it states none or name is NULL.
// The returned pointer is valid until the next output is added.
Output *select_output(Graph *g, const char *as, NodeId v, const Name *name);
// Names a gradient after the declared tensor `of` by which it is taken. The list of collectives and
// the rules of `layout gradients:` use the name. A gradient that is also a value of the forward
// graph keeps its name.
void select_name_gradient(const Model *m, Graph *g, DeclId of, NodeId gradient);

typedef VEC(NodeId) Nodes;

// A value that a command requests; Wants is the list of all of them.
typedef struct Want {
  const char *as; // name of the output: "w", "grad(w)"
  const Name *name;
  bool gradient;
} Want;
typedef struct Wants {
  const Model *m;
  const Fetch *fetch;
  NodeId loss; // the loss whose gradients are requested
  VEC(Want) list;
  NameMap seen; // has the key Want.as for each value in the list; the map's values are not read
} Wants;
// Fills *w from the names in f. Without names it requests the losses and metrics, and all outputs
// if `outputs` is true. Returns false after errors.
MUST_USE bool wants_read(Wants *w, const Model *m, const Fetch *f, bool outputs);
// Appends the model nodes that are needed: the requested values, and the loss if a gradient is
// requested.
void wants_roots(const Wants *w, Nodes *roots);
// Adds the gradients of the loss, which is node map[w->loss] of g, to g. Returns one node for each
// requested gradient, in the order of w->list.
NodeId *wants_gradients(const Wants *w, Graph *g, const NodeId *map);

// -- row_nodes.c: numbers that depend on rows ---------------------------------------------------
// Returns a node of g, an i32 scalar: the number of valid elements along d in this batch.
NodeId rows_count(Graph *g, DimId d);
// Returns a table indexed as Model.numbers: nodes of g, an f64 scalar for each number that the
// model nodes in `need` read, 0 for others. For the size of a dim in `rows`, the number is that of
// the valid rows. need is indexed by NodeId, rows by DimId.
NodeId *row_number_nodes(const Model *m, Graph *g, const bool *rows, const bool *need);

// -- select_rows.c: which values mix the rows of a batch ----------------------------------------
typedef struct RowFacts {
  // indexed by DimId: true for the batch dim, and for dims that rename, merge and split make from
  // it
  const bool *dim;
  const bool *batch; // indexed by NodeId: true if the node depends on the batch
  // indexed by NodeId: true if an element of one row depends on other rows, in the node or in a
  // value from which it is computed
  const bool *mixed;
} RowFacts;
// Finds the dims that run over rows, starting from the batch dim `over`, and how the nodes of g
// depend on rows.
RowFacts rows_mark(Arena *a, const Graph *g, DimId over);
// Returns true if one of the dims runs over rows.
bool rows_in(const RowFacts *r, const Dims *dims);
// Returns how many of the dims that node n reduces run over rows; 0 if n is not a reduction.
int rows_reduced(const RowFacts *r, const Node *n);
// Returns a copy of g in which means over rows divide by the number of valid rows. r has the facts
// of g. g must not be used afterwards.
Graph *rows_count_means(Arena *a, const Graph *g, const RowFacts *r);

// -- micro_alike.c --------------------------------------------------------------------------------
// Returns whether the steps of a model compute the same, up to rounding, if they take their batch
// in micro-batches. Also returns false if that cannot be seen, and if the batch cannot be divided.
bool micro_batches_alike(const Model *m);

#endif
