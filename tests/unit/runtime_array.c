// Tests files of arrays: written arrays are read back, malformed files are refused with a sentence,
// and truncated or changed bytes never make a reader crash.
#include <math.h>
#include <sys/wait.h>

#include "ir/base/guard.h"
#include "ir/base/philox.h"
#include "tests/unit/data_frame.h"

static unsigned char *get(const char *path, size_t *n) {
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  unsigned char *b = malloc(1 << 20);
  *n = fread(b, 1, 1 << 20, f);
  fclose(f);
  return b;
}

static Array make(Dtype type, int rank, const int64_t *size) {
  Array x = {.type = type, .rank = rank, .elements = 1};
  for (int i = 0; i < rank; i++) x.elements *= x.size[i] = size[i];
  x.data = malloc((size_t)(x.elements * dtype_bytes(type)) + 1);
  for (int64_t i = 0; i < x.elements; i++)
    dtype_store(type, (char *)x.data + i * dtype_bytes(type),
                type == TYPE_BOOL      ? (double)(i % 2)
                : dtype_is_float(type) ? (double)i / 4
                                       : (double)(i % 100));
  return x;
}

static void expect_equal(const Array *x, const Array *y) {
  Dtype type = x->type == TYPE_BF16 ? TYPE_F32 : x->type;
  assert_int_equal(y->type, type);
  assert_int_equal(y->rank, x->rank);
  assert_int_equal(y->elements, x->elements);
  for (int i = 0; i < x->rank; i++) assert_int_equal(y->size[i], x->size[i]);
  for (int64_t i = 0; i < x->elements; i++)
    assert_true(dtype_load(x->type, (char *)x->data + i * dtype_bytes(x->type)) ==
                dtype_load(type, (char *)y->data + i * dtype_bytes(type)));
}

static const ArrayInfo *listed(const ArrayList *list, const char *name) {
  for (uint32_t i = 0; i < list->n; i++)
    if (strcmp(list->at[i].name, name) == 0) return &list->at[i];
  return NULL;
}

// Checks that every array of a file is listed with its shape.
static void expect_listed(const char *path, const char *format, uint32_t n, const NamedArray *all) {
  ArrayList list;
  assert_true(array_list(arena, path, &list, diag, (Pos){0}));
  assert_string_equal(list.format, format);
  assert_int_equal(list.n, n);
  for (uint32_t i = 0; i < n; i++) {
    const ArrayInfo *x = listed(&list, all[i].name);
    assert_non_null(x);
    assert_int_equal(x->rank, all[i].array.rank);
    assert_int_equal(x->elements, all[i].array.elements);
    for (int k = 0; k < x->rank; k++) assert_int_equal(x->size[k], all[i].array.size[k]);
  }
}

enum { SHAPES = 5 };
static const int64_t sizes[SHAPES][3] = {{0}, {7}, {3, 5}, {2, 3, 4}, {0, 4}};
static const int ranks[SHAPES] = {0, 1, 2, 3, 2};

