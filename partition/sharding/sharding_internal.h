// States of values and what is said about them: shared by all files of this room.
#ifndef PARTITION_SHARDING_H
#define PARTITION_SHARDING_H

#include "partition/partition.h"

// -- lists of axes ------------------------------------------------------------------------------
void axes_append(Axes *s, int axis); // nothing if it is a member
void axes_remove(Axes *s, int axis);
void axes_join(Axes *s, Axes more);
Axes axes_head(Axes s, int n);
bool axes_starts(Axes s, Axes prefix);
// Ascending copy: the order in which collectives name a set.
Axes axes_sorted(Axes s);

// -- states -------------------------------------------------------------------------------------
// Index of the dim that `axis` cuts, or -1.
int sharding_dim_of(const Sharding *s, int ndims, int axis);
void sharding_remove(Sharding *s, int ndims, int axis); // from all cuts
bool sharding_equal(const Sharding *a, const Sharding *b, int ndims);
// Length of the blocks of n elements cut by `axes` (they nest).
int64_t block_length(const Mesh *m, int64_t n, Axes axes);
// Elements of one processor's buffer of a value over `dims` in state s.
int64_t sharding_elements(const Graph *g, const Dims *dims, const Sharding *s);
int64_t sharding_bytes(const Graph *g, NodeId n, const Sharding *s);
// The block dims that a processor holds.
Dims sharding_dims(const Graph *g, const Dims *dims, const Sharding *s);
// "b/rows h/cols", "sum over rows, h/cols", "replicated"
const char *sharding_text(Arena *a, const Graph *g, const Dims *dims, const Sharding *s);

// -- what a layout wants of a tensor (requests.c) -----------------------------------------------
typedef struct Subject {
  Dims dims;
  LayoutScope scope; // PARAMETERS, OPTIMIZER, GRADIENTS; else ALL
  const char *name;  // full name, or NULL
  const char *param; // of a slot: the parameter whose rules it follows
} Subject;
typedef struct Request {
  Axes hard[MAX_RANK], soft[MAX_RANK];
  uint16_t rule[MAX_RANK];      // of the hard axes of a dim: 1 + index of the rule, 0: none
  uint16_t soft_rule[MAX_AXES]; // of a soft axis
  bool replicated[MAX_RANK];    // `d -> none`
} Request;
// Whether the rule names dim `full` of tensor `name` (or NULL): by its full name, or, in a rule for
// that tensor, by its short name in the function that made both: dim e of layer.0.block.w is
// layer.0.block.e.
bool rule_names_dim(const LayoutRule *r, const char *name, const char *full);
// Axes of one processor are left out. Two dims may both be given one axis: layout_check says
// whether that is an error.
void request_resolve(const Graph *g, const Layout *layout, const Subject *s, Request *out);
// Splits dims by their soft axes where s has not used these.
void request_add_soft(const Request *w, int ndims, Sharding *s);
Subject subject_of_decl(const Graph *g, DeclId d);
// The subject of every node: decls, named values (the last node of the line that binds them),
// gradients of parameters, anything else. The array has count+1 entries.
Subject *subjects_of_nodes(Arena *a, const Graph *g);

// -- roles of dims (place_roles.c) --------------------------------------------------------------
typedef enum DimRoleKind {
  ROLE_KEEP,  // argument dim is result dim `at`
  ROLE_INNER, // it is attr.dims[at], which goes: a cut makes the result partial
  ROLE_FULL,  // no local form for a cut
} DimRoleKind;
typedef struct DimRole {
  uint8_t kind; // a DimRoleKind
  int8_t at;    // KEEP: -1 where the result lacks it
  bool halo;    // KEEP of a window: own blocks of `at` read an interval, which a halo brings
} DimRole;
// DimRole of dim j of argument i of node n.
DimRole dim_role_of(const Graph *g, NodeId n, int i, int j);
// The longest head of `axes` under which result dim k of n can be computed block by block.
Axes split_allowed(const Graph *g, NodeId n, int k, Axes axes);
// How partial terms of the reduced dims combine, NONE if there are no such dims (top_k merges
// candidates).
Monoid node_monoid(const Node *n);
// Number of dims that go: attr.dims of reduce, contract, take, scatter_add, top_k, and of windows
// that each owner fills with zeros beyond its own elements.
int node_inner(const Node *n);

// Of whom a layout wishes: nodes with one subject.
typedef struct Requester {
  Subject subject;
  bool given; // masks and positions are not: they are cut only where that is free, no soft rule has
              // them gathered again
} Requester;

// What all placements of a graph share (place_graph.c).
struct PlaceGraph {
  NodeId *use, *use_start;        // users of node n: use[use_start[n] .. use_start[n+1])
  uint32_t *output, *next_output; // of node, then of output: numbered from 1, 0: no more
  uint32_t *arg_start, *role_start;
  DimRole *role; // of dim j of argument i of node n: role[role_start[arg_start[n] + i] + j]
  NodeId *next;  // of a carry: the value that it takes over at the end of a step
  NodeId *
      *carry;  // carry[n][i] of scan n: the carry that its argument i becomes, 0: nobody reads it
  bool *given; // node depends on a declared tensor; others are cheap to compute whole
  bool *fed;   // node depends on an input or a carry; others are weights and what is made of them
  Subject *subject;                    // of node
  uint32_t nrequesters, *requester_of; // of node
  Requester *requester;
};

