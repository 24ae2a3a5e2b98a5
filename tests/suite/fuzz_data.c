// A fuzzer of data files: .npy, .npz, .safetensors, index, CSV, IDX, CIFAR-10, token and text
// files. Bytes of small valid files are dropped, doubled, cut off and changed; fields, quotes and
// lines of CSV files, also of packed ones, and the headers of .safetensors files are exchanged.
// Each result is read as arrays, listed, and opened as the data of a model, which reads a few
// batches. Manifests of checkpoints get a matching checksum, are read, and their tensors are
// loaded. A file may be refused with a message; it must not cause a crash or a hang.
//
//   suite_fuzz_data [count=N] [first=N] [seed=S] [only=csv]
//
// Input i of seed S is always the same; SHOW=1 prints inputs that fail.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "ir/base/arena.h"
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint.h"
#include "tests/suite/common/fuzz_files.h"
#include "tests/suite/common/saved.h"

enum { COUNT = 5000, ROWS = 7, COLUMNS = 3, BATCH = 3, BATCHES = 4, MAX_SEEDS = 40 };

// A valid file, from which inputs are made: its name, and how a model reads it.
typedef struct Whole {
  const char *name; // with its ending
  DataSource source;
  int rank; // of the input; dim 0 counts the rows
  int64_t size[4];
  Dtype type;
  bool manifest; // the file is a checkpoint's manifest, without its checksum
  FuzzText *bytes;
} Whole;
static Whole whole[MAX_SEEDS];
static uint32_t nwhole;
static const char *directory;

static const DataSource plain = {
    .first = -1, .last = -1, .header = -1, .scale = 1, .row_last = -1, .token_bytes = 2};

static FuzzForm form_of(const char *name) {
  return strstr(name, ".csv.gz")        ? FORM_CSV_GZ
         : strstr(name, ".csv")         ? FORM_CSV
         : strstr(name, ".json")        ? FORM_JSON
         : strstr(name, ".safetensors") ? FORM_SAFETENSORS
                                        : FORM_BYTES;
}

static Whole *add(const char *name, SourceKind kind, const char *key, int rank, int64_t inner,
                  Dtype type) {
  Whole *w = &whole[nwhole++];
  *w = (Whole){
      .name = name, .source = plain, .rank = rank, .size = {BATCH, inner, 1, 1}, .type = type};
  w->source.kind = kind;
  w->source.path = name;
  w->source.key = key;
  w->bytes = fuzz_add(name, form_of(name));
  return w;
}

static void add_bytes(Whole *w, const char *path) {
  if (!fuzz_read(w->bytes, path)) BUG("%s is not there", path);
}

static Array numbers(Arena *a, Dtype type) {
  Array x = {.type = type, .rank = 2, .size = {ROWS, COLUMNS}, .elements = ROWS * COLUMNS};
  char *data = arena_alloc(a, (size_t)(x.elements * dtype_bytes(type)));
  for (int64_t i = 0; i < x.elements; i++)
    dtype_store(type, data + i * dtype_bytes(type), (double)(i % 5));
  x.data = data;
  return x;
}

static void add_arrays(Arena *a, Diag *d) {
  static const struct {
    const char *name;
    Dtype type;
  } npy[] = {
      {"f32.npy", TYPE_F32}, {"i32.npy", TYPE_I32}, {"u8.npy", TYPE_U8}, {"f64.npy", TYPE_F64}};
  NamedArray named[2] = {{"x", numbers(a, TYPE_F32)}, {"layer.w", numbers(a, TYPE_I32)}};
  for (size_t i = 0; i < countof(npy); i++) {
    Array x = numbers(a, npy[i].type);
    const char *path = arena_printf(a, "%s/%s", directory, npy[i].name);
    if (!npy_write(path, &x, d)) BUG("cannot write %s", path);
    add_bytes(add(npy[i].name, SOURCE_NPY, NULL, 2, COLUMNS,
                  npy[i].type == TYPE_F64 ? TYPE_F32 : npy[i].type),
              path);
  }
  const char *npz = arena_printf(a, "%s/x.npz", directory),
             *tensors = arena_printf(a, "%s/x.safetensors", directory);
  if (!npz_write(npz, 2, named, d) || !safetensors_write(tensors, 2, named, d))
    BUG("cannot write arrays");
  add_bytes(add("x.npz", SOURCE_NPZ, "x", 2, COLUMNS, TYPE_F32), npz);
  add_bytes(add("x.safetensors", SOURCE_SAFETENSORS, "layer.w", 2, COLUMNS, TYPE_I32), tensors);
}

