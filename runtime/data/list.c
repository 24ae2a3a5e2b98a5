// Lists the contents of a data file by its headers: names, types and shapes of arrays, columns of
// CSV.
#include "runtime/data/image_source_internal.h"
#include "runtime/files/csv_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_csv(const char *path) {
  return text_ends(path, ".csv") || text_ends(path, ".tsv") || text_ends(path, ".csv.gz") ||
         text_ends(path, ".tsv.gz");
}

static ArrayInfo info_of(const char *name, const ArrayPlace *p) {
  ArrayInfo x = {.name = name,
                 .type = raw_names(p->raw)->text,
                 .usable = true,
                 .rank = p->rank,
                 .elements = p->elements,
                 .bytes = p->elements * p->raw.bytes};
  memcpy(x.size, p->size, sizeof x.size);
  return x;
}

static bool list_one(Arena *a, const ArrayPlace *p, ArrayList *out) {
  out->at = arena_array(a, ArrayInfo, 1);
  out->at[out->n++] = info_of("", p);
  return true;
}

static bool list_npy(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  ArrayPlace p;
  return npy_find(f, &p, why) && list_one(a, &p, out);
}

static bool list_npz(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  const char **name;
  uint32_t n = 0;
  if (!npz_names(a, f, &name, why)) return false;
  while (name[n]) n++;
  out->at = arena_array(a, ArrayInfo, n + 1);
  for (; out->n < n; out->n++) {
    ArrayPlace p;
    char *bytes;
    int64_t size;
    if (!npz_member(f, name[out->n], &bytes, &size, why)) return false;
    bool ok = npy_header((unsigned char *)bytes, size, &p, why);
    free(bytes);
    if (!ok) return false;
    out->at[out->n] = info_of(name[out->n], &p);
  }
  return true;
}

static bool list_idx(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  ArrayPlace p = {0};
  return idx_place(f, &p, why) && list_one(a, &p, out);
}

// -- csv files ----------------------------------------------------------------------------------

// A number may have either decimal sign: the file does not say which it has.
static void count_field(CsvColumn *c, const CsvField *field) {
  double x;
  if (!field->n) {
    c->missing++;
  } else if (!csv_number(field->text, field->n, '.', &x) &&
             !csv_number(field->text, field->n, ',', &x)) {
    c->others++;
  } else {
    c->low = c->numbers && c->low < x ? c->low : x;
    c->high = c->numbers && c->high > x ? c->high : x;
    c->numbers++;
  }
}

// Reads the row at p. Its fields are counted if it is complete, which a first pass finds out.
static void count_row(const CsvWalk *w, CsvSpare *spare, ArrayList *out, CsvRow *row) {
  const char *stopped, *p = w->p;
  csv_skip_row(p, w->end, &w->format, w->text->quotes, row);
  if (!row->next || (row->next > w->end && !w->text->end)) return;
  uint32_t n = 0;
  for (CsvField field;; p++, n++) {
    p = csv_field(p, w->end, &w->format, spare, &field, &stopped, row->why);
    if (n < out->ncolumns) count_field(&out->column[n], &field);
    if (*p == '\n') break;
  }
  if (++n == out->ncolumns) return;
  why_not(row->why, "%u column%s, but the first line has %u", n, plural(n), out->ncolumns);
  row->next = NULL;
  row->stopped = p;
}

static bool list_rows(CsvText *t, const CsvHead *head, int64_t begin, const char *path,
                      ArrayList *out, char *why) {
  CsvWalk w = {.text = t, .format = head->format, .p = t->at + (begin - t->offset)};
  CsvSpare spare = {0};
  CsvRow row = {.next = t->at};
  int64_t offset = 0;
  while (row.next && csv_walk_row(&w)) {
    row = (CsvRow){0};
    offset = csv_walk_offset(&w);
    count_row(&w, &spare, out, &row);
    if (csv_walk_incomplete(&w, &row)) {
      row.next = w.p;
      continue;
    }
    out->rows += row.next != NULL;
    w.p = row.next;
  }
  free(spare.at);
  if (*w.why) return why_not(why, "%s", w.why);
  return row.next || why_not(why, "line %lld: %.100s", (long long)csv_line(path, offset), row.why);
}

