// Mutations of texts that keep their form (fuzz_files.h): lines, CSV, JSON.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite/common/fuzz_files.h"

// A part of a text.
typedef struct Part {
  size_t at, n;
} Part;

// Replaces a part of t by n bytes of `by`.
static void replace(FuzzText *t, Part p, const char *by, size_t n) {
  static FuzzText out;
  out.n = 0;
  fuzz_put(&out, t->at, p.at);
  fuzz_put(&out, by, n);
  fuzz_put(&out, t->at + p.at + p.n, t->n - p.at - p.n);
  fuzz_copy(t, &out);
}

// Returns the bytes around a place up to one of `ends`, or to an end of the text.
static Part part_around(const FuzzText *t, size_t at, const char *ends) {
  size_t from = at, to = at;
  while (from > 0 && !strchr(ends, t->at[from - 1])) from--;
  while (to < t->n && !strchr(ends, t->at[to])) to++;
  return (Part){from, to - from};
}

static size_t somewhere(const FuzzText *t) { return fuzz_below((uint32_t)t->n + 1); }

// -- lines --------------------------------------------------------------------------------------

static Part some_line(const FuzzText *t) {
  Part p = part_around(t, somewhere(t), "\n");
  p.n += p.at + p.n < t->n; // with its end
  return p;
}

bool fuzz_lines(FuzzText *t) {
  static FuzzText kept;
  Part p = some_line(t), other = some_line(t);
  kept.n = 0;
  fuzz_put(&kept, t->at + other.at, other.n);
  switch (fuzz_below(6)) {
  case 0: replace(t, p, "", 0); break;
  case 1: replace(t, p, kept.at, kept.n); break;
  case 2: replace(t, (Part){p.at, 0}, kept.at, kept.n); break;
  case 3: replace(t, (Part){p.at + p.n, 0}, "\n", 1); break;
  case 4: // without its end: two lines become one
    if (p.n) replace(t, (Part){p.at + p.n - 1, 1}, "", 0);
    break;
  case 5: // a word of another line
    p = part_around(t, somewhere(t), " \n");
    other = part_around(&kept, somewhere(&kept), " \n");
    replace(t, p, kept.at + other.at, other.n);
    break;
  }
  return true;
}

// -- CSV ----------------------------------------------------------------------------------------

static const char *const fields[] = {"",
                                     " ",
                                     "0",
                                     "-",
                                     ".",
                                     "+1",
                                     "1e999",
                                     "-1e-999",
                                     "0x1p3",
                                     "1e",
                                     "nan",
                                     "inf",
                                     "NA",
                                     "?",
                                     "1,5",
                                     "1.234.567,8",
                                     "123456789012345678901234567890",
                                     "0.000000000000000000000000000001",
                                     "\"",
                                     "\"\"",
                                     "\"\"\"",
                                     "\"a,b;c\"",
                                     "\"a\nb\"",
                                     "\"a\"b",
                                     "a\"b\"",
                                     "\xef\xbb\xbf",
                                     "\xff\xfe",
                                     "2024-02-30",
                                     "2024-12-31T23:59:60Z",
                                     "0000-00-00",
                                     "99999-01-01",
                                     "1999-12-31 00:00+99:99",
                                     "elm",
                                     "a \"b\""};
static const char *const marks[] = {",",    ";",    "\t", "|", "\n", "\r",
                                    "\r\n", "\n\n", "\"", "#", " "};
enum { FIELDS = sizeof fields / sizeof *fields, MARKS = sizeof marks / sizeof *marks };

static void put_mark(FuzzText *t, Part p) {
  const char *mark = marks[fuzz_below(MARKS)];
  replace(t, p, mark, strlen(mark));
}

// Writes a field with quotes around it, those inside doubled.
static void quote(FuzzText *t, Part p) {
  static FuzzText out;
  out.n = 0;
  fuzz_put(&out, "\"", 1);
  for (size_t i = 0; i < p.n; i++) {
    if (t->at[p.at + i] == '"') fuzz_put(&out, "\"", 1);
    fuzz_put(&out, t->at + p.at + i, 1);
  }
  fuzz_put(&out, "\"", 1);
  replace(t, p, out.at, out.n);
}

// Writes a line many times.
static void repeat_line(FuzzText *t) {
  static FuzzText out;
  Part p = some_line(t);
  out.n = 0;
  for (uint32_t k = 1 + fuzz_below(64); k; k--) fuzz_put(&out, t->at + p.at, p.n);
  replace(t, p, out.at, out.n);
}

// Exchanges every mark of one kind, as if another program had written the file.
static void exchange_marks(FuzzText *t) {
  static const char kinds[] = ",;\t|\n\r .";
  char from = kinds[fuzz_below(sizeof kinds - 1)], to = kinds[fuzz_below(sizeof kinds - 1)];
  for (size_t i = 0; i < t->n; i++)
    if (t->at[i] == from) t->at[i] = to;
}