static void written_is_read(void **state) {
  (void)state;
  const char *npy = path_of("a.npy"), *npz = path_of("a.npz"), *safe = path_of("a.safetensors");
  NamedArray all[TYPE_COUNT * SHAPES];
  uint32_t n = 0;
  for (int t = 0; t < TYPE_COUNT; t++)
    for (int s = 0; s < SHAPES; s++)
      all[n++] = (NamedArray){arena_printf(arena, "layer.%d/%d", t, s),
                              make((Dtype)t, ranks[s], sizes[s])};
  assert_true(npz_write(npz, n, all, diag));
  assert_true(safetensors_write(safe, n, all, diag));
  for (uint32_t i = 0; i < n; i++) {
    Array y;
    assert_true(npy_write(npy, &all[i].array, diag));
    assert_true(array_read(&y, npy, NULL, diag, (Pos){0}));
    expect_equal(&all[i].array, &y);
    array_free(&y);
    assert_true(array_read(&y, npz, all[i].name, diag, (Pos){0}));
    expect_equal(&all[i].array, &y);
    array_free(&y);
    if (!array_read(&y, safe, all[i].name, diag, (Pos){0})) fail_msg("%s", said());
    expect_equal(&all[i].array, &y);
    array_free(&y);
    const char *file[] = {npy, npz, safe};
    for (int k = 0; k < 3; k++) {
      assert_true(array_map(&y, file[k], k ? all[i].name : NULL, diag, (Pos){0}));
      expect_equal(&all[i].array, &y);
      array_free(&y);
    }
  }
  expect_listed(npz, "npz", n, all);
  expect_listed(safe, "safetensors", n, all);
  const char **names;
  uint32_t found = 0;
  assert_true(array_names(arena, npz, &names, diag, (Pos){0}));
  while (names[found]) found++;
  assert_int_equal(found, n);
  assert_string_equal(names[1], all[1].name);
  assert_true(array_names(arena, safe, &names, diag, (Pos){0}));
  for (found = 0; names[found]; found++) continue;
  assert_int_equal(found, n);
  assert_int_equal(access(arena_printf(arena, "%s.partial", npz), F_OK), -1);
  for (uint32_t i = 0; i < n; i++) array_free(&all[i].array);
}

static void write_npy(const char *path, int version, const char *dict, const void *data, size_t n) {
  unsigned char b[4096] = "\x93NUMPY";
  size_t length = strlen(dict), at = version == 1 ? 10 : 12;
  b[6] = (unsigned char)version;
  b[8] = (unsigned char)(length & 255);
  b[9] = (unsigned char)(length >> 8);
  memcpy(b + at, dict, length);
  memcpy(b + at + length, data, n);
  put_at(path, b, at + length + n);
}

static void npy_forms(void **state) {
  (void)state;
  const char *path = path_of("forms.npy");
  Array x;
  static const unsigned char big[] = {0, 0, 1, 2, 255, 255, 255, 254};
  write_npy(path, 2, "{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }\n", big, 8);
  assert_true(array_read(&x, path, NULL, diag, (Pos){0}));
  assert_int_equal(((int32_t *)x.data)[0], 258);
  assert_int_equal(((int32_t *)x.data)[1], -2);
  array_free(&x);
  static const float f[6] = {1, 2, 3, 4, 5, 6};
  write_npy(path, 3, "{ \"shape\" : (2, 3), \"fortran_order\": True, 'descr':'<f4'}", f, sizeof f);
  assert_true(array_read(&x, path, NULL, diag, (Pos){0}));
  assert_true(((float *)x.data)[1] == 3 && ((float *)x.data)[3] == 2 && ((float *)x.data)[5] == 6);
  array_free(&x);
  static const uint16_t u[2] = {65535, 1};
  write_npy(path, 1, "{'descr': '<u2', 'fortran_order': False, 'shape': (2L,), }\n", u, 4);
  assert_true(array_read(&x, path, NULL, diag, (Pos){0}));
  assert_int_equal(x.type, TYPE_I32);
  assert_int_equal(((int32_t *)x.data)[0], 65535);
  array_free(&x);
}

