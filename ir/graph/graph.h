// Graph: the one intermediate form, from the model as written to the program of one processor.
//
// A node computes one value: a tensor over a *set* of named dims. Ids are topological: arguments
// have smaller ids than the node that reads them. A node
// that equals an existing one is not added again. A pass is a loop over the ids. It reads a const
// Graph and returns a new one, or a table indexed by NodeId.
//
//   %3 = contract(%1, %2) {dims=[d]} : f32[b, h]  # model.mesh:7: hidden
#ifndef IR_GRAPH_H
#define IR_GRAPH_H

#include "ir/base/dim.h"
#include "ir/base/dtype.h"
#include "ir/program/matrix.h"
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
  MATRIX,
  REGION,
  COLLECTIVE
} OpClass;
// Values of the columns of the op table ir/graph/ops.def, which explains them.
enum {
  COMMUTES = 1,
  EXPANDS = 2,
  CHECKS = 4,
  DECLARED = 8,
  DRAW = 16,
  OWN_TYPES = 32,
  NARROW = 64,
  UNROUNDED = 128
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
  MEMORY_LOOKUP
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
  int cost; // estimated time of one element of the result; unit: the time of one addition
} OpRow;
extern const OpRow op_rows[];
static inline const OpRow *op_row(Op op) { return &op_rows[op]; }
static inline bool op_is_decl(Op op) { return op_row(op)->flags & DECLARED; }
static inline bool op_is_draw(Op op) { return op_row(op)->flags & DRAW; }
// Sets *out to the kind of an operation of class MATRIX. Returns false for other operations.
bool op_matrix(Op op, MatrixKind *out);
// Returns the operation that combines two values of type t as monoid m (sum, maximum or another)
// does: OP_ADD for a sum.
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

typedef uint32_t NodeId; // counts from 1; 0 where there is no node
enum { MAX_ARGS = 255 };
typedef uint32_t DeclId; // index into Graph.decl plus 1; 0 where there is no declaration

typedef uint32_t RegionId; // 0: outside all loops; else index into Graph.region plus 1

// The loop of a scan over dim t. Nodes whose value differs between its steps are in its region.
// CARRY and AT name their region. SCAN, FINAL and COLLECT are in the region around the loop,
// `parent`. Every other node is in the innermost region of its arguments.
//
//   %4 = carry(%1) {region = 1}              value at the start of a step; %1 in the first
//   %5 = at(%2) {dims = [t], region = 1}     %2 at the current t
//   %6 = add(%4, %5)                         in region 1, because its arguments are
//   %7 = scan(%6) {region = 1}               the loop: argument k is the next value of carry k
//   %8 = final(%7, %4)                       the carry after the last step
//   %9 = collect(%7, %6) {dims = [t]}        %6 of all steps: has the dim t
//
// A node of a region must not depend on a node outside it that has a larger id than the scan.
//
// A region may be *guarded*: its carry 0 is a bool scalar, the guard, and the loop, which has one
// step, runs only if the guard starts true. Else its FINAL values are the starts of the carries,
// and what it collects is zero. Such a region is one side of `cond`. A carry whose next value is
// itself is *constant*: it brings a value from outside into the region.
typedef struct Region {
  RegionId parent;
  DimId t;        // the whole dim that the loop runs over, from position 0 to size-1
  bool reverse;   // the loop runs from position size-1 to 0
  bool recompute; // gradients rematerialise the body instead of keeping its values
  bool guarded;
  Pos pos;
} Region;

