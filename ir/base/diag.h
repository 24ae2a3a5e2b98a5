// Messages of meshc to its user: errors and warnings with position, caret, notes and one hint.
// Errors are collected, so that one mistake does not hide the next; each has a stable code.
#ifndef IR_DIAG_H
#define IR_DIAG_H

#include <stdio.h>

#include "ir/base/arena.h"

// A position in a source text. line 0 means that there is no position. Lines and columns count from
// 1; col and len are numbers of characters. `source` is the number that diag_source returned for a
// file or a command-line option.
typedef struct Pos {
  uint32_t source, line, col, len;
} Pos;

typedef enum DiagId {
#define DIAG(id, code, exit, hint) DIAG_##id,
#include "ir/base/diag.def"
#undef DIAG
  DIAG_COUNT
} DiagId;

// Exit codes for ends of a process that are not errors of diag.def, or that other code compares
// with (docs/cli.md).
enum ExitCode { EXIT_DATA = 5, EXIT_LOST = 6, EXIT_MEMORY = 7, EXIT_INTERRUPTED = 75 };

typedef struct Diag Diag;

// Returns a new collector of messages, allocated in `a`. Thread rule: one thread.
Diag *diag_new(Arena *a);

// Says which program prints the messages, and its options ("--feed"), with NULL behind the last
// one. Messages without a place begin with its name. Hints leave out what names options that it
// lacks, but for those of command lines of meshc. name NULL: a library, which has no command line.
void diag_program(Diag *d, const char *name, const char *const *options);
// Says which command of the program runs: a hint to see the options names its help.
void diag_command(Diag *d, const char *name);

// Registers a text to which positions refer and returns its number. `name` is a path, or an option
// such as "--layout". `text` is not copied and must outlive the Diag. If it is NULL, as for data
// files, positions are printed without their line. A text that is registered again under its name
// keeps its number, so that a message about it is not repeated.
uint32_t diag_source(Diag *d, const char *name, const char *text, size_t n);

// Adds an error or a warning. The row of `id` in diag.def gives code, exit code and default hint.
// An error after the 20th is counted but not kept. A repeated message with the same id, position
// and text is dropped. diag_error, diag_note, diag_hint, diag_nearest and diag_close return false,
// so that a failed check can end in `return diag_error(...)`.
bool diag_error(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);
void diag_warning(Diag *d, DiagId id, Pos at, const char *fmt, ...) PRINTF_LIKE(4, 5);

// Add to the last message. diag_note adds another position with a text. diag_hint says what the
// user can change, instead of the hint of diag.def.
bool diag_note(Diag *d, Pos at, const char *fmt, ...) PRINTF_LIKE(3, 4);
bool diag_hint(Diag *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
// Ends the last message: notes and hints that follow are dropped, until the next message.
bool diag_close(Diag *d);
// Returns true if the last message will be printed. Callers ask this before they search for a hint.
bool diag_kept(const Diag *d);
// Makes "did you mean X?" the hint of the last message, if one of the n names is similar enough.
bool diag_nearest(Diag *d, const char *name, const char *const *names, size_t n);
// Makes "it is one of: a, b, c" the hint of the last message.
void diag_one_of(Diag *d, const char *const *names, size_t n);
// Returns a text as messages print it. Control characters, direction marks and bytes of invalid
// UTF-8 are replaced by their codes, such as \x1b. The result is in `a`.
const char *text_shown(Arena *a, const char *text);
// Returns the name most similar to `name`, or NULL if none is similar. The edit distance must be at
// most a third of the length, or 1 for a name of two letters.
const char *text_nearest(const char *name, const char *const *names, size_t n);

// diag_mark returns a mark of the messages so far. diag_rewind removes all later messages that are
// not printed yet.
typedef struct DiagMark {
  uint32_t messages;
  // [0] for errors, [1] for warnings: how many were reported, and how many of these are kept for
  // printing.
  int counted[2], kept[2];
  int exit; // the exit code of the first error
} DiagMark;
DiagMark diag_mark(const Diag *d);
void diag_rewind(Diag *d, DiagMark m);

int diag_errors(const Diag *d);
// Returns the exit code of the first error, or 0 if there is no error.
int diag_exit(const Diag *d);
// Returns a copy in `a` of the text from position `from` to the end of position `to`. Returns NULL
// unless both are on one line of one source, and the line is ASCII up to there.
const char *diag_text_between(const Diag *d, Arena *a, Pos from, Pos to);
// Returns the number of the first text that diag_source registered with this name, or 0.
uint32_t diag_find_source(const Diag *d, const char *name);
// Returns the path or option that diag_source registered under this number.
const char *diag_source_name(const Diag *d, uint32_t source);

// diag_count, diag_entry and diag_entry_note read the messages in order, for other forms of output.
// i is the number of a message, k of one of its notes, both from 0. Texts live as long as d.
typedef struct DiagEntry {
  const char *severity, *code, *text, *hint; // severity: "error" or "warning"; hint: NULL if none
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
// Adds the errors of `from` to d, with copies of their notes and hints.
void diag_take(Diag *d, const Diag *from);
// Returns how many errors or warnings were counted but not kept.
int diag_omitted(const Diag *d, bool warnings);

// Prints all messages that are not printed yet: "file:line:col: error: text [E0301]", the line, a
// caret, notes, hint.
void diag_print(Diag *d, FILE *out, bool colour);
// diag_code, diag_default_hint, diag_exit_code, diag_meaning and diag_example return a column of
// row `id` of diag.def or meanings.def. They serve `meshc explain CODE` and tests. An id of
// DIAG_COUNT or more gives NULL or 0.
const char *diag_code(DiagId id);
const char *diag_default_hint(DiagId id);
int diag_exit_code(DiagId id); // the exit code of an error; 0 for a warning
// diag_meaning returns one sentence that explains the code. diag_example returns a model, or
// command lines that begin with "$ ".
const char *diag_meaning(DiagId id);
const char *diag_example(DiagId id);
// Returns the row of a code such as "e0505", in upper or lower case; DIAG_COUNT if there is none.
DiagId diag_of_code(const char *code);
// Returns true if the text has the form of a code: E or W and four digits.
bool diag_is_code(const char *text);

#endif
