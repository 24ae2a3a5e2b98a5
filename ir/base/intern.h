// Interned text: equal texts have the same pointer, so that names are compared with ==.
#ifndef IR_INTERN_H
#define IR_INTERN_H

#include "ir/base/arena.h"

typedef struct Intern Intern;

// Returns a table whose texts are allocated in `a`.
Intern *intern_new(Arena *a);
// Returns a table of the texts of `below` and of others, which are allocated in `a`. It must not
// outlive `below`. Thread rule: as long as nothing is added to `below`, several threads may each
// use such a table.
Intern *intern_over(Arena *a, const Intern *below);

// Returns the only copy of text[0..n), NUL-terminated. Never NULL.
const char *intern_n(Intern *t, const char *text, size_t n);
const char *intern(Intern *t, const char *text);
const char *intern_printf(Intern *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
