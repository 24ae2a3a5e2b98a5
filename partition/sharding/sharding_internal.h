// Shardings, requests, roles of dims, placement in progress: shared by the folders of partition.
#ifndef PARTITION_SHARDING_H
#define PARTITION_SHARDING_H

#include "partition/partition.h"

// -- lists of axes -------------------------------------------------------------------------------
// Lists of axes, each at most once. The order is that of nested blocks, outermost first.
void axes_append(Axes *s, int axis); // does nothing if s has it
void axes_remove(Axes *s, int axis);
void axes_join(Axes *s, Axes more); // appends those that s lacks
Axes axes_head(Axes s, int n);      // the first n axes of s, or all
bool axes_starts(Axes s, Axes prefix);
bool axes_meet(Axes a, Axes b);       // whether they have an axis in common
bool axes_within(Axes s, Axes all);   // whether all has every axis of s
Axes axes_without(Axes s, Axes gone); // the axes of s that gone lacks, in their order
// Returns a copy of s with its axes in ascending order, the order in which collectives list them.
Axes axes_sorted(Axes s);

// -- shardings -----------------------------------------------------------------------------------
// The lists `split` of dims beyond the rank of a value are empty, so that these functions need no
// rank. Returns the index of the dim that `axis` splits in s, or -1 if it splits none.
int sharding_dim_of(const Sharding *s, int axis);
void sharding_remove(Sharding *s, int axis);  // from all dims
void sharding_unsplit(Sharding *s, int axis); // and no rule stays on the axis, which splits nothing
bool sharding_equal(const Sharding *a, const Sharding *b);
// Each of the different shardings of a placement, once (kept.c). sharding_keep returns the one that
// is equal to *s in all members; it stays as it is as long as the arena.
typedef struct Shardings Shardings;
typedef struct KeptSharding {
  Sharding s;
  int8_t dim[MAX_AXES]; // [axis] what sharding_dim_of returns, which placement asks most often
} KeptSharding;
Shardings *shardings_new(Arena *a);
const Sharding *sharding_keep(Shardings *all, const Sharding *s);
// Return the number of elements (sharding_elements) and of bytes (sharding_bytes) of one
// processor's block of a value in sharding s.
int64_t sharding_elements(const Graph *g, const Dims *dims, const Sharding *s);
int64_t sharding_bytes(const Graph *g, NodeId n, const Sharding *s);
// Returns the dims of one processor's block of a value over `dims` in sharding s.
Dims sharding_dims(const Graph *g, const Dims *dims, const Sharding *s);
// Returns a sharding as text: "b/rows h/cols", "sum over rows, h/cols", "replicated".
const char *sharding_text(Arena *a, const Graph *g, const Dims *dims, const Sharding *s);

// -- requests of a layout for a tensor (requests.c) ----------------------------------------------
// A tensor with all its properties that layout rules can match.
typedef struct Subject {
  Dims dims;
  LayoutScope scope;       // PARAMETERS, OPTIMIZER, GRADIENTS; else ALL
  const char *name;        // full name, or NULL
  const char *gradient_of; // the tensor whose gradient this is, or NULL
  const char *param; // of an optimizer's tensor: the parameter whose rules it follows, else NULL
} Subject;
// The sharding that the rules of a layout ask for, by hard rules and by soft rules. An axis of a
// soft rule is used only where nothing else uses the axis.
typedef struct Request {
  Axes hard[MAX_RANK], soft[MAX_RANK];
  uint16_t rule[MAX_RANK];      // [dim] 1 + index of the hard rule for the dim, 0: none
  uint16_t soft_rule[MAX_AXES]; // [axis] 1 + index of the soft rule that asks for the axis, 0: none
  bool replicated[MAX_RANK];    // [dim] a rule says `dim -> none`
  int rank;                     // the number of dims
} Request;
// Returns whether rule r names the dim with full name `full` of tensor `name` (NULL: a tensor
// without a name). A rule for one tensor may use the dim's short name: dim e of layer.0.block.w is
// layer.0.block.e.
bool rule_names_dim(const LayoutRule *r, const char *name, const char *full);
// Fills *out from all rules of the layout that apply to tensor s. Axes of size 1 are left out. Two
// dims may get one axis; layout_check reports that where it is an error.
void request_resolve(const Graph *g, const Layout *layout, const Subject *s, Request *out);
// Adds to sharding s the axes of soft rules in request w that s does not use yet.
void request_add_soft(const Request *w, Sharding *s);

