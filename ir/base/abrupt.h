// Messages of a process that cannot continue: memory is exhausted, or another rank is lost. They
// bypass Diag, and nothing is allocated.
#ifndef IR_ABRUPT_H
#define IR_ABRUPT_H

#include "ir/base/diag.h"

// Writes "meshc: error: MESSAGE [CODE]", and the hint if it is not NULL, to standard error. Passes
// message and hint to the listener, a function that is called for each message. Calls only
// functions that are safe in a signal handler. Thread rule: any thread.
void abrupt_say(DiagId id, const char *message, const char *hint);
// The listener: a function that is called for each message. It must not allocate.
typedef void AbruptListener(DiagId id, const char *message, const char *hint);
void abrupt_listen(AbruptListener *listener);
// Writes all n bytes to fd. Stops after an error.
void abrupt_write(int fd, const char *text, size_t n);

#endif