static void npy_refusals(void **state) {
  (void)state;
  static const struct {
    const char *dict, *says;
  } bad[] = {
      {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", "pickles"},
      {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", "records"},
      {"{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", "'<U5'"},
      {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", "'<c8'"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "asks for"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", "asks for"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", "2^40"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "shape"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "shape"},
      {"{'descr': '<f4', 'shape': (2,), }", "missing"},
      {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "'descr'"},
      {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,), }", "order"},
      {"{", "broken"},
      {"", "broken"},
  };
  for (size_t i = 0; i < countof(bad); i++) {
    Array x;
    again();
    write_npy(path_of("bad.npy"), 1, bad[i].dict, "12345678", 8);
    assert_false(array_read(&x, path_of("bad.npy"), NULL, diag, (Pos){0}));
    assert_int_equal(diag_exit(diag), 5);
    expect_said(bad[i].says);
  }
  again();
  Array x;
  assert_false(array_read(&x, path_of("none.npy"), NULL, diag, (Pos){0}));
  assert_int_equal(diag_exit(diag), 5);
  assert_false(array_read(&x, directory, NULL, diag, (Pos){0}));
  expect_said("not a regular file");
}

// -- safetensors --------------------------------------------------------------------------------

static void write_safe(const char *path, uint64_t length, const char *header, size_t data) {
  unsigned char b[4096] = {0};
  for (int i = 0; i < 8; i++) b[i] = (unsigned char)(length >> (8 * i));
  memcpy(b + 8, header, strlen(header));
  put_at(path, b, 8 + strlen(header) + data);
}

static void safetensors_refusals(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *says;
  } bad[] = {
      {" {}", 0, "begin with '{'"},
      {"[]", 0, "begin with '{'"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 8,
       "belong to no tensor"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "a hole"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\","
       "\"shape\":[2],\"data_offsets\":[4,12]}}",
       12, "an overlap"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4,
       "not those of its shape"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 0, "outside the file"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0,
       "2^40"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "bad shape"},
      {"{\"a\":{\"dtype\":\"Q7\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown type Q7"},
      {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "cannot be read"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\","
       "\"shape\":[1],\"data_offsets\":[4,8]}}",
       8, "duplicate"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "not a text"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4e0]}}", 4, "offsets"},
      {"{\"a\":7}", 0, "broken entry"},
      {"{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no tensor 'a'"},
      {"{\"a\":", 0, "broken header"},
  };
  for (size_t i = 0; i < countof(bad); i++) {
    Array x;
    again();
    write_safe(path_of("bad.safetensors"), strlen(bad[i].header), bad[i].header, bad[i].data);
    assert_false(array_read(&x, path_of("bad.safetensors"), "a", diag, (Pos){0}));
    assert_int_equal(diag_exit(diag), 5);
    expect_said(bad[i].says);
  }
  static const uint64_t lengths[] = {100, 100000001, UINT64_MAX, (uint64_t)1 << 63, 3};
  for (size_t i = 0; i < countof(lengths); i++) {
    Array x;
    again();
    write_safe(path_of("bad.safetensors"), lengths[i], "{}  ", 0);
    assert_false(array_read(&x, path_of("bad.safetensors"), "a", diag, (Pos){0}));
  }
  again();
}

static void sets_of_shards(void **state) {
  (void)state;
  Array x = make(TYPE_F32, 1, (int64_t[]){4}), y;
  NamedArray named = {"w", x};
  assert_true(safetensors_write(path_of("one-of-two.safetensors"), 1, &named, diag));
  const char *index = path_of("m.safetensors.index.json"), *text;
  text = "{\"metadata\": {}, \"weight_map\": {\"w\": \"one-of-two.safetensors\", \"v\": \"../x\"}}";
  put_at(index, text, strlen(text));
  assert_true(array_read(&y, index, "w", diag, (Pos){0}));
  expect_equal(&x, &y);
  array_free(&y);
  const char **names;
  assert_true(array_names(arena, index, &names, diag, (Pos){0}));
  assert_string_equal(names[0], "w");
  assert_false(array_read(&y, index, "v", diag, (Pos){0}));
  expect_said("outside its directory");
  assert_false(array_read(&y, index, "u", diag, (Pos){0}));
  expect_said("no tensor 'u'");
  array_free(&x);
}

// -- npz ----------------------------------------------------------------------------------------

