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
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/text.h"

typedef struct Out {
  const Graph *g;
  const Diag *d;
  FILE *file;
} Out;

static void put(const Out *o, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void put(const Out *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vfprintf(o->file, fmt, ap);
  va_end(ap);
}

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
  static const size_t bytes[] = {
      [FIELD_REAL] = sizeof(double),       [FIELD_INT] = sizeof(int),
      [FIELD_LONG] = sizeof(int64_t),      [FIELD_SEED] = sizeof(uint64_t),
      [FIELD_BOOL] = sizeof(bool),         [FIELD_TEXT] = sizeof(char *),
      [FIELD_ENUM] = sizeof(SyntheticKind)};
  static const char zero[16];
  return memcmp((const char *)record + f->offset, zero, bytes[f->kind]) == 0;
}

static void put_field(const Out *o, const RecordField *f, const void *record) {
  const char *p = (const char *)record + f->offset;
  union {
    double real;
    int64_t long_;
    uint64_t seed;
    int small;
    SyntheticKind names;
    const char *text;
  } v;
  put(o, "%s", f->name);
  switch (f->kind) {
  case FIELD_REAL:
    memcpy(&v.real, p, sizeof v.real);
    put(o, " = ");
    put_real(o, v.real);
    break;
  case FIELD_INT:
    memcpy(&v.small, p, sizeof v.small);
    put(o, " = %d", v.small);
    break;
  case FIELD_LONG:
    memcpy(&v.long_, p, sizeof v.long_);
    put(o, " = %" PRId64, v.long_);
    break;
  case FIELD_SEED:
    memcpy(&v.seed, p, sizeof v.seed);
    put(o, " = %" PRIu64, v.seed);
    break;
  case FIELD_BOOL: break;
  case FIELD_TEXT:
    memcpy(&v.text, p, sizeof v.text);
    put(o, " = ");
    put_word(o, v.text);
    break;
  case FIELD_ENUM:
    memcpy(&v.names, p, sizeof v.names);
    put(o, " = %s", f->names->text[v.names]);
    break;
  }
}

static void put_record(const Out *o, const Record *r, const void *record) {
  const char *between = "{";
  for (int i = 0; i < r->n; i++) {
    if (field_is_zero(&r->field[i], record)) continue;
    put(o, "%s", between);
    put_field(o, &r->field[i], record);
    between = ", ";
  }
  put(o, *between == '{' ? "{}" : "}");
}

// -- sections -----------------------------------------------------------------------------------

static const char *const layout_scopes[] = {[LAYOUT_OPTIMIZER] = "optimizer: ",
                                            [LAYOUT_PARAMETERS] = "parameters: ",
                                            [LAYOUT_GRADIENTS] = "gradients: "};

// soft t -> [cols], optimizer: all -> [rows], tensor "head.*": b -> none
static void put_rule(const Out *o, const LayoutRule *r) {
  if (r->soft) put(o, "soft ");
  if (r->scope == LAYOUT_TENSOR) {
    put(o, "tensor ");
    put_word(o, r->pattern);
    put(o, ": ");
  } else if (r->scope != LAYOUT_ALL) {
    put(o, "%s", layout_scopes[r->scope]);
  }
  if (r->dim)
    put_word(o, r->dim);
  else
    put(o, "all");
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

// Starts one more `key` inside the braces of a node.
static void put_key(const Out *o, const char **between, const char *key) {
  put(o, "%s%s", *between, key);
  *between = ", ";
}

static void put_number_key(const Out *o, const char **between, const char *key, uint64_t number) {
  if (!number) return;
  put_key(o, between, key);
  put(o, " = %" PRIu64, number);
}

static void put_attr(const Out *o, const Node *n) {
  const Attr *t = &n->attr;
  const char *between = " {";
  static const double zero[2];
  if (t->decl) {
    put_key(o, &between, "decl = ");
    put_word(o, o->g->decl.at[t->decl - 1].name);
  }
  if (n->op == OP_CONST || memcmp(t->num, zero, sizeof zero) != 0) {
    put_key(o, &between, "num = ");
    put_reals(o, memcmp(&t->num[1], zero, sizeof zero[0]) ? 2 : 1, t->num);
  }
  if (t->ndims) {
    put_key(o, &between, "dims = ");
    put_dims(o, t->ndims, t->dims);
  }
  if (t->nto) {
    put_key(o, &between, "to = ");
    put_dims(o, t->nto, t->to);
  }
  if (t->axes.n) {
    put_key(o, &between, "axes = ");
    put_axes(o, t->axes);
  }
  if (t->monoid) {
    put_key(o, &between, "monoid = ");
    put(o, "%s", monoid_text(t->monoid));
  }
  if (t->ndata) {
    put_key(o, &between, "data = ");
    put_reals(o, t->ndata, t->data);
  }
  if (n->op == OP_WINDOW || n->op == OP_WINDOW_AT) {
    put_key(o, &between, "affine = ");
    put_affine(o, &t->affine);
  }
  put_number_key(o, &between, "key", t->key);
  put_number_key(o, &between, "carry", t->carry);
  put_number_key(o, &between, "tag", t->tag);
  put_number_key(o, &between, "flags", t->flags);
  put_number_key(o, &between, "region", t->region);
  put_number_key(o, &between, "instance", n->instance);
  put_number_key(o, &between, "composite", n->origin.composite);
  if (n->origin.backward) put_key(o, &between, "backward");
  if (*between == ',') put(o, "}");
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

static FILE *open_text(char **text, size_t *n) { return mem_stream(text, n); }

static char *close_text(Arena *a, FILE *file, char **text, const size_t *n) {
  mem_stream_close(file);
  char *copy = arena_text(a, *text, *n);
  free(*text);
  return copy;
}

char *graph_print(Arena *a, const Graph *g, const Diag *d, GraphNote *note, const void *table) {
  char *text = NULL;
  size_t n = 0;
  Out o = {.g = g, .d = d, .file = open_text(&text, &n)};
  put_graph(&o, note, table);
  return close_text(a, o.file, &text, &n);
}

char *graph_node_text(Arena *a, const Graph *g, const Diag *d, NodeId node) {
  char *text = NULL;
  size_t n = 0;
  Out o = {.g = g, .d = d, .file = open_text(&text, &n)};
  put_node(&o, node, NULL);
  char *line = close_text(a, o.file, &text, &n);
  line[strcspn(line, "\n")] = 0;
  return line;
}
