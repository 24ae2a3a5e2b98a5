// Chooses the sharding of every value. The recipe:
//
//   1. forward   each node chooses from the layout's rules and its arguments (place_choose.c), by
//                the roles of dims (place_roles.c). An argument that another user has gathered
//                costs nothing (place_share.c). Carries of loops choose again with their next
//                values until nothing changes (place_region.c).
//   2. backward  a value that all users read split is computed split (place_users.c). Thus a
//                reduce-scatter reduces a gradient for which the optimizer's tensors are split.
//   3. improve   a local search over groups of nodes (place_improve.c); it runs 4. to 6.
//   4. gather    a value that no rule splits and that is read replicated is gathered once, before
//                the pointwise nodes that use it (place_gather.c)
//   5. reduce    a minimum cut decides per axis where partial sums are reduced (place_reduce.c)
//   6. settle    a value that all users read in one sharding is settled in it (place_users.c)
//
// Marks of `checkpoint` are set aside before (place_marks.c).
#include "ir/base/hash.h"
#include "partition/place/improve_internal.h"

#include <string.h>

// Returns where a rule is written: "layout, line 23", "--layout" or "layout".
static const char *rule_source(const Placer *p, const Diag *diag, Pos pos) {
  const char *source = diag && pos.source ? diag_source_name(diag, pos.source) : "";
  if (*source == '-') return source;
  return pos.line ? arena_printf(p->arena, "layout, line %u", pos.line) : "layout";
}

static const char *rule_text(const Placer *p, const Diag *diag, const LayoutRule *r, DimId d) {
  const char *dim = r->dim ? dim_get(p->g->dims, d)->name : "all";
  const char *axes = r->none ? "none" : axes_text(p->arena, p->g->mesh, r->axes);
  const char *soft = r->soft ? "soft " : "";
  return arena_printf(p->arena, "%s%s -> %s (%s)", soft, dim, axes, rule_source(p, diag, r->pos));
}

static const char *said_by(const Placer *p, const Diag *diag, NodeId n, int k, int axis) {
  const Request *w = p->request[n];
  const Node *node = graph_node(p->g, n);
  const char *dim = dim_get(p->g->dims, node->dims->at[k])->name, *on = p->g->mesh->axis[axis].name;
  if (node->op == OP_PIN)
    return arena_printf(p->arena, "%s -> %s (layout(...), line %u)", dim, on,
                        node->origin->pos.line);
  int rule = axes_has(w->hard[k], axis)   ? w->rule[k]
             : axes_has(w->soft[k], axis) ? w->soft_rule[axis]
                                          : 0;
  if (rule) return rule_text(p, diag, &p->result.layout->rule[rule - 1], node->dims->at[k]);
  return arena_printf(p->arena, "%s over %s (as its %s)", dim, on,
                      node->nargs ? "arguments or users" : "users");
}

// Returns the sums before n whose partial sums n passes on: "east is summed over cols at line 20".
// Empty if n begins all of its sums.
static const char *passed_sums(const Placer *p, NodeId n) {
  const Axes partial = p->result.computed[n]->partial;
  const char *text = "";
  for (int i = 0; i < partial.n; i++) {
    int inner;
    NodeId begin = partial_sum_begin(p, n, partial.at[i], &inner);
    if (!begin || begin == n) continue;
    const Node *sum = graph_node(p->g, begin);
    text = arena_printf(p->arena, "%s%s%s is summed over %s at line %u", text, *text ? "; " : "",
                        dim_get(p->g->dims, sum->attr->dims[inner])->name,
                        p->g->mesh->axis[partial.at[i]].name, sum->origin->pos.line);
  }
  return text;
}

const char *placement_why(const Placement *placement, const Diag *diag, NodeId n) {
  const Placer *p = placer_of(placement);
  const Node *node = graph_node(p->g, n);
  const Sharding *at = p->result.computed[n], *settled = p->result.settled[n];
  const char *text = "", *before = "";
  for (int k = 0; k < node->dims->n; k++)
    for (int i = 0; i < settled->split[k].n; i++) {
      const char *said = said_by(p, diag, n, k, settled->split[k].at[i]);
      if (!strcmp(said, before)) continue; // one rule for several axes
      text = arena_printf(p->arena, "%s%s%s", text, *text ? "; " : "", said);
      before = said;
    }
  for (int i = 0; i < node_inner(node); i++)
    if (p->inner[n] && p->inner[n][i].n)
      text = arena_printf(p->arena, "%s%s%s is %s over %s", text, *text ? "; " : "",
                          dim_get(p->g->dims, node->attr->dims[i])->name,
                          node->op == OP_TOP_K ? "searched" : "summed",
                          axes_text(p->arena, p->g->mesh, p->inner[n][i]));
  const char *passed = passed_sums(p, n);
  if (*passed) text = arena_printf(p->arena, "%s%s%s", text, *text ? "; " : "", passed);
  if (at->partial.n && !*text) text = "takes partial sums and gives partial sums";
  return *text ? text : "no rule names its dims";
}

