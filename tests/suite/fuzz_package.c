// A fuzzer of compiled packages: for CPUs and for GPUs, that predict, train and generate text.
// `meshc compile` makes small ones. One of their files is changed: the description, a program, the
// launches of kernels, the machine code, the weights, the vocabulary; or the block of bytes that an
// executable has, as a whole. All but the last get checksums that fit, so that what is behind the
// checksums is reached. The package is opened, its code is loaded, its programs are bound, and its
// weights are read. Machine code is run only if its program and its description were not changed:
// a package is a program, and one that says wrong things about itself is not safe. If the data
// block was changed, its data is opened, and a batch is read. A package may be refused with a
// message; it must not cause a crash or a hang.
//
//   suite_fuzz_package [count=N] [first=N] [seed=S] [only=NAME]    NAME: part of PACKAGE/FILE
#include <glob.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/package/package_text.h"
#include "runtime/package/package_train.h"
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"
#include "tests/suite/common/command.h"
#include "tests/suite/common/fuzz_files.h"
#include "tests/suite/common/standin.h"

enum { COUNT = 3000, MOST_FILES = 160, BLOCK = 1 << 20, BATCH_INPUTS = 8 };

// -- the packages ---------------------------------------------------------------------------------

static const char network[] =
    "dim b = 2, d = 3\ninput x[b, d]\ninput target[b]\nparam w[d] ~ normal()\n"
    "y = tanh(sum[d](x * w))\nloss = mean(square(y - target))\noutput y\n"
    "train loss { optimizer = adam(lr = 0.1), steps = 2 }\n"
    "data train over b { x = csv(\"rows.csv\", columns = 0..3, missing = mean), "
    "target = csv(\"rows.csv\", columns = 3..4) }\n";
static const char classes[] =
    "dim b = 4, d = 2, kinds = 3\ninput x[b, d]\ninput kind[b]: i32\n"
    "param w[d, kinds] ~ normal()\nlogits[b, kinds] = sum[d](x * w)\n"
    "best = argmax[kinds](logits)\noutput logits\noutput best\n"
    "loss = mean[b](cross_entropy[kinds](logits, kind))\n"
    "train loss { optimizer = sgd(lr = 0.1), steps = 1 }\n"
    "data train over b { x = csv(\"kinds.csv\", columns = 0..2), "
    "kind = csv(\"kinds.csv\", columns = 2..3, classes = (\"elm\", \"oak\", \"ash\")) }\n";
static const char talk[] =
    "dim b = 2, t = 8, vocab = 700, d = 4\ninput ids[b, t]: i32\ninput next[b, t]: i32\n"
    "param table[vocab, d] ~ normal()\nx = take[vocab](table, ids)\n"
    "logits[b, t, vocab] = sum[d](cumsum[t](x) * table)\n"
    "loss = mean[b, t](cross_entropy[vocab](logits, next))\n"
    "train loss { optimizer = sgd(lr = 0.1), steps = 1 }\n"
    "data train over b { ids = text(\"talk.txt\", vocab = \"vocabulary\"), "
    "next = text(\"talk.txt\", vocab = \"vocabulary\", offset = 1) }\n";
static const struct {
  const char *name, *text;
} written[] = {{"network.mesh", network},
               {"classes.mesh", classes},
               {"talk.mesh", talk},
               {"rows.csv", "1,2,3,0.5\n,5,6,1\n7,8,9,0\n1,0,1,2\n"},
               {"kinds.csv", "1,2,elm\n3,4,oak\n5,6,ash\n7,8,elm\n"},
               {"talk.txt", "the house of the king and the queen of the house and the king\n"}};

