// Signals that ask for an end: the first one is only noted, so that the step and its checkpoint are finished;
// a second one ends the process at once.
#include "runtime/internal.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t asked;
static const int watched[] = {SIGTERM, SIGINT, SIGUSR1};
static struct sigaction before[countof(watched)]; // what they did until stop_watch

static void note(int number) { asked = number; }

void stop_watch(bool on) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = note;
  action.sa_flags = SA_RESTART | (int)SA_RESETHAND;
  sigemptyset(&action.sa_mask);
  if (on) asked = 0;
  for (size_t i = 0; i < countof(watched); i++)
    sigaction(watched[i], on ? &action : &before[i], on ? &before[i] : NULL);
}

int stop_signal(void) { return asked; }
