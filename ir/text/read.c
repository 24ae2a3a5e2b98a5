// Text to graph: the inverse of print.c. One function a kind of line; nothing is trusted, nodes go
// through graph_try, and the ids, types and dims in the text must be what comes out.
#include <string.h>

#include "ir/text/scan_internal.h"

enum { MAX_DIM_SIZE = INT32_MAX, MAX_FACTOR = 1 << 30 };

typedef struct Reader {
  Scanner s;
  Graph *g;
  Mesh *mesh;
  VEC(DataField) field; // of the data block being read
  int block;            // a BlockKind, or -1 before the first
  bool in_field;        // a field line waits for its source line
  VEC(TrainSpec) train;
  bool in_train; // a train line waits for its optimizer line
} Reader;

// -- references ---------------------------------------------------------------------------------

static bool read_dim(Reader *r, DimId *out) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  *out = dim_find(r->g->dims, name);
  return *out || scan_fail(&r->s, at, "no dim is called %s", name);
}

static bool read_whole(Reader *r, DimId *out) {
  const char *at = scan_here(&r->s);
  if (!read_dim(r, out)) return false;
  const Dim *d = dim_get(r->g->dims, *out);
  return d->whole == *out || scan_fail(&r->s, at, "%s is a block", d->name);
}

// "[b, h]"
static bool read_dims(Reader *r, uint8_t *n, DimId *d) {
  *n = 0;
  if (!scan_expect(&r->s, "[")) return false;
  while (!scan_accept(&r->s, "]")) {
    if (*n == MAX_RANK) return scan_fail(&r->s, r->s.p, "more than %d dims", MAX_RANK);
    if ((*n && !scan_expect(&r->s, ",")) || !read_dim(r, &d[*n])) return false;
    (*n)++;
  }
  return true;
}

// The same of distinct whole dims.
static bool read_order(Reader *r, uint8_t *n, DimId *d) {
  const char *at = scan_here(&r->s);
  if (!read_dims(r, n, d)) return false;
  for (int i = 0; i < *n; i++) {
    if (dim_get(r->g->dims, d[i])->whole != d[i])
      return scan_fail(&r->s, at, "a block stands here");
    for (int j = 0; j < i; j++)
      if (d[i] == d[j]) return scan_fail(&r->s, at, "a dim occurs here twice");
  }
  return true;
}

static bool read_axis(Reader *r, uint8_t *out) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  int axis = mesh_axis(r->mesh, name);
  if (axis < 0) return scan_fail(&r->s, at, "the mesh has no axis %s", name);
  *out = (uint8_t)axis;
  return true;
}

static bool read_axes(Reader *r, Axes *out) {
  *out = (Axes){0};
  if (!scan_expect(&r->s, "[")) return false;
  while (!scan_accept(&r->s, "]")) {
    uint8_t axis = 0;
    const char *at = scan_here(&r->s);
    if ((out->n && !scan_expect(&r->s, ",")) || !read_axis(r, &axis)) return false;
    if (axes_has(*out, axis)) return scan_fail(&r->s, at, "an axis occurs here twice");
    out->at[out->n++] = axis;
  }
  return true;
}

static bool read_decl_name(Reader *r, DeclId *out) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  *out = graph_find_decl(r->g, name);
  return *out || scan_fail(&r->s, at, "nothing is declared as %s", name);
}

static bool line_end(Reader *r, Pos *at) { return scan_origin(&r->s, at, NULL, NULL); }

// -- header, dims -------------------------------------------------------------------------------

static bool read_mesh_axis(Reader *r) {
  Mesh *m = r->mesh;
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  if (m->naxes == MAX_AXES) return scan_fail(&r->s, at, "more than %d axes", MAX_AXES);
  if (mesh_axis(m, name) >= 0) return scan_fail(&r->s, at, "two axes are called %s", name);
  int64_t size, processors = mesh_size(m);
  if (!scan_expect(&r->s, "=") || !scan_long(&r->s, 1, MAX_DIM_SIZE, &size)) return false;
  if (!size_mul(processors, size, &processors) || processors > MAX_DIM_SIZE)
    return scan_fail(&r->s, at, "the mesh is too large");
  m->axis[m->naxes++] = (MeshAxis){.name = name, .size = size};
  return true;
}

