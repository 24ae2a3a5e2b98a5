// Writes .npy, .npz and .safetensors files. bf16 is written as f32, which every reader supports.
#include "runtime/runtime_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { NPY_TEXT = 1024, PIECE = 4096 };

static Dtype written_type(Dtype t) { return t == TYPE_BF16 ? TYPE_F32 : t; }
static int64_t written_bytes(const Array *x) {
  return x->elements * dtype_bytes(written_type(x->type));
}

// A function that receives n bytes of an array; `to` is the argument that the caller of
// put_elements gave.
typedef void Put(void *to, const void *bytes, size_t n);
// Passes all elements of x to `put`, in the element type in which they are written. Elements of
// bf16 are written as f32, and are converted and passed a limited number at a time.
static void put_elements(const Array *x, Put *put, void *to) {
  if (written_type(x->type) == x->type) {
    put(to, x->data, (size_t)written_bytes(x));
    return;
  }
  float piece[PIECE];
  for (int64_t at = 0; at < x->elements; at += PIECE) {
    int64_t n = x->elements - at < PIECE ? x->elements - at : PIECE;
    for (int64_t i = 0; i < n; i++)
      piece[i] = (float)dtype_load(TYPE_BF16, (const uint16_t *)x->data + at + i);
    put(to, piece, (size_t)n * sizeof *piece);
  }
}

static void put_file(void *to, const void *bytes, size_t n) { atomic_file_put(to, bytes, n); }

bool npy_write(const char *path, const Array *x, Diag *d) {
  AtomicFile w;
  char text[NPY_TEXT];
  if (!atomic_file_open(&w, path, d)) return false;
  atomic_file_put(&w, text, npy_header_text(x, written_type(x->type), text, sizeof text));
  put_elements(x, put_file, &w);
  return atomic_file_close(&w, d);
}

static void put_stream(void *to, const void *bytes, size_t n) {
  if (n) (void)!fwrite(bytes, 1, n, to);
}

void npy_put(FILE *out, const Array *x) {
  char text[NPY_TEXT];
  put_stream(out, text, npy_header_text(x, written_type(x->type), text, sizeof text));
  put_elements(x, put_stream, out);
}

// -- .npz: a zip file without compression, with zip64 fields where 32 bits are too few ----------

typedef struct Crc {
  uLong value;
} Crc;
static void put_crc(void *to, const void *bytes, size_t n) {
  Crc *c = to;
  for (size_t at = 0; at < n; at += 1 << 30) {
    size_t m = n - at < 1u << 30 ? n - at : 1u << 30;
    c->value = crc32(c->value, (const unsigned char *)bytes + at, (unsigned)m);
  }
}

static size_t little(char *out, uint64_t x, size_t n) {
  for (size_t i = 0; i < n; i++) out[i] = (char)(x >> (8 * i));
  return n;
}

typedef struct ZipEntry {
  uint64_t size, offset;
  uint32_t crc;
} ZipEntry;

static uint64_t low32(uint64_t x) { return x < UINT32_MAX ? x : UINT32_MAX; }

// A field of a zip header: the number x, and how many bytes of the file it takes.
typedef struct ZipField {
  uint64_t x;
  size_t bytes;
} ZipField;

static size_t put_fields(char *out, size_t n, const ZipField *field) {
  size_t at = 0;
  for (size_t i = 0; i < n; i++) at += little(out + at, field[i].x, field[i].bytes);
  return at;
}

// Writes the fields that local and central headers share. They are version needed (2.0, or 4.5 for
// zip64), flags (names are UTF-8), method (stored), time and date, checksum, the two sizes, and the
// lengths of name and extra field. The date is always 1 January 1980, so that equal arrays give
// equal files.
static size_t common_fields(char *out, const ZipEntry *e, size_t name, size_t extra) {
  const ZipField field[] = {
      {extra ? 45 : 20, 2}, {0x0800, 2},         {0, 2},    {0, 2},    {0x21, 2}, {e->crc, 4},
      {low32(e->size), 4},  {low32(e->size), 4}, {name, 2}, {extra, 2}};
  return put_fields(out, countof(field), field);
}

