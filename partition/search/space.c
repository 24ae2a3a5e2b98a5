// Builds the space of the search (space_internal.h) from a task.
#include <string.h>

#include "partition/search/space_internal.h"

// Returns whether layout_check accepts the n layout rules on a mesh of one axis with two
// processors.
static bool rules_fit(const Space *s, uint32_t n, LayoutRule *rule) {
  Arena *a = arena_new();
  Mesh mesh = {.naxes = 1, .axis = {{.name = "axis", .size = 2}}};
  Graph g = graph_with_dims(a, s->task->model, dim_table_whole(a, s->task->model->dims));
  g.mesh = &mesh;
  bool fit = layout_check(&g, &(Layout){n, rule}, diag_new(a));
  arena_free(a);
  return fit;
}

static LayoutRule rule_on_first(const Dim *d) {
  return (LayoutRule){.dim = d->name, .axes = {1, {0}}};
}

static bool dim_is_used(const SearchTask *t, DimId d) {
  for (uint32_t i = 0; i < t->nsamples; i++)
    for (NodeId n = 1; n <= graph_count(t->sample[i].graph); n++)
      if (dims_has(graph_node(t->sample[i].graph, n)->dims, d)) return true;
  return false;
}

// Lists in s->dim the dims that layout rules can split. Dims of functions and of rounds
// (iterations) of a `for` have a dot in their name. They are left out, because users do not write
// rules for them.
void space_dims(Space *s, Arena *a, const SearchTask *t) {
  *s = (Space){.task = t, .a = a, .complete = true};
  const DimTable *dims = t->model->dims;
  for (DimId d = 1; d <= dim_count(dims) && s->ndims < MAX_DIMS; d++) {
    const Dim *dim = dim_get(dims, d);
    if (dim->whole != d || dim->size < 2 || strchr(dim->name, '.') || !dim_is_used(t, d)) continue;
    LayoutRule alone = rule_on_first(dim);
    if (rules_fit(s, 1, &alone)) s->dim[s->ndims++] = dim;
  }
}

static void find_clashes(Space *s) {
  for (uint32_t i = 0; i < s->ndims; i++)
    for (uint32_t j = 0; j < i; j++) {
      LayoutRule both[2] = {rule_on_first(s->dim[i]), rule_on_first(s->dim[j])};
      if (rules_fit(s, 2, both)) continue;
      s->clash[i] |= (DimSet)1 << j;
      s->clash[j] |= (DimSet)1 << i;
    }
}

// Fills s->set with all sets of dims in which no two dims clash (occur in one tensor), the empty
// set first.
static void find_sets(Space *s) {
  s->set = arena_array(s->a, DimSet, MAX_SETS);
  s->nsets = 1;
  for (uint32_t d = 0; d < s->ndims; d++)
    for (uint32_t i = 0, n = s->nsets; i < n; i++) {
      if (s->set[i] & s->clash[d]) continue;
      if (s->nsets == MAX_SETS) {
        s->complete = false;
        return;
      }
      s->set[s->nsets++] = s->set[i] | (DimSet)1 << d;
    }
}

bool space_layout(const Space *s, Arena *a, const View *v, const DimSet *set, Layout *out) {
  *out = (Layout){.rule = arena_array(a, LayoutRule, s->ndims + 1)};
  for (uint32_t d = 0; d < s->ndims; d++) {
    LayoutRule r = {.dim = s->dim[d]->name};
    int64_t parts = 1;
    for (int k = 0; k < v->mesh->naxes; k++) {
      if (!(set[k] >> d & 1)) continue;
      r.axes.at[r.axes.n++] = v->order[k];
      parts *= v->mesh->axis[v->order[k]].size;
    }
    if (parts > s->dim[d]->size) return false;
    if (r.axes.n) out->rule[out->n++] = r;
  }
  return true;
}

// Returns the name of the axis if a layout(...) request in the model names this axis, else NULL.
static const char *pinned_name(const Space *s, const MeshAxis *axis) {
  const Graph *model = s->task->model;
  int k = mesh_axis(model->mesh, axis->name);
  return k >= 0 && axis_is_pinned(model, k) ? axis->name : NULL;
}

