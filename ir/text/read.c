// Reads a graph from the text that print.c writes. Each kind of line has a function.
//
// The text may be wrong in any way. Nodes are added by graph_try, which checks their arguments and
// infers type and dims. Type, dims and id of the new node must equal those in the text.
#include <string.h>

#include "ir/text/scan_internal.h"

enum { MAX_DIM_SIZE = INT32_MAX };

typedef struct Reader {
  Scanner s;
  Graph *g;
  Mesh *mesh;
  VEC(DataField) field; // the fields of the data block that is being read
  int block;            // BlockKind of that block; -1: no data block has begun
  bool in_field;        // a `field` line was read; its `source` line must come next
  VEC(TrainSpec) train;
  bool in_train; // a `train` line was read; its `optimizer` line must come next
} Reader;

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
  for (int i = 0; i < LAYOUT_TENSOR; i++)
    if (layout_scopes[i] && scan_accept(&r->s, layout_scopes[i])) return (LayoutScope)i;
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
  return rule->none || scan_axes(&r->s, &rule->axes);
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

// Reads a line `rule N # place`, which gives the place of rule N of the layout. Rules are numbered
// from 1.
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
  return scan_axis(&r->s, &axis) && line_end(r, &r->mesh->axis[axis].pos);
}

static bool read_seed(Reader *r) {
  Pos at;
  return scan_seed(&r->s, &r->g->spec.seed) && line_end(r, &at);
}

// Reads, after the word `live`, the dim of a loop and for each of its steps how many of the
// elements of a dim are needed (Dim.live). Adds this dim.
static bool read_live(Reader *r, const char *name, int64_t size) {
  DimId by;
  Pos pos;
  if (!scan_whole(&r->s, &by)) return false;
  int64_t n = dim_get(r->g->dims, by)->size, *live = arena_array(r->g->arena, int64_t, n);
  for (int64_t i = 0; i < n; i++)
    if (!scan_long(&r->s, 1, size, &live[i])) return false;
  if (!line_end(r, &pos)) return false;
  (void)dim_add_live(r->g->dims, name, size, by, live);
  return true;
}

static bool read_dim_line(Reader *r) {
  const char *at = scan_here(&r->s), *name = scan_word(&r->s);
  int64_t size;
  if (!name || !scan_expect(&r->s, "=") || !scan_long(&r->s, 1, MAX_DIM_SIZE, &size)) return false;
  if (dim_find(r->g->dims, name)) return scan_fail(&r->s, at, "two dims are called %s", name);
  DimId first = 0;
  if (scan_accept_word(&r->s, "live")) return read_live(r, name, size);
  if (scan_accept_word(&r->s, "follows") && !scan_whole(&r->s, &first)) return false;
  Pos pos;
  if (!line_end(r, &pos)) return false;
  DimId d = dim_add(r->g->dims, name, size, pos);
  if (first) dim_set_follows(r->g->dims, d, first);
  return true;
}

// Checks that dim d, which was made from a line of the text, has the name and size that the line
// states. `before` is the dim that already had this name, or 0. `at` is the place of an error.
static bool block_agrees(Scanner *s, const char *name, const char *at, const char *what,
                         DimId before, int64_t size, DimId d) {
  const Dim *dim = dim_get(s->g->dims, d);
  if (before == d) return scan_fail(s, at, "%s occurs twice", dim->name);
  return (!before && dim->name == name && dim->size == size) ||
         scan_fail(s, at, "the %s is %s = %lld", what, dim->name, (long long)dim->size);
}

static bool read_footprint_line(Reader *r) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  int64_t size;
  DimId whole, of, tap = 0;
  Affine affine;
  Pos pos;
  if (!name || !scan_expect(s, "=") || !scan_long(s, 1, MAX_DIM_SIZE, &size) ||
      !scan_expect(s, "of") || !scan_whole(&r->s, &whole) || !scan_expect(s, "by") ||
      !scan_dim(&r->s, &of) || (scan_accept_word(s, "taps") && !scan_dim(&r->s, &tap)) ||
      !scan_expect(s, "affine") || !scan_affine(&r->s, &affine) || !line_end(r, &pos))
    return false;
  if (affine.divisor <= 0) return scan_fail(s, at, "its divisor is not positive");
  if (dim_get(r->g->dims, of)->out || (tap && dim_get(r->g->dims, tap)->out))
    return scan_fail(s, at, "a footprint dim is read by blocks");
  DimId before = dim_find(r->g->dims, name);
  return block_agrees(s, name, at, "footprint", before, size,
                      dim_footprint(r->g->dims, r->mesh, whole, of, tap, affine));
}

static bool read_block_line(Reader *r) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  int64_t size;
  DimId whole;
  Axes axes;
  Pos pos;
  if (!name || !scan_expect(s, "=") || !scan_long(s, 0, MAX_DIM_SIZE, &size) ||
      !scan_expect(s, "of") || !scan_whole(&r->s, &whole) || !scan_expect(s, "over") ||
      !scan_axes(&r->s, &axes) || !line_end(r, &pos))
    return false;
  if (axes.n == 0) return scan_fail(s, at, "a block needs an axis");
  DimId before = dim_find(r->g->dims, name);
  return block_agrees(s, name, at, "block", before, size,
                      dim_block(r->g->dims, r->mesh, whole, axes));
}

