// The program's signal handlers: a stop request is noted, and training ends after the step under
// way. A library does not install them.
#ifndef FRONTEND_SIGNALS_H
#define FRONTEND_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// The last signal noted, 0: none. For ExecOptions.stop_request.
extern volatile sig_atomic_t stop_signal;
// From here on SIGUSR1 is noted, also while the program compiles, instead of ending the process.
// Call it before signals_note where a launcher asks for a checkpoint by that signal.
void signals_expect_checkpoint(void);
// With `on`, SIGTERM, SIGINT and SIGUSR1 are noted from here on; a second SIGTERM or SIGINT ends
// the process at once. With false, they do what they did before.
void signals_note(bool on);

#endif