// What an operation needs beside its arguments. The column `attrs` of ops.def says which of the
// fields `type`, `dims` and `to` the operation reads. Fields that it does not read are zero. Those
// of a node and their lists are in the graph's arena.
typedef struct Attr {
  Dtype type;  // result type of const, values, cast, contract and random draws
  DeclId decl; // the declaration of an input, param or state
  // num[0]: the value of a const; of a window, the value of elements outside its source.
  double num[2];
  uint8_t ndims, nto;
  const DimId *dims; // the ndims dims that the operation removes, adds or reads (ops.def)
  const DimId *to;   // the nto dims that replace them or are new
  Axes axes;         // the axes of a collective or a pin
  // How an all_reduce or a reduce_scatter combines the values of processors. MONOID_MAX makes a
  // scatter_add the maximum of 0 and its terms, which are integers.
  Monoid monoid;
  // The ndata numbers of operation `values`, row-major over `dims` in the order of that list.
  const double *data;
  int64_t ndata;
  Affine affine;  // which position of its source each element of a window reads
  uint64_t key;   // hash of a draw's path in the model, which does not depend on the seed
  uint32_t carry; // number k of a carry, where argument k of the scan is its next value
  // Of a const: 1 + the index of the `size(dim)` that it comes from, else 0. Consts with different
  // tags are different nodes, so that a later step can replace each by the actual number of rows.
  uint32_t tag;
  // Options of an ordered operation, ORDER_EXCLUSIVE and others (ordered_flags.h), or of a matrix
  // operation, MATRIX_UPPER (ir/program/matrix.h).
  unsigned flags;
  RegionId region; // the loop of a carry, at or scan
} Attr;

bool attr_equal(const Attr *a, const Attr *b);
// Returns true if d is one of the dims `dims` and `to`.
static inline bool attr_names(const Attr *t, DimId d) {
  return dim_in(d, t->ndims, t->dims) || dim_in(d, t->nto, t->to);
}

// Where a node comes from. Dumps, errors and `explain` show it; equality of nodes ignores it.
typedef struct Origin {
  Pos pos; // position in the model
  // Full name of the value that this line of the model binds; "grad(w)" for a gradient; NULL if the
  // line binds no name.
  const char *value;
  const char *why; // pass and reason: "grad of hidden through relu"
  // The full name of declaration w if the node is d loss / d w; otherwise NULL.
  const char *gradient_of;
  // The number of the call of a built-in function (softmax, cross entropy ...) that the node is a
  // part of, or 0. Gradients of the node have the same number.
  uint32_t composite;
  bool backward; // made by the gradient builder or the optimizer; `check` counts it as backward
  // Ids of nodes in the placed graph, from which this graph was lowered. `of`: the node that this
  // node computes, or whose value it converts to another sharding. `reader`, only for a conversion:
  // the first node that reads the converted value, or 0 if only an output does.
  NodeId of, reader;
} Origin;
// Returns the full name of the value that the node belongs to. For a gradient this is the name of
// the declaration. NULL if there is none.
static inline const char *origin_subject(const Origin *o) {
  return o->gradient_of ? o->gradient_of : o->value;
}

typedef struct Node {
  uint16_t op;  // an Op
  uint8_t type; // a Dtype
  uint8_t nargs;
  // 0, or the number of a rematerialised copy. Nodes with different numbers are not equal.
  uint32_t instance;
  RegionId region;    // the innermost loop around the node; derived from its arguments
  uint32_t attr_hash; // a hash of *attr, for the table of nodes
  // What other nodes may share, of this graph and of others: to change it means to point to
  // another.
  const Dims *dims; // dims of the result, in canonical order
  const NodeId *args;
  const Attr *attr;
  const Origin *origin;
} Node;
// Gives *n, a node that the table of no graph has, other attributes. *attr must last as long as the
// node.
void node_set_attr(Node *n, const Attr *attr);

typedef enum DeclKind { DECL_INPUT, DECL_PARAM, DECL_STATE, DECL_SLOT } DeclKind;

// A tensor that outlives a run of the graph: an input, a parameter, or a state.
typedef struct Decl {
  DeclKind kind;
  const char *name; // full scoped name; of a slot (a tensor of the optimizer) "optimizer.NAME.m"
  Dtype type;
  uint8_t rank;
  DimId dims[MAX_RANK]; // whole dims in declared order, which is the order of axes in files
  NodeId node;          // its source node in this graph, or 0 if no node reads it
  DeclId of;            // the parameter that a slot belongs to; 0 if the declaration is no slot
  bool frozen;          // the model has `trainable = false` for this parameter
  Init init;            // initial value of a parameter, state or slot
  Pos pos;
} Decl;

