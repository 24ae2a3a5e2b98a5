// Opens cuBLASLt (cublaslt.h).
#include "runtime/gpu/cublaslt.h"

// Address space, in bytes, that loading the library needs: version 13.1 has 520 MiB.
enum { LIBRARY_BYTES = 640 << 20 };

CublasLtApi cublaslt;
static LibraryOnce once;

static const LibraryFunction functions[] = {
#define CUBLASLT_FUNCTION(member, symbol, result, parameters)                                      \
  {#symbol, offsetof(CublasLtApi, member)},
#include "runtime/gpu/cublaslt.def"
};
static const char *const files[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
static const LibrarySpec library = {
    .what = "cuBLASLt, which multiplies matrices on a GPU,",
    .file = files,
    .brings = "install it from the CUDA toolkit (NVIDIA's package for Debian: libcublas-13-0)",
    .without = "generated kernels multiply without it",
    .toolkit = true,
    .room = LIBRARY_BYTES,
    .function = functions,
    .nfunctions = countof(functions),
};

const LibraryFound *cublaslt_open(void) { return library_fill_once(&library, &cublaslt, &once); }
