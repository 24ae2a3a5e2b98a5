// Diagnostics: collected in order, printed with the source line, a caret, notes and a hint.
//
//   model.mesh:7:12: error: unknown name z [E0201]
//     hidden = relu(z)
//                   ^
//   hint: did you mean x?
#include "ir/base/diag.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum { MAX_KEPT = 20, MAX_SHOWN = 160, LONGEST_NAME = 64 };

typedef struct Source {
  const char *name, *text;
  size_t n;
} Source;

typedef struct Note {
  Pos at;
  const char *text;
} Note;

typedef struct Message {
  DiagId id;
  bool warning;
  Pos at;
  const char *text, *hint;
  VEC(Note) note;
} Message;

struct Diag {
  Arena *arena;
  const char *program, *command; // command: NULL if the program has none
  const char *const *options;    // of the program; NULL: it is meshc, which has all
  VEC(Source) source;
  VEC(Message) message;
  uint32_t printed;
  bool open;    // notes and hints are added to the last message; false if it was dropped
  DiagMark now; // the current counts of errors and warnings; `messages` is not used
  int more_printed[2];
};

Diag *diag_new(Arena *a) {
  Diag *d = arena_new_of(a, Diag);
  d->arena = a;
  d->program = "meshc";
  return d;
}

void diag_program(Diag *d, const char *name, const char *const *options) {
  d->program = name;
  d->options = options;
}

static bool same_text(const Source *s, const char *text, size_t n) {
  return s->n == n && !s->text == !text && (!text || memcmp(s->text, text, n) == 0);
}

void diag_command(Diag *d, const char *name) { d->command = name; }

uint32_t diag_source(Diag *d, const char *name, const char *text, size_t n) {
  for (uint32_t i = 0; i < d->source.n; i++)
    if (strcmp(d->source.at[i].name, name) == 0 && same_text(&d->source.at[i], text, n))
      return i + 1;
  vec_push(d->arena, d->source) =
      (Source){.name = arena_text(d->arena, name, strlen(name)), .text = text, .n = n};
  return d->source.n;
}

uint32_t diag_find_source(const Diag *d, const char *name) {
  for (uint32_t i = 0; i < d->source.n; i++)
    if (strcmp(d->source.at[i].name, name) == 0) return i + 1;
  return 0;
}

static const Source *source_of(const Diag *d, uint32_t source) {
  return source >= 1 && source <= d->source.n ? &d->source.at[source - 1] : NULL;
}

const char *diag_source_name(const Diag *d, uint32_t source) {
  const Source *s = source_of(d, source);
  return s ? s->name : "";
}

DiagMark diag_mark(const Diag *d) {
  DiagMark m = d->now;
  m.messages = d->message.n;
  return m;
}

void diag_rewind(Diag *d, DiagMark m) {
  d->message.n = m.messages;
  d->now = m;
  d->open = false;
}

int diag_errors(const Diag *d) { return d->now.counted[0]; }
int diag_exit(const Diag *d) { return d->now.exit; }

// -- hints --------------------------------------------------------------------------------------

// Returns whether the program has the option with which text[0..n) begins.
static bool has_option(const Diag *d, const char *text, size_t n) {
  for (const char *const *o = d->options; *o; o++)
    if (strlen(*o) == n && memcmp(*o, text, n) == 0) return true;
  return false;
}

// Returns whether text[0..n), a clause of a hint, is of use to who runs the program.
static bool is_of_use(const Diag *d, const char *text, size_t n) {
  static const char compiles[] = "compile";
  for (size_t i = 0; i + sizeof compiles <= n + 1; i++)
    if (memcmp(text + i, compiles, sizeof compiles - 1) == 0) return true;
  for (size_t i = 0, end; i + 2 < n; i = end) {
    end = i + 1;
    if (memcmp(text + i, "--", 2) != 0 || !islower((unsigned char)text[i + 2])) continue;
    end = i + 2;
    while (end < n && (islower((unsigned char)text[end]) || text[end] == '-')) end++;
    if (!has_option(d, text + i, end - i)) return false;
  }
  return true;
}

