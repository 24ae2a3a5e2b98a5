// Choices from which the joint search starts: what experts write first. On each mesh:
//
//   nothing is split
//   data      the dims of the inputs over all axes, the first dim (the batch) as far as it goes;
//             with and without ZeRO
//   tensor    one axis splits a set of dims that covers the parameters, such as heads, hidden units
//             and vocabulary: the sets with the lowest estimates on two processors;
//             the others split data; with and without a soft rule for data on that axis, and ZeRO
//   sequence  as tensor with a soft rule and ZeRO, but the axis splits a single dim of such a set: the
//             heads in attention, positions elsewhere. On a mesh of one axis each dim is tried:
//             estimates count scores that attention in blocks does not store
//   both      all axes split data and, beside it, those dims of such a set that are in no tensor with
//             these: the rows of tables of embeddings, say
//   dims      the layouts of dims with the lowest estimates, by branch and bound (search.c), and these
//             with ZeRO; if the space of dims is small
//   yours     the layout that the user has written
#include <math.h>

#include "partition/search/choices_internal.h"
#include "partition/search/estimates_internal.h"

// Kinds of seeds: the search prices some of each.
enum {
  NOTHING,
  DATA,
  DATA_SHARDED,
  TENSOR,
  TENSOR_SOFT,
  TENSOR_SHARDED,
  SOFT_SHARDED,
  TENSOR_WITHIN,
  SOFT_WITHIN,
  OTHER_SHARDED, // as SOFT_..., with the other set of dims
  OTHER_WITHIN,
  SEQUENCE,
  BOTH,
  DIMS,
  YOURS,
  SEQUENCE_ALONE // and the kinds after it, one for each dim of the set
};
enum {
  TENSOR_SETS = 2, // sets of dims of parameters that the seeds use
  SETS_TRIED = 24, // sets that are estimated to find them
  DIMS_KEPT = 3,   // layouts that branch and bound is to find, and its estimates for that
  DIMS_ESTIMATED = 60
};
// Share of the largest number of elements of parameters that such a set covers.
static const double NEARLY_ALL = 0.95;

typedef struct TensorSet {
  DimSet set;
  double seconds; // its estimate on two processors
} TensorSet;

typedef struct Seeds {
  Joint *j;
  Arena *a; // of layouts that are tried
  uint32_t data[MAX_DIMS];
  uint32_t ndata; // dims of inputs: the first dim of each input, then the second of each, ...
  TensorSet tensor[TENSOR_SETS + 1]; // the dims that an axis of tensors may split
  uint32_t ntensor;
  TriedList *out;
} Seeds;

static void add(Seeds *s, const Mesh *mesh, const Layout *l, uint8_t family) {
  joint_enter(s->j, mesh, l, family, s->out);
}

static bool is_data(const Seeds *s, uint32_t d) {
  for (uint32_t i = 0; i < s->ndata; i++)
    if (s->data[i] == d) return true;
  return false;
}

static void add_data_dim(Seeds *s, const Dim *dim) {
  const Space *space = &s->j->space;
  for (uint32_t d = 0; d < space->ndims; d++)
    if (space->dim[d] == dim && !is_data(s, d)) s->data[s->ndata++] = d;
}

static void find_data(Seeds *s) {
  const Graph *g = s->j->task->model;
  for (int place = 0; place < MAX_RANK; place++)
    for (uint32_t i = 0; i < g->decl.n; i++) {
      const Decl *d = &g->decl.at[i];
      if (d->kind == DECL_INPUT && place < d->rank)
        add_data_dim(s, dim_get(g->dims, d->dims[place]));
    }
}

static Layout with_axis(const Seeds *s, const Layout *l, LayoutRule rule, int axis) {
  rule.axes = joint_axes(l, &rule);
  rule.axes.at[rule.axes.n++] = (uint8_t)axis;
  return joint_with(s->j, s->a, l, &rule);
}

// Lets the axis split the first data dim that is long enough.
static Layout split_data(const Seeds *s, const Mesh *mesh, const Layout *l, int axis) {
  const Space *space = &s->j->space;
  for (uint32_t i = 0; i < s->ndata; i++) {
    const Dim *d = space->dim[s->data[i]];
    LayoutRule rule = {.dim = d->name};
    int64_t parts = axes_size(mesh, joint_axes(l, &rule)) * mesh->axis[axis].size;
    if (d->size % parts == 0) return with_axis(s, l, rule, axis);
  }
  return *l;
}

