// Reads the arrays of --feed NAME=FILE and checks them against the model's inputs, before anything
// is compiled. Output: a FedList, which feeds_write copies to the inputs of a program.
#include "frontend/driver/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool is_number(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return *text && !*end;
}

// Splits the text of --feed, "FILE.npz:KEY", into *path and *key. *key is NULL for a path without a
// key.
static void split_key(Session *s, const char *text, const char **path, const char **key) {
  static const char *const kinds[] = {".npz:", ".safetensors:"};
  *path = text;
  *key = NULL;
  for (size_t i = 0; i < countof(kinds); i++) {
    const char *at = strstr(text, kinds[i]);
    if (!at) continue;
    size_t n = (size_t)(at - text) + strlen(kinds[i]);
    *path = arena_text(s->arena, text, n - 1);
    *key = text + n;
  }
}

static bool number_array(Array *x, double value, const Decl *decl) {
  *x = (Array){.type = TYPE_F64, .elements = 1, .data = mem_alloc(sizeof value)};
  if (decl->type == TYPE_I32 || decl->type == TYPE_U8 || decl->type == TYPE_BOOL)
    x->type = decl->type;
  dtype_store(x->type, x->data, dtype_round(x->type, value));
  return dtype_load(x->type, x->data) == value || x->type == TYPE_F64;
}

static DeclId find_input(Session *s, const char *name, size_t n, Pos pos) {
  const Graph *g = s->model->graph;
  const char **inputs = arena_array(s->arena, const char *, g->decl.n + 1);
  size_t count = 0;
  for (DeclId i = 1; i <= g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i - 1];
    if (decl->kind != DECL_INPUT) continue;
    if (strlen(decl->name) == n && memcmp(decl->name, name, n) == 0) return i;
    inputs[count++] = decl->name;
  }
  const char *given = arena_text(s->arena, name, n);
  enum { FEW = 8 };
  diag_error(s->diag, DIAG_UNKNOWN_FEED, pos, "--feed %s: the model has no input of that name",
             given);
  const char *list = NULL;
  for (size_t i = 0; i < count; i++)
    list = list ? arena_printf(s->arena, "%s, %s", list, inputs[i]) : inputs[i];
  if (count > 0 && count <= FEW) diag_hint(s->diag, "its inputs are: %s", list);
  diag_nearest(s->diag, given, inputs, count);
  return 0;
}

// Splits or merges axes of array x into those of the input, as data blocks do, if the order of the
// elements allows it. The axis of the rows must be the first of both.
static void fit_axes(const Session *s, const Decl *decl, Array *x, DimId rows_of) {
  int64_t size[MAX_RANK];
  for (int i = 0; i < decl->rank; i++) {
    if (i && decl->dims[i] == rows_of) return;
    size[i] = dim_get(s->model->graph->dims, decl->dims[i])->size;
  }
  if (!decl->rank || !x->rank || (decl->dims[0] != rows_of && x->size[0] != size[0]) ||
      !sizes_fit(x->rank - 1, x->size + 1, decl->rank - 1, size + 1))
    return;
  x->rank = decl->rank;
  memcpy(x->size + 1, size + 1, sizeof *size * (size_t)(decl->rank - 1));
}

// Compares rank and sizes of array x with the declaration of the input. The dim `rows_of` may have
// any size except 0, because predict runs its rows in batches. With `number` the option gives x as
// a number, not as a file. Returns false after an error.
static bool check_shape(Session *s, const Decl *decl, const Array *x, DimId rows_of, bool number,
                        Pos pos) {
  const DimTable *dims = s->model->graph->dims;
  if (x->rank != decl->rank) {
    diag_error(s->diag, DIAG_DATA_SHAPE, pos, "the input %s has %d dim%s, %s %d", decl->name,
               decl->rank, plural(decl->rank), number ? "a number has" : "the file has", x->rank);
    return diag_note(s->diag, decl->pos, "declared here");
  }
  for (int i = 0; i < decl->rank; i++) {
    const Dim *dim = dim_get(dims, decl->dims[i]);
    if (x->size[i] == dim->size || (decl->dims[i] == rows_of && x->size[i] > 0)) continue;
    diag_error(s->diag, DIAG_DATA_SHAPE, pos,
               "the input %s has %lld element%s along %s (axis %d), the file has %lld", decl->name,
               (long long)dim->size, plural(dim->size), dim->name, i, (long long)x->size[i]);
    diag_note(s->diag, decl->pos, "declared here");
    if (x->size[i] > 0)
      diag_hint(s->diag, "feed an array of the declared shape, or set the dim: --set %s=%lld",
                dim->name, (long long)x->size[i]);
    return false;
  }
  return true;
}

