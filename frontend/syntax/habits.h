// Hints for words and habits of other languages: what to write in a model instead. The table is
// habits.def.
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
  HABIT_TYPE,
  HABIT_BLOCK,
  HABIT_REST,
  HABIT_BEFORE,
} HabitKind;

// Names in the user's model that a hint shows. A member is NULL if the name is not known.
typedef struct HabitNames {
  const char *x, *y; // the first two operands
  const char *d;     // a dim of x, if possible one that y has too
  const char *f;     // the function that is called
  const char *t;     // the text after the word
} HabitNames;

// Returns true if the table has `word` as a habit of that kind.
bool habit_known(HabitKind kind, const char *word);
// Adds the hint for `word` to the last message in d. If the table has no such habit, returns false
// and adds nothing.
bool habit_hint(Diag *d, Arena *a, HabitKind kind, const char *word, const HabitNames *names);

#endif