// Writes the zip64 extra field to `out` and returns its length; 0 if all numbers fit 32 bits.
static size_t extra_field(char *out, const ZipEntry *e, bool central) {
  size_t n = 4;
  if (low32(e->size) == UINT32_MAX) {
    n += little(out + n, e->size, 8);
    n += little(out + n, e->size, 8);
  }
  if (central && low32(e->offset) == UINT32_MAX) n += little(out + n, e->offset, 8);
  if (n == 4) return 0;
  little(out, 1, 2);
  little(out + 2, n - 4, 2);
  return n;
}

// Writes "NAME.npy", the name of the zip member of array x, to `name` and returns its length. If
// the name is too long, sets w->failed.
static size_t member_name(AtomicFile *w, const NamedArray *x, char name[512]) {
  size_t n = (size_t)snprintf(name, 512, "%s.npy", x->name);
  if (n >= 512) w->failed = true;
  return n < 512 ? n : 511;
}

static uint64_t put_local(AtomicFile *w, const NamedArray *x, ZipEntry *e) {
  char text[NPY_TEXT], head[128], extra[32], name[512];
  size_t ntext = npy_header_text(&x->array, written_type(x->array.type), text, sizeof text);
  size_t nname = member_name(w, x, name);
  Crc crc = {crc32(0, NULL, 0)};
  put_crc(&crc, text, ntext);
  put_elements(&x->array, put_crc, &crc);
  e->crc = (uint32_t)crc.value;
  e->size = ntext + (uint64_t)written_bytes(&x->array);
  size_t nextra = extra_field(extra, e, false);
  size_t n = little(head, 0x04034b50, 4);
  n += common_fields(head + n, e, nname, nextra);
  atomic_file_put(w, head, n);
  atomic_file_put(w, name, nname);
  atomic_file_put(w, extra, nextra);
  atomic_file_put(w, text, ntext);
  put_elements(&x->array, put_file, w);
  return n + nname + nextra + e->size;
}

static uint64_t put_central(AtomicFile *w, const NamedArray *x, const ZipEntry *e) {
  char head[128], extra[32], name[512];
  size_t nname = member_name(w, x, name), nextra = extra_field(extra, e, true);
  const ZipField sign[] = {{0x02014b50, 4}, {45, 2}}; // signature, version made by
  // length of the comment, number of the disk, internal and external attributes, offset of the
  // local header
  const ZipField rest[] = {{0, 2}, {0, 2}, {0, 2}, {0, 4}, {low32(e->offset), 4}};
  size_t n = put_fields(head, countof(sign), sign);
  n += common_fields(head + n, e, nname, nextra);
  n += put_fields(head + n, countof(rest), rest);
  atomic_file_put(w, head, n);
  atomic_file_put(w, name, nname);
  atomic_file_put(w, extra, nextra);
  return n + nname + nextra;
}

// Writes the end record of a directory of `count` entries and `bytes` bytes at offset `start`. If a
// number does not fit its field, a zip64 end record and its locator are written first.
static void put_end(AtomicFile *w, uint32_t count, uint64_t start, uint64_t bytes) {
  char b[98];
  uint64_t shown = count < UINT16_MAX ? count : UINT16_MAX;
  const ZipField large[] = {{0x06064b50, 4}, {44, 8},         {45, 2},    {45, 2},
                            {0, 8},          {count, 8},      {count, 8}, {bytes, 8},
                            {start, 8},      {0x07064b50, 4}, {0, 4},     {start + bytes, 8},
                            {1, 4}};
  const ZipField end[] = {{0x06054b50, 4},   {0, 4}, {shown, 2}, {shown, 2}, {low32(bytes), 4},
                          {low32(start), 4}, {0, 2}};
  bool zip64 = count >= UINT16_MAX || start + bytes >= UINT32_MAX;
  size_t n = zip64 ? put_fields(b, countof(large), large) : 0;
  n += put_fields(b + n, countof(end), end);
  atomic_file_put(w, b, n);
}