int placement_rule(const Placement *placement, NodeId n, DimId d, int axis) {
  const Placer *p = placer_of(placement);
  const Node *node = graph_node(p->g, n);
  int k = dims_index(node->dims, d);
  const Sharding *either[] = {p->result.settled[n], p->result.computed[n]};
  for (size_t i = 0; k >= 0 && i < countof(either); i++)
    if (axes_has(either[i]->split[k], axis)) return either[i]->rule[axis] - 1;
  if (k >= 0) return place_reader_rule(p, n, k, axis) - 1;
  for (int i = 0; i < node_inner(node); i++)
    if (node->attr->dims[i] == d && p->inner[n] && axes_has(p->inner[n][i], axis))
      return p->result.computed[n]->rule[axis] - 1;
  return node->op == OP_WINDOW ? placement_rule(placement, node->args[0], d, axis) : -1;
}

int placement_partial_rule(const Placement *placement, NodeId n, int axis) {
  int inner;
  NodeId begin = partial_sum_begin(placer_of(placement), n, axis, &inner);
  return begin ? placement->computed[begin]->rule[axis] - 1 : -1;
}

static Placer *placer_new(Arena *a, const PlaceGraph *of, const Graph *whole, const Layout *layout,
                          const Machine *machine) {
  const Graph *g = place_without_marks(a, of, whole);
  uint32_t n = graph_count(g) + 1;
  Placer *p = arena_new_of(a, Placer);
  p->arena = a;
  p->machine = machine;
  p->graph = of;
  p->g = g;
  p->result = (Placement){.graph = g, .layout = layout};
  p->kept = shardings_new(a);
  p->whole = sharding_keep(p->kept, &(Sharding){0});
  p->result.computed = arena_array(a, const Sharding *, n);
  p->result.settled = arena_array(a, const Sharding *, n);
  for (NodeId u = 0; u < n; u++) place_whole(p, u);
  p->request = arena_array(a, const Request *, n);
  p->inner = arena_array(a, Axes *, n);
  p->linear = arena_array(a, uint8_t, (size_t)n * MAX_AXES);
  p->forced = arena_array(a, uint8_t, (size_t)n * MAX_AXES);
  return p;
}

static void resolve_request(const Graph *g, const Layout *layout, const Requester *of,
                            Request *out) {
  request_resolve(g, layout, &of->subject, out);
  if (!of->given) memset(out->soft, 0, sizeof out->soft);
}

static void resolve_requests(Placer *p) {
  const PlaceGraph *of = p->graph;
  Request *request = arena_array(p->arena, Request, of->nrequesters);
  for (uint32_t i = 0; i < of->nrequesters; i++)
    resolve_request(p->g, p->result.layout, &of->requester[i], &request[i]);
  for (NodeId n = 1; n <= graph_count(p->g); n++) p->request[n] = &request[of->requester_of[n]];
}

static uint64_t hash_axes(uint64_t h, Axes x) { return hash_bytes(hash_word(h, x.n), x.at, x.n); }

static uint64_t hash_request(uint64_t h, const Request *w, int rank) {
  for (int k = 0; k < rank; k++)
    h = hash_word(hash_axes(hash_axes(h, w->hard[k]), w->soft[k]), w->replicated[k]);
  return h;
}

uint64_t place_asked(const PlaceGraph *of, const Graph *g, const Layout *layout) {
  uint64_t h = FNV_START;
  Request w;
  for (uint32_t i = 0; i < of->nrequesters; i++) {
    resolve_request(g, layout, &of->requester[i], &w);
    h = hash_request(h, &w, of->requester[i].subject.dims.n);
  }
  for (uint32_t i = 0; i < g->output.n; i++) {
    DeclId target = g->output.at[i].kind == OUT_UPDATE ? g->output.at[i].target : 0;
    if (!target || g->decl.at[target - 1].node) continue; // that node is a requester
    Subject s = subject_of_decl(g, target);
    request_resolve(g, layout, &s, &w);
    h = hash_request(h, &w, s.dims.n);
  }
  return h;
}

