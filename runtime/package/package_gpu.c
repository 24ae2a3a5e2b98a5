// Builds of a package for a GPU: whether they fit the GPU of this machine, and their code, which
// the driver assembles when it is loaded.
//
//   PROGRAM.BUILD.program    the Program
//   PROGRAM.BUILD.launches   how its kernels are launched (GpuLaunches)
//   PROGRAM.BUILD.N.ptx      their code, as PTX; PROGRAM.BUILD.N.o for the emulator of tests
#include "collectives/local/devices.h"
#include "collectives/local/messages.h"
#include "collectives/local/transfer.h"
#include "ir/base/host.h"
#include "ir/program/gpu.h"
#include "ir/program/pack.h"
#include "runtime/package/package_internal.h"

#include <stdlib.h>
#include <string.h>

// -- the GPU ------------------------------------------------------------------------------------

bool package_gpu_fits(Arena *a, Gpu *gpu, const json_t *build) {
  const GpuFacts *facts = gpu_facts(gpu);
  json_int_t capability = json_integer_value(json_object_get(build, "capability")),
             epilogues = json_integer_value(json_object_get(build, "epilogues"));
  const char *identity = json_string_value(json_object_get(build, "identity"));
  if (identity ? !facts->emulated || strcmp(identity, host_identity(a)) != 0
               : capability <= 0 || capability > facts->capability)
    return false;
  if (json_array_size(json_object_get(build, "products")) == 0) return true;
  return gpu_library_of_products() && ((uint32_t)epilogues & ~gpu_epilogues(gpu)) == 0;
}

// Sets the mesh of the package, which the ranks share. Returns false if it is broken.
static bool read_mesh(Arena *a, const json_t *axes, Mesh *m) {
  const char *name;
  json_t *size;
  json_object_foreach((json_t *)(uintptr_t)axes, name, size) {
    json_int_t n = json_integer_value(size);
    if (m->naxes == MAX_AXES || n < 1 || n > INT32_MAX) return false;
    m->axis[m->naxes++] = (MeshAxis){.name = arena_text(a, name, strlen(name)), .size = n};
  }
  return true;
}

bool package_gpu_open(Arena *a, Package *p, const json_t *root, Ranks *ranks, Diag *d) {
  json_int_t gpus = json_integer_value(json_object_get(root, "gpus")),
             there = ranks ? ranks_count(ranks) : 1;
  Mesh *mesh = arena_new_of(a, Mesh);
  if (gpus != there) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0},
               "%s is a package for %lld GPU%s, and there %s %lld rank%s", p->path, (long long)gpus,
               plural(gpus), there == 1 ? "is" : "are", (long long)there, plural(there));
    return diag_hint(d, "compile the model with --gpus %lld, or start %lld ranks: --np %lld",
                     (long long)there, (long long)gpus, (long long)gpus);
  }
  if (ranks && (!read_mesh(a, json_object_get(root, "mesh"), mesh) || !ranks_use_mesh(ranks, mesh)))
    return package_damaged(p->source, PACKAGE_FILE, "has another mesh than its ranks", d);
  p->gpus = gpus;
  p->gpu = gpu_open(ranks, d);
  if (p->gpu) return true;
  diag_note(d, (Pos){0}, "%s was compiled for GPUs", p->path);
  return false;
}

// -- launches -----------------------------------------------------------------------------------

// Returns whether kernel k can move a part of a collective with so many operands. Such kernels have
// no numbers and no partial results.
static bool is_kernel(const Program *p, const GpuLaunches *l, uint32_t k, int64_t pointers,
                      int64_t slots) {
  if (k >= p->nkernels || l->entry[k].grain < 1) return false;
  const ProgKernel *x = &p->kernel[k];
  return x->nptr == pointers && x->nslot == slots && x->nnum == 0;
}

// Sets the kernels of the parts of one collective. Returns false if they are none that carry it
// out.
static bool set_kernels(const Program *p, const GpuLaunches *l, uint32_t n, PartPlan *plan,
                        const GpuPartKernels *from) {
  for (uint32_t i = 0; i < n; i++) {
    PartPlan *x = &plan[i];
    int64_t slots = x->nloops + x->from_moves + x->to_moves;
    if (x->nloops == 0) continue; // nothing moves
    if (!is_kernel(p, l, from[i].first, x->sources + x->results, slots) ||
        !is_kernel(p, l, from[i].second, x->sources + x->least_results, slots))
      return false;
    x->kernel = from[i].first;
    x->least_kernel = from[i].second;
  }
  return true;
}

