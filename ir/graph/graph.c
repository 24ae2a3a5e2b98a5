// Builds graphs: infers type and dims of each added node, and returns the existing node if an equal
// one is in the graph. Also removes nodes that no output needs (graph_prune).
//
//   graph_binary(g, OP_ADD, %1, %2) and graph_binary(g, OP_ADD, %2, %1) return the same node.
#include "ir/graph/graph.h"

#include "ir/base/dim_list.h"
#include "ir/base/hash.h"
#include "ir/base/map.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/graph/infer_internal.h"
#include "ir/graph/keep_internal.h"

// A hash index that finds a declaration or name by its text. Each search first enters the names
// that were added since the previous search, because some callers append to Graph.decl and
// Graph.name directly.
typedef struct TextIndex {
  NameMap map;   // from interned text to 1 + the index in Graph.decl or Graph.name
  uint32_t seen; // number of entries of Graph.decl or Graph.name that are in `map`
} TextIndex;
// An entry of the hash table of nodes. It keeps the hash beside the id, so that most unequal nodes
// are never compared.
typedef struct NodeSlot {
  uint32_t hash;
  NodeId id; // 0: the slot is free
} NodeSlot;
enum { SLOTS_A_NODE = 2, LINE_SLOTS = 64 / sizeof(NodeSlot) };
struct GraphTable {
  NodeSlot *slot;
  uint32_t cap;
  uint32_t expected; // about how many nodes the graph will have
  bool stale; // ids in the table may be wrong, or it is full: the next search fills a new table
  TextIndex decls, names;
  Arena *texts; // memory of these two
  Kept kept;
};

// Returns an empty graph with room for about `nodes` nodes.
static Graph *graph_sized(Arena *a, DimTable *dims, const Mesh *mesh, Stage stage, uint32_t nodes) {
  Graph *g = arena_new_of(a, Graph);
  g->arena = a;
  g->dims = dims;
  g->mesh = mesh;
  g->stage = stage;
  g->table = arena_new_of(a, struct GraphTable);
  g->table->stale = true;
  g->table->expected = nodes;
  g->table->texts = a;
  g->node.cap = nodes + 16;
  g->node.at = arena_alloc_raw(a, g->node.cap * sizeof *g->node.at);
  vec_push(a, g->node) = node_none;
  return g;
}

Graph *graph_new(Arena *a, DimTable *dims, const Mesh *mesh, Stage stage) {
  return graph_sized(a, dims, mesh, stage, 64);
}

Graph *graph_like(Arena *a, const Graph *from, Stage stage) {
  uint32_t n = graph_count(from);
  // n / 4: room for the few nodes that a pass adds.
  Graph *g = graph_sized(a, from->dims, from->mesh, stage, n + n / 4);
  g->model = from->model;
  g->layout = from->layout;
  g->spec = from->spec;
  for (uint32_t i = 0; i < from->decl.n; i++) {
    Decl d = from->decl.at[i];
    d.node = 0;
    vec_push(a, g->decl) = d;
  }
  for (uint32_t i = 0; i < from->region.n; i++) vec_push(a, g->region) = from->region.at[i];
  return g;
}

Graph graph_with_dims(Arena *a, const Graph *g, DimTable *dims) {
  Graph out = *g;
  out.dims = dims;
  out.table = arena_new_of(a, struct GraphTable);
  out.table->stale = true;
  out.table->texts = a;
  return out;
}

void graph_reserve(Graph *g, uint32_t nodes) {
  if (nodes < g->node.cap) return;
  Node *at = arena_alloc_raw(g->arena, ((size_t)nodes + 1) * sizeof *at);
  memcpy(at, g->node.at, g->node.n * sizeof *at);
  g->node.at = at;
  g->node.cap = nodes + 1;
}

// -- equality -----------------------------------------------------------------------------------

static bool same_bytes(const void *a, const void *b, size_t n) {
  return n == 0 || memcmp(a, b, n) == 0;
}

