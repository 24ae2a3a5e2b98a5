// A preloaded module that makes the n-th allocation, thread or file operation of a program fail.
//
//   LD_PRELOAD=inject.so MESHC_INJECT=memory:17 meshc ...    the 17th allocation returns NULL
//   LD_PRELOAD=inject.so MESHC_INJECT=file:3+ meshc ...      file operations fail from the third on
//   LD_PRELOAD=inject.so MESHC_INJECT=load:5 meshc ...       the 5th allocation while a library is being loaded
//   LD_PRELOAD=inject.so MESHC_INJECT_COUNT=FILE meshc ...   appends to FILE, for every kind, its name and the
//                                                            numbers of those that have distinct call stacks
//
// Counting begins with main. MESHC_INJECT_RANK=R restricts it to rank R of meshc --np, L to its
// launcher. When a failure has been injected, the file MESHC_INJECT_FIRED names is created.
//
// Allocations and threads are interposed symbols. File operations are trapped system calls
// (seccomp, SIGSYS): stdio reaches the kernel without a symbol that can be interposed.
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <dlfcn.h>

#define EXPORTED __attribute__((visibility("default")))

typedef enum Kind {
  KIND_MEMORY,
  KIND_LOAD,
  KIND_THREAD,
  KIND_FILE,
  KIND_REMOVE,
  KIND_OUTPUT,
  KIND_COUNT
} Kind;
static const char *const kind_name[KIND_COUNT] = {"memory", "load",   "thread",
                                                  "file",   "remove", "output"};

enum { STACK = 12, SEEN = 1 << 16, LISTED = 1 << 15 };

static atomic_bool active;
static Kind wanted = KIND_COUNT;
static long number; // of the failure
static bool from_on, counting;
static atomic_long count[KIND_COUNT];
static _Thread_local bool inside;           // what this module does itself does not count
static _Thread_local int loading, starting; // calls of dlopen, of pthread_create

// -- counting -----------------------------------------------------------------------------------

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seen[SEEN];
static struct {
  Kind kind;
  long n;
} listed[LISTED];
static int nlisted;

static bool is_new(uint64_t hash) {
  for (uint64_t i = hash % SEEN, tries = 0; tries < SEEN; i = (i + 1) % SEEN, tries++) {
    if (seen[i] == hash) return false;
    if (seen[i] == 0) {
      seen[i] = hash;
      return true;
    }
  }
  return false;
}

static void list(Kind kind, long n, uint64_t hash) {
  pthread_mutex_lock(&lock);
  if (is_new(hash) && nlisted < LISTED) {
    listed[nlisted].kind = kind;
    listed[nlisted++].n = n;
  }
  pthread_mutex_unlock(&lock);
}

static uint64_t stack_hash(Kind kind) {
  void *at[STACK];
  int depth = backtrace(at, STACK);
  uint64_t hash = 14695981039346656037u + (uint64_t)kind;
  for (int i = 0; i < depth; i++) hash = (hash ^ (uint64_t)(uintptr_t)at[i]) * 1099511628211u;
  return hash | 1;
}

static void say_fired(Kind kind, long n) {
  const char *path = getenv("MESHC_INJECT_FIRED");
  if (!path) return;
  int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) return;
  char text[64];
  int length = snprintf(text, sizeof text, "%s %ld\n", kind_name[kind], n);
  if (write(fd, text, (size_t)length) == length) close(fd);
}

// True if this operation is to fail.
static bool fails(Kind kind) {
  if (!atomic_load_explicit(&active, memory_order_relaxed) || inside) return false;
  inside = true;
  long n = atomic_fetch_add(&count[kind], 1) + 1;
  bool hit = kind == wanted && (from_on ? n >= number : n == number);
  if (counting)
    list(kind, n, kind == KIND_LOAD ? 2 * (uint64_t)n : stack_hash(kind)); // all of the loader's
  if (hit && n == number) say_fired(kind, n);
  inside = false;
  return hit;
}

static void write_counts(void) {
  const char *path = getenv("MESHC_INJECT_COUNT");
  atomic_store(&active, false);
  FILE *out = fopen(path, "a");
  for (int i = 0; out && i < nlisted; i++)
    fprintf(out, "%s %ld\n", kind_name[listed[i].kind], listed[i].n);
  if (out) fclose(out);
}

// -- memory and threads -------------------------------------------------------------------------

EXPORTED void *__libc_malloc(size_t n);
EXPORTED void *__libc_calloc(size_t n, size_t size);
EXPORTED void *__libc_realloc(void *p, size_t n);
EXPORTED void *__libc_memalign(size_t alignment, size_t n);

// The loader's code. When a thread first uses a library that was opened at run time, the loader
// allocates the thread's variables of the library, and ends the process if it cannot: nothing that
// a program could handle.
static uintptr_t loader_from, loader_to;