bool fuzz_csv(FuzzText *t) {
  Part field = part_around(t, somewhere(t), ",;\t\n");
  const char *by = fields[fuzz_below(FIELDS)];
  switch (fuzz_below(8)) {
  case 0:
  case 1: replace(t, field, by, strlen(by)); break;
  case 2: quote(t, field); break;
  case 3: put_mark(t, (Part){somewhere(t), 0}); break;
  case 4: put_mark(t, (Part){field.at + field.n, field.at + field.n < t->n}); break;
  case 5: repeat_line(t); break;
  case 6: exchange_marks(t); break;
  case 7: return fuzz_lines(t);
  }
  return true;
}

// -- JSON ---------------------------------------------------------------------------------------

// A value of a document, and where it is: under a key of an object, or at an index of an array.
typedef struct Spot {
  json_t *parent, *value;
  const char *key;
  size_t index;
} Spot;

// Finds value number *left of x, itself not counted; those inside of a value follow it.
static bool find_spot(json_t *x, uint32_t *left, Spot *out) {
  const char *key;
  size_t i;
  json_t *value;
  json_object_foreach(x, key, value) {
    if ((*left)-- == 0) return *out = (Spot){x, value, key, 0}, true;
    if (find_spot(value, left, out)) return true;
  }
  json_array_foreach(x, i, value) {
    if ((*left)-- == 0) return *out = (Spot){x, value, NULL, i}, true;
    if (find_spot(value, left, out)) return true;
  }
  return false;
}

static bool some_spot(json_t *root, Spot *out) {
  uint32_t all = UINT32_MAX;
  (void)find_spot(root, &all, out);
  all = UINT32_MAX - all;
  if (!all) return false;
  uint32_t left = fuzz_below(all);
  return find_spot(root, &left, out);
}

// Puts a value, which it takes, in the place of another.
static void set_spot(const Spot *s, json_t *value) {
  if (s->key)
    json_object_set_new(s->parent, s->key, value);
  else
    json_array_set_new(s->parent, s->index, value);
}

static void remove_spot(const Spot *s) {
  if (s->key)
    json_object_del(s->parent, s->key);
  else
    json_array_remove(s->parent, s->index);
}

static json_t *odd_value(void) {
  static const char *const texts[] = {"",       " ",        "..",           "/",
                                      "a/../b", "\xc4\xa0", "\xe2\x96\x81", "0"};
  char large[3000];
  switch (fuzz_below(8)) {
  case 0: return json_integer((json_int_t)fuzz_odd());
  case 1: return json_integer(-(json_int_t)fuzz_below(300));
  case 2: return json_real(fuzz_below(2) ? 1e300 : -0.5);
  case 3: return fuzz_below(2) ? json_true() : json_null();
  case 4: return json_string(texts[fuzz_below(sizeof texts / sizeof *texts)]);
  case 5: return fuzz_below(2) ? json_object() : json_array();
  case 6:
    memset(large, 'x', sizeof large);
    return json_stringn(large, 1 + fuzz_below(sizeof large));
  default: return json_integer((json_int_t)fuzz_below(1000));
  }
}

static json_t *nested(json_t *value) {
  for (uint32_t k = 1 + fuzz_below(fuzz_below(8) ? 3 : 1500); k; k--) {
    json_t *around = json_array();
    json_array_append_new(around, value);
    value = around;
  }
  return value;
}

// Changes a number by a little, or a text by one byte.
static void nudge(const Spot *s) {
  char text[200];
  const char *old = json_string_value(s->value);
  if (json_is_integer(s->value))
    set_spot(
        s, json_integer((json_int_t)((uint64_t)json_integer_value(s->value) + fuzz_below(5) - 2)));
  if (!old || !*old || strlen(old) >= sizeof text) return;
  size_t n = strlen(old), at = fuzz_below((uint32_t)n);
  memcpy(text, old, n + 1);
  text[at] = (char)(1 + fuzz_below(127));
  json_t *value = json_stringn(text, fuzz_below(4) ? n : at);
  if (value) set_spot(s, value);
}

static void change_spot(json_t *root, const Spot *s) {
  Spot other;
  if (!some_spot(root, &other)) return;
  switch (fuzz_below(7)) {
  case 0: remove_spot(s); break;
  case 1: set_spot(s, odd_value()); break;
  case 2: set_spot(s, json_deep_copy(other.value)); break;
  case 3: set_spot(s, nested(json_deep_copy(s->value))); break;
  case 4: // under the key of another value
    if (json_is_object(s->parent) && other.key)
      json_object_set_new(s->parent, other.key, json_deep_copy(s->value));
    break;
  case 5:
    if (json_is_array(s->parent)) json_array_insert_new(s->parent, s->index, odd_value());
    break;
  case 6: nudge(s); break;
  }
}

bool fuzz_json(FuzzText *t) {
  json_t *root = json_loadb(t->at, t->n, 0, NULL);
  Spot s;
  if (!root) return false;
  if (some_spot(root, &s)) change_spot(root, &s);
  char *text = json_dumps(root, fuzz_below(2) ? JSON_COMPACT : JSON_INDENT(1));
  json_decref(root);
  if (!text) return false;
  t->n = 0;
  t->at[0] = 0;
  fuzz_put(t, text, strlen(text));
  free(text);
  return true;
}
