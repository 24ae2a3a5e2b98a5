// Signal handlers of the program. A signal is recorded as a stop request, and training ends after
// the current step. The library does not install them.
#ifndef FRONTEND_SIGNALS_H
#define FRONTEND_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

// The number of the last signal that was recorded, or 0. ExecOptions.stop_request points to this
// variable.
extern volatile sig_atomic_t stop_signal;
// Records SIGUSR1 from now on, also during the compile, instead of ending the process. To be called
// before signals_note if a launcher asks for a checkpoint by this signal.
void signals_expect_checkpoint(void);
// With `on`, records SIGTERM, SIGINT and SIGUSR1 from now on; a second SIGTERM or SIGINT ends the
// process at once. Without `on`, restores the actions that these signals had before.
void signals_note(bool on);

#endif
