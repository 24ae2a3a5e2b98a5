// Arrays: reads arrays from files into memory, in C order and native byte order, and converts their
// element types. An ArrayPlace says where an array is in its file, and its shape.
#include "runtime/runtime_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void array_free(Array *x) {
  if (x->map) {
    mapped_remove(x->map);
    munmap(x->map, x->map_bytes);
  } else
    free(x->data);
  *x = (Array){0};
}

// -- shapes -------------------------------------------------------------------------------------

const char *sizes_text(int rank, const int64_t *size, char *out, size_t room) {
  size_t n = (size_t)snprintf(out, room, "[");
  for (int i = 0; i < rank && n < room; i++)
    n += (size_t)snprintf(out + n, room - n, "%s%lld", i ? ", " : "", (long long)size[i]);
  if (n < room) snprintf(out + n, room - n, "]");
  return out;
}

// Copies those of the `rank` sizes that are not 1 to `out` and returns their number.
static int without_ones(int rank, const int64_t *size, int64_t *out) {
  int n = 0;
  for (int i = 0; i < rank; i++)
    if (size[i] != 1) out[n++] = size[i];
  return n;
}

bool sizes_fit(int rank, const int64_t *size, int other_rank, const int64_t *other) {
  int64_t a[MAX_RANK], b[MAX_RANK];
  int na = without_ones(rank, size, a), nb = without_ones(other_rank, other, b);
  int i = 0, j = 0;
  while (i < na && j < nb) {
    int64_t x = a[i++], y = b[j++];
    int from_a = 1, from_b = 1;
    while (x != y) {
      bool grow_a = x < y;
      if (grow_a ? i == na : j == nb) return false;
      if (!size_mul(grow_a ? x : y, grow_a ? a[i++] : b[j++], grow_a ? &x : &y)) return false;
      *(grow_a ? &from_a : &from_b) += 1;
      if ((from_a > 1 && from_b > 1) || x == 0 || y == 0) return false;
    }
  }
  return i == na && j == nb;
}

// -- rows ---------------------------------------------------------------------------------------

void array_copy_rows(const Array *shape, int axis, ArrayRows to, ArrayRows from, int64_t n) {
  int64_t outer = 1, inner = dtype_bytes(shape->type);
  for (int i = 0; i < axis; i++) outer *= shape->size[i];
  for (int i = axis + 1; i < shape->rank; i++) inner *= shape->size[i];
  for (int64_t i = 0; i < outer; i++)
    memcpy((char *)to.data + (i * to.rows + to.first) * inner,
           (const char *)from.data + (i * from.rows + from.first) * inner, (size_t)(n * inner));
}

void array_widen(Array *x, int axis, const int64_t *size) {
  int64_t counter[MAX_RANK] = {0}, each = dtype_bytes(x->type), elements = 1, from = 0;
  bool wider = false;
  for (int i = 0; i < x->rank; i++) {
    elements *= i == axis ? x->size[i] : size[i];
    wider |= i != axis && x->size[i] != size[i];
  }
  if (!wider) return;
  char *data = mem_alloc((size_t)(elements * each) + 1);
  memset(data, 0, (size_t)(elements * each));
  for (; from < x->elements; from++) {
    int64_t to = 0;
    for (int i = 0; i < x->rank; i++) to = to * (i == axis ? x->size[i] : size[i]) + counter[i];
    memcpy(data + to * each, (const char *)x->data + from * each, (size_t)each);
    for (int i = x->rank - 1; i >= 0 && ++counter[i] == x->size[i]; i--) counter[i] = 0;
  }
  free(x->data);
  x->data = data;
  x->elements = elements;
  for (int i = 0; i < x->rank; i++)
    if (i != axis) x->size[i] = size[i];
}

// -- reading arrays -----------------------------------------------------------------------------