typedef enum OutKind {
  OUT_VALUE,  // a result that the run returns under `name`
  OUT_UPDATE, // the value of declaration `target` after the step
} OutKind;

typedef struct Output {
  OutKind kind;
  const char *name;        // OUT_VALUE: "probs", "grad(w)"; OUT_UPDATE: the target's name
  const char *gradient_of; // for a value d loss / d w: the name of w; otherwise NULL
  NodeId value;
  DeclId target;
  // OUT_VALUE: `rank` whole dims in the order that the axes of the result have in files.
  uint8_t rank;
  DimId dims[MAX_RANK];
} Output;

// A name of the model that --fetch can name, and the value that it was bound to last.
typedef enum NameKind { NAME_VALUE, NAME_OUTPUT, NAME_METRIC, NAME_DECL } NameKind;
typedef struct Name {
  const char *name; // full scoped name
  NameKind kind;
  NodeId value;
  // Number of entries of `dims`, the order of axes in files. 0: files have the dims of the value in
  // the order of their declarations.
  uint8_t rank;
  DimId dims[MAX_RANK];
  bool stated; // the model states the order of dims, as in `x[b, h]`
  Pos pos;
} Name;

typedef struct Graph Graph;
struct Graph {
  Arena *arena;
  DimTable *dims;
  const Mesh *mesh; // the mesh of the compile
  Stage stage;
  const char *model; // path of the model file, for messages and the header of dumps
  VEC(Node) node;    // node.at[0] is unused; use graph_node
  VEC(Decl) decl;
  VEC(Output) output;
  VEC(Name) name; // empty in later stages, which have `output` instead
  VEC(Region) region;
  Layout layout;  // rules of the compile, axes numbered as in mesh
  ModelSpec spec; // data and train blocks, seed; kept here so that a dump needs no other file
  Origin origin;  // graph_add gives this origin to each node that it adds
  // Indexed by NodeId, only in the graph as built: the value that an f32 constant had before it was
  // rounded to f32. 0 for other nodes, and for constants that rounding did not change.
  VEC(double) exact;
  struct GraphTable *table; // hash of nodes, private to graph.c
};

// Returns an empty graph whose nodes are allocated in `a`. All graphs of a compile share the table
// `dims`, so only one thread may build graphs of a compile.
Graph *graph_new(Arena *a, DimTable *dims, const Mesh *mesh, Stage stage);
// Returns an empty graph for a pass over g. It has the declarations of g, without source nodes, the
// regions, the layout and the spec, but not the names.
Graph *graph_like(Arena *a, const Graph *g, Stage stage);

// Returns a graph with the nodes of g, to which nothing is added, and with another table of dims,
// in which they have the same ids. It may be compiled in another thread than g, as long as nobody
// changes g.
Graph graph_with_dims(Arena *a, const Graph *g, DimTable *dims);

// Makes room for `nodes` nodes, so that the array of nodes need not be copied when it grows. Room
// that is not used costs hardly any memory.
void graph_reserve(Graph *g, uint32_t nodes);

static inline const Node *graph_node(const Graph *g, NodeId n) { return &g->node.at[n]; }
static inline uint32_t graph_count(const Graph *g) {
  return g->node.n ? g->node.n - 1 : 0;
} // node ids are 1..count

// Adds a node, or returns an equal node of g. The infer rule of the operation gives type and dims.
// Arguments that the rule refuses are a BUG; graph_try is for arguments that are not checked. attr
// may be NULL. Lists of args and attr are copied.
NodeId graph_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr);
// Adds a node as graph_add does, but returns 0 if the infer rule refuses it, with one sentence in
// why[0..200). `instance` is 0, or the number of a rematerialised copy (Node.instance).
NodeId graph_try(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                 uint32_t instance, char *why);
// Gives node n of g another origin.
void graph_set_origin(Graph *g, NodeId n, const Origin *origin);
// Gives node n of g, unless it has a name or is a source, the name that `origin` has.
void graph_name_as(Graph *g, NodeId n, const Origin *origin);
// Adds a copy of node n of `from` to g. map[NodeId of `from`] gives its arguments in g. The copy
// has the origin of n.
NodeId graph_copy(Graph *g, const Graph *from, NodeId n, const NodeId *map);
// Appends all outputs of `from` to those of g, each with the value map[value].
void graph_copy_outputs(Graph *g, const Graph *from, const NodeId *map);

