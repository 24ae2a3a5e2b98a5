// Opens the GPU of this process: the driver, the GPU's context, and the stream in which everything
// runs. Of several ranks, each takes the GPU of its number on the machine.
#include "runtime/gpu/cublaslt.h"
#include "runtime/gpu/gpu_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool gpu_use(const Gpu *g, Diag *d) {
  return cuda_good(cuda.CtxSetCurrent(g->context), "cuCtxSetCurrent", d);
}

// Kernels need a GPU whose threads go on independently of the others of their warp
// (codegen/gpu/gpu_fault.c).
enum { LEAST_CAPABILITY = 70 };
enum { GRAPH_NODES = 20000 }; // more nodes in a graph take long to be captured and instantiated

static bool is_new_enough(const GpuFacts *f, Diag *d) {
  if (f->capability >= LEAST_CAPABILITY) return true;
  diag_error(d, DIAG_UNAVAILABLE, (Pos){0},
             "--device cuda: the GPU (%s) has compute capability %d.%d, and kernels need %d.%d",
             f->name, f->capability / 10, f->capability % 10, LEAST_CAPABILITY / 10,
             LEAST_CAPABILITY % 10);
  return diag_hint(d, "choose another GPU by CUDA_VISIBLE_DEVICES, or use --device cpu");
}

static bool read_attribute(const Gpu *g, CudaDeviceAttribute attribute, int *value, Diag *d) {
  return cuda_good(cuda.DeviceGetAttribute(value, attribute, g->device), "cuDeviceGetAttribute", d);
}

// Reads the most nodes of a graph, which the environment may set.
static bool read_nodes(int *nodes, Diag *d) {
  const char *text = getenv("MESHC_GPU_NODES");
  char *end;
  *nodes = GRAPH_NODES;
  if (!text || !*text) return true;
  errno = 0;
  long n = strtol(text, &end, 10);
  if (!*end && !errno && n > 0 && n <= INT_MAX) {
    *nodes = (int)n;
    return true;
  }
  diag_error(d, DIAG_USAGE, (Pos){0}, "the variable MESHC_GPU_NODES is '%s'", text);
  return diag_hint(d, "set it to the most operations of one graph, a number from 1 on");
}

static bool read_facts(Gpu *g, const LibraryFound *driver, Diag *d) {
  int major, minor;
  size_t bytes;
  bool good = cuda_good(cuda.DeviceGetName(g->name, (int)sizeof g->name - 1, g->device),
                        "cuDeviceGetName", d) &&
              cuda_good(cuda.DeviceTotalMem(&bytes, g->device), "cuDeviceTotalMem", d) &&
              read_attribute(g, CUDA_DEVICE_CAPABILITY_MAJOR, &major, d) &&
              read_attribute(g, CUDA_DEVICE_CAPABILITY_MINOR, &minor, d) &&
              read_attribute(g, CUDA_DEVICE_GRID_X, &g->limits.blocks_x, d) &&
              read_attribute(g, CUDA_DEVICE_GRID_Y, &g->limits.blocks_y, d);
  if (!good) return false;
  if (!read_nodes(&g->limits.nodes, d)) return false;
  g->facts = (GpuFacts){.name = g->name,
                        .capability = 10 * major + minor,
                        .memory = (int64_t)bytes,
                        .emulated = dlsym(driver->library, "meshc_emulator") != NULL};
  return is_new_enough(&g->facts, d);
}

// Refuses ranks that share a GPU, which only some versions of NCCL can. All ranks call it together.
static bool have_own_gpus(Ranks *r, CudaDevice device, Diag *d) {
  RankNote mine = {.what = NOTE_DEVICE};
  const RankNote *const *all;
  const char *shares = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  CudaUuid uuid;
  if (!cuda_good(cuda.DeviceGetUuid(&uuid, device), "cuDeviceGetUuid", d)) return false;
  memcpy(mine.data, &uuid, sizeof uuid);
  if (!ranks_meet(r, &mine, false, &all)) return ranks_lost(d);
  for (int i = 0; i < ranks_count(r) && !(shares && strcmp(shares, "1") == 0); i++) {
    bool here = i != ranks_rank(r) && ranks_is_local(r, i * ranks_processors(r));
    if (!here || memcmp(all[i]->data, mine.data, sizeof uuid) != 0) continue;
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "--device cuda: ranks %d and %d would share a GPU", i,
               ranks_rank(r));
    return diag_hint(d, "start one rank for each GPU; NCCL 2.30 and later also takes several with "
                        "NCCL_MULTI_RANK_GPU_ENABLE=1");
  }
  return true;
}

