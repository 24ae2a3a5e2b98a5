// Private: a decoding form under construction (decode.c).
#ifndef FRONTEND_DECODE_BUILD_H
#define FRONTEND_DECODE_BUILD_H

#include "frontend/step/decode_internal.h"

// A form in which a node is needed: full, past, or of time dim k (form_of).
typedef int Form;
enum { FORM_FULL, FORM_PAST, FORM_FIRST };
static inline Form form_of(int time, bool last) { return FORM_FIRST + 2 * time + last; }
static inline int form_time(Form f) { return f < FORM_FIRST ? -1 : (f - FORM_FIRST) / 2; }
static inline bool form_is_last(Form f) { return f >= FORM_FIRST && (f - FORM_FIRST) % 2; }

// How a node is computed in a form.
typedef enum Way {
  WAY_NONE,    // it cannot be
  WAY_COPY,    // the same operation over other dims
  WAY_SLICE,   // a part of its full form
  WAY_PART,    // form last(t): a part of chunk(t)
  WAY_IDS,     // the input
  WAY_INDEX,   // the index of time, from the position of the run on
  WAY_RENAME,  // a rename, merge or split whose new dim is the time dim of the form
  WAY_WINDOW,  // a window that begins at the position of the run
  WAY_KEEP,    // a state with a row for each position
  WAY_RUNNING, // a running sum, product or maximum along time, with a state
  WAY_LOOP,    // part of a loop over time, whose carries are states
} Way;

// The parts of the past of a value in a run of one position: it is `row` at that position of dim
// `over`, and `state` at the others. state = 0: there are none.
typedef struct PastParts {
  NodeId row, state;
  DimId over;
} PastParts;

typedef struct Decode {
  Arena *a;
  const Graph *from;
  Graph *g; // the new graph
  Diag *diag;
  Causal c;
  int64_t positions;
  bool partly;              // not all positions of a run need be valid
  DimId many, one;          // the dims of the positions of a run, and of its last valid position
  DimId past[MOST_TIMES];   // by time dim
  DimId run[MOST_TIMES][2]; // by time dim: `many` and `one`, or those of a merged dim
  NodeId ids, start, count;
  int nforms;
  // by node and form (node * nforms + form): it is needed; its node in g
  bool *want;
  NodeId *got;
  RegionId *region;     // by region and form: its copy in g
  VEC(PastParts) parts; // by node of g
  bool bounded;
  uint32_t nstates;
  VEC(DecodeKept) kept;
} Decode;

// decode_want.c
// Returns how node id is computed in form f.
Way decode_way(const Decode *d, NodeId id, Form f);
// Returns the form in which node id in form f, if it is copied, needs argument k.
Form decode_argument(const Decode *d, NodeId id, int k, Form f);
// Marks in d->want all forms that node `output` in form f needs. Returns false after an error: a
// value has no such form.
MUST_USE bool decode_want(Decode *d, NodeId output, Form f);

// decode.c
// Returns the dim of g that dim `dim` becomes in form f.
DimId decode_dim(const Decode *d, Form f, DimId dim);
// Returns the node of g that is node id in form f.
NodeId decode_got(const Decode *d, NodeId id, Form f);
RegionId decode_region(Decode *d, RegionId r, Form f);

// decode_narrow.c
// Gives parameters of d->g, before its nodes are made, the narrow type in which products read them.
void decode_narrow(Decode *d);
// Returns whether node id looks up a parameter, whose type decode_narrow may have changed.
bool decode_is_lookup(const Decode *d, NodeId id);

// decode_split.c
// Records the parts of a node of d->g.
void decode_note_past(Decode *d, NodeId node, PastParts parts);
// Returns what replaces node `made` of d->g, which is operation n on these arguments: a sum of a
// product with a past is split into its parts.
NodeId decode_split(Decode *d, const Node *n, const NodeId *args, const Attr *attr, NodeId made);

// decode_state.c: values that are kept from run to run
// Returns the position of the first element of form f's time dim: i32 scalar.
NodeId decode_start(Decode *d, Form f);
// Returns the number of valid positions of a run, less 1: i32 scalar.
NodeId decode_last(Decode *d);
NodeId decode_keep(Decode *d, NodeId id, Form f);
// Returns a node, bool over `dim`: the positions of this run.
NodeId decode_is_new(Decode *d, DimId dim);
NodeId decode_running(Decode *d, NodeId id, Form f);
// A running operation along time, the reduction of the positions of a run, and what joins its
// result with that of earlier positions, of which `neutral` is the one of none; -inf: the least
// number.
typedef struct RunningRule {
  Op running, reduce, join;
  double neutral;
} RunningRule;
// Returns the rule of an operation, or NULL.
const RunningRule *decode_running_rule(Op op);
NodeId decode_loop(Decode *d, NodeId id, Form f);

// decode_growing.c
// Returns the name of the dim of positions of all states that keep them, if a run of graph g, of
// one position, may compute only the positions so far; else NULL.
const char *decode_growing(Arena *a, const Graph *g, uint32_t nkept, const DecodeKept *kept);

// Builds the decoding form of `from`, whose only output is node `logits`. Arguments and result as
// for select_decode.
Graph *decode_graph(Arena *a, const Graph *from, NodeId logits, const LanguageModel *lm,
                    const DecodeAsk *ask, Diag *diag, DecodeFacts *out);

#endif
