// Proves that a model is causal: that no position of its output depends on ids at later positions.
// Input: the graph of the output. Output: for each value the time dims that bound the positions on
// which it depends (Causal in decode_internal.h), or an error with the value that looks ahead.
//
//   q[t], keys[s]                     depend on ids up to t, up to s
//   score[t, s] = sum[k](q * keys)    up to the larger of t and s
//   p = softmax[s](where(s <= t, score, -inf))     p is 0 where s > t (codegen/values/live_ahead.c)
//   sum[s](p * v)                     so this depends on ids up to t
//   mean[t](q)                        no time dim is left: it depends on all ids
#include "frontend/step/decode_internal.h"

#include <string.h>

// An analysis under way. Tables are as in Causal.
typedef struct Search {
  Causal *c;
  const Graph *g;
  int *number;
  bool *reads;
  TimeSet *of;
  const Slots **slots;
  const NodeId *scan; // region_scans
  Ahead *ahead;
  bool full;    // there are more time dims than MOST_TIMES
  bool changed; // a table has changed since the last walk over the nodes began
} Search;

// -- time dims -----------------------------------------------------------------------------------

static void add_time(Search *s, DimId d) {
  if (s->number[d]) return;
  if (s->c->ntimes == MOST_TIMES) {
    s->full = true;
    return;
  }
  s->c->time[s->c->ntimes] = d;
  s->number[d] = ++s->c->ntimes;
  s->changed = true;
}

static TimeSet bit(const Search *s, DimId d) {
  return s->number[d] ? UINT64_C(1) << (s->number[d] - 1) : 0;
}

static TimeSet bits(const Search *s, int n, const DimId *list) {
  TimeSet set = 0;
  for (int i = 0; i < n; i++) set |= bit(s, list[i]);
  return set;
}

static bool over_time(const Search *s, RegionId r) {
  return r && s->number[region_get(s->g, r)->t];
}

// -- rules of operations -------------------------------------------------------------------------

// Returns a time dim t of node n, or of a loop around it, such that n needs positions of d up to
// that of t only: what n reduces is one number at later positions, or a factor that it sums is 0
// there. Returns 0 if there is none.
static DimId bound_of(Search *s, const Node *n, DimId d) {
  DimId candidate[2 * MAX_RANK + 8];
  int found = 0;
  for (int i = 0; i < n->dims->n; i++)
    if (bit(s, n->dims->at[i])) candidate[found++] = n->dims->at[i];
  for (RegionId r = n->region; r && found < (int)countof(candidate);
       r = region_get(s->g, r)->parent)
    if (over_time(s, r)) candidate[found++] = region_get(s->g, r)->t;
  for (int i = 0; i < found; i++)
    for (int k = 0; k < n->nargs; k++) {
      NodeId x = n->args[k];
      if (dims_has(graph_node(s->g, x)->dims, d) &&
          ahead_is_neutral(s->ahead, x, candidate[i], d, (Op)n->op))
        return candidate[i];
    }
  return 0;
}

// Gives node id these slots. Returns the set of such a value.
static TimeSet in_slots(Search *s, NodeId id, const Slots *slots) {
  if (!s->slots[id] || !slots_equal(s->slots[id], slots))
    s->slots[id] = arena_copy(s->c->a, slots, sizeof *slots);
  return TIME_SLOT;
}

// Returns the set of a sum, or another reduction, over dims of values with the set `set`.
static TimeSet reduced(Search *s, NodeId id, const Node *n, TimeSet set) {
  Slots slots;
  for (int i = 0; i < n->attr->ndims; i++) {
    DimId d = n->attr->dims[i];
    if (!(set & bit(s, d))) continue;
    DimId t = bound_of(s, n, d);
    if (!t && set == bit(s, d) && slots_filled(s->c, n, d, &slots)) return in_slots(s, id, &slots);
    if (!t) return set | TIME_LATER;
    set = (set & ~bit(s, d)) | bit(s, t);
  }
  return set;
}