ArrayFormat array_format(const Datafile *f) {
  char why[WHY];
  unsigned char b[9] = {0};
  size_t n = strlen(f->path);
  static const char index_end[] = ".index.json", safe_end[] = ".safetensors";
  if (n >= sizeof index_end && strcmp(f->path + n - (sizeof index_end - 1), index_end) == 0)
    return FORMAT_INDEX;
  if (n >= sizeof safe_end && strcmp(f->path + n - (sizeof safe_end - 1), safe_end) == 0)
    return FORMAT_SAFETENSORS;
  if (!datafile_read(f, 0, f->size < 9 ? f->size : 9, b, why)) return FORMAT_NONE;
  if (memcmp(b, "\x93NUMPY", 6) == 0) return FORMAT_NPY;
  if (foreign_hint(f)) return FORMAT_NONE; // archives of other programs
  if (memcmp(b, "PK\3\4", 4) == 0 || memcmp(b, "PK\5\6", 4) == 0) return FORMAT_NPZ;
  return b[8] == '{' ? FORMAT_SAFETENSORS : FORMAT_NONE;
}

// Returns the index in Fortran order of the element that has index i in C order.
static int64_t fortran_index(const ArrayPlace *p, int64_t i) {
  int64_t index[MAX_RANK], at = 0;
  for (int d = p->rank - 1; d >= 0; d--) {
    index[d] = i % p->size[d];
    i /= p->size[d];
  }
  for (int d = p->rank - 1; d >= 0; d--) at = at * p->size[d] + index[d];
  return at;
}

// Makes an array from `bytes`, the elements as the file stores them, by converting them into new
// memory. Returns false with a reason in `why` if that fails.
static bool array_make(Array *out, const ArrayPlace *p, const char *bytes, char *why) {
  *out = (Array){.type = raw_type(p->raw), .rank = p->rank, .elements = p->elements};
  memcpy(out->size, p->size, sizeof out->size);
  int64_t width = dtype_bytes(out->type), bad;
  out->data = mem_alloc((size_t)(p->elements * width) + 1);
  bool ok = true;
  if (!p->fortran || p->rank < 2) {
    ok = raw_convert(p->raw, bytes, p->elements, 1, out->type, out->data, &bad);
  } else {
    for (int64_t i = 0; ok && i < p->elements; i++)
      ok = raw_convert(p->raw, bytes + fortran_index(p, i) * p->raw.bytes, 1, 1, out->type,
                       (char *)out->data + i * width, &bad);
  }
  return ok || why_not(why, "has an element that no type holds");
}

// Returns true if the elements are stored in the file as an Array has them in memory. Then the file
// can be mapped. The order must be C order, the byte order that of the machine, and the type one of
// meshc.
static bool lies_plain(const ArrayPlace *p) {
  Raw r = raw_of(raw_type(p->raw));
  bool same = r.kind == p->raw.kind && r.bytes == p->raw.bytes && !(p->raw.big && r.bytes > 1);
  return same && r.kind != '?' && (!p->fortran || p->rank < 2) && p->elements > 0;
}

// Makes an array whose elements are in a private mapping of the file. Returns false if the system
// cannot map it.
static bool map_place(Array *out, const Datafile *f, const ArrayPlace *p) {
  int64_t page = sysconf(_SC_PAGESIZE), first = p->offset / page * page;
  size_t n = (size_t)(p->offset + p->elements * p->raw.bytes - first);
  void *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, f->fd, (off_t)first);
  if (map == MAP_FAILED) return false;
  if (!mapped_add(map, n, f->path)) {
    munmap(map, n);
    return false;
  }
  *out = (Array){.type = raw_type(p->raw),
                 .rank = p->rank,
                 .elements = p->elements,
                 .data = (char *)map + (p->offset - first),
                 .map = map,
                 .map_bytes = n};
  memcpy(out->size, p->size, sizeof out->size);
  return true;
}

