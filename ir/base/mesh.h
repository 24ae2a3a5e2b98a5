// A mesh of processors with named axes, and the layout rules that a user writes for it.
#ifndef IR_MESH_H
#define IR_MESH_H

#include "ir/base/diag.h"

typedef struct MeshAxis {
  const char *name; // interned
  int64_t size;
  Pos pos;
} MeshAxis;

// A mesh of processors. Without axes it has one processor. Processors are numbered in row-major
// order of their coordinates: the first axis is the slowest.
typedef struct Mesh {
  uint8_t naxes;
  MeshAxis axis[MAX_AXES];
  Pos pos;
} Mesh;

int64_t mesh_size(const Mesh *m);
// Returns the coordinate of processor r on axis a.
int64_t mesh_coord(const Mesh *m, int64_t r, int a);
// Returns the index of the axis of that name, or -1.
int mesh_axis(const Mesh *m, const char *name);

// A list of mesh axes by index, over which a dim is split or along which a collective runs. The
// first axis is the slowest: its coordinate changes least often.
typedef struct Axes {
  uint8_t n, at[MAX_AXES];
} Axes;
int64_t axes_size(const Mesh *m, Axes a);
Axes mesh_axes(const Mesh *m); // all axes, in order
// The group of processor r over axes `a` has the processors that differ from r only on these axes.
// axes_rank returns the rank of r in this group, in row-major order of the coordinates. axes_peer
// returns the processor that has rank k.
int64_t axes_rank(const Mesh *m, Axes a, int64_t r);
int64_t axes_peer(const Mesh *m, Axes a, int64_t r, int64_t k);
// Returns the length of a block of n elements split over `axes`. Blocks nest: each axis divides the
// length by its size, rounded up.
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

// A set of axes of a mesh: bit a is set if it has axis a.
typedef uint32_t AxisSet;
static inline AxisSet axis_set(Axes a) {
  AxisSet set = 0;
  for (int i = 0; i < a.n; i++) set |= (AxisSet)1 << a.at[i];
  return set;
}
static inline Axes axis_set_list(AxisSet set) { // in the order of the mesh
  Axes a = {0};
  for (uint8_t i = 0; i < MAX_AXES; i++)
    if (set >> i & 1) a.at[a.n++] = i;
  return a;
}

// A layout has rules `dim -> axes`. The scope of a rule says for which tensors it is.
typedef enum LayoutScope {
  LAYOUT_ALL,        // all tensors: b -> rows
  LAYOUT_OPTIMIZER,  // tensors of optimizers: layout optimizer: ...
  LAYOUT_PARAMETERS, // parameters: layout parameters: ...
  LAYOUT_GRADIENTS,  // gradients: layout gradients: ...
  LAYOUT_TENSOR,     // tensors whose names match a pattern with stars: layout head.*: ...
} LayoutScope;

typedef struct LayoutRule {
  LayoutScope scope;
  const char *pattern; // the name pattern of a LAYOUT_TENSOR rule, interned
  const char *dim;     // full name of a dim; NULL for `all`: the largest dim that is not split yet
  bool soft;           // the rule is skipped where its axis is taken, and is never an error
  bool none;           // `dim -> none`: a more general rule does not apply to these tensors
  Axes axes;
  Pos pos;               // position of the rule
  Pos dim_pos, axis_pos; // positions of the dim and of the first axis, for messages
} LayoutRule;

typedef struct Layout {
  uint32_t n;
  LayoutRule *rule;
} Layout;

// -- mesh_text.c: returned texts are allocated in a --------------------------------------------

const char *axes_text(Arena *a, const Mesh *m, Axes s); // "rows", "rows+cols"
const char *mesh_text(Arena *a, const Mesh *m);         // "rows=2 cols=2", or "one processor"
const char *mesh_option(Arena *a, const Mesh *m);       // "rows=2,cols=2", or "one processor"
// Writes the coordinates of processor r to `out`, which has `room` bytes: "rows=0, cols=1" if
// `between` is ", ". Truncates a longer text. Returns out.
char *mesh_coordinates(const Mesh *m, int64_t r, const char *between, char *out, size_t room);
// Returns a layout rule as a model writes it: "soft optimizer: all -> rows", "head.*: b -> none".
const char *layout_rule_text(Arena *a, const Mesh *m, const LayoutRule *r);
// Returns the left side of a layout rule as --layout has it: "b", "soft/optimizer/all",
// "head.kernel/classes".
const char *rule_key(Arena *a, const LayoutRule *r);
// Returns all rules as text: the key of each rule (rule_key), `arrow` and its axes, with `between`
// between rules. An example is "b -> rows, h -> cols" for " -> " and ", ".
const char *layout_text(Arena *a, const Mesh *m, const Layout *l, const char *arrow,
                        const char *between);
const char *layout_option(Arena *a, const Mesh *m, const Layout *l); // "b=rows,h=cols", or "none"

// Returns true if the name matches the pattern. `*` matches any number of characters, also none.
// Every other character matches itself.
bool name_matches(const char *pattern, const char *name);

#endif