// Returns the set of a node with arguments that have slots.
static TimeSet slotted(Search *s, NodeId id, const Node *n) {
  const Slots *own = NULL;
  NodeId other = 0; // an argument that depends on ids and has no slots
  Slots renamed;
  OpClass cls = op_row((Op)n->op)->cls;
  for (int k = 0; k < n->nargs; k++) {
    const Slots *x = s->slots[n->args[k]];
    if (n->region || (x && own && !slots_equal(x, own))) return TIME_LATER;
    if (x) own = x;
    if (!x && s->of[n->args[k]]) other = n->args[k];
  }
  if (other) {
    TimeSet t = UINT64_C(1) << own->time;
    bool reads = cls == CONTRACT && s->of[other] == t && slots_are_own(s->c, other, own);
    return reads ? t : TIME_LATER;
  }
  if (n->op == OP_RENAME) {
    slots_rename(n, own, &renamed);
    return in_slots(s, id, &renamed);
  }
  for (int i = 0; i < n->attr->ndims && (cls == REDUCE || cls == CONTRACT); i++)
    if (dim_in(n->attr->dims[i], own->n, own->now)) return TIME_LATER;
  bool kept = cls == POINTWISE || cls == REDUCE || cls == CONTRACT || n->op == OP_BROADCAST ||
              n->op == OP_PIN;
  return kept ? in_slots(s, id, own) : TIME_LATER;
}

static TimeSet renamed(Search *s, const Node *n, TimeSet set) {
  TimeSet out = set;
  for (int i = 0; i < n->attr->ndims; i++) out &= ~bit(s, n->attr->dims[i]);
  for (int i = 0; i < n->attr->ndims; i++) {
    if (!bit(s, n->attr->dims[i])) continue;
    add_time(s, n->attr->to[i]);
    if (set & bit(s, n->attr->dims[i])) out |= bit(s, n->attr->to[i]);
  }
  return out;
}

int causal_merged(const Causal *c, const Node *n) {
  int found = -1, times = 0;
  for (int i = 0; i < n->attr->ndims; i++)
    if (causal_time(c, n->attr->dims[i]) >= 0) found = i, times++;
  return times == 1 ? found : -1;
}

// Returns whether the dims list[0..n) have the sizes of the dims that m merges.
static bool sizes_of_merge(const Graph *g, int n, const DimId *list, const Node *m) {
  bool same = n == m->attr->ndims;
  for (int i = 0; same && i < n; i++)
    same = dim_get(g->dims, list[i])->size == dim_get(g->dims, m->attr->dims[i])->size;
  return same;
}

// An element of a merge of a time dim with other dims belongs to one position.
static TimeSet merged(Search *s, NodeId id, const Node *n, TimeSet set) {
  const Attr *at = n->attr;
  int i = causal_merged(s->c, n);
  if (!(set & bits(s, at->ndims, at->dims))) return set;
  if (i < 0 || s->c->merge[s->number[at->dims[i]] - 1]) return set | TIME_LATER;
  bool fresh = !s->number[at->to[0]];
  add_time(s, at->to[0]);
  if (s->full) return set;
  NodeId *merge = &s->c->merge[s->number[at->to[0]] - 1];
  if (fresh) *merge = id;
  bool alike = *merge && sizes_of_merge(s->g, at->ndims, at->dims, graph_node(s->g, *merge)) &&
               causal_merged(s->c, graph_node(s->g, *merge)) == i;
  return alike ? (set & ~bit(s, at->dims[i])) | bit(s, at->to[0]) : set | TIME_LATER;
}

// A split of a merged time dim undoes the merge.
static TimeSet split(Search *s, const Node *n, TimeSet set) {
  DimId from = n->attr->dims[0];
  NodeId merge = s->number[from] ? s->c->merge[s->number[from] - 1] : 0;
  if (!(set & bit(s, from))) return set;
  if (!merge || !sizes_of_merge(s->g, n->attr->nto, n->attr->to, graph_node(s->g, merge)))
    return set | TIME_LATER;
  DimId to = n->attr->to[causal_merged(s->c, graph_node(s->g, merge))];
  add_time(s, to);
  return (set & ~bit(s, from)) | bit(s, to);
}

