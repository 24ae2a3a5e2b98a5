// Rows from binary data sets: idx (MNIST), CIFAR-10, and streams of tokens or bytes.
#include "runtime/data/file_list.h"
#include "runtime/data/source_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// -- idx: 0, 0, type, rank, then big-endian sizes of 4 bytes, then elements ---------------------

enum { IDX_HEAD = 4 + 4 * 255 };

static bool idx_type(unsigned char code, Raw *out) {
  static const struct {
    unsigned char code;
    Raw raw;
  } types[] = {{0x08, {'u', 1, true}}, {0x09, {'i', 1, true}}, {0x0B, {'i', 2, true}},
               {0x0C, {'i', 4, true}}, {0x0D, {'f', 4, true}}, {0x0E, {'f', 8, true}}};
  for (size_t i = 0; i < countof(types); i++)
    if (types[i].code == code) {
      *out = types[i].raw;
      return true;
    }
  return false;
}

static bool idx_header(const unsigned char *b, int64_t n, ArrayPlace *p, char *why) {
  if (n < 4) return why_not(why, "ends at byte %lld, inside its header", (long long)n);
  for (int i = 0; i < 2; i++)
    if (b[i] != 0) return why_not(why, "is no idx file: byte %d is 0x%02X, not 0", i, b[i]);
  if (!idx_type(b[2], &p->raw)) return why_not(why, "is no idx file: type 0x%02X at byte 2", b[2]);
  p->rank = b[3];
  if (p->rank < 1 || p->rank > MAX_RANK)
    return why_not(why, "is no idx file: %d axes at byte 3", b[3]);
  p->offset = 4 + 4 * p->rank;
  if (n < p->offset) return why_not(why, "ends at byte %lld, inside its header", (long long)n);
  for (int i = 0; i < p->rank; i++) {
    const unsigned char *q = b + 4 + 4 * i;
    p->size[i] = (int64_t)q[0] << 24 | q[1] << 16 | q[2] << 8 | q[3];
  }
  return place_count(p) || why_not(why, "claims more than 2^40 elements at byte 4");
}

static bool is_gzip(const char *path) {
  size_t n = strlen(path);
  return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

static bool idx_size(int64_t have, int64_t want, char *why) {
  return have == want ||
         why_not(why, "has %lld byte%s%s, its header at byte 4 asks for %lld", (long long)have,
                 plural(have), have > want ? " or more" : "", (long long)want);
}

static bool idx_elements(RowSource *s, const ArrayPlace *p, char *why) {
  int64_t n, want = p->offset + p->elements * p->raw.bytes;
  if (!is_gzip(s->path)) return idx_size(s->file.size, want, why);
  return gzip_inflate(s->path, want + 1, &s->memory, &n, why) && idx_size(n, want, why);
}

// If file f is compressed, only its header is inflated. The header says how many bytes the caller
// has to inflate.
bool idx_place(const Datafile *f, ArrayPlace *p, char *why) {
  unsigned char plain[IDX_HEAD];
  char *head;
  int64_t n = f->size < IDX_HEAD ? f->size : IDX_HEAD;
  if (!is_gzip(f->path)) return datafile_read(f, 0, n, plain, why) && idx_header(plain, n, p, why);
  if (!gzip_inflate(f->path, IDX_HEAD, &head, &n, why)) return false;
  bool ok = idx_header((unsigned char *)head, n, p, why);
  free(head);
  return ok;
}

// If there is no file s->path, replaces the path by another usual name of the same file that does
// exist. MNIST is found compressed or not, as train-images-idx3-ubyte and train-images.idx3-ubyte.
static void usual_name(RowSource *s) {
  size_t n = strlen(s->path), stem = is_gzip(s->path) ? n - 3 : n, folder = n;
  while (folder > 0 && s->path[folder - 1] != '/') folder--;
  for (int form = 0; form < 4 && access(s->path, F_OK) != 0; form++) {
    char *name = mem_alloc(stem + 4), *type;
    snprintf(name, stem + 4, "%.*s%s", (int)stem, s->path, form & 1 ? ".gz" : "");
    if (form & 2 && (type = strstr(name + folder, "idx")) && type > name + folder)
      type[-1] = type[-1] == '-' ? '.' : '-';
    bool found = access(name, F_OK) == 0;
    free(found ? s->path : name);
    if (found) s->path = name;
  }
}

bool source_idx(RowSource *s, Diag *d) {
  char why[WHY];
  ArrayPlace p = {0};
  usual_name(s);
  if (!datafile_open(&s->file, s->path, d, s->input->pos)) return false;
  if (!idx_place(&s->file, &p, why) || !idx_elements(s, &p, why))
    return file_malformed(s->path, why, d, s->input->pos);
  source_place(s, &p);
  s->scale = s->input->source->scale;
  return true;
}

// -- CIFAR-10: records of a label and 3 x 32 x 32 bytes, in one or several files ----------------

enum { CIFAR_RECORD = 3073 };

static bool append_file(RowSource *s, const char *path, int64_t *bytes, Diag *d) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, path, d, s->input->pos)) return false;
  bool ok = f.size % CIFAR_RECORD == 0 || why_not(why, "has %lld byte%s, no multiple of %d",
                                                  (long long)f.size, plural(f.size), CIFAR_RECORD);
  if (ok) s->memory = mem_grow(s->memory, (size_t)(*bytes + f.size) + 1);
  ok = ok && datafile_read(&f, 0, f.size, s->memory + *bytes, why);
  if (!ok) (void)file_malformed(path, why, d, s->input->pos);
  *bytes += f.size;
  datafile_close(&f);
  return ok;
}