static bool read_stage(Reader *r) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  for (int i = 0; i < STAGE_COUNT; i++) {
    if (strcmp(stage_text((Stage)i), name) != 0) continue;
    r->g->stage = (Stage)i;
    return true;
  }
  return scan_fail(&r->s, at, "no stage is called %s", name);
}

static LayoutScope read_scope(Reader *r, const char **pattern) {
  static const struct {
    const char *word;
    LayoutScope scope;
  } scopes[] = {{"optimizer:", LAYOUT_OPTIMIZER},
                {"parameters:", LAYOUT_PARAMETERS},
                {"gradients:", LAYOUT_GRADIENTS}};
  for (size_t i = 0; i < countof(scopes); i++)
    if (scan_accept(&r->s, scopes[i].word)) return scopes[i].scope;
  if (!scan_accept_word(&r->s, "tensor")) return LAYOUT_ALL;
  *pattern = scan_word(&r->s);
  return LAYOUT_TENSOR;
}

static bool read_rule(Reader *r, LayoutRule *rule) {
  Scanner *s = &r->s;
  *rule = (LayoutRule){.soft = scan_accept_word(s, "soft")};
  rule->scope = read_scope(r, &rule->pattern);
  if (rule->scope == LAYOUT_TENSOR && (!rule->pattern || !scan_expect(s, ":"))) return false;
  if (!scan_accept_word(s, "all") && !(rule->dim = scan_word(s))) return false;
  if (!scan_expect(s, "->")) return false;
  rule->none = scan_accept_word(s, "none");
  return rule->none || read_axes(r, &rule->axes);
}

static bool read_layout(Reader *r) {
  Scanner *s = &r->s;
  VEC(LayoutRule) rule = {0};
  if (!scan_expect(s, "(")) return false;
  while (!scan_accept(s, ")")) {
    LayoutRule one;
    if ((rule.n && !scan_expect(s, ",")) || !read_rule(r, &one)) return false;
    vec_push(s->arena, rule) = one;
  }
  r->g->layout = (Layout){rule.n, rule.at};
  return true;
}

// Where rule N of the layout stands.
static bool read_rule_line(Reader *r) {
  int64_t n;
  Pos at = {0};
  if (!scan_long(&r->s, 1, r->g->layout.n, &n) || !line_end(r, &at)) return false;
  LayoutRule *rule = &r->g->layout.rule[n - 1];
  rule->pos = rule->dim_pos = rule->axis_pos = at;
  return true;
}

static bool read_header(Reader *r) {
  Scanner *s = &r->s;
  if (!scan_line(s)) return scan_fail(s, s->p, "the text is empty");
  if (!scan_accept_word(s, "graph")) return scan_fail(s, s->p, "a graph begins with: graph STAGE");
  if (!read_stage(r) || !scan_expect(s, "mesh") || !scan_expect(s, "(")) return false;
  while (!scan_accept(s, ")"))
    if ((r->mesh->naxes && !scan_expect(s, ",")) || !read_mesh_axis(r)) return false;
  if (scan_accept_word(s, "layout") && !read_layout(r)) return false;
  if (scan_accept_word(s, "model") && !(r->g->model = scan_word(s))) return false;
  return line_end(r, &r->mesh->pos);
}

static bool read_axis_line(Reader *r) {
  uint8_t axis = 0;
  return read_axis(r, &axis) && line_end(r, &r->mesh->axis[axis].pos);
}

static bool read_seed(Reader *r) {
  Pos at;
  return scan_seed(&r->s, &r->g->spec.seed) && line_end(r, &at);
}

static bool read_dim_line(Reader *r) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  int64_t size;
  if (!name || !scan_expect(&r->s, "=") || !scan_long(&r->s, 1, MAX_DIM_SIZE, &size)) return false;
  if (dim_find(r->g->dims, name)) return scan_fail(&r->s, at, "two dims are called %s", name);
  DimId first = 0;
  if (scan_accept_word(&r->s, "follows") && !read_whole(r, &first)) return false;
  Pos pos;
  if (!line_end(r, &pos)) return false;
  DimId d = dim_add(r->g->dims, name, size, pos);
  if (first) dim_set_follows(r->g->dims, d, first);
  return true;
}

