// Graph: the one intermediate form, from the model as written to the program of one processor.
//
// A node computes one value: a tensor over a *set* of named dims. Ids are topological: arguments
// have smaller ids, so passes are plain loops and side tables are arrays indexed by id. A node
// that equals an existing one is not added again. A pass reads a const Graph and returns a new one,
// or a table indexed by node (decision 31).
//
//   %3 = contract(%1, %2) {dims=[d]} : f32[b, h]  # model.mesh:7: hidden
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "ir/base/dim.h"
#include "ir/base/dtype.h"
#include "ir/program/monoid.h"
#include "ir/program/ordered_flags.h"
#include "ir/program/spec.h"

typedef enum Op {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  OP_##id,
#include "ir/graph/ops.def"
  OP_COUNT
} Op;

typedef enum OpClass {
  SOURCE,
  POINTWISE,
  REDUCE,
  CONTRACT,
  MOVE,
  GATHER,
  WINDOW,
  ORDERED,
  REGION,
  COLLECTIVE,
} OpClass;
// The columns of ops.def, where their values are explained.
enum {
  COMMUTES = 1,
  EXPANDS = 2,
  CHECKS = 4,
  DECLARED = 8,
  DRAW = 16,
  OWN_TYPES = 32,
  NARROW = 64,
};
enum { ATTR_NONE, ATTR_TYPE = 1, ATTR_LIST = 2, ATTR_SET = 4, ATTR_PAIRS = 8 };
enum { ATTR_TYPE_LIST = ATTR_TYPE | ATTR_LIST, ATTR_TYPE_SET = ATTR_TYPE | ATTR_SET };
typedef enum Linear { LINEAR_NO, LINEAR_ALL, LINEAR_FIRST, LINEAR_ONE, LINEAR_BRANCH } Linear;
typedef enum OpRows { ROWS_ANY, ROWS_SLOWEST, ROWS_APART } OpRows;
typedef enum OpMemory {
  MEMORY_OWN,
  MEMORY_ALIAS,
  MEMORY_PART,
  MEMORY_THROUGH,
  MEMORY_LOOKUP,
} OpMemory;

typedef struct OpRow {
  const char *text;
  int nargs; // -1: one or more
  OpClass cls;
  unsigned flags, attrs;
  Linear linear;
  Monoid monoid;
  OpRows rows;
  OpMemory memory;
  int cost; // time of one element, in additions
} OpRow;
extern const OpRow op_rows[];
static inline const OpRow *op_row(Op op) { return &op_rows[op]; }
static inline bool op_is_decl(Op op) { return op_row(op)->flags & DECLARED; }
static inline bool op_is_draw(Op op) { return op_row(op)->flags & DRAW; }
// The operation on two values that combines as the monoid does on elements of type t.
Op monoid_op(Monoid m, Dtype t);
MUST_USE bool op_parse(const char *text, Op *out);

typedef enum Stage {
#define STAGE(id, text, legal, holds) STAGE_##id,
#include "ir/graph/stages.def"
#undef STAGE
  STAGE_COUNT
} Stage;
const char *stage_text(Stage s);
const char *stage_holds(Stage s);

typedef uint32_t NodeId; // 0: none
enum { MAX_ARGS = 255 };
typedef uint32_t DeclId; // index into Graph.decl plus 1; 0: none

typedef uint16_t RegionId; // 0: outside all loops; else index into Graph.region plus 1

// The loop of a scan over dim t. Nodes whose value differs between steps are in its region: CARRY
// and AT start a region, other nodes are in the deepest region of their arguments, and the results
// of SCAN, FINAL and COLLECT are outside.
//
//   %4 = carry(%1) {region = 1}              value at the start of a step; %1 in the first
//   %5 = at(%2) {dims = [t], region = 1}     %2 at the current t
//   %6 = add(%4, %5)                         in region 1
//   %7 = scan(%6) {region = 1}               the loop: next values of its carries, in order of their numbers
//   %8 = final(%7, %4)                       the carry after the last step
//   %9 = collect(%7, %6) {dims = [t]}        %6 of all steps: has the dim t
//
// A node of a region must not depend on a node outside it that has a larger id than the scan.
typedef struct Region {
  RegionId parent;
  DimId t;        // whole dim; runs 0 .. size-1
  bool reverse;   // runs size-1 .. 0
  bool recompute; // gradients rematerialise the body instead of keeping its values
  Pos pos;
} Region;