Subject subject_of_decl(const Graph *g, DeclId d);
// Returns an array, indexed by node id, of what layout rules match each node by. Nodes of declared
// tensors, named values and gradients of parameters have the name of that tensor. Of the nodes of
// one statement only the last has the name of the value.
Subject *subjects_of_nodes(Arena *a, const Graph *g);

// -- roles of dims (place_roles.c) ---------------------------------------------------------------
typedef enum DimRoleKind {
  ROLE_KEEP,  // the argument dim is result dim `at`
  ROLE_INNER, // the argument dim is attr.dims[at], which the result lacks: a split makes the result
              // partial
  ROLE_FULL,  // the node needs all of the dim
} DimRoleKind;
typedef struct DimRole {
  uint8_t kind; // a DimRoleKind
  int8_t at;    // KEEP: index of the result dim, -1: the result lacks the dim; INNER: index into
                // attr.dims
  bool halo;    // KEEP, of a window: a block of result dim `at` may read beyond the block of the
                // argument dim
} DimRole;
// Returns the role of dim j of argument i of node n: what becomes of a split of this dim.
DimRole dim_role_of(const Graph *g, NodeId n, int i, int j);
// Returns the longest leading part of the list `axes` by which result dim k of n can be split and
// computed block by block.
Axes split_allowed(const Graph *g, NodeId n, int k, Axes axes);
// Returns how partial results of n combine if a dim that n reduces is split. Returns MONOID_NONE if
// n reduces no dim, and for top_k, whose candidates are merged.
Monoid node_monoid(const Node *n);
// Returns the number of dims in attr.dims of n whose split makes the result partial (ROLE_INNER).
// It is 0 except for reductions, contractions, take, scatter_add, top_k, and windows whose result
// is a sum of blocks with zeros elsewhere.
int node_inner(const Node *n);

// A tensor for which a request (the sharding that layout rules ask for) is made. Nodes with equal
// requesters share one request.
typedef struct Requester {
  Subject subject;
  bool given; // PlaceGraph.given of the node; soft rules apply only where it is true
} Requester;

// One read of a value: by argument `arg` of a node, or by an output.
typedef struct Read {
  NodeId node; // 0: an output
  int arg;
  uint32_t output; // 1 + index into Graph.output, else 0. node and output 0: end of list
} Read;

// Tables of a graph that do not depend on mesh and layout (place_graph.c).
struct PlaceGraph {
  Read *read;           // lists of reads, one for each value; see reads_of
  uint32_t *read_start; // [node] index into `read`
  uint32_t *arg_start, *role_start;
  DimRole *role;    // role of dim j of argument i of node n: role[role_start[arg_start[n] + i] + j]
                    // up to the first role of the next argument
  bool *haloed;     // [node] some window reads it with a halo
  NodeId *next;     // [node] of a carry: node of its value in the next step; else 0
  NodeId **carry;   // carry[n][i] of scan n: the carry that argument i starts, 0: unused
  bool *given;      // [node] it depends on a declared tensor; masks and positions do not
  bool *fed;        // [node] it depends on an input or a carry; weights do not
  Subject *subject; // [node]
  bool *sums;       // [node] it adds gradients of micro-batches (place_sums.c)
  uint32_t *crowd;  // [node] its number among the values with many readers (place_crowd.c), 0: it
                    // has few
  uint32_t ncrowds, *readers; // [crowd] the number of nodes that read the value
  // Marks of `checkpoint` that are set aside (place_marks.c).
  NodeId *marked;                      // [node] of such a mark: the value that it marks; else 0
  NodeId *mark;                        // [node] the first such mark of the value, 0: none
  uint32_t nmarks;                     // their number
  uint32_t nrequesters, *requester_of; // [node] index into requester
  Requester *requester;
};

// Sets p->sums, and p->subject of these nodes: that of their gradient (place_sums.c).
void place_find_sums(PlaceGraph *p, Arena *a, const Graph *g);

// -- place_marks.c
// Fills p->marked, p->mark and p->nmarks, for the whole graph g.
void place_find_marks(PlaceGraph *p, Arena *a, const Graph *g);
// Returns g with the same node ids, but without the marks that p sets aside. It shares with g what
// is the same.
const Graph *place_without_marks(Arena *a, const PlaceGraph *p, const Graph *g);