// -- CSV files and images -----------------------------------------------------------------------

// Sets *out to the kind of source that the file, folder or list of files is, by its name. Returns
// false if it is a file of arrays.
static bool is_source(const char *path, SourceKind *out) {
  static const struct {
    const char *end;
    SourceKind kind;
  } ends[] = {{".csv", SOURCE_CSV},     {".tsv", SOURCE_CSV},    {".csv.gz", SOURCE_CSV},
              {".tsv.gz", SOURCE_CSV},  {".png", SOURCE_IMAGES}, {".jpg", SOURCE_IMAGES},
              {".jpeg", SOURCE_IMAGES}, {"/*", SOURCE_IMAGES}};
  struct stat info;
  for (size_t i = 0; i < countof(ends); i++) {
    if (!text_ends(path, ends[i].end)) continue;
    *out = ends[i].kind;
    return true;
  }
  *out = SOURCE_IMAGES;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

// Returns how the model reads the input from a source of this kind: as its data blocks do, else
// from CSV the first columns of the file.
static DataSource source_like(const Session *s, const Decl *decl, SourceKind kind,
                              int64_t elements) {
  static const BlockKind order[] = {DATA_TEST, DATA_VALID, DATA_TRAIN};
  for (size_t k = 0; k < countof(order); k++) {
    const DataBlock *b = &s->model->graph->spec.data[order[k]];
    for (uint32_t i = 0; b->present && i < b->nfields; i++)
      if (b->field[i].source.kind == kind && !strcmp(b->field[i].input, decl->name))
        return b->field[i].source;
  }
  if (kind == SOURCE_IMAGES) return (DataSource){.kind = kind};
  return (DataSource){.kind = kind, .last = elements, .header = -1, .scale = 1};
}

// Returns the axis of the input that counts rows: the dim `rows_of`, else the dim of the rows of
// the data blocks, else the first.
static int row_axis(const Session *s, const Decl *decl, DimId rows_of) {
  const DataBlock *b = s->model->graph->spec.data;
  for (int k = 0; k < DATA_BLOCKS && !rows_of; k++)
    if (b[k].present) rows_of = b[k].over;
  for (int i = 0; i < decl->rank; i++)
    if (decl->dims[i] == rows_of) return i;
  return 0;
}

// Reads the rows of a CSV file, or images.
static bool read_source(Session *s, const Decl *decl, SourceKind kind, const char *path,
                        DimId rows_of, Pos pos, Fed *out) {
  if (!decl->rank)
    return diag_error(s->diag, DIAG_DATA_SHAPE, pos,
                      "the input %s is a single number, and %s has rows", decl->name, path);
  FeedInput in = {.name = decl->name,
                  .type = decl->type,
                  .rank = decl->rank,
                  .over = row_axis(s, decl, rows_of),
                  .pos = pos};
  int64_t elements = 1;
  for (int i = 0; i < decl->rank; i++) {
    in.size[i] = dim_get(s->model->graph->dims, decl->dims[i])->size;
    if (i != in.over) elements *= in.size[i];
  }
  DataSource source = source_like(s, decl, kind, elements);
  in.source = &source;
  source.path = path;
  source.row_first = source.row_last = 0;
  if (!facts_supply(s, &in)) return false;
  SourceFacts own;
  if (source_has_facts(&source) && !in.facts) {
    if (!source_learn(s->arena, &in, NULL, &own, s->diag)) return false;
    in.facts = &own;
  }
  if (in.facts) facts_keep(s, in.facts);
  return feed_array(&in, NULL, &out->array, &out->dropped, s->diag);
}

// Adds that the ending of a name says that a file is CSV, if this one may be a table. Returns
// false.
static bool hint_table(Session *s, const char *path) {
  static const char *const tables[] = {".txt", ".data", ".dat", ".tab"};
  for (size_t i = 0; i < countof(tables); i++)
    if (text_ends(path, tables[i]))
      return diag_hint(s->diag, "a table is known by the end of its name: .csv, .tsv, .csv.gz");
  return false;
}

static bool read_one(Session *s, const OptionUse *use, DimId rows_of, Fed *out) {
  const char *equals = strchr(use->text, '='), *path, *key;
  if (!equals || equals == use->text)
    return diag_error(s->diag, DIAG_USAGE, use->pos, "--feed takes NAME=FILE, not '%s'", use->text);
  out->decl = find_input(s, use->text, (size_t)(equals - use->text), use->pos);
  if (!out->decl) return false;
  out->use = *use;
  const Decl *decl = &s->model->graph->decl.at[out->decl - 1];
  double value;
  bool number = is_number(equals + 1, &value);
  split_key(s, equals + 1, &path, &key);
  if (number && !number_array(&out->array, value, decl))
    return diag_error(s->diag, DIAG_DATA_VALUE, use->pos, "%s cannot be %s: it is of type %s",
                      decl->name, equals + 1, dtype_text(decl->type));
  SourceKind kind;
  if (!number && !key && is_source(path, &kind)) {
    out->rows = source_row_names(s->arena, &(DataSource){.kind = kind, .path = path}, NULL);
    return read_source(s, decl, kind, path, rows_of, use->pos, out) &&
           check_shape(s, decl, &out->array, rows_of, false, use->pos);
  }
  if (!number && !array_read(&out->array, path, key, s->diag, use->pos)) return hint_table(s, path);
  fit_axes(s, decl, &out->array, rows_of);
  return check_shape(s, decl, &out->array, rows_of, number, use->pos) &&
         array_convert(&out->array, decl->type, decl->name, s->diag, use->pos);
}

static bool contains_dim(const Decl *decl, DimId dim) {
  for (int i = 0; i < decl->rank; i++)
    if (decl->dims[i] == dim) return true;
  return false;
}

static bool shares_dim(const Decl *a, const Decl *b, DimId dim) {
  return a != b && contains_dim(a, dim) && contains_dim(b, dim);
}

// Says how many rows were left out. Returns false after an error if another fed input has rows,
// too: they would no longer belong together.
static bool check_dropped(Session *s, const FedList *f, const Fed *fed, DimId rows_of) {
  const Decl *decl = &s->model->graph->decl.at[fed->decl - 1];
  const char *path = strchr(fed->use.text, '=') + 1;
  DimId rows = decl->dims[row_axis(s, decl, rows_of)];
  for (uint32_t i = 0; i < f->n; i++) {
    const Decl *other = f->at[i].decl ? &s->model->graph->decl.at[f->at[i].decl - 1] : decl;
    if (!shares_dim(decl, other, rows)) continue;
    diag_error(s->diag, DIAG_DATA_VALUE, fed->use.pos,
               "%s has %lld row%s with missing values, which missing = drop leaves out, but %s is "
               "fed as well",
               path, (long long)fed->dropped, plural(fed->dropped), other->name);
    return diag_hint(s->diag, "remove these rows from all files, or feed %s alone", decl->name);
  }
  fprintf(stderr, "meshc: %s: %lld row%s with missing values left out\n", path,
          (long long)fed->dropped, plural(fed->dropped));
  return true;
}

bool feeds_read(Session *s, DimId rows_of, FedList *out) {
  uint32_t n = s->opt->use[OPTION_FEED].n;
  bool good = true;
  *out = (FedList){.at = arena_array(s->arena, Fed, n + 1)};
  for (uint32_t i = 0; i < n; i++)
    good &= read_one(s, &s->opt->use[OPTION_FEED].at[i], rows_of, &out->at[out->n++]);
  for (uint32_t i = 0; i < n && good; i++)
    if (out->at[i].dropped) good = check_dropped(s, out, &out->at[i], rows_of);
  return good;
}

void feeds_free(FedList *f) {
  for (uint32_t i = 0; i < f->n; i++) array_free(&f->at[i].array);
}

bool feeds_cover(Session *s, const Graph *g, const FedList *f) {
  bool good = true;
  for (DeclId i = 1; i <= g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i - 1];
    if (decl->kind != DECL_INPUT || !decl->node) continue;
    bool fed = false;
    for (uint32_t k = 0; k < f->n; k++) fed |= f->at[k].decl == i;
    if (fed) continue;
    diag_error(s->diag, DIAG_NOT_FED, decl->pos, "the input %s is needed and not fed", decl->name);
    diag_hint(s->diag, "feed it: --feed %s=%s", decl->name, decl->rank ? "FILE.npy" : "NUMBER");
    good = false;
  }
  return good;
}

void feeds_write(const Session *s, Exec *e, const Program *p, const FedList *f) {
  for (uint32_t i = 0; i < f->n; i++) {
    const char *name = s->model->graph->decl.at[f->at[i].decl - 1].name;
    if (program_tensor(p, TENSOR_INPUT, name) >= 0)
      exec_write(e, TENSOR_INPUT, name, f->at[i].array.type, f->at[i].array.data);
  }
}
