// Shows one line of progress on standard error if that is a terminal. All functions must be called
// from one thread.
#ifndef FRONTEND_PROGRESS_H
#define FRONTEND_PROGRESS_H

#include "ir/base/base.h"

enum { PROGRESS_AFTER = 1 }; // seconds: a command that ends earlier shows no progress
typedef struct Progress {
  bool on;    // false: nothing is ever drawn
  bool open;  // a line is on the terminal now
  double due; // earliest time of the next drawing, in seconds of clock_seconds
} Progress;

// Prepares *p, the line that shows progress. The first drawing is due `delay` seconds from now.
// Nothing is drawn if `on` is false or standard error is not a terminal.
void progress_start(Progress *p, bool on, double delay);
bool progress_due(const Progress *p);
// Draws the text as the line of progress at once, even if no drawing is due.
void progress_draw(Progress *p, const char *text);
// Formats the text and draws it as the line of progress, if enough time has passed since the last
// drawing.
void progress_show(Progress *p, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Removes the line of progress from the terminal.
void progress_clear(Progress *p);

#endif
