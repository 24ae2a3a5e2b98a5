// Signals that ask the process to stop. See stop.h.
#include "ir/base/stop.h"
#include "ir/base/base.h"

#include <stdatomic.h>

volatile sig_atomic_t stop_signal;

static _Atomic double first; // clock_seconds of the first signal but SIGUSR1; 0 before it

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

bool stop_ignored(int number) {
  struct sigaction now;
  return number == SIGHUP && sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool stop_catch(int number, struct sigaction *before) {
  struct sigaction action = {.sa_handler = stop_note, .sa_flags = SA_RESTART};
  sigemptyset(&action.sa_mask);
  return sigaction(number, stop_ignored(number) ? NULL : &action, before) == 0;
}

void stop_forget(void) {
  stop_signal = 0;
  atomic_store(&first, 0);
}
