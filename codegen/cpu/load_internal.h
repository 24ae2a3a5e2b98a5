// Private to the room: maps an ELF object without external symbols into this process (decision 19).
#ifndef CODEGEN_LOAD_H
#define CODEGEN_LOAD_H

#include "ir/base/mem.h"

typedef struct Image Image;

// Maps code and constants of the object at bytes[0..n), relocated; nothing is writable and
// executable at any time. NULL with a sentence in why[0..200) when the bytes are no such object. A
// symbol that the object does not define is our mistake: BUG with its name.
Image *image_load(const char *bytes, size_t n, char *why);
void image_free(Image *i);
// Address of a function, or NULL.
void *image_symbol(const Image *i, const char *name);

#endif
