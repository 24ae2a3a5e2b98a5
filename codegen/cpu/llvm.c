// LLVM: context, target machine, passes, output. In: kernels. Out: an object, assembly or IR text.
//
// The emitter writes explicit vector IR, so that few passes are needed: mem2reg turns accumulators
// into registers, early-cse merges equal addresses and splats, code generation does the rest.
#define _GNU_SOURCE
#include "codegen/cpu/llvm_internal.h"
#include "ir/program/image.h"

#include "codegen/cpu/host_internal.h"

#include <stdio.h>
#include <string.h>

#ifdef MESHC_HAVE_LLVM
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen/cpu/emit_internal.h"
#include "ir/base/guard.h"

static GuardOnce once;
static char *cpu, *features, *triple;
static const char *why_not; // why LLVM cannot be used; NULL: it can

// -- failed allocations -------------------------------------------------------------------------
//
// LLVM allocates by operator new and by malloc, and aborts if either fails. Two functions set a
// handler for this: one of the C++ library for operator new, one of LLVM for malloc, which is not
// in its C API. Both are found by their C++ names. If a symbol is missing, the program has no such
// handler, and LLVM aborts.

typedef void NewHandler(void);
typedef void BadAllocHandler(void *context, const char *why, bool crash_report);

// The handler of operator new that was set before on_new, the handler of meshc. In a process that
// uses meshc as a library, operator new may fail in code that is not LLVM's. on_new then calls this
// earlier handler or, if there is none, throws the exception of operator new.
static NewHandler *other_handler;
static void (*throw_bad_alloc)(void);

static void on_new(void) {
  const Failure f = {.text = "out of memory while compiling kernels"};
  guard_fail(&f);
  if (!process_owned() && other_handler)
    other_handler();
  else if (!process_owned() && throw_bad_alloc)
    throw_bad_alloc();
  else
    mem_exhausted(0);
}

static void on_bad_alloc(void *context, const char *why, bool crash_report) {
  (void)context, (void)why, (void)crash_report;
  mem_exhausted(0);
}

static void on_fatal_error(const char *why) { BUG("LLVM: %s", why); }

static void install_memory_handlers(void) {
  NewHandler *(*set_new_handler)(NewHandler *);
  void (*set_bad_alloc_handler)(BadAllocHandler *, void *);
  llvm_symbol("_ZSt17__throw_bad_allocv", &throw_bad_alloc, sizeof throw_bad_alloc);
  if (llvm_symbol("_ZSt15set_new_handlerPFvvE", &set_new_handler, sizeof set_new_handler))
    other_handler = set_new_handler(on_new);
  if (llvm_symbol("_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_", &set_bad_alloc_handler,
                  sizeof set_bad_alloc_handler))
    set_bad_alloc_handler(on_bad_alloc, NULL);
  LLVMInstallFatalErrorHandler(on_fatal_error);
}

// -- targets and passes -------------------------------------------------------------------------

static void start(void *unused) {
  (void)unused;
  why_not = llvm_open();
  if (why_not) return;
  install_memory_handlers();
  cpu = LLVMGetHostCPUName();
  features = LLVMGetHostCPUFeatures();
  triple = LLVMGetDefaultTargetTriple();
  if (!cpu || !features || !triple) mem_exhausted(0);
}

bool code_available(void) { return true; }

const char *code_version(void) { return "LLVM " LLVM_VERSION_STRING; }

// -- resident memory ----------------------------------------------------------------------------

static bool has_address(const struct dl_phdr_info *object, uintptr_t at) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    if (p->p_type == PT_LOAD && at - (object->dlpi_addr + p->p_vaddr) < p->p_memsz) return true;
  }
  return false;
}

// Unmaps the pages of those parts of an object that are never written, if it is the shared library
// of LLVM. Stops the iteration there.
static int drop_pages(struct dl_phdr_info *object, size_t bytes, void *context) {
  (void)bytes, (void)context;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (!has_address(object, (uintptr_t)llvm.ContextCreate)) return 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *p = &object->dlpi_phdr[i];
    uintptr_t from = object->dlpi_addr + p->p_vaddr, to = (from + p->p_memsz) / page * page;
    from = (from + page - 1) / page * page;
    if (p->p_type == PT_LOAD && !(p->p_flags & PF_W) && from < to)
      (void)madvise((void *)from, to - from, MADV_DONTNEED);
  }
  return 1;
}

void llvm_rest(void) {
  enum { MOST = 8 };
  static _Atomic int rests;
  if (llvm.ContextCreate && rests < MOST && rests++ < MOST) dl_iterate_phdr(drop_pages, NULL);
}