// Returns the axes that can split something, but not axis `but`.
static Axes all_axes(const Mesh *mesh, int but) {
  Axes splitting = joint_splitting(mesh), all = {0};
  for (int i = 0; i < splitting.n; i++)
    if (splitting.at[i] != but) all.at[all.n++] = splitting.at[i];
  return all;
}

// Adds the layout with tensors of one or two kinds split over all axes, or parameters over all but
// axis `but`. The latter are of the family `within`, so that some of both are priced.
static void add_sharded(Seeds *s, const Mesh *mesh, const Layout *l, int but, uint8_t family,
                        uint8_t within) {
  static const struct {
    LayoutScope scope, also; // equal: one kind
    bool all;                // `scope` over all axes; `also` always is
  } ways[] = {{LAYOUT_PARAMETERS, LAYOUT_GRADIENTS, false},
              {LAYOUT_PARAMETERS, LAYOUT_GRADIENTS, true},
              {LAYOUT_OPTIMIZER, LAYOUT_OPTIMIZER, true},
              {LAYOUT_PARAMETERS, LAYOUT_PARAMETERS, true}};
  for (size_t i = 0; i < countof(ways); i++) {
    LayoutRule rule = {.scope = ways[i].scope, .axes = all_axes(mesh, ways[i].all ? -1 : but)};
    LayoutRule also = {.scope = ways[i].also, .axes = all_axes(mesh, -1)};
    Layout with = joint_with(s->j, s->a, l, &rule);
    with = joint_with(s->j, s->a, &with, &also);
    add(s, mesh, &with, ways[i].all ? family : within);
  }
}

static Layout data_layout(const Seeds *s, const Mesh *mesh, int but) {
  Layout l = {.rule = arena_array(s->a, LayoutRule, 1)};
  Axes axes = all_axes(mesh, but);
  for (int i = 0; i < axes.n; i++) l = split_data(s, mesh, &l, axes.at[i]);
  return l;
}

// Returns the number of elements of all parameters that have a dim of the set.
static double covered(const Seeds *s, DimSet set) {
  const Graph *g = s->j->task->model;
  double sum = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *d = &g->decl.at[i];
    double elements = 1;
    bool has = false;
    for (int k = 0; k < d->rank; k++) {
      const Dim *dim = dim_get(g->dims, d->dims[k]);
      elements *= (double)dim->size;
      for (uint32_t x = 0; x < s->j->space.ndims; x++)
        has |= (set >> x & 1) && s->j->space.dim[x] == dim;
    }
    if (d->kind == DECL_PARAM && has) sum += elements;
  }
  return sum;
}

// Returns whether each dim of the set covers parameters that the others do not.
static bool is_needed(const Seeds *s, DimSet set) {
  for (uint32_t d = 0; set >> d; d++)
    if ((set >> d & 1) && covered(s, set & ~((DimSet)1 << d)) == covered(s, set)) return false;
  return true;
}

// Inserts a set of dims into s->tensor, those with the lowest estimates first.
static void insert_set(Seeds *s, TensorSet new) {
  uint32_t i = s->ntensor < TENSOR_SETS ? s->ntensor++ : TENSOR_SETS;
  for (; i > 0 && new.seconds < s->tensor[i - 1].seconds; i--) s->tensor[i] = s->tensor[i - 1];
  s->tensor[i] = new;
}

// A set of dims that an axis of tensors may split, and the layout that does so.
typedef struct TriedSet {
  DimSet set;
  Layout layout;
} TriedSet;

// Lists the sets of dims that together occur in nearly all elements of parameters, with no dim of
// data among them; at most SETS_TRIED. Returns their number.
static uint32_t list_sets(const Seeds *s, const Mesh *two, TriedSet *out) {
  const Space *space = &s->j->space;
  View view = {.mesh = two};
  double most = 0;
  DimSet data = 0;
  uint32_t n = 0, tried = 0;
  for (uint32_t i = 0; i < s->ndata; i++) data |= (DimSet)1 << s->data[i];
  for (uint32_t i = 0; i < space->nsets; i++)
    if (!(space->set[i] & data)) most = fmax(most, covered(s, space->set[i]));
  for (uint32_t i = 1; i < space->nsets && tried < SETS_TRIED; i++) {
    DimSet set = out[n].set = space->set[i];
    if ((set & data) || covered(s, set) < NEARLY_ALL * most || !is_needed(s, set)) continue;
    tried++;
    n += space_layout(space, s->a, &view, &set, &out[n].layout);
  }
  return n;
}