// Files with the options of csv(...): separators, missing values, classes, dates, .gz.
static void add_csv_options(void) {
  static const char text[] =
      "day;kind;x;y\n2024-02-29;elm;1,5;\n1.5;\"oak;\n\";NA;2\n"
      "2000-01-01T12:30:01.5Z;\"a \"\"b\"\"\";;3\r\n1999-12-31 00:00+01:00;elm"
      ";4e2;-\n7;oak;5;6\n8;elm;6;?\n9;elm;7,25;0\n";
  static const struct {
    const char *name, *columns;
    DataSource with;
    int64_t inner;
  } seed[] = {{"dates.csv", "day\n", {.date = "iso", .since = 86400}, 1},
              {"format.csv", "x\n", {.date = "%d,%m", .decimal = ",", .missing = MISSING_DROP}, 1},
              {"auto.csv", "kind\n", {.classes = CLASSES_AUTO, .missing = MISSING_VALUE}, 1},
              {"listed.csv",
               "kind\n",
               {.classes = CLASSES_LISTED, .class_list = "elm\na \"b\"\noak\n", .row_first = 2},
               1},
              {"mean.csv", "y\nx\n", {.decimal = ",", .missing = MISSING_MEAN}, 2},
              {"drop.csv", "x\n", {.decimal = ",", .missing = MISSING_DROP, .separator = ";"}, 1},
              {"mask.csv", "x\ny\n", {.missing = MISSING_MASK, .row_last = 5}, 2},
              {"packed.csv.gz", "x\n", {.decimal = ",", .missing = MISSING_VALUE}, 1}};
  for (size_t i = 0; i < countof(seed); i++) {
    Whole *w = add(seed[i].name, SOURCE_CSV, NULL, 2, seed[i].inner, TYPE_F32);
    w->source = seed[i].with;
    w->source.kind = SOURCE_CSV, w->source.path = seed[i].name;
    w->source.first = w->source.last = w->source.header = -1, w->source.scale = 1;
    w->source.columns = seed[i].columns;
    Arena *a = arena_new();
    const char *path = arena_printf(a, "%s/%s", directory, seed[i].name);
    bool gz = strstr(seed[i].name, ".gz") != NULL;
    gzFile z = gz ? gzopen(path, "wb") : NULL;
    if (gz && (!z || gzwrite(z, text, sizeof text - 1) < 0 || gzclose(z) != Z_OK))
      BUG("cannot write %s", path);
    if (gz)
      add_bytes(w, path);
    else
      fuzz_put(w->bytes, text, sizeof text - 1);
    arena_free(a);
  }
}

static const char other_shard[] = "shard-2.bin"; // beside the one that is changed

static void add_texts(void) {
  static const char csv[] = "a,b,c,kind\n1,2.5,-3,x\n\"4\",5,6e-1,\"y,\"\"z\"\n7,8,9,x\r\n1,1,1,"
                            "y\n0,0,0,x\n2,3,4,y\n5,6,7,x\n";
  Whole *w = add("x.csv", SOURCE_CSV, NULL, 2, COLUMNS, TYPE_F32);
  w->source.first = 0, w->source.last = COLUMNS;
  fuzz_put(w->bytes, csv, sizeof csv - 1);
  w = add("label.csv", SOURCE_CSV, "a", 1, 1, TYPE_I32);
  fuzz_put(w->bytes, csv, sizeof csv - 1);
  add_csv_options();
  w = add("x.txt", SOURCE_TEXT, NULL, 2, 4, TYPE_I32);
  fuzz_put(w->bytes, csv, sizeof csv - 1);
  w = add("tokens.bin", SOURCE_TOKENS, NULL, 2, 4, TYPE_I32);
  w->source.offset = 1, w->source.skip = 2;
  fuzz_put(w->bytes, csv, sizeof csv - 1);
  w = add("shard.bin", SOURCE_TOKENS, NULL, 2, 4, TYPE_I32);
  w->source.path = "shard*.bin", w->source.token_bytes = 4;
  fuzz_put(w->bytes, (const char[64]){1, 0, 0, 0, 2}, 64);
  char beside[64];
  snprintf(beside, sizeof beside, "%s/%s", directory, other_shard);
  FILE *f = fopen(beside, "wb");
  if (!f || fwrite(w->bytes->at, 4, 9, f) != 9 || fclose(f) != 0) BUG("cannot write %s", beside);
}