// What an op needs beside its arguments. The column `attrs` of ops.def says which of `type`, `dims`
// and `to` it reads. Unused fields are zero. Lists live in the graph's arena.
typedef struct Attr {
  Dtype type;    // of const, values, cast, contract, draws: the result's type
  DeclId decl;   // of input, param, state
  double num[2]; // of const: the value
  uint8_t ndims, nto;
  const DimId *dims;  // reduced, contracted, added, renamed from, looked up in ...
  const DimId *to;    // renamed to, new ...
  Axes axes;          // of collectives
  Monoid monoid;      // of all_reduce and reduce_scatter
  const double *data; // of values: ndata numbers, row-major over `dims` as listed
  int64_t ndata;
  Affine affine;  // of windows
  uint64_t key;   // of draws: hash of a path that does not depend on the seed
  uint32_t carry; // of a carry: its number in the region, the argument of the scan that is its next
  uint32_t tag;   // of a const: a mark of whoever builds the graph; other tags are other nodes
  unsigned flags; // of ordered ops: ORDER_EXCLUSIVE ...
  RegionId region; // of carry, at and scan: the loop they belong to
} Attr;

bool attr_equal(const Attr *a, const Attr *b);
// Returns true if d is one of the dims `dims` and `to`.
static inline bool attr_names(const Attr *t, DimId d) {
  return dim_in(d, t->ndims, t->dims) || dim_in(d, t->nto, t->to);
}

// Where a node comes from. Dumps, errors and `explain` show it; equality of nodes ignores it.
typedef struct Origin {
  Pos pos;           // of the model line
  const char *value; // full name of the value that the line binds, "grad(w)" of a gradient; or NULL
  const char *why;   // pass and reason: "grad of hidden through relu"
  // The full name of the declaration by which this is the derivative of the loss; NULL: none.
  const char *gradient_of;
  // The number of the composite (softmax, cross entropy ...) that the node is part of; 0: none.
  // Gradients inherit it.
  uint32_t composite;
  bool backward; // made by the gradient builder or the optimizer: the phase in `check`
  // After lowering: the placed node that this computes or converts; of a conversion also the node
  // that reads it first (0: an output).
  NodeId of, reader;
} Origin;
// The full name of the value, of a gradient that of the declaration; or NULL.
static inline const char *origin_subject(const Origin *o) {
  return o->gradient_of ? o->gradient_of : o->value;
}

typedef struct Node {
  uint16_t op;       // an Op
  uint8_t type;      // a Dtype
  uint16_t instance; // number of a rematerialised copy, 0: the original; part of equality
  RegionId region;   // follows from the arguments
  uint8_t nargs;
  Dims dims; // of the result, canonical order
  const NodeId *args;
  Attr attr;
  Origin origin;
} Node;

typedef enum DeclKind { DECL_INPUT, DECL_PARAM, DECL_STATE, DECL_SLOT } DeclKind;

// A tensor that outlives a run of the graph: an input, a parameter, or a state.
typedef struct Decl {
  DeclKind kind;
  const char *name; // full scoped name; of a slot "optimizer.NAME.m"
  Dtype type;
  uint8_t rank;
  DimId dims[MAX_RANK]; // whole dims, declared order: the order of axes in files
  NodeId node;          // its source node in this graph, 0 when nothing here reads it
  DeclId of;            // of a slot: the parameter it belongs to
  bool frozen;          // trainable = false
  Init init;            // of params, states, slots
  Pos pos;
} Decl;