// Returns the bytes of the first clause of a hint; *skip gets those between it and the next one, 0
// if there is none.
static size_t clause(const char *text, size_t *skip) {
  static const char *const between[] = {", or ", "; "};
  size_t n = strlen(text);
  *skip = 0;
  for (size_t i = 0; i < countof(between); i++) {
    const char *found = strstr(text, between[i]);
    if (!found || (size_t)(found - text) >= n) continue;
    n = (size_t)(found - text);
    *skip = strlen(between[i]);
  }
  return n;
}

// Returns a hint as the program gives it: without the clauses that name options of meshc which the
// program lacks; NULL if none is left.
static const char *hint_of(const Diag *d, const char *hint) {
  const char *out = NULL;
  if (!hint) return NULL;
  if (strcmp(hint, diag_default_hint(DIAG_USAGE)) == 0 && (d->options || d->command))
    return d->program ? arena_printf(d->arena, "see %s%s%s --help", d->program,
                                     d->command ? " " : "", d->command ? d->command : "")
                      : NULL;
  if (!d->options) return hint;
  for (size_t skip = 0, before = 0;; before = skip) {
    size_t n = clause(hint, &skip);
    if (is_of_use(d, hint, n)) {
      const char *from = out ? hint - before : hint;
      out = arena_printf(d->arena, "%s%.*s", out ? out : "", (int)(hint + n - from), from);
    }
    if (!skip) return out;
    hint += n + skip;
  }
}

// -- reading ------------------------------------------------------------------------------------

uint32_t diag_count(const Diag *d) { return d->message.n; }

DiagEntry diag_entry(const Diag *d, uint32_t i) {
  const Message *m = &d->message.at[i];
  return (DiagEntry){.severity = m->warning ? "warning" : "error",
                     .code = diag_code(m->id),
                     .text = m->text,
                     .hint = hint_of(d, m->hint),
                     .at = m->at,
                     .notes = m->note.n};
}

DiagNote diag_entry_note(const Diag *d, uint32_t i, uint32_t k) {
  const Note *n = &d->message.at[i].note.at[k];
  return (DiagNote){n->text, n->at};
}

void diag_take(Diag *d, const Diag *from) {
  for (uint32_t i = 0; i < diag_count(from); i++) {
    DiagEntry x = diag_entry(from, i);
    diag_error(d, diag_of_code(x.code), x.at, "%s", x.text);
    for (uint32_t k = 0; k < x.notes; k++) {
      DiagNote note = diag_entry_note(from, i, k);
      diag_note(d, note.at, "%s", note.text);
    }
    if (x.hint) diag_hint(d, "%s", x.hint);
  }
}

int diag_omitted(const Diag *d, bool warnings) {
  return d->now.counted[warnings] - d->now.kept[warnings];
}

// -- saying -------------------------------------------------------------------------------------

static bool said_before(const Diag *d, const Message *m) {
  for (uint32_t i = 0; i < d->message.n; i++) {
    const Message *o = &d->message.at[i];
    if (o->id == m->id && o->warning == m->warning && o->at.source == m->at.source &&
        o->at.line == m->at.line && o->at.col == m->at.col && strcmp(o->text, m->text) == 0)
      return true;
  }
  return false;
}

static void say(Diag *d, bool warning, DiagId id, Pos at, const char *text) {
  Message m = {.id = id, .warning = warning, .at = at, .text = text, .hint = diag_default_hint(id)};
  d->open = false;
  if (said_before(d, &m)) return;
  if (d->now.counted[warning]++ == 0 && !warning) d->now.exit = diag_exit_code(id);
  if (d->now.kept[warning] == MAX_KEPT) return;
  d->now.kept[warning]++;
  vec_push(d->arena, d->message) = m;
  d->open = true;
}