static bool list_csv(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at) {
  CsvText t;
  CsvHead head;
  int64_t offset = -1;
  char why[WHY];
  bool opened = csv_text_open(&t, path, d, at),
       ok = opened && csv_head(a, &t, (CsvFormat){0, '.'}, &head, &offset, why);
  if (opened && !ok && offset >= 0) {
    char reason[WHY];
    memcpy(reason, why, WHY);
    why_not(why, "line %lld: %.100s", (long long)csv_line(path, offset), reason);
  }
  if (ok && !head.n) ok = why_not(why, "has no rows");
  if (ok) {
    const CsvRecord *first = &head.row[0];
    bool header = csv_has_header(&head);
    out->ncolumns = first->n;
    out->column = arena_array(a, CsvColumn, first->n + 1);
    for (uint32_t i = 0; header && i < out->ncolumns; i++) out->column[i].name = first->field[i];
    int64_t begin = header ? first->next : first->offset;
    if (begin > t.offset + t.n) begin = t.offset + t.n;
    ok = list_rows(&t, &head, begin, path, out, why);
  }
  csv_text_close(&t);
  if (opened && !ok) diag_error(d, DIAG_FILE_MALFORMED, at, "%s: %s", path, why);
  return ok;
}

// -- other files --------------------------------------------------------------------------------

// Lists a file of unknown format, as text or as bytes, such as tokens. The file is listed as text
// if it has no control characters except white space.
static bool list_bytes(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  enum { PIECE = 65536 };
  unsigned char b[PIECE];
  bool text = true;
  for (int64_t i = 0; i < f->size; i += PIECE) {
    int64_t n = f->size - i < PIECE ? f->size - i : PIECE;
    if (!datafile_read(f, i, n, b, why)) return false;
    for (int64_t k = 0; k < n; k++) {
      text = text && (b[k] >= 32 || strchr("\t\r\n\f", b[k])) && b[k] != 0;
      out->rows += b[k] == '\n' || (i + k + 1 == f->size && b[k] != '\n');
    }
  }
  out->format = text ? "text" : "bytes";
  if (!text) out->rows = 0;
  ArrayPlace p = {.raw = {'u', 1, false}, .rank = 1, .size = {f->size}, .elements = f->size};
  return list_one(a, &p, out);
}

// Lists a PNG or JPEG file by the pixels that are decoded from it.
static bool list_image(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  ImageWork w = {0};
  Image x;
  char *bytes = datafile_whole(f, IMAGE_FILE_MOST, why);
  bool ok = bytes && image_decode((unsigned char *)bytes, (size_t)f->size, 0, &w, &x, why);
  if (ok) {
    ArrayPlace p = {.raw = {'u', 1, false}, .rank = x.channels == 1 ? 2 : 3};
    p.size[0] = x.height, p.size[1] = x.width, p.size[2] = x.channels;
    ok = (place_count(&p) || why_not(why, "has too many pixels")) && list_one(a, &p, out);
  }
  image_work_free(&w);
  free(bytes);
  return ok;
}

static bool looks_like_image(const Datafile *f, ArrayList *out) {
  static const char *const names[] = {[IMAGE_PNG] = "png", [IMAGE_JPEG] = "jpeg"};
  unsigned char head[16];
  char why[WHY];
  ImageFormat format;
  int64_t n = f->size < (int64_t)sizeof head ? f->size : (int64_t)sizeof head;
  if (!datafile_read(f, 0, n, head, why) || !image_format(head, (size_t)n, &format)) return false;
  out->format = names[format];
  return true;
}

static bool looks_like_idx(const Datafile *f) {
  ArrayPlace p = {0};
  char why[WHY];
  return idx_place(f, &p, why) &&
         (text_ends(f->path, ".gz") || f->size == p.offset + p.elements * p.raw.bytes);
}

typedef bool ListFormat(Arena *a, const Datafile *f, ArrayList *out, char *why);
static const struct {
  const char *name;
  ListFormat *list;
} formats[] = {[FORMAT_NPY] = {"npy", list_npy},
               [FORMAT_NPZ] = {"npz", list_npz},
               [FORMAT_SAFETENSORS] = {"safetensors", safetensors_list}};