static int find_loader(struct dl_phdr_info *object, size_t size, void *base) {
  (void)size;
  if (object->dlpi_addr != *(const uintptr_t *)base) return 0;
  loader_from = object->dlpi_addr;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    uintptr_t end = loader_from + part->p_vaddr + part->p_memsz;
    if (part->p_type == PT_LOAD && end > loader_to) loader_to = end;
  }
  return 1;
}

static bool is_loaders(const void *caller) {
  uintptr_t at = (uintptr_t)caller;
  return at >= loader_from && at < loader_to && !loading && !starting;
}

static bool is_refused(const void *caller) {
  if (is_loaders(caller)) return false;
  bool refused = loading > 0 && fails(KIND_LOAD);
  return fails(KIND_MEMORY) || refused;
}

static bool no_memory(const void *caller) {
  if (!is_refused(caller)) return false;
  errno = ENOMEM;
  return true;
}

#define CALLER __builtin_return_address(0)
EXPORTED void *malloc(size_t n) { return no_memory(CALLER) ? NULL : __libc_malloc(n); }
EXPORTED void *calloc(size_t n, size_t size) {
  return no_memory(CALLER) ? NULL : __libc_calloc(n, size);
}
EXPORTED void *realloc(void *p, size_t n) {
  return n && no_memory(CALLER) ? NULL : __libc_realloc(p, n);
}
EXPORTED void *memalign(size_t a, size_t n) {
  return no_memory(CALLER) ? NULL : __libc_memalign(a, n);
}
EXPORTED void *aligned_alloc(size_t a, size_t n) {
  return no_memory(CALLER) ? NULL : __libc_memalign(a, n);
}
EXPORTED int posix_memalign(void **out, size_t a, size_t n) {
  if (is_refused(CALLER)) return ENOMEM;
  *out = __libc_memalign(a, n);
  return *out ? 0 : ENOMEM;
}
EXPORTED void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) {
  if (no_memory(CALLER)) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset); // NOLINT
}

typedef int Create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
EXPORTED int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
                            void *arg) {
  static _Atomic(Create *) real;
  if (fails(KIND_THREAD)) return EAGAIN;
  Create *f = atomic_load(&real);
  if (!f) {
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&f, &symbol, sizeof f);
    atomic_store(&real, f);
  }
  starting++;
  int error = f(t, attr, run, arg);
  starting--;
  return error;
}

typedef void *Open(const char *, int);
EXPORTED void *dlopen(const char *path, int flags) {
  Open *f;
  void *symbol = dlsym(RTLD_NEXT, "dlopen");
  memcpy(&f, &symbol, sizeof f);
  loading++;
  void *library = f(path, flags);
  loading--;
  return library;
}

// -- file operations ----------------------------------------------------------------------------

enum { MARK = 0x6d657368 }; // sixth argument of what the handler lets pass

#if defined(__x86_64__)
#define ARG(u, k)                                                                                  \
  ((long)(u)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8}[k]])
#define RESULT(u) ((u)->uc_mcontext.gregs[REG_RAX])
#elif defined(__aarch64__)
#define ARG(u, k) ((long)(u)->uc_mcontext.regs[k])
#define RESULT(u) ((u)->uc_mcontext.regs[0])
#endif

static const int trapped[] = {
#ifdef SYS_open
    SYS_rename,    SYS_mkdir,    SYS_symlink,   SYS_unlink,    SYS_rmdir,     SYS_link,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_renameat2, SYS_mkdirat,  SYS_symlinkat, SYS_linkat,    SYS_unlinkat,  SYS_write,
    SYS_writev,    SYS_pwrite64, SYS_fsync,     SYS_fdatasync, SYS_ftruncate, SYS_fallocate};
enum { TRAPPED = sizeof trapped / sizeof *trapped };

static bool is_regular(int fd) {
  struct stat s;
  return fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_nlink > 0; // not one in memory
}

// The kind of a call, KIND_COUNT for those that are not of interest; *error: what it fails with.
static Kind kind_of(int call, const ucontext_t *u, int *error) {
  *error = ENOSPC;
  switch (call) {
#ifdef SYS_open
  case SYS_unlink:
  case SYS_rmdir:
#endif
  case SYS_unlinkat: *error = EIO; return KIND_REMOVE;
  case SYS_write:
  case SYS_writev:
    if (ARG(u, 0) == STDOUT_FILENO) return KIND_OUTPUT;
    if (ARG(u, 0) == STDERR_FILENO || !is_regular((int)ARG(u, 0))) return KIND_COUNT;
    return KIND_FILE;
  case SYS_ftruncate: return is_regular((int)ARG(u, 0)) ? KIND_FILE : KIND_COUNT;
  case SYS_fsync:
  case SYS_fdatasync: *error = EIO; return KIND_FILE;
  }
  return KIND_FILE;
}

