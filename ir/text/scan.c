// Scans words, numbers, lists, records and origins of graph text (scan_internal.h). A record is the
// text of a struct, {name = value, ...}.
#include "ir/text/scan_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILES = 10000, LONGEST_NUMBER = 63, MAX_FACTOR = 1 << 30 };

static Pos place_of(const Scanner *s, const char *at) {
  uint32_t col = 1;
  for (const char *p = s->line_start; p < at; p++) col += ((unsigned char)*p & 0xc0) != 0x80;
  return (Pos){.source = s->source, .line = s->line, .col = col};
}

bool scan_fail(Scanner *s, const char *at, const char *fmt, ...) {
  if (s->failed) return false;
  s->failed = true;
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(s->arena, fmt, ap);
  va_end(ap);
  diag_error(s->diag, DIAG_SYNTAX, place_of(s, at), "%s", text);
  return false;
}

static void skip_blanks(Scanner *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t')) s->p++;
}

const char *scan_here(Scanner *s) {
  skip_blanks(s);
  return s->p;
}

static bool at_line_end(const Scanner *s) {
  return s->p == s->end || *s->p == '\n' ||
         (*s->p == '\r' && (s->p + 1 == s->end || s->p[1] == '\n'));
}

static void skip_to_line_end(Scanner *s) {
  const char *stop = memchr(s->p, '\n', (size_t)(s->end - s->p));
  s->p = stop ? stop : s->end;
}

bool scan_line(Scanner *s) {
  while (!s->failed) {
    if (s->line) skip_to_line_end(s);
    if (s->line && s->p < s->end) s->p++;
    if (s->p == s->end) return false;
    s->line++;
    s->line_start = s->p;
    skip_blanks(s);
    if (!at_line_end(s) && *s->p != '#') return true;
  }
  return false;
}

bool scan_accept(Scanner *s, const char *mark) {
  skip_blanks(s);
  size_t n = strlen(mark);
  if (s->failed || (size_t)(s->end - s->p) < n || memcmp(s->p, mark, n) != 0) return false;
  s->p += n;
  return true;
}

bool scan_expect(Scanner *s, const char *mark) {
  return scan_accept(s, mark) || scan_fail(s, s->p, "expected %s", mark);
}

