// Messages of a process that cannot go on: memory is gone, or another rank is lost. Nothing is
// collected or allocated.
#ifndef IR_ABRUPT_H
#define IR_ABRUPT_H

#include "ir/base/diag.h"

// Writes "meshc: error: MESSAGE [CODE]" and the hint, if any, to standard error, and hands both to
// the listener. Calls only what is safe in a signal handler. Thread rule: any thread.
void abrupt_say(DiagId id, const char *message, const char *hint);
// Told of each message; must not allocate. NULL: none.
typedef void AbruptListener(DiagId id, const char *message, const char *hint);
void abrupt_listen(AbruptListener *listener);
// All n bytes, unless the file refuses them.
void abrupt_write(int fd, const char *text, size_t n);

#endif
