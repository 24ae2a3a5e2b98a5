// The builds of a package: for each level of --cpu its programs, up to machine code.
//
// A program with products of matrices needs something that computes them: instructions of the CPU,
// or OpenBLAS. A level whose CPUs may lack it gets a second build, in which generated kernels
// compute the products. The first build that a machine can run is used.
#include "collectives/local/devices.h"
#include "frontend/driver/package_internal.h"
#include "runtime/package/package.h"

#include <string.h>

static const char *const fors[] = {"predict", "train", "generate"};

static bool known_level(const char *name) {
  if (!strcmp(name, "native")) return true;
  for (int i = 0; code_levels[i]; i++)
    if (!strcmp(name, code_levels[i])) return true;
  return false;
}

// Levels with more instructions come first: the first build that a machine can run is used.
static const char *const cpu_names[] = {"native",    "x86-64-v4", "x86-64-v3",
                                        "x86-64-v2", "aarch64",   NULL};

static const char *const *names_of(const PackagePlan *plan) {
  return plan->gpu ? gpu_level_names : cpu_names;
}

static bool add_level(Session *s, PackagePlan *plan, const char *name, size_t n, Pos pos) {
  const char *level = arena_text(s->arena, name, n), *option = plan->gpu ? "--gpu" : "--cpu";
  bool twice = false;
  for (uint32_t i = 0; i < plan->nlevels; i++) twice |= !strcmp(plan->level[i], level);
  if (twice || plan->nlevels == PACKAGE_BUILDS)
    return diag_error(s->diag, DIAG_USAGE, pos, "%s names %s twice", option, level);
  if (plan->gpu ? gpu_level(level) != NULL : known_level(level)) {
    plan->level[plan->nlevels++] = level;
    return true;
  }
  size_t names = 0;
  while (names_of(plan)[names]) names++;
  diag_error(s->diag, DIAG_USAGE, pos, "%s knows no level '%s'", option,
             text_shown(s->arena, level));
  diag_one_of(s->diag, names_of(plan), names);
  return false;
}

static int rank_of(const PackagePlan *plan, const char *level) {
  int i = 0;
  while (names_of(plan)[i] && strcmp(level, names_of(plan)[i]) != 0) i++;
  return i;
}

static void sort_levels(PackagePlan *plan) {
  for (uint32_t i = 1; i < plan->nlevels; i++)
    for (uint32_t k = i; k > 0 && rank_of(plan, plan->level[k]) < rank_of(plan, plan->level[k - 1]);
         k--) {
      const char *level = plan->level[k];
      plan->level[k] = plan->level[k - 1];
      plan->level[k - 1] = level;
    }
}

static const char *usual_levels(const PackagePlan *plan) {
  if (plan->gpu) return "sm_80";
  return code_level_is_here("aarch64") ? "aarch64" : "x86-64-v2,x86-64-v3,x86-64-v4";
}

// --cpu is for packages for CPUs, --gpu for those for GPUs.
static bool levels_fit(const Session *s, const PackagePlan *plan) {
  OptionId other = plan->gpu ? OPTION_CPU : OPTION_GPU;
  if (!option_given(s->opt, other)) return true;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, other)->pos,
             "a package for %ss has no levels of %ss", plan->gpu ? "GPU" : "CPU",
             plan->gpu ? "CPU" : "GPU");
  return diag_hint(s->diag, plan->gpu ? "name levels of GPUs by --gpu" : "add --device cuda");
}

// Reads --gpus: the processors of a GPU are a box of the mesh.
static bool gpus_fit(Session *s, PackagePlan *plan) {
  const Mesh *m = &s->model->mesh;
  const OptionUse *use = option_use(s->opt, OPTION_GPUS);
  if (!option_integer(s->opt, OPTION_GPUS, 1, 1, INT32_MAX, s->diag, &plan->gpus)) return false;
  if (plan->gpus == 1) return true;
  if (!plan->gpu)
    return diag_error(s->diag, DIAG_USAGE, use->pos, "--gpus is an option of --device cuda");
  if (mesh_size(m) % plan->gpus == 0 && devices_fit(m, mesh_size(m) / plan->gpus)) return true;
  diag_error(s->diag, DIAG_USAGE, use->pos,
             "%lld GPUs do not divide the axes of the mesh %s evenly", (long long)plan->gpus,
             mesh_text(s->arena, m));
  return diag_hint(s->diag, "say --gpus %lld, or give another --mesh", (long long)mesh_size(m));
}