bool scan_accept_word(Scanner *s, const char *word) {
  skip_blanks(s);
  const char *here = s->p;
  if (!scan_accept(s, word)) return false;
  if (s->p == s->end || !is_word_char((unsigned char)*s->p)) return true;
  s->p = here;
  return false;
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads an escape after its backslash. Returns the character that it means, or -1 if it is not
// valid.
static int escaped(Scanner *s) {
  if (s->p == s->end) return -1;
  char c = *s->p++;
  if (c == '\\' || c == '"') return c;
  if (c == 'n') return '\n';
  if (c == 't') return '\t';
  if (c != 'x' || s->end - s->p < 2) return -1;
  int high = hex_digit(s->p[0]), low = hex_digit(s->p[1]);
  if (high < 0 || low < 0 || high + low == 0) return -1;
  s->p += 2;
  return high * 16 + low;
}

// Reads text and replaces escapes by their characters. With `quoted` it reads up to the closing
// quote and past it, otherwise up to the end of the line. Returns the interned text, or NULL after
// an error.
static const char *unescape(Scanner *s, bool quoted) {
  const char *from = s->p;
  size_t n = 0;
  const char *stop = from;
  while (stop < s->end && *stop != '\n' && !(quoted && *stop == '"'))
    stop += *stop == '\\' && s->end - stop > 1 ? 2 : 1;
  if (quoted && (stop == s->end || *stop != '"')) {
    scan_fail(s, from, "the string has no end");
    return NULL;
  }
  char *text = arena_alloc(s->arena, (size_t)(stop - from) + 1);
  for (;;) {
    if (quoted ? s->p == stop : at_line_end(s)) break;
    int c = s->p < stop ? (unsigned char)*s->p++ : -1;
    if (c == '\\')
      c = escaped(s);
    else if (c < 0x20 || c == 0x7f)
      c = -1;
    if (c < 0) {
      scan_fail(s, s->p < stop ? s->p : stop, quoted ? "bad string" : "bad text");
      return NULL;
    }
    text[n++] = (char)c;
  }
  s->p += quoted;
  return intern_n(s->names, text, n);
}

typedef bool CharTest(unsigned char c);
static bool word_char(unsigned char c) { return is_word_char(c); }
static bool comment_char(unsigned char c) { return is_comment_char(c); }

static const char *any_word(Scanner *s, CharTest *belongs) {
  if (scan_accept(s, "\"")) return unescape(s, true);
  const char *from = s->p;
  while (s->p < s->end && belongs((unsigned char)*s->p)) s->p++;
  if (!s->failed && s->p > from) return intern_n(s->names, from, (size_t)(s->p - from));
  scan_fail(s, from, "expected a name");
  return NULL;
}

const char *scan_word(Scanner *s) { return any_word(s, word_char); }

// Copies the characters of the next number to `text`, which has room for LONGEST_NUMBER characters
// and a NUL. Does not advance the scanner. Returns false after an error.
static bool number_text(Scanner *s, char *text) {
  skip_blanks(s);
  size_t n = 0;
  while (s->p + n < s->end && is_word_char((unsigned char)s->p[n]) && n <= LONGEST_NUMBER) n++;
  if (s->failed || n == 0 || n > LONGEST_NUMBER) return scan_fail(s, s->p, "expected a number");
  memcpy(text, s->p, n);
  text[n] = 0;
  return true;
}

bool scan_long(Scanner *s, int64_t low, int64_t high, int64_t *out) {
  char text[LONGEST_NUMBER + 1], *end;
  if (!number_text(s, text)) return false;
  errno = 0;
  long long x = strtoll(text, &end, 10);
  if (*end || errno) return scan_fail(s, s->p, "%s is not an integer", text);
  if (x < low || x > high)
    return scan_fail(s, s->p, "%lld is not within %" PRId64 " to %" PRId64, x, low, high);
  s->p += strlen(text);
  *out = x;
  return true;
}

bool scan_seed(Scanner *s, uint64_t *out) {
  char text[LONGEST_NUMBER + 1], *end;
  if (!number_text(s, text)) return false;
  errno = 0;
  unsigned long long x = strtoull(text, &end, 10);
  if (*end || errno || *text == '-') return scan_fail(s, s->p, "%s is not a seed", text);
  s->p += strlen(text);
  *out = x;
  return true;
}

bool scan_real(Scanner *s, double *out) {
  char text[LONGEST_NUMBER + 1], *end;
  if (!number_text(s, text)) return false;
  double x = strtod(text, &end);
  if (*end) return scan_fail(s, s->p, "%s is not a number", text);
  s->p += strlen(text);
  *out = x;
  return true;
}

bool scan_reals(Scanner *s, int64_t *n, const double **out) {
  VEC(double) v = {0};
  if (!scan_expect(s, "[")) return false;
  while (!scan_accept(s, "]")) {
    double x = 0;
    if ((v.n && !scan_expect(s, ",")) || !scan_real(s, &x)) return false;
    vec_push(s->arena, v) = x;
  }
  *n = v.n;
  *out = v.at;
  return true;
}

bool scan_type(Scanner *s, Dtype *out) {
  const char *at = scan_here(s), *text = scan_word(s);
  if (!text) return false;
  return dtype_parse(text, out) || scan_fail(s, at, "no element type is called %s", text);
}

int scan_enum(Scanner *s, const EnumNames *c) {
  const char *at = scan_here(s), *text = scan_word(s);
  if (!text) return -1;
  int i = enum_find(c, text);
  if (i < 0) scan_fail(s, at, "%s is unknown here", text);
  return i;
}

bool scan_node(Scanner *s, NodeId last, NodeId *out) {
  int64_t n;
  if (!scan_expect(s, "%") || !scan_long(s, 0, last, &n)) return false;
  *out = (NodeId)n;
  return true;
}

// -- names of dims, axes, declarations ------------------------------------------------------------

bool scan_dim(Scanner *s, DimId *out) {
  const char *at = scan_here(s), *name = scan_word(s);
  if (!name) return false;
  *out = dim_find(s->g->dims, name);
  return *out || scan_fail(s, at, "no dim is called %s", name);
}

bool scan_whole(Scanner *s, DimId *out) {
  const char *at = scan_here(s);
  if (!scan_dim(s, out)) return false;
  const Dim *d = dim_get(s->g->dims, *out);
  return d->whole == *out || scan_fail(s, at, "%s is a block", d->name);
}

bool scan_dims(Scanner *s, uint8_t *n, DimId *d) {
  *n = 0;
  if (!scan_expect(s, "[")) return false;
  while (!scan_accept(s, "]")) {
    if (*n == MAX_RANK) return scan_fail(s, s->p, "more than %d dims", MAX_RANK);
    if ((*n && !scan_expect(s, ",")) || !scan_dim(s, &d[*n])) return false;
    (*n)++;
  }
  return true;
}

bool scan_order(Scanner *s, uint8_t *n, DimId *d) {
  const char *at = scan_here(s);
  if (!scan_dims(s, n, d)) return false;
  for (int i = 0; i < *n; i++) {
    if (dim_get(s->g->dims, d[i])->whole != d[i]) return scan_fail(s, at, "a block stands here");
    for (int j = 0; j < i; j++)
      if (d[i] == d[j]) return scan_fail(s, at, "a dim occurs here twice");
  }
  return true;
}

bool scan_axis(Scanner *s, uint8_t *out) {
  const char *at = scan_here(s), *name = scan_word(s);
  if (!name) return false;
  int axis = mesh_axis(s->g->mesh, name);
  if (axis < 0) return scan_fail(s, at, "the mesh has no axis %s", name);
  *out = (uint8_t)axis;
  return true;
}

bool scan_axes(Scanner *s, Axes *out) {
  *out = (Axes){0};
  if (!scan_expect(s, "[")) return false;
  while (!scan_accept(s, "]")) {
    uint8_t axis = 0;
    const char *at = scan_here(s);
    if ((out->n && !scan_expect(s, ",")) || !scan_axis(s, &axis)) return false;
    if (axes_has(*out, axis)) return scan_fail(s, at, "an axis occurs here twice");
    out->at[out->n++] = axis;
  }
  return true;
}

bool scan_decl(Scanner *s, DeclId *out) {
  const char *at = scan_here(s), *name = scan_word(s);
  if (!name) return false;
  *out = graph_find_decl(s->g, name);
  return *out || scan_fail(s, at, "nothing is declared as %s", name);
}

bool scan_affine(Scanner *s, Affine *out) {
  int64_t n;
  const double *x;
  const char *at = scan_here(s);
  if (!scan_reals(s, &n, &x)) return false;
  if (n != 4) return scan_fail(s, at, "four numbers stand here");
  for (int i = 0; i < 4; i++)
    if (!(x[i] >= -(double)MAX_FACTOR && x[i] <= (double)MAX_FACTOR))
      return scan_fail(s, at, "an affine has numbers up to %d", (int)MAX_FACTOR);
  *out = (Affine){(int64_t)x[0], (int64_t)x[1], (int64_t)x[2], (int64_t)x[3]};
  return true;
}

// -- records ------------------------------------------------------------------------------------

static bool scan_integer(Scanner *s, const RecordField *f, void *at) {
  int64_t low = f->most ? 1 : f->size == sizeof(int64_t) ? INT64_MIN : INT32_MIN, x;
  int64_t high = f->most ? f->most : f->size == sizeof(int64_t) ? INT64_MAX : INT32_MAX;
  if (!scan_long(s, low, high, &x)) return false;
  if (f->size == sizeof(int64_t))
    *(int64_t *)at = x;
  else
    *(uint32_t *)at = (uint32_t)x;
  return true;
}

static bool scan_enum_at(Scanner *s, const EnumNames *names, unsigned *out) {
  int i = scan_enum(s, names);
  if (i >= 0) *out = (unsigned)i;
  return i >= 0;
}

static bool scan_num(Scanner *s, double *out) {
  int64_t n;
  const double *x;
  const char *at = scan_here(s);
  if (!scan_reals(s, &n, &x)) return false;
  if (n < 1 || n > 2) return scan_fail(s, at, "expected one or two numbers");
  memcpy(out, x, (size_t)n * sizeof *x);
  return true;
}

static bool scan_dim_list(Scanner *s, uint8_t *n, const DimId **out) {
  DimId d[MAX_RANK];
  if (!scan_dims(s, n, d)) return false;
  *out = arena_copy(s->arena, d, *n * sizeof *d);
  return true;
}

static bool scan_field(Scanner *s, const RecordField *f, void *record) {
  void *at = (char *)record + f->offset, *list = (char *)record + f->list;
  if (f->kind != FIELD_BOOL && !scan_expect(s, "=")) return false;
  switch (f->kind) {
  case FIELD_REAL: return scan_real(s, at);
  case FIELD_INT: return scan_integer(s, f, at);
  case FIELD_SEED: return scan_seed(s, at);
  case FIELD_BOOL: return *(bool *)at = true;
  case FIELD_TEXT: return (*(const char **)at = scan_word(s)) != NULL;
  case FIELD_ENUM: return scan_enum_at(s, f->names, at);
  case FIELD_DECL: return scan_decl(s, at);
  case FIELD_DIMS: return scan_dim_list(s, at, list);
  case FIELD_AXES: return scan_axes(s, at);
  case FIELD_NUM: return scan_num(s, at);
  case FIELD_REALS: return scan_reals(s, at, list);
  case FIELD_AFFINE: return scan_affine(s, at);
  }
  return false;
}

static const RecordField *field_find(const Record *r, const char *name) {
  for (int i = 0; i < r->n; i++)
    if (strcmp(r->field[i].name, name) == 0) return &r->field[i];
  return NULL;
}

bool scan_record(Scanner *s, const Record *r, void *record) {
  if (r->kinds && !scan_enum_at(s, r->kinds, record)) return false;
  return scan_expect(s, "{") && scan_fields(s, r, record);
}

bool scan_fields(Scanner *s, const Record *r, void *record) {
  for (bool first = true; !scan_accept(s, "}"); first = false) {
    if (!first && !scan_expect(s, ",")) return false;
    const char *at = scan_here(s), *name = scan_word(s);
    if (!name) return false;
    const RecordField *f = field_find(r, name);
    if (!f) return scan_fail(s, at, "no field is called %s", name);
    if (!scan_field(s, f, record)) return false;
  }
  return true;
}

// -- origins -------------------------------------------------------------------------------------

static bool file_source(Scanner *s, const char *name, uint32_t *out) {
  for (uint32_t i = s->file.n; i-- > 0;) {
    if (s->file.at[i] != name) continue;
    *out = s->file_source.at[i];
    return true;
  }
  if (s->file.n == MAX_FILES) return scan_fail(s, s->p, "more than %d files", MAX_FILES);
  vec_push(s->arena, s->file) = name;
  *out = vec_push(s->arena, s->file_source) = diag_source(s->diag, name, NULL, 0);
  return true;
}

// Skips "-", which replaces an absent part of an origin (the comment that says where a node comes
// from). Returns false if the part is present.
static bool accept_absent(Scanner *s) {
  skip_blanks(s);
  if (s->p == s->end || *s->p != '-') return false;
  if (s->end - s->p > 1 && is_comment_char((unsigned char)s->p[1])) return false;
  s->p++;
  return true;
}

// Reads a place: "file:line:col", "file:line", or "-" if it is absent.
static bool scan_place(Scanner *s, Pos *out) {
  if (accept_absent(s)) return true;
  const char *name = any_word(s, comment_char);
  int64_t line, col = 0;
  if (!name || !scan_expect(s, ":") || !scan_long(s, 1, UINT32_MAX, &line)) return false;
  bool more = s->end - s->p > 1 && s->p[0] == ':' && s->p[1] != ' ';
  if (more && (!scan_expect(s, ":") || !scan_long(s, 1, UINT32_MAX, &col))) return false;
  out->line = (uint32_t)line;
  out->col = (uint32_t)col;
  return file_source(s, name, &out->source);
}

static bool scan_value(Scanner *s, const char **value) {
  return accept_absent(s) || (*value = any_word(s, comment_char)) != NULL;
}

static void skip_note(Scanner *s) {
  while (!at_line_end(s) && !(s->end - s->p > 3 && memcmp(s->p, "  # ", 4) == 0)) s->p++;
}

bool scan_origin(Scanner *s, Pos *at, const char **value, const char **why) {
  *at = (Pos){0};
  if (value && scan_accept(s, "@")) skip_note(s);
  if (scan_accept(s, "#")) {
    skip_blanks(s);
    if (!scan_place(s, at)) return false;
    if (value && scan_accept(s, ":") && !scan_value(s, value)) return false;
    if (why && scan_accept(s, ":")) {
      if (s->p < s->end && *s->p == ' ') s->p++;
      if (!(*why = unescape(s, false))) return false;
    }
  }
  skip_blanks(s);
  return at_line_end(s) || scan_fail(s, s->p, "unexpected text");
}