static uint32_t node_hash(const Node *n) {
  uint64_t h = hash_word(hash_word(FNV_START, n->op | (uint64_t)n->attr_hash << 32), n->instance);
  for (int i = 0; i < n->nargs; i++) h = hash_word(h, n->args[i]);
  return (uint32_t)(h ^ h >> 32);
}

static bool node_equal(const Node *a, const Node *b) {
  return a->op == b->op && a->attr_hash == b->attr_hash && a->instance == b->instance &&
         a->nargs == b->nargs && same_bytes(a->args, b->args, a->nargs * sizeof *a->args) &&
         attr_equal(a->attr, b->attr);
}

// Returns whether slot s is free or has a node that equals *n.
static bool slot_fits(const Graph *g, const NodeSlot *s, const Node *n, uint32_t hash) {
  return !s->id || (s->hash == hash && node_equal(graph_node(g, s->id), n));
}

// Returns the slot of the node that equals *n, or the free slot for *n. Passes add a node soon
// after its arguments. So it is in a line of the cache for its newest argument, which is likely to
// be at hand, and only if that line is full at a place of its hash. No node ever leaves the table.
static NodeSlot *find_slot(const Graph *g, const Node *n, uint32_t hash) {
  const struct GraphTable *t = g->table;
  uint32_t last = t->cap - 1, newest = 0, line, at;
  for (int i = 0; i < n->nargs; i++)
    if (n->args[i] > newest) newest = n->args[i];
  line = SLOTS_A_NODE * newest & last & ~(uint32_t)(LINE_SLOTS - 1);
  for (at = line; newest && at < line + LINE_SLOTS; at++)
    if (slot_fits(g, &t->slot[at], n, hash)) return &t->slot[at];
  for (at = hash & last; !slot_fits(g, &t->slot[at], n, hash);) at = (at + 1) & last;
  return &t->slot[at];
}

// Makes a new hash table of nodes and enters all nodes. It has SLOTS_A_NODE slots for each node
// that the graph is expected to have.
static void refill_table(Graph *g) {
  struct GraphTable *t = g->table;
  arena_release(g->arena, t->slot);
  if (t->expected < graph_count(g)) t->expected = 2 * graph_count(g);
  t->cap = 256;
  while (t->cap / SLOTS_A_NODE < t->expected + 16) t->cap *= 2;
  t->slot = arena_array(g->arena, NodeSlot, t->cap);
  t->stale = false;
  for (NodeId n = 1; n <= graph_count(g); n++) {
    uint32_t hash = node_hash(graph_node(g, n));
    NodeSlot *slot = find_slot(g, graph_node(g, n), hash);
    if (!slot->id) *slot = (NodeSlot){hash, n};
  }
}

// Gives back the hash table of a graph that is complete. If a node is added later, the table is
// made again.
static void drop_table(Graph *g) {
  arena_release(g->arena, g->table->slot);
  g->table->slot = NULL;
  g->table->cap = 0;
  g->table->stale = true;
}

void graph_release(const Graph *g) {
  Graph *gone = (Graph *)(uintptr_t)g;
  drop_table(gone);
  arena_release(gone->arena, gone->node.at);
  gone->node.at = NULL;
  gone->node.n = gone->node.cap = 0;
}

// -- adding -------------------------------------------------------------------------------------

// Returns attributes whose bytes are equal for equal nodes, so that bytes can be hashed and
// compared: a type that the operation does not read is f32, and all NaNs have the same bits.
static Attr canonical(Op op, const Attr *attr) {
  Attr t = attr ? *attr : (Attr){0};
  if (!(op_row(op)->attrs & ATTR_TYPE)) t.type = TYPE_F32;
  for (int i = 0; i < 2; i++)
    if (isnan(t.num[i])) t.num[i] = (double)NAN;
  return t;
}