static void handle(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *u = context;
  int before = errno, error;
  Kind kind = kind_of(info->si_syscall, u, &error);
  if (kind < KIND_COUNT && fails(kind)) {
    RESULT(u) = -error;
  } else {
    long got = syscall(info->si_syscall, ARG(u, 0), ARG(u, 1), ARG(u, 2), ARG(u, 3), ARG(u, 4),
                       (long)MARK);
    RESULT(u) = got < 0 ? -errno : got;
  }
  errno = before;
}

// The handler needs its signal.
typedef int SetMask(int, const sigset_t *, sigset_t *);
static int set_mask(const char *name, int how, const sigset_t *set, sigset_t *old) {
  SetMask *f;
  void *symbol = dlsym(RTLD_NEXT, name);
  memcpy(&f, &symbol, sizeof f);
  sigset_t less;
  if (set) {
    less = *set;
    if (how != SIG_UNBLOCK) sigdelset(&less, SIGSYS);
  }
  return f(how, set ? &less : NULL, old);
}
EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) {
  return set_mask("pthread_sigmask", how, set, old);
}
EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old) {
  return set_mask("sigprocmask", how, set, old);
}

#define STEP(...) filter[n++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field) STEP(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
#define TEST(how, k, yes, no)                                                                      \
  STEP(BPF_JUMP(BPF_JMP | (how) | BPF_K, (unsigned)(k), (unsigned char)(yes), (unsigned char)(no)))
#define END(what) STEP(BPF_STMT(BPF_RET | BPF_K, what))

// A program that is started later begins with this filter and without the handler: what a loader
// does must pass, which opens files and makes none.
static bool trap_calls(void) {
  struct sock_filter filter[TRAPPED + 24];
  unsigned short n = 0;
  LOAD(args[5]);
  TEST(BPF_JEQ, MARK, 0, 1);
  END(SECCOMP_RET_ALLOW);
  LOAD(nr);
#ifdef SYS_open
  TEST(BPF_JEQ, SYS_open, 0, 4);
  LOAD(args[1]);
  TEST(BPF_JSET, O_CREAT, 0, 1);
  END(SECCOMP_RET_TRAP);
  END(SECCOMP_RET_ALLOW);
#endif
  TEST(BPF_JEQ, SYS_openat, 0, 4);
  LOAD(args[2]);
  TEST(BPF_JSET, O_CREAT, 0, 1);
  END(SECCOMP_RET_TRAP);
  END(SECCOMP_RET_ALLOW);
  for (int i = 0; i < TRAPPED; i++) TEST(BPF_JEQ, trapped[i], TRAPPED - i, 0);
  END(SECCOMP_RET_ALLOW);
  END(SECCOMP_RET_TRAP);
  const struct sock_fprog program = {n, filter};
  struct sigaction action = {.sa_sigaction = handle,
                             .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
  return sigaction(SIGSYS, &action, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// -- the start ----------------------------------------------------------------------------------

// Whether this process is the one that MESHC_INJECT_RANK names.
static bool is_meant(void) {
  const char *which = getenv("MESHC_INJECT_RANK"), *rank = getenv("MESHC_RANK");
  if (!which) return true;
  return *which == 'L' ? !rank : rank && atoi(rank) == atoi(which);
}

static void start(void) {
  const char *inject = getenv("MESHC_INJECT"), *colon = inject ? strchr(inject, ':') : NULL;
  char *end;
  void *warm[1];
  inside = true;
  counting = getenv("MESHC_INJECT_COUNT") != NULL;
  for (int k = 0; colon && k < KIND_COUNT; k++)
    if (strncmp(inject, kind_name[k], (size_t)(colon - inject)) == 0) wanted = (Kind)k;
  if (colon) {
    number = strtol(colon + 1, &end, 10);
    from_on = *end == '+';
  }
  bool traps = counting || wanted >= KIND_FILE ||
               getenv("MESHC_RANK"); // its parent's filter holds for a rank
  if (traps && !trap_calls() && !counting) {
    static const char text[] = "inject: system calls cannot be trapped here\n";
    _exit(write(STDERR_FILENO, text, sizeof text - 1) < 0 ? 98 : 99);
  }
  (void)backtrace(warm, 1); // loads what it needs
  if (counting) atexit(write_counts);
  inside = false;
  uintptr_t base = (uintptr_t)getauxval(AT_BASE);
  dl_iterate_phdr(find_loader, &base);
  atomic_store(&active, (counting || colon) && is_meant());
}

static int (*real_main)(int, char **, char **);
static int own_main(int argc, char **argv, char **envp) {
  start();
  return real_main(argc, argv, envp);
}

typedef int StartMain(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                      void (*)(void), void *);
EXPORTED int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                               void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
                               void *stack);
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack) {
  StartMain *f;
  void *symbol = dlsym(RTLD_NEXT, "__libc_start_main");
  memcpy(&f, &symbol, sizeof f);
  real_main = main;
  return f(own_main, argc, argv, init, fini, rtld_fini, stack);
}
