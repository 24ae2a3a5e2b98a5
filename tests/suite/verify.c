// Runs --verify on every example under the layouts named in its first lines: a training step on
// made-up input, whole and split. Bytes must be counted as predicted, and a processor must get the
// memory that `check` prints. Under the last layout of each example the suite also injects a wrong
// element into a collective; for the first example it injects a wrong number into a kernel, too.
// --verify must find these faults. A line without a mesh uses the mesh of the line before.
//
//   suite_verify [--device cuda] [FILE ...]     SHOW=1 prints the error of each output
//
// With --device cuda the split run is on a GPU, the whole one on the CPU. It needs NVIDIA's
// libraries, or their stand-ins (tests/standin); faults are then injected into kernels only.
#define _XOPEN_SOURCE 700 // mkdtemp, nftw
#include <dirent.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/verify/verify.h"
#include "tests/suite/common/code.h"

// Dims that determine the time of the suite, and the largest size that they get here. Larger sizes
// would not test more. The emulator of GPU threads is slow: there more dims are cut, and to less.
static const struct {
  const char *name;
  int most, most_emulated;
} cut[] = {{"b", 8, 4},         {"h", 64, 64},      {"depth", 2, 2},
           {"y", 16, 16},       {"x", 16, 16},      {"c1", INT_MAX, 8},
           {"c2", INT_MAX, 16}, {"t", INT_MAX, 32}, {"vocab", INT_MAX, 64}};
enum { MAX_WORDS = 40, MAX_LAYOUTS = 12, LINE = 400, MOST_CALLS = 9 };
static int passed, failed, skipped;
static char folder[] = "/tmp/meshc-verify-XXXXXX";
static bool on_gpu, emulated;

typedef struct Run {
  const char *path;
  int nwords;
  char *word[MAX_WORDS]; // of the command line
  Session s;
  Options options;
  Compilation checked, made;
  Exec *exec;
} Run;

static void say(const Run *r, const char *what) {
  printf("FAIL %s", r->path);
  for (int i = 4; i < r->nwords; i++) printf(" %s", r->word[i]);
  printf(": %s\n", what);
  diag_print(r->s.diag, stdout, false);
}

static void word(Run *r, const char *text) {
  if (r->nwords + 1 < MAX_WORDS) r->word[r->nwords++] = strdup(text);
}

// Runs `check` for its facts, then makes the program, its processors and its input.
static bool prepare(Run *r) {
  Session *s = &r->s;
  Selected of;
  *s = (Session){.arena = arena_new(), .inject = {.call = -1}, .opt = &r->options};
  s->names = intern_new(s->arena);
  s->diag = diag_new(s->arena);
  if (!options_parse(&r->options, s->arena, s->diag, r->nwords, r->word) || !session_load(s) ||
      !session_open_device(s))
    return false;
  if (!session_make(s, "program", &of, &r->checked) ||
      !session_compile(s, of.graph, of.purpose, of.over, NULL, &r->made))
    return false;
  r->exec = session_exec(s, &r->made, NULL, NULL);
  if (r->exec) synthetic_feed(r->exec, r->made.compiled->program);
  return r->exec != NULL;
}

static bool verify(Run *r, Verified *v) {
  VerifyJob job = {.graph = r->made.selected,
                   .made = &r->made,
                   .exec = r->exec,
                   .purpose = r->made.compiled->program->for_,
                   .rows = -1,
                   .commit = true};
  return verify_step(&r->s, &job, v);
}

static bool memory_is_checked(Run *r) {
  int64_t checked = program_bytes(r->checked.compiled->program);
  if (exec_bytes(r->exec) == checked) return true;
  say(r, arena_printf(r->s.arena, "a processor has %lld bytes, check says %lld",
                      (long long)exec_bytes(r->exec), (long long)checked));
  return false;
}

