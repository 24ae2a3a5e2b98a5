// Words in shared memory on which threads of several processes sleep: futexes. A sleeper wakes by
// itself after some milliseconds, because a process that has been killed wakes nobody.
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collectives/ranks/ranks.h"

enum { NAP_NANOSECONDS = 20000000 };

_Static_assert(sizeof(atomic_uint) == 4, "a futex is 32 bits");

void word_wait(atomic_uint *word, unsigned value) {
  const struct timespec nap = {0, NAP_NANOSECONDS};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &nap, NULL, 0);
}

void word_wake(atomic_uint *word, int n) { syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0); }
