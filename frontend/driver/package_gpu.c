// The builds of a package for GPUs: for each level of --gpu its programs, and their code as PTX,
// which the driver assembles where the package runs.
//
// cuBLASLt computes products of matrices where the machine has it, and adds a bias or applies a
// function to them where it can. So a level has up to three builds: with all that the library may
// have, with its plain products, and without the library.
#include "collectives/local/messages.h"
#include "frontend/driver/package_internal.h"
#include "ir/program/gpu.h"
#include "ir/program/pack.h"
#include "runtime/package/package.h"

#include <stdlib.h>
#include <string.h>

// Later levels first: the first build that a GPU can run is used.
#define LEVELS(ROW) ROW(90) ROW(80) ROW(75) ROW(70)
#define AS_LEVEL(N) {"sm_" #N, GPU_PTX, N},
#define AS_NAME(N) "sm_" #N,

// `emulated` is the GPU of tests, which messages do not offer.
static const GpuLevel levels[] = {LEVELS(AS_LEVEL){"emulated", GPU_EMULATED, 90}};
const char *const gpu_level_names[] = {LEVELS(AS_NAME) NULL};

const GpuLevel *gpu_level(const char *name) {
  for (size_t i = 0; i < countof(levels); i++)
    if (!strcmp(levels[i].name, name)) return &levels[i];
  return NULL;
}

// -- builds -------------------------------------------------------------------------------------

// Returns the epilogues that the products of all parts have.
static uint32_t used_epilogues(const PackagePlan *plan, const PackageBuild *b) {
  uint32_t set = 0;
  for (uint32_t k = 0; k < plan->nparts; k++) {
    const Program *p = b->made[k].compiled->program;
    for (uint32_t i = 0; i < p->ninstrs; i++) {
      const Gemm *g = &p->instr[i].u.gemm;
      int row = p->instr[i].kind == INSTR_GEMM ? gemm_library(g) : -1;
      if (row >= 0) set |= 1U << row;
    }
  }
  return set;
}

// Refuses operations for which there are no kernels on GPUs.
static bool parts_fit(const Session *s, const PackagePlan *plan, const PackageBuild *b) {
  for (uint32_t k = 0; k < plan->nparts; k++) {
    const Program *p = b->made[k].compiled->program;
    for (uint32_t i = 0; i < p->ninstrs; i++) {
      Pos pos;
      if (p->instr[i].kind != INSTR_MATRIX) continue;
      const char *name = program_instr_name(p, i, &pos);
      return diag_error(s->diag, DIAG_UNAVAILABLE, pos,
                        "--device cuda does not support cholesky, solve and other operations on "
                        "matrices yet: %s",
                        name);
    }
  }
  return true;
}

static bool add_build(Session *s, PackagePlan *plan, const GpuLevel *level, DtypeSet products,
                      uint32_t epilogues) {
  PackageBuild *b = &plan->build[plan->nbuilds++];
  *b = (PackageBuild){.name = level->name, .gpu = level, .epilogues = epilogues};
  if (!package_compile(s, plan, b, products) || !parts_fit(s, plan, b)) return false;
  b->epilogues = used_epilogues(plan, b);
  return true;
}

bool package_gpu_builds(Session *s, PackagePlan *plan, const GpuLevel *level) {
  const DtypeSet all = dtype_bit(TYPE_F32) | dtype_bit(TYPE_F64) | dtype_bit(TYPE_BF16);
  const uint32_t plain = 1U << GEMM_ROW_DEFAULT;
  if (!add_build(s, plan, level, all, ALL_EPILOGUES)) return false;
  const PackageBuild *first = &plan->build[plan->nbuilds - 1];
  if (!first->products) return true;
  if ((first->epilogues & ~plain) && !add_build(s, plan, level, all, plain)) return false;
  return add_build(s, plan, level, 0, plain);
}

// -- code ---------------------------------------------------------------------------------------

static bool code_options(Session *s, const PackageBuild *b, GpuCodeOptions *out) {
  int64_t opt;
  if (!option_integer(s->opt, OPTION_OPT, 2, 0, 3, s->diag, &opt)) return false;
  *out = (GpuCodeOptions){
      .target = b->gpu->target, .capability = b->gpu->capability, .opt = (int)opt, .text = true};
  return true;
}

// Lists the kernels of collectives, as GpuLaunches has them.
static void list_parts(Arena *a, const Program *p, const GpuTransfers *t, GpuLaunches *out) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_COLLECTIVE) out->nparts += p->instr[i].u.collective.nparts;
  out->part = arena_array(a, GpuPartKernels, out->nparts + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_COLLECTIVE) continue;
    const PartPlan *local = t->local[i];
    for (uint32_t k = 0; k < p->instr[i].u.collective.nparts; k++)
      out->part[n++] =
          local ? (GpuPartKernels){local[k].kernel, local[k].least_kernel}
                : (GpuPartKernels){t->messages[i][k].pack.kernel, t->messages[i][k].unpack.kernel};
  }
  out->njoins = t->join ? p->ninstrs : 0;
  out->join = t->join;
}

static bool put_launches(Session *s, PackageWriter *w, const char *file, const Program *p,
                         const Compilation *c, const GpuCode *code) {
  GpuLaunches l = {.nentries = p->nkernels};
  l.entry = arena_copy(s->arena, gpu_code_entries(code), (p->nkernels + 1) * sizeof *l.entry);
  list_parts(s->arena, p, c->transfers, &l);
  size_t n;
  char *bytes = pack_write(&pack_of_launches, &l, NULL, NULL, &n);
  bool ok = package_put(w, file, bytes, n);
  free(bytes);
  return ok;
}

static json_t *put_images(Session *s, PackageWriter *w, const char *stem, const PackageBuild *b,
                          const GpuCode *code) {
  const GpuImage *image;
  json_t *out = json_array();
  uint32_t n = gpu_code_images(code, &image);
  for (uint32_t i = 0; i < n; i++) {
    const char *file =
        arena_printf(s->arena, "%s.%u.%s", stem, i + 1, b->gpu->target == GPU_PTX ? "ptx" : "o");
    if (!package_put(w, file, image[i].at, image[i].n)) {
      json_decref(out);
      return NULL;
    }
    json_array_append_new(out, json_string(file));
  }
  return out;
}

json_t *package_gpu_code(Session *s, PackageWriter *w, const char *stem, const Program *p,
                         const PackageBuild *b, uint32_t k) {
  const Compilation *c = &b->made[k];
  const char *file = arena_printf(s->arena, "%s.launches", stem);
  GpuCodeOptions options;
  if (!code_options(s, b, &options)) return NULL;
  GpuCode *code = gpu_code_load(p, c->compiled->kernels, &options, s->diag);
  json_t *images =
      code && put_launches(s, w, file, p, c, code) ? put_images(s, w, stem, b, code) : NULL;
  gpu_code_free(code);
  return images ? json_pack("{s:s, s:o}", "launches", file, "images", images) : NULL;
}

char *package_gpu_text(Session *s, const PackageBuild *b, uint32_t k) {
  GpuCodeOptions options;
  const Compiled *c = b->made[k].compiled;
  if (!code_options(s, b, &options)) return NULL;
  return gpu_code_text(s->arena, c->program, c->kernels, &options, s->diag);
}
