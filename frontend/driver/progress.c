// Draws a line of progress on standard error, in place, at most ten times a second, and shortens it
// to the width of the terminal. See progress.h.
#include "frontend/driver/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST_COLUMNS = 512, USUAL_COLUMNS = 80 };
static const double redraw_every = 0.1; // seconds

// Returns the width of the terminal in columns. The width is read at every drawing, so that a
// change of the window size needs no SIGWINCH handler.
static int columns(void) {
  struct winsize size;
  int n =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_COLUMNS;
  return n < MOST_COLUMNS ? n : MOST_COLUMNS;
}

void progress_start(Progress *p, bool on, double delay) {
  *p = (Progress){.on = on && isatty(STDERR_FILENO), .due = clock_seconds() + delay};
}

bool progress_due(const Progress *p) { return p->on && clock_seconds() >= p->due; }

// Returns the number of bytes of the first n characters of a UTF-8 text, or of the whole text if it
// has fewer characters.
static size_t bytes_of(const char *text, int n) {
  size_t at = 0;
  for (; text[at] && (n > 0 || ((unsigned char)text[at] & 0xc0) == 0x80); at++)
    if (((unsigned char)text[at] & 0xc0) != 0x80) n--;
  return at;
}

// Draws the line of progress. The last column of the terminal stays free, because some terminals
// start a new line after it.
void progress_draw(Progress *p, const char *text) {
  if (!p->on) return;
  fprintf(stderr, "\r\033[K%.*s", (int)bytes_of(text, columns() - 1), text);
  fflush(stderr);
  p->open = true;
  p->due = clock_seconds() + redraw_every;
}

void progress_show(Progress *p, const char *fmt, ...) {
  char text[MOST_COLUMNS];
  va_list ap;
  if (!progress_due(p)) return;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  progress_draw(p, text);
}

void progress_clear(Progress *p) {
  if (p->open) fputs("\r\033[K", stderr);
  p->open = false;
}