// "[1, 1, -1, 1]"; what positions reach must fit 63 bits.
static bool read_affine(Reader *r, Affine *out) {
  int64_t n;
  const double *x;
  const char *at = scan_here(&r->s);
  if (!scan_reals(&r->s, &n, &x)) return false;
  if (n != 4) return scan_fail(&r->s, at, "four numbers stand here");
  for (int i = 0; i < 4; i++)
    if (!(x[i] >= -(double)MAX_FACTOR && x[i] <= (double)MAX_FACTOR))
      return scan_fail(&r->s, at, "an affine has numbers up to %d", (int)MAX_FACTOR);
  *out = (Affine){(int64_t)x[0], (int64_t)x[1], (int64_t)x[2], (int64_t)x[3]};
  return true;
}

static bool read_footprint_line(Reader *r) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  int64_t size;
  DimId whole, of, tap = 0;
  Affine affine;
  Pos pos;
  if (!name || !scan_expect(s, "=") || !scan_long(s, 1, MAX_DIM_SIZE, &size) ||
      !scan_expect(s, "of") || !read_whole(r, &whole) || !scan_expect(s, "by") ||
      !read_dim(r, &of) || (scan_accept_word(s, "taps") && !read_dim(r, &tap)) ||
      !scan_expect(s, "affine") || !read_affine(r, &affine) || !line_end(r, &pos))
    return false;
  if (affine.divisor <= 0) return scan_fail(s, at, "its divisor is not positive");
  if (dim_get(r->g->dims, of)->out || (tap && dim_get(r->g->dims, tap)->out))
    return scan_fail(s, at, "a footprint dim is read by blocks");
  DimId before = dim_find(r->g->dims, name),
        d = dim_footprint(r->g->dims, r->mesh, whole, of, tap, affine);
  const Dim *dim = dim_get(r->g->dims, d);
  if (before == d) return scan_fail(s, at, "%s occurs twice", name);
  if (before || dim->name != name || dim->size != size)
    return scan_fail(s, at, "the footprint is %s = %lld", dim->name, (long long)dim->size);
  return true;
}

static bool read_block_line(Reader *r) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  int64_t size;
  DimId whole;
  Axes axes;
  Pos pos;
  if (!name || !scan_expect(s, "=") || !scan_long(s, 0, MAX_DIM_SIZE, &size) ||
      !scan_expect(s, "of") || !read_whole(r, &whole) || !scan_expect(s, "over") ||
      !read_axes(r, &axes) || !line_end(r, &pos))
    return false;
  if (axes.n == 0) return scan_fail(s, at, "a block needs an axis");
  DimId before = dim_find(r->g->dims, name);
  DimId d = dim_block(r->g->dims, r->mesh, whole, axes);
  const Dim *dim = dim_get(r->g->dims, d);
  if (before == d) return scan_fail(s, at, "%s occurs twice", name);
  if (before || dim->name != name || dim->size != size)
    return scan_fail(s, at, "the block is %s = %lld", dim->name, (long long)dim->size);
  return true;
}

// -- declarations -------------------------------------------------------------------------------

static bool read_init(Reader *r, Init *init) {
  int kind = scan_enum(&r->s, &init_kinds);
  if (kind < 0 || !scan_record(&r->s, &init_record, init)) return false;
  init->kind = (InitKind)kind;
  bool data = scan_accept(&r->s, "[");
  if (!data) return true;
  r->s.p--; // scan_reals passes the bracket
  return scan_reals(&r->s, &init->ndata, &init->data);
}

static bool init_fits(Reader *r, const char *at, const Decl *d) {
  Dims dims = {.n = d->rank};
  memcpy(dims.at, d->dims, sizeof dims.at);
  int64_t n;
  if (!dims_elements(r->g->dims, &dims, &n))
    return scan_fail(&r->s, at, "%s is too large", d->name);
  bool data = d->init.kind == INIT_DATA;
  if (data ? d->init.ndata != n : d->init.ndata != 0)
    return scan_fail(&r->s, at, "%s does not hold %lld number%s", d->name, (long long)d->init.ndata,
                     plural(d->init.ndata));
  int split = d->init.split, each = d->init.each, all = (1 << d->rank) - 1;
  if (d->init.kind == INIT_ORTHOGONAL && ((split & ~all) || (each & ~all) || (split & each)))
    return scan_fail(&r->s, at, "%s has no such dims", d->name);
  if (d->init.kind == INIT_FILE && !d->init.path) return scan_fail(&r->s, at, "no path is given");
  return true;
}

