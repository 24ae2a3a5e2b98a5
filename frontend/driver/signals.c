// Records signals that ask the program to stop, so that training can finish the current step and
// write its checkpoint. See signals.h.
#include "frontend/driver/signals.h"
#include "ir/base/base.h"

#include <string.h>

volatile sig_atomic_t stop_signal;

// Whether signals_expect_checkpoint was called. If so, SIGUSR1 is caught or ignored until the
// process ends.
static bool expected;
static const int noted[] = {SIGTERM, SIGINT, SIGUSR1};
static struct sigaction before[countof(noted)];

static void note(int number) { stop_signal = number; }

// Returns the signal action that records a signal in stop_signal. SIGTERM and SIGINT get their
// default action back after the first signal, so that the second one ends the process. SIGUSR1 does
// not, because schedulers and launchers may send it twice.
static struct sigaction note_action(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | (number == SIGUSR1 ? 0 : (int)SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  return action;
}

void signals_note(bool on) {
  if (on && !expected) stop_signal = 0;
  for (size_t i = 0; i < countof(noted); i++) {
    struct sigaction action = note_action(noted[i]);
    sigaction(noted[i], on ? &action : &before[i], on ? &before[i] : NULL);
  }
  // The training is over and its last checkpoint has been written. A launcher that still asks for a
  // checkpoint must not end the process.
  if (!on && expected) signal(SIGUSR1, SIG_IGN);
}

void signals_expect_checkpoint(void) {
  struct sigaction action = note_action(SIGUSR1);
  expected = sigaction(SIGUSR1, &action, NULL) == 0;
}
