// Prints the JSON of a command at the end of the run: its result and its diagnostics as one object.
// Input: the object that the command gave to json_finish, and Session.diag.
//
//   with a result      { "schema": "meshc.check/1", ..., "diagnostics": [] }
//   without a result   { "schema": "meshc.diagnostics/1", "diagnostics": [ { ... } ] }
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "frontend/driver/session.h"
#include "ir/base/abrupt.h"

static json_t *result; // set by json_finish, printed and freed by json_end
static bool asked;     // the command line has --json
static int output = STDOUT_FILENO;
// Set by the first of json_end and print_abrupt, which then prints the JSON object; a later call
// prints nothing. print_abrupt may run in any thread.
static atomic_flag printed = ATOMIC_FLAG_INIT;

// -- text ---------------------------------------------------------------------------------------

// Returns the length in bytes of the UTF-8 character at p, where n bytes are left. Returns 0 if the
// bytes are not valid UTF-8, such as overlong forms and surrogates (RFC 3629).
static size_t character(const unsigned char *p, size_t n) {
  static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
  size_t k = p[0] < 0x80   ? 1
             : p[0] < 0xc2 ? 0
             : p[0] < 0xe0 ? 2
             : p[0] < 0xf0 ? 3
             : p[0] < 0xf5 ? 4
                           : 0;
  if (k < 2 || k > n) return k > n ? 0 : k;
  unsigned value = p[0] & (0x7fu >> k);
  for (size_t i = 1; i < k; i++) {
    if ((p[i] & 0xc0) != 0x80) return 0;
    value = value << 6 | (p[i] & 0x3f);
  }
  return value < least[k] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0 : k;
}

json_t *json_text(const char *text) {
  if (!text) return NULL;
  size_t n = strlen(text), out = 0;
  char *copy = mem_alloc(4 * n + 1);
  for (size_t i = 0; i < n;) {
    size_t k = character((const unsigned char *)text + i, n - i);
    if (k)
      memcpy(copy + out, text + i, k);
    else
      snprintf(copy + out, 5, "\\x%02x", (unsigned char)text[i]);
    out += k ? k : 4;
    i += k ? k : 1;
  }
  json_t *string = json_stringn(copy, out);
  free(copy);
  return string;
}

// -- diagnostics --------------------------------------------------------------------------------

// Adds "file", "line" and "column" of position `at` to a JSON object. For a position in the text of
// an option, "file" is the option's name. A value that is unknown is null.
static void place_json(json_t *out, const Diag *d, Pos at) {
  json_object_set_new(out, "file",
                      at.source ? json_text(diag_source_name(d, at.source)) : json_null());
  json_object_set_new(out, "line", at.line ? json_integer(at.line) : json_null());
  json_object_set_new(out, "column", at.line && at.col ? json_integer(at.col) : json_null());
}

static json_t *entry_json(const Diag *d, uint32_t i) {
  DiagEntry e = diag_entry(d, i);
  json_t *out = json_object(), *notes = json_array();
  json_object_set_new(out, "severity", json_string(e.severity));
  json_object_set_new(out, "code", json_string(e.code));
  json_object_set_new(out, "message", json_text(e.text));
  place_json(out, d, e.at);
  json_object_set_new(out, "hint", e.hint ? json_text(e.hint) : json_null());
  for (uint32_t k = 0; k < e.notes; k++) {
    DiagNote n = diag_entry_note(d, i, k);
    json_t *note = json_object();
    json_object_set_new(note, "message", json_text(n.text));
    place_json(note, d, n.at);
    json_array_append_new(notes, note);
  }
  json_object_set_new(out, "notes", notes);
  return out;
}

void json_diagnostics(json_t *out, const Diag *d) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < diag_count(d); i++) json_array_append_new(list, entry_json(d, i));
  json_object_set_new(out, "diagnostics", list);
  if (diag_omitted(d, false))
    json_object_set_new(out, "omitted_errors", json_integer(diag_omitted(d, false)));
  if (diag_omitted(d, true))
    json_object_set_new(out, "omitted_warnings", json_integer(diag_omitted(d, true)));
}

// -- the object of the command ------------------------------------------------------------------