static bool read_decl(Reader *r, DeclKind kind) {
  Scanner *s = &r->s;
  Decl d = {.kind = kind};
  const char *at = scan_here(s);
  d.name = scan_word(s);
  if (!d.name || !scan_expect(s, ":") || !scan_type(s, &d.type) || !read_order(r, &d.rank, d.dims))
    return false;
  if (graph_find_decl(r->g, d.name)) return scan_fail(s, at, "%s is declared twice", d.name);
  if (scan_accept_word(s, "of") && !read_decl_name(r, &d.of)) return false;
  if (scan_accept(s, "=") && !read_init(r, &d.init)) return false;
  d.frozen = scan_accept_word(s, "frozen");
  if (!line_end(r, &d.pos) || !init_fits(r, at, &d)) return false;
  graph_decl(r->g, &d);
  return true;
}

static bool read_input(Reader *r) { return read_decl(r, DECL_INPUT); }
static bool read_param(Reader *r) { return read_decl(r, DECL_PARAM); }
static bool read_state(Reader *r) { return read_decl(r, DECL_STATE); }
static bool read_slot(Reader *r) { return read_decl(r, DECL_SLOT); }

// -- spec ---------------------------------------------------------------------------------------

static void close_block(Reader *r) {
  if (r->block < 0) return;
  DataBlock *b = &r->g->spec.data[r->block];
  b->nfields = r->field.n;
  b->field = r->field.at;
  memset(&r->field, 0, sizeof r->field);
  r->block = -1;
}

static bool read_data(Reader *r) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  close_block(r);
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (strcmp(block_text((BlockKind)k), name) == 0) r->block = k;
  if (r->block < 0) return scan_fail(&r->s, at, "no data block is called %s", name);
  DataBlock *b = &r->g->spec.data[r->block];
  if (b->present) return scan_fail(&r->s, at, "a second block %s", name);
  b->present = true;
  if (scan_accept_word(&r->s, "over") && !read_whole(r, &b->over)) return false;
  return scan_record(&r->s, &block_record, b) && line_end(r, &b->pos);
}

static bool read_field(Reader *r) {
  DataField f = {0};
  if (r->block < 0 || r->in_field)
    return scan_fail(&r->s, r->s.p, "a field must be in a data block");
  f.input = scan_word(&r->s);
  if (!f.input || !line_end(r, &f.pos)) return false;
  vec_push(r->s.arena, r->field) = f;
  r->in_field = true;
  return true;
}

static bool read_source(Reader *r) {
  if (!r->in_field) return scan_fail(&r->s, r->s.p, "a source follows its field");
  DataSource *source = &r->field.at[r->field.n - 1].source;
  int kind = scan_enum(&r->s, &source_kinds);
  if (kind < 0) return false;
  source->kind = (SourceKind)kind;
  r->in_field = false;
  return scan_record(&r->s, &source_record, source) && line_end(r, &source->pos);
}

static bool read_train(Reader *r) {
  TrainSpec t = {0};
  if (r->in_train) return scan_fail(&r->s, r->s.p, "the block before has no optimizer");
  t.loss = scan_word(&r->s);
  if (!t.loss || !scan_record(&r->s, &train_record, &t) || !line_end(r, &t.pos)) return false;
  if (!*t.loss) t.loss = NULL;
  bool piecewise = t.schedule.kind == SCHEDULE_PIECEWISE;
  if (t.schedule.npieces < piecewise || t.schedule.npieces > MAX_PIECES)
    return scan_fail(&r->s, r->s.p, "a schedule has up to %d pieces", MAX_PIECES);
  vec_push(r->s.arena, r->train) = t;
  r->in_train = true;
  return true;
}

static bool read_optimizer_of(Reader *r, OptimizerSpec *o) {
  int kind = scan_enum(&r->s, &optimizer_kinds);
  if (kind < 0) return false;
  o->kind = (OptimizerKind)kind;
  return scan_record(&r->s, &optimizer_record, o) && line_end(r, &o->pos);
}

