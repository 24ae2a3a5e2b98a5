// Scanning of graph text, line by line. The text may be anything: every function either succeeds or
// says one error with its place, after which all further calls fail too.
#ifndef IR_SCAN_H
#define IR_SCAN_H

#include "ir/text/text.h"

typedef struct Scanner {
  Arena *arena;
  Intern *names;
  Diag *diag;
  uint32_t source;
  Graph *g; // the graph that is read: its dims, axes and declarations can be named
  const char *p, *end, *line_start; // text[p..end) is left
  uint32_t line;
  bool failed;
  VEC(const char *) file; // names of files in places, and the sources they became
  VEC(uint32_t) file_source;
} Scanner;

// Says what is wrong at `at` (a pointer into the current line), once. Always false.
bool scan_fail(Scanner *s, const char *at, const char *fmt, ...) PRINTF_LIKE(3, 4);

// Goes to the next line that is neither blank nor a comment; false at the end of the text.
bool scan_line(Scanner *s);
// Where the next word begins.
const char *scan_here(Scanner *s);
// Skips blanks; whether the text goes on with `mark`, which is then passed. `mark` has no blanks.
bool scan_accept(Scanner *s, const char *mark);
bool scan_expect(Scanner *s, const char *mark);
// The same for a word: not a part of a longer one.
bool scan_accept_word(Scanner *s, const char *word);
// A word, bare or quoted, interned; NULL after an error.
const char *scan_word(Scanner *s);
bool scan_long(Scanner *s, int64_t low, int64_t high, int64_t *out);
bool scan_seed(Scanner *s, uint64_t *out);
bool scan_real(Scanner *s, double *out);
bool scan_reals(Scanner *s, int64_t *n, const double **out); // [1, 2]
bool scan_type(Scanner *s, Dtype *out);
int scan_enum(Scanner *s, const EnumNames *c); // -1 after an error
// Reads "kind {name = value, ...}"; without the kind if the record has none.
bool scan_record(Scanner *s, const Record *r, void *record);
bool scan_fields(Scanner *s, const Record *r, void *record); // behind "{", up to and with "}"
// Names of what the graph has. A dim may be a block; a whole dim may not. An order is a list of
// distinct whole dims.
bool scan_dim(Scanner *s, DimId *out);
bool scan_whole(Scanner *s, DimId *out);
bool scan_dims(Scanner *s, uint8_t *n, DimId *d);  // "[b, h]", at most MAX_RANK
bool scan_order(Scanner *s, uint8_t *n, DimId *d); // "[b, h]"
bool scan_axis(Scanner *s, uint8_t *out);
bool scan_axes(Scanner *s, Axes *out); // "[rows, cols]"
bool scan_decl(Scanner *s, DeclId *out);
// "[1, 1, -1, 1]", each number small enough that positions fit 63 bits.
bool scan_affine(Scanner *s, Affine *out);
// "%12": at most `last`.
bool scan_node(Scanner *s, NodeId last, NodeId *out);

// Reads the end of a line: a note "@ ...", which is ignored, then "# place: value: why", both
// optional.
// value and why may be NULL: such parts are refused.
bool scan_origin(Scanner *s, Pos *at, const char **value, const char **why);

#endif