typedef struct Kind {
  const char *name, *compile; // arguments of meshc compile, in the folder of the fuzzer
  bool gpu;
  uint32_t first, n, block; // its files, the description first; its block as a whole
  json_t *root;             // the description
} Kind;
static Kind kind[] = {
    {.name = "cpu_train", .compile = "network.mesh --for train --cpu native"},
    {.name = "cpu_predict", .compile = "classes.mesh --cpu native --mesh p=2 --layout b=p"},
    {.name = "cpu_generate", .compile = "talk.mesh --for generate --cpu native --rows 3"},
    {.name = "gpu_train",
     .compile = "network.mesh --for train --device cuda --gpu emulated --mesh p=2 --layout b=p",
     .gpu = true},
    {.name = "gpu_predict", .compile = "classes.mesh --device cuda --gpu emulated", .gpu = true},
    {.name = "gpu_generate",
     .compile = "talk.mesh --for generate --device cuda --gpu emulated --rows 3",
     .gpu = true}};
static uint32_t kind_of[MOST_FILES]; // by file

static bool ends(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

// Returns the name of a file in its package.
static const char *name_in(uint32_t k) { return strchr(fuzz_file_name(k), '/') + 1; }

// -- blocks ---------------------------------------------------------------------------------------

// Appends the line with the checksum to a description that lacks it.
static void sign(const FuzzText *bytes, FuzzText *out) {
  char end[MANIFEST_END];
  size_t n = bytes->n;
  while (n > 0 && (bytes->at[n - 1] == '\n' || bytes->at[n - 1] == ' ')) n--;
  if (n > 0 && bytes->at[n - 1] == '}') n--;
  while (n > 0 && bytes->at[n - 1] == '\n') n--;
  out->n = 0;
  fuzz_put(out, bytes->at, n);
  fuzz_put(out, ",\n", 2);
  manifest_end(out->at, out->n, end);
  fuzz_put(out, end, strlen(end));
}

static void set_entry(const Kind *of, const char *name, const FuzzText *bytes) {
  char sum[16];
  json_t *entry = json_object_get(json_object_get(of->root, "files"), name);
  snprintf(sum, sizeof sum, "%08x", crc32c(0, bytes->at, bytes->n));
  json_object_set_new(entry, "bytes", json_integer((json_int_t)bytes->n));
  json_object_set_new(entry, "crc32c", json_string(sum));
}

// Writes the description with the size and the sum of file k, whose bytes are changed.
static void describe(const Kind *of, uint32_t k, const FuzzText *bytes, FuzzText *out) {
  static FuzzText text;
  set_entry(of, name_in(k), bytes);
  char *all = json_dumps(of->root, JSON_INDENT(1));
  set_entry(of, name_in(k), fuzz_file(k));
  text.n = 0;
  if (all) fuzz_put(&text, all, strlen(all));
  free(all);
  sign(&text, out);
}

static size_t put_aligned(char *block, size_t n, const char *bytes, size_t length) {
  size_t end = (n + length + PACK_ALIGN - 1) / PACK_ALIGN * PACK_ALIGN;
  if (end > BLOCK) return n;
  memcpy(block + n, bytes, length);
  memset(block + n + length, 0, end - n - length);
  return end;
}

// Packs the package of file k, which has these bytes. Returns the length of the block.
static size_t pack(uint32_t k, const FuzzText *bytes, char *block) {
  static FuzzText description, head;
  const Kind *of = &kind[kind_of[k]];
  if (k == of->first)
    sign(bytes, &description);
  else
    describe(of, k, bytes, &description);
  uint64_t length = description.n;
  head.n = 0;
  fuzz_put(&head, (const char *)&length, sizeof length);
  fuzz_put(&head, description.at, description.n);
  size_t n = put_aligned(block, 0, head.at, head.n);
  json_t *changed = k == of->first ? json_loadb(description.at, length, 0, NULL) : NULL,
         *root = changed ? changed : of->root, *entry;
  const char *name;
  json_object_foreach(json_object_get(root, "files"), name, entry) {
    for (uint32_t i = of->first + 1; i < of->first + of->n; i++) {
      const FuzzText *file = i == k ? bytes : fuzz_file(i);
      if (strcmp(name_in(i), name) == 0) n = put_aligned(block, n, file->at, file->n);
    }
  }
  json_decref(changed);
  return n;
}

// -- using a package ------------------------------------------------------------------------------

// What is done with a package that was opened.
typedef enum Use { OPEN, BIND, RUN, READ_DATA } Use;

static Use use_of(uint32_t k) {
  const char *name = name_in(k);
  if (kind[kind_of[k]].block == k || ends(name, ".o")) return OPEN;
  if (ends(name, ".data")) return READ_DATA;
  return ends(name, PACKAGE_FILE) || ends(name, ".program") || ends(name, ".launches") ? BIND : RUN;
}

// Binds each program and reads its weights; with `runs`, makes a step.
static bool bind_programs(const Package *p, bool runs, Diag *d) {
  bool good = true;
  for (uint32_t i = 0; good && i < p->nprograms; i++) {
    const Program *program = &p->program[i].program;
    Exec *e = package_exec(&p->program[i], &(ExecOptions){.threads = 1}, d);
    good = e && package_load(p, program, e, d);
    if (good && runs) (void)exec_step(e, 0, true);
    exec_free(e);
  }
  return good;
}

// Opens the generator of `prompts` texts; with `runs`, generates some.
static bool make_texts(Arena *a, const Package *p, uint32_t prompts, bool runs, Diag *d) {
  static const char text[] = "the king\xff";
  const ExecOptions options = {.threads = 1};
  const PackageTextAsk ask = {.prompts = prompts};
  PackageGenerator g;
  TokenList ids[2];
  Texts x = {.arena = a, .diag = d, .most = 3, .n = prompts, .prompt = ids};
  bool good = package_generator_open(a, p, &options, &ask, d, &g);
  for (uint32_t i = 0; good && i < prompts; i++)
    good = token_encode(&g.codec, a, text, sizeof text - 1 - i, d, (Pos){0}, &ids[i]);
  if (good && runs && ids[0].n && ids[prompts - 1].n) {
    x.decoder = &g.decoder, x.codec = g.codec;
    good = texts_run(&x);
  }
  texts_free(&x);
  package_generator_free(&g);
  return good;
}

// Opens the data of the package, and reads a batch.
static bool read_data(Arena *a, const Package *p, Diag *d) {
  const PackageTrainAsk ask = {.directory = fuzz_folder(), .threads = 1, .exec.threads = 1};
  PackageTraining t;
  TrainJob job;
  const void *data[BATCH_INPUTS];
  bool good = package_train_open(a, p, &ask, d, &t, &job);
  if (good) (void)feed_next(t.feed, data);
  package_train_free(&t);
  return good;
}

static bool use_package(Arena *a, const Package *p, Use use, Diag *d) {
  if (use == OPEN) return true;
  if (use == READ_DATA) return read_data(a, p, d);
  if (!p->text) return bind_programs(p, use == RUN, d);
  return make_texts(a, p, 1, use == RUN, d) &&
         (p->text->texts < 2 || make_texts(a, p, 2, use == RUN, d));
}

static bool open_block(const char *block, size_t n, Use use) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  // bytes behind the block are not part of it: a copy of this size lets sanitizers see them
  char *copy = mem_aligned(PACK_ALIGN, (n + PACK_ALIGN) / PACK_ALIGN * PACK_ALIGN);
  memcpy(copy, block, n);
  Package *p = package_open_packed(a, "fuzzed", copy, n, d);
  bool good = p && use_package(a, p, use, d);
  if (!good && !diag_errors(d)) BUG("a package is refused without a word");
  package_close(p);
  arena_free(a);
  free(copy);
  return good;
}

