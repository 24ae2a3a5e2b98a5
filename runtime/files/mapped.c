// Handles mapped files that shrink while they are read: the access to a page that the file no
// longer has raises SIGBUS. The handler finds the mapped range with that address, reports its file,
// and ends the process with exit code 5, as for a malformed file. A SIGBUS at any other address
// goes to the previous handler.
#include "ir/base/abrupt.h"
#include "ir/base/guard.h"
#include "runtime/runtime_internal.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { MOST_MAPPED = 64, MESSAGE = 1024 };

typedef struct MappedRange {
  atomic_bool taken;
  // the mapped addresses from..to-1; `from` is 0 while the entry is unused
  atomic_uintptr_t from, to;
  char message[MESSAGE];
} MappedRange;
static MappedRange range[MOST_MAPPED];
static struct sigaction before;
static atomic_bool ending;

// Reports the file of a mapped range and ends the process. Runs in the signal handler, so it calls
// only async-signal-safe functions. If several threads call it, the first one reports.
static void end_process(const MappedRange *r) {
  while (atomic_exchange(&ending, true)) pause();
  abrupt_say(DIAG_FILE_MALFORMED, r->message, "replace a file by renaming a complete one");
  _exit(EXIT_DATA);
}

static void on_fault(int number, siginfo_t *info, void *context) {
  uintptr_t at = (uintptr_t)info->si_addr;
  (void)context;
  for (int i = 0; i < MOST_MAPPED; i++) {
    uintptr_t from = atomic_load(&range[i].from);
    if (from && at >= from && at < atomic_load(&range[i].to)) end_process(&range[i]);
  }
  sigaction(number, &before, NULL); // the access is repeated and then calls the previous handler
}

// Installs the handler of SIGBUS, the signal for access to a lost part of a mapped file. Installs
// it again if a library has replaced it.
static void install(void) {
  struct sigaction action, now;
  if (sigaction(SIGBUS, NULL, &now) != 0 ||
      ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault))
    return;
  before = now;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, NULL);
}

bool mapped_add(const void *at, size_t n, const char *path) {
  // in a process that meshc does not own there is no handler, so no entry is used
  int i = process_owned() ? 0 : MOST_MAPPED;
  while (i < MOST_MAPPED && atomic_exchange(&range[i].taken, true)) i++;
  if (i == MOST_MAPPED) return false;
  MappedRange *r = &range[i];
  Arena *a = arena_new();
  snprintf(r->message, sizeof r->message,
           "%.800s became shorter while it was read, or its disk failed", text_shown(a, path));
  arena_free(a);
  atomic_store(&r->to, (uintptr_t)at + n);
  atomic_store(&r->from, (uintptr_t)at);
  install();
  return true;
}

void mapped_remove(const void *at) {
  for (int i = 0; i < MOST_MAPPED; i++) {
    if (atomic_load(&range[i].from) != (uintptr_t)at) continue;
    atomic_store(&range[i].from, 0);
    atomic_store(&range[i].taken, false);
    return;
  }
}
