// Prints a graph as text, from which read.c makes an equal graph.
//
//   graph simplify mesh (rows = 2, cols = 2) model model.mesh
//   seed 0
//   dim b = 64  # model.mesh:1:5
//   input x : f32[b, d]  # model.mesh:3:7
//   param w : f32[d, h] = normal{b = 0.02}  # model.mesh:4:7
//   %1 = input() {decl = x} : f32[b, d]  # model.mesh:3:7: x
//   %3 = contract(%1, %2) {dims = [d]} : f32[b, h]  @ b -> rows  # model.mesh:7:1: hidden: value
//   name hidden = value %3 [b, h] stated  # model.mesh:7:1
//   output hidden = %3 [b, h]
//
// A line ends in its origin: "# place: value: why", which are the fields of Origin. An absent part
// is "-", and absent parts at the end are left out.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/stream.h"
#include "ir/text/text.h"

typedef struct Out {
  const Graph *g;
  const Diag *d;
  FILE *file;
  Arena *a; // words and places of the text; freed after printing
} Out;

#define put(o, ...) fprintf((o)->file, __VA_ARGS__)
#define text_of(o, ...) arena_printf((o)->a, __VA_ARGS__)

// -- words, numbers, lists ----------------------------------------------------------------------

// Returns the text with escapes for control characters and backslashes, and with `quotes` also for
// quotation marks.
static const char *escaped(const Out *o, const char *text, bool quotes) {
  char *out = arena_alloc(o->a, 4 * strlen(text) + 1), *to = out;
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '\\' || (quotes && *p == '"'))
      to += sprintf(to, "\\%c", *p);
    else if (*p == '\n' || *p == '\t')
      to += sprintf(to, *p == '\n' ? "\\n" : "\\t");
    else if (*p < 0x20 || *p == 0x7f)
      to += sprintf(to, "\\x%02x", *p);
    else
      *to++ = (char)*p;
  }
  return out;
}

// Returns the text unchanged if `bare` is true, otherwise in quotes.
static const char *quoted_unless(const Out *o, const char *text, bool bare) {
  return bare && *text ? text : text_of(o, "\"%s\"", escaped(o, text, true));
}

// Returns `text` in the form that scan_word reads: in quotes unless it is one word.
static const char *word(const Out *o, const char *text) {
  bool bare = true;
  for (const char *p = text; *p; p++) bare &= is_word_char((unsigned char)*p);
  return quoted_unless(o, text, bare);
}

// Returns `text` as a part of an origin (the comment that says where a node comes from). Puts it in
// quotes unless it is one word without ":" that is not "-".
static const char *comment_word(const Out *o, const char *text) {
  bool bare = strcmp(text, "-") != 0;
  for (const char *p = text; *p; p++) bare &= is_comment_char((unsigned char)*p);
  return quoted_unless(o, text, bare);
}

// Prints x with the fewest digits from which the same double is read back.
static void put_real(const Out *o, double x) {
  char text[40] = "nan";
  for (int digits = 15; digits <= 17 && !isnan(x); digits++) {
    snprintf(text, sizeof text, "%.*g", digits, x);
    double back = strtod(text, NULL);
    if (memcmp(&back, &x, sizeof x) == 0) break;
  }
  put(o, "%s", text);
}

static void put_reals(const Out *o, int64_t n, const double *x) {
  put(o, "[");
  for (int64_t i = 0; i < n; i++) {
    if (i) put(o, ", ");
    put_real(o, x[i]);
  }
  put(o, "]");
}

static void put_affine(const Out *o, const Affine *f) {
  put(o, "[%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", f->out, f->tap, f->offset,
      f->divisor);
}

static const char *dim_word(const Out *o, DimId d) { return word(o, dim_get(o->g->dims, d)->name); }
static const char *axis_word(const Out *o, int axis) {
  return word(o, o->g->mesh->axis[axis].name);
}
static const char *decl_word(const Out *o, DeclId d) { return word(o, o->g->decl.at[d - 1].name); }

static void put_dims(const Out *o, int n, const DimId *d) {
  for (int i = 0; i < n; i++) put(o, "%s%s", i ? ", " : "[", dim_word(o, d[i]));
  put(o, n ? "]" : "[]");
}

static void put_axes(const Out *o, Axes a) {
  for (int i = 0; i < a.n; i++) put(o, "%s%s", i ? ", " : "[", axis_word(o, a.at[i]));
  put(o, a.n ? "]" : "[]");
}

// -- where things come from ---------------------------------------------------------------------

static const char *place_text(const Out *o, Pos at) {
  if (!at.line) return "-";
  const char *file =
      o->d ? diag_source_name(o->d, at.source) : text_of(o, "source%" PRIu32, at.source);
  const char *text = text_of(o, "%s:%" PRIu32, comment_word(o, file), at.line);
  return at.col ? text_of(o, "%s:%" PRIu32, text, at.col) : text;
}