static bool dim_before(const DimTable *t, DimId a, DimId b) {
  DimId wa = dim_get(t, a)->whole, wb = dim_get(t, b)->whole;
  return wa != wb ? wa < wb : a < b;
}

// Sorts t->dims where their order has no meaning (SET and PAIRS in column `attrs` of ops.def). With
// PAIRS the entries of t->to are moved together with those of t->dims.
// `dims` and `to` are memory for the sorted lists.
static void sort_dims(const Graph *g, Op op, Attr *t, DimId *dims, DimId *to) {
  unsigned attrs = op_row(op)->attrs;
  if (!(attrs & (ATTR_SET | ATTR_PAIRS)) || t->ndims < 2) return;
  bool pairs = attrs & ATTR_PAIRS && t->nto == t->ndims;
  for (int i = 0; i < t->ndims; i++) dims[i] = t->dims[i];
  for (int i = 0; pairs && i < t->nto; i++) to[i] = t->to[i];
  for (int i = 1; i < t->ndims; i++) {
    for (int j = i; j > 0 && dim_before(g->dims, dims[j], dims[j - 1]); j--) {
      DimId d = dims[j], e = to[j];
      dims[j] = dims[j - 1], dims[j - 1] = d;
      to[j] = to[j - 1], to[j - 1] = e;
    }
  }
  t->dims = dims;
  if (pairs) t->to = to;
}

static void sort_args(Op op, int nargs, const NodeId *args, NodeId *sorted) {
  for (int i = 0; i < nargs; i++) sorted[i] = args[i];
  if (!(op_row(op)->flags & COMMUTES) || nargs != 2 || sorted[0] <= sorted[1]) return;
  sorted[0] = args[1];
  sorted[1] = args[0];
}

RegionId graph_region(Graph *g, const Region *r) {
  vec_push(g->arena, g->region) = *r;
  return g->region.n;
}

// Sets *out to the innermost region of the arguments. All of their regions must enclose it;
// otherwise returns false with a sentence in `why`.
static bool find_region(const Graph *g, int nargs, const NodeId *args, RegionId *out, char *why) {
  *out = 0;
  for (int i = 0; i < nargs; i++) {
    RegionId r = graph_node(g, args[i])->region;
    if (region_encloses(g, *out, r)) *out = r;
    if (region_encloses(g, r, *out)) continue;
    snprintf(why, 200, "arguments of different loops");
    return false;
  }
  return true;
}

static bool region_of(const Graph *g, Op op, int nargs, const NodeId *args, const Attr *t,
                      RegionId *out, char *why) {
  if (op == OP_CARRY || op == OP_AT) return *out = t->region, true;
  if (op == OP_SCAN) {
    *out = region_get(g, t->region)->parent;
    RegionId deepest;
    if (!find_region(g, nargs, args, &deepest, why)) return false;
    if (region_encloses(g, deepest, t->region)) return true;
    snprintf(why, 200, "scan: an argument belongs to another loop");
    return false;
  }
  if (op != OP_FINAL && op != OP_COLLECT) return find_region(g, nargs, args, out, why);
  *out = graph_node(g, args[0])->region;
  return true;
}

void graph_set_origin(Graph *g, NodeId n, const Origin *origin) {
  g->node.at[n].origin = keep_origin(g->arena, &g->table->kept, origin);
}

void graph_name_as(Graph *g, NodeId n, const Origin *origin) {
  const Node *node = graph_node(g, n);
  Origin named = *node->origin;
  if (named.value || op_row((Op)node->op)->cls == SOURCE) return;
  if (!origin->value && origin->gradient_of == named.gradient_of) return;
  named.value = origin->value;
  named.gradient_of = origin->gradient_of;
  graph_set_origin(g, n, &named);
}