static bool read_optimizer(Reader *r) {
  if (!r->in_train) return scan_fail(&r->s, r->s.p, "an optimizer follows its train line");
  r->in_train = false;
  return read_optimizer_of(r, &r->train.at[r->train.n - 1].optimizer);
}

static bool read_group(Reader *r) {
  if (r->in_train || !r->train.n)
    return scan_fail(&r->s, r->s.p, "a group follows the optimizer of its block");
  TrainSpec *t = &r->train.at[r->train.n - 1];
  GroupSpec *grown = arena_array(r->s.arena, GroupSpec, t->ngroups + 1);
  if (t->ngroups) memcpy(grown, t->group, t->ngroups * sizeof *grown);
  t->group = grown;
  grown[t->ngroups].pattern = scan_word(&r->s);
  return grown[t->ngroups].pattern && read_optimizer_of(r, &grown[t->ngroups++].optimizer);
}

// -- nodes --------------------------------------------------------------------------------------

// A node while its line is read.
typedef struct Line {
  Op op;
  int nargs;
  NodeId args[MAX_ARGS];
  Attr attr;
  DimId dims[MAX_RANK], to[MAX_RANK];
  uint16_t instance;
  Dtype type;
  uint8_t rank;
  DimId shape[MAX_RANK];
  Origin origin;
} Line;

static bool key_decl(Reader *r, Line *l) { return read_decl_name(r, &l->attr.decl); }
static bool key_dims(Reader *r, Line *l) { return read_dims(r, &l->attr.ndims, l->dims); }
static bool key_to(Reader *r, Line *l) { return read_dims(r, &l->attr.nto, l->to); }
static bool key_axes(Reader *r, Line *l) { return read_axes(r, &l->attr.axes); }
static bool key_data(Reader *r, Line *l) {
  return scan_reals(&r->s, &l->attr.ndata, &l->attr.data);
}

static bool key_num(Reader *r, Line *l) {
  int64_t n;
  const double *x;
  const char *at = scan_here(&r->s);
  if (!scan_reals(&r->s, &n, &x)) return false;
  if (n < 1 || n > 2) return scan_fail(&r->s, at, "one or two numbers stand here");
  memcpy(l->attr.num, x, (size_t)n * sizeof *x);
  return true;
}

static bool key_monoid(Reader *r, Line *l) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  for (int m = MONOID_SUM; m < MONOID_COUNT; m++)
    if (strcmp(monoid_text((Monoid)m), name) == 0) l->attr.monoid = (Monoid)m;
  return l->attr.monoid || scan_fail(&r->s, at, "no monoid is called %s", name);
}

static bool key_affine(Reader *r, Line *l) { return read_affine(r, &l->attr.affine); }

static bool key_key(Reader *r, Line *l) { return scan_seed(&r->s, &l->attr.key); }

// Keys whose value is a positive number of 16 or 32 bits.
static const struct NumberKey {
  const char *name;
  int64_t most;
  size_t offset, size;
} number_keys[] = {
#define KEY(name, most, field)                                                                     \
  { name, most, offsetof(Line, field), sizeof((Line *)0)->field }
    KEY("carry", MAX_ARGS - 1, attr.carry),
    KEY("tag", UINT32_MAX, attr.tag),
    KEY("flags", 7, attr.flags),
    KEY("region", UINT16_MAX, attr.region),
    KEY("instance", UINT16_MAX, instance),
    KEY("composite", UINT32_MAX, origin.composite),
#undef KEY
};

static bool read_number_key(Reader *r, Line *l, const struct NumberKey *k) {
  int64_t n;
  if (!scan_long(&r->s, 1, k->most, &n)) return false;
  uint16_t narrow = (uint16_t)n;
  uint32_t wide = (uint32_t)n;
  memcpy((char *)l + k->offset, k->size == sizeof narrow ? (void *)&narrow : &wide, k->size);
  return true;
}

