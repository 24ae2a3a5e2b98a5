// Private: helpers that the selections for running, training and evaluating share.
#ifndef FRONTEND_SELECT_H
#define FRONTEND_SELECT_H

#include "frontend/frontend.h"
#include "ir/base/map.h"

// Describes a copy of a part of the model into graph g, which has the declarations of the model.
// `training` is folded to a constant.
typedef struct SelectCopy {
  const Model *m;
  Graph *g;
  bool training;
  // region of the model -> region of g (select_regions); NULL: both have the same numbers
  const RegionId *region;
  uint64_t round; // number of the repetition of a train block; random draws differ between them
  // `over`: the dim of the rows of a micro-batch; `micro`: the dim that numbers micro-batches;
  // `part`: the number of this one. A draw over `over` takes this part of the draw for the whole
  // batch. 0 without micro-batches
  DimId over, micro;
  int64_t part;
  // index DeclId - 1: the node of g that replaces the declaration; 0: the node of the declaration
  // itself. NULL: nothing is replaced
  const NodeId *instead;
  // index DimId: the dim runs over rows of a batch, which may be fewer than its size, so that they
  // are counted at run time. NULL: every batch is full
  const bool *rows;
} SelectCopy;
// Adds copies of the model's loops to g, for a copy whose loops may start from other values.
// Returns model region -> region of g.
const RegionId *select_regions(const Model *m, Graph *g);
// Returns element `at` of x along dim d; the result does not have d.
NodeId select_at(Graph *g, NodeId x, DimId d, int64_t at);
// Copies the nodes that the n roots need. Returns model node -> node of c->g, 0 for nodes that are
// not needed.
NodeId *select_into(const SelectCopy *c, uint32_t n, const NodeId *roots);
// Copies the nodes that the n roots need into a new graph, which it returns. *map gets model node
// -> node of that graph, 0 for nodes that are not needed.
Graph *select_copy(const Model *m, bool training, uint32_t n, const NodeId *roots, NodeId **map);
// Adds output `as` (OUT_VALUE) with the value of node v. Its axes are in the order that the model
// states for `name`; without one, in ascending order of dims. The result is valid until the next
// output is added.
Output *select_output(Graph *g, const char *as, NodeId v, const Name *name);
// Names a gradient after its declared tensor `of`, for the list of collectives and for the rules of
// `layout gradients:`. A gradient that is also a value of the forward graph keeps its name.
void select_name_gradient(const Model *m, Graph *g, DeclId of, NodeId gradient);

typedef VEC(NodeId) Nodes;

// A value that a command requests, and the list of all of them.
typedef struct Want {
  const char *as; // "w", "grad(w)"
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
// Adds the gradients of map[w->loss] to g. Returns one node for each requested gradient, in the
// order of the list.
NodeId *wants_gradients(const Wants *w, Graph *g, const NodeId *map);

// -- row_nodes.c: numbers that depend on rows ---------------------------------------------------
// Returns an i32 scalar: the number of valid elements along d.
NodeId rows_count(Graph *g, DimId d);
// Returns a table indexed as Model.numbers: an f64 scalar for each number that the model's nodes in
// `need` read. For the size of a dim in `rows` it is the number of valid rows.
NodeId *row_number_nodes(const Model *m, Graph *g, const bool *rows, const bool *need);

// -- select_rows.c: which values mix the rows of a batch ----------------------------------------
typedef struct RowFacts {
  const bool *dim; // index DimId: true for the batch dim, and for dims that rename, merge and split
                   // make from it
  const bool *batch; // index NodeId: the node depends on the batch
  const bool *mixed; // index NodeId: an element of one row, of the node or of a value that it
                     // reads, depends on other rows
} RowFacts;
// Finds the dims of rows, starting from `over`, and how the nodes of g depend on them.
RowFacts rows_mark(Arena *a, const Graph *g, DimId over);
// Returns true if one of the dims runs over rows.
bool rows_in(const RowFacts *r, const Dims *dims);
// Returns how many of the dims that node n reduces run over rows; 0 if n is not a reduction.
int rows_reduced(const RowFacts *r, const Node *n);
// Returns a copy of g in which means over rows divide by the number of valid rows. r describes g. g
// must not be used afterwards.
Graph *rows_count_means(Arena *a, const Graph *g, const RowFacts *r);

#endif