// Finds the sets of dims that an axis of tensors splits: those with the lowest estimates on two
// processors.
static void find_tensor(Seeds *s) {
  static const Mesh two = {.naxes = 1, .axis = {{.name = "axis", .size = 2}}};
  TriedSet tried[SETS_TRIED];
  Estimate of[SETS_TRIED];
  uint32_t n = list_sets(s, &two, tried);
  for (uint32_t i = 0; i < n; i++) of[i] = (Estimate){.mesh = &two, .layout = &tried[i].layout};
  estimate_all(s->j->task, n, of);
  for (uint32_t i = 0; i < n; i++) insert_set(s, (TensorSet){tried[i].set, of[i].cost.seconds});
}

// Adds the dims of the set that are long enough to the axis of the layout.
static Layout split_tensors(const Seeds *s, const Mesh *mesh, Layout l, int axis, DimSet set) {
  const Space *space = &s->j->space;
  for (uint32_t d = 0; d < space->ndims; d++)
    if ((set >> d & 1) && space->dim[d]->size % mesh->axis[axis].size == 0)
      l = with_axis(s, &l, (LayoutRule){.dim = space->dim[d]->name}, axis);
  return l;
}

// The layout of lowest estimate so far in which `axis` splits the dims `set` of tensors.
typedef struct Base {
  const Tried *tried; // NULL: there is none
  int axis;
  DimSet set;
} Base;

// Adds a layout, and makes it the base if its estimate is lower.
static void add_base(Seeds *s, const Mesh *mesh, const Layout *l, uint8_t family, int axis,
                     DimSet set, Base *base) {
  uint32_t before = s->out->n;
  add(s, mesh, l, family);
  if (s->out->n == before) return;
  Tried *c = s->out->at[before];
  if (!joint_estimate(s->j, c)) return;
  if (!base->tried || c->order < base->tried->order) *base = (Base){c, axis, set};
}

static LayoutRule soft_data(const Seeds *s) {
  return (LayoutRule){.dim = s->j->space.dim[s->data[s->ndata > 1]]->name, .soft = true};
}

// Adds the layouts in which the axis splits the dims of tensors, and the other axes split data,
// without and with a soft rule for data on that axis.
static void add_tensor(Seeds *s, const Mesh *mesh, int axis, DimSet set, Base *plain, Base *soft) {
  Layout l = split_tensors(s, mesh, data_layout(s, mesh, axis), axis, set);
  add_base(s, mesh, &l, TENSOR, axis, set, plain);
  if (!s->ndata) return;
  l = with_axis(s, &l, soft_data(s), axis);
  add_base(s, mesh, &l, TENSOR_SOFT, axis, set, soft);
}

// Adds the layouts in which the axis of the base splits one of its dims of tensors and, where that
// dim is not, data; the other axes split data. Parameters are split over all axes.
static void add_sequence(Seeds *s, const Mesh *mesh, const Base *base) {
  LayoutRule shard = {.scope = LAYOUT_PARAMETERS, .axes = all_axes(mesh, -1)};
  int nth = 0;
  for (uint32_t d = 0; base->set >> d; d++) {
    if (!(base->set >> d & 1)) continue;
    Layout l = data_layout(s, mesh, base->axis);
    l = split_tensors(s, mesh, l, base->axis, (DimSet)1 << d);
    l = with_axis(s, &l, soft_data(s), base->axis);
    l = joint_with(s->j, s->a, &l, &shard);
    add(s, mesh, &l, joint_splitting(mesh).n > 1 ? SEQUENCE : (uint8_t)(SEQUENCE_ALONE + nth++));
  }
}

static void add_base_sharded(Seeds *s, const Mesh *mesh, const Base *base, uint8_t family,
                             uint8_t within) {
  if (base->tried) add_sharded(s, mesh, &base->tried->choice.layout, base->axis, family, within);
}