static bool run(uint32_t k, const FuzzText *bytes) {
  static char block[BLOCK];
  if (kind[kind_of[k]].block == k) return open_block(bytes->at, bytes->n, OPEN);
  return open_block(block, pack(k, bytes, block), use_of(k));
}

// -- making packages ------------------------------------------------------------------------------

// The driver of a GPU gets no length of machine code, and the stand-in ends at wrong code.
static FuzzForm form_of(const char *name, bool gpu) {
  static const struct {
    const char *end;
    FuzzForm form;
  } forms[] = {{".json", FORM_JSON},
               {".program", FORM_PACK},
               {".data", FORM_PACK},
               {".launches", FORM_PACK},
               {".safetensors", FORM_SAFETENSORS},
               {".txt", FORM_LINES},
               {".model", FORM_PROTO},
               {".o", FORM_WORDS}};
  for (size_t i = 0; i < countof(forms); i++)
    if (ends(name, forms[i].end))
      return gpu && forms[i].form == FORM_WORDS ? FORM_KEPT : forms[i].form;
  return FORM_BYTES;
}

static bool add_file(Arena *a, uint32_t of, const char *path, const char *name) {
  kind_of[fuzz_added()] = of;
  kind[of].n++;
  FuzzForm form = form_of(name, kind[of].gpu);
  return fuzz_read(fuzz_add(arena_printf(a, "%s/%s", kind[of].name, name), form), path);
}