// Returns the node that equals *n, or adds *n. With `lasting` only its arguments are copied: the
// rest belongs to a node of another graph in the same arena.
static NodeId find_or_insert(Graph *g, Node *n, bool lasting) {
  Arena *a = g->arena;
  if (g->table->stale) refill_table(g);
  uint32_t hash = node_hash(n);
  NodeSlot *slot = find_slot(g, n, hash);
  if (slot->id) return slot->id;
  n->args = arena_copy(a, n->args, n->nargs * sizeof *n->args);
  if (!lasting) keep(a, &g->table->kept, n);
  vec_push(a, g->node) = *n;
  NodeId id = graph_count(g);
  *slot = (NodeSlot){hash, id};
  DeclId decl = n->attr->decl;
  if (decl && !g->decl.at[decl - 1].node) g->decl.at[decl - 1].node = id;
  g->table->stale = id > g->table->cap / SLOTS_A_NODE;
  return id;
}

static NodeId add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                  uint32_t instance, const Origin *origin, char *why) {
  Attr t = canonical(op, attr);
  NodeId sorted[MAX_ARGS];
  DimId dims_room[MAX_RANK], to_room[MAX_RANK] = {0};
  if (nargs >= 0 && nargs <= MAX_ARGS) sort_args(op, nargs, args, sorted);
  Dtype type;
  Dims dims;
  if (!infer(g, op, nargs, sorted, &t, &type, &dims, why)) return 0;
  RegionId region;
  if (!region_of(g, op, nargs, sorted, &t, &region, why)) return 0;
  sort_dims(g, op, &t, dims_room, to_room);
  Node n = {.op = (uint16_t)op,
            .type = (uint8_t)type,
            .instance = instance,
            .region = region,
            .nargs = (uint8_t)nargs,
            .dims = &dims,
            .args = sorted,
            .origin = origin};
  node_set_attr(&n, &t);
  return find_or_insert(g, &n, false);
}

NodeId graph_try(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr,
                 uint32_t instance, char *why) {
  return add(g, op, nargs, args, attr, instance, &g->origin, why);
}

NodeId graph_add(Graph *g, Op op, int nargs, const NodeId *args, const Attr *attr) {
  char why[200];
  NodeId n = add(g, op, nargs, args, attr, 0, &g->origin, why);
  if (!n) BUG("%s%s%s", why, g->origin.why ? "; " : "", g->origin.why ? g->origin.why : "");
  return n;
}

// Returns true if the nodes `args` of g have the types and dims of the arguments of `node` in
// `from`. In that case the caller copies type and dims of `node` instead of inferring them again.
static bool same_args(const Graph *g, const Graph *from, const Node *node, const NodeId *args) {
  if (g->dims != from->dims || g->arena != from->arena || from->region.n || g->region.n ||
      node->attr->decl)
    return false;
  for (int i = 0; i < node->nargs; i++) {
    const Node *x = graph_node(g, args[i]), *was = graph_node(from, node->args[i]);
    if (x->type != was->type || !dims_equal(x->dims, was->dims)) return false;
  }
  return true;
}

void graph_copy_outputs(Graph *g, const Graph *from, const NodeId *map) {
  for (uint32_t i = 0; i < from->output.n; i++) {
    Output o = from->output.at[i];
    o.value = map[o.value];
    vec_push(g->arena, g->output) = o;
  }
}

NodeId graph_copy(Graph *g, const Graph *from, NodeId n, const NodeId *map) {
  const Node *node = graph_node(from, n);
  NodeId args[MAX_ARGS];
  char why[200];
  for (int i = 0; i < node->nargs; i++) args[i] = map[node->args[i]];
  if (same_args(g, from, node, args)) {
    NodeId sorted[MAX_ARGS];
    Node same = *node;
    sort_args((Op)node->op, node->nargs, args, sorted);
    same.args = sorted;
    return find_or_insert(g, &same, true);
  }
  if (g->arena == from->arena) keep_seen(&g->table->kept, node);
  NodeId copy =
      add(g, (Op)node->op, node->nargs, args, node->attr, node->instance, node->origin, why);
  if (!copy) BUG("copy of %%%u: %s", n, why);
  return copy;
}