// Adds a declaration (its source node is made by graph_decl_node on first use).
DeclId graph_decl(Graph *g, const Decl *d);
NodeId graph_decl_node(Graph *g, DeclId d);
// Returns the declaration with this name, or 0. The name need not be interned.
DeclId graph_find_decl(const Graph *g, const char *name);
const Name *graph_find_name(const Graph *g, const char *name);
// Returns the source node of decl d in a lowered graph; `dims` are the dims of this processor's
// shard.
NodeId graph_decl_node_over(Graph *g, DeclId d, const Dims *dims);
// Returns the operation of the source node of a declaration of kind k. For DECL_SLOT (a state of an
// optimizer) it is OP_STATE.
Op decl_op(DeclKind k);

// Short forms of graph_add. Two operands must have the same type: no function inserts a cast.
NodeId graph_const(Graph *g, Dtype type, double value);
// Returns the value that a constant had before it was rounded to its type, if Graph.exact has it.
// Otherwise returns the rounded value.
double graph_exact(const Graph *g, NodeId constant);
NodeId graph_unary(Graph *g, Op op, NodeId a);
NodeId graph_binary(Graph *g, Op op, NodeId a, NodeId b);
NodeId graph_where(Graph *g, NodeId c, NodeId a, NodeId b);
NodeId graph_cast(Graph *g, NodeId a, Dtype type); // returns a itself if it has the type already
NodeId graph_reduce(Graph *g, Op op, NodeId a, const Dims *over); // returns a if `over` is empty
// Returns a with the dims `to`, which contain all dims of a. Returns a itself if a has all of `to`.
NodeId graph_broadcast(Graph *g, NodeId a, const Dims *to);
// Returns a tensor of zeros with this type and these dims.
NodeId graph_zeros(Graph *g, Dtype type, const Dims *dims);
NodeId graph_index(Graph *g, DimId d);
// Returns the value of x at the current step of loop r: x without the dim of the loop.
NodeId graph_at(Graph *g, RegionId r, NodeId x);
// Returns the values of x in all steps of the loop of `scan`: x with the dim of the loop.
NodeId graph_collect(Graph *g, NodeId scan, NodeId x);
// Returns the sum of the product of n >= 2 values over the dims that `keep` lacks. Adds binary
// contractions in the order of least work (greedy on flops; Pfeifer et al., "Faster identification
// of optimal contraction sequences").
NodeId graph_contract(Graph *g, int n, const NodeId *factors, const Dims *keep, Dtype type);
// Returns the flops of one run of contraction n: twice the product of the lengths of its dims and
// of the dims that it sums, because a multiplication and an addition are two flops. Returns
// INT64_MAX if that does not fit. With `split`, axes for each dim of n, and `inner`, axes for each
// summed dim, returns the flops of one processor's block. Both may be NULL.
int64_t contract_flops(const Graph *g, NodeId n, const Axes *split, const Axes *inner);
// Returns the flops of all contractions in a step, each as often as its loops run. Returns
// INT64_MAX if they do not fit.
int64_t graph_flops(const Graph *g);

// Nodes for log(sum over `over` of exp(x)), computed from x - shift. `shift` is the maximum of x
// over `over`, so that exp does not overflow. A large common offset of the elements then does not
// reduce the accuracy of `e` and `sum`.
//
//   logsumexp = log(sum) + shift;  its gradient is e / sum;  log_softmax = shifted - log(sum)
typedef struct LogSum {
  NodeId shift;   // the maximum; 0 where it is infinite, because -inf - -inf is NaN
  NodeId shifted; // x - shift
  NodeId e;       // exp(shifted)
  NodeId sum;     // the sum of e over `over`
} LogSum;
// Adds the nodes of LogSum for x, which is f32 or f64. With `stopped` the shift is inside a
// stop_gradient, so that no gradient nodes are built for it; its contributions would cancel. The
// caller must then run the pass `expand`, which removes stop_gradient.
LogSum graph_log_sum(Graph *g, NodeId x, const Dims *over, bool stopped);