// Takes the checksum from the description, so that it can be changed as JSON.
static bool take_sum(Kind *of) {
  FuzzText *t = fuzz_file(of->first);
  of->root = json_loadb(t->at, t->n, 0, NULL);
  json_object_del(of->root, "crc32c");
  char *text = json_dumps(of->root, JSON_INDENT(1));
  t->n = 0;
  if (text) fuzz_put(t, text, strlen(text));
  free(text);
  return t->n > 0;
}

static bool read_files(Arena *a, uint32_t of) {
  Kind *k = &kind[of];
  const char *folder = arena_printf(a, "%s/%s", fuzz_folder(), k->name);
  glob_t g;
  k->first = fuzz_added();
  bool good = add_file(a, of, arena_printf(a, "%s/" PACKAGE_FILE, folder), PACKAGE_FILE);
  if (!good || !take_sum(k) || glob(arena_printf(a, "%s/*", folder), 0, NULL, &g) != 0)
    return false;
  for (size_t i = 0; i < g.gl_pathc && good; i++) {
    const char *name = strrchr(g.gl_pathv[i], '/') + 1;
    if (strcmp(name, PACKAGE_FILE) != 0) good = add_file(a, of, g.gl_pathv[i], name);
  }
  globfree(&g);
  return good && k->n > 3;
}

static bool add_block(Arena *a, uint32_t of) {
  static char block[BLOCK];
  Kind *k = &kind[of];
  size_t n = pack(k->first, fuzz_file(k->first), block);
  k->block = fuzz_added();
  kind_of[k->block] = of;
  FuzzText *t = fuzz_add(arena_printf(a, "%s/block", k->name), FORM_BYTES);
  fuzz_put(t, block, n);
  return n > 0 && t->n == n;
}

static const char *make_package(Arena *a, uint32_t of) {
  int code;
  const char *said =
      command_output(a,
                     arena_printf(a, "cd %s && %s compile %s -q -o %s 2>&1", fuzz_folder(),
                                  command_program(a), kind[of].compile, kind[of].name),
                     &code);
  if (code != 0) return arena_printf(a, "meshc compile: %s", said);
  bool good = read_files(a, of) && add_block(a, of);
  return good ? NULL : arena_printf(a, "the package %s has not the files of one", kind[of].name);
}

static Arena *names;

static const char *packages_make(void) {
  int code;
  names = arena_new();
  for (size_t i = 0; i < countof(written); i++) {
    FILE *f = fopen(arena_printf(names, "%s/%s", fuzz_folder(), written[i].name), "w");
    if (!f || fputs(written[i].text, f) < 0 || fclose(f) != 0) return "cannot write a model";
  }
  (void)command_output(
      names, arena_printf(names, "cp -r tests/vocabularies/gpt %s/vocabulary", fuzz_folder()),
      &code);
  if (code != 0) return "tests/vocabularies is not there";
  bool gpu = standin_load();
  const char *wrong = NULL;
  for (uint32_t i = 0; i < countof(kind) && !wrong; i++)
    if (gpu || !kind[i].gpu) wrong = make_package(names, i);
  return wrong;
}

int main(int argc, char **argv) {
  static const FuzzFiles fuzzer = {
      .name = "fuzz_package", .count = COUNT, .open = packages_make, .run = run};
  int code = fuzz_files_run(argc, argv, &fuzzer);
  for (size_t i = 0; i < countof(kind); i++) json_decref(kind[i].root);
  if (names) arena_free(names);
  return code;
}