static bool agrees(Run *r) {
  Verified v;
  if (!verify(r, &v)) {
    say(r, "does not agree");
    return false;
  }
  if (!v.done || v.values == 0) say(r, "nothing was compared");
  if (getenv("SHOW"))
    printf("%s%s: %u values, %u vague, %.3g at %s\n", r->path, v.evaluated ? ", evaluator" : "",
           v.values, v.vague, v.error, v.worst ? v.worst : "-");
  if (exec_step(r->exec, 0, true) != STEP_OK || !exec_check(r->exec, r->s.diag)) {
    say(r, "the step itself");
    return false;
  }
  return v.done && v.values > 0 && memory_is_checked(r);
}

// Injects a wrong element, for processor 1, into one of the first collectives of a step, until one
// is found. Not every fault has an effect: nobody may read the first element, for example the row
// of an id that is not in the batch. Where tokens choose experts, an early fault may be within the
// rounding tolerance.
static bool finds_a_fault(Run *r) {
  Verified v;
  int errors = diag_errors(r->s.diag);
  if (on_gpu || exec_predicted(r->exec)->calls[COLL_ALL_REDUCE] == 0) return true;
  bool good = false;
  for (int call = 0; call < MOST_CALLS && !good; call++) {
    r->s.inject = (ExecInject){.processor = 1, .call = call};
    good = !verify(r, &v) && diag_errors(r->s.diag) > errors && diag_exit(r->s.diag) == 4;
  }
  if (!good) say(r, "a wrong element is not found");
  return good;
}

// Returns true if the messages of the run, as printed, contain the words.
static bool says(Run *r, const char *words) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  if (!f) return false;
  diag_print(r->s.diag, f, false);
  fclose(f);
  bool found = strstr(text, words) != NULL;
  free(text);
  return found;
}

// Injects a wrong number into a kernel, in the whole and in the split run, until one is found. The
// number of an early kernel may have no effect: a factor of zeros, a key of random draws.
static bool finds_a_wrong_kernel(Run *r) {
  Verified v;
  bool good = false;
  for (int call = 0; call < MOST_CALLS && !good; call++) {
    r->s.inject = (ExecInject){.processor = 0, .call = call, .kernel = true};
    good = !verify(r, &v) && (on_gpu || says(r, "by its kernel and")) && diag_exit(r->s.diag) == 4;
  }
  r->s.inject = (ExecInject){.call = -1};
  if (!good) say(r, "a wrong kernel is not found");
  return good;
}

static void run(Run *r, bool last) {
  bool good = prepare(r);
  if (!good) say(r, "is not made");
  static bool kernels_done;
  good = good && agrees(r) && (!last || finds_a_fault(r));
  if (last && good && !kernels_done) kernels_done = true, good = finds_a_wrong_kernel(r);
  *(good ? &passed : &failed) += 1;
  exec_free(r->exec);
  compilation_free(&r->made);
  session_close_device(&r->s);
  arena_free(r->s.arena);
  for (int i = 0; i < r->nwords; i++) free(r->word[i]);
}

// Copies the word after `option` in a line, without quotes. Returns false if the option is missing.
static bool word_behind(const char *line, const char *option, char out[LINE]) {
  const char *at = strstr(line, option);
  if (!at) return false;
  at += strlen(option);
  at += strspn(at, " \"");
  snprintf(out, LINE, "%.*s", (int)strcspn(at, " \"\n"), at);
  return true;
}

static void start(Run *r, const char *path) {
  static const char *const words[] = {"meshc", "bench"};
  *r = (Run){.path = path};
  for (size_t i = 0; i < countof(words); i++) word(r, words[i]);
  word(r, path);
  word(r, "--verify");
  word(r, "-q");
  if (on_gpu) word(r, "--device"), word(r, "cuda");
  // examples.sh trains the same models at the default effort; here LLVM would take most of the
  // time. Beside the emulator the code of the CPU is only what it is compared with.
  word(r, suite_opt_option(emulated ? 0 : 1));
  if (!suite_fuses(true)) word(r, "--no-fuse");
  word(r, "--data-dir");
  word(r, folder);
}

