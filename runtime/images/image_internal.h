// The decoders of single formats, for decode.c.
#ifndef RUNTIME_IMAGE_INTERNAL_H
#define RUNTIME_IMAGE_INTERNAL_H

#include "ir/base/library_table.h"
#include "runtime/images/image.h"

// Each opens its library, once in the process; decodes the n bytes of a file to an image with 1 or
// 3 channels, gray only if the file has no colours or `channels` is 1. The buffers have room for 3
// channels.
const LibraryFound *png_library(void);
bool png_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                char *why);
const LibraryFound *jpeg_library(void);
bool jpeg_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                 char *why);

// Checks the size that a file claims, and makes room for its pixels, of `bytes` bytes each. `most`
// is the largest number of pixels that a file of its length can have. Returns false with a reason
// in `why`.
bool image_room(int64_t height, int64_t width, int bytes, size_t most, ImageWork *w, Image *out,
                char *why);

#endif