static bool list_file(Arena *a, const Datafile *f, ArrayList *out, Diag *d, Pos at) {
  char why[WHY];
  ArrayFormat format = array_format(f);
  ListFormat *list = list_bytes;
  if (format == FORMAT_NPY || format == FORMAT_NPZ || format == FORMAT_SAFETENSORS) {
    out->format = formats[format].name;
    list = formats[format].list;
  } else if (looks_like_image(f, out)) {
    list = list_image;
  } else if (text_ends(f->path, "-ubyte") || text_ends(f->path, ".gz") || looks_like_idx(f)) {
    out->format = "idx";
    list = list_idx;
  } else if (foreign_hint(f)) {
    return file_malformed(f->path, "is a file of another program", d, at);
  }
  return list(a, f, out, why) || file_malformed(f->path, why, d, at);
}

// -- several files as one -----------------------------------------------------------------------

// Appends one array of a file to the list: the array named `only` or, if `only` is NULL, the first
// array. In the list the array is called `name` or, if `name` is NULL, has its own name.
static bool append_file(Arena *a, const char *path, const char *name, const char *only,
                        ArrayList *out, Diag *d, Pos at) {
  ArrayList one;
  Datafile f;
  if (!datafile_open(&f, path, d, at)) return false;
  // An index file may not name another index file: one that names itself would be read without end.
  bool index = array_format(&f) == FORMAT_INDEX;
  datafile_close(&f);
  if (index) {
    diag_error(d, DIAG_FILE_MALFORMED, at, "%s is an index, and an index names files of tensors",
               path);
    return false;
  }
  if (!array_list(a, path, &one, d, at)) return false;
  for (uint32_t i = 0; i < one.n; i++) {
    if (only && strcmp(one.at[i].name, only) != 0) continue;
    out->at[out->n] = one.at[i];
    if (name) out->at[out->n].name = name;
    out->n++;
    return true;
  }
  diag_error(d, DIAG_FILE_MALFORMED, at, "%s has no tensor '%s'", path, only ? only : "");
  return false;
}

static bool list_shards(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at) {
  const char **name;
  if (!array_names(a, path, &name, d, at)) return false;
  uint32_t n = 0;
  while (name[n]) n++;
  out->format = "shards";
  out->at = arena_array(a, ArrayInfo, n + 1);
  for (uint32_t i = 0; i < n; i++) {
    char *shard;
    if (!array_file(path, name[i], &shard, d, at)) return false;
    bool ok = append_file(a, arena_text(a, shard, strlen(shard)), NULL, name[i], out, d, at);
    free(shard);
    if (!ok) return false;
  }
  return true;
}

static int by_name(const void *x, const void *y) {
  return strcmp(((const ArrayInfo *)x)->name, ((const ArrayInfo *)y)->name);
}

static bool list_folder(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at) {
  VEC(const char *) names = {0};
  DIR *folder = mem_opendir(path);
  if (!folder) {
    diag_error(d, DIAG_FILE_MISSING, at, "cannot read the folder %s: %s", path, strerror(errno));
    return false;
  }
  for (const struct dirent *entry; (entry = readdir(folder));)
    if (text_ends(entry->d_name, ".npy"))
      vec_push(a, names) = arena_text(a, entry->d_name, strlen(entry->d_name) - 4);
  closedir(folder);
  out->format = "folder";
  if (!names.n) return list_images(a, path, out, d, at);
  out->at = arena_array(a, ArrayInfo, names.n + 1);
  bool ok = true;
  for (uint32_t i = 0; ok && i < names.n; i++)
    ok = append_file(a, arena_printf(a, "%s/%s.npy", path, names.at[i]), names.at[i], NULL, out, d,
                     at);
  if (out->n) qsort(out->at, out->n, sizeof *out->at, by_name);
  for (uint32_t i = 0; i < out->n; i++) out->bytes += out->at[i].bytes;
  return ok;
}

const char *array_file_of(Arena *a, const char *path) {
  static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
  for (size_t i = 0; i < countof(names); i++) {
    const char *file = arena_printf(a, "%s/%s", path, names[i]);
    if (access(file, F_OK) == 0) return file;
  }
  return path;
}

bool array_list(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at) {
  struct stat info;
  Datafile f;
  path = array_file_of(a, path);
  *out = (ArrayList){.format = "csv"};
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return list_folder(a, path, out, d, at);
  if (!datafile_open(&f, path, d, at)) return false;
  out->bytes = f.size;
  bool shards = array_format(&f) == FORMAT_INDEX, ok = shards ? list_shards(a, path, out, d, at)
                                                       : is_csv(path)
                                                           ? list_csv(a, path, out, d, at)
                                                           : list_file(a, &f, out, d, at);
  datafile_close(&f);
  return ok;
}