// The same of messages between GPUs.
static bool set_messages(const Program *p, const GpuLaunches *l, uint32_t n, MessagePart *part,
                         const GpuPartKernels *from) {
  for (uint32_t i = 0; i < n; i++) {
    PartPlan *pack = &part[i].pack, *unpack = &part[i].unpack;
    if (!part[i].moves) continue;
    if (!is_kernel(p, l, from[i].first, pack->sources + 1,
                   pack->nloops + pack->from_moves + pack->to_moves) ||
        !is_kernel(p, l, from[i].second, unpack->sources + 1,
                   unpack->nloops + unpack->from_moves + unpack->to_moves))
      return false;
    pack->kernel = from[i].first;
    unpack->kernel = from[i].second;
  }
  return true;
}

// Makes the plans of all collectives. each: the processors of this GPU; 0: it has all. Returns
// false if the launches do not fit the program.
static bool make_plans(Arena *a, const Program *p, const GpuLaunches *l, int64_t each,
                       GpuParts *out) {
  PartPlan **local = arena_array(a, PartPlan *, p->ninstrs + 1);
  MessagePart **messages = each ? arena_array(a, MessagePart *, p->ninstrs + 1) : NULL;
  uint32_t used = 0;
  out->transfers = local;
  out->messages = messages;
  out->join = l->join;
  if ((l->join != NULL) != (each > 0)) return false;
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    const Collective *w = &p->instr[i].u.collective;
    const GpuPartKernels *from = l->part + used;
    if (p->instr[i].kind != INSTR_COLLECTIVE) continue;
    if (w->nparts > l->nparts - used) return false;
    bool apart = each && devices_along(&p->mesh, group_axes(w), each) > 1;
    if (apart)
      messages[i] = message_plans(a, p, w, each);
    else
      local[i] = transfer_plans(a, p, w);
    if (!(apart ? set_messages(p, l, w->nparts, messages[i], from)
                : set_kernels(p, l, w->nparts, local[i], from)))
      return false;
    used += w->nparts;
  }
  return used == l->nparts;
}

// -- loading ------------------------------------------------------------------------------------

static bool read_launches(Arena *a, const Package *package, const Program *p, const char *file,
                          GpuParts *out, Diag *d) {
  GpuLaunches *l = arena_new_of(a, GpuLaunches);
  char why[PACK_WHY];
  size_t n;
  const char *bytes = file ? source_file(a, package->source, file, &n, d) : NULL;
  if (!bytes)
    return !file && package_damaged(package->source, PACKAGE_FILE, "names no launches", d);
  if (!pack_read(a, NULL, &pack_of_launches, bytes, n, d, l, why) || !launches_sound(l, p, why))
    return package_damaged(package->source, file, why, d);
  out->entry = l->entry;
  int64_t each = package->gpus > 1 ? mesh_size(&p->mesh) / package->gpus : 0;
  return make_plans(a, p, l, each, out) ||
         package_damaged(package->source, file, "has other kernels than its collectives", d);
}

static bool read_images(Arena *a, const Package *package, const json_t *list, GpuParts *out,
                        Diag *d) {
  GpuImage *image = arena_array(a, GpuImage, json_array_size(list) + 1);
  out->image = image;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    GpuImage *x = &image[out->nimages++];
    x->at = name ? source_file(a, package->source, name, &x->n, d) : NULL;
    if (!name) return package_damaged(package->source, PACKAGE_FILE, "has a broken image", d);
    if (!x->at) return false;
  }
  return true;
}

bool package_gpu_load(Arena *a, Package *package, PackageProgram *p, const json_t *files, Diag *d) {
  GpuParts parts = {0};
  const char *launches = json_string_value(json_object_get(files, "launches"));
  if (!read_launches(a, package, &p->program, launches, &parts, d) ||
      !read_images(a, package, json_object_get(files, "images"), &parts, d))
    return false;
  p->on_gpu = gpu_program_new(package->gpu, &p->program, &parts, d);
  return p->on_gpu != NULL;
}

Exec *package_exec(const PackageProgram *p, const ExecOptions *options, Diag *d) {
  ExecOptions with = *options;
  with.device = gpu_program_device(p->on_gpu);
  return exec_new(&p->program, &with, d);
}