static void add_binaries(Arena *a) {
  unsigned char idx[16 + ROWS * 6] = {0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 2, 0, 0, 0, 3};
  for (size_t i = 16; i < sizeof idx; i++) idx[i] = (unsigned char)(i * 7);
  Whole *w = add("x-idx3-ubyte", SOURCE_IDX, NULL, 3, 2, TYPE_F32);
  w->size[2] = 3;
  fuzz_put(w->bytes, (char *)idx, sizeof idx);
  const char *path = arena_printf(a, "%s/x.gz", directory);
  gzFile z = gzopen(path, "wb");
  if (!z || gzwrite(z, idx, sizeof idx) != (int)sizeof idx || gzclose(z) != Z_OK)
    BUG("cannot write %s", path);
  w = add("x-idx3-ubyte.gz", SOURCE_IDX, NULL, 3, 2, TYPE_F32);
  w->size[2] = 3;
  add_bytes(w, path);
  w = add("cifar.bin", SOURCE_CIFAR10, "images", 4, 3, TYPE_F32);
  w->size[2] = w->size[3] = 32;
  for (int i = 0; i < 4 * 3073; i++) fuzz_put(w->bytes, i % 3073 ? "\x41" : "\x03", 1);
  w = add("cifar_label.bin", SOURCE_CIFAR10, "labels", 1, 1, TYPE_I32);
  fuzz_put(w->bytes, whole[nwhole - 2].bytes->at, whole[nwhole - 2].bytes->n);
}

static void add_index(Arena *a, Diag *d) {
  static const char text[] =
      "{\"metadata\": {\"total_size\": 168}, \"weight_map\": {\"x\": \"shard.safetensors\", "
      "\"layer.w\": \"shard.safetensors\"}}";
  NamedArray named[2] = {{"x", numbers(a, TYPE_F32)}, {"layer.w", numbers(a, TYPE_I32)}};
  if (!safetensors_write(arena_printf(a, "%s/shard.safetensors", directory), 2, named, d))
    BUG("cannot write a shard");
  fuzz_put(
      add("m.safetensors.index.json", SOURCE_SAFETENSORS, "layer.w", 2, COLUMNS, TYPE_I32)->bytes,
      text, sizeof text - 1);
}

// -- checkpoints --------------------------------------------------------------------------------

static const char step_name[] = "step-1/manifest.json", sum_key[] = " \"crc32c\": \"";
static Exec *saved;

static void add_manifest(Diag *d) {
  const char *path;
  saved = exec_new(saved_program(), &(ExecOptions){.threads = 1}, d);
  Saver *s = saver_open(&(SaverOptions){.directory = directory, .model = "saved"}, saved, d);
  if (!s || !saver_start(s, &(TrainPosition){.step = 1, .best = 1}, false, d) ||
      !saver_poll(s, true, &path, d))
    BUG("cannot save");
  saver_free(s);
  Whole *w = add(step_name, SOURCE_NPY, NULL, 1, 1, TYPE_F32);
  w->manifest = true;
  Arena *a = arena_new();
  add_bytes(w, arena_printf(a, "%s/%s", directory, step_name));
  arena_free(a);
  w->bytes->at[w->bytes->n] = '\0';
  char *sum = NULL; // the manifest's own checksum is the last one; those of shards come before
  for (char *at = w->bytes->at; (at = strstr(at, sum_key)); at++) sum = at;
  if (!sum) BUG("a manifest without its checksum");
  *sum = '\0';
  w->bytes->n = (size_t)(sum - w->bytes->at);
}

static bool run_manifest(const FuzzText *bytes) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  FILE *f = fopen(arena_printf(a, "%s/%s", directory, step_name), "wb");
  if (!f || fwrite(bytes->at, 1, bytes->n, f) != bytes->n) BUG("cannot write a manifest");
  fprintf(f, "%s%08x\"\n}\n", sum_key, crc32c(0, bytes->at, bytes->n));
  fclose(f);
  const Checkpoint *c = checkpoint_open(a, directory, d, (Pos){0});
  bool good = c && checkpoint_load(c, saved, true, true, d, (Pos){0});
  if (!good && !diag_errors(d)) BUG("a manifest is refused without a word");
  arena_free(a);
  return good;
}

// Returns NULL if the manifest is refused after the nth `from` after `after` was replaced by `to`;
// otherwise what is wrong.
static const char *refused(const char *after, int nth, const char *from, const char *to) {
  static FuzzText t;
  static char why[160];
  const Whole *w = &whole[nwhole - 1];
  while (strcmp(w->name, step_name) != 0) w--;
  const char *at = strstr(w->bytes->at, after);
  for (int i = 0; at && i < nth; i++) at = strstr(at + 1, from);
  if (!at) BUG("no '%s' in the manifest", from);
  t.n = 0;
  fuzz_put(&t, w->bytes->at, (size_t)(at - w->bytes->at));
  fuzz_put(&t, to, strlen(to));
  fuzz_put(&t, at + strlen(from), w->bytes->n - (size_t)(at - w->bytes->at) - strlen(from));
  if (!run_manifest(&t)) return NULL;
  snprintf(why, sizeof why, "a manifest with %s for %s is accepted", to, from);
  return why;
}

