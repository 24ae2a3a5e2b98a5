// The lines of a model that differ between two of its texts. Comments, blank lines and the amount
// of space within a line do not count.
#ifndef FRONTEND_LINE_DIFF_H
#define FRONTEND_LINE_DIFF_H

#include "ir/base/arena.h"

typedef struct ChangedLine {
  bool now;         // a line of the new text that the old one lacks; false: the other way round
  uint32_t line;    // its number in its text, from 1
  const char *text; // without comment and needless space
} ChangedLine;

typedef VEC(ChangedLine) ChangedLines;

// Returns the lines of `then` and `now` that are not in a longest common subsequence of lines, in
// order; lines that are gone come before those that replace them. All is in arena `a`.
ChangedLines changed_lines(Arena *a, const char *then, const char *now);

#endif
