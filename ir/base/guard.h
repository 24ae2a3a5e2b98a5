// Failures that must not end the process: a failed allocation, or a broken invariant (BUG).
//
// The program meshc owns its process: such a failure ends it with a message and an exit code. The
// library does not own its process: the failure jumps back to the innermost guard of its thread, a
// point on the stack that guard_run sets. Under a guard the thread has the "C" locale. A failure
// frees the arenas that were made under the outermost guard, and removes files that the thread was
// writing. It leaks other memory that the thread had allocated with malloc.
#ifndef IR_GUARD_H
#define IR_GUARD_H

#include "ir/base/base.h"

// process_own declares that meshc owns the process; `main` calls it once, before anything else.
// process_owned returns whether it does: only then may meshc end the process or install signal
// handlers. process_own also ignores SIGXFSZ: a file that grows beyond the limit of its size is an
// error of that file. Thread rule of process_owned: any thread.
void process_own(void);
bool process_owned(void);

enum { FAILURE_TEXT = 512 };
typedef struct Failure {
  bool internal; // a broken invariant; false: an allocation failed
  char text[FAILURE_TEXT];
} Failure;

typedef void GuardedWork(void *context);
// Calls work(context) under a guard, a point to which a failure of the work jumps back. Returns
// true if the work returned. Returns false after a failure, which is then in *out. Guards nest. In
// a process that meshc owns, guard_run sets no guard and only calls the work. Thread rule: any
// thread; the work must not hold a lock when it fails.
MUST_USE bool guard_run(GuardedWork *work, void *context, Failure *out);
// Jumps to the innermost guard (guard_run) of the calling thread. Returns if the thread has no
// guard.
void guard_fail(const Failure *f);
// Reports a failure that guard_run returned again, to the next outer guard (guard_run), after the
// caller has cleaned up. Does not return.
_Noreturn void guard_raise(const Failure *f);

// guard_once calls work(context) once per process, as pthread_once does: other threads wait until
// it has returned. If the work fails, the next call tries again. The work may call guard_once for
// another GuardOnce; for its own it would wait for itself, which is a BUG.
typedef struct GuardOnce {
  int state;               // 0: the work has not run yet
  struct GuardOnce *outer; // while the work runs: the one whose work has called this one
} GuardOnce;
void guard_once(GuardOnce *once, GuardedWork *work, void *context);

// A link in the list of arenas that a thread made under its outermost guard_run (ir/base/arena.c).
typedef struct GuardLink {
  struct GuardLink *next;
  struct GuardLink **at; // the pointer that points to this link; NULL: the link is in no list
} GuardLink;
void guard_link(GuardLink *link);
void guard_unlink(GuardLink *link);

#endif