static void put_origin(const Out *o, Pos at, const char *value, const char *why) {
  if (at.line || value || why) put(o, "  # %s", place_text(o, at));
  if (value || why) put(o, ": %s", value ? comment_word(o, value) : "-");
  if (why) put(o, ": %s", escaped(o, why, false));
  put(o, "\n");
}

// -- records ------------------------------------------------------------------------------------

static bool field_is_zero(const RecordField *f, const void *record) {
  static const char zero[sizeof(Affine)];
  return memcmp((const char *)record + f->offset, zero, f->size) == 0;
}

static int64_t integer_at(const RecordField *f, const void *at) {
  if (f->size == sizeof(int64_t)) return *(const int64_t *)at;
  return f->most ? (int64_t) * (const uint32_t *)at : *(const int32_t *)at;
}

static void put_field(const Out *o, const RecordField *f, const void *record) {
  const void *at = (const char *)record + f->offset, *list = (const char *)record + f->list;
  const double *num = at;
  put(o, f->kind == FIELD_BOOL ? "%s" : "%s = ", f->name);
  switch (f->kind) {
  case FIELD_REAL: put_real(o, *num); break;
  case FIELD_INT: put(o, "%" PRId64, integer_at(f, at)); break;
  case FIELD_SEED: put(o, "%" PRIu64, *(const uint64_t *)at); break;
  case FIELD_BOOL: break;
  case FIELD_TEXT: put(o, "%s", word(o, *(const char *const *)at)); break;
  case FIELD_ENUM: put(o, "%s", f->names->text[*(const unsigned *)at]); break;
  case FIELD_DECL: put(o, "%s", decl_word(o, *(const DeclId *)at)); break;
  case FIELD_DIMS: put_dims(o, *(const uint8_t *)at, *(const DimId *const *)list); break;
  case FIELD_AXES: put_axes(o, *(const Axes *)at); break;
  case FIELD_NUM: put_reals(o, memcmp(&num[1], &(double){0}, sizeof *num) ? 2 : 1, num); break;
  case FIELD_REALS: put_reals(o, *(const int64_t *)at, *(const double *const *)list); break;
  case FIELD_AFFINE: put_affine(o, at); break;
  }
}

// Prints the fields of a record (the struct that r describes) that are not zero, separated by ", ",
// with `opening` before the first. The field `always`, if not NULL, is printed even if it is zero.
// Returns false, and prints nothing, if there is no field to print.
static bool put_fields(const Out *o, const Record *r, const void *record, const char *opening,
                       const RecordField *always) {
  const char *between = opening;
  for (const RecordField *f = r->field; f < r->field + r->n; f++) {
    if (f != always && field_is_zero(f, record)) continue;
    put(o, "%s", between);
    put_field(o, f, record);
    between = ", ";
  }
  return between != opening;
}

static void put_record(const Out *o, const Record *r, const void *record) {
  put(o, put_fields(o, r, record, "{", NULL) ? "}" : "{}");
}

// -- header, dims, declarations, training -------------------------------------------------------

// Prints a layout rule: soft t -> [cols], optimizer: all -> [rows], tensor "head.*": b -> none.
static void put_rule(const Out *o, const LayoutRule *r) {
  if (r->soft) put(o, "soft ");
  if (r->scope == LAYOUT_TENSOR)
    put(o, "tensor %s: ", word(o, r->pattern));
  else if (r->scope != LAYOUT_ALL)
    put(o, "%s ", layout_scopes[r->scope]);
  put(o, "%s -> ", word(o, r->dim ? r->dim : "all"));
  if (r->none)
    put(o, "none");
  else
    put_axes(o, r->axes);
}

static void put_layout(const Out *o) {
  const Layout *l = &o->g->layout;
  for (uint32_t i = 0; i < l->n; i++) {
    put(o, i ? ", " : " layout (");
    put_rule(o, &l->rule[i]);
  }
  if (l->n) put(o, ")");
}

// Prints a line with `what` and the place `at` in the model. Prints nothing if `at` is no place
// (its line is 0).
static void put_place_line(const Out *o, Pos at, const char *what) {
  if (!at.line) return;
  put(o, "%s", what);
  put_origin(o, at, NULL, NULL);
}