// -- place_crowd.c
// Fills p->crowd and p->readers.
void place_find_crowds(PlaceGraph *p, Arena *a, const Graph *g);

// A sharding that readers of a value ask for, and the number of those readers.
typedef struct Asked {
  Sharding need;
  uint32_t n;
} Asked;
// What all nodes that read a value ask for.
typedef struct Crowd {
  uint32_t n, *ask; // [read] 1 + index into `asked`; 0: the reader has no shardings yet
  VEC(Asked) asked; // some may have no reader any more
} Crowd;

// Values of Placer.forced; from FORCED_FIRST on: FORCED_FIRST + slot that the axis must split.
enum { FORCED_FREE, FORCED_NONE, FORCED_FIRST };

// A placement in progress: the shardings chosen so far, and the tables that the choices need.
typedef struct Placer {
  Placement result;
  const Graph *g; // result.graph, without marks (place_marks.c)
  Arena *arena;
  const PlaceGraph *graph;
  Shardings *kept;         // all shardings that result.computed and result.settled refer to
  const Sharding *whole;   // of these the one of replicated values
  const Request **request; // [node]
  Axes **inner;            // inner[n][i]: axes that split attr.dims[i] of node n
  uint8_t *linear;    // linear[n * MAX_AXES + a]: bits of arguments that n reads partial over a
  Crowd *crowds;      // [PlaceGraph.crowd] of values with many readers; NULL: nothing is counted
  NodeId chosen;      // id of the last node that has shardings
  uint8_t *forced;    // forced[n * MAX_AXES + a]: what axis a must split of node n: a slot
                      // (place_choose.c), nothing, or what place_choose chooses
  NodeId as_gathered; // a value assumed to be gathered over `gathered_axis`, 0: none
  int gathered_axis;
  RegionId repeated_loop; // nodes of this loop that choose are assumed not to be split over
                          // `repeated_axis`, 0: none
  int repeated_axis;
  bool repeats;  // the present move of the local search lets nodes split less than before
  bool settling; // place_settle_carries is running: a carry chooses by its next value too
  bool silent;   // lower makes no reason texts
  bool late;     // of the axes that split one dim, sums are reduced over the last one first; false:
                 // over axes in the order of the mesh (place_reduce.c)
  bool waits;    // the two differ
  const Machine *machine;
} Placer;
// Returns new counts, without readers, for p->crowds.
Crowd *crowds_new(const Placer *p);
// Counts anew what node u asks for. To be called after each change of its shardings.
void crowds_note(Placer *p, NodeId u);
// Returns what is counted of the readers of n; NULL: each has to be asked.
static inline Crowd *crowd_of(const Placer *p, NodeId n) {
  return p->crowds && p->graph->crowd[n] ? &p->crowds[p->graph->crowd[n]] : NULL;
}
// Returns what the reader at this place of the list of reads asks for. It must have shardings.
const Sharding *crowd_ask(const Crowd *c, uint32_t read);
// Returns whether all readers ask for the same. All must have shardings.
bool crowd_agrees(const Crowd *c);
// Returns whether a node other than `but` needs n, whose readers are counted, replicated over the
// axis.
bool crowd_gathers(const Placer *p, NodeId n, int axis, NodeId but);
// Gives n the sharding in which it is computed, and its settled one.
static inline void place_compute(Placer *p, NodeId n, const Sharding *s) {
  p->result.computed[n] = sharding_keep(p->kept, s);
}
static inline void place_settle(Placer *p, NodeId n, const Sharding *s) {
  p->result.settled[n] = sharding_keep(p->kept, s);
}
// Return the index of the dim of n that the axis splits in the computed and in the settled
// sharding, or -1 if it splits none.
static inline int computed_dim(const Placer *p, NodeId n, int axis) {
  return ((const KeptSharding *)p->result.computed[n])->dim[axis];
}
static inline int settled_dim(const Placer *p, NodeId n, int axis) {
  return ((const KeptSharding *)p->result.settled[n])->dim[axis];
}
// Gives n the shardings of a replicated value.
static inline void place_whole(Placer *p, NodeId n) {
  p->result.computed[n] = p->result.settled[n] = p->whole;
}
// The shardings chosen for one node; state_of copies them, and state_set restores them.
typedef struct State {
  const Sharding *computed, *settled;
  Axes *inner; // Placer.inner[n]; the array belongs to the Placer
} State;
static inline State state_of(const Placer *p, NodeId n) {
  return (State){p->result.computed[n], p->result.settled[n], p->inner[n]};
}
static inline void state_set(Placer *p, NodeId n, State s) {
  p->result.computed[n] = s.computed, p->result.settled[n] = s.settled, p->inner[n] = s.inner;
  crowds_note(p, n);
}
// Clears the shardings of n and calls place_choose, which chooses them. Returns whether the new
// shardings differ from the old ones.
bool place_choose_fresh(Placer *p, NodeId n);
static inline const Placer *placer_of(const Placement *p) { return (const Placer *)p; }
// Returns the list of reads of value n: first those by nodes in the order of the graph, then those
// by outputs. An empty Read ends the list. outputs_of returns the part with the outputs.
static inline const Read *reads_of(const Placer *p, NodeId n) {
  return &p->graph->read[p->graph->read_start[n]];
}
const Read *outputs_of(const Placer *p, NodeId n);
// Returns the sharding in which reader r, a node or an output, reads its value.
Sharding need_of(const Placer *p, const Read *r);
// Returns whether a reader that asks for this needs the value replicated over the axis.
static inline bool needs_whole(const Sharding *need, int axis) {
  return !axes_has(need->partial, axis) && sharding_dim_of(need, axis) < 0;
}
// Returns a reader as text: "add at line 45", "the output y", "the update of w".
const char *reader_text(Arena *a, const Graph *g, const Read *r);
// Returns the roles of all dims of argument i of node n.
static inline const DimRole *placed_roles(const Placer *p, NodeId n, int i) {
  const PlaceGraph *x = p->graph;
  return &x->role[x->role_start[x->arg_start[n] + (uint32_t)i]];
}
// Returns the role of dim j of argument i of node n from the table of the graph. The role says what
// becomes of a split of the dim.
static inline DimRole placed_role(const Placer *p, NodeId n, int i, int j) {
  return placed_roles(p, n, i)[j];
}
// Returns the number of dims of argument i of node n.
static inline int placed_rank(const Placer *p, NodeId n, int i) {
  const uint32_t *start = &p->graph->role_start[p->graph->arg_start[n] + (uint32_t)i];
  return (int)(start[1] - start[0]);
}
// Returns whether the axis may split result dim k of n. The node must be able to compute such
// blocks, and the dim must have an element for each processor. No rule may say `dim -> none` for
// the dim.
bool split_possible(const Placer *p, NodeId n, int k, int axis);
// Returns the sharding in which node n reads its argument i, from the node's own sharding
// (place_need.c).
Sharding read_sharding(const Placer *p, NodeId n, int i);
// Returns the interval of the source that a block of window n reads, from the computed sharding of
// n.
Footprint window_footprint(const Placer *p, NodeId n);
// Returns the sharding in which output o reads its value.
Sharding output_sharding(const Placer *p, const Output *o);
// Returns 1 + index of the layout rule because of which some reader of n reads dim k split over
// `axis`; 0: none.
uint16_t place_reader_rule(const Placer *p, NodeId n, int k, int axis);
// Chooses the computed and the settled sharding of node n from the settled shardings of its
// arguments (place_choose.c).
void place_choose(Placer *p, NodeId n);
// Chooses the shardings of n again. Keeps the old shardings if they have all splits of the new ones
// and more splits, which users had asked for.
void place_choose_again(Placer *p, NodeId n);
// Computes n in the sharding in which all users and updates of n read it, if that sharding has more
// splits than the present one.
void place_pull_back(Placer *p, NodeId n);
// Lets every processor compute all of n along the axes that split n and over which some reader
// needs n replicated, where every processor has the arguments or can compute them cheaply: nothing
// is sent then.
void place_repeat(Placer *p, NodeId n);
bool place_can_repeat(const Placer *p, NodeId n); // whether place_repeat changes n
// Chooses where values are gathered and sums are reduced, over all axes, then settles all values.
void place_finish(Placer *p);
// Gives the marks that are set aside the shardings in which their values are kept.
void place_marks(Placer *p);
// Returns whether value n in sharding s is to be marked as one that is kept for the backward pass.
bool place_is_kept(const Placer *p, NodeId n, const Sharding *s);
// Runs the local search over groups of nodes (place_improve.c), then place_finish.
void place_improve(Placer *p);
// Runs after a first choice for all nodes. Chooses again for carries and the nodes that depend on
// them, until nothing changes (place_region.c).
void place_settle_carries(Placer *p);
// Returns the flops that one processor spends on contraction n in all steps of its loop; 0 for
// other nodes.
double place_work(const Placer *p, NodeId n);
// Returns the seconds that one processor spends on n in all steps of its loop (place_seconds.c).
double place_seconds(const Placer *p, NodeId n);
// Returns whether a user of value arg other than node `but` needs arg gathered over the axis, which
// splits dim d of arg (place_share.c).
bool place_is_gathered(const Placer *p, NodeId arg, DimId d, int axis, NodeId but);
// Returns whether n is a window that reads dim d of its argument element by element. A conversion
// of dim d is then made of the source of n instead of the larger result.
bool window_passes_dim(const Node *n, DimId d);
// Gathers values before the pointwise nodes that use them, instead of each result of these nodes
// (place_gather.c). These values are read replicated, and no rule splits them over `axis`.
void place_gathers(Placer *p, int axis);
// Decides which linear nodes compute on partial sums (place_reduce.c).
void place_reductions(Placer *p);

