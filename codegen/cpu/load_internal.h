// Maps an ELF object without external symbols into this process.
#ifndef CODEGEN_LOAD_H
#define CODEGEN_LOAD_H

#include "ir/base/mem.h"

typedef struct Image Image;

// Maps and relocates the object bytes[0..n). No page is writable and executable at the same time.
// Returns NULL with a sentence in why[0..200) if the bytes are not such an object. An undefined
// symbol is an error in meshc, and ends the program with its name (BUG).
Image *image_load(const char *bytes, size_t n, char *why);
void image_free(Image *i);
// Returns the address of function `name` in the image, or NULL if there is none.
void *image_symbol(const Image *i, const char *name);

#endif