// -- declarations -------------------------------------------------------------------------------

static bool read_init(Reader *r, Init *init) {
  if (!scan_record(&r->s, &init_record, init)) return false;
  if (!scan_accept(&r->s, "[")) return true;
  r->s.p--; // scan_reals reads the bracket, too
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
  if (!d.name || !scan_expect(s, ":") || !scan_type(s, &d.type) ||
      !scan_order(&r->s, &d.rank, d.dims))
    return false;
  if (graph_find_decl(r->g, d.name)) return scan_fail(s, at, "%s is declared twice", d.name);
  if (scan_accept_word(s, "of") && !scan_decl(&r->s, &d.of)) return false;
  if (scan_accept(s, "=") && !read_init(r, &d.init)) return false;
  d.frozen = scan_accept_word(s, "frozen");
  if (!line_end(r, &d.pos) || !init_fits(r, at, &d)) return false;
  graph_decl(r->g, &d);
  return true;
}

// -- data blocks, training -----------------------------------------------------------------------

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
  if (scan_accept_word(&r->s, "over") && !scan_whole(&r->s, &b->over)) return false;
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
  NodeText n;
  int nargs;
  NodeId args[MAX_ARGS];
  uint8_t rank;
  DimId shape[MAX_RANK]; // dims of the result that the text states
} Line;

static bool read_op(Reader *r, Line *l) {
  Scanner *s = &r->s;
  const char *at = scan_here(s), *name = scan_word(s);
  if (!name) return false;
  if (!op_parse(name, &l->op)) return scan_fail(s, at, "no operation is called %s", name);
  if (!scan_expect(s, "(")) return false;
  while (!scan_accept(s, ")")) {
    if (l->nargs == countof(l->args)) return scan_fail(s, s->p, "too many arguments");
    if (l->nargs && !scan_expect(s, ",")) return false;
    if (!scan_node(s, graph_count(r->g), &l->args[l->nargs++])) return false;
  }
  return !scan_accept(s, "{") || scan_fields(s, &node_record, &l->n);
}

// Checks that a new node has the id, type and dims that its line states. `want` is the id in the
// line.
static bool node_agrees(Reader *r, const char *at, const Line *l, NodeId id, NodeId want) {
  const Node *n = graph_node(r->g, id);
  if (id != want) return scan_fail(&r->s, at, "the node is equal to %%%u", id);
  if (n->type == l->n.attr.type && n->dims->n == l->rank &&
      memcmp(n->dims->at, l->shape, l->rank * sizeof l->shape[0]) == 0)
    return true;
  return scan_fail(&r->s, at, "the node is %s[%s]", dtype_text((Dtype)n->type),
                   dims_text(r->s.arena, r->g->dims, n->dims));
}

// Returns "w" for the name "grad(w)". Returns NULL if the name has another form or is NULL. Graph
// text has no other form of Origin.gradient_of and Output.gradient_of.
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
  if (!scan_expect(s, "=") || !read_op(r, &l) || !scan_expect(s, ":") ||
      !scan_type(s, &l.n.attr.type) || !scan_dims(&r->s, &l.rank, l.shape))
    return false;
  Origin *origin = &l.n.origin;
  if (!scan_origin(s, &origin->pos, &origin->value, &origin->why)) return false;
  origin->gradient_of = read_gradient_of(r, origin->value);
  r->g->origin = *origin;
  char why[200];
  id = graph_try(r->g, l.op, l.nargs, l.args, &l.n.attr, l.n.instance, why);
  return id ? node_agrees(r, at, &l, id, want) : scan_fail(s, at, "%s", why);
}

static bool read_region(Reader *r) {
  Scanner *s = &r->s;
  Region region = {0};
  uint8_t n;
  int64_t id, parent;
  DimId t[MAX_RANK];
  const char *at = scan_here(s);
  if (!scan_long(s, 1, UINT32_MAX, &id) || !scan_expect(s, "=") || !scan_dims(&r->s, &n, t))
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
  region.guarded = scan_accept_word(s, "guarded");
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
  if (kind < 0 || !scan_node(s, graph_count(r->g), &n.value) || !scan_order(&r->s, &n.rank, n.dims))
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
      !scan_order(&r->s, &o->rank, o->dims) || !line_end(r, &pos))
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
  if (!scan_decl(&r->s, &o.target)) return false;
  o.name = r->g->decl.at[o.target - 1].name;
  return read_out_value(r, &o);
}

// -- lines, and the text as a whole --------------------------------------------------------------

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
  for (int k = 0; k < decl_kinds.n; k++)
    if (scan_accept_word(s, decl_kinds.text[k])) return read_decl(r, (DeclKind)k);
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
  r.s.g = r.g;
  if (!read_header(&r)) return NULL;
  while (scan_line(&r.s))
    if (!read_line(&r)) return NULL;
  return !r.s.failed && read_end(&r) ? r.g : NULL;
}