// Returns the node, n or one from which n is computed, whose sum over a dim split by `axis` makes n
// partial. Sets *inner to the index of this dim in the node's attr.dims. Returns 0 if there is
// none.
NodeId partial_sum_begin(const Placer *p, NodeId n, int axis, int *inner);

// -- conversions (convert.c) ---------------------------------------------------------------------
typedef struct ConvertStep {
  Op op;
  int from, to; // index of the dim that is gathered, and of the dim that is split; -1: none
  Axes axes;
  Sharding sharding; // sharding after the step
} ConvertStep;
enum { MAX_STEPS = 32 };
// Finds the conversion from `from` to `to` that sends the fewest weighted bytes (coll_weight), then
// with the fewest calls. Fills step[] and returns the number of steps. Sets *bytes to the weighted
// bytes that one processor sends.
int convert_path(Arena *scratch, const Machine *machine, const Graph *g, const Dims *dims,
                 Dtype type, const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
                 double *bytes);

// -- versions of values (place_versions.c) -------------------------------------------------------
// A value in one sharding.
typedef struct Version {
  const Sharding *s;
  NodeId node; // of the lowered graph
  struct Version *next;
} Version;
// -- place_paths.c
typedef struct PathCache PathCache;
PathCache *paths_new(Arena *a);
// Finds a conversion as convert_path does, or returns the one that it found for an equal value in
// the graph of p. What is remembered is in `a`.
int paths_find(PathCache *known, Arena *a, const Placer *p, const Dims *dims, Dtype type,
               const Sharding *from, const Sharding *to, ConvertStep step[MAX_STEPS],
               double *bytes);

