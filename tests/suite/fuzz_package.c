// A fuzzer of compiled packages. `meshc compile` makes a small one. One of its files is changed:
// its description, a program, the machine code, the weights; or the block of bytes that an
// executable has, as a whole. All but the last get checksums that fit, so that what is behind the
// checksums is reached. The package is opened, its code is loaded, its weights are read. Machine
// code is run only if nothing but the weights was changed. If the data block was changed, its data
// is opened, and a batch is read. A package may be refused with a message;
// it must not cause a crash or a hang.
//
//   suite_fuzz_package [count=N] [first=N] [seed=S] [only=NAME]
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/package/package_train.h"
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"
#include "tests/suite/common/command.h"
#include "tests/suite/common/fuzz.h"

enum { COUNT = 3000, MOST_FILES = 16, BLOCK = 1 << 20 };

typedef struct PackageFile {
  char name[64];
  FuzzText bytes;
} PackageFile;
static PackageFile file[MOST_FILES]; // the description is file 0
static uint32_t nfiles, under_work;  // under_work = nfiles: the block as a whole
static char directory[] = "/tmp/suite_fuzz_package_XXXXXX";
static const char *only = "";

static const char model[] =
    "dim b = 2, d = 3\ninput x[b, d]\ninput target[b]\nparam w[d] ~ normal()\n"
    "y = tanh(sum[d](x * w))\nloss = mean(square(y - target))\noutput y\n"
    "train loss { optimizer = adam(lr = 0.1), steps = 2 }\n"
    "data train over b { x = csv(\"rows.csv\", columns = 0..3, missing = mean), "
    "target = csv(\"rows.csv\", columns = 3..4) }\n";
static const char rows[] = "1,2,3,0.5\n,5,6,1\n7,8,9,0\n1,0,1,2\n";

// -- packages -----------------------------------------------------------------------------------

static bool ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// Writes the description with the size and the sum of file k, whose bytes are changed, and with a
// sum of its own at the end. Returns false if it is no JSON with a list of files.
static bool describe(const FuzzText *bytes, uint32_t k, FuzzText *out) {
  char sum[16], end[MANIFEST_END];
  json_t *root = json_loadb(file[0].bytes.at, file[0].bytes.n, 0, NULL),
         *entry = json_object_get(json_object_get(root, "files"), file[k].name);
  snprintf(sum, sizeof sum, "%08x", crc32c(0, bytes->at, bytes->n));
  json_object_set_new(entry, "bytes", json_integer((json_int_t)bytes->n));
  json_object_set_new(entry, "crc32c", json_string(sum));
  json_object_del(root, "crc32c");
  char *text = json_dumps(root, JSON_INDENT(1));
  json_decref(root);
  if (!text) return false;
  out->n = 0;
  fuzz_put(out, text, strlen(text) - 2);
  fuzz_put(out, ",\n", 2);
  free(text);
  manifest_end(out->at, out->n, end);
  fuzz_put(out, end, strlen(end));
  return true;
}

// Makes the description `bytes` end with a sum that fits.
static void sign(const FuzzText *bytes, FuzzText *out) {
  char end[MANIFEST_END];
  size_t tail = MANIFEST_END - 1;
  out->n = 0;
  fuzz_put(out, bytes->at, bytes->n > tail ? bytes->n - tail : bytes->n);
  manifest_end(out->at, out->n, end);
  fuzz_put(out, end, strlen(end));
}

