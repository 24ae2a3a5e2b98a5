// Private: what the selections for running, training and evaluation share.
#ifndef FRONTEND_SELECT_H
#define FRONTEND_SELECT_H

#include "frontend/frontend.h"
#include "ir/base/map.h"

// A copy of a part of the model into a graph that has its declarations. `training` is folded to a
// constant.
typedef struct SelectCopy {
  const Model *m;
  Graph *g;
  bool training;
  const RegionId *region; // what loops of the model are in g (select_regions), NULL: the same
  uint64_t round;         // other than 0: draws differ from those of other rounds
  DimId over, micro; // a micro-batch: draws over `over` are those of part `part` of the whole batch
  int64_t part;
  const NodeId
      *instead;     // by DeclId - 1: nodes of g that stand for a declaration, 0: its own; or NULL
  const bool *rows; // dims that run over rows, of which a batch may have fewer: they are counted;
                    // or NULL: it has all
} SelectCopy;
// Loops of g of their own for a copy that may differ in what they start from.
const RegionId *select_regions(const Model *m, Graph *g);
// Element `at` of x along dim d.
NodeId select_at(Graph *g, NodeId x, DimId d, int64_t at);
// Copies what n roots need. Old node -> new node, 0 for those left out.
NodeId *select_into(const SelectCopy *c, uint32_t n, const NodeId *roots);
// The same into a graph of its own.
Graph *select_copy(const Model *m, bool training, uint32_t n, const NodeId *roots, NodeId **map);
// Adds an OUT_VALUE of node v whose axes stand as the name states them, else in ascending order.
// The result is valid until the next output is added.
Output *select_output(Graph *g, const char *as, NodeId v, const Name *name);
// Names the gradient of a declared tensor after it, for the list of collectives and for `layout
// gradients:`. A gradient that is also a value of the forward graph keeps its name.
void select_name_gradient(const Model *m, Graph *g, DeclId of, NodeId gradient);

typedef VEC(NodeId) Nodes;

// What a command asks for.
typedef struct Want {
  const char *as; // "w", "grad(w)"
  const Name *name;
  bool gradient;
} Want;
typedef struct Wants {
  const Model *m;
  const Fetch *fetch;
  NodeId loss; // of gradients
  VEC(Want) list;
  NameMap seen; // texts in the list
} Wants;
// Without names: the losses and metrics, and with `outputs` every output. False after errors.
MUST_USE bool wants_read(Wants *w, const Model *m, const Fetch *f, bool outputs);
// The nodes of the model that are needed: values, and the loss where a gradient is asked for.
void wants_roots(const Wants *w, Nodes *roots);
// Gradients of map[w->loss] in g, for those that ask for one, in order.
NodeId *wants_gradients(const Wants *w, Graph *g, const NodeId *map);

// -- row_nodes.c: numbers that depend on rows ---------------------------------------------------
// How many elements of d there are: an i32 scalar.
NodeId rows_count(Graph *g, DimId d);
// By index in Model.numbers: the f64 scalar that each is when the dims that run over rows are
// counted, of those that the model's nodes `need` read.
NodeId *row_number_nodes(const Model *m, Graph *g, const bool *rows, const bool *need);

// -- select_rows.c: what rows of a batch have to do with one another ----------------------------
typedef struct RowFacts {
  const bool *dim;   // runs over rows: the dim of data, and what rename, merge and split make of it
  const bool *batch; // node depends on the batch
  const bool *mixed; // element i of it, or of what it reads, depends on other rows than row i
} RowFacts;
RowFacts rows_mark(Arena *a, const Graph *g, DimId over);
// Whether one of the dims runs over rows.
bool rows_in(const RowFacts *r, const Dims *dims);
// How many of the dims that node n, a reduction, takes away run over rows.
int rows_reduced(const RowFacts *r, const Node *n);
// g, of which r is, with means over rows that divide by the rows that there are. g ends.
Graph *rows_count_means(Arena *a, const Graph *g, const RowFacts *r);

#endif