static void put_header(const Out *o) {
  const Graph *g = o->g;
  put(o, "graph %s mesh (", stage_text(g->stage));
  for (int i = 0; i < g->mesh->naxes; i++)
    put(o, "%s%s = %" PRId64, i ? ", " : "", axis_word(o, i), g->mesh->axis[i].size);
  put(o, ")");
  put_layout(o);
  if (g->model) put(o, " model %s", word(o, g->model));
  put_origin(o, g->mesh->pos, NULL, NULL);
  for (int i = 0; i < g->mesh->naxes; i++)
    put_place_line(o, g->mesh->axis[i].pos, text_of(o, "axis %s", axis_word(o, i)));
  for (uint32_t i = 0; i < g->layout.n; i++)
    put_place_line(o, g->layout.rule[i].pos, text_of(o, "rule %" PRIu32, i + 1));
  put(o, "seed %" PRIu64 "\n", g->spec.seed);
}

// Prints a footprint dim, which is the interval of a dim that windows read:
//   footprint y/oy/rows*1+ky*1-1 = 6 of y by oy/rows taps ky affine [1, 1, -1, 1]
// The interval has 6 elements of y. Windows with this Affine read it for the block oy/rows and the
// taps ky.
static void put_footprint(const Out *o, const Dim *x) {
  put(o, "footprint %s = %" PRId64 " of %s by %s", word(o, x->name), x->size, dim_word(o, x->whole),
      dim_word(o, x->out));
  if (x->tap) put(o, " taps %s", dim_word(o, x->tap));
  put(o, " affine ");
  put_affine(o, &x->footprint.affine);
  put(o, "\n");
}

static void put_dim(const Out *o, const Dim *dim, bool block) {
  put(o, "%s %s = %" PRId64, block ? "block" : "dim", word(o, dim->name), dim->size);
  if (block) {
    put(o, " of %s over ", dim_word(o, dim->whole));
    put_axes(o, dim->axes);
  } else if (dim->follows) {
    put(o, " follows %s", dim_word(o, dim->follows));
  } else if (dim->live) {
    put(o, " live %s", dim_word(o, dim->by));
    for (int64_t i = 0; i < dim_get(o->g->dims, dim->by)->size; i++)
      put(o, " %" PRId64, dim->live[i]);
  }
  put_origin(o, block ? (Pos){0} : dim->pos, NULL, NULL);
}

static void mark(bool *used, int n, const DimId *d) {
  for (int i = 0; i < n; i++) used[d[i]] = true;
}

// Prints all whole dims, and those blocks that the graph uses. The table of dims has other blocks,
// too, because the graphs of a compile share it.
static void put_dim_table(const Out *o) {
  const Graph *g = o->g;
  bool *used = arena_array(o->a, bool, dim_count(g->dims) + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    mark(used, node->dims->n, node->dims->at);
    mark(used, node->attr->ndims, node->attr->dims);
    mark(used, node->attr->nto, node->attr->to);
  }
  for (DimId d = dim_count(g->dims); d > 0; d--) {
    const Dim *dim = dim_get(g->dims, d);
    if (used[d] && dim->out) used[dim->out] = used[dim->tap] = true;
    if (used[d]) used[dim->whole] = true;
  }
  for (DimId d = 1; d <= dim_count(g->dims); d++) {
    const Dim *dim = dim_get(g->dims, d);
    bool block = dim->whole != d;
    if (!used[d] && (block || strchr(dim->name, '/'))) continue;
    if (dim->out)
      put_footprint(o, dim);
    else
      put_dim(o, dim, block);
  }
}

static bool init_is_zero(const Init *init) {
  for (int i = 0; i < init_record.n; i++)
    if (!field_is_zero(&init_record.field[i], init)) return false;
  return init->kind == INIT_CONSTANT && init->ndata == 0;
}

static void put_decl(const Out *o, const Decl *d) {
  put(o, "%s %s : %s", decl_kinds.text[d->kind], word(o, d->name), dtype_text(d->type));
  put_dims(o, d->rank, d->dims);
  if (d->of) put(o, " of %s", decl_word(o, d->of));
  if (!init_is_zero(&d->init)) {
    put(o, " = %s", init_kinds.text[d->init.kind]);
    put_record(o, &init_record, &d->init);
    if (d->init.ndata) put(o, " ");
    if (d->init.ndata) put_reals(o, d->init.ndata, d->init.data);
  }
  if (d->frozen) put(o, " frozen");
  put_origin(o, d->pos, NULL, NULL);
}

static void put_data_block(const Out *o, BlockKind k) {
  const DataBlock *b = &o->g->spec.data[k];
  if (!b->present) return;
  put(o, "data %s ", block_text(k));
  if (b->over) put(o, "over %s ", dim_word(o, b->over));
  put_record(o, &block_record, b);
  put_origin(o, b->pos, NULL, NULL);
  for (uint32_t i = 0; i < b->nfields; i++) {
    const DataField *f = &b->field[i];
    put(o, "field %s", word(o, f->input));
    put_origin(o, f->pos, NULL, NULL);
    put(o, "source %s ", source_kinds.text[f->source.kind]);
    put_record(o, &source_record, &f->source);
    put_origin(o, f->source.pos, NULL, NULL);
  }
}