// Returns whether `word` is in a comma-separated list.
static bool listed(const char *list, const char *word) {
  size_t n = strlen(word);
  for (const char *p = list; p && (p = strstr(p, word)); p++)
    if ((p == list || p[-1] == ',') && (p[n] == ',' || p[n] == 0)) return true;
  return false;
}

static LLVMCodeGenOptLevel opt_level(const CodeOptions *t) {
  static const LLVMCodeGenOptLevel level[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess,
                                              LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
  return level[t->opt];
}

static bool has_feature(const CodeOptions *t, const char *name) {
  char with[32];
  snprintf(with, sizeof with, "+%s", name);
  return listed(features, with) && !listed(t->without, name);
}

// Returns the features of the host, followed by those of t->without, each with a minus: LLVM obeys
// the last mention of a feature. The caller frees the text.
static char *features_of(const CodeOptions *t) {
  const char *out = t->without ? t->without : "";
  size_t n = strlen(features) + 2 * strlen(out) + 3;
  char *text = mem_alloc(n);
  size_t at = (size_t)snprintf(text, n, "%s%s", features, *out ? ",-" : "");
  for (; *out; out++) {
    text[at++] = *out;
    if (*out == ',') text[at++] = '-';
  }
  text[at] = 0;
  return text;
}

// Registers a target of LLVM by calling its functions, which a library without it lacks.
static bool register_target(const char *name, char *why) {
  static const char *const part[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter"};
  for (size_t i = 0; i < countof(part); i++) {
    char symbol[80];
    void (*call)(void);
    snprintf(symbol, sizeof symbol, "LLVMInitialize%s%s", name, part[i]);
    if (!llvm_symbol(symbol, &call, sizeof call)) {
      snprintf(why, LLVM_WHY, "this library of LLVM has no target %s", name);
      return false;
    }
    call();
  }
  return true;
}

static LLVMTargetMachineRef other_machine(const CodeOptions *t, const LlvmTarget *other,
                                          char *why) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  LLVMTargetRef target;
  char *error = NULL;
  pthread_mutex_lock(&lock);
  bool ok = register_target(other->registers, why);
  pthread_mutex_unlock(&lock);
  if (!ok) return NULL;
  if (LLVMGetTargetFromTriple(other->triple, &target, &error)) {
    snprintf(why, LLVM_WHY, "%s", error);
    LLVMDisposeMessage(error);
    return NULL;
  }
  return LLVMCreateTargetMachine(target, other->triple, other->cpu, other->features, opt_level(t),
                                 LLVMRelocPIC, LLVMCodeModelDefault);
}

static LLVMTargetMachineRef machine_new(const CodeOptions *t, char *why) {
  const CodeLevel *level = code_level(t->level);
  if (level) {
    const LlvmTarget of = {level->registers, level->triple, level->cpu, ""};
    return other_machine(t, &of, why);
  }
  LLVMTargetRef target;
  char *error = NULL;
  if (LLVMGetTargetFromTriple(triple, &target, &error)) {
    snprintf(why, LLVM_WHY, "%s", error);
    LLVMDisposeMessage(error);
    return NULL;
  }
  char *used = features_of(t);
  bool far = code_is_instrumented(); // calls functions at any distance
  LLVMTargetMachineRef tm = LLVMCreateTargetMachine(target, triple, cpu, used, opt_level(t),
                                                    far ? LLVMRelocStatic : LLVMRelocPIC,
                                                    far ? LLVMCodeModelLarge : LLVMCodeModelSmall);
  free(used);
  return tm;
}

// Returns what the emitter must know of the target. On x86 fused multiply-add and f16 conversions
// are optional features; other 64-bit targets have both.
static EmitTarget emit_target(const CodeOptions *t) {
  const CodeLevel *level = code_level(t->level);
  if (level) return (EmitTarget){code_bits(t), level->fma, level->f16, t->opt};
  bool x86 = strncmp(triple, "x86_64", 6) == 0;
  return (EmitTarget){code_bits(t), !x86 || has_feature(t, "fma"), !x86 || has_feature(t, "f16c"),
                      t->opt};
}

static bool run_passes(LLVMModuleRef m, LLVMTargetMachineRef tm, const char *passes, char *why) {
  LLVMPassBuilderOptionsRef o = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(m, passes, tm, o);
  LLVMDisposePassBuilderOptions(o);
  if (!error) return true;
  char *text = LLVMGetErrorMessage(error);
  snprintf(why, LLVM_WHY, "%s", text);
  LLVMDisposeErrorMessage(text);
  return false;
}

// Has all functions of m tell the thread sanitizer what they load and store.
static bool instrument(LLVMModuleRef m, LLVMTargetMachineRef tm, char *why) {
  static const char mark[] = "sanitize_thread";
  unsigned kind = LLVMGetEnumAttributeKindForName(mark, sizeof mark - 1);
  LLVMAttributeRef asked = LLVMCreateEnumAttribute(LLVMGetModuleContext(m), kind, 0);
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex, asked);
  return run_passes(m, tm, "function(tsan)", why);
}