// -- declarations and names ---------------------------------------------------------------------

static const char *decl_text(const Graph *g, uint32_t i) { return g->decl.at[i].name; }
static const char *name_text(const Graph *g, uint32_t i) { return g->name.at[i].name; }
typedef const char *TextOf(const Graph *g, uint32_t i);

// Searches n names with the index x. Returns 1 + the index of the last one that equals `name`, or 0
// if none does.
static uint32_t index_find(const Graph *g, TextIndex *x, uint32_t n, TextOf *text,
                           const char *name) {
  if (x->seen > n) *x = (TextIndex){0};
  for (; x->seen < n; x->seen++)
    map_put(g->table->texts, &x->map, dim_intern(g->dims, text(g, x->seen)),
            (void *)(uintptr_t)(x->seen + 1));
  return n ? (uint32_t)(uintptr_t)map_get(&x->map, dim_intern(g->dims, name)) : 0;
}

DeclId graph_decl(Graph *g, const Decl *d) {
  vec_push(g->arena, g->decl) = *d;
  g->decl.at[g->decl.n - 1].node = 0;
  return g->decl.n;
}

NodeId graph_decl_node(Graph *g, DeclId d) {
  const Decl *decl = &g->decl.at[d - 1];
  if (decl->node) return decl->node;
  return graph_add(g, decl_op(decl->kind), 0, NULL, &(Attr){.decl = d});
}

NodeId graph_decl_node_over(Graph *g, DeclId d, const Dims *dims) {
  const Decl *decl = &g->decl.at[d - 1];
  bool blocks = false;
  for (int i = 0; i < dims->n; i++) blocks |= dim_get(g->dims, dims->at[i])->whole != dims->at[i];
  Attr attr = {.decl = d, .ndims = blocks ? dims->n : 0, .dims = dims->at};
  return graph_add(g, decl_op(decl->kind), 0, NULL, &attr);
}

DeclId graph_find_decl(const Graph *g, const char *name) {
  return index_find(g, &g->table->decls, g->decl.n, decl_text, name);
}

const Name *graph_find_name(const Graph *g, const char *name) {
  uint32_t i = index_find(g, &g->table->names, g->name.n, name_text, name);
  return i ? &g->name.at[i - 1] : NULL;
}

// -- short forms --------------------------------------------------------------------------------

// Keeps in Graph.exact the value that constant n had before it was rounded to f32. A number without
// a type of its own may later be converted to f64 (frontend/model/weak.c).
static void note_exact(Graph *g, NodeId n, double value) {
  while (g->exact.n <= n) vec_push(g->arena, g->exact) = 0;
  if (g->exact.at[n] == 0) g->exact.at[n] = value;
}

NodeId graph_const(Graph *g, Dtype type, double value) {
  double rounded = dtype_round(type, value);
  NodeId n = graph_add(g, OP_CONST, 0, NULL, &(Attr){.type = type, .num = {rounded}});
  if (g->stage == STAGE_GRAPH && type == TYPE_F32 && rounded != value && isfinite(value))
    note_exact(g, n, value);
  return n;
}

double graph_exact(const Graph *g, NodeId constant) {
  double exact = constant < g->exact.n ? g->exact.at[constant] : 0;
  return exact != 0 ? exact : graph_node(g, constant)->attr->num[0];
}

NodeId graph_unary(Graph *g, Op op, NodeId a) { return graph_add(g, op, 1, &a, NULL); }

NodeId graph_binary(Graph *g, Op op, NodeId a, NodeId b) {
  return graph_add(g, op, 2, (NodeId[]){a, b}, NULL);
}

NodeId graph_where(Graph *g, NodeId c, NodeId a, NodeId b) {
  return graph_add(g, OP_WHERE, 3, (NodeId[]){c, a, b}, NULL);
}

