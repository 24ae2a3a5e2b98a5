// Signals that ask for an end: the first one is only noted, so that the step and its checkpoint are
// finished; a second SIGTERM or SIGINT ends the process at once.
#include "runtime/runtime_internal.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t asked;
static bool expected; // stop_expect: SIGUSR1 never has its default action
static const int finite_tensor[] = {SIGTERM, SIGINT, SIGUSR1};
static struct sigaction before[countof(finite_tensor)]; // what they did until stop_watch

static void note(int number) { asked = number; }

void stop_watch(bool on) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  if (on && !expected) asked = 0;
  for (size_t i = 0; i < countof(finite_tensor); i++) {
    bool again = finite_tensor[i] ==
                 SIGUSR1; // schedulers and launchers may send it twice; it never means: at once
    action.sa_flags = SA_RESTART | (again ? 0 : (int)SA_RESETHAND);
    sigaction(finite_tensor[i], on ? &action : &before[i], on ? &before[i] : NULL);
  }
  if (!on && expected)
    signal(SIGUSR1, SIG_IGN); // the last checkpoint is written: nothing is left to ask for
}

void stop_expect(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  expected = sigaction(SIGUSR1, &action, NULL) == 0;
}

int stop_signal(void) { return asked; }
