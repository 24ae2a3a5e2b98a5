// Interned text: equal text is the same pointer, so that names compare by ==.
#ifndef IR_INTERN_H
#define IR_INTERN_H

#include "ir/base/arena.h"

typedef struct Intern Intern;

// A table whose texts live in `a`.
Intern *intern_new(Arena *a);

// The one NUL-terminated copy of text[0..n). Never NULL.
const char *intern_n(Intern *t, const char *text, size_t n);
const char *intern(Intern *t, const char *text);
const char *intern_printf(Intern *t, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
