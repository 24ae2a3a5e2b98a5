// Machine code of a program's kernels: equal kernels once, from the cache or from LLVM, mapped.
//
// Inside objects kernels are called k0, k1 ... in the order of their first use, so that two
// programs of the same kernels under other names share a cache entry. Many kernels are compiled by
// two threads.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"
#include "codegen/cpu/host_internal.h"
#include "codegen/cpu/llvm_internal.h"
#include "codegen/cpu/load_internal.h"
#include "emitter_hash.h" // made by the build from the sources of the emitter
#include "ir/base/guard.h"

enum { MAX_OBJECTS = 2, KERNELS_A_THREAD = 4 };

struct Code {
  uint32_t nimages;
  Image *image[MAX_OBJECTS];
};

bool code_available(void) { return llvm_available(); }
const char *code_version(void) { return llvm_version(); }

const char *code_cpu(void) {
  static char text[80];
  if (!llvm_available()) return "none";
  snprintf(text, sizeof text, "%s, %d bit", llvm_cpu(), host_bits());
  return text;
}

// -- distinct kernels ---------------------------------------------------------------------------

typedef struct DistinctKernels {
  uint32_t n;
  const Kernel **kernel;
  const char **text;
  const char **symbol;
  uint32_t *of; // [program kernel] index of the equal one
} DistinctKernels;

static uint64_t text_hash(const char *s) {
  uint64_t h = UINT64_C(14695981039346656037);
  for (; *s; s++) h = (h ^ (uint8_t)*s) * UINT64_C(1099511628211);
  return h;
}

// Index of text in u, or a free place for it; an open hash of indices plus 1.
static uint32_t find(const DistinctKernels *u, const uint32_t *table, uint32_t size,
                     const char *text) {
  uint32_t at = (uint32_t)text_hash(text) & (size - 1);
  while (table[at] && strcmp(u->text[table[at] - 1], text) != 0) at = (at + 1) & (size - 1);
  return at;
}

static DistinctKernels distinct_kernels(Arena *a, const Program *p, Kernel *const *kernels) {
  uint32_t n = p->nkernels, size = 16;
  while (size < 2 * n) size *= 2;
  const uint32_t *first = kernels_first(a, n, kernels);
  uint32_t *table = arena_array(a, uint32_t, size);
  DistinctKernels u = {.kernel = arena_array(a, const Kernel *, n + 1),
                       .text = arena_array(a, const char *, n + 1),
                       .symbol = arena_array(a, const char *, n + 1),
                       .of = arena_array(a, uint32_t, n + 1)};
  for (uint32_t i = 0; i < n; i++) {
    if (first[i] < i) {
      u.of[i] = u.of[first[i]];
      continue;
    }
    const char *text = kernel_identity(a, kernels[i]);
    uint32_t at = find(&u, table, size, text);
    if (!table[at]) {
      u.kernel[u.n] = kernels[i];
      u.text[u.n] = text;
      u.symbol[u.n] = arena_printf(a, "k%u", u.n);
      table[at] = ++u.n;
    }
    u.of[i] = table[at] - 1;
  }
  return u;
}

static int width_of(const CodeOptions *opt) { return opt->width ? opt->width : host_bits(); }

// All that objects depend on.
static void cache_key(const DistinctKernels *u, const CodeOptions *opt, const char *host,
                      uint8_t out[HASH_BYTES]) {
  Hash h;
  char text[64];
  snprintf(text, sizeof text, "%d bits, level %d, %u kernels", width_of(opt), opt->opt, u->n);
  hash_start(&h);
  hash_text(&h, "meshc " MESHC_VERSION " " EMITTER_HASH);
  hash_text(&h, llvm_version());
  hash_text(&h, host);
  hash_text(&h, text);
  hash_text(&h, opt->without ? opt->without : "");
  for (uint32_t i = 0; i < u->n; i++) hash_text(&h, u->text[i]);
  hash_end(&h, out);
}

// -- compiling ----------------------------------------------------------------------------------

typedef struct CompileJob {
  const DistinctKernels *u;
  const CodeOptions *opt;
  uint32_t first, n;
  LlvmForm form;
  Bytes out;
  bool ok, failed; // failed: without memory, or by a fault of meshc
  Failure failure;
  char why[LLVM_WHY];
} CompileJob;

static void compile_kernels(void *arg) {
  CompileJob *p = arg;
  LlvmTarget target = {width_of(p->opt), p->opt->opt, p->opt->without};
  p->ok = llvm_compile(p->u->kernel + p->first, p->u->symbol + p->first, p->n, &target, p->form,
                       &p->out, p->why);
}

// A failure must not leave the helper thread, and on the caller's thread it must wait for the
// other.
static void *compile_job(void *arg) {
  CompileJob *p = arg;
  p->failed = !guard_run(compile_kernels, p, &p->failure);
  return NULL;
}

// Fills up to MAX_OBJECTS parts and returns how many.
static uint32_t compile(const DistinctKernels *u, const CodeOptions *opt, LlvmForm form,
                        CompileJob *part) {
  uint32_t n = form == LLVM_OBJECT && u->n > 2 * KERNELS_A_THREAD ? MAX_OBJECTS : 1, first = 0;
  for (uint32_t i = 0; i < n; i++) {
    part[i] = (CompileJob){
        .u = u, .opt = opt, .first = first, .n = (u->n - first) / (n - i), .form = form};
    first += part[i].n;
  }
  pthread_t helper;
  bool helped = n > 1 && pthread_create(&helper, NULL, compile_job, &part[1]) == 0;
  compile_job(&part[0]);
  if (helped)
    pthread_join(helper, NULL);
  else if (n > 1)
    compile_job(&part[1]);
  const CompileJob *bad = part[0].failed ? &part[0] : part[n - 1].failed ? &part[n - 1] : NULL;
  for (uint32_t i = 0; bad && i < n; i++) free(part[i].out.at);
  if (bad) guard_raise(&bad->failure);
  return n;
}

