// A line of progress on a terminal. Thread rule: one thread.
#ifndef FRONTEND_PROGRESS_H
#define FRONTEND_PROGRESS_H

#include "ir/base/base.h"

enum { PROGRESS_AFTER = 1 }; // seconds that a command takes before it shows progress
typedef struct Progress {
  bool on, open; // open: a line is on the terminal
  double due;    // clock at which it may be drawn next
} Progress;

// Starts with no line; the first one is due `delay` seconds from now. Nothing is drawn with `on`
// false, or where standard error is not a terminal.
void progress_start(Progress *p, bool on, double delay);
bool progress_due(const Progress *p);
// Draws the text, due or not.
void progress_draw(Progress *p, const char *text);
// Formats and draws if a line is due.
void progress_show(Progress *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Removes the line.
void progress_clear(Progress *p);

#endif
