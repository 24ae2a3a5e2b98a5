// Finds the hardware and libraries of a machine: vector instructions, GPUs, MPI, NCCL. Libraries
// are loaded in child processes, which ask them for devices and versions.
#define _GNU_SOURCE // pipe2
#include "frontend/command/hardware.h"
#include "codegen/gpu/assemble.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *listed(Arena *a, const char *list, const char *name) {
  return list ? arena_printf(a, "%s %s", list, name) : name;
}

static const char *simd_of(Arena *a) {
  const char *out = NULL;
#if defined(__x86_64__)
#define FEATURE(name)                                                                              \
  if (__builtin_cpu_supports(name)) out = listed(a, out, name)
  FEATURE("avx512f");
  FEATURE("avx512bf16");
  FEATURE("avx512vnni");
  FEATURE("avx2");
  FEATURE("fma");
#undef FEATURE
  return out ? out : "sse2";
#elif defined(__aarch64__)
  return listed(a, out, "neon");
#else
  return listed(a, out, "none");
#endif
}

// Stores the address of a library's function in the function pointer at `out`. POSIX allows copying
// it from dlsym's result. Returns false if there is no such function.
static bool function_of(void *library, const char *name, void *out) {
  void *f = library ? dlsym(library, name) : NULL;
  memcpy(out, &f, sizeof f);
  return f != NULL;
}

static void *open_first(int n, const char *const *name) {
  void *library = NULL;
  for (int i = 0; i < n && !library; i++) library = dlopen(name[i], RTLD_LAZY | RTLD_LOCAL);
  return library;
}

enum { MPI_TEXT = 128 };

// Writes the first words of what the library of MPI says of itself to `answer`, MPI_TEXT bytes.
static void ask_mpi(void *answer) {
  static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpi.so"};
  enum { ROOM = 8192 }; // at least MPI_MAX_LIBRARY_VERSION_STRING of every implementation
  int (*version)(char *, int *), n = 0;
  char text[ROOM] = "";
  void *library = open_first(3, names);
  if (!function_of(library, "MPI_Get_library_version", &version)) return;
  bool told = version(text, &n) == 0 && *text;
  snprintf(answer, MPI_TEXT, "%.*s", told ? (int)strcspn(text, ",\n") : MPI_TEXT,
           told ? text : "a library of unknown version");
}

// The library that assembles code for GPUs belongs to the compiler.
static void ask_assembler(void *answer) {
  int version;
  char text[32];
  const LibraryFound *found = assembler_open(&version);
  snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000);
  library_facts(found, text, answer);
}

static void ask_gpus(void *answer) { gpu_survey(answer); }
static void ask_cublaslt(void *answer) { cublaslt_survey(answer); }
static void ask_nccl(void *answer) { nccl_survey(answer); }

// -- a process for each question -------------------------------------------------------------------

typedef void Ask(void *answer);

static _Noreturn void answer_to(int to, Ask *ask, void *answer, size_t bytes) {
  int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDERR_FILENO);
  mem_set_handler(NULL); // the handler removes unfinished files, which belong to the parent
  ask(answer);
  _exit(write(to, answer, bytes) == (ssize_t)bytes ? 0 : 1); // less than a pipe holds
}

// Calls `ask`, which writes `bytes` bytes of plain data to `answer`, in a child process. A library
// that cannot start or crashes counts as missing: then the answer is all zeros, and the result
// false.
static bool ask_apart(Ask *ask, void *answer, size_t bytes) {
  size_t n = 0;
  int end[2], status;
  memset(answer, 0, bytes);
  if (pipe2(end, O_CLOEXEC) != 0) return false;
  pid_t pid = fork();
  if (pid == 0) answer_to(end[1], ask, answer, bytes);
  close(end[1]);
  for (ssize_t got; pid > 0 && (got = read(end[0], (char *)answer + n, bytes - n)) != 0;)
    if (got > 0)
      n += (size_t)got;
    else if (errno != EINTR)
      break;
  close(end[0]);
  bool good = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && n == bytes;
  if (!good) memset(answer, 0, bytes);
  return good;
}

static const char failed[] = "it cannot be used: the process that tried to open it has failed";

static void ask_library(Ask *ask, LibraryFacts *out) {
  if (!ask_apart(ask, out, sizeof *out)) snprintf(out->why, sizeof out->why, "%s", failed);
}

Hardware hardware_find(Arena *a) {
  Hardware out = {.simd = simd_of(a), .memory = memory_free_bytes()};
  char mpi[MPI_TEXT];
  if (ask_apart(ask_mpi, mpi, sizeof mpi) && mpi[0]) out.mpi = arena_text(a, mpi, strlen(mpi));
  if (!ask_apart(ask_gpus, &out.gpus, sizeof out.gpus))
    snprintf(out.gpus.driver.why, sizeof out.gpus.driver.why, "%s", failed);
  ask_library(ask_cublaslt, &out.cublaslt);
  ask_library(ask_assembler, &out.nvjitlink);
  ask_library(ask_nccl, &out.nccl);
  return out;
}
