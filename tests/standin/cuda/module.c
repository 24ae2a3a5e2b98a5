// Modules and functions of the stand-in of libcuda. An image is an ELF object with functions for
// the emulator (codegen/gpu/emulator.h), which is mapped into this process.
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/mem.h"
#include "ir/program/image.h"
#include "tests/standin/cuda/stream.h"

enum { SHARED_USUAL = 48 << 10 }; // bytes of shared memory of a function that asks for no more

struct CUmod_st {
  Handle handle;
  Image *image;
};
struct CUfunc_st {
  Handle handle;
  struct CUmod_st *module;
  EmulatedFunction *code;
  int shared; // the most bytes of dynamic shared memory
  char name[200];
};

// -- modules ------------------------------------------------------------------------------------

static void module_release(void *handle) { image_free(((struct CUmod_st *)handle)->image); }

// Returns the number of bytes of an ELF object: its sections and their table.
static size_t object_bytes(const char *at) {
  const Elf64_Ehdr *head = (const void *)at;
  const Elf64_Shdr *section = (const void *)(at + head->e_shoff);
  size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
  for (int i = 0; i < head->e_shnum; i++) {
    size_t behind = section[i].sh_offset + section[i].sh_size;
    if (section[i].sh_type != SHT_NOBITS && behind > end) end = behind;
  }
  return end;
}

// Returns whether an image begins as PTX does, with a comment or a directive.
static bool is_ptx(const char *bytes) {
  return !strncmp(bytes, "//", 2) || !strncmp(bytes, ".version", 8);
}

// Returns the image of an object, or NULL and a reason in `why`. PTX is a mistake of a test.
static Image *load(const char *bytes, char why[200]) {
  const Elf64_Ehdr *head = (const void *)bytes;
  const char *wrong = NULL;
  if (is_ptx(bytes))
    standin_fail("this libcuda runs only code for the emulator (GPU_EMULATED), not PTX");
  if (memcmp(bytes, ELFMAG, SELFMAG) != 0)
    wrong = "no ELF object";
  else if (head->e_type != ET_REL)
    wrong = "no relocatable ELF object, which code for the emulator is";
  if (!wrong) return image_load(bytes, object_bytes(bytes), why);
  snprintf(why, 200, "%s", wrong);
  return NULL;
}

// Writes text into the buffer for errors that the options name, if there is one.
static void report(const char *text, unsigned n, const CudaJitOption *option, void **value) {
  char *log = NULL;
  size_t bytes = 0;
  for (unsigned i = 0; i < n; i++) {
    if (option[i] == CUDA_JIT_ERRORS) log = value[i];
    if (option[i] == CUDA_JIT_ERRORS_BYTES) bytes = (size_t)(uintptr_t)value[i];
  }
  if (log) snprintf(log, bytes, "%s", text);
}

CudaResult cuModuleLoadDataEx(CudaModule *module, const void *image, unsigned n,
                              CudaJitOption *option, void **value) {
  BEGIN("cuModuleLoadDataEx");
  CudaResult r = current_context ? capture_disturbed() : CUDA_BAD_CONTEXT;
  if (r != CUDA_OK) END(r);
  char why[200];
  Image *loaded = load(image, why);
  if (!loaded) report(why, n, option, value);
  if (!loaded) END(CUDA_BAD_IMAGE);
  struct CUmod_st *m = handle_new(HANDLE_MODULE, sizeof *m, module_release);
  m->image = loaded;
  *module = m;
  END(CUDA_OK);
}

static void destroy_of(void *function, void *module) {
  if (((struct CUfunc_st *)function)->module == module) handle_destroy(function);
}

CudaResult cuModuleUnload(CudaModule module) {
  BEGIN("cuModuleUnload");
  handle_check(module, HANDLE_MODULE, state_call());
  handle_each(HANDLE_FUNCTION, destroy_of, module);
  handle_destroy(module);
  END(CUDA_OK);
}

CudaResult cuModuleGetFunction(CudaFunction *function, CudaModule module, const char *name) {
  BEGIN("cuModuleGetFunction");
  handle_check(module, HANDLE_MODULE, state_call());
  void *code = image_symbol(module->image, name);
  if (!code) END(CUDA_NOT_FOUND);
  struct CUfunc_st *f = handle_new(HANDLE_FUNCTION, sizeof *f, NULL);
  f->module = module;
  memcpy(&f->code, &code, sizeof code);
  f->shared = SHARED_USUAL;
  snprintf(f->name, sizeof f->name, "%s", name);
  *function = f;
  END(CUDA_OK);
}