// ranks: as for gpu_open.
static bool open_device(Gpu *g, Ranks *ranks, Diag *d) {
  int n = 0;
  if (!cuda_good(cuda.DeviceGetCount(&n), "cuDeviceGetCount", d) ||
      !cuda_good(n > 0 ? CUDA_OK : CUDA_NO_DEVICE, "cuDeviceGetCount", d) ||
      !cuda_good(cuda.DeviceGet(&g->device, ranks ? ranks_local_index(ranks) % n : 0),
                 "cuDeviceGet", d) ||
      (ranks && !have_own_gpus(ranks, g->device, d)) ||
      !cuda_good(cuda.DevicePrimaryCtxRetain(&g->context, g->device), "cuDevicePrimaryCtxRetain",
                 d))
    return false;
  return gpu_use(g, d) &&
         cuda_good(cuda.StreamCreate(&g->stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate", d) &&
         cuda_good(cuda.StreamCreate(&g->copies, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate", d);
}

// Makes the stream of messages. Returns false after an error in d.
static bool make_beside(Gpu *g, Diag *d) {
  bool good =
      cuda_good(cuda.StreamCreate(&g->beside, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate", d) &&
      cuda_good(cuda.EventCreate(&g->fork, CUDA_EVENT_NO_TIMING), "cuEventCreate", d);
  for (int i = 0; i < GPU_MARKS && good; i++)
    good = cuda_good(cuda.EventCreate(&g->mark[i], CUDA_EVENT_NO_TIMING), "cuEventCreate", d);
  return good;
}

static void free_beside(Gpu *g) {
  for (int i = 0; i < GPU_MARKS; i++)
    if (g->mark[i]) (void)cuda.EventDestroy(g->mark[i]);
  if (g->fork) (void)cuda.EventDestroy(g->fork);
  if (g->beside) (void)cuda.StreamDestroy(g->beside);
}

Gpu *gpu_open(Ranks *ranks, Diag *d) {
  const LibraryFound *driver = cuda_open();
  if (!driver->library) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "--device cuda: %s", driver->why);
    return NULL;
  }
  Gpu *g = mem_zeroed(1, sizeof *g);
  bool good = open_device(g, ranks, d) && read_facts(g, driver, d);
  if (good && ranks) g->comms = gpu_comms_new(ranks, d);
  if (good && (!ranks || (g->comms && make_beside(g, d)))) return g;
  gpu_close(g, false);
  return NULL;
}

GpuProducts *gpu_products_of(Gpu *g, Diag *d) {
  if (!g->products) g->products = gpu_products_new(g->stream, d);
  return g->products;
}

void gpu_keep(Gpu *g, const GpuKeeper *keeper) {
  g->keeper = *keeper;
  g->keeper.folder = mem_text(keeper->folder);
}

static bool has_products(const Program *p) {
  for (uint32_t i = 0; i < p->ninstrs; i++)
    if (p->instr[i].kind == INSTR_GEMM) return true;
  return false;
}

bool gpu_tune(Gpu *g, const Program *p, Diag *d) {
  if (!has_products(p)) return true;
  GpuProducts *all = gpu_products_of(g, d);
  return all &&
         gpu_products_tune(all, g->keeper.folder ? &g->keeper : NULL, g->facts.name, g->comms, d);
}

uint32_t gpu_epilogues(Gpu *g) {
  if (!g->asked && cuda.CtxSetCurrent(g->context) == CUDA_OK)
    g->epilogues = gpu_products_epilogues();
  g->asked = true;
  return g->epilogues;
}

void gpu_close(Gpu *g, bool well) {
  if (!g) return;
  if (g->context) (void)cuda.CtxSetCurrent(g->context);
  if (g->comms && !well) gpu_comms_abort(g->comms);
  gpu_comms_free(g->comms);
  free_beside(g);
  gpu_products_free(g->products);
  if (g->stream) (void)cuda.StreamDestroy(g->stream);
  if (g->copies) (void)cuda.StreamDestroy(g->copies);
  if (g->context) (void)cuda.DevicePrimaryCtxRelease(g->device);
  free((char *)(uintptr_t)g->keeper.folder);
  free(g);
}

bool gpu_library_of_products(void) { return cublaslt_open()->library != NULL; }

const GpuFacts *gpu_facts(const Gpu *g) { return &g->facts; }
