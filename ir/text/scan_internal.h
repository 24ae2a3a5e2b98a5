// Scans graph text from left to right, line by line. A record is the text of a struct, {name =
// value, ...}.
//
// The text may be wrong in any way. A function that finds an error reports it with its place; all
// later calls then fail without a message. Unless stated otherwise, functions skip blanks, return
// false after an error, and then set no result.
#ifndef IR_SCAN_H
#define IR_SCAN_H

#include "ir/text/text.h"

typedef struct Scanner {
  Arena *arena;
  Intern *names;
  Diag *diag;
  uint32_t source;                  // number of the text as a source of `diag`
  Graph *g;                         // the graph that is made; names in the text are looked up in it
  const char *p, *end, *line_start; // next character, end of the text, start of the line
  uint32_t line;
  bool failed;               // an error was reported
  VEC(const char *) file;    // interned names of the model files that origins name
  VEC(uint32_t) file_source; // number of file[i] as a source of `diag`
} Scanner;

// Reports an error at `at`, a pointer into the current line, unless an error was reported before.
// Always returns false.
bool scan_fail(Scanner *s, const char *at, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Goes to the next line that is neither blank nor a comment. Returns false at the end of the text.
bool scan_line(Scanner *s);
// Skips blanks and returns a pointer to the next word, for scan_fail.
const char *scan_here(Scanner *s);
// Skip `mark`, a text without blanks, if the text continues with it. Otherwise scan_accept returns
// false without an error, and scan_expect reports an error.
bool scan_accept(Scanner *s, const char *mark);
bool scan_expect(Scanner *s, const char *mark);
// Skips `word` if it is the whole next word. Otherwise returns false without an error.
bool scan_accept_word(Scanner *s, const char *word);
// Returns the next word, interned, or NULL after an error. The word may be in quotes.
const char *scan_word(Scanner *s);
// Reads an integer from low to high.
bool scan_long(Scanner *s, int64_t low, int64_t high, int64_t *out);
bool scan_seed(Scanner *s, uint64_t *out);
bool scan_real(Scanner *s, double *out);
bool scan_reals(Scanner *s, int64_t *n, const double **out); // reads a list such as [1, 2]
bool scan_type(Scanner *s, Dtype *out);
int scan_enum(Scanner *s, const EnumNames *c); // reads a name, returns its value; -1: error
// Read the fields of the struct that r describes. scan_record reads "KIND {name = value, ...}",
// without KIND if r->kinds is NULL. scan_fields begins after the opening brace and reads up to the
// closing brace.
bool scan_record(Scanner *s, const Record *r, void *record);
bool scan_fields(Scanner *s, const Record *r, void *record);
// The following functions read names of dims, axes and declarations that the graph already has.
bool scan_dim(Scanner *s, DimId *out);   // a whole dim or a block
bool scan_whole(Scanner *s, DimId *out); // a whole dim
// A list such as [b, h/cols]: at most MAX_RANK dims.
bool scan_dims(Scanner *s, uint8_t *n, DimId *d);
bool scan_order(Scanner *s, uint8_t *n, DimId *d); // a list such as [b, h]: different whole dims
bool scan_axis(Scanner *s, uint8_t *out);          // an axis of the mesh
bool scan_axes(Scanner *s, Axes *out);             // a list such as [rows, cols]: different axes
bool scan_decl(Scanner *s, DeclId *out);           // a declaration
// Reads [out, tap, offset, divisor]. The integers must be so small that no position of a window
// overflows 64 bits.
bool scan_affine(Scanner *s, Affine *out);
// Reads the id of a node, such as %12, which must be at most `last`.
bool scan_node(Scanner *s, NodeId last, NodeId *out);

// Reads the rest of a line: a note "@ ...", which is skipped, and the origin "# place: value: why".
// The note and the origin may be absent, and so may the later parts of the origin. If `value` or
// `why` is NULL, the line must not have that part.
bool scan_origin(Scanner *s, Pos *at, const char **value, const char **why);

#endif