int json_finish(json_t *object) {
  json_decref(result);
  result = object;
  return 0;
}

void json_end(const Session *s) {
  if (!result && (!asked || !diag_count(s->diag)))
    // No object: the command has no JSON, has written it to a file, or another rank prints it.
    return;
  if (!result) result = json_pack("{s:s}", "schema", "meshc.diagnostics/1");
  json_diagnostics(result, s->diag);
  // ASCII, so that no control characters reach a terminal
  char *text = json_dumps(result, JSON_INDENT(2) | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII);
  if (text && !atomic_flag_test_and_set(&printed)) {
    if (output == STDOUT_FILENO)
      fputs(text, stdout), fputc('\n', stdout); // main reports a failed write
    else
      abrupt_write(output, text, strlen(text)), abrupt_write(output, "\n", 1);
  }
  free(text);
  json_decref(result);
  result = NULL;
}

// -- the object of an abrupt end, made without allocation ---------------------------------------

// A buffer for at most 8192 bytes of text; bytes beyond that are cut off.
typedef struct Plain {
  char text[8192];
  size_t n;
} Plain;

static void plain_put(Plain *p, const char *text) {
  size_t n = strlen(text);
  if (n > sizeof p->text - p->n) n = sizeof p->text - p->n;
  memcpy(p->text + p->n, text, n);
  p->n += n;
}

static void plain_escape(Plain *p, const char *before, unsigned value, int digits) {
  plain_put(p, before);
  for (int i = digits - 1; i >= 0; i--)
    plain_put(p, (const char[]){"0123456789abcdef"[value >> 4 * i & 15], '\0'});
}

// Appends a JSON string, with the same escapes as json_text and json_dumps, in ASCII.
static void plain_string(Plain *p, const char *text) {
  size_t left = strlen(text);
  plain_put(p, "\"");
  for (const unsigned char *c = (const unsigned char *)text; left > 0;) {
    size_t k = character(c, left);
    unsigned value = k < 2 ? c[0] : c[0] & (0x7fu >> k);
    for (size_t i = 1; i < k; i++) value = value << 6 | (c[i] & 0x3f);
    if (k == 0)
      plain_escape(p, "\\\\x", value, 2);
    else if (value == '"' || value == '\\')
      plain_put(p, (const char[]){'\\', (char)value, '\0'});
    else if (value >= 0x20 && value < 0x7f)
      plain_put(p, (const char[]){(char)value, '\0'});
    else if (value < 0x10000)
      plain_escape(p, "\\u", value, 4);
    else {
      plain_escape(p, "\\u", 0xd800 + ((value - 0x10000) >> 10), 4);
      plain_escape(p, "\\u", 0xdc00 + ((value - 0x10000) & 0x3ff), 4);
    }
    c += k ? k : 1;
    left -= k ? k : 1;
  }
  plain_put(p, "\"");
}

// Prints an object with one error that has no position. ir/base/abrupt.h calls it when the process
// cannot continue, so it does not allocate. If json_end has printed an object, it prints nothing.
static void print_abrupt(DiagId id, const char *message, const char *hint) {
  static Plain p;
  if (atomic_flag_test_and_set(&printed)) return;
  plain_put(&p, "{\n  \"schema\": \"meshc.diagnostics/1\",\n  \"diagnostics\": [\n    {\n      "
                "\"severity\": \"error\",\n      \"code\": ");
  plain_string(&p, diag_code(id));
  plain_put(&p, ",\n      \"message\": ");
  plain_string(&p, message);
  plain_put(
      &p,
      ",\n      \"file\": null,\n      \"line\": null,\n      \"column\": null,\n      \"hint\": ");
  if (hint)
    plain_string(&p, hint);
  else
    plain_put(&p, "null");
  plain_put(&p, ",\n      \"notes\": []\n    }\n  ]\n}\n");
  abrupt_write(output, p.text, p.n);
}

void json_watch(int argc, char **argv) {
  for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
    asked = asked || strcmp(argv[i], option_name(OPTION_JSON)) == 0;
  if (asked) abrupt_listen(print_abrupt);
}

void json_output(int fd) { output = fd; }
