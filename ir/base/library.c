// Opens shared libraries when memory may be exhausted.
//
// dlopen can fail in three ways without memory. The loader's own allocations fail: dlopen returns
// NULL with ENOMEM. A constructor exits (libgfortran). A constructor crashes: libgfortran allocates
// in its exit path, which recurses until the stack ends, and OpenBLAS reads through NULL. After an
// exit or a crash meshc calls the handler of failed allocations (ir/base/mem.h), which ends the
// process with a message. In a process that is not meshc's own (process_own) no signal handler is
// installed.
#define _GNU_SOURCE
#include "ir/base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ir/base/guard.h"
#include "ir/base/mem.h"

enum { STACK = 64 << 10 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool opening;

static bool is_room(size_t bytes) {
  void *trial = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return trial != MAP_FAILED && munmap(trial, bytes) == 0;
}

// -- constructors that exit or crash ------------------------------------------------------------

static const int minded[] = {SIGSEGV, SIGABRT};
static struct sigaction before[countof(minded)];

static void exited(void) {
  if (opening) mem_exhausted(0);
}

// Handles a crash signal. If this thread is opening a library, reports that memory is exhausted. A
// crash of another thread has another cause. The function then restores the previous action and
// returns; the thread repeats the instruction, and the previous action handles the crash.
static void crashed(int number) {
  if (opening) mem_exhausted(0);
  for (size_t i = 0; i < countof(minded); i++)
    if (minded[i] == number) sigaction(number, &before[i], NULL);
}

// Installs the signal handler for the time of a dlopen. The handler has a stack of its own, because
// an endless recursion uses up the stack of the thread.
static void watch_begin(stack_t *stack_before) {
  if (!process_owned()) return;
  static char stack[STACK];
  static bool at_exit;
  const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK | SA_NODEFER};
  sigemptyset(&action.sa_mask);
  if (!at_exit) at_exit = atexit(exited) == 0;
  sigaltstack(&own, stack_before);
  for (size_t i = 0; i < countof(minded); i++) sigaction(minded[i], &action, &before[i]);
  opening = true;
}

static void watch_end(const stack_t *stack_before) {
  if (!process_owned()) return;
  opening = false;
  for (size_t i = 0; i < countof(minded); i++) sigaction(minded[i], &before[i], NULL);
  sigaltstack(stack_before, NULL);
}

// -----------------------------------------------------------------------------------------------

void *library_open(const char *path, int flags, size_t room) {
  stack_t stack;
  MemTask task = mem_doing("loading", path);
  pthread_mutex_lock(&gate);
  bool fits = !room || is_room(room);
  if (!fits) pthread_mutex_unlock(&gate);
  if (!fits) mem_exhausted(room);
  watch_begin(&stack);
  errno = 0;
  void *library = dlopen(path, flags);
  int error = library ? 0 : errno;
  watch_end(&stack);
  pthread_mutex_unlock(&gate);
  mem_doing_restore(task);
  if (error == ENOMEM) mem_exhausted(0);
  return library;
}
