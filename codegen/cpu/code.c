// Machine code of a program's kernels, from the cache or from LLVM, mapped into this process. In: a
// Program and its kernels. Out: a Code, and the entry points in the program.
//
// In the objects the kernels have the names k0, k1 ..., in the order of the program. Names of
// kernels are no part of the key of the cache: two programs that differ only in these share an
// entry. Two threads compile if there are many kernels.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"
#include "codegen/cpu/host_internal.h"
#include "codegen/cpu/llvm_internal.h"
#include "emitter_hash.h" // made by the build from the sources of the emitter
#include "ir/base/guard.h"
#include "ir/program/image.h"

enum { MAX_OBJECTS = 2, KERNELS_A_THREAD = 4 };

struct Code {
  uint8_t key[HASH_BYTES]; // of its entry in the cache
  uint32_t nimages;
  Image *image[MAX_OBJECTS];
};

const char *code_cpu(void) {
  static char text[80];
  if (!code_available()) return "none";
  snprintf(text, sizeof text, "%s, %d bit", host_name(), code_bits(&(CodeOptions){0}));
  return text;
}

// All kernels of a program, and the symbols under which they are compiled.
typedef struct KernelList {
  uint32_t n;
  Kernel *const *kernel;
  const char **symbol;
  const CodeOptions *opt;
} KernelList;

static KernelList source_make(Arena *a, const Program *p, Kernel *const *kernels,
                              const CodeOptions *opt) {
  KernelList s = {p->nkernels, kernels, arena_array(a, const char *, p->nkernels + 1), opt};
  for (uint32_t i = 0; i < s.n; i++) s.symbol[i] = arena_printf(a, "k%u", i);
  return s;
}

void hash_target(Hash *h, Arena *a, const CodeOptions *opt) {
  hash_text(h, "meshc " MESHC_VERSION " " EMITTER_HASH);
  hash_text(h, code_version());
  hash_text(h, host_identity(a));
  hash_text(h, arena_printf(a, "%d bits, level %d%s", code_bits(opt), opt->opt,
                            code_is_instrumented() ? ", instrumented" : ""));
  hash_text(h, opt->without ? opt->without : "");
}

// Computes the key of the compile cache: the hash of the target and of the kernels.
static void cache_key(Arena *a, const KernelList *s, uint8_t out[HASH_BYTES]) {
  Hash h;
  hash_start(&h);
  hash_target(&h, a, s->opt);
  hash_text(&h, arena_printf(a, "%u kernels", s->n));
  for (uint32_t i = 0; i < s->n; i++) hash_text(&h, kernel_identity(a, s->kernel[i]));
  hash_end(&h, out);
}

// -- compiling ----------------------------------------------------------------------------------

// The work of one thread: it compiles kernels first..first+n-1 as one module.
typedef struct CompileJob {
  const KernelList *source;
  uint32_t first, n;
  LlvmForm form;
  Bytes out;
  bool ok;     // LLVM has compiled the module; otherwise `why` says why not
  bool failed; // the work was cut off: no memory, or an error in meshc; see `failure`
  Failure failure;
  char why[LLVM_WHY];
} CompileJob;

static void compile_kernels(void *arg) {
  CompileJob *j = arg;
  j->ok =
      llvm_compile((const Kernel *const *)j->source->kernel + j->first,
                   j->source->symbol + j->first, j->n, j->source->opt, j->form, &j->out, j->why);
}

// Runs a CompileJob; the start function of a thread. Stores a failure, such as no memory
// (ir/base/guard.h), in the job instead of raising it. Only the first thread may raise the failure,
// after the second thread has ended.
static void *compile_job(void *arg) {
  CompileJob *j = arg;
  j->failed = !guard_run(compile_kernels, j, &j->failure);
  return NULL;
}

// Divides the kernels among one or two jobs. Runs the first job on the calling thread, the second
// on a new one. Returns the number of jobs.
static uint32_t compile(const KernelList *s, LlvmForm form, CompileJob *job) {
  uint32_t n = form == LLVM_OBJECT && s->n > 2 * KERNELS_A_THREAD ? MAX_OBJECTS : 1, first = 0;
  for (uint32_t i = 0; i < n; i++) {
    job[i] = (CompileJob){.source = s, .first = first, .n = (s->n - first) / (n - i), .form = form};
    first += job[i].n;
  }
  pthread_t helper;
  bool helped = n > 1 && pthread_create(&helper, NULL, compile_job, &job[1]) == 0;
  compile_job(&job[0]);
  if (helped)
    pthread_join(helper, NULL);
  else if (n > 1)
    compile_job(&job[1]);
  const CompileJob *bad = job[0].failed ? &job[0] : job[n - 1].failed ? &job[n - 1] : NULL;
  for (uint32_t i = 0; bad && i < n; i++) free(job[i].out.at);
  if (bad) guard_raise(&bad->failure);
  return n;
}

static void compile_error(Diag *d, const char *why) {
  diag_error(d, code_available() ? DIAG_FAILURE : DIAG_UNAVAILABLE, (Pos){0},
             "kernels cannot be compiled: %s", why);
}

static void free_objects(uint32_t n, Bytes *object) {
  for (uint32_t i = 0; i < n; i++) free(object[i].at);
}

// Compiles the kernels to one or two ELF objects, whose memory the caller frees. Returns the number
// of objects, or 0 after it has reported an error in d.
static uint32_t compile_objects(const KernelList *s, Bytes *object, Diag *d) {
  CompileJob job[MAX_OBJECTS];
  uint32_t n = compile(s, LLVM_OBJECT, job);
  const char *why = NULL;
  for (uint32_t i = 0; i < n; i++) {
    object[i] = job[i].out;
    if (!job[i].ok) why = job[i].why;
  }
  if (!why) return n;
  compile_error(d, why);
  if (!code_available()) diag_hint(d, "build meshc with LLVM 19");
  free_objects(n, object);
  return 0;
}

