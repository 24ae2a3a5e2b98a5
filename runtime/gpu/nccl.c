// Opens NCCL (nccl.h).
#include "runtime/gpu/nccl.h"

// Address space, in bytes, that loading the library needs.
enum { LIBRARY_BYTES = 512 << 20 };

NcclApi nccl;
static LibraryOnce once;

static const LibraryFunction functions[] = {
#define NCCL_FUNCTION(member, symbol, result, parameters) {#symbol, offsetof(NcclApi, member)},
#include "runtime/gpu/nccl.def"
};
static const char *const files[] = {"libnccl.so.2", NULL};
static const LibrarySpec library = {
    .what = "NCCL",
    .file = files,
    .brings = "install it (NVIDIA's package for Debian: libnccl2)",
    .without = "one GPU needs none",
    .toolkit = true,
    .room = LIBRARY_BYTES,
    .function = functions,
    .nfunctions = countof(functions),
};

const LibraryFound *nccl_open(void) { return library_fill_once(&library, &nccl, &once); }