static const char *hostile_manifests(void) {
  static const struct {
    const char *after;
    int nth;
    const char *from, *to;
  } change[] = {
      {"\"w\"", 2, "3000", "0"}, // the second piece overlaps the first and leaves a hole
      {"\"w\"", 2, "3000", "2999"},
      {"\"w\"", 3, "3000", "2999"},
      {"\"w\"", 1, "3000", "6000"},
      {"\"step\"", 1, "1", "9223372036854775807"},
      {"\"step\"", 1, "1", "-1"},
      {"\"shards\"", 1, "\"bytes\": ", "\"bytes\": 9223372036854775"},
      {"\"row\"", 1, "0", "9223372036854775807"},
  };
  const char *wrong = NULL;
  for (size_t i = 0; i < countof(change) && !wrong; i++)
    wrong = refused(change[i].after, change[i].nth, change[i].from, change[i].to);
  return wrong;
}

// -- all ----------------------------------------------------------------------------------------

// Makes the valid files.
static const char *files_make(void) {
  directory = fuzz_folder();
  Arena *a = arena_new();
  add_arrays(a, diag_new(a));
  add_index(a, diag_new(a));
  add_manifest(diag_new(a));
  add_texts();
  add_binaries(a);
  arena_free(a);
  return hostile_manifests();
}

static void read_arrays(Arena *a, const char *path, const char *key, Diag *d) {
  Array x;
  ArrayList list;
  const char **name;
  if (array_read(&x, path, key, d, (Pos){0})) {
    if (array_convert(&x, TYPE_F32, "x", d, (Pos){0}))
      (void)!array_fits(&x, TYPE_I32, "x", d, (Pos){0});
    array_free(&x);
  }
  if (array_map(&x, path, key, d, (Pos){0})) array_free(&x);
  (void)!array_list(a, path, &list, d, (Pos){0});
  if (strstr(path, ".npz") || strstr(path, ".safetensors"))
    (void)!array_names(a, path, &name, d, (Pos){0});
}

static bool feed_some(const Whole *w, int way, Diag *d) {
  FeedInput in = {.name = "x", .type = w->type, .rank = w->rank, .source = &w->source};
  memcpy(in.size, w->size, sizeof w->size);
  // CSV is read in three ways: into a table, as a rank, and each row when it is needed
  in.parts = way == 1 ? 3 : 0;
  in.part = way == 1;
  in.keep = way == 2;
  Feed *f = feed_open(1, &in, BATCH, true, 3, false, directory, d);
  if (!f) return false;
  const void *data[1];
  bool good = true;
  for (int i = 0; i < BATCHES && good; i++) good = feed_next(f, data) >= 0;
  if (!good) feed_fault(f, d);
  feed_close(f);
  return good;
}

static bool run(uint32_t k, const FuzzText *bytes) {
  const Whole *w = &whole[k];
  if (w->manifest) return run_manifest(bytes);
  Arena *a = arena_new();
  const char *path = arena_printf(a, "%s/%s", directory, w->name);
  if (!fuzz_write(bytes, path)) BUG("cannot write %s", path);
  Diag *d = diag_new(a);
  read_arrays(a, path, w->source.key, diag_new(a));
  int ways = w->source.kind == SOURCE_CSV ? 3 : 1, first = (int)(bytes->n % (size_t)ways);
  bool good = feed_some(w, first, d);
  // A bad value may be found later in the other ways, but what is good in way 0 is good in all.
  if (ways == 1 || !good || strstr(w->name, ".gz")) ways = 0;
  bool all = ways && (first == 0 || feed_some(w, 0, diag_new(a)));
  for (int way = 1; way < ways; way++)
    if (way != first && !feed_some(w, way, diag_new(a)) && all)
      BUG("%s is refused in way %d only", w->name, way);
  arena_free(a);
  return good;
}

int main(int argc, char **argv) {
  static const FuzzFiles fuzzer = {
      .name = "fuzz_data", .count = COUNT, .open = files_make, .run = run};
  int code = fuzz_files_run(argc, argv, &fuzzer);
  exec_free(saved);
  return code;
}