// -- loading ------------------------------------------------------------------------------------

static void *find_symbol(const Code *c, const char *name) {
  void *at = NULL;
  for (uint32_t i = 0; i < c->nimages && !at; i++) at = image_symbol(c->image[i], name);
  return at;
}

// Sets the function pointers of kernel k to the addresses `run` and `combine`. The pointers are
// copied as bytes, because ISO C does not convert data pointers to function pointers. POSIX
// guarantees that the bytes are the same.
static void set_entries(ProgKernel *k, void *run, void *combine) {
  memcpy(&k->run, &run, sizeof run);
  memcpy(&k->combine, &combine, sizeof combine);
}

static bool link_kernels(Program *p, const KernelList *s, const Code *c) {
  char name[64];
  for (uint32_t i = 0; i < p->nkernels; i++) {
    snprintf(name, sizeof name, "%s_combine", s->symbol[i]);
    void *run = find_symbol(c, s->symbol[i]), *combine = find_symbol(c, name);
    if (!run || (!combine && p->kernel[i].partial_bytes > 0)) return false;
    set_entries(&p->kernel[i], run, combine);
  }
  return true;
}

// Maps the n objects into this process and sets the entry points of all kernels. Returns NULL with
// a sentence in why[0..200) if an object cannot be loaded or a kernel is missing.
static Code *code_link(Program *p, const KernelList *s, uint32_t n, const Bytes *object,
                       char *why) {
  Code *c = mem_zeroed(1, sizeof *c);
  snprintf(why, 200, "a kernel is missing from its object");
  bool ok = n <= MAX_OBJECTS;
  for (uint32_t i = 0; i < n && ok; i++) {
    c->image[i] = image_load(object[i].at, object[i].n, why);
    if (c->image[i]) c->nimages++;
    ok = c->image[i] != NULL;
  }
  if (ok && link_kernels(p, s, c)) return c;
  code_free(c);
  return NULL;
}

static Code *load_cached(Program *p, const KernelList *s, const uint8_t key[HASH_BYTES]) {
  Bytes *object;
  char why[200];
  uint32_t n = cache_read(s->opt->cache, key, &object);
  if (n == 0) return NULL;
  Code *c = code_link(p, s, n, object, why);
  free_objects(n, object);
  free(object);
  return c;
}

Code *code_recall(Program *p, const uint8_t key[HASH_BYTES], const CodeOptions *opt) {
  if (p->nkernels == 0) return mem_zeroed(1, sizeof(Code));
  Arena *a = arena_new();
  KernelList s = source_make(a, p, NULL, opt);
  Code *c = load_cached(p, &s, key);
  if (c) memcpy(c->key, key, HASH_BYTES);
  arena_free(a);
  return c;
}

const uint8_t *code_key(const Code *c) { return c->key; }

static Code *load_fresh(Program *p, const KernelList *s, const uint8_t key[HASH_BYTES], Diag *d) {
  Bytes object[MAX_OBJECTS];
  char why[200];
  uint32_t n = compile_objects(s, object, d);
  if (n == 0) return NULL;
  Code *c = code_link(p, s, n, object, why);
  if (!c)
    diag_error(d, DIAG_FAILURE, (Pos){0}, "machine code cannot be loaded: %s", why);
  else if (s->opt->cache)
    cache_write(s->opt->cache, key, n, object);
  free_objects(n, object);
  return c;
}

Code *code_load(Program *p, Kernel *const *kernels, const CodeOptions *opt, Diag *d) {
  (void)mem_doing("compiling kernels of the program for", p->for_);
  if (p->nkernels == 0) return mem_zeroed(1, sizeof(Code));
  Arena *a = arena_new();
  KernelList s = source_make(a, p, kernels, opt);
  uint8_t key[HASH_BYTES];
  cache_key(a, &s, key);
  Code *c = opt->cache ? load_cached(p, &s, key) : NULL;
  if (!c) c = load_fresh(p, &s, key, d);
  if (c) memcpy(c->key, key, HASH_BYTES);
  llvm_rest();
  arena_free(a);
  return c;
}

char *code_object(const Program *p, Kernel *const *kernels, const CodeOptions *opt, size_t *n,
                  Diag *d) {
  Arena *a = arena_new();
  KernelList s = source_make(a, p, kernels, opt);
  CompileJob job = {.source = &s, .n = s.n, .form = LLVM_OBJECT};
  compile_job(&job);
  arena_free(a);
  if (job.failed) guard_raise(&job.failure);
  if (!job.ok) compile_error(d, job.why);
  if (!job.ok && !code_available()) diag_hint(d, "build meshc with LLVM 19");
  *n = job.out.n;
  return job.ok ? job.out.at : NULL;
}

void code_free(Code *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->nimages; i++) image_free(c->image[i]);
  free(c);
}

char *code_text(Arena *a, const Program *p, Kernel *const *kernels, const CodeOptions *opt,
                bool assembly, Diag *d) {
  KernelList s = source_make(a, p, kernels, opt);
  for (uint32_t i = 0; i < s.n; i++) s.symbol[i] = p->kernel[i].name;
  CompileJob job[MAX_OBJECTS];
  compile(&s, assembly ? LLVM_ASSEMBLY : LLVM_IR, job);
  char *text = job[0].ok ? arena_text(a, job[0].out.at, job[0].out.n) : NULL;
  free(job[0].out.at);
  if (!text) compile_error(d, job[0].why);
  return text;
}
