// Writes the message of a process that cannot continue.
#include "ir/base/abrupt.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 4096 };

static _Atomic(AbruptListener *) listening;

void abrupt_listen(AbruptListener *listener) { atomic_store(&listening, listener); }

void abrupt_write(int fd, const char *text, size_t n) {
  while (n > 0) {
    ssize_t put = write(fd, text, n);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text += put;
    n -= (size_t)put;
  }
}

void abrupt_say(DiagId id, const char *message, const char *hint) {
  const char *const part[] = {"meshc: error: ", message,         " [",
                              diag_code(id),    "]\n",           hint ? "hint: " : "",
                              hint ? hint : "", hint ? "\n" : ""};
  char text[TEXT];
  size_t at = 0;
  for (size_t i = 0; i < countof(part); i++) {
    size_t n = strlen(part[i]);
    if (n > sizeof text - at) n = sizeof text - at;
    memcpy(text + at, part[i], n);
    at += n;
  }
  abrupt_write(STDERR_FILENO, text, at); // one call, so that the lines of several ranks do not mix
  AbruptListener *listener = atomic_load(&listening);
  if (listener) listener(id, message, hint);
}