// Returns whether position o of a window reads positions up to o only.
static bool looks_back(const Graph *g, const Node *n) {
  const Affine *x = &n->attr->affine;
  int64_t taps = n->attr->nto > 1 ? dim_get(g->dims, n->attr->to[1])->size : 1;
  int64_t most = x->offset + (x->tap > 0 ? x->tap * (taps - 1) : 0);
  return n->op == OP_WINDOW && n->attr->nto > 0 && x->out == 1 && x->divisor == 1 && most <= 0;
}

static TimeSet windowed(Search *s, const Node *n, TimeSet set) {
  DimId from = n->attr->dims[0];
  if (!bit(s, from)) return set;
  if (!looks_back(s->g, n) || s->c->merge[s->number[from] - 1]) return set | TIME_LATER;
  add_time(s, n->attr->to[0]);
  return set & bit(s, from) ? (set & ~bit(s, from)) | bit(s, n->attr->to[0]) : set;
}

static TimeSet ordered(Search *s, const Node *n, TimeSet set) {
  bool running =
      n->op == OP_CUMSUM || n->op == OP_CUMPROD || n->op == OP_CUMMAX || n->op == OP_CUM_INDEX;
  if (!(set & bit(s, n->attr->dims[0]))) return set;
  if (s->c->merge[s->number[n->attr->dims[0]] - 1]) return set | TIME_LATER;
  return running && !(n->attr->flags & ORDER_REVERSE) ? set : set | TIME_LATER;
}

static TimeSet in_loop(Search *s, NodeId id, const Node *n, TimeSet set) {
  RegionId region = causal_region(s->g, n);
  const Region *r = region_get(s->g, region);
  bool time = over_time(s, region);
  NodeId next = n->op == OP_CARRY ? carry_next(s->g, s->scan, id) : 0;
  if (next) set |= s->of[next];
  if (time && n->op == OP_CARRY) set |= r->reverse ? TIME_LATER : bit(s, r->t);
  if (time && n->op == OP_FINAL) set |= TIME_LATER;
  return set;
}

static TimeSet set_of(Search *s, NodeId id) {
  const Node *n = graph_node(s->g, id);
  TimeSet set = 0;
  if (id == s->c->ids) return bit(s, s->c->time[0]);
  for (int k = 0; k < n->nargs; k++) set |= s->of[n->args[k]];
  if ((set & TIME_SLOT) && !(set & TIME_LATER)) return slotted(s, id, n);
  switch ((int)op_row((Op)n->op)->cls) {
  case REDUCE:
  case CONTRACT: return reduced(s, id, n, set);
  case WINDOW: return windowed(s, n, set);
  case ORDERED: return ordered(s, n, set);
  case REGION: return n->op == OP_SCAN ? 0 : in_loop(s, id, n, set);
  case MATRIX:
  case GATHER: return set & bits(s, n->attr->ndims, n->attr->dims) ? set | TIME_LATER : set;
  case MOVE:
    if (n->op == OP_RENAME) return renamed(s, n, set);
    if (n->op == OP_MERGE) return merged(s, id, n, set);
    if (n->op == OP_SPLIT) return split(s, n, set);
  }
  return set;
}

static bool reads_ids(const Search *s, NodeId id) {
  const Node *n = graph_node(s->g, id);
  bool reads = id == s->c->ids || (n->op == OP_CARRY && over_time(s, n->attr->region));
  NodeId next = n->op == OP_CARRY ? carry_next(s->g, s->scan, id) : 0;
  for (int k = 0; k < n->nargs; k++) reads |= s->reads[n->args[k]];
  return reads || (next && s->reads[next]);
}