NodeId graph_cast(Graph *g, NodeId a, Dtype type) {
  if (graph_node(g, a)->type == type) return a;
  return graph_add(g, OP_CAST, 1, &a, &(Attr){.type = type});
}

NodeId graph_reduce(Graph *g, Op op, NodeId a, const Dims *over) {
  if (over->n == 0) return a;
  return graph_add(g, op, 1, &a, &(Attr){.ndims = over->n, .dims = over->at});
}

NodeId graph_broadcast(Graph *g, NodeId a, const Dims *to) {
  const Dims *have = graph_node(g, a)->dims;
  Dims more = list_minus(to, have);
  if (more.n + have->n != to->n) BUG("broadcast of %%%u to dims that lack one of its own", a);
  if (more.n == 0) return a;
  return graph_add(g, OP_BROADCAST, 1, &a, &(Attr){.ndims = more.n, .dims = more.at});
}

NodeId graph_zeros(Graph *g, Dtype type, const Dims *dims) {
  const Dims to = *dims;
  return graph_broadcast(g, graph_const(g, type, 0), &to);
}

NodeId graph_at(Graph *g, RegionId r, NodeId x) {
  DimId t = region_get(g, r)->t;
  return graph_add(g, OP_AT, 1, &x, &(Attr){.ndims = 1, .dims = &t, .region = r});
}

NodeId graph_collect(Graph *g, NodeId scan, NodeId x) {
  DimId t = region_get(g, graph_node(g, scan)->attr->region)->t;
  return graph_add(g, OP_COLLECT, 2, (NodeId[]){scan, x}, &(Attr){.ndims = 1, .dims = &t});
}

uint32_t *graph_uses(Arena *a, const Graph *g) {
  uint32_t *uses = arena_array(a, uint32_t, graph_count(g) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++)
    for (int i = 0; i < graph_node(g, n)->nargs; i++) uses[graph_node(g, n)->args[i]]++;
  for (uint32_t i = 0; i < g->output.n; i++) uses[g->output.at[i].value]++;
  return uses;
}

NodeId graph_index(Graph *g, DimId d) {
  return graph_add(g, OP_INDEX, 0, NULL, &(Attr){.ndims = 1, .dims = &d});
}

LogSum graph_log_sum(Graph *g, NodeId x, const Dims *over, bool stopped) {
  Dtype type = (Dtype)graph_node(g, x)->type;
  NodeId max = graph_reduce(g, OP_MAX, x, over);
  if (stopped) max = graph_unary(g, OP_STOP, max);
  NodeId infinite =
      graph_binary(g, OP_EQ, graph_unary(g, OP_ABS, max), graph_const(g, type, (double)INFINITY));
  LogSum s = {.shift = graph_where(g, infinite, graph_const(g, type, 0), max)};
  s.shifted = graph_binary(g, OP_SUB, x, s.shift);
  s.e = graph_unary(g, OP_EXP, s.shifted);
  s.sum = graph_reduce(g, OP_SUM, s.e, over);
  return s;
}

int64_t node_elements(const Graph *g, NodeId n) {
  int64_t elements;
  if (!dims_elements(g->dims, graph_node(g, n)->dims, &elements)) BUG("%%%u is too large", n);
  return elements;
}

int64_t node_bytes(const Graph *g, NodeId n) {
  int64_t bytes;
  if (!size_mul(node_elements(g, n), dtype_bytes((Dtype)graph_node(g, n)->type), &bytes))
    BUG("%%%u is too large", n);
  return bytes;
}

// -- pruning ------------------------------------------------------------------------------------

static bool args_marked(const Node *n, const bool *marked) {
  for (int i = 0; i < n->nargs; i++)
    if (!marked[n->args[i]]) return false;
  return true;
}