static size_t put_aligned(char *block, size_t n, const FuzzText *bytes) {
  if (n + bytes->n + PACK_ALIGN > BLOCK) return n;
  memcpy(block + n, bytes->at, bytes->n);
  n += bytes->n;
  size_t end = (n + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
  memset(block + n, 0, end - n);
  return end;
}

// Packs the package with file k replaced by `bytes`. Returns the length of the block.
static size_t pack(const FuzzText *bytes, uint32_t k, char *block) {
  static FuzzText description;
  if (k == 0)
    sign(bytes, &description);
  else if (!describe(bytes, k, &description))
    return 0;
  uint64_t length = description.n;
  memcpy(block, &length, sizeof length);
  size_t n = sizeof length + description.n, end = (n + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
  memcpy(block + sizeof length, description.at, description.n);
  memset(block + n, 0, end - n);
  n = end;
  json_t *root = json_loadb(description.at, description.n, 0, NULL), *entry;
  const char *name;
  json_object_foreach(json_object_get(root, "files"), name, entry) {
    for (uint32_t i = 1; i < nfiles; i++)
      if (strcmp(file[i].name, name) == 0)
        n = put_aligned(block, n, i == k ? bytes : &file[i].bytes);
  }
  json_decref(root);
  return n;
}

// Creates the program of the package and reads its weights; with `runs`, makes a step.
static bool use(const Package *p, bool runs, Diag *d) {
  bool good = true;
  for (uint32_t i = 0; good && i < p->nprograms; i++) {
    const Program *program = &p->program[i].program;
    Exec *e = exec_new(program, &(ExecOptions){.threads = 1}, d);
    good = e && package_load(p, program, e, d);
    if (good && runs) (void)exec_step(e, 0, true);
    exec_free(e);
  }
  return good;
}

// Opens the data of the package, and reads a batch.
static bool read_data(Arena *a, const Package *p, Diag *d) {
  const PackageTrainAsk ask = {.directory = directory, .threads = 1, .exec.threads = 1};
  PackageTraining t;
  TrainJob job;
  const void *data[8];
  bool good = package_train_open(a, p, &ask, d, &t, &job);
  if (good) (void)feed_next(t.feed, data);
  package_train_free(&t);
  return good;
}

static bool open_block(const char *block, size_t n, uint32_t changed) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  // bytes behind the block are not part of it: a copy of this size lets sanitizers see them
  char *copy = mem_aligned(PACK_ALIGN, (n + PACK_ALIGN) / PACK_ALIGN * PACK_ALIGN);
  memcpy(copy, block, n);
  Package *p = package_open_packed(a, "fuzzed", copy, n, d);
  bool weights = changed < nfiles && ends(file[changed].name, PACKAGE_WEIGHTS);
  bool block_of_data = changed < nfiles && ends(file[changed].name, ".data");
  bool good = p && ((changed != 0 && !weights) || use(p, weights, d)) &&
              (!block_of_data || read_data(a, p, d));
  if (!good && !diag_errors(d)) BUG("a package is refused without a word");
  package_close(p);
  arena_free(a);
  free(copy);
  return good;
}

static bool input_run(const FuzzText *t, uint64_t number) {
  static char block[BLOCK];
  (void)number;
  size_t n = under_work < nfiles ? pack(t, under_work, block) : 0;
  return under_work < nfiles ? open_block(block, n, under_work) : open_block(t->at, t->n, nfiles);
}

// -- the package that is changed ------------------------------------------------------------------

static bool read_file(const char *path) {
  PackageFile *p = &file[nfiles];
  FILE *f = fopen(path, "rb");
  if (!f || nfiles == MOST_FILES) return false;
  snprintf(p->name, sizeof p->name, "%s", strrchr(path, '/') + 1);
  p->bytes.n = fread(p->bytes.at, 1, FUZZ_TEXT - 1, f);
  bool whole = feof(f);
  fclose(f);
  nfiles++;
  return whole;
}

static bool read_files(Arena *a) {
  glob_t g;
  bool good = read_file(arena_printf(a, "%s/p/" PACKAGE_FILE, directory));
  if (!good || glob(arena_printf(a, "%s/p/*", directory), 0, NULL, &g) != 0) return false;
  for (size_t i = 0; i < g.gl_pathc; i++)
    if (!ends(g.gl_pathv[i], PACKAGE_FILE)) good = read_file(g.gl_pathv[i]) && good;
  globfree(&g);
  return good;
}

static const char *package_make(void) {
  static char block[BLOCK];
  Arena *a = arena_new();
  int code;
  const char *wrong = NULL;
  FILE *f = fopen(arena_printf(a, "%s/m.mesh", directory), "w");
  if (!f || fputs(model, f) < 0 || fclose(f) != 0) wrong = "cannot write a model";
  if (!wrong) {
    f = fopen(arena_printf(a, "%s/rows.csv", directory), "w");
    if (!f || fputs(rows, f) < 0 || fclose(f) != 0) wrong = "cannot write rows";
  }
  if (!wrong)
    (void)command_output(
        a,
        arena_printf(a, "%s compile %s/m.mesh --for train --cpu native -q -o %s/p 2>&1",
                     command_program(a), directory, directory),
        &code);
  if (!wrong && (code != 0 || !read_files(a) || nfiles < 4))
    wrong = "meshc compile makes no package";
  for (uint32_t k = 0; k < nfiles && !wrong; k++)
    if (!open_block(block, pack(&file[k].bytes, k, block), k))
      wrong = "the package is refused as it is";
  arena_free(a);
  return wrong;
}

static const char *name_of(uint32_t k) { return k < nfiles ? file[k].name : "block"; }

static void input_make(FuzzText *t) {
  static char block[BLOCK];
  if (!nfiles) return;
  under_work = fuzz_choose(nfiles + 1, name_of, only);
  if (under_work < nfiles) {
    *t = file[under_work].bytes;
  } else {
    size_t n = pack(&file[0].bytes, 0, block);
    t->n = 0;
    fuzz_put(t, block, n < FUZZ_TEXT ? n : FUZZ_TEXT - 1);
  }
  for (uint32_t k = 1 + fuzz_below(4); k; k--) {
    if (under_work != 0 || fuzz_below(2))
      fuzz_bytes(t);
    else
      fuzz_tokens(t, &file[0].bytes);
  }
}

int main(int argc, char **argv) {
  static const Fuzzer fuzzer = {.count = COUNT,
                                .fault = package_make,
                                .make = input_make,
                                .run = input_run,
                                .folder = directory,
                                .only = &only};
  return fuzz_run(argc, argv, &fuzzer);
}
