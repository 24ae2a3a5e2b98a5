// Functions that build the graphs of layout cases, and the lists of cases in other files.
#ifndef TESTS_SUITE_COMMON_LAYOUT_MAKER_H
#define TESTS_SUITE_COMMON_LAYOUT_MAKER_H

#include "tests/suite/common/layout_cases.h"

typedef struct LayoutCase {
  const char *name;
  void (*make)(Maker *m);
} LayoutCase;
// Windows, ordered operations, draws and marks (layout_windows.c).
extern const LayoutCase window_cases[];
extern const size_t window_case_count;
// Operations on matrices (layout_matrices.c).
extern const LayoutCase matrix_cases[];
extern const size_t matrix_case_count;
// Loops (layout_regions.c).
extern const LayoutCase region_cases[];
extern const size_t region_case_count;

// Returns the source node of a new declaration over unsplit dims. Float inputs are noted for
// gradients.
NodeId maker_declared(Maker *m, DeclKind kind, Dtype type, int n, const DimId *dims);
NodeId maker_op(Maker *m, Op o, int nargs, const NodeId *args, int n, const DimId *dims, int nto,
                const DimId *to);
// Adds output y, and the gradients of a weighted sum of it by the first float inputs.
void maker_result(Maker *m, NodeId y);
void maker_output(Maker *m, const char *name, NodeId n);
// Returns the mesh and the layout as a short text, for a message.
const char *maker_mesh_text(Maker *m);
const char *maker_layout_text(Maker *m);
// Makes `value` the next value of the declaration whose source node is `decl`.
void maker_update(Maker *m, NodeId decl, NodeId value);
// Returns a random number below `below`.
uint32_t maker_draw(Maker *m, uint32_t below);

// Builds a graph of 3 to 40 operations of all classes with outputs and, in half of all cases,
// gradients (layout_random.c).
void random_graph(Maker *m);

// Starts *m and builds random graph number `seed`. Returns it simplified; m->layout is a random
// layout for it. The caller frees m->a.
Graph *random_case_graph(uint64_t seed, Maker *m);

#define X(m, ...)                                                                                  \
  maker_declared(m, DECL_INPUT, TYPE_F32, (int)(sizeof((DimId[]){__VA_ARGS__}) / sizeof(DimId)),   \
                 (DimId[]){__VA_ARGS__})
#define IDS(m, ...)                                                                                \
  maker_declared(m, DECL_INPUT, TYPE_I32, (int)(sizeof((DimId[]){__VA_ARGS__}) / sizeof(DimId)),   \
                 (DimId[]){__VA_ARGS__})

#endif