typedef struct Marker {
  Arena *a;
  const Graph *g;
  const NodeId *scan; // [RegionId]: the SCAN node of the region
  bool *marked;
  VEC(NodeId) todo;
} Marker;

static void mark(Marker *r, NodeId n) {
  if (!n || r->marked[n]) return;
  r->marked[n] = true;
  vec_push(r->a, r->todo) = n;
}

// Marks all nodes that the marked nodes depend on, in a graph without loops: from the last node on,
// as they lie in memory.
static void mark_straight(const Graph *g, bool *marked) {
  for (NodeId id = graph_count(g); id > 0; id--) {
    const Node *n = graph_node(g, id);
    for (int i = 0; marked[id] && i < n->nargs; i++) marked[n->args[i]] = true;
  }
}

// Marks all nodes that the nodes of the todo list depend on. A scan does not depend on all of its
// arguments: the next value of a carry is needed only if the carry is, or if it is the guard.
static void mark_all(Marker *r) {
  while (r->todo.n) {
    NodeId id = r->todo.at[--r->todo.n];
    const Node *n = graph_node(r->g, id);
    for (int i = 0; i < n->nargs && n->op != OP_SCAN; i++) mark(r, n->args[i]);
    if (n->op == OP_SCAN && region_get(r->g, n->attr->region)->guarded) mark(r, n->args[0]);
    if (n->op == OP_CARRY) {
      mark(r, r->scan[n->region]);
      mark(r, carry_next(r->g, r->scan, id));
    }
  }
}

static bool *mark_needed(Arena *a, const Graph *g, const NodeId *scan) {
  Marker r = {.a = a, .g = g, .scan = scan, .marked = arena_array(a, bool, graph_count(g) + 1)};
  for (uint32_t i = 0; i < g->output.n; i++) mark(&r, g->output.at[i].value);
  if (g->region.n)
    mark_all(&r);
  else
    mark_straight(g, r.marked);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (op_row((Op)node->op)->flags & CHECKS && args_marked(node, r.marked)) r.marked[n] = true;
  }
  return r.marked;
}

// Gives the marked carries of each region new numbers, from 0. Returns a table number[r][k]: the
// new number of carry k of region r. Sets kept[r][k] to true if that carry is marked.
static uint32_t **number_carries(Arena *a, const Graph *g, const NodeId *scan, const bool *marked,
                                 bool **kept) {
  uint32_t **number = arena_array(a, uint32_t *, g->region.n + 1);
  for (uint32_t r = 1; r <= g->region.n; r++) {
    int n = scan[r] ? graph_node(g, scan[r])->nargs : 0;
    number[r] = arena_array(a, uint32_t, n + 1);
    kept[r] = arena_array(a, bool, n + 1);
  }
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    if (node->op == OP_CARRY && marked[n] && scan[node->region])
      kept[node->region][node->attr->carry] = true;
  }
  for (uint32_t r = 1; r <= g->region.n; r++) {
    uint32_t next = 0;
    for (int k = 0; scan[r] && k < graph_node(g, scan[r])->nargs; k++) {
      number[r][k] = next;
      next += kept[r][k];
    }
  }
  return number;
}

// Copies a carry with its new number, or a scan without the arguments of unneeded carries.
static NodeId copy_loop(Graph *g, const Graph *from, NodeId id, const NodeId *map,
                        uint32_t *const *number, bool *const *kept) {
  const Node *n = graph_node(from, id);
  NodeId args[MAX_ARGS];
  int nargs = 0;
  char why[200];
  Attr attr = *n->attr;
  RegionId r = attr.region;
  if (n->op == OP_CARRY) attr.carry = number[r][attr.carry];
  for (int i = 0; i < n->nargs; i++)
    if (n->op == OP_CARRY || kept[r][i]) args[nargs++] = map[n->args[i]];
  NodeId copy = add(g, (Op)n->op, nargs, args, &attr, n->instance, n->origin, why);
  if (!copy) BUG("copy of %%%u: %s", id, why);
  return copy;
}