bool diag_error(Diag *d, DiagId id, Pos at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  say(d, false, id, at, arena_vprintf(d->arena, fmt, ap));
  va_end(ap);
  return false;
}

void diag_warning(Diag *d, DiagId id, Pos at, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  say(d, true, id, at, arena_vprintf(d->arena, fmt, ap));
  va_end(ap);
}

static Message *last_message(Diag *d) { return d->open ? &d->message.at[d->message.n - 1] : NULL; }

bool diag_close(Diag *d) { return d->open = false; }

bool diag_kept(const Diag *d) { return d->open; }

bool diag_note(Diag *d, Pos at, const char *fmt, ...) {
  Message *m = last_message(d);
  if (!m) return false;
  va_list ap;
  va_start(ap, fmt);
  vec_push(d->arena, m->note) = (Note){.at = at, .text = arena_vprintf(d->arena, fmt, ap)};
  va_end(ap);
  return false;
}

bool diag_hint(Diag *d, const char *fmt, ...) {
  Message *m = last_message(d);
  if (!m) return false;
  va_list ap;
  va_start(ap, fmt);
  m->hint = arena_vprintf(d->arena, fmt, ap);
  va_end(ap);
  return false;
}

void diag_one_of(Diag *d, const char *const *names, size_t n) {
  const char *list = "it is one of:";
  for (size_t i = 0; i < n; i++)
    list = arena_printf(d->arena, "%s %s%s", list, names[i], i + 1 < n ? "," : "");
  diag_hint(d, "%s", list);
}

bool diag_nearest(Diag *d, const char *name, const char *const *names, size_t n) {
  const char *near = d->open ? text_nearest(name, names, n) : NULL;
  return near && diag_hint(d, "did you mean %s?", near);
}

// Returns the edit distance of two names: the number of characters inserted, deleted or replaced,
// and of neighbours swapped (optimal string alignment distance).
static int edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  int row[3][LONGEST_NAME + 1];
  int *before = row[0], *above = row[1], *here = row[2];
  for (size_t j = 0; j <= nb; j++) above[j] = (int)j;
  for (size_t i = 1; i <= na; i++) {
    here[0] = (int)i;
    for (size_t j = 1; j <= nb; j++) {
      int best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best) best = above[j] + 1;
      if (here[j - 1] + 1 < best) best = here[j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && before[j - 2] + 1 < best) best = before[j - 2] + 1;
      here[j] = best;
    }
    int *free_row = before;
    before = above;
    above = here;
    here = free_row;
  }
  return above[nb];
}

const char *text_nearest(const char *name, const char *const *names, size_t n) {
  size_t length = strlen(name);
  if (length > LONGEST_NAME) return NULL;
  const char *best = NULL;
  int best_distance = LONGEST_NAME;
  for (size_t i = 0; i < n; i++) {
    size_t other = strlen(names[i]);
    if (other > LONGEST_NAME) continue;
    size_t longer = length > other ? length : other;
    int allowed = longer == 2 ? 1 : (int)(longer / 3);
    int distance = strcasecmp(name, names[i]) ? edit_distance(name, length, names[i], other) : 0;
    if (distance > allowed || distance >= best_distance) continue;
    best = names[i];
    best_distance = distance;
  }
  return best;
}

// -- printing -----------------------------------------------------------------------------------

