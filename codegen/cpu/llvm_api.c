// Opens the shared library of LLVM and finds its functions (llvm_api_internal.h).
#include "codegen/cpu/llvm_api_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/library.h"

// Address space, in bytes, that the library and its constructors need.
enum { LIBRARY_BYTES = 192 << 20 };

LlvmApi llvm;
static void *library;

bool llvm_symbol(const char *name, void *out, size_t size) {
  void *at = library ? dlsym(library, name) : NULL;
  memcpy(out, &at, size); // ISO C has no cast from object to function pointers
  return at != NULL;
}

static const char *missing(const char *name) {
  static char why[200];
  snprintf(why, sizeof why, "the library of LLVM lacks %s", name);
  return why;
}

static const char *find_functions(void) {
#define LLVM(name)                                                                                 \
  if (!llvm_symbol("LLVM" #name, &llvm.name, sizeof llvm.name)) return missing("LLVM" #name);
#include "codegen/cpu/llvm.def"
#undef LLVM
  return NULL;
}

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

static const char *register_target(void) {
  static const char *const part[] = {TEXT_OF(LLVM_NATIVE_TARGETINFO), TEXT_OF(LLVM_NATIVE_TARGET),
                                     TEXT_OF(LLVM_NATIVE_TARGETMC),
                                     TEXT_OF(LLVM_NATIVE_ASMPRINTER)};
  for (size_t i = 0; i < countof(part); i++) {
    void (*call)(void);
    if (!llvm_symbol(part[i], &call, sizeof call)) return missing(part[i]);
    call();
  }
  return NULL;
}

const char *llvm_open(void) {
  static const char *const names[] = {MESHC_LLVM_LIBRARY, "libLLVM.so.19.1", "libLLVM-19.so"};
  for (size_t i = 0; i < countof(names) && !library; i++)
    library = library_open(names[i], RTLD_LAZY | RTLD_LOCAL, LIBRARY_BYTES);
  if (!library) return dlerror();
  const char *why = find_functions();
  return why ? why : register_target();
}
#endif
