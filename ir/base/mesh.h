// A mesh of processors with named axes, and the layout rules that a user writes for it.
#ifndef IR_MESH_H
#define IR_MESH_H

#include "ir/base/diag.h"

typedef struct MeshAxis {
  const char *name; // interned
  int64_t size;
  Pos pos;
} MeshAxis;

// naxes 0 is the mesh of one processor. Processor r has coordinates in row-major order: the first
// axis is the slowest.
typedef struct Mesh {
  uint8_t naxes;
  MeshAxis axis[MAX_AXES];
  Pos pos;
} Mesh;

int64_t mesh_size(const Mesh *m);
// Returns the coordinate of processor r on axis a.
int64_t mesh_coord(const Mesh *m, int64_t r, int a);
// Returns the axis of that name, or -1.
int mesh_axis(const Mesh *m, const char *name);

// A set of axes along which collectives run. The first axis is the slowest, as in the split of a
// dim.
typedef struct Axes {
  uint8_t n, at[MAX_AXES];
} Axes;
int64_t axes_size(const Mesh *m, Axes a);
// axes_rank returns the rank of processor r in its group over `a` (mixed radix of its coordinates,
// first axis slowest). axes_peer returns the processor with rank k in the group of r.
int64_t axes_rank(const Mesh *m, Axes a, int64_t r);
int64_t axes_peer(const Mesh *m, Axes a, int64_t r, int64_t k);
// Length of the blocks of n elements split over `axes`, which nest: ceil(n / size) for each in
// turn.
int64_t block_length(const Mesh *m, int64_t n, Axes axes);
static inline bool axes_equal(Axes a, Axes b) {
  if (a.n != b.n) return false;
  for (int i = 0; i < a.n; i++)
    if (a.at[i] != b.at[i]) return false;
  return true;
}
static inline bool axes_has(Axes a, int axis) {
  for (int i = 0; i < a.n; i++)
    if (a.at[i] == axis) return true;
  return false;
}

// One rule of a layout: `dim -> axes` for all tensors, or for those that `scope` matches.
typedef enum LayoutScope {
  LAYOUT_ALL,        // b -> rows
  LAYOUT_OPTIMIZER,  // layout optimizer: ...
  LAYOUT_PARAMETERS, // layout parameters: ...
  LAYOUT_GRADIENTS,  // layout gradients: ...
  LAYOUT_TENSOR,     // layout head.kernel: ...   (pattern with stars)
} LayoutScope;

typedef struct LayoutRule {
  LayoutScope scope;
  const char *pattern; // the name pattern of a LAYOUT_TENSOR rule, interned
  const char *dim;     // full name of a dim; NULL: `all`, the largest dim that is not split yet
  bool soft;           // applies only if the axis is free, never an error
  bool none;           // `dim -> none`: cancels a general rule
  Axes axes;
  Pos pos;               // position of the rule
  Pos dim_pos, axis_pos; // positions of the dim and of the first axis, for messages
} LayoutRule;

typedef struct Layout {
  uint32_t n;
  LayoutRule *rule;
} Layout;

// -- mesh_text.c: texts live in arena a ---------------------------------------------------------
const char *axes_text(Arena *a, const Mesh *m, Axes s); // "rows", "rows+cols"
const char *mesh_text(Arena *a, const Mesh *m);         // "rows=2 cols=2", or "one processor"
const char *mesh_option(Arena *a, const Mesh *m);       // "rows=2,cols=2", or "one processor"
// Writes the coordinates of processor r, "rows=0, cols=1" with ", " as `between`, to out, which has
// `room` bytes. Truncates longer texts. Returns out.
char *mesh_coordinates(const Mesh *m, int64_t r, const char *between, char *out, size_t room);
// Returns a rule as a model writes it: "soft optimizer: all -> rows", "head.*: b -> none".
const char *layout_rule_text(Arena *a, const Mesh *m, const LayoutRule *r);
// Returns the left side of a rule as --layout writes it: "b", "soft/optimizer/all",
// "head.kernel/classes".
const char *rule_key(Arena *a, const LayoutRule *r);
// Returns all rules, each as rule_key, `arrow` and the axes, with `between` between them: "b ->
// rows, h -> cols" for " -> " and ", ".
const char *layout_text(Arena *a, const Mesh *m, const Layout *l, const char *arrow,
                        const char *between);
const char *layout_option(Arena *a, const Mesh *m, const Layout *l); // "b=rows,h=cols", or "none"

// Returns true if the name matches. `*` matches any run of characters, every other character
// itself.
bool name_matches(const char *pattern, const char *name);

#endif