static void deflated_members(void **state) {
  (void)state;
  // Makes a deflated member, as zip tools write it, from a stored one.
  Array x = make(TYPE_F64, 2, (int64_t[]){40, 30}), y;
  const char *npy = path_of("d.npy"), *npz = path_of("d.npz");
  assert_true(npy_write(npy, &x, diag));
  size_t n;
  unsigned char *plain = get(npy, &n), *b = calloc(1, 1 << 20);
  z_stream s = {0};
  assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  s.next_in = plain, s.avail_in = (unsigned)n;
  s.next_out = b + 35, s.avail_out = 1 << 19;
  assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
  size_t packed = s.total_out, at = 35 + packed;
  deflateEnd(&s);
  unsigned char head[26] = {20, 0, 0, 0, 8, 0, 0, 0, 0, 0};
  uint32_t fields[3] = {(uint32_t)crc32(0, plain, (unsigned)n), (uint32_t)packed, (uint32_t)n};
  memcpy(head + 10, fields, 12);
  head[22] = 5; // length of the name
  memcpy(b, "PK\3\4", 4);
  memcpy(b + 4, head, 26);
  memcpy(b + 30, "d.npy", 5);
  memcpy(b + at, "PK\1\2\24\0", 6);
  memcpy(b + at + 6, head, 26);
  memcpy(b + at + 46, "d.npy", 5);
  size_t tail = at + 51;
  memcpy(b + tail, "PK\5\6\0\0\0\0\1\0\1\0", 12);
  uint32_t place[2] = {51, (uint32_t)at};
  memcpy(b + tail + 12, place, 8);
  put_at(npz, b, tail + 22);
  if (!array_read(&y, npz, "d", diag, (Pos){0})) fail_msg("%s", said());
  expect_equal(&x, &y);
  array_free(&y);
  b[35 + packed / 2] ^= 1; // the data still inflates; only the checksum finds the change
  put_at(npz, b, tail + 22);
  assert_false(array_read(&y, npz, "d", diag, (Pos){0}));
  b[35 + packed / 2] ^= 1;
  b[at + 24 + 3] = 0x7f; // claims 2 GB
  put_at(npz, b, tail + 22);
  assert_false(array_read(&y, npz, "d", diag, (Pos){0}));
  expect_said("claims");
  put_at(npz, b, tail); // it has one array, which a reader without a name takes
  assert_false(array_read(&y, npz, NULL, diag, (Pos){0}));
  expect_said("is cut off");
  array_free(&x);
  free(plain);
  free(b);
}

// -- files truncated at every byte, files with changed bytes ------------------------------------

static void try_file(const char *path, const unsigned char *b, size_t n, const char *key) {
  Array x;
  const char **names;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  put_at(path, b, n);
  bool read = array_read(&x, path, key, d, (Pos){0});
  assert_int_equal(diag_errors(d) == 0, read);
  array_free(&x);
  Array mapped;
  assert_int_equal(array_map(&mapped, path, key, d, (Pos){0}), read);
  if (read && !array_fits(&mapped, TYPE_U8, "x", d, (Pos){0})) assert_true(diag_errors(d) > 0);
  array_free(&mapped);
  if (key && array_names(a, path, &names, d, (Pos){0})) assert_non_null(names);
  arena_free(a);
}

static void try_list(const char *path, const unsigned char *b, size_t n, const char *key) {
  ArrayList list;
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  (void)key;
  put_at(path, b, n);
  bool read = array_list(a, path, &list, d, (Pos){0});
  assert_int_equal(diag_errors(d) == 0, read);
  arena_free(a);
}

typedef void Try(const char *path, const unsigned char *b, size_t n, const char *key);
static void damage_with(Try *try_it, const char *path, const char *key) {
  size_t n;
  unsigned char *b = get(path, &n);
  const char *dot = strrchr(path, '.'), *bad = arena_printf(arena, "%s/damaged%s", directory, dot);
  for (size_t cut = 0; cut<n; cut += n> 2000 ? 7 : 1) try_it(bad, b, cut, key);
  uint32_t seed = 12345;
  for (int i = 0; i < 1500; i++) {
    unsigned char *c = malloc(n);
    memcpy(c, b, n);
    seed = seed * 1664525 + 1013904223;
    for (uint32_t k = 0; k <= seed % 3; k++) {
      uint32_t out[4], counter[4] = {(uint32_t)i, k, 0, 0}, zero[2] = {0, 0};
      philox4x32(counter, zero, out);
      c[out[0] % n] = out[1] % 4 == 0 ? 0xff : out[1] % 4 == 1 ? 0 : (unsigned char)out[2];
    }
    try_it(bad, c, n, key);
    free(c);
  }
  free(b);
}