static bool read_place(Array *out, const Datafile *f, const ArrayPlace *p, bool map, char *why) {
  if (map && lies_plain(p) && map_place(out, f, p)) return true;
  int64_t n = p->elements * p->raw.bytes;
  char *bytes = mem_alloc((size_t)n + 1);
  bool ok = datafile_read(f, p->offset, n, bytes, why) && array_make(out, p, bytes, why);
  free(bytes);
  return ok;
}

static bool read_npy(Array *out, const Datafile *f, const char *key, bool map, char *why) {
  ArrayPlace p;
  (void)key;
  return npy_find(f, &p, why) && read_place(out, f, &p, map, why);
}

static bool read_npz(Array *out, const Datafile *f, const char *key, bool map, char *why) {
  ArrayPlace p;
  char *bytes;
  int64_t n;
  (void)map; // unused: a compressed array cannot be mapped
  if (!npz_member(f, key, &bytes, &n, why)) return false;
  bool ok = npy_header((unsigned char *)bytes, n, &p, why);
  if (ok && p.offset + p.elements * p.raw.bytes != n)
    ok = why_not(why, "has %lld byte%s for '%.60s' and not those of its shape", (long long)n,
                 plural(n), key);
  ok = ok && array_make(out, &p, bytes + p.offset, why);
  free(bytes);
  return ok;
}

static bool read_safetensors(Array *out, const Datafile *f, const char *key, bool map, char *why) {
  ArrayPlace p;
  return safetensors_find(f, key, &p, why) && read_place(out, f, &p, map, why);
}

typedef bool ReadFormat(Array *out, const Datafile *f, const char *key, bool map, char *why);
static ReadFormat *const readers[] = {
    [FORMAT_NPY] = read_npy, [FORMAT_NPZ] = read_npz, [FORMAT_SAFETENSORS] = read_safetensors};

// Sets *only to the name of the only array of a file, which the caller frees, or to NULL if it has
// several. Returns false after an error.
static bool only_array(const char *path, char **only, Diag *d, Pos at) {
  Arena *a = arena_new();
  const char **name;
  bool good = array_names(a, path, &name, d, at);
  if (good && !name[0]) good = file_malformed(path, "holds no arrays", d, at);
  *only = good && !name[1] ? mem_text(name[0]) : NULL;
  arena_free(a);
  return good;
}

static bool read_file(Array *out, const char *path, const char *key, bool map, Diag *d, Pos at) {
  Datafile f;
  char why[WHY] = "is no .npy, .npz or .safetensors file";
  *out = (Array){0};
  if (!datafile_open(&f, path, d, at)) return false;
  ArrayFormat format = array_format(&f);
  bool ok = false, named = format != FORMAT_NONE && format != FORMAT_NPY;
  char *only = NULL;
  if (named && !key && !only_array(path, &only, d, at)) {
    datafile_close(&f);
    return false;
  }
  if (only) key = only;
  if (named && !key)
    why_not(why, "holds several arrays: name one");
  else if (format != FORMAT_NONE && format != FORMAT_INDEX)
    ok = readers[format](out, &f, key, map, why);
  datafile_close(&f);
  if (!ok) {
    (void)file_malformed(path, why, d, at);
    if (named) array_hint(path, key, d);
    array_free(out);
  }
  free(only);
  return ok;
}

void array_hint(const char *path, const char *key, Diag *d) {
  enum { FEW = 8 };
  Arena *a = arena_new();
  const char **name, *list = "it holds";
  if (array_names(a, path, &name, diag_new(a), (Pos){0})) {
    size_t n = 0;
    for (; name[n] && !(key && strcmp(name[n], key) == 0); n++)
      if (n < FEW) list = arena_printf(a, "%s%s %s", list, n ? "," : "", name[n]);
    if (n > 0 && !name[n]) {
      diag_hint(d, "%s%s", list, n > FEW ? ", ..." : "");
      if (key) diag_nearest(d, key, name, n);
    }
  }
  arena_free(a);
}