RegionId graph_region(Graph *g, const Region *r);
static inline const Region *region_get(const Graph *g, RegionId r) { return &g->region.at[r - 1]; }
// Returns true if region a (the body of a loop) is b or encloses b. Region 0, outside all loops,
// encloses every region.
bool region_encloses(const Graph *g, RegionId a, RegionId b);
// Returns the micro-batch of each node, by NodeId: 1 + the number of the last one (`accumulate`) on
// whose rows the node depends, 0 if it depends on none. A node in a loop has the number of the
// loop. The array is in `a`. Returns NULL if a step has a single micro-batch (micro_batches.c).
const uint32_t *graph_micro_batches(Arena *a, const Graph *g);
// Returns all nodes in an order in which they can be executed: each after its arguments, a scan
// after all nodes of its region. Without loops this is the order of ids. The array is in `a` and
// has graph_count entries.
NodeId *graph_schedule(Arena *a, const Graph *g);
// The nodes of each region: region r has node[first[r]] to node[first[r + 1] - 1], without the
// nodes of inner loops. Each list is in the order of graph_schedule.
typedef struct RegionNodes {
  const uint32_t *first;
  const NodeId *node;
} RegionNodes;
RegionNodes region_nodes(Arena *a, const Graph *g);
// Returns the carries of each region or the results of its loop, in the order of ids: op is
// OP_CARRY, OP_FINAL or OP_COLLECT.
RegionNodes region_ends(Arena *a, const Graph *g, Op op);
int region_depth(const Graph *g, RegionId r); // number of loops around its nodes; 0 outside all
// Returns how often the nodes of region r run in a step of the program: the product of the steps of
// r and of all regions around it, 1 for region 0. Returns INT64_MAX if it does not fit.
int64_t region_times(const Graph *g, RegionId r);
// Returns the type of a carry that adds up values of type t over all steps of loop r: f64 if t is a
// float and the loop has more than SUM_LEAF_SHORT steps (ir/program/sums.h), else t.
Dtype region_sum_type(const Graph *g, RegionId r, Dtype t);
// Returns the SCAN node of each region, indexed by RegionId, in `a`. The entry is 0 for a region
// whose scan is not in this graph.
NodeId *region_scans(Arena *a, const Graph *g);
// Returns the node that is the value of `carry` in the next step, or 0 if its region has no scan in
// this graph. `scan` is the result of region_scans.
NodeId carry_next(const Graph *g, const NodeId *scan, NodeId carry);
// Returns true if node n is in a guarded region and brings a value from outside into it: a constant
// carry.
bool carry_is_constant(const Graph *g, const NodeId *scan, NodeId n);
// Returns a copy of g without guarded regions: both sides of each `cond` are computed, and their
// results are selected. For devices that cannot skip a loop. Returns g if it has no such region.
const Graph *graph_unguard(Arena *a, const Graph *g);

// Returns the operation of node n as a model writes it: "slice" or "pad" for a window, "layout" for
// a pin; for other operations the name of the operation. In source_name.c.
const char *node_source_name(const Graph *g, NodeId n);

// Return the number of elements and of bytes of node n's result. Dims of a lowered graph are
// blocks, so these are numbers of one processor.
int64_t node_elements(const Graph *g, NodeId n);
int64_t node_bytes(const Graph *g, NodeId n);

// Returns a copy of g without the nodes that no output needs. An operation with the flag CHECKS
// (ops.def) is kept if all its arguments are kept. If map is not NULL, *map gets a table in `a`
// from old to new ids, with 0 for a node that was dropped.
Graph *graph_prune(Arena *a, const Graph *g, Stage stage, NodeId **map);
// Does the work of graph_prune in g itself where possible. Nothing else may refer to g. The caller
// continues with the result and must not use g.
Graph *graph_prune_in_place(Arena *a, Graph *g, Stage stage);