// -- sets in company ----------------------------------------------------------------------------

// Returns whether part i is split in company only.
static bool newly_split(const PartCosts *alone, const PartCosts *company, uint32_t i) {
  return !alone->split[i] && company->split[i];
}

// Returns the seconds of flow f of value v that an axis of p processors adds in company of an axis
// of two: at least its part of a sum over all 2 p. Only values count that the set alone neither
// splits nor moves.
static double new_flow(const PartCosts *alone, const PartCosts *company, double p, int f,
                       uint32_t v) {
  return alone->change[v] ? 0 : company->flow[f][v] * (1 - 1 / p) / (1 - 1 / (2 * p));
}

// Returns the seconds of work that the parts split in company only save on an axis of p processors,
// less the seconds of the values that move for it.
static double company_saves(const PartTable *parts, double p, const PartCosts *alone,
                            const PartCosts *company) {
  double saved = 0, flow = 0;
  for (uint32_t i = 0; i < parts->part.n; i++)
    if (!parts->part.at[i].held && newly_split(alone, company, i))
      saved += parts->part.at[i].amount * (1 - 1 / p);
  for (uint32_t v = 0; v < parts->nvalues; v++)
    for (int f = 0; f < FLOWS; f++) flow += parts->weight[v] * new_flow(alone, company, p, f, v);
  return saved - flow;
}

static void add_company(const PartTable *parts, double p, PartCosts *alone,
                        const PartCosts *company) {
  for (uint32_t i = 0; i < parts->part.n; i++)
    if (newly_split(alone, company, i)) alone->split[i] = company->split[i];
  for (uint32_t v = 0; v < parts->nvalues; v++) {
    double sum = 0;
    for (int f = 0; f < FLOWS; f++) {
      double more = new_flow(alone, company, p, f, v);
      alone->flow[f][v] += more;
      sum += more;
    }
    if (sum > 0) alone->change[v] = CHANGE_MOVED;
  }
}

// Changes `alone`, the cost of a set on one axis, to what the axis does in company of a second axis
// that splits the same set, if that is cheaper. A tensor that both axes split is smaller: a node
// that computes partial sums over one axis alone may in company gather that tensor, and be split
// along a dim that no rule names. All that follows is split so too, and gradients are summed. A
// bound that assumed that such parts are never split would exceed the cost.
static void split_in_company(const Space *s, const PartTable *parts, const MeshAxis *axis,
                             DimSet set, PartCosts *alone) {
  const Mesh both = {.naxes = 2, .axis = {*axis, {.name = axis->name, .size = 2}}};
  const View view = {.mesh = &both, .order = {0, 1}};
  Arena *a = arena_new();
  Layout layout;
  if (space_layout(s, a, &view, (DimSet[2]){set, set}, &layout)) {
    PartCosts company = cost_in_parts(a, s->task, parts, &both, &layout);
    if (company_saves(parts, (double)axis->size, alone, &company) > 0)
      add_company(parts, (double)axis->size, alone, &company);
  }
  arena_free(a);
}

// Returns whether an axis may have company: the meshes have further axes.
static bool has_company(const SearchTask *t, const MeshAxis *axis) {
  return axis->size > 1 && axis->size < mesh_size(t->mesh);
}

static AxisKind *kind_new(Space *s, const PartTable *parts, const MeshAxis *axis) {
  AxisKind *k = arena_new_of(s->a, AxisKind);
  *k = (AxisKind){.axis = axis,
                  .size = axis->size,
                  .link = machine_link(s->task->machine, axis->name),
                  .pinned = pinned_name(s, axis),
                  .set = arena_array(s->a, DimSet, s->nsets),
                  .alone = arena_array(s->a, PartCosts, s->nsets)};
  Mesh *mesh = arena_new_of(s->a, Mesh);
  *mesh = (Mesh){.naxes = 1, .axis = {*axis}};
  View view = {.mesh = mesh};
  uint32_t nsets = axis->size > 1 ? s->nsets : 1; // an axis of one processor splits nothing
  bool company = has_company(s->task, axis);
  for (uint32_t i = 0; i < nsets; i++) {
    Layout layout;
    if (!space_layout(s, s->a, &view, &s->set[i], &layout)) continue;
    k->alone[k->n] = cost_in_parts(s->a, s->task, parts, mesh, &layout);
    if (company) split_in_company(s, parts, axis, s->set[i], &k->alone[k->n]);
    k->set[k->n++] = s->set[i];
  }
  return k;
}