typedef struct Versions Versions;
struct Versions {
  const Placer *p;
  Arena *scratch;
  Version **of;     // [node] list of its versions, newest first; the last is the computed one
  PathCache *paths; // the conversions found so far
  double bytes; // weighted bytes that one processor sends for all versions, in all steps of loops
  bool counts;  // the conversions are only counted; those of windows are made of their sources
  // Makes the node of one step from version `from` of n.
  NodeId (*convert)(Versions *v, NodeId n, const Version *from, const ConvertStep *step,
                    const Read *user);
};
Versions versions_new(Arena *scratch, const Placer *p);
// Adds and returns the version of n in sharding s, which node `node` of the lowered graph computes.
// The first version added for n must be the computed one. *s stays as it is as long as v is used.
const Version *version_add(Versions *v, NodeId n, const Sharding *s, NodeId node);
// Returns the node of value n in the sharding in which `reader` reads n. Makes this node if there
// is none yet.
NodeId version_for(Versions *v, NodeId n, const Read *reader);
// Fills args[] with the arguments of n, each in the sharding in which n reads it.
void versions_read(Versions *v, NodeId n, NodeId args[MAX_ARGS]);

// What one processor sends in a step.
typedef struct Sent {
  double bytes;   // weighted: bytes on slow links count more
  double latency; // seconds that its calls take besides
} Sent;
// Returns what one processor sends for all conversions of a placement, without halos
// (place_sent.c). The number of calls is an estimate: bucketing may join fewer collectives.
Sent place_sent(const Placer *p);

#endif
