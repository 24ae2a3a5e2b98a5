// Signals that ask the process to stop: the first one is recorded, so that a training can end after
// its step, and a later one ends the process.
#ifndef IR_STOP_H
#define IR_STOP_H

#include <signal.h>

// Seconds after the first signal in which more of them are the same request. Programs such as
// timeout(1) send a signal to the process and then to its process group, which sends it twice.
#define STOP_REPEAT 0.5

// The number of the last signal that stop_note recorded, or 0.
extern volatile sig_atomic_t stop_signal;

// The handler of SIGTERM, SIGINT and SIGUSR1. It records `number` in stop_signal. A SIGTERM or
// SIGINT that comes STOP_REPEAT seconds after the first of them or later ends the process at once.
// Safe in a signal handler. Thread rule: any thread.
void stop_note(int number);

// Forgets what was recorded. No handler may run meanwhile.
void stop_forget(void);

#endif