// Returns the largest size of dim number i of the table.
static int most_of(size_t i) { return emulated ? cut[i].most_emulated : cut[i].most; }

// `large` tells which dims of the table the file makes larger.
static void run_under(const char *path, const bool *large, const char *mesh, const char *layout,
                      bool last) {
  Run r;
  char size[32];
  start(&r, path);
  for (size_t i = 0; i < countof(cut); i++) {
    if (!large[i]) continue;
    snprintf(size, sizeof size, "%s=%d", cut[i].name, most_of(i));
    word(&r, "--set"), word(&r, size);
  }
  if (mesh) word(&r, "--mesh"), word(&r, mesh);
  if (layout) word(&r, "--layout"), word(&r, layout);
  run(&r, last);
}

// Finds dims of the table in a line "dim b = 50, d = 8" and notes those that are too large.
static void find_large(const char *line, bool *large) {
  for (size_t i = 0; !strncmp(line, "dim ", 4) && i < countof(cut); i++) {
    char name[32];
    snprintf(name, sizeof name, " %s = ", cut[i].name);
    const char *at = strstr(line, name);
    large[i] |= at && atoi(at + strlen(name)) > most_of(i);
  }
}

static void file_runs(const char *path) {
  char line[LINE], mesh[LINE], layouts[MAX_LAYOUTS][2][LINE];
  int n = 0;
  bool own = false, needs_file = false, large[countof(cut)] = {0};
  FILE *f = fopen(path, "re");
  for (; f && fgets(line, sizeof line, f);) {
    needs_file |= strstr(line, "file(") != NULL;
    own |= strncmp(line, "mesh ", 5) == 0;
    find_large(line, large);
    if (line[0] != '#' || strstr(line, "refused") || n == MAX_LAYOUTS) continue;
    if (!word_behind(line, "--layout", layouts[n][1])) continue;
    bool same = !word_behind(line, "--mesh", mesh);
    if (same && n == 0) continue;
    memcpy(layouts[n++][0], mesh, sizeof mesh);
  }
  if (f) fclose(f);
  skipped += needs_file;
  for (int i = 0; i < n && !needs_file; i++)
    run_under(path, large, layouts[i][0], layouts[i][1], i == n - 1);
  if (own && !needs_file) run_under(path, large, NULL, NULL, false);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}
static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *w) {
  (void)s, (void)flag, (void)w;
  return remove(path);
}

// Makes the data of the examples with the program that lies beside this one.
static bool make_data(Arena *a, const char *self) {
  const char *slash = strrchr(self, '/');
  int n = slash ? (int)(slash - self) : 1;
  return mkdtemp(folder) &&
         system(arena_printf(a, "'%.*s/generate' %s", n, slash ? self : ".", folder)) == 0;
}

int main(int argc, char **argv) {
  Arena *a = arena_new();
  VEC(char *) path = {0};
  if (!code_available()) {
    printf("0 passed, 0 failed, 1 skipped\n");
    return 0;
  }
  if (!make_data(a, argv[0])) return 6;
  setenv("XDG_CACHE_HOME", folder, 0); // the test command has a cache of its own
  on_gpu = argc > 2 && !strcmp(argv[1], "--device") && !strcmp(argv[2], "cuda");
  const char *which = getenv("MESHC_GPU"); // set to `real` by scripts/gpu.sh
  emulated = on_gpu && !(which && !strcmp(which, "real"));
  int given = on_gpu ? 3 : 1;
  for (int i = given; i < argc; i++) vec_push(a, path) = argv[i];
  DIR *d = argc > given ? NULL : opendir("examples");
  for (struct dirent *e; d && (e = readdir(d));)
    if (strstr(e->d_name, ".mesh")) vec_push(a, path) = arena_printf(a, "examples/%s", e->d_name);
  if (d) closedir(d);
  if (path.n) qsort(path.at, path.n, sizeof *path.at, by_name);
  for (uint32_t i = 0; i < path.n; i++)
    if (suite_takes()) file_runs(path.at[i]);
  arena_free(a);
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed != 0;
}
