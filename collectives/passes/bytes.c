// Computes the bytes that collectives send.
//
// Permutes and halos: no axis splits two dims. So the number of elements that a processor sends to
// all others is a product over the dims: the factor of a dim is the number of elements received
// along that dim.
#include <stdlib.h>
#include <string.h>

#include "collectives/collectives.h"

static void axes_join(Axes *s, Axes more) {
  for (int i = 0; i < more.n; i++)
    if (!axes_has(*s, more.at[i])) s->at[s->n++] = more.at[i];
}

// Returns the mesh axes that split any dim of the operand of collective n.
static Axes source_axes(const Graph *g, const Node *n) {
  Axes all = {0};
  for (int i = 0; i < n->attr->ndims; i++)
    axes_join(&all, dim_get(g->dims, n->attr->dims[i])->axes);
  return all;
}

typedef struct BlockInterval {
  int64_t first, n;
} BlockInterval;

// Returns the intervals of indices that the processors have of dim d, which is split into blocks or
// footprints (blocks with neighbouring elements). Entry k is the interval of the processors of rank
// k over the axes of d. The rank is the number that the coordinates of a processor on these axes
// form.
static BlockInterval *intervals(Arena *a, const Graph *g, DimId d) {
  Axes axes = dim_get(g->dims, d)->axes;
  int64_t size = axes_size(g->mesh, axes),
          whole = dim_get(g->dims, dim_get(g->dims, d)->whole)->size;
  BlockInterval *out = arena_array(a, BlockInterval, size);
  for (int64_t k = 0; k < size; k++) {
    int64_t r = axes_peer(g->mesh, axes, 0, k);
    out[k] = (BlockInterval){dim_offset(g->dims, g->mesh, d, r),
                             dim_valid(g->dims, g->mesh, d, r, whole)};
  }
  return out;
}

static int64_t overlap(BlockInterval x, BlockInterval y) {
  int64_t xe = x.first + x.n, ye = y.first + y.n;
  int64_t lo = x.first > y.first ? x.first : y.first, hi = xe < ye ? xe : ye;
  return hi > lo ? hi - lo : 0;
}

// How many elements a processor sends along one dim of a permute or halo.
typedef struct Along {
  Axes axes; // the axes that split the dim before or after the permute
  // by rank of the processor over `axes`: how many elements of its block the receivers get, added
  // up over the receivers; and how many of them it gets itself
  int64_t *taken, *own;
} Along;

// Returns those axes of dim i of the result along which a processor sends: the receivers of its
// block have different coordinates on these axes. An axis that does not split the operand is not
// among them. Processors with other coordinates on such an axis receive from another copy of the
// block.
static Axes served_axes(const Graph *g, const Node *n, int i) {
  Axes want = dim_get(g->dims, n->attr->to[i])->axes, split = source_axes(g, n), out = {0};
  for (int k = 0; k < want.n; k++)
    if (axes_has(n->attr->axes, want.at[k]) && axes_has(split, want.at[k]))
      out.at[out.n++] = want.at[k];
  return out;
}

// The intervals that a group of receivers read, as a function of an index x: the sum over the
// intervals of the number of their elements below x. That is the sum of max(0, x - first) less that
// of max(0, x - end). Entry i of a sum is that of the i lowest values.
typedef struct Readers {
  int64_t n, *first, *first_sum, *end, *end_sum;
} Readers;