static void damage(const char *path, const char *key) {
  damage_with(try_file, path, key);
  damage_with(try_list, path, key);
}

static void damaged_files_are_errors(void **state) {
  (void)state;
  Array x = make(TYPE_F32, 2, (int64_t[]){3, 4}), y = make(TYPE_U8, 1, (int64_t[]){5});
  NamedArray both[2] = {{"w", x}, {"v", y}};
  assert_true(npy_write(path_of("x.npy"), &x, diag));
  assert_true(npz_write(path_of("x.npz"), 2, both, diag));
  assert_true(safetensors_write(path_of("x.safetensors"), 2, both, diag));
  damage(path_of("x.npy"), NULL);
  damage(path_of("x.npz"), "v");
  damage(path_of("d.npz"), "d");
  damage(path_of("x.safetensors"), "v");
  static const char csv[] = "a,\"b \"\"c\"\"\",d\r\n1,,2.5\n\n3,x,-4e1\n";
  static const unsigned char idx[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6};
  put("x.csv", csv, sizeof csv - 1);
  put("x.idx", idx, sizeof idx);
  damage_with(try_list, path_of("x.csv"), NULL);
  damage_with(try_list, path_of("x.idx"), NULL);
  array_free(&x);
  array_free(&y);
}

// -- conversions --------------------------------------------------------------------------------

static bool converts(Dtype from, double value, Dtype to, double *out) {
  Array x = make(from, 1, (int64_t[]){1});
  dtype_store(from, x.data, value);
  bool ok = array_convert(&x, to, "x", diag, (Pos){0});
  if (ok) *out = dtype_load(to, x.data);
  array_free(&x);
  return ok;
}

// array_fits returns true exactly for the values that array_convert can convert.
static void holds_what_converts(void **state) {
  (void)state;
  static const double values[] = {0, 1, 2, 255, 256, -1, 0.5, 65504, 65520, 2147483648.0, 1e300};
  for (int from = 0; from < TYPE_COUNT; from++)
    for (int to = 0; to < TYPE_COUNT; to++)
      for (size_t i = 0; i < countof(values); i++) {
        double y;
        Array x = make((Dtype)from, 1, (int64_t[]){1});
        double value = dtype_round((Dtype)from, values[i]);
        dtype_store((Dtype)from, x.data, value);
        bool holds = array_fits(&x, (Dtype)to, "x", diag, (Pos){0});
        assert_int_equal(holds, converts((Dtype)from, value, (Dtype)to, &y));
        array_free(&x);
      }
  again();
}

