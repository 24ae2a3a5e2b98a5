// Records signals that ask the program to stop, so that training can finish the current step and
// write its checkpoint. See signals.h.
#include "frontend/driver/signals.h"
#include "ir/base/base.h"

#include <string.h>

// Whether signals_expect_checkpoint was called. If so, SIGUSR1 is caught or ignored until the
// process ends.
static bool expected;
static const int noted[] = {SIGTERM, SIGINT, SIGUSR1};
static struct sigaction before[countof(noted)];

// Returns the signal action that records a signal in stop_signal (ir/base/stop.h).
static struct sigaction note_action(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = stop_note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return action;
}

void signals_note(bool on) {
  if (on && !expected) stop_forget();
  for (size_t i = 0; i < countof(noted); i++) {
    struct sigaction action = note_action();
    sigaction(noted[i], on ? &action : &before[i], on ? &before[i] : NULL);
  }
  // The training is over and its last checkpoint has been written. A launcher that still asks for a
  // checkpoint must not end the process.
  if (!on && expected) signal(SIGUSR1, SIG_IGN);
}

void signals_expect_checkpoint(void) {
  struct sigaction action = note_action();
  expected = sigaction(SIGUSR1, &action, NULL) == 0;
}
