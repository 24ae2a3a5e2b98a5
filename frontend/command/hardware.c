// Finds the hardware and libraries of a machine: vector instructions, GPUs, MPI, NCCL. Libraries
// are loaded in child processes, which ask them for devices and versions.
#define _GNU_SOURCE // pipe2
#include "frontend/command/hardware.h"
#include "runtime/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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

// Returns the names of the GPUs, or NULL if there are none. Uses the CUDA Driver API, sections
// Initialization and Device Management of its manual.
static const char *gpus_of(Arena *a) {
  static const char *const names[] = {"libcuda.so.1", "libcuda.so"};
  int (*init)(unsigned), (*count)(int *), (*name)(char *, int, int);
  void *library = open_first(2, names);
  const char *out = NULL;
  int n = 0;
  if (function_of(library, "cuInit", &init) && function_of(library, "cuDeviceGetCount", &count) &&
      function_of(library, "cuDeviceGetName", &name) && init(0) == 0 && count(&n) == 0)
    for (int i = 0; i < n; i++) {
      char text[128] = "";
      if (name(text, sizeof text - 1, i) != 0) continue;
      out = arena_printf(a, "%s%s%s", out ? out : "", out ? ", " : "", text);
    }
  return out; // the library is not closed: unloading a GPU driver is not safe
}

static const char *mpi_of(Arena *a) {
  static const char *const names[] = {"libmpi.so.40", "libmpi.so.12", "libmpi.so"};
  enum { ROOM = 8192 }; // at least MPI_MAX_LIBRARY_VERSION_STRING of every implementation
  int (*version)(char *, int *), n = 0;
  char text[ROOM] = "";
  void *library = open_first(3, names);
  if (!function_of(library, "MPI_Get_library_version", &version)) return NULL;
  if (version(text, &n) != 0 || !*text) return "a library of unknown version";
  return arena_text(a, text, strcspn(text, ",\n"));
}

static const char *nccl_of(Arena *a) {
  static const char *const names[] = {"libnccl.so.2", "libnccl.so"};
  int (*version)(int *), n = 0;
  void *library = open_first(2, names);
  if (!function_of(library, "ncclGetVersion", &version) || version(&n) != 0) return NULL;
  return arena_printf(a, "%d.%d.%d", n / 10000, n / 100 % 100, n % 100);
}

typedef const char *Ask(Arena *a);

static _Noreturn void answer(int to, Ask *ask, Arena *a) {
  int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nothing >= 0) dup2(nothing, STDERR_FILENO);
  mem_set_handler(NULL); // the handler removes unfinished files, which belong to the parent
  const char *text = ask(a);
  size_t n = text ? strlen(text) : 0;
  _exit(n > 0 && write(to, text, n) == (ssize_t)n ? 0 : 1);
}

// Returns the result of `ask`, run in a child process, or NULL. A library that cannot start or
// crashes counts as missing.
static const char *ask_apart(Arena *a, Ask *ask) {
  enum { ROOM = 8192 };
  char text[ROOM];
  size_t n = 0;
  int end[2], status;
  if (pipe2(end, O_CLOEXEC) != 0) return NULL;
  pid_t pid = fork();
  if (pid == 0) answer(end[1], ask, a);
  close(end[1]);
  for (ssize_t got; pid > 0 && (got = read(end[0], text + n, sizeof text - n)) != 0;)
    if (got > 0)
      n += (size_t)got;
    else if (errno != EINTR)
      break;
  close(end[0]);
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) return NULL;
  return arena_text(a, text, n);
}

Hardware hardware_find(Arena *a) {
  return (Hardware){.simd = simd_of(a),
                    .gpus = ask_apart(a, gpus_of),
                    .mpi = ask_apart(a, mpi_of),
                    .nccl = ask_apart(a, nccl_of),
                    .memory = memory_free_bytes()};
}