typedef enum OutKind {
  OUT_VALUE,  // handed out under `name`
  OUT_UPDATE, // next value of decl `target`; takes effect when the step commits
} OutKind;

typedef struct Output {
  OutKind kind;
  const char *name; // OUT_VALUE: "probs", "grad(w)"; OUT_UPDATE: the target's name
  const char
      *gradient_of; // OUT_VALUE: the value by which it is the derivative of the loss, or NULL
  NodeId value;
  DeclId target;
  uint8_t rank; // OUT_VALUE: the order of axes in files, whole dims
  DimId dims[MAX_RANK];
} Output;

// A name that can be fetched, its last binding.
typedef enum NameKind { NAME_VALUE, NAME_OUTPUT, NAME_METRIC, NAME_DECL } NameKind;
typedef struct Name {
  const char *name; // full scoped name
  NameKind kind;
  NodeId value;
  uint8_t rank; // 0: order of declaration of its dims; else the stated order
  DimId dims[MAX_RANK];
  bool stated; // rank and dims were stated
  Pos pos;
} Name;

typedef struct Graph Graph;
struct Graph {
  Arena *arena;
  DimTable *dims;
  const Mesh *mesh; // of the compile
  Stage stage;
  const char *model; // path of the model file, for messages and the header of dumps
  VEC(Node) node;    // node.at[0] is unused; use graph_node
  VEC(Decl) decl;
  VEC(Output) output;
  VEC(Name) name; // in the graph as built; later stages carry outputs only
  VEC(Region) region;
  Layout layout;  // rules of the compile, axes numbered as in mesh
  ModelSpec spec; // data and train blocks, seed (ir/program/spec.h): a dump is complete
  Origin origin;  // given to nodes added from here on
  VEC(double)
  exact; // by node, in the graph as built: the value of an f32 constant before rounding; 0: same
  struct GraphTable *table; // hash of nodes, private to graph.c
};

// An empty graph whose nodes live in `a`. Not thread-safe; dims is shared by all graphs of a
// compile.
Graph *graph_new(Arena *a, DimTable *dims, const Mesh *mesh, Stage stage);
// An empty graph with the decls (nodes reset to 0), names dropped, and spec of another.
Graph *graph_like(Arena *a, const Graph *g, Stage stage);

static inline const Node *graph_node(const Graph *g, NodeId n) { return &g->node.at[n]; }
static inline uint32_t graph_count(const Graph *g) {
  return g->node.n ? g->node.n - 1 : 0;
} // ids 1..count

// Adds a node, or returns the equal one that exists. Type and dims follow from the infer rule of
// its row; BUG if that refuses (the caller has checked, or use graph_try). attr may be NULL; lists
// are copied.
NodeId graph_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr);
// As graph_add, but returns 0 if the infer rule refuses, with one sentence in why[0..200).
// `instance` tells rematerialised copies of a node from the original.
NodeId graph_try(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                 uint16_t instance, char *why);
// Adds a copy of node n of `from` to g, with arguments map[arg] and its own origin.
NodeId graph_copy(Graph *g, const Graph *from, NodeId n, const NodeId *map);
// Appends all outputs of `from` to those of g, each with the value map[value].
void graph_copy_outputs(Graph *g, const Graph *from, const NodeId *map);

// Adds a declaration (its source node is made by graph_decl_node on first use).
DeclId graph_decl(Graph *g, const Decl *d);
NodeId graph_decl_node(Graph *g, DeclId d);
DeclId graph_find_decl(const Graph *g, const char *name); // interned or not; 0: none
const Name *graph_find_name(const Graph *g, const char *name);
// The source node of decl d in a lowered graph; `dims` are the dims of this processor's shard.
NodeId graph_decl_node_over(Graph *g, DeclId d, const Dims *dims);
// Its op: OP_INPUT, OP_PARAM, or OP_STATE (states and slots).
Op decl_op(DeclKind k);