// Returns whether two axes are of one kind: they have the same size and link, and layout(...) in
// the model names neither, or both by the same name.
static bool same_kind(const Space *s, const MeshAxis *x, const MeshAxis *y) {
  Link a = machine_link(s->task->machine, x->name), b = machine_link(s->task->machine, y->name);
  const char *pin = pinned_name(s, x), *other = pinned_name(s, y);
  bool same_pin = pin ? other && !strcmp(pin, other) : !other;
  return same_pin && x->size == y->size && a.latency == b.latency && a.bandwidth == b.bandwidth;
}

// Returns the index in s->kind of the kind of an axis, after adding the kind if it is new.
static uint32_t kind_of(Space *s, const PartTable *parts, const MeshAxis *axis) {
  for (uint32_t i = 0; i < s->kind.n; i++)
    if (same_kind(s, s->kind.at[i]->axis, axis)) return i;
  vec_push(s->a, s->kind) = kind_new(s, parts, axis);
  return s->kind.n - 1;
}

double space_estimates(const Space *s) {
  const SearchTask *t = s->task;
  double n = 0;
  for (uint32_t i = 0; i < t->nmeshes * MAX_AXES; i++) {
    const Mesh *mesh = &t->mesh[i / MAX_AXES];
    if ((int)(i % MAX_AXES) >= mesh->naxes) continue;
    const MeshAxis *axis = &mesh->axis[i % MAX_AXES];
    bool isnew = true;
    for (uint32_t k = 0; k < i && isnew; k++)
      isnew = (int)(k % MAX_AXES) >= t->mesh[k / MAX_AXES].naxes ||
              !same_kind(s, &t->mesh[k / MAX_AXES].axis[k % MAX_AXES], axis);
    if (isnew) n += axis->size > 1 ? s->nsets * (1.0 + has_company(t, axis)) : 1;
  }
  return n;
}

const uint8_t space_orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                    {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

// Adds the views of a mesh, which are orders of its axes. Of orders with the same sequence of axis
// kinds (size and link) only the first becomes a view. Meshes of more than three axes get one view,
// in their own order.
static void add_views(Space *s, const PartTable *parts, const Mesh *mesh) {
  View own = {.mesh = mesh, .first = true};
  for (int k = 0; k < mesh->naxes; k++)
    own.order[k] = (uint8_t)k, own.kind[k] = kind_of(s, parts, &mesh->axis[k]);
  uint32_t before = s->view.n;
  vec_push(s->a, s->view) = own;
  for (int o = 1; o < 6 && mesh->naxes <= 3; o++) {
    View v = {.mesh = mesh};
    int n = 0;
    for (int k = 0; k < 3; k++) {
      if (space_orders[o][k] >= mesh->naxes) continue;
      v.order[n] = space_orders[o][k];
      v.kind[n++] = own.kind[space_orders[o][k]];
    }
    bool isnew = true;
    for (uint32_t i = before; i < s->view.n; i++)
      isnew &= memcmp(v.kind, s->view.at[i].kind, sizeof v.kind) != 0;
    if (isnew) vec_push(s->a, s->view) = v;
  }
}

void space_sets(Space *s) {
  find_clashes(s);
  find_sets(s);
}

void space_fill(Space *s, Arena *a, const SearchTask *t, const PartTable *parts) {
  space_dims(s, a, t);
  space_sets(s);
  for (uint32_t i = 0; i < t->nmeshes; i++) add_views(s, parts, &t->mesh[i]);
}