static void walk(Search *s) {
  s->changed = false;
  for (NodeId id = 1; id <= graph_count(s->g); id++) {
    bool reads = reads_ids(s, id);
    s->changed |= reads != s->reads[id];
    s->reads[id] = reads;
    TimeSet set = reads ? set_of(s, id) | s->of[id] : 0;
    // A loop whose values are not bounded yet is walked again: sets only grow.
    s->changed |= set != s->of[id];
    s->of[id] = set;
  }
}

// -- messages ------------------------------------------------------------------------------------

const char *causal_name(const Graph *g, NodeId n) {
  const char *name = origin_subject(graph_node(g, n)->origin);
  return name ? name : node_source_name(g, n);
}

// Returns in words what makes node n depend on later positions.
static const char *reason(const Search *s, const Node *n) {
  const Dim *d = n->attr->ndims ? dim_get(s->g->dims, n->attr->dims[0]) : NULL;
  for (int i = 0; i < n->attr->ndims; i++)
    if (s->number[n->attr->dims[i]]) d = dim_get(s->g->dims, n->attr->dims[i]);
  const char *name = d ? d->name : "";
  for (int k = 0; k < n->nargs; k++)
    if (s->of[n->args[k]] & TIME_SLOT)
      return "it combines the slots of several positions, or reads those of another one";
  switch ((int)op_row((Op)n->op)->cls) {
  case REDUCE:
  case CONTRACT:
    return arena_printf(
        s->c->a, "it combines all positions of %s, and no mask leaves out the later ones", name);
  case WINDOW: return arena_printf(s->c->a, "its window reads positions of %s after its own", name);
  case ORDERED: return arena_printf(s->c->a, "its order of %s depends on all positions", name);
  case MATRIX: return arena_printf(s->c->a, "it needs matrices with all positions of %s", name);
  case GATHER: return arena_printf(s->c->a, "it looks up positions of %s that ids choose", name);
  case REGION:
    return n->op == OP_FINAL ? "it is the state after the last position"
                             : "its loop begins at the last position";
  }
  return arena_printf(s->c->a, "it mixes the positions of %s", name);
}

static bool later(const Search *s, NodeId n) { return s->of[n] & TIME_LATER; }

// Reports the first value that depends on later ids though no argument does. Returns false.
static bool refuse(const Search *s, Diag *d) {
  for (NodeId id = 1; id <= graph_count(s->g); id++) {
    const Node *n = graph_node(s->g, id);
    bool first = later(s, id);
    for (int k = 0; k < n->nargs; k++) first = first && !later(s, n->args[k]);
    if (!first) continue;
    diag_error(d, DIAG_NOT_CAUSAL, n->origin->pos, "'%s' looks ahead: %s", causal_name(s->g, id),
               reason(s, n));
    if (slots_inexact(s->c, n))
      return diag_hint(d, "places in the queues of experts are not exact in 16 bits: leave out "
                          "precision = bf16 or f16");
    return diag_hint(d,
                     "text is generated from left to right: mask later positions, as in "
                     "where(index[s] <= index[t], score, -inf); a number above -1e8 hides nothing");
  }
  return true;
}

bool causal_find(Arena *a, const Graph *g, NodeId ids, DimId t, Diag *d, Causal *out) {
  uint32_t n = graph_count(g) + 1;
  Search s = {.c = out, .g = g, .scan = region_scans(a, g), .ahead = ahead_new(a, g)};
  s.number = arena_array(a, int, dim_count(g->dims) + 1);
  s.reads = arena_array(a, bool, n);
  s.of = arena_array(a, TimeSet, n);
  s.slots = arena_array(a, const Slots *, n);
  *out = (Causal){.a = a,
                  .g = g,
                  .ids = ids,
                  .number = s.number,
                  .reads = s.reads,
                  .of = s.of,
                  .slots = s.slots};
  add_time(&s, t);
  do walk(&s);
  while (s.changed && !s.full);
  if (s.full)
    return diag_error(d, DIAG_UNSUPPORTED, (Pos){0},
                      "more than %d dims run over the positions of the ids", MOST_TIMES);
  return refuse(&s, d);
}
