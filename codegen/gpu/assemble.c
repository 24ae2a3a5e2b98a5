// Assembles PTX by nvJitLink (assemble.h).
#include "codegen/gpu/assemble.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/nvjitlink.h"
#include "ir/base/mem.h"

// Address space, in bytes, that loading the library needs: version 13.0 has 94 MiB.
enum { LIBRARY_BYTES = 160 << 20 };

static NvJitLinkApi linker;
static LibraryOnce once;

static const LibraryFunction functions[] = {
#define NVJITLINK_FUNCTION(member, symbol, parameters) {#symbol, offsetof(NvJitLinkApi, member)},
#include "codegen/gpu/nvjitlink.def"
};
static const char *const files[] = {"libnvJitLink.so.13", "libnvJitLink.so.12", NULL};
static const LibrarySpec library = {
    .what = "nvJitLink, which assembles code for a GPU,",
    .file = files,
    .brings = "install it from the CUDA toolkit (NVIDIA's package for Debian: libnvjitlink-13-0)",
    .without = "without it the CUDA driver assembles at the start of each run",
    .toolkit = true,
    .room = LIBRARY_BYTES,
    .function = functions,
    .nfunctions = countof(functions),
};

const LibraryFound *assembler_open(int *version) {
  unsigned major = 0, minor = 0;
  const LibraryFound *found = library_fill_once(&library, &linker, &once);
  bool told = found->library && linker.Version(&major, &minor) == NVJITLINK_OK;
  if (version) *version = told ? (int)(1000 * major + minor) : 0;
  return found;
}

// -- one text -------------------------------------------------------------------------------------

typedef struct Assembly {
  NvJitLinkHandle linker;
  const char *name;
  Diag *diag;
} Assembly;

// Returns the log of the library about errors, which the caller frees, or NULL.
static char *error_log(const Assembly *a) {
  size_t bytes = 0;
  if (!a->linker || linker.GetErrorLogSize(a->linker, &bytes) != NVJITLINK_OK || bytes < 2)
    return NULL;
  char *log = mem_zeroed(bytes + 1, 1);
  if (linker.GetErrorLog(a->linker, log) == NVJITLINK_OK && log[0]) return log;
  free(log);
  return NULL;
}

// Returns whether a call has succeeded; otherwise reports it, with the log of the library.
static bool good(const Assembly *a, const char *call, NvJitLinkResult r) {
  enum { SHOWN = 600 }; // bytes of the log in a message
  if (r == NVJITLINK_OK) return true;
  char *log = error_log(a);
  diag_error(a->diag, DIAG_FAILURE, (Pos){0},
             "%s cannot be assembled for the GPU: %s gives error %d%s%.*s", a->name, call, (int)r,
             log ? ": " : "", SHOWN, log ? log : "");
  free(log);
  return false;
}

// The GPUs for which the library assembles, and its first version that does. The library crashes if
// it is asked for one that it does not know.
static const struct {
  const char *gpu;
  int version; // as assembler_open gives it
} known[] = {{"sm_80", 12000},  {"sm_86", 12000},  {"sm_87", 12000},  {"sm_89", 12000},
             {"sm_90", 12000},  {"sm_90a", 12000}, {"sm_100", 12008}, {"sm_100a", 12008},
             {"sm_120", 12008}, {"sm_120a", 12008}};

static bool is_known(const char *gpu, int version) {
  for (size_t i = 0; i < countof(known); i++)
    if (strcmp(known[i].gpu, gpu) == 0) return version >= known[i].version;
  return false;
}

bool assembler_knows(const char *gpu) {
  int version;
  return assembler_open(&version)->library && is_known(gpu, version);
}

// Returns whether the library can be used for a GPU; otherwise reports an error.
static bool can_assemble(const char *gpu, Diag *d) {
  int version;
  if (!assembler_open(&version)->library)
    return diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "%s", once.found.why);
  if (is_known(gpu, version)) return true;
  diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "nvJitLink %d.%d does not assemble for %s",
             version / 1000, version % 1000, gpu);
  return diag_hint(d, "install a later CUDA toolkit, or let the CUDA driver assemble");
}

static void *copy_code(const Assembly *a, size_t *bytes) {
  if (!good(a, "nvJitLinkGetLinkedCubinSize", linker.GetLinkedCubinSize(a->linker, bytes)))
    return NULL;
  void *code = mem_zeroed(*bytes + 1, 1);
  if (good(a, "nvJitLinkGetLinkedCubin", linker.GetLinkedCubin(a->linker, code))) return code;
  free(code);
  return NULL;
}

void *assemble_ptx(const char *ptx, const char *name, const char *gpu, size_t *bytes, Diag *d) {
  Assembly a = {.name = name, .diag = d};
  char target[32];
  const char *option[] = {target};
  void *code = NULL;
  if (!can_assemble(gpu, d)) return NULL;
  snprintf(target, sizeof target, "-arch=%s", gpu);
  if (good(&a, "nvJitLinkCreate", linker.Create(&a.linker, countof(option), option)) &&
      good(&a, "nvJitLinkAddData",
           linker.AddData(a.linker, NVJITLINK_PTX, ptx, strlen(ptx) + 1, name)) &&
      good(&a, "nvJitLinkComplete", linker.Complete(a.linker)))
    code = copy_code(&a, bytes);
  if (a.linker) linker.Destroy(&a.linker);
  return code;
}
