// Records signals that ask the program to stop, so that training can finish the current step and
// write its checkpoint. See signals.h.
#include "frontend/driver/signals.h"
#include "ir/base/base.h"

// Whether signals_expect_checkpoint was called. If so, SIGUSR1 is caught or ignored until the
// process ends.
static bool expected;
static const int noted[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
static struct sigaction before[countof(noted)];

void signals_note(bool on) {
  if (on && !expected) stop_forget();
  for (size_t i = 0; i < countof(noted); i++)
    (void)(on ? stop_catch(noted[i], &before[i]) : sigaction(noted[i], &before[i], NULL) == 0);
  // The training is over and its last checkpoint has been written. A launcher that still asks for a
  // checkpoint must not end the process.
  if (!on && expected) signal(SIGUSR1, SIG_IGN);
}

void signals_expect_checkpoint(void) { expected = stop_catch(SIGUSR1, NULL); }
