// Decodes PNG files with libpng, which is opened at run time. All kinds of PNG become 8 bits a
// channel: palettes are looked up, 16 bits are rounded to 8, 1 to 4 bits are widened, an alpha
// channel is left out.
//
// libpng reports an error by a function that must not return: it jumps back to `decode_guarded`.
#include "runtime/images/image_internal.h"

#include <png.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PNG_FUNCTIONS(F)                                                                           \
  F(create_read_struct_2)                                                                          \
  F(create_info_struct)                                                                            \
  F(destroy_read_struct)                                                                           \
  F(get_error_ptr)                                                                                 \
  F(get_io_ptr)                                                                                    \
  F(error)                                                                                         \
  F(set_read_fn)                                                                                   \
  F(set_user_limits)                                                                               \
  F(set_crc_action)                                                                                \
  F(read_info)                                                                                     \
  F(get_image_height)                                                                              \
  F(get_image_width)                                                                               \
  F(get_channels)                                                                                  \
  F(set_expand)                                                                                    \
  F(set_scale_16)                                                                                  \
  F(set_strip_alpha)                                                                               \
  F(set_interlace_handling)                                                                        \
  F(read_update_info)                                                                              \
  F(read_image)                                                                                    \
  F(read_end)

typedef struct PngApi {
#define F(name) __typeof__(png_##name) *name;
  PNG_FUNCTIONS(F)
#undef F
} PngApi;
static PngApi png;
static const LibraryFunction functions[] = {
#define F(name) {"png_" #name, offsetof(PngApi, name)},
    PNG_FUNCTIONS(F)
#undef F
};
static const char *const files[] = {"libpng16.so.16", NULL};
static const LibrarySpec library = {
    .what = "libpng",
    .file = files,
    .brings = "install it (Debian: libpng16-16)",
    .without = "JPEG files need none",
    .room = 1 << 20,
    .function = functions,
    .nfunctions = countof(functions),
};
static LibraryOnce once;

const LibraryFound *png_library(void) { return library_fill_once(&library, &png, &once); }

enum {
  SIDE_MOST = 1 << 16,     // most pixels of a row or column
  PIXELS_A_BYTE = 8 * 1032 // most of a file: with 1 bit each, and the best ratio of zlib
};

typedef struct Decoding {
  jmp_buf stop;
  png_structp png;
  png_infop info;
  const unsigned char *bytes;
  size_t n, at;
  ImageWork *work;
  Image *out;
  char *why;
} Decoding;

static _Noreturn void on_error(png_structp p, png_const_charp message) {
  Decoding *d = png.get_error_ptr(p);
  if (!*d->why) why_not(d->why, "is a damaged PNG: %.120s", message);
  longjmp(d->stop, 1);
}

static void on_warning(png_structp p, png_const_charp message) {
  (void)p;
  (void)message;
}

static void on_read(png_structp p, png_bytep out, size_t n) {
  Decoding *d = png.get_io_ptr(p);
  if (n > d->n - d->at) {
    why_not(d->why, "is a damaged PNG: it ends at byte %zu, too early", d->n);
    png.error(p, "");
  }
  memcpy(out, d->bytes + d->at, n);
  d->at += n;
}

static void *on_alloc(png_structp p, png_alloc_size_t bytes) {
  (void)p;
  return mem_alloc(bytes);
}
static void on_free(png_structp p, void *memory) {
  (void)p;
  free(memory);
}

static bool decode(Decoding *d) {
  png.set_user_limits(d->png, SIDE_MOST, SIDE_MOST);
  png.set_crc_action(d->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png.set_read_fn(d->png, d, on_read);
  png.read_info(d->png, d->info);
  int64_t height = png.get_image_height(d->png, d->info),
          width = png.get_image_width(d->png, d->info);
  png.set_expand(d->png);
  png.set_scale_16(d->png);
  png.set_strip_alpha(d->png);
  (void)png.set_interlace_handling(d->png);
  png.read_update_info(d->png, d->info);
  d->out->channels = png.get_channels(d->png, d->info);
  if (!image_room(height, width, 3, d->n * PIXELS_A_BYTE, d->work, d->out, d->why)) return false;
  unsigned char **row = room_for(&d->work->rows, (size_t)height * sizeof *row);
  for (int64_t i = 0; i < height; i++) row[i] = d->out->at + i * width * d->out->channels;
  png.read_image(d->png, row);
  png.read_end(d->png, NULL);
  return true;
}

static bool decode_guarded(Decoding *d) {
  if (setjmp(d->stop)) return false;
  return decode(d);
}

bool png_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                char *why) {
  (void)channels;
  Decoding d = {.bytes = bytes, .n = n, .work = w, .out = out, .why = why};
  *why = '\0';
  d.png = png.create_read_struct_2(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning, NULL, on_alloc,
                                   on_free);
  if (!d.png) return why_not(why, "cannot be read: libpng has another version");
  d.info = png.create_info_struct(d.png);
  bool good = d.info && decode_guarded(&d);
  png.destroy_read_struct(&d.png, &d.info, NULL);
  return good;
}
