// Code of a program's kernels for a GPU, from the compile cache or from LLVM. In: a Program and its
// kernels. Out: a GpuCode with images, and how each kernel is launched. PTX is assembled if there
// is an nvJitLink that knows the GPU (gpu_divide.c), so that the cache has machine code; else the
// driver assembles it at the start of each run.
//
// In the images the kernels have the names k0, k1 ..., in the order of the program, so that
// programs that differ only in names share an entry of the cache. The functions that are the same
// in all programs have an image, and an entry of the cache, of their own.
#include <stdio.h>
#include <stdlib.h>

#include "codegen/cpu/cache_internal.h"
#include "codegen/cpu/host_internal.h"
#include "codegen/gpu/assemble.h"
#include "codegen/gpu/gpu_internal.h"
#include "emitter_hash.h" // made by the build from the sources of the emitter
#include "ir/program/gpu_ordered.h"

struct GpuCode {
  Arena *arena; // entries and their names
  GpuEntry *entry;
  uint32_t nimages;
  Bytes *bytes;    // of each image
  GpuImage *image; // the same
};

// Returns the functions of a program. symbol: gets the symbols of kernels.
static GpuModule module_make(Arena *a, const Program *p, Kernel *const *kernels,
                             const GpuCodeOptions *opt, const char ***symbol) {
  GpuOrdered *ordered;
  *symbol = arena_array(a, const char *, p->nkernels + 1);
  for (uint32_t i = 0; i < p->nkernels; i++) (*symbol)[i] = arena_printf(a, "k%u", i);
  GpuModule m = {.kernel = (const Kernel *const *)kernels, .symbol = *symbol, .n = p->nkernels};
  m.opt = opt;
  m.nordered = gpu_ordered_list(a, p, &ordered);
  m.ordered = ordered;
  return m;
}

static const char *target_text(Arena *a, const GpuCodeOptions *opt) {
  int version;
  if (opt->target == GPU_EMULATED) return arena_printf(a, "emulated %s", host_identity(a));
  if (opt->text) return arena_printf(a, "sm_%d, text", opt->capability);
  (void)assembler_open(&version);
  return arena_printf(a, "sm_%d, assembler %d", opt->capability, version);
}

// Computes the key of the compile cache: the hash of all that the code depends on.
static void cache_key(Arena *a, const GpuModule *m, uint8_t out[HASH_BYTES]) {
  Hash h;
  hash_start(&h);
  hash_text(&h, "meshc " MESHC_VERSION " GPU " EMITTER_HASH);
  hash_text(&h, code_version());
  hash_text(&h, target_text(a, m->opt));
  hash_text(&h, arena_printf(a, "level %d, tile %d, %u kernels", m->opt->opt, m->opt->tile, m->n));
  for (uint32_t i = 0; i < m->n; i++) hash_text(&h, kernel_identity(a, m->kernel[i]));
  for (uint32_t i = 0; i < m->nordered; i++)
    hash_text(&h, gpu_ordered_name(m->ordered[i].kind, m->ordered[i].type));
  if (m->judges) hash_text(&h, "judge");
  hash_end(&h, out);
}

// Returns the images of a module, on the heap, from the cache or from LLVM; 0 after an error.
static uint32_t find_images(Arena *a, const GpuModule *m, Bytes **out, Diag *d) {
  uint8_t key[HASH_BYTES];
  const char *cache = m->opt->cache;
  cache_key(a, m, key);
  uint32_t n = cache ? cache_read(cache, key, out) : 0;
  if (n) return n;
  n = gpu_compile_all(m, out, d);
  if (n && cache) cache_write(cache, key, n, *out);
  return n;
}

// Adds the images of a module to c. Returns false after an error.
static bool add_images(GpuCode *c, const GpuModule *m, Diag *d) {
  Bytes *more = NULL;
  uint32_t n = find_images(c->arena, m, &more, d);
  c->bytes = mem_grow(c->bytes, (c->nimages + n + 1) * sizeof *c->bytes);
  for (uint32_t i = 0; i < n; i++) c->bytes[c->nimages++] = more[i];
  free(more);
  return n > 0;
}

GpuCode *gpu_code_load(const Program *p, Kernel *const *kernels, const GpuCodeOptions *opt,
                       Diag *d) {
  (void)mem_doing("compiling kernels for a GPU, of the program for", p->for_);
  GpuCode *c = mem_zeroed(1, sizeof *c);
  c->arena = arena_new();
  const char **symbol;
  GpuModule m = module_make(c->arena, p, kernels, opt, &symbol);
  c->entry = arena_array(c->arena, GpuEntry, m.n + 1);
  for (uint32_t i = 0; i < m.n; i++) {
    GpuPlan plan = gpu_plan_make(c->arena, kernels[i], opt);
    c->entry[i] = gpu_plan_entry(c->arena, kernels[i], &plan, m.symbol[i]);
  }
  GpuModule common = {.judges = true, .opt = opt};
  bool ok = add_images(c, &common, d) && (m.n + m.nordered == 0 || add_images(c, &m, d));
  llvm_rest();
  c->image = arena_array(c->arena, GpuImage, c->nimages + 1);
  for (uint32_t i = 0; i < c->nimages; i++) c->image[i] = (GpuImage){c->bytes[i].at, c->bytes[i].n};
  if (ok) {
    arena_keep(c->arena); // gpu_code_free frees it
    return c;
  }
  gpu_code_free(c);
  return NULL;
}

void gpu_code_free(GpuCode *c) {
  if (!c) return;
  for (uint32_t i = 0; i < c->nimages; i++) free(c->bytes[i].at);
  free(c->bytes);
  arena_free(c->arena);
  free(c);
}

const GpuEntry *gpu_code_entries(const GpuCode *c) { return c->entry; }

uint32_t gpu_code_images(const GpuCode *c, const GpuImage **out) {
  *out = c->image;
  return c->nimages;
}

// Prints the plan and the shared memory of each kernel, a line of comment each. symbol: gets the
// kernels' own names.
static void print_plans(FILE *out, const Program *p, const GpuModule *m, const char **symbol) {
  Arena *scratch = arena_new();
  for (uint32_t i = 0; i < m->n; i++) {
    GpuPlan plan = gpu_plan_make(scratch, m->kernel[i], m->opt);
    symbol[i] = p->kernel[i].name;
    GpuEntry entry = gpu_plan_entry(scratch, m->kernel[i], &plan, symbol[i]);
    fprintf(out, "// %s: %s; %d bytes of shared memory: %s\n", symbol[i],
            gpu_plan_print(scratch, m->kernel[i], &plan), entry.shared,
            gpu_plan_why(scratch, m->kernel[i], &plan));
  }
  arena_free(scratch);
}

char *gpu_code_text(Arena *a, const Program *p, Kernel *const *kernels, const GpuCodeOptions *opt,
                    Diag *d) {
  const char **symbol;
  GpuModule m = module_make(a, p, kernels, opt, &symbol);
  char *text;
  size_t n;
  FILE *out = mem_stream(&text, &n);
  print_plans(out, p, &m, symbol);
  Bytes code = {0};
  bool ok = gpu_compile_list(&m, opt->target == GPU_PTX ? LLVM_ASSEMBLY : LLVM_IR, &code, d);
  if (ok) fputs((const char *)code.at, out);
  mem_stream_close(out);
  char *copy = ok ? arena_printf(a, "%s", text) : NULL;
  free(text);
  free(code.at);
  return copy;
}
