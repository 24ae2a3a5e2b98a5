// The loop of the fuzzers: draws inputs, runs them in child processes, counts failures.
#include "tests/suite/common/fuzz.h"

#include <ctype.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

// An input counts as a hang after this processor time, or after ten times as much wall time.
// Sanitizers slow everything down.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SECONDS = 40 };
#else
enum { SECONDS = 5 };
#endif

static uint64_t state;
static char folder[64];
static const char *only = "";

const char *fuzz_folder(void) { return folder; }
const char *fuzz_only(void) { return only; }

uint64_t fuzz_draw(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
uint32_t fuzz_below(uint32_t n) { return (uint32_t)(fuzz_draw() % n); }

void fuzz_put(FuzzText *t, const char *s, size_t n) {
  if (t->n + n >= FUZZ_TEXT) return;
  memcpy(t->at + t->n, s, n);
  t->n += n;
  t->at[t->n] = 0;
}

void fuzz_copy(FuzzText *to, const FuzzText *from) {
  memcpy(to->at, from->at, from->n);
  to->n = from->n;
  to->at[to->n] = 0;
}

bool fuzz_read(FuzzText *t, const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) return false;
  t->n = fread(t->at, 1, FUZZ_TEXT - 1, f);
  t->at[t->n] = 0;
  bool whole = getc(f) == EOF && !ferror(f);
  fclose(f);
  return whole;
}

bool fuzz_write(const FuzzText *t, const char *path) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = fwrite(t->at, 1, t->n, f) == t->n;
  return fclose(f) == 0 && good;
}

// -- models -------------------------------------------------------------------------------------

static FuzzText model[FUZZ_MODELS];

uint32_t fuzz_models(const FuzzText **out) {
  static const char *const where[] = {"examples/*.mesh", "tests/models/*.mesh"};
  static uint32_t n;
  *out = model;
  for (size_t i = 0; i < sizeof where / sizeof *where && n < FUZZ_MODELS && !(n && i == 0); i++) {
    glob_t g;
    if (glob(where[i], 0, NULL, &g) != 0) continue;
    for (size_t k = 0; k < g.gl_pathc && n < FUZZ_MODELS; k++)
      (void)fuzz_read(&model[n++], g.gl_pathv[k]);
    globfree(&g);
  }
  return n;
}

// -- mutations ----------------------------------------------------------------------------------

size_t fuzz_token(const char *p) {
  size_t n = 0;
  while (isalnum((unsigned char)p[n]) || p[n] == '_' || p[n] == '.') n++;
  return n ? n : *p ? 1 : 0;
}

const char *fuzz_somewhere(const FuzzText *t) {
  const char *p = t->at + (t->n ? fuzz_below((uint32_t)t->n) : 0);
  while (p > t->at && isalnum((unsigned char)p[-1])) p--;
  return p;
}

// Returns the length of up to `tokens` tokens at p.
static size_t several(const char *p, uint32_t tokens) {
  size_t n = 0;
  for (; tokens; tokens--) n += fuzz_token(p + n);
  return n;
}

void fuzz_tokens(FuzzText *t, const FuzzText *other) {
  static FuzzText out;
  out.n = 0;
  const char *cut = fuzz_somewhere(t), *from = fuzz_somewhere(fuzz_below(2) ? t : other);
  size_t length = several(cut, 1 + fuzz_below(3)), more = several(from, 1 + fuzz_below(3));
  fuzz_put(&out, t->at, (size_t)(cut - t->at));
  switch (fuzz_below(4)) {
  case 0: break; // dropped
  case 1: fuzz_put(&out, cut, length), fuzz_put(&out, cut, length); break;
  case 2: fuzz_put(&out, from, more); break; // exchanged
  case 3: fuzz_put(&out, cut, length), fuzz_put(&out, from, more); break;
  }
  fuzz_put(&out, cut + length, (size_t)(t->at + t->n - cut) - length);
  fuzz_copy(t, &out);
}

uint64_t fuzz_odd(void) {
  static const uint64_t odd[] = {0,
                                 1,
                                 2,
                                 0x7f,
                                 0x80,
                                 0xff,
                                 0x7fff,
                                 0xffff,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xffffffffffffffff};
  return odd[fuzz_below(sizeof odd / sizeof *odd)];
}

