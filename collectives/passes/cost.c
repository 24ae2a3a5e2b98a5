// Computes what collectives send, in bytes, and how long they take, by latency and bandwidth.
//
// Rings: Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in
// MPICH", 2005. Levels of axes of unequal speed: Thakur and Gropp, "Improving the Performance of
// Collective Operations in MPICH", 2003, and the hierarchical rings of NCCL and Horovod.
#include <string.h>

#include "collectives/collectives.h"

bool coll_of(Op op, CollKind *out) {
  static const struct {
    Op op;
    CollKind kind;
  } row[] = {
      {OP_ALL_REDUCE, COLL_ALL_REDUCE},
      {OP_ALL_GATHER, COLL_ALL_GATHER},
      {OP_REDUCE_SCATTER, COLL_REDUCE_SCATTER},
      {OP_ALL_TO_ALL, COLL_ALL_TO_ALL},
      {OP_PERMUTE, COLL_PERMUTE},
      {OP_HALO, COLL_PERMUTE},
  };
  for (size_t i = 0; i < countof(row); i++)
    if (row[i].op == op) {
      *out = row[i].kind;
      return true;
    }
  return false;
}

// -- bytes of permute and halo ------------------------------------------------------------------
//
// No axis splits two dims. So the number of elements that a processor sends to all others is a
// product over the dims: the factor of a dim is the number of elements received along that dim.

static void axes_join(Axes *s, Axes more) {
  for (int i = 0; i < more.n; i++)
    if (!axes_has(*s, more.at[i])) s->at[s->n++] = more.at[i];
}

// Returns the mesh axes that split any dim of the operand of collective n.
static Axes source_axes(const Graph *g, const Node *n) {
  Axes all = {0};
  for (int i = 0; i < n->attr.ndims; i++) axes_join(&all, dim_get(g->dims, n->attr.dims[i])->axes);
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
  Axes want = dim_get(g->dims, n->attr.to[i])->axes, split = source_axes(g, n), out = {0};
  for (int k = 0; k < want.n; k++)
    if (axes_has(n->attr.axes, want.at[k]) && axes_has(split, want.at[k]))
      out.at[out.n++] = want.at[k];
  return out;
}

static Along along_dim(Arena *a, const Graph *g, const Node *n, int i) {
  Axes served = served_axes(g, n, i), have = dim_get(g->dims, n->attr.dims[i])->axes,
       want = dim_get(g->dims, n->attr.to[i])->axes;
  const BlockInterval *source_blocks = intervals(a, g, n->attr.dims[i]),
                      *read = intervals(a, g, n->attr.to[i]);
  Along out = {.axes = have};
  axes_join(&out.axes, want);
  int64_t size = axes_size(g->mesh, out.axes), others = axes_size(g->mesh, served);
  bool all = served.n == want.n; // if true, k below is a rank over `want`
  out.taken = arena_array(a, int64_t, size);
  out.own = arena_array(a, int64_t, size);
  for (int64_t r = 0; r < size; r++) {
    int64_t from = axes_peer(g->mesh, out.axes, 0, r);
    BlockInterval mine = source_blocks[axes_rank(g->mesh, have, from)];
    for (int64_t k = 0; k < others; k++)
      out.taken[r] += overlap(
          mine, read[all ? k : axes_rank(g->mesh, want, axes_peer(g->mesh, served, from, k))]);
    out.own[r] = overlap(mine, read[axes_rank(g->mesh, want, from)]);
  }
  return out;
}

// Adds to sent[k] the bytes that processor k of a group (processors that exchange blocks) sends to
// all others for permute or halo `id`. A dim that the node does not move (that is not in attr.to)
// counts with all its elements.
static void add_sent(Arena *a, const Graph *g, NodeId id, int64_t *sent) {
  const Node *n = graph_node(g, id);
  Axes split = source_axes(g, n), seen = {0};
  int64_t rest = node_bytes(g, id), replicas = 1;
  Along along[MAX_RANK];
  for (int i = 0; i < n->attr.nto; i++) {
    rest /= dim_get(g->dims, n->attr.to[i])->size;
    along[i] = along_dim(a, g, n, i);
    axes_join(&seen, served_axes(g, n, i));
  }
  for (int k = 0; k < n->attr.axes.n; k++)
    if (axes_has(split, n->attr.axes.at[k]) && !axes_has(seen, n->attr.axes.at[k]))
      replicas *= g->mesh->axis[n->attr.axes.at[k]].size;
  for (int64_t k = 0; k < axes_size(g->mesh, n->attr.axes); k++) {
    int64_t from = axes_peer(g->mesh, n->attr.axes, 0, k), all = rest * replicas, own = rest;
    for (int i = 0; i < n->attr.nto; i++) {
      int64_t r = axes_rank(g->mesh, along[i].axes, from);
      all *= along[i].taken[r];
      own *= along[i].own[r];
    }
    sent[k] += all - own;
  }
}