static void conversions_lose_nothing(void **state) {
  (void)state;
  double y;
  assert_true(converts(TYPE_F64, 0.1, TYPE_F32, &y) && y == (double)0.1f);
  assert_false(converts(TYPE_F64, 1e300, TYPE_F32, &y));
  assert_true(converts(TYPE_F64, (double)INFINITY, TYPE_F32, &y) && isinf(y));
  assert_true(converts(TYPE_F64, (double)NAN, TYPE_F16, &y) && isnan(y));
  assert_true(converts(TYPE_I64, 2147483647, TYPE_I32, &y) && y == 2147483647);
  assert_false(converts(TYPE_I64, 2147483648, TYPE_I32, &y));
  assert_true(converts(TYPE_I32, 1 << 24, TYPE_F32, &y));
  assert_false(converts(TYPE_I32, (1 << 24) + 1, TYPE_F32, &y));
  assert_true(converts(TYPE_F32, 3, TYPE_I32, &y) && y == 3);
  assert_false(converts(TYPE_F32, 2.5, TYPE_I32, &y));
  assert_false(converts(TYPE_F32, (double)NAN, TYPE_I32, &y));
  assert_false(converts(TYPE_I32, -1, TYPE_U8, &y));
  assert_false(converts(TYPE_I32, 2, TYPE_BOOL, &y));
  assert_true(converts(TYPE_U8, 1, TYPE_BOOL, &y) && y == 1);
  assert_true(converts(TYPE_F32, 1.0 + 1e-6, TYPE_BF16, &y) && y == 1);
  Array x = make(TYPE_U64, 1, (int64_t[]){1});
  *(uint64_t *)x.data = UINT64_MAX;
  assert_false(array_convert(&x, TYPE_I64, "x", diag, (Pos){0}));
  assert_false(array_convert(&x, TYPE_F64, "x", diag, (Pos){0}));
  *(uint64_t *)x.data = (uint64_t)1 << 60;
  assert_true(array_convert(&x, TYPE_I64, "x", diag, (Pos){0}));
  assert_true(*(int64_t *)x.data == (int64_t)1 << 60);
  array_free(&x);
  x = make(TYPE_F32, 2, (int64_t[]){2, 3});
  assert_false(array_convert(&x, TYPE_I32, "w", diag, (Pos){0}));
  expect_said("w is of type i32, which cannot hold element [0, 1]");
  array_free(&x);
}

// Runs in a child process, because it ends the process.
static void a_mapped_file_shrinks(void **state) {
  (void)state;
  Array x = make(TYPE_F32, 1, (int64_t[]){100000}), y;
  const char *path = path_of("x.npy");
  char said[512] = "";
  int ends[2], status;
  assert_true(npy_write(path, &x, diag) && pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    float sum = 0;
    dup2(ends[1], STDERR_FILENO);
    if (!array_map(&y, path, NULL, diag, (Pos){0}) || truncate(path, 4096) != 0) _exit(1);
    for (int64_t i = 0; i < y.elements; i++) sum += ((const float *)y.data)[i];
    _exit(sum == 0 ? 0 : 1); // the sum is used, so that the compiler keeps the reads
  }
  close(ends[1]);
  assert_true(read(ends[0], said, sizeof said - 1) > 0);
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
  assert_non_null(strstr(said, "x.npy became shorter while it was read"));
  for (int i = 0; i < 100; i++) { // address ranges are released
    assert_true(npy_write(path, &x, diag) && array_map(&y, path, NULL, diag, (Pos){0}));
    assert_non_null(y.map);
    array_free(&y);
  }
  array_free(&x);
}

static void unwritable_places(void **state) {
  (void)state;
  Array x = make(TYPE_F32, 1, (int64_t[]){3});
  char below[sizeof directory + 32]; // a file cannot be used as a folder, even by root
  snprintf(below, sizeof below, "%s/file", directory);
  FILE *f = fopen(below, "w");
  assert_true(f && fclose(f) == 0);
  strcat(below, "/x.npy");
  assert_false(npy_write(below, &x, diag));
  assert_int_equal(diag_exit(diag), 1);
  again();
  assert_false(npy_write(directory, &x, diag)); // a file cannot be renamed onto a directory
  assert_int_equal(diag_exit(diag), 1);
  array_free(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(written_is_read),
      TEST(npy_forms),
      TEST(npy_refusals),
      TEST(safetensors_refusals),
      TEST(sets_of_shards),
      TEST(deflated_members),
      TEST(damaged_files_are_errors),
      TEST(conversions_lose_nothing),
      TEST(holds_what_converts),
      TEST(a_mapped_file_shrinks),
      TEST(unwritable_places),
  };
  process_own(); // mappings need a signal handler
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