static Placer *place_all(Placer *p) {
  uint32_t n = graph_count(p->g);
  resolve_requests(p);
  p->crowds = crowds_new(p);
  for (NodeId u = 1; u <= n; u++) {
    bug_context("place", u);
    p->chosen = u - 1;
    place_choose(p, u);
    crowds_note(p, u);
  }
  p->chosen = n;
  place_settle_carries(p);
  for (NodeId u = n; u > 0; u--) {
    place_pull_back(p, u);
    crowds_note(p, u);
  }
  return p;
}

// Places with the local search. late: see Placer.
static Placer *place_searched(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout,
                              const Machine *machine, bool late) {
  Placer *p = placer_new(a, of, g, layout, machine);
  p->late = late;
  place_all(p);
  place_improve(p);
  place_marks(p);
  return p;
}

static bool is_placed_alike(const Placer *x, const Placer *y) {
  const Placement *p = &x->result, *q = &y->result;
  for (NodeId n = 1; n <= graph_count(x->g); n++)
    if (!sharding_equal(p->computed[n], q->computed[n]) ||
        !sharding_equal(p->settled[n], q->settled[n]))
      return false;
  return true;
}

static double seconds_sent(const Placer *p) {
  Sent s = place_sent(p);
  return s.bytes / p->machine->bandwidth + s.latency;
}

static double late_saves(const Placer *early, const Placer *late) {
  double sent = seconds_sent(early) - seconds_sent(late);
  return sent - CERTAIN * (improve_work(late) - improve_work(early));
}

// Returns the placement in which sums stay partial for longer, with the other one as its `modest`:
// it sends less as a rule, but may need more memory, and more conversions. Where one of them has a
// `modest` already, estimates decide.
static Placer *either(Placer *early, Placer *late) {
  if (is_placed_alike(early, late)) return early;
  double saves = late_saves(early, late);
  early->result.late_saves = late->result.late_saves = saves;
  if (early->result.modest || late->result.modest) return saves > 0 ? late : early;
  late->result.modest = &early->result;
  late->result.late = true;
  early->result.full = &late->result;
  return late;
}

Placement *place(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  return place_ordered(a, g, layout, machine, SUMS_BEST);
}

Placement *place_ordered(Arena *a, const Graph *g, const Layout *layout, const Machine *machine,
                         SumOrder order) {
  const PlaceGraph *of = place_graph(a, g);
  Placer *p = place_searched(a, of, g, layout, machine, order == SUMS_LATE);
  if (p->waits && order == SUMS_BEST)
    p = either(p, place_searched(a, of, g, layout, machine, true));
  return &p->result;
}

Placement *place_plain(Arena *a, const Graph *g, const Layout *layout, const Machine *machine) {
  Placer *p = place_all(placer_new(a, place_graph(a, g), g, layout, machine));
  place_finish(p);
  place_marks(p);
  return &p->result;
}

// Returns a copy of one placement for graphs with other dims.
static Placer *placer_with_dims(Arena *a, const Placement *of, DimTable *dims) {
  Placer *p = arena_copy(a, placer_of(of), sizeof *p);
  Graph *g = arena_new_of(a, Graph), *whole = arena_new_of(a, Graph);
  *g = graph_with_dims(a, p->g, dims);
  *whole = graph_with_dims(a, p->result.graph, dims);
  p->g = g;
  p->result.graph = whole;
  p->arena = a;
  return p;
}

Placement *placement_with_dims(Arena *a, const Placement *of, DimTable *dims) {
  Placer *p = placer_with_dims(a, of, dims);
  if (of->modest) {
    Placer *modest = placer_with_dims(a, of->modest, dims);
    p->result.modest = &modest->result;
    modest->result.full = &p->result;
  } else if (of->full) {
    Placer *full = placer_with_dims(a, of->full, dims);
    p->result.full = &full->result;
    full->result.modest = &p->result;
  }
  return &p->result;
}

Placement *place_silent(Arena *a, const PlaceGraph *of, const Graph *g, const Layout *layout,
                        const Machine *machine) {
  Placer *p = place_all(placer_new(a, of, g, layout, machine));
  p->silent = true;
  place_finish(p);
  return &p->result;
}

const char *placement_note(const void *placement, NodeId n) {
  const Placer *p = placer_of(placement);
  return sharding_text(p->arena, p->g, graph_node(p->g, n)->dims, p->result.computed[n]);
}