static void free_objects(uint32_t n, Bytes *object) {
  for (uint32_t i = 0; i < n; i++) free(object[i].at);
}

// The objects of all parts, or 0 after an error.
static uint32_t compile_objects(const DistinctKernels *u, const CodeOptions *opt, Bytes *object,
                                Diag *d) {
  CompileJob part[MAX_OBJECTS];
  uint32_t n = compile(u, opt, LLVM_OBJECT, part);
  const char *why = NULL;
  for (uint32_t i = 0; i < n; i++) {
    object[i] = part[i].out;
    if (!part[i].ok) why = part[i].why;
  }
  if (!why) return n;
  diag_error(d, llvm_available() ? DIAG_FAILURE : DIAG_UNAVAILABLE, (Pos){0},
             "kernels cannot be compiled: %s", why);
  if (!llvm_available()) diag_hint(d, "build meshc with LLVM 19");
  free_objects(n, object);
  return 0;
}

// -- loading ------------------------------------------------------------------------------------

static void *find_symbol(const Code *c, const char *name) {
  void *at = NULL;
  for (uint32_t i = 0; i < c->nimages && !at; i++) at = image_symbol(c->image[i], name);
  return at;
}

// Data pointers to function pointers, as POSIX has it.
static void set_entries(ProgKernel *k, void *run, void *combine) {
  memcpy(&k->run, &run, sizeof run);
  memcpy(&k->combine, &combine, sizeof combine);
}

static bool link_kernels(Program *p, const DistinctKernels *u, const Code *c) {
  char name[64];
  for (uint32_t i = 0; i < p->nkernels; i++) {
    snprintf(name, sizeof name, "%s_combine", u->symbol[u->of[i]]);
    void *run = find_symbol(c, u->symbol[u->of[i]]), *combine = find_symbol(c, name);
    if (!run || (!combine && p->kernel[i].partial_bytes > 0)) return false;
    set_entries(&p->kernel[i], run, combine);
  }
  return true;
}

// NULL with a sentence in why when the objects do not hold the kernels.
static Code *code_link(Program *p, const DistinctKernels *u, uint32_t n, const Bytes *object,
                       char *why) {
  Code *c = mem_zeroed(1, sizeof *c);
  snprintf(why, 200, "a kernel is missing from its object");
  bool ok = n <= MAX_OBJECTS;
  for (uint32_t i = 0; i < n && ok; i++) {
    c->image[i] = image_load(object[i].at, object[i].n, why);
    if (c->image[i]) c->nimages++;
    ok = c->image[i] != NULL;
  }
  if (ok && link_kernels(p, u, c)) return c;
  code_free(c);
  return NULL;
}

static Code *load_cached(Program *p, const DistinctKernels *u, const char *dir,
                         const uint8_t key[HASH_BYTES]) {
  Bytes *object;
  char why[200];
  uint32_t n = cache_read(dir, key, &object);
  if (n == 0) return NULL;
  Code *c = code_link(p, u, n, object, why);
  free_objects(n, object);
  free(object);
  return c;
}

static Code *load_fresh(Program *p, const DistinctKernels *u, const CodeOptions *opt,
                        const uint8_t key[HASH_BYTES], Diag *d) {
  Bytes object[MAX_OBJECTS];
  char why[200];
  uint32_t n = compile_objects(u, opt, object, d);
  if (n == 0) return NULL;
  Code *c = code_link(p, u, n, object, why);
  if (!c)
    diag_error(d, DIAG_FAILURE, (Pos){0}, "machine code cannot be loaded: %s", why);
  else if (opt->cache)
    cache_write(opt->cache, key, n, object);
  free_objects(n, object);
  return c;
}

Code *code_load(Program *p, Kernel *const *kernels, const CodeOptions *opt, Diag *d) {
  (void)mem_doing("compiling kernels of the program for", p->for_);
  Arena *a = arena_new();
  DistinctKernels u = distinct_kernels(a, p, kernels);
  uint8_t key[HASH_BYTES];
  Code *c = u.n == 0 ? mem_zeroed(1, sizeof *c) : NULL;
  if (!c) {
    cache_key(&u, opt, host_identity(a), key);
    if (opt->cache) c = load_cached(p, &u, opt->cache, key);
    if (!c) c = load_fresh(p, &u, opt, key, d);
  }
  arena_free(a);
  return c;
}

void code_free(Code *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->nimages; i++) image_free(c->image[i]);
  free(c);
}

char *code_text(Arena *a, const Program *p, Kernel *const *kernels, const CodeOptions *opt,
                bool assembly, Diag *d) {
  DistinctKernels u = distinct_kernels(a, p, kernels);
  for (uint32_t i = p->nkernels; i-- > 0;) u.symbol[u.of[i]] = p->kernel[i].name;
  CompileJob part[MAX_OBJECTS];
  compile(&u, opt, assembly ? LLVM_ASSEMBLY : LLVM_IR, part);
  char *text = part[0].ok ? arena_text(a, part[0].out.at, part[0].out.n) : NULL;
  free(part[0].out.at);
  if (!text)
    diag_error(d, llvm_available() ? DIAG_FAILURE : DIAG_UNAVAILABLE, (Pos){0},
               "kernels cannot be compiled: %s", part[0].why);
  return text;
}
