// Guards: where a failed allocation or a broken invariant returns to in a library.
#include "ir/base/guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>

#include "ir/base/arena.h"
#include "ir/base/unfinished.h"

typedef struct Guard Guard;
struct Guard {
  jmp_buf at;
  Guard *outer;
  Failure *failure;
  MemTask task; // that the thread was at
};

static atomic_bool owned;
static _Thread_local Guard *innermost;
static _Thread_local GuardLink *arenas; // made under the outermost guard

void process_own(void) { atomic_store(&owned, true); }
bool process_owned(void) { return atomic_load(&owned); }

void guard_link(GuardLink *link) {
  if (!innermost) return;
  *link = (GuardLink){.next = arenas, .at = &arenas};
  if (arenas) arenas->at = &link->next;
  arenas = link;
}

void guard_unlink(GuardLink *link) {
  if (!link->at) return;
  *link->at = link->next;
  if (link->next) link->next->at = link->at;
  link->at = NULL;
}

// At the end of the outermost guard: after a failure nothing of what it made is kept.
static void release(bool good) {
  while (arenas) {
    GuardLink *link = arenas;
    guard_unlink(link);
    if (!good) arena_free((Arena *)link); // the link is its first member
  }
  if (!good) unfinished_abandon();
}

bool guard_run(GuardedWork *work, void *context, Failure *out) {
  Guard g = {.outer = innermost, .failure = out};
  volatile bool good = false;
  if (process_owned()) {
    work(context);
    return true;
  }
  g.task = mem_doing(NULL, NULL);
  innermost = &g;
  if (setjmp(g.at) == 0) {
    work(context);
    good = true;
  }
  innermost = g.outer;
  mem_doing_restore(g.task);
  if (!innermost) release(good);
  return good;
}

void guard_fail(const Failure *f) {
  Guard *g = innermost;
  if (!g) return;
  if (g->failure != f) *g->failure = *f;
  longjmp(g->at, 1);
}

_Noreturn void guard_raise(const Failure *f) {
  guard_fail(f);
  if (f->internal) BUG("%s", f->text);
  mem_exhausted(0);
}

// -- once ---------------------------------------------------------------------------------------

static void call(void *work) {
  void (*function)(void);
  memcpy(&function, work, sizeof function);
  function();
}

// The lock is not held by a failure that jumps: the work runs under a guard of its own.
void guard_once(GuardOnce *once, void (*work)(void)) {
  static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  Failure why;
  if (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&gate);
  bool good = once->state || guard_run(call, &work, &why);
  if (good) __atomic_store_n(&once->state, 1, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&gate);
  if (!good) guard_raise(&why);
}