bool package_options(Session *s, PackagePlan *plan) {
  plan->gpu = session_for_gpu(s);
  const OptionUse *use = option_use(s->opt, plan->gpu ? OPTION_GPU : OPTION_CPU);
  int word;
  if (!levels_fit(s, plan) || !gpus_fit(s, plan)) return false;
  if (!option_word(s->opt, OPTION_PACKAGE_FOR, countof(fors), fors, s->diag, &word)) return false;
  plan->trains = word == 1;
  plan->generates = word == 2;
  if (option_given(s->opt, OPTION_ROWS) && !plan->generates)
    return diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_ROWS)->pos,
                      "--rows is an option of --for generate");
  const char *list = use ? use->text : usual_levels(plan);
  for (const char *at = list; *at;) {
    size_t n = strcspn(at, ",");
    if (!add_level(s, plan, at, n, use ? use->pos : (Pos){0})) return false;
    at += n + (at[n] == ',');
  }
  sort_levels(plan);
  return plan->nlevels > 0 || diag_error(s->diag, DIAG_USAGE, use->pos, "%s names no level",
                                         plan->gpu ? "--gpu" : "--cpu");
}

// -- builds -------------------------------------------------------------------------------------

DtypeSet package_products(const PackagePlan *plan, const PackageBuild *b) {
  DtypeSet set = 0;
  for (uint32_t k = 0; k < plan->nparts; k++) {
    const Program *p = b->made[k].compiled->program;
    for (uint32_t i = 0; i < p->ninstrs; i++)
      if (p->instr[i].kind == INSTR_GEMM) set |= dtype_bit(p->instr[i].u.gemm.factors);
  }
  return set;
}

bool package_compile(Session *s, PackagePlan *plan, PackageBuild *b, DtypeSet products) {
  s->stores = NULL;
  const int64_t each = plan->gpus > 1 ? mesh_size(&s->model->mesh) / plan->gpus : 0;
  const PackageWay way = {products, b->epilogues, each};
  for (uint32_t k = 0; k < plan->nparts; k++)
    if (!session_package(s, plan->part[k].of.graph, &plan->part[k].of, way, &b->made[k]))
      return false;
  b->products = package_products(plan, b);
  return true;
}

static PackageBuild *new_build(PackagePlan *plan, const char *level) {
  PackageBuild *b = &plan->build[plan->nbuilds++];
  *b = (PackageBuild){.name = level, .level = strcmp(level, "native") ? level : NULL};
  return b;
}

static bool add_builds(Session *s, PackagePlan *plan, const char *level) {
  DtypeSet sure = !strcmp(level, "x86-64-v4") ? dtype_bit(TYPE_F32) : 0,
           all = dtype_bit(TYPE_F32) | dtype_bit(TYPE_F64);
  bool native = !strcmp(level, "native");
  if (native) sure = all = session_products(s, s->model->graph);
  PackageBuild *b = new_build(plan, level);
  if (!package_compile(s, plan, b, all)) return false;
  if (!(b->products & ~sure)) return true;
  return package_compile(s, plan, new_build(plan, level), sure);
}

bool package_builds(Session *s, PackagePlan *plan) {
  for (uint32_t i = 0; i < plan->nlevels; i++)
    if (!(plan->gpu ? package_gpu_builds(s, plan, gpu_level(plan->level[i]))
                    : add_builds(s, plan, plan->level[i])))
      return false;
  return true;
}

int package_emitted(const PackagePlan *plan) {
  const char *name = plan->generates ? PACKAGE_GENERATE : "predict";
  for (uint32_t k = 0; k < plan->nparts; k++)
    if (!strcmp(plan->part[k].name, name)) return (int)k;
  return -1;
}