// Returns the bytes that one processor sends for the n permutes or halos `node`, as the maximum
// over all processors.
static int64_t moved_bytes(const Graph *g, const NodeId *node, uint32_t n) {
  Arena *scratch = arena_new();
  int64_t group = axes_size(g->mesh, graph_node(g, node[0])->attr.axes), most = 0;
  int64_t *sent = arena_array(scratch, int64_t, group);
  for (uint32_t i = 0; i < n; i++) add_sent(scratch, g, node[i], sent);
  for (int64_t k = 0; k < group; k++)
    if (sent[k] > most) most = sent[k];
  arena_free(scratch);
  return most;
}

int64_t coll_call_bytes(const Graph *g, const NodeId *node, uint32_t n) {
  Op op = (Op)graph_node(g, node[0])->op;
  if (op == OP_HALO || op == OP_PERMUTE) return moved_bytes(g, node, n);
  int64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++)
    bytes += node_bytes(g, op == OP_ALL_GATHER ? node[i] : graph_node(g, node[i])->args[0]);
  return bytes;
}

// -- seconds ------------------------------------------------------------------------------------

// The axes of a call that have one latency and bandwidth. `group` is the product of their sizes.
typedef struct Level {
  Link link;
  int64_t group;
} Level;

// Writes the levels of `axes` to `out`, the one with the most bandwidth first, and returns their
// number. A level is the axes of equal latency and bandwidth.
static int levels_of(const Machine *machine, const Mesh *mesh, Axes axes, Level out[MAX_AXES]) {
  int n = 0;
  for (int i = 0; i < axes.n; i++) {
    const MeshAxis *axis = &mesh->axis[axes.at[i]];
    Link link = machine_link(machine, axis->name);
    int at = 0;
    if (axis->size <= 1) continue;
    while (at < n && out[at].link.bandwidth > link.bandwidth) at++;
    while (at < n && out[at].link.bandwidth == link.bandwidth &&
           out[at].link.latency != link.latency)
      at++;
    if (at < n && out[at].link.bandwidth == link.bandwidth) {
      out[at].group *= axis->size;
      continue;
    }
    memmove(&out[at + 1], &out[at], sizeof *out * (size_t)(n - at));
    out[at] = (Level){link, axis->size};
    n++;
  }
  return n;
}

// In shared memory a collective is one exchange, so its latency counts once. Otherwise it runs as a
// ring of coll_rounds exchanges with the neighbours, and the latency counts once for each.
double coll_latency(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes) {
  Level level[MAX_AXES];
  int n = levels_of(machine, mesh, axes, level);
  double seconds = 0;
  for (int i = 0; i < n; i++)
    seconds += level[i].link.latency * (machine->shared > 0 ? 1 : coll_rounds(k));
  return seconds;
}

// All bytes of a permute may cross the slowest axis, so they all count at its rate. In other kinds,
// each level (the axes of equal speed) hands 1/n of its bytes to the next slower level. n is the
// product of the sizes of these axes.
double coll_weight(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes, int64_t bytes) {
  Level level[MAX_AXES];
  int n = levels_of(machine, mesh, axes, level);
  if (n == 0) return 0;
  if (n == 1 || k == COLL_PERMUTE)
    return (double)coll_wire_bytes(k, level[n - 1].group, bytes) *
           (machine->bandwidth / level[n - 1].link.bandwidth);
  double weight = 0, rest = (double)bytes;
  for (int i = 0; i < n; i++) {
    const Level *l = &level[k == COLL_ALL_TO_ALL ? n - 1 - i : i];
    double group = (double)l->group;
    weight +=
        coll_rounds(k) * rest * (group - 1) / group * (machine->bandwidth / l->link.bandwidth);
    rest /= group;
  }
  return weight;
}

double coll_seconds(const Machine *machine, const Mesh *mesh, CollKind k, Axes axes,
                    int64_t bytes) {
  return coll_latency(machine, mesh, k, axes) +
         coll_weight(machine, mesh, k, axes, bytes) / machine->bandwidth;
}