// Short forms for building. Types must agree already (casts are nodes, decision 6).
NodeId graph_const(Graph *g, Dtype type, double value);
double graph_exact(const Graph *g,
                   NodeId constant); // its value before it was rounded, as far as that is known
NodeId graph_unary(Graph *g, Op op, NodeId a);
NodeId graph_binary(Graph *g, Op op, NodeId a, NodeId b);
NodeId graph_where(Graph *g, NodeId c, NodeId a, NodeId b);
NodeId graph_cast(Graph *g, NodeId a, Dtype type);                // a itself when it has the type
NodeId graph_reduce(Graph *g, Op op, NodeId a, const Dims *over); // a itself when over is empty
NodeId graph_broadcast(Graph *g, NodeId a,
                       const Dims *to); // to the dims `to`, a superset; a itself when equal
// Returns zeros of the type over the dims.
NodeId graph_zeros(Graph *g, Dtype type, const Dims *dims);
NodeId graph_index(Graph *g, DimId d);
// Returns the value of x at the current step of loop r: x without the dim of the loop.
NodeId graph_at(Graph *g, RegionId r, NodeId x);
// Returns the values of x in all steps of the loop of `scan`: x with the dim of the loop.
NodeId graph_collect(Graph *g, NodeId scan, NodeId x);
// Sum of the product of n >= 2 values over the dims that `keep` lacks, as binary contractions in
// the order of least work (greedy on flops; Pfeifer et al., "Faster identification of optimal
// contraction sequences").
NodeId graph_contract(Graph *g, int n, const NodeId *factors, const Dims *keep, Dtype type);
// Flops of one run of contraction n, where a multiplication and an addition are two: twice the
// product of the lengths of its dims and of those that it sums. INT64_MAX if that does not fit.
// With split and inner, axes for each of these dims: the flops of one processor's block.
int64_t contract_flops(const Graph *g, NodeId n, const Axes *split, const Axes *inner);
// Flops of all contractions in a step: each as often as its loops run. INT64_MAX as above.
int64_t graph_flops(const Graph *g);

// The parts of log(sum over `over` of exp(x)), relative to the maximum of a row. An offset that all
// elements share cancels in x - shift, so that it costs the other parts no accuracy.
//
//   logsumexp = log(sum) + shift,  its gradient e / sum,  log_softmax = shifted - log(sum)
typedef struct LogSum {
  NodeId shift;   // max over `over`; 0 where that is infinite, because -inf - -inf is NaN
  NodeId shifted; // x - shift
  NodeId e;       // exp(shifted)
  NodeId sum;     // of e over `over`
} LogSum;
// x is f32 or f64. `stopped` puts a stop_gradient on the shift, whose gradient is zero anyway; only
// valid before `expand`.
LogSum graph_log_sum(Graph *g, NodeId x, const Dims *over, bool stopped);

RegionId graph_region(Graph *g, const Region *r);
static inline const Region *region_get(const Graph *g, RegionId r) { return &g->region.at[r - 1]; }
// Whether region a is b or encloses b. Region 0 encloses every region.
bool region_encloses(const Graph *g, RegionId a, RegionId b);
// All nodes in an order for execution: each after its arguments, a scan after all nodes of its
// region. Without loops this is the order of ids.
NodeId *graph_schedule(Arena *a, const Graph *g);
// Nodes by region, each list in the order of graph_schedule: node[first[r] .. first[r + 1]) are
// those of region r, without those of inner loops.
typedef struct RegionNodes {
  const uint32_t *first;
  const NodeId *node;
} RegionNodes;
RegionNodes region_nodes(Arena *a, const Graph *g);
int region_depth(const Graph *g, RegionId r); // number of loops around its nodes; 0 outside all
// How often the nodes of region r run: the product of the steps of r and of all regions around it.
// 1 for region 0; INT64_MAX on overflow.
int64_t region_times(const Graph *g, RegionId r);
// The type of a carry that adds up values of type t over all steps of r: f64 if a long sum in t
// would lose accuracy, else t.
Dtype region_sum_type(const Graph *g, RegionId r, Dtype t);
// The scan of each region, indexed by RegionId; 0 for a region whose scan is not in this graph.
NodeId *region_scans(Arena *a, const Graph *g);
// The argument of a carry's scan that is the carry's value in the next step. 0 if its region has no
// scan in this graph.
NodeId carry_next(const Graph *g, const NodeId *scan, NodeId carry);