static int by_value(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

// Sorts the n values and returns their sums.
static int64_t *sort_and_sum(Arena *a, int64_t n, int64_t *value) {
  int64_t *sum = arena_array(a, int64_t, n + 1);
  qsort(value, (size_t)n, sizeof *value, by_value);
  for (int64_t i = 0; i < n; i++) sum[i + 1] = sum[i] + value[i];
  return sum;
}

// Returns the Readers of the intervals read[receiver[0..n)].
static Readers *readers_new(Arena *a, const BlockInterval *read, const int64_t *receiver,
                            int64_t n) {
  Readers *out = arena_new_of(a, Readers);
  *out = (Readers){
      .n = n, .first = arena_array(a, int64_t, n + 1), .end = arena_array(a, int64_t, n + 1)};
  for (int64_t k = 0; k < n; k++) {
    out->first[k] = read[receiver[k]].first;
    out->end[k] = out->first[k] + read[receiver[k]].n;
  }
  out->first_sum = sort_and_sum(a, n, out->first);
  out->end_sum = sort_and_sum(a, n, out->end);
  return out;
}

// Returns the sum over the n sorted values of max(0, x - value).
static int64_t sum_below(int64_t n, const int64_t *value, const int64_t *sum, int64_t x) {
  int64_t lo = 0, hi = n; // the number of values below x is lo to hi
  while (lo < hi) {
    int64_t mid = lo + (hi - lo) / 2;
    if (value[mid] < x)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo * x - sum[lo];
}

static int64_t elements_below(const Readers *r, int64_t x) {
  return sum_below(r->n, r->first, r->first_sum, x) - sum_below(r->n, r->end, r->end_sum, x);
}

// Returns by rank over the axes `of`, for the processors whose other coordinates are 0, their ranks
// over the axes `in`. Ranks add up: the rank over `in` of a processor is that of the processor with
// coordinates 0 on the axes `of`, plus this.
static int64_t *ranks_in(Arena *a, const Mesh *mesh, Axes in, Axes of) {
  int64_t size = axes_size(mesh, of), *out = arena_array(a, int64_t, size);
  for (int64_t k = 0; k < size; k++) out[k] = axes_rank(mesh, in, axes_peer(mesh, of, 0, k));
  return out;
}

static Along along_dim(Arena *a, const Graph *g, const Node *n, int i) {
  Axes served = served_axes(g, n, i), have = dim_get(g->dims, n->attr->dims[i])->axes,
       want = dim_get(g->dims, n->attr->to[i])->axes;
  const BlockInterval *source_blocks = intervals(a, g, n->attr->dims[i]),
                      *read = intervals(a, g, n->attr->to[i]);
  Along out = {.axes = have};
  axes_join(&out.axes, want);
  int64_t size = axes_size(g->mesh, out.axes), others = axes_size(g->mesh, served);
  const int64_t *receiver = ranks_in(a, g->mesh, want, served);
  // by the rank of a receiver whose coordinates on the served axes are 0
  Readers **readers = arena_array(a, Readers *, axes_size(g->mesh, want));
  out.taken = arena_array(a, int64_t, size);
  out.own = arena_array(a, int64_t, size);
  for (int64_t r = 0; r < size; r++) {
    int64_t from = axes_peer(g->mesh, out.axes, 0, r);
    BlockInterval mine = source_blocks[axes_rank(g->mesh, have, from)];
    int64_t group = axes_rank(g->mesh, want, axes_peer(g->mesh, served, from, 0));
    if (!readers[group]) readers[group] = readers_new(a, &read[group], receiver, others);
    out.taken[r] = elements_below(readers[group], mine.first + mine.n) -
                   elements_below(readers[group], mine.first);
    out.own[r] = overlap(mine, read[axes_rank(g->mesh, want, from)]);
  }
  return out;
}

// -- calls -------------------------------------------------------------------------------------

// What the processors of a group (processors that exchange blocks) send to all others in permutes
// and halos with equal dims and axes, for each element of the dims that these do not move.
typedef struct Moved {
  const Attr *attr; // of the first of them
  int64_t *sent;    // [rank in the group]
} Moved;

struct CollSizes {
  Arena *a;
  const Graph *g;
  VEC(Moved) moved;
};

CollSizes *coll_sizes_new(Arena *a, const Graph *g) {
  CollSizes *s = arena_new_of(a, CollSizes);
  *s = (CollSizes){.a = a, .g = g};
  return s;
}

static bool moves_alike(const Attr *x, const Attr *y) {
  return x->ndims == y->ndims && x->nto == y->nto && axes_equal(x->axes, y->axes) &&
         memcmp(x->dims, y->dims, x->ndims * sizeof *x->dims) == 0 &&
         memcmp(x->to, y->to, x->nto * sizeof *x->to) == 0;
}

// Fills sent[] (Moved) of permute or halo n.
static void fill_sent(Arena *scratch, const Graph *g, const Node *n, int64_t *sent) {
  Axes split = source_axes(g, n), seen = {0};
  int64_t replicas = 1;
  Along along[MAX_RANK];
  for (int i = 0; i < n->attr->nto; i++) {
    along[i] = along_dim(scratch, g, n, i);
    axes_join(&seen, served_axes(g, n, i));
  }
  for (int k = 0; k < n->attr->axes.n; k++)
    if (axes_has(split, n->attr->axes.at[k]) && !axes_has(seen, n->attr->axes.at[k]))
      replicas *= g->mesh->axis[n->attr->axes.at[k]].size;
  for (int64_t k = 0; k < axes_size(g->mesh, n->attr->axes); k++) {
    int64_t from = axes_peer(g->mesh, n->attr->axes, 0, k), all = replicas, own = 1;
    for (int i = 0; i < n->attr->nto; i++) {
      int64_t r = axes_rank(g->mesh, along[i].axes, from);
      all *= along[i].taken[r];
      own *= along[i].own[r];
    }
    sent[k] = all - own;
  }
}

// Returns Moved.sent of permute or halo n, computed once for all nodes that move alike.
static const int64_t *sent_of(CollSizes *s, const Node *n) {
  for (uint32_t i = 0; i < s->moved.n; i++)
    if (moves_alike(s->moved.at[i].attr, n->attr)) return s->moved.at[i].sent;
  Arena *scratch = arena_new();
  Moved new = {n->attr, arena_array(s->a, int64_t, axes_size(s->g->mesh, n->attr->axes))};
  fill_sent(scratch, s->g, n, new.sent);
  arena_free(scratch);
  vec_push(s->a, s->moved) = new;
  return new.sent;
}

// Returns the bytes of permute or halo `id` for each element of the dims that it moves. A dim that
// the node does not move (that is not in attr.to) counts with all its elements.
static int64_t rest_bytes(const Graph *g, NodeId id) {
  const Node *n = graph_node(g, id);
  int64_t rest = node_bytes(g, id);
  for (int i = 0; i < n->attr->nto; i++) rest /= dim_get(g->dims, n->attr->to[i])->size;
  return rest;
}

// Returns the bytes that one processor sends for the n permutes or halos `node`, as the maximum
// over all processors.
static int64_t moved_bytes(CollSizes *s, const NodeId *node, uint32_t n) {
  Arena *scratch = arena_new();
  int64_t group = axes_size(s->g->mesh, graph_node(s->g, node[0])->attr->axes), most = 0;
  int64_t *sent = arena_array(scratch, int64_t, group);
  for (uint32_t i = 0; i < n; i++) {
    const int64_t *each = sent_of(s, graph_node(s->g, node[i])), rest = rest_bytes(s->g, node[i]);
    for (int64_t k = 0; k < group; k++) sent[k] += rest * each[k];
  }
  for (int64_t k = 0; k < group; k++)
    if (sent[k] > most) most = sent[k];
  arena_free(scratch);
  return most;
}

int64_t coll_call_bytes(CollSizes *s, const NodeId *node, uint32_t n) {
  const Graph *g = s->g;
  Op op = (Op)graph_node(g, node[0])->op;
  if (op == OP_HALO || op == OP_PERMUTE) return moved_bytes(s, node, n);
  int64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += node_bytes(g, op == OP_ALL_GATHER ? node[i] : graph_node(g, node[i])->args[0]);
  return bytes;
}