// Returns the number of bytes of the UTF-8 character at p, or 0 if it is not valid. At most n bytes
// can be read.
static size_t utf8_length(const unsigned char *p, size_t n) {
  size_t k = p[0] < 0x80                   ? 1
             : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
             : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
             : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                           : 0;
  if (k == 0 || k > n) return 0;
  for (size_t i = 1; i < k; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  return k;
}

// Returns true if the character of k bytes at p is printed unchanged. Control characters would move
// the cursor, and direction marks would reorder the text.
static bool shown_as_is(const unsigned char *p, size_t k) {
  if (k == 1) return p[0] >= 0x20 && p[0] != 0x7f;
  if (k == 2) return !(p[0] == 0xc2 && p[1] < 0xa0);
  bool marks = p[0] == 0xe2 && ((p[1] == 0x80 && ((p[2] >= 0xaa && p[2] <= 0xae) || p[2] == 0x8e ||
                                                  p[2] == 0x8f || p[2] == 0xa8 || p[2] == 0xa9)) ||
                                (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9));
  return k != 3 || !marks;
}

enum { SHOWN = 17 }; // room for a character as \x and two digits for each of 4 bytes, with the NUL

// Writes the first character of a text of n bytes to `out` as messages show it: the character
// itself, or \x and two digits for each of its bytes. Returns its number of bytes in the text.
// *width gets the number of columns that it takes on the screen.
static size_t show_char(const char *text, size_t n, char out[SHOWN], int *width) {
  const unsigned char *p = (const unsigned char *)text;
  size_t k = utf8_length(p, n);
  if (k && shown_as_is(p, k)) {
    memcpy(out, p, k);
    out[k] = 0;
    *width = 1;
    return k;
  }
  if (k == 0) k = 1;
  for (size_t i = 0; i < k; i++) sprintf(out + 4 * i, "\\x%02x", p[i]);
  *width = 4 * (int)k;
  return k;
}

const char *text_shown(Arena *a, const char *text) {
  size_t n = strlen(text);
  char *shown = arena_alloc_raw(a, 4 * n + SHOWN), *to = shown;
  *to = 0;
  for (size_t i = 0; i < n; to += strlen(to)) {
    int width;
    i += show_char(text + i, n - i, to, &width);
  }
  return shown;
}

static void put_text(const Diag *d, FILE *out, const char *text) {
  fputs(text_shown(d->arena, text), out);
}

// Finds line `line` of a text, counted from 1. *at gets its start and *n its length without the
// line end. Returns false if the text has no such line.
static bool find_line(const Source *s, uint32_t line, const char **at, size_t *n) {
  const char *p = s->text, *end = s->text + s->n;
  for (uint32_t l = 1; l < line; l++) {
    p = memchr(p, '\n', (size_t)(end - p));
    if (!p) return false;
    p++;
  }
  const char *stop = memchr(p, '\n', (size_t)(end - p));
  if (!stop) stop = end;
  if (stop > p && stop[-1] == '\r') stop--;
  *at = p;
  *n = (size_t)(stop - p);
  return true;
}

const char *diag_text_between(const Diag *d, Arena *a, Pos from, Pos to) {
  const Source *s = source_of(d, from.source);
  const char *line;
  size_t n, end = to.col + (to.len ? to.len : 1) - 1;
  if (!s || !s->text || from.source != to.source || from.line != to.line || !from.line ||
      !find_line(s, from.line, &line, &n))
    return NULL;
  if (from.col < 1 || end < from.col || end > n) return NULL;
  for (size_t i = 0; i < end; i++)
    if ((unsigned char)line[i] >= 0x80) return NULL;
  return arena_text(a, line + from.col - 1, end - from.col + 1);
}

typedef struct Paint {
  const char *error, *warning, *note, *hint, *bold, *off;
} Paint;
static const Paint plain = {"", "", "", "", "", ""};
static const Paint coloured = {"\033[1;31m", "\033[1;35m", "\033[1;36m",
                               "\033[1;32m", "\033[1m",    "\033[0m"};

// Prints the characters from number `first` to first + MAX_SHOWN - 1 of the line, counted from 1.
// Prints "..." for what is left out on either side.
static void put_line(FILE *out, const char *line, size_t n, uint32_t first) {
  uint32_t col = 1;
  char text[SHOWN];
  if (first > 1) fputs("...", out);
  for (size_t i = 0; i < n; col++) {
    int width;
    if (col == first + MAX_SHOWN) {
      fputs("...", out);
      break;
    }
    bool shown = col >= first;
    if (shown && line[i] == '\t') {
      fputc('\t', out);
      i++;
    } else {
      i += show_char(line + i, n - i, text, &width);
      if (shown) fputs(text, out);
    }
  }
}

// Prints the marks below a line that put_line printed: blanks up to column at.col (tabs stay tabs),
// then at.len marks.
static void put_caret(FILE *out, const char *line, size_t n, uint32_t first, Pos at) {
  uint32_t col = 1, last = at.col + (at.len ? at.len : 1) - 1;
  char text[SHOWN];
  if (last > first + MAX_SHOWN - 1) last = first + MAX_SHOWN - 1;
  if (first > 1) fputs("   ", out);
  for (size_t i = 0; col <= last; col++) {
    int width = 1;
    bool tab = i < n && line[i] == '\t';
    if (tab)
      i++;
    else if (i < n)
      i += show_char(line + i, n - i, text, &width);
    else if (col > at.col)
      break; // marks end at most one column past the end of the line
    if (col < first) continue;
    for (int w = 0; w < width; w++)
      fputc(col < at.col ? (tab ? '\t' : ' ') : col == at.col && w == 0 ? '^' : '~', out);
  }
}

static void put_excerpt(const Diag *d, FILE *out, Pos at, const Paint *paint, const char *colour) {
  const Source *s = source_of(d, at.source);
  const char *line;
  size_t n;
  if (!s || !s->text || at.line == 0 || !find_line(s, at.line, &line, &n)) return;
  uint32_t first = at.col > 100 ? at.col - 60 : 1;
  fputs("  ", out);
  put_line(out, line, n, first);
  fputc('\n', out);
  if (at.col == 0) return;
  fprintf(out, "  %s", colour);
  put_caret(out, line, n, first, at);
  fprintf(out, "%s\n", paint->off);
}

static void put_place(const Diag *d, FILE *out, Pos at) {
  const Source *s = source_of(d, at.source);
  if (s)
    put_text(d, out, s->name);
  else
    fputs(d->program ? d->program : "meshc", out);
  if (at.line) fprintf(out, ":%u", at.line);
  if (at.line && at.col) fprintf(out, ":%u", at.col);
  fputs(": ", out);
}

static void put_message(const Diag *d, FILE *out, const Message *m, const Paint *paint) {
  const char *colour = m->warning ? paint->warning : paint->error;
  fputs(paint->bold, out);
  put_place(d, out, m->at);
  fprintf(out, "%s%s%s:%s ", paint->off, colour, m->warning ? "warning" : "error", paint->off);
  put_text(d, out, m->text);
  fprintf(out, " [%s]\n", diag_code(m->id));
  put_excerpt(d, out, m->at, paint, colour);
  for (uint32_t i = 0; i < m->note.n; i++) {
    const Note *note = &m->note.at[i];
    fputs(paint->bold, out);
    put_place(d, out, note->at);
    fprintf(out, "%s%snote:%s ", paint->off, paint->note, paint->off);
    put_text(d, out, note->text);
    fputc('\n', out);
    put_excerpt(d, out, note->at, paint, paint->note);
  }
  const char *hint = hint_of(d, m->hint);
  if (!hint) return;
  fprintf(out, "%shint:%s ", paint->hint, paint->off);
  put_text(d, out, hint);
  fputc('\n', out);
}

static void put_more(Diag *d, FILE *out, bool warning) {
  int more = diag_omitted(d, warning);
  int news = more - d->more_printed[warning];
  d->more_printed[warning] = more;
  if (news > 0)
    fprintf(out, "%d more %s%s\n", news, warning ? "warning" : "error", news > 1 ? "s" : "");
}

void diag_print(Diag *d, FILE *out, bool colour) {
  for (; d->printed < d->message.n; d->printed++)
    put_message(d, out, &d->message.at[d->printed], colour ? &coloured : &plain);
  put_more(d, out, false);
  put_more(d, out, true);
}
