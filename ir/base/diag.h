// Messages of meshc to its user: errors and warnings with position, caret, notes and one hint.
// Errors are collected, so that one mistake does not hide the next; each has a stable code.
#ifndef IR_DIAG_H
#define IR_DIAG_H

#include <stdio.h>

#include "ir/base/arena.h"

// A position in a source; line 0: none. Lines and columns count from 1, columns and len in
// characters. `source` is the number that diag_source returned for a file or a command-line option.
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

// Returns a new collector, whose messages are allocated in `a`. Thread rule: one thread.
Diag *diag_new(Arena *a);

// Registers a text to which positions refer and returns its number. name: a path, or an option as
// "--layout". text: not copied, must outlive the Diag; NULL: positions are printed without their
// line (data files).
uint32_t diag_source(Diag *d, const char *name, const char *text, size_t n);

// Adds an error or a warning. The row of `id` in diag.def gives code, exit code and default hint.
// An error after the 20th is counted but not kept. A repeated message with the same id, position
// and text is dropped. diag_error, diag_note, diag_hint and diag_nearest return false, so that a
// failed check can end in `return diag_error(...)`.
bool diag_error(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);
void diag_warning(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);

// Add to the last message: diag_note a further position with a text, diag_hint what the user can
// change, which replaces the hint of diag.def.
bool diag_note(Diag *d, Pos at, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool diag_hint(Diag *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Returns true if the last message will be printed. Callers ask this before they search for a hint.
bool diag_kept(const Diag *d);
// Makes "did you mean X?" the hint of the last message, if one of the n names is similar enough.
bool diag_nearest(Diag *d, const char *name, const char *const *names, size_t n);
// Makes "it is one of: a, b, c" the hint of the last message.
void diag_one_of(Diag *d, const char *const *names, size_t n);
// Returns a text as messages print it: control characters, direction marks and invalid UTF-8 as
// \x1b. The result is in a, or is text itself.
const char *text_shown(Arena *a, const char *text);
// Returns the most similar of n names, or NULL. The edit distance is at most a third of the length,
// 1 for two letters.
const char *text_nearest(const char *name, const char *const *names, size_t n);

// Marks the messages so far. diag_rewind forgets all later messages that are not printed yet.
typedef struct DiagMark {
  uint32_t messages;
  int counted[2], kept[2]; // errors and warnings in all, and those that are kept to be printed
  int exit;                // the exit code of the first error
} DiagMark;
DiagMark diag_mark(const Diag *d);
void diag_rewind(Diag *d, DiagMark m);

int diag_errors(const Diag *d);
// Returns 0 without errors, otherwise the exit code of the first error.
int diag_exit(const Diag *d);
// Returns the text from position `from` to the end of position `to`, in `a`. Returns NULL unless
// both are on one line of one source and the text is ASCII.
const char *diag_text_between(const Diag *d, Arena *a, Pos from, Pos to);
// Returns the path or option with which a source was registered.
const char *diag_source_name(const Diag *d, uint32_t source);

// The messages in order, for other forms of output: i < diag_count, k < notes of entry i. Texts
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
// Returns how many errors or warnings were counted but not kept.
int diag_omitted(const Diag *d, bool warnings);

// Prints all messages that are not printed yet: "file:line:col: error: text [E0301]", the line, a
// caret, notes, hint.
void diag_print(Diag *d, FILE *out, bool colour);
// Return the columns of row `id` of diag.def and meanings.def, for `meshc explain CODE` and tests.
// An id of DIAG_COUNT or more gives NULL or 0.
const char *diag_code(DiagId id);
const char *diag_default_hint(DiagId id);
int diag_exit_code(DiagId id); // the exit code of an error; 0 for a warning
// Returns one sentence that explains the code. The example is a model, or command lines that begin
// with "$ ".
const char *diag_meaning(DiagId id);
const char *diag_example(DiagId id);
// Returns the row of a code in upper or lower case, "e0505"; DIAG_COUNT if there is none.
DiagId diag_of_code(const char *code);
// Returns true if the text has the form of a code: E or W and four digits.
bool diag_is_code(const char *text);

#endif
