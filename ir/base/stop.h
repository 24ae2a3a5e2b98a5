// Signals that ask the process to stop: the first one is recorded, so that a training can end after
// its step, and a later one ends the process.
#ifndef IR_STOP_H
#define IR_STOP_H

#include <signal.h>
#include <stdbool.h>

// Seconds after the first signal in which more of them are the same request. Programs such as
// timeout(1) send a signal to the process and then to its process group, which sends it twice.
#define STOP_REPEAT 0.5

// The number of the last signal that stop_note recorded, or 0.
extern volatile sig_atomic_t stop_signal;

// The handler of SIGTERM, SIGINT, SIGHUP and SIGUSR1. It records `number` in stop_signal. Any of
// them but SIGUSR1 that comes STOP_REPEAT seconds after the first of them or later ends the process
// at once. Safe in a signal handler. Thread rule: any thread.
void stop_note(int number);

// Returns whether `number` is SIGHUP and this process ignores it, as under nohup(1): the run is to
// outlive its terminal.
bool stop_ignored(int number);

// Makes stop_note the handler of `number`, unless stop_ignored. *before gets the action that the
// signal had; NULL is allowed. Returns false if the system refuses.
bool stop_catch(int number, struct sigaction *before);

// Forgets what was recorded. No handler may run meanwhile.
void stop_forget(void);

#endif