static bool read_key(Reader *r, Line *l) {
  static const struct {
    const char *name;
    bool (*read)(Reader *r, Line *l);
  } keys[] = {{"decl", key_decl}, {"num", key_num},       {"dims", key_dims},
              {"to", key_to},     {"axes", key_axes},     {"monoid", key_monoid},
              {"data", key_data}, {"affine", key_affine}, {"key", key_key}};
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  if (!name) return false;
  if (strcmp(name, "backward") == 0) return l->origin.backward = true;
  for (size_t i = 0; i < countof(keys); i++)
    if (strcmp(keys[i].name, name) == 0) return scan_expect(&r->s, "=") && keys[i].read(r, l);
  for (size_t i = 0; i < countof(number_keys); i++)
    if (strcmp(number_keys[i].name, name) == 0)
      return scan_expect(&r->s, "=") && read_number_key(r, l, &number_keys[i]);
  return scan_fail(&r->s, at, "no attribute is called %s", name);
}

static bool read_op(Reader *r, Line *l) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  if (!name) return false;
  if (!op_parse(name, &l->op)) return scan_fail(s, at, "no operation is called %s", name);
  if (!scan_expect(s, "(")) return false;
  while (!scan_accept(s, ")")) {
    if (l->nargs == (int)countof(l->args)) return scan_fail(s, s->p, "too many arguments");
    if (l->nargs && !scan_expect(s, ",")) return false;
    if (!scan_node(s, graph_count(r->g), &l->args[l->nargs++])) return false;
  }
  if (!scan_accept(s, "{")) return true;
  for (bool first = true; !scan_accept(s, "}"); first = false)
    if ((!first && !scan_expect(s, ",")) || !read_key(r, l)) return false;
  return true;
}

// The text states what follows from the rest: they must agree.
static bool node_agrees(Reader *r, const char *at, const Line *l, NodeId id, NodeId want) {
  const Node *n = graph_node(r->g, id);
  if (id != want) return scan_fail(&r->s, at, "the node is equal to %%%u", id);
  if (n->type == l->type && n->dims.n == l->rank &&
      memcmp(n->dims.at, l->shape, l->rank * sizeof l->shape[0]) == 0)
    return true;
  return scan_fail(&r->s, at, "the node is %s[%s]", dtype_text((Dtype)n->type),
                   dims_text(r->s.arena, r->g->dims, &n->dims));
}

// Graph text writes Origin.gradient_of and Output.gradient_of as the form of a name: the "w" of
// "grad(w)". NULL: another name, or none.
static const char *read_gradient_of(const Reader *r, const char *name) {
  size_t n = name ? strlen(name) : 0;
  if (n < 7 || memcmp(name, "grad(", 5) != 0 || name[n - 1] != ')') return NULL;
  return intern_n(r->s.names, name + 5, n - 6);
}

static bool read_node(Reader *r) {
  Scanner *s = &r->s;
  Line l = {0};
  const char *at = scan_here(s);
  NodeId id, want = graph_count(r->g) + 1;
  if (!scan_node(s, UINT32_MAX, &id)) return false;
  if (id != want) return scan_fail(s, at, "the next node is %%%u", want);
  if (!scan_expect(s, "=") || !read_op(r, &l) || !scan_expect(s, ":") || !scan_type(s, &l.type) ||
      !read_dims(r, &l.rank, l.shape))
    return false;
  if (!scan_origin(s, &l.origin.pos, &l.origin.value, &l.origin.why)) return false;
  l.origin.gradient_of = read_gradient_of(r, l.origin.value);
  l.attr.type = l.type;
  l.attr.dims = l.dims;
  l.attr.to = l.to;
  r->g->origin = l.origin;
  char why[200];
  id = graph_try(r->g, l.op, l.nargs, l.args, &l.attr, l.instance, why);
  return id ? node_agrees(r, at, &l, id, want) : scan_fail(s, at, "%s", why);
}

static bool read_region(Reader *r) {
  Scanner *s = &r->s;
  Region region = {0};
  uint8_t n;
  int64_t id, parent;
  DimId t[MAX_RANK];
  const char *at = scan_here(s);
  if (!scan_long(s, 1, UINT16_MAX, &id) || !scan_expect(s, "=") || !read_dims(r, &n, t))
    return false;
  if (id != r->g->region.n + 1)
    return scan_fail(s, at, "the next region is %u", r->g->region.n + 1);
  if (n != 1) return scan_fail(s, at, "a region runs over one dim");
  region.t = t[0];
  if (scan_accept_word(s, "in")) {
    if (!scan_long(s, 1, r->g->region.n, &parent)) return false;
    region.parent = (RegionId)parent;
  }
  region.reverse = scan_accept_word(s, "reverse");
  region.recompute = scan_accept_word(s, "recompute");
  if (!line_end(r, &region.pos)) return false;
  graph_region(r->g, &region);
  return true;
}

