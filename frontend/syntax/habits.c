// Finds a word of another language in the table of habits (habits.def), and makes the hint: $x, $y,
// $d, $f and $t become names of the user's code.
#include "frontend/syntax/habits.h"

#include <string.h>

static const struct {
  HabitKind kind;
  const char *word, *hint;
} habits[] = {
#define HABIT(kind, word, hint) {HABIT_##kind, word, hint},
#include "frontend/syntax/habits.def"
#undef HABIT
};

static const char *find(HabitKind kind, const char *word) {
  for (size_t i = 0; i < countof(habits); i++)
    if (habits[i].kind == kind && !strcmp(habits[i].word, word)) return habits[i].hint;
  return NULL;
}

bool habit_known(HabitKind kind, const char *word) { return find(kind, word) != NULL; }

// Returns the name that replaces `$` and `letter` in a hint.
static const char *name_for(char letter, const HabitNames *n) {
  const struct {
    char letter;
    const char *name, *otherwise;
  } names[] = {
      {'x', n->x, "x"}, {'y', n->y, "w"}, {'d', n->d, "d"}, {'f', n->f, "f"}, {'t', n->t, "..."}};
  for (size_t i = 0; i < countof(names); i++)
    if (names[i].letter == letter) return names[i].name ? names[i].name : names[i].otherwise;
  return "";
}

bool habit_hint(Diag *d, Arena *a, HabitKind kind, const char *word, const HabitNames *names) {
  const char *from = find(kind, word);
  VEC(char) out = {0};
  if (!from) return false;
  while (*from) {
    const char *name = *from == '$' ? name_for(from[1], names) : NULL;
    for (; name && *name; name++) vec_push(a, out) = *name;
    if (!name) vec_push(a, out) = *from;
    from += name ? 2 : 1;
  }
  vec_push(a, out) = '\0';
  diag_hint(d, "%s", out.at);
  return true;
}
