// Graph to text. The text is complete: read.c makes the same graph of it.
//
//   graph simplify mesh (rows = 2, cols = 2) model model.mesh
//   seed 0
//   dim b = 64  # model.mesh:1:5
//   input x : f32[b, d]  # model.mesh:3:7
//   param w : f32[d, h] = normal{b = 0.02}  # model.mesh:4:7
//   %1 = input() {decl = x} : f32[b, d]  # model.mesh:3:7: x
//   %3 = contract(%1, %2) {dims = [d]} : f32[b, h]  @ b -> rows  # model.mesh:7:1: hidden: the
//   reason name hidden = value %3 [b, h] stated  # model.mesh:7:1 output hidden = %3 [b, h]
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
} Out;

#define put(o, ...) fprintf((o)->file, __VA_ARGS__)

// -- words, numbers, lists ----------------------------------------------------------------------

static void put_escaped(const Out *o, const char *text, bool quotes) {
  for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
    if (*p == '\\' || (quotes && *p == '"'))
      put(o, "\\%c", *p);
    else if (*p == '\n')
      put(o, "\\n");
    else if (*p == '\t')
      put(o, "\\t");
    else if (*p < 0x20 || *p == 0x7f)
      put(o, "\\x%02x", *p);
    else
      fputc(*p, o->file);
  }
}

static void put_quoted(const Out *o, const char *text) {
  put(o, "\"");
  put_escaped(o, text, true);
  put(o, "\"");
}

static void put_word(const Out *o, const char *text) {
  bool bare = *text;
  for (const char *p = text; *p; p++) bare &= is_word_char((unsigned char)*p);
  if (bare)
    put(o, "%s", text);
  else
    put_quoted(o, text);
}

static void put_comment_word(const Out *o, const char *text) {
  bool bare = *text && strcmp(text, "-") != 0;
  for (const char *p = text; *p; p++) bare &= is_comment_char((unsigned char)*p);
  if (bare)
    put(o, "%s", text);
  else
    put_quoted(o, text);
}

