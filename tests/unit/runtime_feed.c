// Tests feeds: the values of every kind of source, batches, epochs, shuffling, and messages about
// malformed files.
#include "tests/unit/data_frame.h"

#include <math.h>

static DataSource source(SourceKind kind, const char *path) {
  return (DataSource){.kind = kind,
                      .path = path,
                      .first = -1,
                      .last = -1,
                      .header = -1,
                      .scale = 1,
                      .row_last = -1};
}
static DataSource csv(const char *path, int64_t first, int64_t last) {
  DataSource s = source(SOURCE_CSV, path);
  s.first = first;
  s.last = last;
  return s;
}
// Returns an input with rows along its first axis, and a second axis if n > 0.
static FeedInput input(const char *name, Dtype type, int64_t n, const DataSource *s) {
  FeedInput in = {.name = name, .type = type, .rank = n > 0 ? 2 : 1, .size = {4, n}, .source = s};
  return in;
}

static Feed *open_one(FeedInput in, int64_t batch) {
  in.size[in.over] = batch;
  return feed_open(1, &in, batch, false, 1, true, directory, diag);
}

// Opens a feed and reads the first batch. One of both must fail with the given sentence.
static void expect_bad(FeedInput in, const char *says) {
  const void *data[1];
  Feed *f = open_one(in, 4);
  if (f) {
    assert_true(feed_next(f, data) < 0);
    assert_true(feed_next(f, data) < 0); // an error is permanent
    feed_fault(f, diag);
  }
  feed_close(f);
  expect_said(says);
  again();
}

// -- csv ----------------------------------------------------------------------------------------

static void expect_csv(const char *text, const DataSource *s, int64_t n, int64_t rows,
                       const float *want) {
  put_text("t.csv", text);
  const void *data[1];
  Feed *f = open_one(input("x", TYPE_F32, n, s), 8);
  if (!f) expect_said("nothing");
  assert_int_equal(feed_rows(f), rows);
  assert_int_equal(feed_next(f, data), rows);
  for (int64_t i = 0; i < rows * (n ? n : 1); i++)
    assert_true(((const float *)data[0])[i] == want[i]);
  feed_close(f);
}

static void csv_forms(void **state) {
  (void)state;
  DataSource two = csv("t.csv", 0, 2), last = csv("t.csv", 2, 3),
             named = source(SOURCE_CSV, "t.csv");
  named.key = "species";
  static const float want[] = {1, 2, 4, 5.5f}, third[] = {3, 6};
  expect_csv("1,2,3\n4,5.5,6\n", &two, 2, 2, want);
  expect_csv("1,2,3\r\n4,5.5,6", &two, 2, 2, want);
  expect_csv("a,b,species\n1,2,3\n\n4,5.5,6\n\n", &two, 2, 2, want);
  expect_csv("a,b,species\n1,2,3\n4,5.5,6\n", &last, 0, 2, third);
  expect_csv("\xef\xbb\xbf"
             "a,b,species\n1,2,3\n4,5.5,6\n",
             &named, 0, 2, third);
  expect_csv("\"a \"\"x\"\"\",\"b,\nc\", species \n\"1\",2,3\n4,5.5, 6 \n", &named, 0, 2, third);
  expect_csv("120,4,setosa\n1,2,3\n4,5.5,6\n", &two, 2, 2,
             want); // a header may begin with numbers
  two.header = 0;
  expect_csv("1e0,+2.0,3\n4,5.5,6\n", &two, 2, 2, want);
  two.header = 1;
  expect_csv("7,8,9\n1,2,3\n4,5.5,6\n", &two, 2, 2, want);
  DataSource some = csv("t.csv", 0, 1);
  some.row_first = 1, some.row_last = 3;
  static const float middle[] = {2, 3};
  expect_csv("1\n2\n3\n4\n", &some, 0, 2, middle);
}