static bool verify(LLVMModuleRef m, char *why) {
#ifndef NDEBUG
  char *text = NULL;
  bool broken = LLVMVerifyModule(m, LLVMReturnStatusAction, &text);
  if (broken) snprintf(why, LLVM_WHY, "%s", text);
  LLVMDisposeMessage(text);
  return !broken;
#else
  (void)m;
  (void)why;
  return true;
#endif
}

static void take_copy(const char *at, size_t n, Bytes *out) {
  out->at = mem_alloc(n + 1);
  memcpy(out->at, at, n);
  out->at[n] = 0;
  out->n = n;
}

static bool output(LLVMModuleRef m, LLVMTargetMachineRef tm, LlvmForm form, Bytes *out, char *why) {
  if (form == LLVM_IR) {
    char *text = LLVMPrintModuleToString(m);
    take_copy(text, strlen(text), out);
    LLVMDisposeMessage(text);
    return true;
  }
  LLVMMemoryBufferRef buffer;
  char *error = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(
          tm, m, form == LLVM_OBJECT ? LLVMObjectFile : LLVMAssemblyFile, &error, &buffer)) {
    snprintf(why, LLVM_WHY, "%s", error);
    LLVMDisposeMessage(error);
    return false;
  }
  take_copy(LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer), out);
  LLVMDisposeMemoryBuffer(buffer);
  return true;
}

bool llvm_build(const CodeOptions *opt, const LlvmTarget *target, const char *passes,
                LlvmFill *fill, void *context, LlvmForm form, Bytes *out, char *why) {
  guard_once(&once, start, NULL);
  if (why_not) snprintf(why, LLVM_WHY, "%s", why_not);
  LLVMTargetMachineRef tm = why_not  ? NULL
                            : target ? other_machine(opt, target, why)
                                     : machine_new(opt, why);
  if (!tm) return false;
  LLVMContextRef ctx = LLVMContextCreate();
  LLVMModuleRef m = LLVMModuleCreateWithNameInContext("meshc", ctx);
  const CodeLevel *level = code_level(opt->level);
  LLVMSetTarget(m, target ? target->triple : level ? level->triple : triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(tm);
  LLVMSetModuleDataLayout(m, layout);
  LLVMDisposeTargetData(layout);
  EmitTarget t =
      target ? (EmitTarget){.fma = true, .f16 = true, .opt = opt->opt} : emit_target(opt);
  fill(m, &t, context);
  bool ok = verify(m, why) && run_passes(m, tm, passes, why);
  if (opt->opt > 0 && !target) freeze_addresses(m);
  ok = ok && (target || level || !code_is_instrumented() || instrument(m, tm, why));
  ok = ok && output(m, tm, form, out, why);
  LLVMDisposeModule(m);
  LLVMContextDispose(ctx);
  LLVMDisposeTargetMachine(tm);
  return ok;
}

// Kernels, and the symbols under which they are compiled.
typedef struct KernelList {
  const Kernel *const *kernel;
  const char *const *symbol;
  uint32_t n;
} KernelList;

static void add_kernels(LLVMModuleRef m, const EmitTarget *t, void *context) {
  const KernelList *l = context;
  for (uint32_t i = 0; i < l->n; i++) emit_kernel(m, l->kernel[i], l->symbol[i], t);
}

bool llvm_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                  const CodeOptions *opt, LlvmForm form, Bytes *out, char *why) {
  KernelList list = {k, symbol, n};
  const char *passes = opt->opt == 0 ? "function(mem2reg)" : "function(mem2reg,early-cse)";
  return llvm_build(opt, NULL, passes, add_kernels, &list, form, out, why);
}

#else

void llvm_rest(void) {}
bool code_available(void) { return false; }
const char *code_version(void) { return "none"; }

bool llvm_compile(const Kernel *const *k, const char *const *symbol, uint32_t n,
                  const CodeOptions *opt, LlvmForm form, Bytes *out, char *why) {
  (void)k, (void)symbol, (void)n, (void)opt, (void)form, (void)out;
  snprintf(why, LLVM_WHY, "this build has no LLVM");
  return false;
}
#endif
