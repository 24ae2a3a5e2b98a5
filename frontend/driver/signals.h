// Signal handlers of the program. A signal is recorded as a stop request, and training ends after
// the current step. The library does not install them.
#ifndef FRONTEND_SIGNALS_H
#define FRONTEND_SIGNALS_H

#include "ir/base/stop.h"

#include <stdbool.h>

// Records SIGUSR1 from now on, also during the compile, instead of ending the process. To be called
// before signals_note if a launcher asks for a checkpoint by this signal.
void signals_expect_checkpoint(void);
// With `on`, records SIGTERM, SIGINT, SIGHUP and SIGUSR1 from now on; a later one of the first
// three ends the process at once (ir/base/stop.h). Without `on`, restores the actions that these
// signals had before.
void signals_note(bool on);

#endif