bool npz_write(const char *path, uint32_t n, const NamedArray *x, Diag *d) {
  AtomicFile w;
  if (!atomic_file_open(&w, path, d)) return false;
  ZipEntry *e = mem_zeroed(n + 1u, sizeof *e);
  uint64_t at = 0, bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    e[i].offset = at;
    at += put_local(&w, &x[i], &e[i]);
  }
  for (uint32_t i = 0; i < n; i++) bytes += put_central(&w, &x[i], &e[i]);
  put_end(&w, n, at, bytes);
  free(e);
  return atomic_file_close(&w, d);
}

// -- .safetensors -------------------------------------------------------------------------------

json_t *json_numbers(int n, const int64_t *x) {
  json_t *out = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(out, json_integer(x[i]));
  return out;
}

json_t *safetensors_entry(Dtype type, int rank, const int64_t *size, int64_t begin, int64_t end) {
  return json_pack("{s:s, s:o, s:[I, I]}", "dtype", raw_names(raw_of(type))->safetensors, "shape",
                   json_numbers(rank, size), "data_offsets", (json_int_t)begin, (json_int_t)end);
}

char *safetensors_header(json_t *entries, size_t unit, size_t *n) {
  char *text = json_dumps(entries, JSON_COMPACT);
  json_decref(entries);
  if (!text) return NULL;
  size_t length = strlen(text);
  *n = (8 + length + unit - 1) / unit * unit;
  char *out = mem_alloc(*n);
  little(out, *n - 8, 8);
  memcpy(out + 8, text, length);
  memset(out + 8 + length, ' ', *n - 8 - length);
  free(text);
  return out;
}

// Returns the place of a tensor in the order of a file, lower ranks first. Tensors whose size is a
// multiple of 64 bytes come first, others follow by element width, widest first. So all are
// aligned.
static int order_rank(const Array *x) {
  return written_bytes(x) % 64 == 0 ? 0 : 16 - (int)dtype_bytes(written_type(x->type));
}
static int by_order(const void *a, const void *b) {
  const NamedArray *x = *(const NamedArray *const *)a, *y = *(const NamedArray *const *)b;
  int p = order_rank(&x->array), q = order_rank(&y->array);
  return p != q ? p - q : strcmp(x->name, y->name);
}

static bool put_safetensors(AtomicFile *w, uint32_t n, const NamedArray **order) {
  json_t *entries = json_object();
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const Array *x = &order[i]->array;
    int64_t end = at + written_bytes(x);
    json_object_set_new(entries, order[i]->name,
                        safetensors_entry(written_type(x->type), x->rank, x->size, at, end));
    at = end;
  }
  // a name that occurs twice, or that is not UTF-8, has added no entry
  bool complete = json_object_size(entries) == n;
  size_t length;
  char *header = safetensors_header(entries, 64, &length);
  if (header) atomic_file_put(w, header, length);
  for (uint32_t i = 0; i < n; i++) put_elements(&order[i]->array, put_file, w);
  free(header);
  return complete && header;
}

bool safetensors_write(const char *path, uint32_t n, const NamedArray *x, Diag *d) {
  AtomicFile w;
  if (!atomic_file_open(&w, path, d)) return false;
  const NamedArray **order = mem_zeroed(n + 1u, sizeof *order);
  for (uint32_t i = 0; i < n; i++) order[i] = &x[i];
  if (n) qsort(order, n, sizeof *order, by_order);
  if (!put_safetensors(&w, n, order)) w.failed = true;
  free(order);
  return atomic_file_close(&w, d);
}