// The fewest digits that read back exactly.
static void put_real(const Out *o, double x) {
  char text[40];
  if (isnan(x)) {
    put(o, "nan");
    return;
  }
  for (int digits = 15; digits <= 17; digits++) {
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

static void put_dims(const Out *o, int n, const DimId *d) {
  put(o, "[");
  for (int i = 0; i < n; i++) {
    if (i) put(o, ", ");
    put_word(o, dim_get(o->g->dims, d[i])->name);
  }
  put(o, "]");
}

static void put_axes(const Out *o, Axes a) {
  put(o, "[");
  for (int i = 0; i < a.n; i++) {
    if (i) put(o, ", ");
    put_word(o, o->g->mesh->axis[a.at[i]].name);
  }
  put(o, "]");
}

// -- where things come from ---------------------------------------------------------------------

static void put_place(const Out *o, Pos at) {
  char number[32];
  snprintf(number, sizeof number, "source%" PRIu32, at.source);
  put_comment_word(o, o->d ? diag_source_name(o->d, at.source) : number);
  put(o, ":%" PRIu32, at.line);
  if (at.col) put(o, ":%" PRIu32, at.col);
}

static void put_origin(const Out *o, Pos at, const char *value, const char *why) {
  if (at.line || value || why) {
    put(o, "  # ");
    if (at.line)
      put_place(o, at);
    else
      put(o, "-");
  }
  if (value || why) {
    put(o, ": ");
    if (value)
      put_comment_word(o, value);
    else
      put(o, "-");
  }
  if (why) {
    put(o, ": ");
    put_escaped(o, why, false);
  }
  put(o, "\n");
}

// -- records ------------------------------------------------------------------------------------

static bool field_is_zero(const RecordField *f, const void *record) {
  static const char zero[sizeof(Affine)];
  return memcmp((const char *)record + f->offset, zero, f->size) == 0;
}

static int64_t integer_at(const RecordField *f, const void *at) {
  if (f->size == sizeof(uint16_t)) return *(const uint16_t *)at;
  if (f->size == sizeof(int64_t)) return *(const int64_t *)at;
  return f->most ? (int64_t) * (const uint32_t *)at : *(const int32_t *)at;
}

static void put_field(const Out *o, const RecordField *f, const void *record) {
  const void *at = (const char *)record + f->offset, *list = (const char *)record + f->list;
  const double *num = at;
  put(o, f->kind == FIELD_BOOL ? "%s" : "%s = ", f->name);
  switch (f->kind) {
  case FIELD_REAL: put_real(o, *(const double *)at); break;
  case FIELD_INT: put(o, "%" PRId64, integer_at(f, at)); break;
  case FIELD_SEED: put(o, "%" PRIu64, *(const uint64_t *)at); break;
  case FIELD_BOOL: break;
  case FIELD_TEXT: put_word(o, *(const char *const *)at); break;
  case FIELD_ENUM: put(o, "%s", f->names->text[*(const unsigned *)at]); break;
  case FIELD_DECL: put_word(o, o->g->decl.at[*(const DeclId *)at - 1].name); break;
  case FIELD_DIMS: put_dims(o, *(const uint8_t *)at, *(const DimId *const *)list); break;
  case FIELD_AXES: put_axes(o, *(const Axes *)at); break;
  case FIELD_NUM: put_reals(o, memcmp(&num[1], &(double){0}, sizeof *num) ? 2 : 1, num); break;
  case FIELD_REALS: put_reals(o, *(const int64_t *)at, *(const double *const *)list); break;
  case FIELD_AFFINE: put_affine(o, at); break;
  }
}

// Prints the fields of a record behind `opening` and ", ". Returns false if there are none.
// `always` is printed even if it is zero; NULL: no such field.
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

// -- sections -----------------------------------------------------------------------------------

// soft t -> [cols], optimizer: all -> [rows], tensor "head.*": b -> none
static void put_rule(const Out *o, const LayoutRule *r) {
  if (r->soft) put(o, "soft ");
  if (r->scope == LAYOUT_TENSOR) {
    put(o, "tensor ");
    put_word(o, r->pattern);
    put(o, ": ");
  } else if (r->scope != LAYOUT_ALL) {
    put(o, "%s ", layout_scopes[r->scope]);
  }
  put_word(o, r->dim ? r->dim : "all");
  put(o, " -> ");
  if (r->none)
    put(o, "none");
  else
    put_axes(o, r->axes);
}

static void put_layout(const Out *o) {
  const Layout *l = &o->g->layout;
  if (l->n) put(o, " layout (");
  for (uint32_t i = 0; i < l->n; i++) {
    if (i) put(o, ", ");
    put_rule(o, &l->rule[i]);
  }
  if (l->n) put(o, ")");
}

static void put_header(const Out *o) {
  const Graph *g = o->g;
  put(o, "graph %s mesh (", stage_text(g->stage));
  for (int i = 0; i < g->mesh->naxes; i++) {
    if (i) put(o, ", ");
    put_word(o, g->mesh->axis[i].name);
    put(o, " = %" PRId64, g->mesh->axis[i].size);
  }
  put(o, ")");
  put_layout(o);
  if (g->model) {
    put(o, " model ");
    put_word(o, g->model);
  }
  put_origin(o, g->mesh->pos, NULL, NULL);
  for (int i = 0; i < g->mesh->naxes; i++) {
    if (!g->mesh->axis[i].pos.line) continue;
    put(o, "axis ");
    put_word(o, g->mesh->axis[i].name);
    put_origin(o, g->mesh->axis[i].pos, NULL, NULL);
  }
  for (uint32_t i = 0; i < g->layout.n; i++) {
    if (!g->layout.rule[i].pos.line) continue;
    put(o, "rule %" PRIu32, i + 1);
    put_origin(o, g->layout.rule[i].pos, NULL, NULL);
  }
  put(o, "seed %" PRIu64 "\n", g->spec.seed);
}

// footprint y/oy/rows*1+ky*1-1 = 6 of y by oy/rows taps ky affine [1, 1, -1, 1]
static void put_footprint(const Out *o, const Dim *x) {
  put(o, "footprint ");
  put_word(o, x->name);
  put(o, " = %" PRId64 " of ", x->size);
  put_word(o, dim_get(o->g->dims, x->whole)->name);
  put(o, " by ");
  put_word(o, dim_get(o->g->dims, x->out)->name);
  if (x->tap) {
    put(o, " taps ");
    put_word(o, dim_get(o->g->dims, x->tap)->name);
  }
  put(o, " affine ");
  put_affine(o, &x->footprint.affine);
  put(o, "\n");
}

static void mark(bool *used, int n, const DimId *d) {
  for (int i = 0; i < n; i++) used[d[i]] = true;
}

// The table of dims is shared by all graphs of a compile: only blocks that this one has are its
// own.
static void put_dim_table(const Out *o) {
  const Graph *g = o->g;
  bool *used = mem_zeroed(dim_count(g->dims) + 1, sizeof *used);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *node = graph_node(g, n);
    mark(used, node->dims.n, node->dims.at);
    mark(used, node->attr.ndims, node->attr.dims);
    mark(used, node->attr.nto, node->attr.to);
  }
  for (DimId d = dim_count(g->dims); d > 0; d--) {
    const Dim *dim = dim_get(g->dims, d);
    if (used[d] && dim->out) used[dim->out] = used[dim->tap] = true;
    if (used[d]) used[dim->whole] = true;
  }
  for (DimId d = 1; d <= dim_count(g->dims); d++) {
    const Dim *dim = dim_get(g->dims, d);
    bool block = dim->whole != d;
    if (!used[d] && (block || strchr(dim->name, '/'))) continue; // not of this graph
    if (dim->out) {
      put_footprint(o, dim);
      continue;
    }
    put(o, "%s ", block ? "block" : "dim");
    put_word(o, dim->name);
    put(o, " = %" PRId64, dim->size);
    if (block || dim->follows) {
      put(o, block ? " of " : " follows ");
      put_word(o, dim_get(g->dims, block ? dim->whole : dim->follows)->name);
    }
    if (block) {
      put(o, " over ");
      put_axes(o, dim->axes);
    }
    put_origin(o, block ? (Pos){0} : dim->pos, NULL, NULL);
  }
  free(used);
}

static bool init_is_zero(const Init *init) {
  for (int i = 0; i < init_record.n; i++)
    if (!field_is_zero(&init_record.field[i], init)) return false;
  return init->kind == INIT_CONSTANT && init->ndata == 0;
}

static void put_decl(const Out *o, const Decl *d) {
  put(o, "%s ", decl_kinds.text[d->kind]);
  put_word(o, d->name);
  put(o, " : %s", dtype_text(d->type));
  put_dims(o, d->rank, d->dims);
  if (d->of) {
    put(o, " of ");
    put_word(o, o->g->decl.at[d->of - 1].name);
  }
  if (!init_is_zero(&d->init)) {
    put(o, " = %s", init_kinds.text[d->init.kind]);
    put_record(o, &init_record, &d->init);
    if (d->init.ndata) {
      put(o, " ");
      put_reals(o, d->init.ndata, d->init.data);
    }
  }
  if (d->frozen) put(o, " frozen");
  put_origin(o, d->pos, NULL, NULL);
}

static void put_data_block(const Out *o, BlockKind k) {
  const DataBlock *b = &o->g->spec.data[k];
  if (!b->present) return;
  put(o, "data %s ", block_text(k));
  if (b->over) {
    put(o, "over ");
    put_word(o, dim_get(o->g->dims, b->over)->name);
    put(o, " ");
  }
  put_record(o, &block_record, b);
  put_origin(o, b->pos, NULL, NULL);
  for (uint32_t i = 0; i < b->nfields; i++) {
    const DataField *f = &b->field[i];
    put(o, "field ");
    put_word(o, f->input);
    put_origin(o, f->pos, NULL, NULL);
    put(o, "source %s ", source_kinds.text[f->source.kind]);
    put_record(o, &source_record, &f->source);
    put_origin(o, f->source.pos, NULL, NULL);
  }
}

static void put_train(const Out *o, const TrainSpec *t) {
  put(o, "train ");
  put_word(o, t->loss ? t->loss : "");
  put(o, " ");
  put_record(o, &train_record, t);
  put_origin(o, t->pos, NULL, NULL);
  put(o, "optimizer %s ", optimizer_kinds.text[t->optimizer.kind]);
  put_record(o, &optimizer_record, &t->optimizer);
  put_origin(o, t->optimizer.pos, NULL, NULL);
  for (uint32_t i = 0; i < t->ngroups; i++) {
    const GroupSpec *group = &t->group[i];
    put(o, "group ");
    put_word(o, group->pattern);
    put(o, " %s ", optimizer_kinds.text[group->optimizer.kind]);
    put_record(o, &optimizer_record, &group->optimizer);
    put_origin(o, group->optimizer.pos, NULL, NULL);
  }
}

// -- nodes --------------------------------------------------------------------------------------

static void put_attr(const Out *o, const Node *n) {
  const RecordField *always = n->op == OP_CONST ? &node_record.field[NODE_NUM] : NULL;
  if (put_fields(o, &node_record, n, " {", always)) put(o, "}");
}

static void put_region(const Out *o, RegionId id) {
  const Region *r = region_get(o->g, id);
  put(o, "region %u = ", id);
  put_dims(o, 1, &r->t);
  if (r->parent) put(o, " in %u", r->parent);
  if (r->reverse) put(o, " reverse");
  if (r->recompute) put(o, " recompute");
  put_origin(o, r->pos, NULL, NULL);
}

static void put_node(const Out *o, NodeId id, const char *note) {
  const Node *n = graph_node(o->g, id);
  put(o, "%%%" PRIu32 " = %s(", id, op_row((Op)n->op)->text);
  for (int i = 0; i < n->nargs; i++) put(o, "%s%%%" PRIu32, i ? ", " : "", n->args[i]);
  put(o, ")");
  put_attr(o, n);
  put(o, " : %s", dtype_text((Dtype)n->type));
  put_dims(o, n->dims.n, n->dims.at);
  if (note) {
    put(o, "  @ ");
    put_escaped(o, note, false);
  }
  put_origin(o, n->origin.pos, n->origin.value, n->origin.why);
}

static void put_name(const Out *o, const Name *n) {
  put(o, "name ");
  put_word(o, n->name);
  put(o, " = %s %%%" PRIu32 " ", name_kinds.text[n->kind], n->value);
  put_dims(o, n->rank, n->dims);
  if (n->stated) put(o, " stated");
  put_origin(o, n->pos, NULL, NULL);
}

static void put_output(const Out *o, const Output *x) {
  bool update = x->kind == OUT_UPDATE;
  put(o, update ? "update " : "output ");
  put_word(o, update ? o->g->decl.at[x->target - 1].name : x->name);
  put(o, " = %%%" PRIu32 " ", x->value);
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
  for (uint32_t i = 0; i < g->region.n; i++) put_region(o, (RegionId)(i + 1));
  for (NodeId n = 1; n <= graph_count(g); n++) put_node(o, n, note ? note(table, n) : NULL);
  for (uint32_t i = 0; i < g->name.n; i++) put_name(o, &g->name.at[i]);
  for (uint32_t i = 0; i < g->output.n; i++) put_output(o, &g->output.at[i]);
}

// -- doors --------------------------------------------------------------------------------------

char *graph_print(Arena *a, const Graph *g, const Diag *d, GraphNote *note, const void *table) {
  TextStream text;
  stream_begin(&text);
  put_graph(&(Out){.g = g, .d = d, .file = text.file}, note, table);
  return stream_end(&text, a);
}

char *graph_node_text(Arena *a, const Graph *g, const Diag *d, NodeId node) {
  TextStream text;
  stream_begin(&text);
  put_node(&(Out){.g = g, .d = d, .file = text.file}, node, NULL);
  char *line = stream_end(&text, a);
  line[strcspn(line, "\n")] = 0;
  return line;
}
