// Interned text: equal texts have the same pointer, so that names are compared with ==.
#ifndef IR_INTERN_H
#define IR_INTERN_H

#include "ir/base/arena.h"

typedef struct Intern Intern;

// Returns a table whose texts are allocated in `a`.
Intern *intern_new(Arena *a);

// Returns the only copy of text[0..n), NUL-terminated. Never NULL.
const char *intern_n(Intern *t, const char *text, size_t n);
const char *intern(Intern *t, const char *text);
const char *intern_printf(Intern *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
