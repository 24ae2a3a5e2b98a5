// Maps an ELF object without external symbols into this process.
#ifndef CODEGEN_LOAD_H
#define CODEGEN_LOAD_H

#include "ir/base/mem.h"

typedef struct Image Image;

// Maps and relocates the object bytes[0..n). No page is writable and executable at the same time.
// Returns NULL with a sentence in why[0..200) if the bytes are not such an object. A symbol that
// the object does not define is an internal error: BUG with its name.
Image *image_load(const char *bytes, size_t n, char *why);
void image_free(Image *i);
// Returns the address of a function; NULL if the image has none of that name.
void *image_symbol(const Image *i, const char *name);

#endif
