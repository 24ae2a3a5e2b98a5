// Habits from other languages: what to write instead of words that this one lacks.
#ifndef FRONTEND_HABITS_H
#define FRONTEND_HABITS_H

#include "ir/base/diag.h"

typedef enum HabitKind {
  HABIT_FUNCTION,
  HABIT_MEMBER,
  HABIT_EXTRA,
  HABIT_ARGUMENT,
  HABIT_STATEMENT,
  HABIT_INDEX,
  HABIT_KEY,
  HABIT_DRAW,
  HABIT_SETTING,
} HabitKind;

// The user's own names for the code that a hint shows; NULL where not known.
typedef struct HabitNames {
  const char *x, *y; // operands
  const char *d;     // a dim of x
  const char *f;     // the function
  const char *t;     // what follows the word in the text
} HabitNames;

// Whether `word` is a habit of that kind.
bool habit_known(HabitKind kind, const char *word);
// Makes the hint for `word` that of what was said last in d. False: no such habit, the hint is as
// it was.
bool habit_hint(Diag *d, Arena *a, HabitKind kind, const char *word, const HabitNames *names);

#endif