void fuzz_bytes(FuzzText *t) {
  static FuzzText out;
  if (t->n == 0) return;
  size_t at = fuzz_below((uint32_t)t->n), n = 1 + fuzz_below(16);
  if (n > t->n - at) n = t->n - at;
  uint64_t odd = fuzz_odd();
  out.n = 0;
  switch (fuzz_below(5)) {
  case 0: t->at[at] = (char)fuzz_draw(); return;
  case 1: memcpy(t->at + at, &odd, n < 8 ? n : 8); return;
  case 2:
    t->n = at;
    t->at[at] = 0;
    return; // cut short
  case 3:
    fuzz_put(&out, t->at, at + n);
    fuzz_put(&out, t->at + at, t->n - at); // doubled
    break;
  case 4:
    fuzz_put(&out, t->at, at);
    fuzz_put(&out, t->at + at + n, t->n - at - n); // dropped
    break;
  }
  fuzz_copy(t, &out);
}

// -- children -----------------------------------------------------------------------------------

typedef struct Shared {
  uint64_t number, accepted; // the input that is running; inputs accepted so far
} Shared;

static void input_make(const Fuzzer *f, uint64_t seed, uint64_t number, FuzzText *t) {
  state = seed * 0x100000001b3u ^ number;
  t->n = 0;
  t->at[0] = 0;
  f->make(t);
}

// Runs the next inputs, at most CHILD: what a library keeps for each call would slow it down.
enum { CHILD = 2000 };
static void child_run(const Fuzzer *f, Shared *s, uint64_t seed, uint64_t end) {
  static FuzzText t;
  const struct itimerval limit = {.it_value = {.tv_sec = SECONDS}};
  if (end > s->number + CHILD) end = s->number + CHILD;
  for (; s->number < end; s->number++) {
    input_make(f, seed, s->number, &t);
    alarm(10 * SECONDS);
    setitimer(ITIMER_PROF, &limit, NULL);
    s->accepted += f->run(&t, s->number);
  }
  exit(0);
}

static void show(const Fuzzer *f, uint64_t seed, uint64_t number) {
  static FuzzText t;
  input_make(f, seed, number, &t);
  printf("---\n");
  fwrite(t.at, 1, t.n, stdout);
  printf("---\n");
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise) {
  size_t n = strlen(name);
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=')
      return strtoull(argv[i] + n + 1, NULL, 10);
  return otherwise;
}

static const char *only_of(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strncmp(argv[i], "only=", 5) == 0) return argv[i] + 5;
  return "";
}

// Makes the folder. Returns false if there is no place for it.
static bool make_folder(const char *name) {
  static const char *const where[] = {"/dev/shm", "/tmp"};
  for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
    snprintf(folder, sizeof folder, "%s/suite_%s_XXXXXX", where[i], name);
    if (mkdtemp(folder)) return true;
  }
  return false;
}

static int run_all(int argc, char **argv, const Fuzzer *f) {
  uint64_t count = option(argc, argv, "count", f->count), seed = option(argc, argv, "seed", 1),
           failed = 0;
  const char *fault = f->name && !make_folder(f->name) ? "no folder to write to" : NULL;
  if (!fault && f->fault) fault = f->fault();
  if (fault) printf("FAIL the fuzzer: %s\n", fault), failed++;
  Shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (s == MAP_FAILED) return perror("mmap"), 1;
  for (s->number = option(argc, argv, "first", 0); s->number < count;) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    if (child == 0) child_run(f, s, seed, count);
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    failed++;
    const char *how = WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit";
    printf("FAIL input %llu of seed %llu: %s\n", (unsigned long long)s->number,
           (unsigned long long)seed, how);
    if (getenv("SHOW")) show(f, seed, s->number);
    s->number++;
  }
  printf("accepted: %llu\n", (unsigned long long)s->accepted);
  printf("%llu passed, %llu failed, 0 skipped\n", (unsigned long long)(count - failed),
         (unsigned long long)failed);
  return failed != 0;
}

int fuzz_run(int argc, char **argv, const Fuzzer *f) {
  char command[96];
  only = only_of(argc, argv);
  int code = run_all(argc, argv, f);
  if (!f->name) return code;
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) == 0 ? code : 1;
}
