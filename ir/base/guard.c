// Guards: points in the code of a library to which a failed allocation or a broken invariant
// returns (guard.h).
#define _GNU_SOURCE // for uselocale
#include "ir/base/guard.h"

#include <locale.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "ir/base/arena.h"
#include "ir/base/unfinished.h"

typedef struct Guard Guard;
struct Guard {
  jmp_buf at;
  Guard *outer;
  Failure *failure;
  MemTask task; // what mem_doing had set before the guard
  locale_t locale;
};

static atomic_bool owned;
static _Thread_local Guard *innermost;
static _Thread_local GuardLink *arenas; // list of the arenas made under the outermost guard

void process_own(void) {
  atomic_store(&owned, true);
  signal(SIGXFSZ, SIG_IGN); // a write beyond `ulimit -f` then fails as one to a full disk does
}

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

// Ends the outermost guard of this thread (the point to which a failure jumps back). After a
// failure it frees the arenas made under the guard and removes the files that this thread left
// unfinished.
static void release(bool good) {
  while (arenas) {
    GuardLink *link = arenas;
    guard_unlink(link);
    if (!good) arena_free((Arena *)link); // the link is the first member of the arena
  }
  if (!good) unfinished_abandon();
}

// Returns a "C" locale, in which numbers have one form whatever the locale of the process. Returns
// 0 if memory is exhausted.
static locale_t c_locale(void) {
  static _Atomic(locale_t) made;
  locale_t none = (locale_t)0, l = atomic_load(&made);
  if (l) return l;
  l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!l || atomic_compare_exchange_strong(&made, &none, l)) return l;
  freelocale(l);
  return none;
}

bool guard_run(GuardedWork *work, void *context, Failure *out) {
  Guard g = {.outer = innermost, .failure = out};
  volatile bool good = false;
  if (process_owned()) {
    work(context);
    return true;
  }
  g.task = mem_doing(NULL, NULL);
  g.locale = uselocale(c_locale());
  innermost = &g;
  if (setjmp(g.at) == 0) {
    work(context);
    good = true;
  }
  innermost = g.outer;
  mem_doing_restore(g.task);
  uselocale(g.locale);
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

enum { ONCE_OPEN, ONCE_RUNS, ONCE_DONE }; // GuardOnce.state
static _Thread_local GuardOnce *running;  // the innermost one whose work this thread runs

// The lock is held only to change states, not while a work runs. The work has its own guard, a
// point to which failures jump back, so that the state is always left.
void guard_once(GuardOnce *once, GuardedWork *work, void *context) {
  static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t left = PTHREAD_COND_INITIALIZER;
  Failure why;
  if (__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == ONCE_DONE) return;
  for (GuardOnce *o = running; o; o = o->outer)
    if (o == once) BUG("work that is to run once has called itself");
  pthread_mutex_lock(&gate);
  while (once->state == ONCE_RUNS) pthread_cond_wait(&left, &gate);
  bool done = once->state == ONCE_DONE;
  if (!done) __atomic_store_n(&once->state, ONCE_RUNS, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&gate);
  if (done) return;
  once->outer = running;
  running = once;
  bool good = guard_run(work, context, &why);
  running = once->outer;
  pthread_mutex_lock(&gate);
  __atomic_store_n(&once->state, good ? ONCE_DONE : ONCE_OPEN, __ATOMIC_RELEASE);
  pthread_cond_broadcast(&left);
  pthread_mutex_unlock(&gate);
  if (!good) guard_raise(&why);
}