// What place decides, beyond what its door shows.
typedef struct Placer {
  Placement result;
  Arena *arena;
  const PlaceGraph *graph;
  const Request **request; // of node
  Axes **inner;            // inner[n][i]: axes that cut attr.dims[i] of node n
  uint8_t *linear; // linear[n * MAX_AXES + a]: arguments (bits) that n takes as partial over a
  NodeId chosen;   // nodes up to this one have states
  uint8_t *forced; // forced[n * MAX_AXES + a]: 2 + the slot that a cuts of n, 1: none, 0: n is free
                   // to choose
  NodeId as_gathered; // a value that choices take as gathered over `gathered_axis`, 0: none
  int gathered_axis;
  bool settling; // carries are chosen with a view to their next values
  bool silent;   // nobody asks for reasons
  const Machine *machine;
} Placer;
static inline const Placer *placer_of(const Placement *p) { return (const Placer *)p; }
// dim_role_of, as it was found before.
static inline DimRole placed_role(const Placer *p, NodeId n, int i, int j) {
  const PlaceGraph *x = p->graph;
  return x->role[x->role_start[x->arg_start[n] + (uint32_t)i] + (uint32_t)j];
}
// place_need.c: the state in which node n reads its argument i, given its own state at[n] and inner
// cuts.
Sharding read_sharding(const Placer *p, NodeId n, int i);
// The state in which output o reads its value.
Sharding output_sharding(const Placer *p, const Output *o);
// 1 + index of the rule behind a reader of n that has its dim k split over `axis`, 0: none.
uint16_t place_reader_rule(const Placer *p, NodeId n, int k, int axis);
// place_choose.c: chooses at and home of node n from the homes of its arguments.
void place_choose(Placer *p, NodeId n);
// The same of a node that has a state; cuts that users have asked for stay.
void place_choose_again(Placer *p, NodeId n);
// Has n computed in the state that all its users and updates want, where that cuts more.
void place_pull_back(Placer *p, NodeId n);
// place_users.c: values that several users want cut, and those that follow them.
void place_choose_shared(Placer *p);
void place_follow_some(Placer *p);
// Where values are gathered, and where sums are reduced, over all axes; where they then live.
void place_finish(Placer *p);
// The same, after moves that pay for several nodes together, if these send less (place_improve.c).
void place_improve(Placer *p);
// Loops (place_region.c): after a first choice of all, the states of carries and what follows from
// them, to a fixed point.
void place_settle_carries(Placer *p);
// Whether a user of arg other than `but` has it gathered over the axis that cuts its dim d
// (place_share.c).
bool place_is_gathered(const Placer *p, NodeId arg, DimId d, int axis, NodeId but);
// Whether n is a window that leaves dim d of its argument as it is: conversions of that go below
// it.
bool window_passes_dim(const Node *n, DimId d);
// Where values that no rule cuts over `axis`, and that are wanted whole, are gathered
// (place_gather.c).
void place_gathers(Placer *p, int axis);
// Decides which linear nodes work on partial terms over `axis` (reduce.c).
void place_reductions(Placer *p, int axis);

// Where the terms of n over `axis` begin: the node that sums a cut dim, and which of its dims that
// is. 0: not found.
NodeId partial_sum_begin(const Placer *p, NodeId n, int axis, int *inner);

// -- conversions (convert.c) --------------------------------------------------------------------
typedef struct ConvertStep {
  Op op;
  int from, to; // dim whose cut shrinks (gathered), dim whose cut grows; -1: none
  Axes axes;
  Sharding sharding; // after it
} ConvertStep;
enum { MAX_STEPS = 32 };
// The cheapest way (wire bytes by coll_weight, then calls) from one state to another. Returns the
// number of steps, and in *bytes what one processor sends, so weighted.
int convert_path(Arena *scratch, const Machine *machine, const Graph *g, const Dims *dims,
                 Dtype type, const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
                 double *bytes);

// -- versions of values (place_versions.c) ------------------------------------------------------
// Who reads a value: a node, or an output.
typedef struct Reader {
  const Node *node;
  const Output *output;
} Reader;
// A value in one sharding.
typedef struct Version {
  Sharding s;
  NodeId node; // of the lowered graph
  struct Version *next;
} Version;
typedef struct Versions Versions;
struct Versions {
  const Placer *p;
  Arena *scratch;
  Version **of; // of node: newest first, the computed one last
  double bytes; // that one processor sends for all of them, as convert_path, times loop steps
  // Makes the node of one step from version `from` of n; NULL: the versions are only counted.
  NodeId (*convert)(Versions *v, NodeId n, const Version *from, const ConvertStep *step,
                    const Reader *user);
};
Versions versions_new(Arena *scratch, const Placer *p);
// The first one of n is the computed one.
const Version *version_add(Versions *v, NodeId n, const Sharding *s, NodeId node);
// The node of value n in sharding `want`, which is made if there is none yet.
NodeId version_for(Versions *v, NodeId n, const Sharding *want, const Reader *user);
// The arguments of n, each in the sharding in which n reads it.
void versions_read(Versions *v, NodeId n, NodeId args[MAX_ARGS]);
// Bytes that one processor sends for all conversions of a placement, without halos.
double versions_bytes(const Placer *p);

#endif
