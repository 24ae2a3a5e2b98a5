// Scans graph text from left to right, line by line.
//
// The text may be anything. A function whose input is wrong reports one error with its place, and
// all later calls fail without a message. Unless stated otherwise, functions skip blanks, return
// false after an error, and then set no result.
#ifndef IR_SCAN_H
#define IR_SCAN_H

#include "ir/text/text.h"

typedef struct Scanner {
  Arena *arena;
  Intern *names;
  Diag *diag;
  uint32_t source; // number of the text in `diag`
  Graph *g;        // the graph that is read, whose dims, axes and declarations the text names
  const char *p, *end, *line_start; // p is the next character, end the end of the text
  uint32_t line;
  bool failed;               // an error was reported
  VEC(const char *) file;    // names of model files in origins, interned
  VEC(uint32_t) file_source; // the number in `diag` of each of these files
} Scanner;

// Reports an error at `at`, a pointer into the current line, unless one was reported before. Always
// returns false.
bool scan_fail(Scanner *s, const char *at, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Goes to the next line that is neither blank nor a comment. Returns false at the end of the text.
bool scan_line(Scanner *s);
// Skips blanks and returns the place of the next word, for scan_fail.
const char *scan_here(Scanner *s);
// Skips `mark`, which has no blanks, if it comes next. Otherwise scan_accept returns false without
// an error, and scan_expect reports one.
bool scan_accept(Scanner *s, const char *mark);
bool scan_expect(Scanner *s, const char *mark);
// As scan_accept, but the next word must equal `word`, not only begin with it.
bool scan_accept_word(Scanner *s, const char *word);
// Returns the next word, which may be in quotes, interned; NULL after an error.
const char *scan_word(Scanner *s);
bool scan_long(Scanner *s, int64_t low, int64_t high, int64_t *out); // an integer from low to high
bool scan_seed(Scanner *s, uint64_t *out);
bool scan_real(Scanner *s, double *out);
bool scan_reals(Scanner *s, int64_t *n, const double **out); // a list such as [1, 2]
bool scan_type(Scanner *s, Dtype *out);
int scan_enum(Scanner *s, const EnumNames *c); // the value with the next name; -1 after an error
// Read into a struct with the fields of r: scan_record "KIND {name = value, ...}", without KIND if
// the record has none; scan_fields what follows the brace, and the closing brace.
bool scan_record(Scanner *s, const Record *r, void *record);
bool scan_fields(Scanner *s, const Record *r, void *record);
// These read names of what the graph has.
bool scan_dim(Scanner *s, DimId *out);             // a whole dim or a block
bool scan_whole(Scanner *s, DimId *out);           // a whole dim
bool scan_dims(Scanner *s, uint8_t *n, DimId *d);  // [b, h/cols]: at most MAX_RANK dims
bool scan_order(Scanner *s, uint8_t *n, DimId *d); // [b, h]: different whole dims
bool scan_axis(Scanner *s, uint8_t *out);          // an axis of the mesh
bool scan_axes(Scanner *s, Axes *out);             // [rows, cols]: different axes
bool scan_decl(Scanner *s, DeclId *out);           // a declaration
// Reads [out, tap, offset, divisor], integers that are small enough for positions in 64 bits.
bool scan_affine(Scanner *s, Affine *out);
// Reads a node such as %12, at most `last`.
bool scan_node(Scanner *s, NodeId last, NodeId *out);

// Reads the end of a line. A note "@ ..." is skipped; then "# place: value: why" may follow, of
// which the end may be missing. If `value` or `why` is NULL, the line must not have that part.
bool scan_origin(Scanner *s, Pos *at, const char **value, const char **why);

#endif
