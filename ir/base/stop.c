// Signals that ask the process to stop. See stop.h.
#include "ir/base/stop.h"
#include "ir/base/base.h"

#include <stdatomic.h>

volatile sig_atomic_t stop_signal;

static _Atomic double first; // clock_seconds of the first SIGTERM or SIGINT; 0 before it

// Returns whether `number` is the first signal of those that can end the process, or comes soon
// after the first.
static bool is_first(int number) {
  double none = 0, now = clock_seconds();
  return number == SIGUSR1 || atomic_compare_exchange_strong(&first, &none, now) ||
         now - none < STOP_REPEAT;
}

void stop_note(int number) {
  if (is_first(number)) {
    stop_signal = number;
    return;
  }
  signal(number, SIG_DFL);
  raise(number); // takes effect when the handler returns
}

void stop_forget(void) {
  stop_signal = 0;
  atomic_store(&first, 0);
}