static void csv_refusals(void **state) {
  (void)state;
  DataSource two = csv("t.csv", 0, 2), named = source(SOURCE_CSV, "t.csv"),
             wide = csv("t.csv", 0, 4);
  named.key = "speces";
  put_text("t.csv", "a,b,species\n1,2,0\n3,,1\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "t.csv:3: column 1: the value is missing");
  put_text("t.csv", "a,b,species\n1,2,0\n3,4,1\n5,n/a,1\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "t.csv:4: column 1: 'n/a' is not a number");
  put_text("t.csv", "a,b,species\n1,nan,0\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "t.csv:2: column 1: 'nan' is not a number");
  put_text("t.csv", "a,b,species\n1,2,0\n1,2\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "t.csv:3: 2 columns, but the first line has 3");
  put_text("t.csv", "a,b,species\n1,2,0\n");
  expect_bad(input("x", TYPE_F32, 2, &named), "no column \"speces\"");
  expect_bad(input("x", TYPE_F32, 4, &wide), "columns 0..4");
  expect_bad(input("x", TYPE_F32, 3, &two), "a row of input x is [3]");
  put_text("t.csv", "1,2,0\n1.5,2,0\n");
  expect_bad(input("x", TYPE_I32, 2, &two), "t.csv:2: column 0: 1.5 is not a value of i32");
  put_text("t.csv", "a,b\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "has no rows");
  put_text("t.csv", "");
  expect_bad(input("x", TYPE_F32, 2, &two), "has no rows");
  put_text("t.csv", "1,\"2\n3");
  expect_bad(input("x", TYPE_F32, 2, &two), "does not end");
  put("t.csv", "1,2\n3\0,4\n", 9);
  expect_bad(input("x", TYPE_F32, 2, &two), "zero byte");
  two.path = "none.csv";
  expect_bad(input("x", TYPE_F32, 2, &two), "none.csv");
  two.path = "t.csv";
  two.row_first = 0, two.row_last = 9;
  put_text("t.csv", "1,2\n3,4\n");
  expect_bad(input("x", TYPE_F32, 2, &two), "rows 0..9");
}

// -- binary sources -----------------------------------------------------------------------------

static const unsigned char images[4 + 12 + 3 * 4] = {
    0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 51, 102, 153, 204, 255, 0, 51, 1, 2, 3, 4};

static void idx_files(void **state) {
  (void)state;
  put("i.idx", images, sizeof images);
  put_gzip("i.idx.gz", images, sizeof images);
  DataSource s = source(SOURCE_IDX, "i.idx");
  s.scale = 1.0 / 255;
  for (int k = 0; k < 2; k++) {
    const void *data[1];
    s.path = k ? "i.idx.gz" : "i.idx";
    Feed *f = open_one(input("x", TYPE_F32, 4, &s), 3); // the 2 x 2 elements are merged into 4
    if (!f) expect_said("nothing");
    assert_int_equal(feed_next(f, data), 3);
    for (int i = 0; i < 12; i++)
      assert_true(((const float *)data[0])[i] == (float)(images[16 + i] * (1.0 / 255)));
    feed_close(f);
  }
  FeedInput in = input("x", TYPE_F32, 4, &s);
  unsigned char b[sizeof images];
  static const struct {
    int at;
    unsigned char value;
    const char *says;
  } bad[] = {{0, 1, "byte 0 is 0x01"},   {2, 0x0A, "type 0x0A at byte 2"},
             {3, 0, "0 axes at byte 3"}, {7, 4, "asks for"},
             {4, 0xff, "asks for"},      {11, 3, "asks for"}};
  for (size_t i = 0; i < countof(bad); i++) {
    memcpy(b, images, sizeof b);
    b[bad[i].at] = bad[i].value;
    put("i.idx", b, sizeof b);
    put_gzip("i.idx.gz", b, sizeof b);
    s.path = "i.idx";
    expect_bad(in, bad[i].says);
    s.path = "i.idx.gz";
    expect_bad(in, bad[i].says);
  }
  s.path = "i.idx";
  for (size_t cut = 0; cut < sizeof images; cut++) {
    put("i.idx", images, cut);
    expect_bad(in, "byte");
  }
  put("i.idx.gz", "\x1f\x8b\x08junkjunkjunk", 15);
  s.path = "i.idx.gz";
  expect_bad(in, "i.idx.gz");
}

// A file is found under each of its usual names, whichever of them the model says.
static void idx_names(void **state) {
  (void)state;
  static const char *const names[] = {"few-images-idx3-ubyte", "few-images-idx3-ubyte.gz",
                                      "few-images.idx3-ubyte", "few-images.idx3-ubyte.gz"};
  DataSource s = source(SOURCE_IDX, NULL);
  FeedInput in = input("x", TYPE_F32, 4, &s);
  for (size_t there = 0; there < countof(names); there++) {
    if (there % 2)
      put_gzip(names[there], images, sizeof images);
    else
      put(names[there], images, sizeof images);
    for (size_t said = 0; said < countof(names); said++) {
      const void *data[1];
      s.path = names[said];
      Feed *f = open_one(in, 3);
      if (!f) expect_said("nothing");
      assert_int_equal(feed_next(f, data), 3);
      assert_true(((const float *)data[0])[1] == 51 * (float)s.scale);
      feed_close(f);
    }
    assert_int_equal(unlink(arena_printf(arena, "%s/%s", directory, names[there])), 0);
  }
  s.path = "few-images-idx3-ubyte.gz";
  expect_bad(in, "few-images-idx3-ubyte.gz");
}

static void cifar_files(void **state) {
  (void)state;
  unsigned char *b = malloc(3073 * 2);
  for (int i = 0; i < 3073 * 2; i++) b[i] = (unsigned char)(i % 3073 == 0 ? 3 + i / 3073 : i % 251);
  put("c_1.bin", b, 3073 * 2);
  put("c_2.bin", b, 3073);
  DataSource x = source(SOURCE_CIFAR10, "c_*.bin"), y = x;
  x.key = "images";
  y.key = "labels";
  FeedInput in[2] = {
      {.name = "x", .type = TYPE_U8, .rank = 4, .size = {4, 3, 32, 32}, .source = &x},
      {.name = "y", .type = TYPE_I32, .rank = 1, .size = {4}, .source = &y}};
  Feed *f = feed_open(2, in, 4, false, 0, true, directory, diag);
  assert_non_null(f);
  const void *data[2];
  assert_int_equal(feed_next(f, data), 3);
  assert_memory_equal(data[0], b + 1, 3072);
  assert_memory_equal((const char *)data[0] + 2 * 3072, b + 1, 3072);
  assert_int_equal(((const int32_t *)data[1])[1], 4);
  assert_int_equal(((const int32_t *)data[1])[2], 3);
  feed_close(f);
  put("c_2.bin", b, 3000);
  expect_bad(in[1], "no multiple of 3073");
  free(b);
}

static void streams(void **state) {
  (void)state;
  uint16_t tokens[2 + 21] = {9999, 9999};
  for (uint16_t i = 0; i < 21; i++) tokens[2 + i] = i;
  put("t.bin", tokens, sizeof tokens);
  DataSource x = source(SOURCE_TOKENS, "t.bin"), y;
  x.token_bytes = 2;
  x.skip = 4;
  y = x;
  y.offset = 1;
  FeedInput in[2] = {input("x", TYPE_I32, 3, &x), input("y", TYPE_I32, 3, &y)};
  in[0].size[0] = in[1].size[0] = 2;
  Feed *f = feed_open(2, in, 2, false, 0, true, directory, diag);
  assert_non_null(f);
  assert_int_equal(feed_rows(f),
                   6); // 21 tokens are 7 rows of 3; with targets one token later, 6 rows
  const void *data[2];
  for (int b = 0; b < 3; b++) {
    assert_int_equal(feed_next(f, data), 2);
    for (int i = 0; i < 6; i++) {
      assert_int_equal(((const int32_t *)data[0])[i], b * 6 + i);
      assert_int_equal(((const int32_t *)data[1])[i], b * 6 + i + 1);
    }
  }
  assert_int_equal(feed_next(f, data), 0);
  feed_close(f);
  DataSource text = source(SOURCE_TEXT, "t.txt");
  put_text("t.txt", "abcdefgh");
  f = open_one(input("x", TYPE_U8, 4, &text), 2);
  assert_int_equal(feed_next(f, data), 2);
  assert_memory_equal(data[0], "abcdefgh", 8);
  feed_close(f);
  x.skip = 3;
  expect_bad(in[0], "whole number of tokens");
}

// Tokens in shards: a row and the token behind it lie within one. A shard of k tokens has (k - 1) /
// 3 rows; one of them has none, and there are more than are open at a time.
static void token_shards(void **state) {
  (void)state;
  enum { SHARDS = 70 };
  uint16_t tokens[16];
  int want[SHARDS * 4], rows = 0;
  for (int k = 0; k < SHARDS; k++) {
    int n = k == 1 ? 3 : k % 13 + 4;
    for (int i = 0; i < n; i++) tokens[i] = (uint16_t)(100 * k + i);
    put(arena_printf(arena, "part-%02d.bin", k), tokens, 2 * (size_t)n);
    for (int i = 0; i < (n - 1) / 3; i++) want[rows++] = 100 * k + 3 * i;
  }
  DataSource x = source(SOURCE_TOKENS, "part-*.bin"), y;
  x.token_bytes = 2;
  y = x;
  y.offset = 1;
  FeedInput in[2] = {input("x", TYPE_I32, 3, &x), input("y", TYPE_I32, 3, &y)};
  in[0].size[0] = in[1].size[0] = 1;
  const void *data[2];
  for (int shuffle = 0; shuffle < 2; shuffle++) {
    Feed *f = feed_open(2, in, 1, shuffle, 4, true, directory, diag);
    assert_non_null(f);
    assert_int_equal(feed_rows(f), rows);
    int64_t sum = 0;
    for (int r = 0; r < rows; r++) {
      assert_int_equal(feed_next(f, data), 1);
      const int32_t *now = data[0], *next = data[1];
      assert_true(now[1] == now[0] + 1 && next[0] == now[1] && next[2] == now[2] + 1);
      if (!shuffle) assert_int_equal(now[0], want[r]);
      sum += now[0] - want[r];
    }
    assert_int_equal(sum, 0);
    assert_int_equal(feed_next(f, data), 0);
    feed_close(f);
  }
  put("part-33.bin", tokens, 7);
  expect_bad(in[0], "part-33.bin has 7 bytes, from byte 0 on no whole number of tokens of 2 bytes");
  x.path = "none-*.bin";
  expect_bad(in[0], "no file matches");
  x.path = "part-0[1].bin";
  x.token_bytes = 4;
  expect_bad(in[0], "No such file");
}

// A shard that is gone or has grown when a row of it is needed is named.
static void lost_shards(void **state) {
  (void)state;
  static const uint32_t tokens[200] = {7, 1u << 31}, good[4];
  put("s-0.bin", good, sizeof good);
  put("s-1.bin", tokens, sizeof tokens);
  put("s-2.bin", tokens, sizeof tokens);
  DataSource x = source(SOURCE_TOKENS, "s-*.bin");
  x.token_bytes = 4;
  FeedInput in = input("x", TYPE_I32, 40, &x);
  in.size[0] = 1;
  const void *data[1];
  expect_bad(in, "s-1.bin: row 0, column 1: 2147483648 is not a value of i32");
  in.type = TYPE_I64;
  Feed *f = feed_open(1, &in, 1, false, 4, true, directory, diag);
  assert_non_null(f);
  assert_int_equal(feed_rows(f), 8);
  // only the first rows are read before the first batch is asked for
  assert_int_equal(unlink(path_of("s-2.bin")), 0);
  for (int r = 0; r < 4; r++) assert_int_equal(feed_next(f, data), 1);
  assert_int_equal(feed_next(f, data), -1);
  feed_fault(f, diag);
  expect_said("s-2.bin No such file or directory");
  feed_close(f);
}

// Inputs that read the same text with the same vocabulary get the same ids, also beside another
// feed, and after the text has changed the new ones.
static void encoded_texts(void **state) {
  (void)state;
  char *here = realpath("tests/vocabularies/bpe.model", NULL);
  assert_non_null(here);
  DataSource x = source(SOURCE_TEXT, "t.txt"), y;
  x.vocabulary = here;
  y = x;
  y.offset = 1;
  FeedInput in[2] = {input("x", TYPE_I32, 4, &x), input("y", TYPE_I32, 4, &y)};
  in[0].size[0] = in[1].size[0] = 1;
  const void *data[2];
  put_text("t.txt", "abcdefgh");
  static const int32_t ids[] = {262, 382, 379, 372, 362, 378, 335, 14};
  Feed *f = feed_open(2, in, 1, false, 0, true, directory, diag),
       *g = feed_open(1, in, 1, false, 0, true, directory, diag);
  assert_int_equal(feed_next(f, data), 1);
  assert_memory_equal(data[0], ids, 16);
  assert_memory_equal(data[1], ids + 1, 16);
  feed_close(f);
  assert_int_equal(feed_next(g, data), 1);
  assert_memory_equal(data[0], ids, 16);
  put_text("t.txt", "habcdefgh");
  f = feed_open(1, in, 1, false, 0, true, directory, diag);
  assert_int_equal(feed_next(f, data), 1);
  assert_true(memcmp(data[0], ids, 16) != 0);
  feed_close(f);
  feed_close(g);
  x.vocabulary = "none.model";
  expect_bad(in[0], "none.model: No such file");
  free(here);
}

static void put_array(int64_t rows, int64_t n) {
  Array x = {.type = TYPE_F32, .rank = 2, .size = {rows, n}, .elements = rows * n};
  x.data = malloc((size_t)(rows * n) * 4);
  for (int64_t i = 0; i < rows * n; i++) ((float *)x.data)[i] = (float)i;
  NamedArray named = {"x", x};
  assert_true(npy_write(arena_printf(arena, "%s/x.npy", directory), &x, diag));
  assert_true(npz_write(arena_printf(arena, "%s/x.npz", directory), 1, &named, diag));
  assert_true(
      safetensors_write(arena_printf(arena, "%s/x.safetensors", directory), 1, &named, diag));
  array_free(&x);
}

// -- conversions, rings -------------------------------------------------------------------------

static void put_numbers(Dtype type, const double *x, int64_t rows, int64_t n) {
  Array a = {.type = type, .rank = 2, .size = {rows, n}, .elements = rows * n};
  char *data = arena_alloc(arena, (size_t)(a.elements * dtype_bytes(type)));
  for (int64_t i = 0; i < a.elements; i++) dtype_store(type, data + i * dtype_bytes(type), x[i]);
  a.data = data;
  assert_true(npy_write(path_of("n.npy"), &a, diag));
}

// Numbers in the types that files have, as those that inputs have, in rows of several lengths: in
// runs of vectors and behind them, from memory and from the file.
static void conversions(void **state) {
  (void)state;
  static const struct {
    Dtype from, to;
    double low, step;
  } pair[] = {{TYPE_U8, TYPE_F32, 0, 1},      {TYPE_U8, TYPE_I32, 3, 1},
              {TYPE_I64, TYPE_I32, -90, 7},   {TYPE_F64, TYPE_F32, -1.1, 0.3},
              {TYPE_I32, TYPE_F64, -5, 1000}, {TYPE_F32, TYPE_F32, 0.5, 0.5}};
  static const int64_t lengths[] = {1, 63, 64, 65, 200};
  for (size_t k = 0; k < countof(pair); k++)
    for (size_t l = 0; l < countof(lengths); l++) {
      int64_t n = lengths[l];
      double *x = arena_array(arena, double, 3 * n);
      for (int64_t i = 0; i < 3 * n; i++) x[i] = pair[k].low + pair[k].step * (double)(i % 200);
      put_numbers(pair[k].from, x, 3, n);
      DataSource s = source(SOURCE_NPY, "n.npy");
      for (int way = 0; way < 2; way++) {
        FeedInput in = input("x", pair[k].to, n, &s);
        in.size[0] = 3;
        in.keep = way;
        Feed *f = feed_open(1, &in, 3, false, 1, true, directory, diag);
        const void *data[1];
        assert_non_null(f);
        assert_int_equal(feed_next(f, data), 3);
        for (int64_t i = 0; i < 3 * n; i++) {
          double want = dtype_round(pair[k].to, dtype_round(pair[k].from, x[i]));
          double got = dtype_load(pair[k].to, (const char *)data[0] + i * dtype_bytes(pair[k].to));
          if (got != want) fail_msg("pair %zu, element %d is %g, not %g", k, (int)i, got, want);
        }
        feed_close(f);
      }
    }
  static const double far[] = {1, 2, 3e9, 4}, large[] = {1, 1e300, -1, 2};
  DataSource s = source(SOURCE_NPY, "n.npy");
  put_numbers(TYPE_I64, far, 2, 2);
  expect_bad(input("x", TYPE_I32, 2, &s), "row 1, column 0: 3000000000 is not a value of i32");
  put_numbers(TYPE_F64, large, 2, 2);
  expect_bad(input("x", TYPE_F32, 2, &s), "row 0, column 1: ");
}

// Many more batches than a ring has slots, of small rows, by a fast and by a slow user; a feed that
// is closed or moved while its ring is full.
static void rings(void **state) {
  (void)state;
  enum { ROWS = 3000, BATCH = 2 };
  put_array(ROWS, 1);
  DataSource s = source(SOURCE_NPY, "x.npy");
  FeedInput in = input("x", TYPE_F32, 1, &s);
  in.size[0] = BATCH;
  const void *data[1];
  for (int slow = 0; slow < 2; slow++) {
    Feed *f = feed_open(1, &in, BATCH, false, 1, false, directory, diag);
    for (int epoch = 0; epoch < 4; epoch++) {
      for (int r = 0; r < ROWS; r += BATCH) {
        assert_int_equal(feed_next(f, data), BATCH);
        assert_true(((const float *)data[0])[0] == r && ((const float *)data[0])[1] == r + 1);
        if (slow && r % 1000 == 0) usleep(1000);
      }
      assert_int_equal(feed_next(f, data), 0);
    }
    usleep(2000);
    assert_true(feed_seek(f, 0, 10, diag));
    assert_int_equal(feed_next(f, data), BATCH);
    assert_true(((const float *)data[0])[0] == 10);
    usleep(2000);
    assert_true(feed_wait_seconds(f) >= 0);
    feed_close(f);
  }
}

// -- arrays, order, epochs ----------------------------------------------------------------------

static void arrays_and_axes(void **state) {
  (void)state;
  put_array(5, 6);
  DataSource s[3] = {source(SOURCE_NPY, "x.npy"), source(SOURCE_NPZ, "x.npz"),
                     source(SOURCE_SAFETENSORS, "x.safetensors")};
  for (int k = 0; k < 3; k++) {
    s[k].key = "x";
    // x[d = 2, b, e = 3]: rows run along the middle axis
    FeedInput in = {
        .name = "x", .type = TYPE_F64, .rank = 3, .size = {2, 3, 3}, .over = 1, .source = &s[k]};
    const void *data[1];
    Feed *f = open_one(in, 3);
    assert_non_null(f);
    for (int64_t first = 0; first < 5; first += 3) {
      int64_t rows = feed_next(f, data);
      assert_int_equal(rows, first ? 2 : 3);
      for (int64_t d = 0; d < 2; d++)
        for (int64_t r = 0; r < rows; r++)
          for (int64_t e = 0; e < 3; e++)
            assert_true(((const double *)data[0])[(d * rows + r) * 3 + e] ==
                        (double)((first + r) * 6 + d * 3 + e));
    }
    feed_close(f);
  }
  expect_bad(input("x", TYPE_F32, 5, &s[0]), "a row of");
  s[1].key = "y";
  expect_bad(input("x", TYPE_F32, 6, &s[1]), "no array 'y'");
  FeedInput turned = {.name = "x", .type = TYPE_F32, .rank = 3, .size = {4, 4, 9}, .source = &s[0]};
  put_array(5, 36);
  Feed *f = open_one(turned, 4);
  assert_non_null(f); // 36 splits into 4 x 9
  feed_close(f);
}

// Each epoch has every row once, in an order of its own that does not depend on the batch size.
static void shuffled_epochs(void **state) {
  (void)state;
  enum { ROWS = 23 };
  put_array(ROWS, 1);
  DataSource s = source(SOURCE_NPY, "x.npy");
  int order[2][2][ROWS];
  for (int k = 0; k < 2; k++) {
    int64_t batch = k ? 7 : 4;
    FeedInput in = input("x", TYPE_F32, 1, &s);
    in.size[0] = batch;
    Feed *f = feed_open(1, &in, batch, true, 5, true, directory, diag);
    const void *data[1];
    for (int epoch = 0; epoch < 2; epoch++) {
      bool seen[ROWS] = {false};
      int n = 0;
      for (int64_t rows; (rows = feed_next(f, data)) > 0;)
        for (int64_t r = 0; r < rows; r++) {
          int row = (int)((const float *)data[0])[r];
          assert_false(seen[row]);
          seen[row] = true;
          order[k][epoch][n++] = row;
        }
      assert_int_equal(n, ROWS);
    }
    feed_close(f);
  }
  assert_memory_equal(order[0], order[1], sizeof order[0]);
  assert_true(memcmp(order[0][0], order[0][1], sizeof order[0][0]) != 0);
}

// A feed that is moved to a position returns the same batches as a feed that arrived there step by
// step, also beyond the end of its epoch and with other batch sizes.
static void positions(void **state) {
  (void)state;
  enum { ROWS = 23, BATCH = 4, STEPS = 14 };
  put_array(ROWS, 1);
  DataSource s = source(SOURCE_NPY, "x.npy");
  FeedInput in = input("x", TYPE_F32, 1, &s);
  in.size[0] = BATCH;
  const void *data[1];
  for (int start = 0; start < STEPS; start++) {
    Feed *a = feed_open(1, &in, BATCH, true, 5, false, directory, diag),
         *b = feed_open(1, &in, BATCH, true, 5, false, directory, diag);
    int64_t epoch, row;
    float want[BATCH];
    for (int i = 0; i < start; i++)
      if (feed_next(a, data) == 0) i--;
    feed_position(a, &epoch, &row);
    assert_true(feed_seek(b, epoch, row, diag));
    for (int i = 0; i < STEPS; i++) {
      int64_t rows = feed_next(a, data);
      memcpy(want, data[0], sizeof want);
      assert_int_equal(feed_next(b, data), rows);
      if (rows > 0) assert_memory_equal(data[0], want, sizeof want);
    }
    feed_close(a);
    feed_close(b);
  }
  FeedInput other = in;
  other.size[0] = 6;
  Feed *c = feed_open(1, &other, 6, true, 5, true, directory, diag);
  assert_true(feed_seek(c, 1, 20, diag));
  assert_int_equal(feed_next(c, data), 3);
  assert_int_equal(feed_next(c, data), 0);
  assert_int_equal(feed_next(c, data), 6);
  feed_close(c);
}

static void rows_must_agree(void **state) {
  (void)state;
  put_array(5, 1);
  put_text("t.csv", "1\n2\n3\n4\n");
  DataSource x = source(SOURCE_NPY, "x.npy"), y = csv("t.csv", 0, 1);
  FeedInput in[2] = {input("x", TYPE_F32, 1, &x), input("y", TYPE_I32, 0, &y)};
  in[0].size[0] = in[1].size[0] = 2;
  assert_null(feed_open(2, in, 2, false, 0, false, directory, diag));
  expect_said("4 rows for input y");
  again();
  in[0].size[0] = 8;
  assert_null(feed_open(1, in, 8, false, 0, false, directory, diag));
  expect_said("the data has 5 rows, fewer than a batch of 8");
  again();
  x.row_last = 4;
  in[0].size[0] = 3;
  in[1].size[0] = 3;
  Feed *f = feed_open(2, in, 3, false, 0, false, directory, diag);
  assert_non_null(f);
  const void *data[2];
  assert_int_equal(feed_next(f, data), 3); // the incomplete batch is dropped
  assert_int_equal(feed_next(f, data), 0);
  assert_int_equal(feed_next(f, data), 3);
  feed_close(f);
}

static void synthetic(void **state) {
  (void)state;
  DataSource x = source(SOURCE_SYNTHETIC, NULL), y = x;
  x.synthetic = SYNTHETIC_NORMAL;
  y.synthetic = SYNTHETIC_INTEGERS;
  y.low = 3, y.high = 6;
  FeedInput in[2] = {input("x", TYPE_F32, 2, &x), input("y", TYPE_I32, 0, &y)};
  Feed *f = feed_open(2, in, 4, false, 9, false, NULL, diag);
  assert_non_null(f);
  assert_int_equal(feed_batches(f), 64);
  const void *data[2];
  int counts[3] = {0};
  while (feed_next(f, data) == 4)
    for (int i = 0; i < 4; i++) {
      int id = ((const int32_t *)data[1])[i];
      assert_in_range(id, 3, 5);
      counts[id - 3]++;
    }
  for (int i = 0; i < 3; i++) assert_in_range(counts[i], 50, 130);
  feed_close(f);
  y.row_last = 10;
  f = feed_open(2, in, 4, true, 9, true, NULL, diag);
  assert_int_equal(feed_rows(f), 10);
  feed_close(f);
  y.low = 2.5;
  y.high = 2.6;
  expect_bad(in[1], "is not a value of i32");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(csv_forms),   TEST(csv_refusals),    TEST(idx_files),       TEST(idx_names),
      TEST(cifar_files), TEST(streams),         TEST(arrays_and_axes), TEST(shuffled_epochs),
      TEST(positions),   TEST(rows_must_agree), TEST(synthetic),       TEST(token_shards),
      TEST(lost_shards), TEST(encoded_texts),   TEST(conversions),     TEST(rings),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
