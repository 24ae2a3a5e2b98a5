// Finds the lines that differ between two texts of a model. See line_diff.h.
#include "frontend/report/line_diff.h"

#include <string.h>

// Above so many pairs of lines the table of the comparison would be large: all lines between the
// first and the last different one then count as changed.
enum { MOST_PAIRS = 1 << 22 };

typedef struct Line {
  uint32_t number;
  const char *text;
} Line;
typedef VEC(Line) Lines;

// Returns a line of n bytes without its comment, with single spaces between words.
static const char *bare(Arena *a, const char *from, size_t n) {
  char *out = arena_text(a, from, n), *to = out;
  bool quoted = false;
  for (size_t i = 0; i < n && (quoted || from[i] != '#'); i++) {
    bool space = !quoted && strchr(" \t\r", from[i]);
    if (from[i] == '"' && (i == 0 || from[i - 1] != '\\')) quoted = !quoted;
    if (!space)
      *to++ = from[i];
    else if (to > out && to[-1] != ' ')
      *to++ = ' ';
  }
  while (to > out && to[-1] == ' ') to--;
  *to = '\0';
  return out;
}

static Lines lines_of(Arena *a, const char *text) {
  Lines out = {0};
  for (uint32_t number = 1; *text; number++) {
    size_t n = strcspn(text, "\n");
    const char *line = bare(a, text, n);
    if (*line) vec_push(a, out) = (Line){number, line};
    text += n + (text[n] != '\0');
  }
  return out;
}

// Two texts, less the lines at their beginning and end that are equal: the lines from `begin` to
// `end` - 1 of each.
typedef struct Texts {
  Lines of[2];
  uint32_t begin, end[2];
} Texts;

static bool equal_at(const Texts *t, uint32_t i, uint32_t k) {
  return !strcmp(t->of[0].at[i].text, t->of[1].at[k].text);
}

static void leave_out_ends(Texts *t) {
  uint32_t *end = t->end;
  while (t->begin < end[0] && t->begin < end[1] && equal_at(t, t->begin, t->begin)) t->begin++;
  while (end[0] > t->begin && end[1] > t->begin && equal_at(t, end[0] - 1, end[1] - 1))
    end[0]--, end[1]--;
}

// Returns a table whose entry [i * (columns + 1) + k] is the length of the longest common
// subsequence of the lines from i and k on (counted from t->begin), or NULL if it were too large.
static const uint32_t *common(Arena *a, const Texts *t) {
  size_t rows = t->end[0] - t->begin, columns = t->end[1] - t->begin;
  if ((rows + 1) * (columns + 1) > MOST_PAIRS) return NULL;
  uint32_t *table = arena_array(a, uint32_t, (rows + 1) * (columns + 1));
  for (size_t i = rows; i-- > 0;)
    for (size_t k = columns; k-- > 0;) {
      uint32_t *here = table + i * (columns + 1) + k, down = here[columns + 1], right = here[1];
      uint32_t most = down > right ? down : right;
      bool equal = equal_at(t, t->begin + (uint32_t)i, t->begin + (uint32_t)k);
      *here = equal ? here[columns + 2] + 1 : most;
    }
  return table;
}

static void add(Arena *a, ChangedLines *out, const Texts *t, bool now, uint32_t i) {
  const Line *line = &t->of[now].at[i];
  vec_push(a, *out) = (ChangedLine){now, line->number, line->text};
}

ChangedLines changed_lines(Arena *a, const char *then, const char *now) {
  Texts t = {.of = {lines_of(a, then), lines_of(a, now)}};
  ChangedLines out = {0};
  t.end[0] = t.of[0].n;
  t.end[1] = t.of[1].n;
  leave_out_ends(&t);
  const uint32_t *table = common(a, &t);
  uint32_t i = t.begin, k = t.begin, width = t.end[1] - t.begin + 1;
  while (i < t.end[0] || k < t.end[1]) {
    const uint32_t *here = table ? table + (size_t)(i - t.begin) * width + (k - t.begin) : NULL;
    bool both = i < t.end[0] && k < t.end[1];
    if (both && here && equal_at(&t, i, k))
      i++, k++;
    else if (i < t.end[0] && (!both || !here || here[width] >= here[1]))
      add(a, &out, &t, false, i++);
    else
      add(a, &out, &t, true, k++);
  }
  return out;
}