static void put_optimizer(const Out *o, const char *line, const OptimizerSpec *x) {
  put(o, "%s %s ", line, optimizer_kinds.text[x->kind]);
  put_record(o, &optimizer_record, x);
  put_origin(o, x->pos, NULL, NULL);
}

static void put_train(const Out *o, const TrainSpec *t) {
  put(o, "train %s ", word(o, t->loss ? t->loss : ""));
  put_record(o, &train_record, t);
  put_origin(o, t->pos, NULL, NULL);
  put_optimizer(o, "optimizer", &t->optimizer);
  for (uint32_t i = 0; i < t->ngroups; i++)
    put_optimizer(o, text_of(o, "group %s", word(o, t->group[i].pattern)), &t->group[i].optimizer);
}

// -- nodes --------------------------------------------------------------------------------------

static void put_attr(const Out *o, const Node *n) {
  const RecordField *always = n->op == OP_CONST ? &node_record.field[NODE_NUM] : NULL;
  const NodeText text = {*n->attr, n->instance, *n->origin};
  if (put_fields(o, &node_record, &text, " {", always)) put(o, "}");
}

static void put_region(const Out *o, RegionId id) {
  const Region *r = region_get(o->g, id);
  put(o, "region %u = ", id);
  put_dims(o, 1, &r->t);
  if (r->parent) put(o, " in %u", r->parent);
  if (r->reverse) put(o, " reverse");
  if (r->recompute) put(o, " recompute");
  if (r->guarded) put(o, " guarded");
  put_origin(o, r->pos, NULL, NULL);
}

static void put_node(const Out *o, NodeId id, const char *note) {
  const Node *n = graph_node(o->g, id);
  put(o, "%%%" PRIu32 " = %s(", id, op_row((Op)n->op)->text);
  for (int i = 0; i < n->nargs; i++) put(o, "%s%%%" PRIu32, i ? ", " : "", n->args[i]);
  put(o, ")");
  put_attr(o, n);
  put(o, " : %s", dtype_text((Dtype)n->type));
  put_dims(o, n->dims->n, n->dims->at);
  if (note) put(o, "  @ %s", escaped(o, note, false));
  put_origin(o, n->origin->pos, n->origin->value, n->origin->why);
}

static void put_name(const Out *o, const Name *n) {
  put(o, "name %s = %s %%%" PRIu32 " ", word(o, n->name), name_kinds.text[n->kind], n->value);
  put_dims(o, n->rank, n->dims);
  if (n->stated) put(o, " stated");
  put_origin(o, n->pos, NULL, NULL);
}

static void put_output(const Out *o, const Output *x) {
  bool update = x->kind == OUT_UPDATE;
  put(o, "%s %s = %%%" PRIu32 " ", update ? "update" : "output",
      update ? decl_word(o, x->target) : word(o, x->name), x->value);
  put_dims(o, x->rank, x->dims);
  put(o, "\n");
}

static void put_graph(const Out *o, GraphNote *note, const void *table) {
  const Graph *g = o->g;
  put_header(o);
  put_dim_table(o);
  for (uint32_t i = 0; i < g->decl.n; i++) put_decl(o, &g->decl.at[i]);
  for (int k = 0; k < DATA_BLOCKS; k++) put_data_block(o, (BlockKind)k);
  for (uint32_t i = 0; i < g->spec.ntrain; i++) put_train(o, &g->spec.train[i]);
  for (uint32_t i = 0; i < g->region.n; i++) put_region(o, i + 1);
  for (NodeId n = 1; n <= graph_count(g); n++) put_node(o, n, note ? note(table, n) : NULL);
  for (uint32_t i = 0; i < g->name.n; i++) put_name(o, &g->name.at[i]);
  for (uint32_t i = 0; i < g->output.n; i++) put_output(o, &g->output.at[i]);
}

// -- the exported functions ---------------------------------------------------------------------

// Returns the text of the graph, or only the line of node `only` if that is not 0.
static char *print(Arena *a, Out o, NodeId only, GraphNote *note, const void *table) {
  TextStream text;
  o.file = stream_begin(&text);
  o.a = arena_new();
  if (only)
    put_node(&o, only, NULL);
  else
    put_graph(&o, note, table);
  arena_free(o.a);
  return stream_end(&text, a);
}

char *graph_print(Arena *a, const Graph *g, const Diag *d, GraphNote *note, const void *table) {
  return print(a, (Out){.g = g, .d = d}, 0, note, table);
}

char *graph_node_text(Arena *a, const Graph *g, const Diag *d, NodeId node) {
  char *line = print(a, (Out){.g = g, .d = d}, node, NULL, NULL);
  line[strcspn(line, "\n")] = 0;
  return line;
}