// -- names, outputs -----------------------------------------------------------------------------

static bool read_name(Reader *r) {
  Scanner *s = &r->s;
  Name n = {0};
  n.name = scan_word(s);
  if (!n.name || !scan_expect(s, "=")) return false;
  int kind = scan_enum(s, &name_kinds);
  if (kind < 0 || !scan_node(s, graph_count(r->g), &n.value) || !read_order(r, &n.rank, n.dims))
    return false;
  n.kind = (NameKind)kind;
  n.stated = scan_accept_word(s, "stated");
  if (!line_end(r, &n.pos)) return false;
  vec_push(s->arena, r->g->name) = n;
  return true;
}

static bool read_out_value(Reader *r, Output *o) {
  const char *at = scan_here(&r->s);
  Pos pos;
  if (!scan_expect(&r->s, "=") || !scan_node(&r->s, graph_count(r->g), &o->value) ||
      !read_order(r, &o->rank, o->dims) || !line_end(r, &pos))
    return false;
  if (!o->value) return scan_fail(&r->s, at, "an output needs a node");
  vec_push(r->s.arena, r->g->output) = *o;
  return true;
}

static bool read_output(Reader *r) {
  Output o = {.kind = OUT_VALUE};
  o.name = scan_word(&r->s);
  o.gradient_of = read_gradient_of(r, o.name);
  return o.name && read_out_value(r, &o);
}

static bool read_update(Reader *r) {
  Output o = {.kind = OUT_UPDATE};
  if (!read_decl_name(r, &o.target)) return false;
  o.name = r->g->decl.at[o.target - 1].name;
  return read_out_value(r, &o);
}

// -- the whole ----------------------------------------------------------------------------------

typedef struct LineKind {
  const char *word;
  bool (*read)(Reader *r);
} LineKind;
static const LineKind line_kinds[] = {
    {"axis", read_axis_line},
    {"seed", read_seed},
    {"dim", read_dim_line},
    {"block", read_block_line},
    {"footprint", read_footprint_line},
    {"input", read_input},
    {"param", read_param},
    {"state", read_state},
    {"slot", read_slot},
    {"data", read_data},
    {"field", read_field},
    {"source", read_source},
    {"train", read_train},
    {"optimizer", read_optimizer},
    {"group", read_group},
    {"name", read_name},
    {"output", read_output},
    {"update", read_update},
    {"rule", read_rule_line},
    {"region", read_region},
};

static bool read_line(Reader *r) {
  Scanner *s = &r->s;
  if (s->p < s->end && *s->p == '%') return read_node(r);
  for (size_t i = 0; i < countof(line_kinds); i++)
    if (scan_accept_word(s, line_kinds[i].word)) return line_kinds[i].read(r);
  return scan_fail(s, s->p, "a line of a graph begins with %%N, dim, param ...");
}

static bool read_end(Reader *r) {
  close_block(r);
  r->g->spec.ntrain = r->train.n;
  r->g->spec.train = r->train.at;
  r->g->origin = (Origin){0};
  if (r->in_field) return scan_fail(&r->s, r->s.p, "a field has no source");
  if (r->in_train) return scan_fail(&r->s, r->s.p, "a train line has no optimizer");
  char why[200];
  return graph_verify(r->g, why) || scan_fail(&r->s, r->s.p, "%s", why);
}

Graph *graph_read(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n) {
  Reader r = {.s = {.arena = a,
                    .names = names,
                    .diag = d,
                    .source = source,
                    .p = text,
                    .end = text + n,
                    .line_start = text},
              .mesh = arena_new_of(a, Mesh),
              .block = -1};
  r.g = graph_new(a, dim_table_new(a, names), r.mesh, STAGE_GRAPH);
  if (!read_header(&r)) return NULL;
  while (scan_line(&r.s))
    if (!read_line(&r)) return NULL;
  return !r.s.failed && read_end(&r) ? r.g : NULL;
}
