// Failures that must not end the process: a failed allocation, a broken invariant (BUG).
//
// The program owns its process: such a failure ends it with a message and an exit code. A library
// does not: the failure jumps back to the innermost guard of its thread, a point on the stack that
// guard_run sets. Under a guard the thread has the "C" locale. Arenas that were made under the
// outermost guard are then freed, and files that the thread was writing are removed. Memory from
// malloc that was held at that point is lost.
#ifndef IR_GUARD_H
#define IR_GUARD_H

#include "ir/base/base.h"

// process_own declares that meshc owns the process; `main` calls it once, before anything else.
// process_owned returns whether it does: only then may meshc end the process or install signal
// handlers. Thread rule of process_owned: any thread.
void process_own(void);
bool process_owned(void);

enum { FAILURE_TEXT = 512 };
typedef struct Failure {
  bool internal; // a broken invariant; else an allocation failed
  char text[FAILURE_TEXT];
} Failure;

typedef void GuardedWork(void *context);
// Calls work(context). Returns true if the work returned. Returns false if it failed, with the
// failure in *out. Guards nest. In a process that meshc owns it only calls the work. Thread rule:
// any thread; the work must not hold a lock when it fails.
MUST_USE bool guard_run(GuardedWork *work, void *context, Failure *out);
// Jumps to the innermost guard of the calling thread. Returns if there is none.
void guard_fail(const Failure *f);
// Fails again after the cleanup that follows a guard_run. It does not return.
_Noreturn void guard_raise(const Failure *f);

// Calls work(NULL) once per process, as pthread_once does. If it fails, the next call tries again.
typedef struct GuardOnce {
  int state; // 0: not done
} GuardOnce;
void guard_once(GuardOnce *once, void (*work)(void));

// A link in the list of arenas that were made under the outermost guard of a thread
// (ir/base/arena.c).
typedef struct GuardLink {
  struct GuardLink *next;
  struct GuardLink **at; // the pointer that points to this link; NULL: the link is in no list
} GuardLink;
void guard_link(GuardLink *link);
void guard_unlink(GuardLink *link);

#endif
