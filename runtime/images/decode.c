// Decodes image files: recognises the format, calls its decoder, and brings gray and coloured
// images to the channels that are asked for.
//
// Gray is 0.299 R + 0.587 G + 0.114 B in integers, (19595 R + 38470 G + 7471 B + 32768) >> 16. A
// JPEG with colours has it as its luminance.
#include "runtime/images/image_internal.h"

#include <stdlib.h>
#include <string.h>

static const struct {
  const char *magic;
  size_t n;
  const LibraryFound *(*library)(void);
  bool (*decode)(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                 char *why);
} formats[] = {[IMAGE_PNG] = {"\x89PNG\r\n\x1a\n", 8, png_library, png_decode},
               [IMAGE_JPEG] = {"\xff\xd8\xff", 3, jpeg_library, jpeg_decode}};

void *room_for(Room *r, size_t bytes) {
  if (r->bytes >= bytes && r->at) return r->at;
  free(r->at);
  *r = (Room){0};
  r->at = mem_alloc(bytes);
  r->bytes = bytes;
  return r->at;
}

void image_work_free(ImageWork *w) {
  Room *const rooms[] = {&w->file, &w->pixels, &w->rows, &w->taps, &w->lines, &w->values, &w->row};
  for (size_t i = 0; i < countof(rooms); i++) {
    free(rooms[i]->at);
    *rooms[i] = (Room){0};
  }
}

bool image_library(ImageFormat f, Diag *d, Pos at) {
  const LibraryFound *found = formats[f].library();
  return found->library || diag_error(d, DIAG_UNAVAILABLE, at, "%s", found->why);
}

bool image_format(const unsigned char *bytes, size_t n, ImageFormat *out) {
  for (int i = 0; i < IMAGE_FORMATS; i++) {
    if (n < formats[i].n || memcmp(bytes, formats[i].magic, formats[i].n) != 0) continue;
    *out = (ImageFormat)i;
    return true;
  }
  return false;
}

bool image_room(int64_t height, int64_t width, int bytes, size_t most, ImageWork *w, Image *out,
                char *why) {
  if (height < 1 || width < 1 || width > IMAGE_PIXELS / height)
    return why_not(why, "claims %lld x %lld pixels; 1 to %d are read", (long long)width,
                   (long long)height, IMAGE_PIXELS);
  if ((size_t)(height * width) > most)
    return why_not(why, "is damaged: it is too short for the %lld x %lld pixels that it claims",
                   (long long)width, (long long)height);
  out->height = height;
  out->width = width;
  out->at = room_for(&w->pixels, (size_t)(height * width) * (size_t)bytes);
  return true;
}

static void make_gray(Image *x) {
  int64_t n = x->height * x->width;
  const unsigned char *p = x->at;
  for (int64_t i = 0; i < n; i++, p += 3)
    x->at[i] = (unsigned char)((19595u * p[0] + 38470u * p[1] + 7471u * p[2] + 32768u) >> 16);
  x->channels = 1;
}

static void make_colours(Image *x) {
  for (int64_t i = x->height * x->width; i-- > 0;) {
    unsigned char gray = x->at[i];
    memset(x->at + 3 * i, gray, 3);
  }
  x->channels = 3;
}

bool image_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                  char *why) {
  ImageFormat f;
  *out = (Image){0};
  if (n == 0) return why_not(why, "is empty");
  if (!image_format(bytes, n, &f)) return why_not(why, "is no PNG and no JPEG file");
  const LibraryFound *found = formats[f].library();
  if (!found->library) return why_not(why, "needs a library: %.150s", found->why);
  if (!formats[f].decode(bytes, n, channels, w, out, why)) return false;
  if (channels == 1 && out->channels == 3) make_gray(out);
  if (channels == 3 && out->channels == 1) make_colours(out);
  return true;
}
