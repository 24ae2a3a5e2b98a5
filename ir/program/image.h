// Maps an ELF object into this process. Only code for the thread sanitizer has external symbols.
#ifndef IR_IMAGE_H
#define IR_IMAGE_H

#include <stdlib.h>

#include "ir/base/mem.h"

// THREAD_SANITIZER is 1 in a build with -fsanitize=thread.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#endif
#ifndef THREAD_SANITIZER
#define THREAD_SANITIZER 0
#endif

// Returns whether generated code tells the thread sanitizer its loads and stores: in a build with
// it, if MESHC_TSAN is set. The sanitizer sees those of at most 16 bytes, so that MESHC_WIDTH=128
// shows it all but masked ones. The code refers to functions of the sanitizer.
static inline bool code_is_instrumented(void) { return THREAD_SANITIZER && getenv("MESHC_TSAN"); }

typedef struct Image Image;

// Maps and relocates the object bytes[0..n). No page is writable and executable at the same time.
// Returns NULL with a sentence in why[0..200) if the bytes are not such an object, or refer to a
// symbol that they do not define.
Image *image_load(const char *bytes, size_t n, char *why);
void image_free(Image *i);
// Returns the address of function `name` in the image, or NULL if there is none.
void *image_symbol(const Image *i, const char *name);

#endif