// The number of elements of node n's result (block lengths in a lowered graph).
int64_t node_elements(const Graph *g, NodeId n);
int64_t node_bytes(const Graph *g, NodeId n);

// A copy without nodes that no output needs. CHECKS nodes stay if their arguments stay. If map is
// not NULL, *map gets a table from old to new ids (0: dropped) with count+1 entries from `a`.
Graph *graph_prune(Arena *a, const Graph *g, Stage stage, NodeId **map);
// As graph_prune, for a graph that no one else refers to. It reuses g where possible; do not use g
// afterwards.
Graph *graph_prune_in_place(Arena *a, Graph *g, Stage stage);

// Returns how often each node is an argument or an output, indexed by NodeId, in `a`.
uint32_t *graph_uses(Arena *a, const Graph *g);

// -- text (print.c, read.c): print, read, print is a fixed point --------------------------------
// note, if not NULL, returns the "@ placement" text of a node, or NULL for none; `table` is passed
// to it.
typedef const char *GraphNote(const void *table, NodeId n);
char *graph_print(Arena *a, const Graph *g, const Diag *d, GraphNote *note, const void *table);
// The line of one node, without its end.
char *graph_node_text(Arena *a, const Graph *g, const Diag *d, NodeId n);
// Reads such a text, registered as `source` in d, into a new graph with its own dim table and mesh.
// NULL after at least one error.
Graph *graph_read(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);

// -- hoist.c ------------------------------------------------------------------------------------
// Moves work out of loops: contractions, reductions, lookups and windows that depend on no carry
// run before the loop for all steps at once, those that no carry depends on run after it. Run after
// gradients.
const Graph *graph_hoist(Arena *a, const Graph *g);

// -- invariants.c -------------------------------------------------------------------------------
// The invariants of the graph's stage: topological ids, argument counts, dims and types as
// inferred, only legal ops, outputs in range. The first violation as one sentence in why[0..200),
// else true.
MUST_USE bool graph_verify(const Graph *g, char *why);
// In debug builds: verify, and print - read - print; BUG names `pass`. Call after every pass.
void graph_check(const Graph *g, const char *pass);

// -- simplify.c, expand.c -----------------------------------------------------------------------
// Constants folded, algebra (x*1, x+0, x^2, casts of casts ...; never what changes NaN or
// rounding), moves of moves, dead and equal nodes gone.
Graph *graph_simplify(Arena *a, const Graph *g);
// Writes EXPANDS ops in primitives: mean as sum times 1/n, logsumexp as max, exp, sum, log;
// argmax as the maximum of keys (decision 7; f64: max, then min of the equal indices);
// stop_gradient as its argument.
Graph *graph_expand(Arena *a, const Graph *g);
// A lowered graph in which scatter_add of many f32 terms accumulates in f64, between casts, because
// it adds to memory one term at a time. Run after lowering, so that collectives still send f32.
Graph *graph_widen_scatters(Arena *a, const Graph *g);
// factor.c: in sums of gradients, moves factors that do not depend on the summed dims out of the
// sum, and drops parts whose sum is zero.
const Graph *graph_factor(Arena *a, const Graph *g);

// -- grad.c -------------------------------------------------------------------------------------
// Adds to g the derivative of scalar float node `loss` by each of the n nodes `by` (any nodes of
// g), with the dims and type of that node; zero where loss does not depend on it. Nodes carry why
// "grad of ..." and origin.backward. Reverse mode over the prefix of g (decision 5).
void graph_gradients(Graph *g, NodeId loss, int n, const NodeId *by, NodeId *out);

#endif