static bool is_lower(const Base *x, const Base *y) {
  return x->tried && (!y->tried || x->tried->order < y->tried->order);
}

// Adds the layouts with an axis for tensors. Only those with the lowest estimates on this mesh are
// added with ZeRO, too: estimates take time. Those of different sets of dims, such as the two kinds
// of heads of grouped queries, are too close for estimates.
static void add_tensors(Seeds *s, const Mesh *mesh) {
  Base plain = {0}, soft[TENSOR_SETS] = {{0}};
  Axes axes = joint_splitting(mesh);
  for (int i = 0; i < axes.n; i++)
    for (uint32_t n = 0; n < s->ntensor && n < (axes.n > 2 ? 1 : TENSOR_SETS); n++)
      add_tensor(s, mesh, axes.at[i], s->tensor[n].set, &plain, &soft[n]);
  bool second = is_lower(&soft[1], &soft[0]);
  add_base_sharded(s, mesh, &plain, TENSOR_SHARDED, TENSOR_WITHIN);
  add_base_sharded(s, mesh, &soft[second], SOFT_SHARDED, SOFT_WITHIN);
  add_base_sharded(s, mesh, &soft[!second], OTHER_SHARDED, OTHER_WITHIN);
  if (soft[second].tried) add_sequence(s, mesh, &soft[second]);
}

static bool clashes_with_data(const Seeds *s, uint32_t d) {
  for (uint32_t i = 0; i < s->ndata; i++)
    if (s->j->space.clash[d] >> s->data[i] & 1) return true;
  return false;
}

// Adds the layout in which all axes split data and also the dims of parameters that never meet
// these, with and without ZeRO.
static void add_both(Seeds *s, const Mesh *mesh) {
  const Space *space = &s->j->space;
  Layout l = data_layout(s, mesh, -1);
  uint32_t before = l.n;
  for (uint32_t d = 0; d < space->ndims; d++) {
    LayoutRule rule = {.dim = space->dim[d]->name, .axes = all_axes(mesh, -1)};
    bool fits = space->dim[d]->size % axes_size(mesh, rule.axes) == 0;
    if (!is_data(s, d) && !clashes_with_data(s, d) && fits && covered(s, (DimSet)1 << d) > 0)
      l = joint_with(s->j, s->a, &l, &rule);
  }
  if (l.n == before) return;
  add(s, mesh, &l, BOTH);
  add_sharded(s, mesh, &l, -1, BOTH, BOTH);
}

static void add_own(Seeds *s) {
  const SearchChoice *own = s->j->task->own;
  if (own) add(s, own->mesh, &own->layout, YOURS);
}

// Branch and bound first estimates each set of dims on each kind of axis (space_fill).
static void add_dims(Seeds *s) {
  Joint *j = s->j;
  SearchTask t = *j->task;
  double estimates = space_estimates(&j->space) + DIMS_ESTIMATED;
  double work = joint_estimates(j, estimates);
  if (work > j->work / 4 || !joint_spend(j, work)) return;
  t.memory = (double)INFINITY;
  t.keep = DIMS_KEPT;
  t.estimates = DIMS_ESTIMATED;
  t.estimated = NULL;
  const SearchResult *r = search_layouts(j->a, &t);
  for (uint32_t i = 0; i < r->n; i++) {
    add(s, r->at[i].mesh, &r->at[i].layout, DIMS);
    add_sharded(s, r->at[i].mesh, &r->at[i].layout, -1, DIMS, DIMS);
  }
}

void joint_seeds(Joint *j, TriedList *out) {
  Seeds s = {.j = j, .a = arena_new(), .out = out};
  find_data(&s);
  find_tensor(&s);
  add_own(&s);
  for (uint32_t i = 0; i < j->task->nmeshes; i++) {
    const Mesh *mesh = &j->task->mesh[i];
    Layout data = data_layout(&s, mesh, -1);
    add(&s, mesh, &(Layout){0}, NOTHING);
    add(&s, mesh, &data, DATA);
    add_sharded(&s, mesh, &data, -1, DATA_SHARDED, DATA_SHARDED);
    add_both(&s, mesh);
    add_tensors(&s, mesh);
  }
  add_dims(&s); // after the others, which keep their families where it finds the same
  arena_free(s.a);
}