// Returns a hash of the nodes, the outputs and the mesh of g. Graphs that passes made from one
// graph are equal if their hashes are, but for the texts that say why a node is there.
uint64_t graph_hash(const Graph *g);

// Gives back the memory of the nodes of g, which nobody may read any more. Of a small graph nothing
// is given back before its arena is freed; what its nodes point to never is, because graphs share
// it.
void graph_release(const Graph *g);

// Returns how often each node is an argument or an output, indexed by NodeId, in `a`.
uint32_t *graph_uses(Arena *a, const Graph *g);

// -- text (print.c, read.c) -----------------------------------------------------------------------
// A function that returns a remark about node n, such as "split by b over rows", or NULL. The
// printer writes it behind "@". `table` is what the caller gave to the printer.
typedef const char *GraphNote(const void *table, NodeId n);
// Returns the text of g in `a`. `d` gives the names of files in positions and may be NULL; so may
// `note`.
char *graph_print(Arena *a, const Graph *g, const Diag *d, GraphNote *note, const void *table);
// Returns the line of one node, without the line end.
char *graph_node_text(Arena *a, const Graph *g, const Diag *d, NodeId n);
// Reads a text that graph_print wrote into a new graph with its own dim table and mesh. `source` is
// the number of the text in d (diag_source). Returns NULL after errors, which are added to d.
Graph *graph_read(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n);

// -- hoist.c ------------------------------------------------------------------------------------
// Returns a copy of g with contractions, reductions, lookups and windows moved out of loops. A node
// that depends on no carry is computed before the loop, for all steps at once. A node on which no
// carry depends is computed after it. Gradients must have been added before.
const Graph *graph_hoist(Arena *a, const Graph *g);

// -- invariants.c -------------------------------------------------------------------------------
// Checks the invariants of the graph's stage: topological ids, argument counts, inferred dims and
// types, legal operations, existing outputs. Returns false with one sentence about the first
// violation in why[0..200).
MUST_USE bool graph_verify(const Graph *g, char *why);
// In debug builds verifies g and checks that its text, read back, prints as the same text. A
// violation is a BUG that names `pass`. The pipeline calls it after every pass.
void graph_check(const Graph *g, const char *pass);

// -- simplify.c, expand.c -----------------------------------------------------------------------
// Returns a simplified copy of g: constants folded, algebra such as x*1 reduced, moves of moves
// joined, unneeded and equal nodes removed. A rule never adds or removes NaN or infinity. It
// changes other values at most by the rounding error that the operation may have.
Graph *graph_simplify(Arena *a, const Graph *g);
// Replaces the operations with the flag EXPANDS (ops.def) by primitive ones. mean becomes a sum
// times 1/n, logsumexp becomes max, exp, sum and log, and stop_gradient its argument. argmax
// becomes the maximum of keys, which are integers that hold value and index. argmax of f64 becomes
// the maximum, and then the least index of an element that equals it.
Graph *graph_expand(Arena *a, const Graph *g);
// Returns a copy of a lowered graph in which a scatter_add of many f32 terms accumulates in f64,
// and one that leaves most rows of its result zero stores only the other rows (scatter.c).
Graph *graph_plan_scatters(Arena *a, const Graph *g);
// Moves factors that do not depend on the summed dims out of sums of gradients (factor.c). Drops
// terms whose sum is zero, such as x - mean(x).
const Graph *graph_factor(Arena *a, const Graph *g);

// -- grad.c -------------------------------------------------------------------------------------
// Adds to g the derivative of the scalar float node `loss` by each of the n nodes `by[i]`, by
// reverse-mode differentiation. out[i] gets its node, which has the dims and type of by[i] and is
// zero if loss does not depend on by[i]. New nodes have origin.backward set and a `why` of "grad of
// ...".
void graph_gradients(Graph *g, NodeId loss, int n, const NodeId *by, NodeId *out);

#endif
