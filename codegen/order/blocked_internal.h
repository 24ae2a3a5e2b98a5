// What the files of blocked attention share: blocked_find.c recognises it, blocked.c writes its
// loops. Private to the room.
//
// A score is a value that has the dim of the rows (the queries) and all dims of the keys. A row
// value is what a reduction over the keys makes of scores, such as the maximum of a softmax, if
// scores are computed from it again. An exit is a value that is computed from scores and lacks the
// dim of the rows or the dims of the keys. A side value is a score that depends on no contraction,
// such as a mask: every loop computes the side values that it reads.
#ifndef CODEGEN_BLOCKED_H
#define CODEGEN_BLOCKED_H

#include "codegen/values/values_internal.h"

typedef enum BlockRole { BLOCK_NONE, BLOCK_SIDE, BLOCK_SCORE, BLOCK_ROW, BLOCK_EXIT } BlockRole;

// An attention, or the part of one that a single loop over blocks of rows computes. The forward and
// the backward pass are two loops, because the backward pass needs the result of the forward pass.
typedef struct BlockedLoop {
  const uint8_t *role;   // by node: its BlockRole in attentions over `rows` and `keys`
  const uint32_t *level; // by node: how many loops a path to the node passes at most
  uint32_t at;           // level of the nodes of this loop
  DimId rows;
  Dims keys;
  DimList batch; // dims that a loop around it runs over, slowest first; none: there is no such loop
  int64_t block; // rows of a block, a divisor of the size of `rows`
  // By block: the keys that it needs, the first ones. A mask discards the others. NULL: all keys.
  const int64_t *live;
  RegionId around; // the loop of the model that contains it, 0: none
  NodeId first;    // the first of its nodes: the loop has its origin
} BlockedLoop;

typedef struct BlockedPlan {
  VEC(BlockedLoop) loop;
  uint32_t *of;     // by node: 1 + the index of the loop that computes it, 0: none
  bool *read;       // by node: it belongs to a loop, and nodes outside the loop read its value
  const char **why; // by node: why an attention with this contraction is not blocked, or NULL
} BlockedPlan;

// Finds the attentions of g that are to be computed block by block. The result is allocated in `a`.
BlockedPlan *blocked_find(Arena *a, const Graph *g, const CodegenOptions *opt);
// Returns whether loop number `l` of the plan computes node n itself, as it needs the value. It
// does not if the value comes from outside the loop.
bool blocked_computes(const BlockedPlan *p, uint32_t l, NodeId n);

// The maximum and the sum of a softmax that the kernel of a contraction computes in its own sweep
// over the keys (attention_sweep.c).
typedef struct Sweep {
  NodeId max, sum;
} Sweep;

// Which values of a graph for a GPU are recomputed in each kernel that reads them: the scores of
// attentions, with the masks and random numbers from which they are computed.
typedef struct RecomputedScores {
  bool *recomputed; // by node
  const char **why; // by node: why the scores that this contraction makes are stored, or NULL
  // By recomputed node: the dims over which contractions sum to compute it, at most SCORES_DOTS;
  // NULL: it needs no contraction.
  const Dims **dots;
  // By contraction of recomputed scores with values: what its kernel can compute in the same sweep;
  // NULL: nothing.
  const Sweep **sweep;
} RecomputedScores;
enum { SCORES_DOTS = 4 };
// Finds them. The result is allocated in `a`. Defined in attention.c.
RecomputedScores attention_recomputed(Arena *a, const Graph *g, const CodegenOptions *opt);
// Returns the bytes of the scores of the smallest attention whose scores are recomputed. Defined in
// attention.c.
int64_t attention_least_bytes(const CodegenOptions *opt);

// Sets *out and returns true if contraction n, whose rows are `rows`, sums values of the keys that
// are weighted by a softmax. The arena is for scratch. Defined in attention_sweep.c.
bool attention_sweep(Arena *a, const Graph *g, const RecomputedScores *scores, NodeId n, DimId rows,
                     Sweep *out);

// Defined in attention_sums.c.
// Returns the value that n converts from another type of float, or n itself.
NodeId attention_without_casts(const Graph *g, NodeId n);
bool attention_is_zero(const Graph *g, NodeId n); // whether n is the constant 0

#endif