// Appends node n of `from` to g, with its arguments renumbered by `map`. Does not search g for an
// equal node: nodes of `from` that differ also differ after renumbering.
static NodeId move_node(Graph *g, const Graph *from, NodeId n, const NodeId *map) {
  Node x = *graph_node(from, n);
  NodeId args[MAX_ARGS];
  bool moved = g->arena != from->arena;
  for (int i = 0; i < x.nargs; i++) {
    args[i] = map[x.args[i]];
    moved |= args[i] != x.args[i];
  }
  if (moved) x.args = arena_copy(g->arena, args, x.nargs * sizeof *args);
  if (g->arena != from->arena) keep(g->arena, &g->table->kept, &x);
  vec_push(g->arena, g->node) = x;
  NodeId id = graph_count(g);
  if (x.attr->decl && !g->decl.at[x.attr->decl - 1].node) g->decl.at[x.attr->decl - 1].node = id;
  return id;
}

// Moves the marked nodes of `from` to g and returns the map from old to new ids. g may be `from`
// itself: a node never gets a larger id, so that it only overwrites nodes that were moved before.
static NodeId *move_nodes(Arena *a, Graph *g, const Graph *from, const bool *marked) {
  uint32_t count = graph_count(from);
  NodeId *map = arena_array(a, NodeId, count + 1);
  g->table->stale = true;
  g->node.n = 1;
  for (uint32_t i = 0; i < g->decl.n; i++) g->decl.at[i].node = 0;
  for (NodeId n = 1; n <= count; n++)
    if (marked[n]) map[n] = move_node(g, from, n, map);
  return map;
}

Graph *graph_prune_in_place(Arena *a, Graph *g, Stage stage) {
  if (g->region.n || a != g->arena) return graph_prune(a, g, stage, NULL);
  const bool *marked = mark_needed(a, g, NULL);
  bool all = true;
  for (NodeId n = 1; n <= graph_count(g); n++) all &= marked[n];
  g->stage = stage;
  g->origin = (Origin){0};
  g->name.n = 0;
  drop_table(g);
  if (all) return g;
  const NodeId *map = move_nodes(a, g, g, marked);
  for (uint32_t i = 0; i < g->output.n; i++) g->output.at[i].value = map[g->output.at[i].value];
  return g;
}

// Prunes a graph without loops. Its nodes are moved without a search for equal ones.
static Graph *prune_straight(Arena *a, const Graph *from, Stage stage, NodeId **map_out) {
  Graph *g = graph_like(a, from, stage);
  NodeId *map = move_nodes(a, g, from, mark_needed(a, from, NULL));
  graph_copy_outputs(g, from, map);
  if (map_out) *map_out = map;
  return g;
}

Graph *graph_prune(Arena *a, const Graph *from, Stage stage, NodeId **map_out) {
  if (!from->region.n) return prune_straight(a, from, stage, map_out);
  Graph *g = graph_like(a, from, stage);
  const NodeId *scan = region_scans(a, from), *order = graph_schedule(a, from);
  bool *marked = mark_needed(a, from, scan), **kept = arena_array(a, bool *, from->region.n + 1);
  uint32_t **number = number_carries(a, from, scan, marked, kept);
  NodeId *map = arena_array(a, NodeId, graph_count(from) + 1);
  for (uint32_t i = 0; i < graph_count(from); i++) {
    NodeId n = order[i];
    if (!marked[n]) continue;
    bool loop = graph_node(from, n)->op == OP_CARRY || graph_node(from, n)->op == OP_SCAN;
    map[n] = loop && scan[graph_node(from, n)->attr->region]
                 ? copy_loop(g, from, n, map, number, kept)
                 : graph_copy(g, from, n, map);
  }
  graph_copy_outputs(g, from, map);
  if (map_out) *map_out = map;
  return g;
}