bool source_cifar10(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  bool labels = w->key && strcmp(w->key, "labels") == 0;
  int64_t bytes = 0;
  FileList files;
  bool ok = file_list_find(&files, s->path, d, s->input->pos);
  for (uint32_t i = 0; ok && i < files.n; i++) ok = append_file(s, files.path[i], &bytes, d);
  file_list_free(&files);
  if (!ok) return false;
  ArrayPlace p = {.raw = raw_of(TYPE_U8),
                  .rank = labels ? 1 : 4,
                  .size = {bytes / CIFAR_RECORD, 3, 32, 32},
                  .offset = labels ? 0 : 1};
  source_place(s, &p);
  s->scale = labels ? 1 : w->scale;
  s->stride = CIFAR_RECORD;
  return true;
}

// -- tokens, text -------------------------------------------------------------------------------
//
// A row has n = row_elements tokens; row i begins at token i * n + offset of the file. A text with
// a vocabulary is encoded when it is opened, and its ids are kept. Tokens may be in many files
// (token_shards.h).

static void place_stream(RowSource *s, ArrayPlace *p, int64_t rows) {
  p->rank = 2;
  p->size[0] = rows;
  p->size[1] = s->row_elements;
  source_place(s, p);
}

// Places the rows in a file or a text of that many tokens.
static void place_one(RowSource *s, ArrayPlace *p, int64_t tokens) {
  place_stream(s, p, clamp64(tokens - s->input->source->offset, 0, INT64_MAX) / s->row_elements);
  s->sliding = true;
}

static bool source_encoded(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  char *path = path_under(s->directory, w->vocabulary);
  s->encoded = encoded_text_open(s->path, path, d, s->input->pos);
  free(path);
  if (!s->encoded) return false;
  const IdList *ids = encoded_text_ids(s->encoded);
  ArrayPlace p = {.raw = raw_of(TYPE_I32), .offset = w->offset * (int64_t)sizeof *ids->id};
  s->memory = (char *)ids->id;
  place_one(s, &p, ids->n);
  return true;
}

static bool source_shards(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  const TokenForm form = {w->skip, w->token_bytes, w->offset, s->row_elements};
  ArrayPlace p = {.raw = {'u', (uint8_t)w->token_bytes, false}};
  s->shards = token_shards_open(s->path, &form, d, s->input->pos);
  if (s->shards) place_stream(s, &p, token_shards_rows(s->shards));
  return s->shards != NULL;
}

bool source_stream(RowSource *s, Diag *d) {
  const DataSource *w = s->input->source;
  char why[WHY];
  if (w->kind == SOURCE_TEXT && w->vocabulary) return source_encoded(s, d);
  if (w->kind == SOURCE_TOKENS && strpbrk(s->path, "*?")) return source_shards(s, d);
  if (!datafile_open(&s->file, s->path, d, s->input->pos)) return false;
  ArrayPlace p = {.raw = {'u', (uint8_t)(w->kind == SOURCE_TEXT ? 1 : w->token_bytes), false}};
  int64_t bytes = s->file.size - w->skip, offset = 0;
  if (w->skip < 0 || w->offset < 0 || bytes < 0 || bytes % p.raw.bytes != 0 ||
      !size_mul(w->offset, p.raw.bytes, &offset) || !size_add(offset, w->skip, &p.offset)) {
    why_not(why, "has %lld byte%s, from byte %lld on no whole number of tokens of %d bytes",
            (long long)s->file.size, plural(s->file.size), (long long)w->skip, p.raw.bytes);
    return file_malformed(s->path, why, d, s->input->pos);
  }
  place_one(s, &p, bytes / p.raw.bytes);
  return true;
}