CudaResult cuModuleGetGlobal_v2(CudaAddress *at, size_t *bytes, CudaModule module,
                                const char *name) {
  BEGIN("cuModuleGetGlobal");
  (void)at, (void)bytes, (void)name;
  handle_check(module, HANDLE_MODULE, state_call());
  END(CUDA_NOT_FOUND); // images for the emulator have functions only
}

// -- functions ----------------------------------------------------------------------------------

static struct CUfunc_st *function_of(CudaFunction f) {
  handle_check(f, HANDLE_FUNCTION, state_call());
  return f;
}

CudaResult cuFuncGetAttribute(int *value, CudaKernelAttribute attribute, CudaFunction function) {
  BEGIN("cuFuncGetAttribute");
  const struct CUfunc_st *f = function_of(function);
  *value = attribute == CUDA_KERNEL_BLOCK_THREADS          ? EMULATOR_THREADS
           : attribute == CUDA_KERNEL_REGISTERS            ? 32
           : attribute == CUDA_KERNEL_DYNAMIC_SHARED_BYTES ? f->shared
                                                           : 0;
  END(CUDA_OK);
}

CudaResult cuFuncSetAttribute(CudaFunction function, CudaKernelAttribute attribute, int value) {
  BEGIN("cuFuncSetAttribute");
  struct CUfunc_st *f = function_of(function);
  if (attribute != CUDA_KERNEL_DYNAMIC_SHARED_BYTES || value < 0 || value > state_shared_bytes())
    END(CUDA_BAD_VALUE);
  f->shared = value;
  END(CUDA_OK);
}

CudaResult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CudaFunction function,
                                                       int threads, size_t shared) {
  BEGIN("cuOccupancyMaxActiveBlocksPerMultiprocessor");
  function_of(function);
  if (threads < 1 || threads > EMULATOR_THREADS) END(CUDA_BAD_VALUE);
  size_t by_shared = shared ? (size_t)state_shared_bytes() / shared : 32, by_threads = 2048;
  by_threads /= (size_t)threads;
  *blocks = (int)(by_shared < by_threads ? by_shared : by_threads);
  END(CUDA_OK);
}

// -- launches -----------------------------------------------------------------------------------

typedef struct Launch {
  EmulatorLaunch launch;
  const struct CUfunc_st *function;
} Launch;

static void run_launch(void *argument) {
  Launch *l = argument;
  if (l->function->handle.destroyed)
    standin_fail("a graph launches %s, whose module was unloaded", l->function->name);
  l->launch.safe = state.self.safe;
  l->launch.order = state.self.order;
  l->launch.written = state.written;
  emulator_run(state.emulator, &l->launch);
}

// The parameters of all functions for the emulator; the emulator itself is the fifth.
static void set_parameters(EmulatorLaunch *l, void **argument) {
  memcpy(&l->table, argument[0], sizeof l->table);
  memcpy(&l->header, argument[1], sizeof l->header);
  memcpy(&l->nsets, argument[2], sizeof l->nsets);
  memcpy(&l->flags, argument[3], sizeof l->flags);
}

CudaResult cuLaunchKernel(CudaFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned threads_x, unsigned threads_y, unsigned threads_z,
                          unsigned shared, CudaStream stream, void **argument, void **extra) {
  BEGIN("cuLaunchKernel");
  struct CUfunc_st *f = function_of(function);
  if (!current_context) END(CUDA_BAD_CONTEXT);
  if (grid_z != 1 || threads_y != 1 || threads_z != 1 || !argument || extra)
    standin_fail(
        "cuLaunchKernel of %s: the emulator has blocks of one dim, grids of two, and takes "
        "parameters by `argument`",
        f->name);
  if (grid_x == 0 || grid_x > INT32_MAX || grid_y == 0 || grid_y > 65535 || threads_x == 0 ||
      threads_x > EMULATOR_THREADS || shared > (unsigned)f->shared)
    END(CUDA_BAD_VALUE);
  Launch l = {.function = f};
  l.launch = (EmulatorLaunch){.name = f->name,
                              .function = f->code,
                              .blocks_x = grid_x,
                              .blocks_y = grid_y,
                              .threads = (int)threads_x,
                              .shared = (int)shared};
  set_parameters(&l.launch, argument);
  char name[64];
  snprintf(name, sizeof name, "launch of %.50s", f->name);
  Work w = work_new(name, NULL, 0, run_launch, &l, sizeof l);
  w.launches = true;
  END(stream_enqueue(stream, w));
}
