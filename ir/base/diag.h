// What meshc says to its user: errors and warnings with place, caret, notes and one hint.
// Errors are collected, so that one mistake does not hide the next; each has a stable code.
#ifndef IR_DIAG_H
#define IR_DIAG_H

#include <stdio.h>

#include "ir/base/arena.h"

// A place in a source. line 0 means nowhere. Lines and columns count from 1, columns and len in
// characters. `source` numbers what diag_source registered (a file, or a command-line option).
typedef struct Pos {
  uint32_t source, line, col, len;
} Pos;

typedef enum DiagId {
#define DIAG(id, code, exit, hint) DIAG_##id,
#include "ir/base/diag.def"
#undef DIAG
  DIAG_COUNT
} DiagId;

// Exit codes that have no row in diag.def, or that code outside messages uses (docs/cli.md).
enum ExitCode { EXIT_DATA = 5, EXIT_LOST = 6, EXIT_MEMORY = 7, EXIT_INTERRUPTED = 75 };

typedef struct Diag Diag;

// The collector; everything said lives in `a`. Thread rule: one thread.
Diag *diag_new(Arena *a);

// Registers a text that places refer to: a file by its path, an option as "--layout", a data file
// (text NULL: the place is printed without its line). Copies nothing: text must outlive the Diag.
uint32_t diag_source(Diag *d, const char *name, const char *text, size_t n);

// Says one thing. An error beyond the 20th is counted, not kept. The row of `id` gives code, exit
// code and default hint. The same id at the same place with the same text is said once.
void diag_error(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);
void diag_warning(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);

// Adds to what was said last: another place involved; what to change (replaces the row's hint).
void diag_note(Diag *d, Pos at, const char *fmt, ...) PRINTF_LIKE(3, 4);
void diag_hint(Diag *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Whether what was said last will be shown: beyond the first errors a hint is not worth its search.
bool diag_kept(const Diag *d);
// "did you mean X?" as the hint of what was said last, if one of the n names is near enough.
void diag_nearest(Diag *d, const char *name, const char *const *names, size_t n);
// "it is one of: a, b, c" as the hint of what was said last.
void diag_one_of(Diag *d, const char *const *names, size_t n);
// The text as messages show it: controls, marks of direction and what is no UTF-8 as \x1b. In a, or
// text itself.
const char *text_shown(Arena *a, const char *text);
// The nearest of n names (edit distance at most a third of the length, 1 of two letters), or NULL.
const char *text_nearest(const char *name, const char *const *names, size_t n);

// What was said so far; diag_rewind forgets all that was said since, unless it is printed.
typedef struct DiagMark {
  uint32_t messages;
  int errors, warnings, kept[2], exit;
} DiagMark;
DiagMark diag_mark(const Diag *d);
void diag_rewind(Diag *d, DiagMark m);

int diag_errors(const Diag *d);
// 0 without errors, else the exit code of the first error.
int diag_exit(const Diag *d);
// The text from place `from` to the end of place `to`, in `a`: of one line of one source, of ASCII;
// else NULL.
const char *diag_text_between(const Diag *d, Arena *a, Pos from, Pos to);
// The path or option that a source was registered with.
const char *diag_source_name(const Diag *d, uint32_t source);

// What was said, in order, for other forms of output: i < diag_count, k < notes of entry i. Texts
// live as long as d.
typedef struct DiagEntry {
  const char *severity, *code, *text, *hint; // "error" or "warning"; hint may be NULL
  Pos at;
  uint32_t notes;
} DiagEntry;
typedef struct DiagNote {
  const char *text;
  Pos at;
} DiagNote;
uint32_t diag_count(const Diag *d);
DiagEntry diag_entry(const Diag *d, uint32_t i);
DiagNote diag_entry_note(const Diag *d, uint32_t i, uint32_t k);
// How many errors or warnings were counted and not kept.
int diag_omitted(const Diag *d, bool warnings);

// Prints all not yet printed: "file:line:col: error: text [E0301]", the line, a caret, notes, hint.
void diag_print(Diag *d, FILE *out, bool colour);
// The rows of the table, for `meshc explain CODE` and the tests: NULL past the end.
const char *diag_code(DiagId id);
const char *diag_default_hint(DiagId id);
int diag_exit_code(DiagId id); // of an error; 0 for a warning
// One sentence that says what the code means, and an example: a model of lines, or command lines
// behind "$ ".
const char *diag_meaning(DiagId id);
const char *diag_example(DiagId id);
// The row of a code in either case, "e0505"; DIAG_COUNT when no row has it.
DiagId diag_of_code(const char *code);
// Whether the text has the form of a code: E or W and four digits.
bool diag_is_code(const char *text);

#endif