bool array_file(const char *path, const char *key, char **shard, Diag *d, Pos at) {
  Datafile f;
  char why[WHY];
  *shard = NULL;
  if (!key || !datafile_open(&f, path, d, at)) return !key;
  ArrayFormat format = array_format(&f);
  datafile_close(&f);
  if (format != FORMAT_INDEX) return true;
  *shard = safetensors_shard(path, key, why);
  if (*shard) return true;
  (void)file_malformed(path, why, d, at);
  array_hint(path, key, d);
  return false;
}

static bool read_any(Array *out, const char *path, const char *key, bool map, Diag *d, Pos at) {
  char *shard;
  *out = (Array){0};
  MemTask before = mem_doing("reading", path);
  bool ok =
      array_file(path, key, &shard, d, at) && read_file(out, shard ? shard : path, key, map, d, at);
  free(shard);
  mem_doing_restore(before);
  return ok;
}

bool array_read(Array *out, const char *path, const char *key, Diag *d, Pos at) {
  return read_any(out, path, key, false, d, at);
}

bool array_map(Array *out, const char *path, const char *key, Diag *d, Pos at) {
  return read_any(out, path, key, true, d, at);
}

bool array_names(Arena *a, const char *path, const char ***out, Diag *d, Pos at) {
  Datafile f;
  char why[WHY] = "is no .npz or .safetensors file";
  if (!datafile_open(&f, path, d, at)) return false;
  ArrayFormat format = array_format(&f);
  bool ok = false;
  if (format == FORMAT_NPZ) ok = npz_names(a, &f, out, why);
  if (format == FORMAT_SAFETENSORS) ok = safetensors_names(a, &f, out, why);
  if (format == FORMAT_INDEX) ok = safetensors_index_names(a, path, out, why);
  datafile_close(&f);
  return ok || file_malformed(path, why, d, at);
}

// -- converting element types -------------------------------------------------------------------

static void say_lost(const Array *x, Dtype type, const char *what, int64_t bad, Diag *d, Pos at) {
  int64_t index[MAX_RANK], rest = bad;
  char where[256];
  for (int i = x->rank - 1; i >= 0; i--) {
    index[i] = rest % x->size[i];
    rest /= x->size[i];
  }
  const char *p = (const char *)x->data + bad * dtype_bytes(x->type);
  diag_error(d, DIAG_DATA_TYPE, at,
             "%s is of type %s, which cannot hold element %s of what it is given, %.17g", what,
             dtype_text(type), sizes_text(x->rank, index, where, sizeof where),
             dtype_load(x->type, p));
}

enum { PIECE = 4096 };
bool array_fits(const Array *x, Dtype type, const char *what, Diag *d, Pos at) {
  bool widens = dtype_is_float(type) && dtype_is_float(x->type) &&
                (type == TYPE_F64 || (type == TYPE_F32 && x->type != TYPE_F64));
  if (x->type == type || widens) return true;
  char to[PIECE * 8];
  int64_t bad, bytes = dtype_bytes(x->type);
  for (int64_t i = 0; i < x->elements; i += PIECE) {
    int64_t n = x->elements - i < PIECE ? x->elements - i : PIECE;
    if (raw_convert(raw_of(x->type), (const char *)x->data + i * bytes, n, 1, type, to, &bad))
      continue;
    say_lost(x, type, what, i + bad, d, at);
    return false;
  }
  return true;
}

bool array_convert(Array *x, Dtype type, const char *what, Diag *d, Pos at) {
  if (x->type == type) return true;
  int64_t bad;
  void *to = mem_alloc((size_t)(x->elements * dtype_bytes(type)) + 1);
  if (!raw_convert(raw_of(x->type), x->data, x->elements, 1, type, to, &bad)) {
    say_lost(x, type, what, bad, d, at);
    free(to);
    return false;
  }
  Array old = *x;
  x->map = NULL;
  x->data = to;
  x->type = type;
  array_free(&old);
  return true;
}
