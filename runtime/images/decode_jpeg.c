// Decodes JPEG files with libjpeg-turbo, which is opened at run time: baseline and progressive, 8
// bits, gray, YCbCr, RGB, CMYK and YCCK.
//
// libjpeg reports an error by a function that must not return: it jumps back to `decode_guarded`.
// It only warns of damaged data and goes on with gray pixels; such warnings are errors here.
#include "runtime/images/image_internal.h"

#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#define JPEG_FUNCTIONS(F)                                                                          \
  F(std_error)                                                                                     \
  F(CreateDecompress)                                                                              \
  F(mem_src)                                                                                       \
  F(read_header)                                                                                   \
  F(start_decompress)                                                                              \
  F(read_scanlines)                                                                                \
  F(finish_decompress)                                                                             \
  F(destroy_decompress)

typedef struct JpegApi {
#define F(name) __typeof__(jpeg_##name) *name;
  JPEG_FUNCTIONS(F)
#undef F
} JpegApi;
static JpegApi jpeg;
static const LibraryFunction functions[] = {
#define F(name) {"jpeg_" #name, offsetof(JpegApi, name)},
    JPEG_FUNCTIONS(F)
#undef F
};
// The layout of the structs of libjpeg belongs to the version whose header was compiled.
static const char *const files[] = {
#if JPEG_LIB_VERSION >= 80
    "libjpeg.so.8",
#else
    "libjpeg.so.62",
#endif
    NULL};
static const LibrarySpec library = {
    .what = "libjpeg-turbo",
    .file = files,
    .brings = "install it (Debian: libjpeg62-turbo)",
    .without = "PNG files need none",
    .room = 1 << 20,
    .function = functions,
    .nfunctions = countof(functions),
};
static LibraryOnce once;

const LibraryFound *jpeg_library(void) { return library_fill_once(&library, &jpeg, &once); }

enum {
  SCANS_MOST = 500, // of a progressive file; each may take as long as the whole image
  // Most of a file: 6 blocks of 64 numbers for 256 pixels, at least a bit for each block.
  PIXELS_A_BYTE = 8 * 256 / 6 + 1
};

typedef struct Decoding {
  struct jpeg_error_mgr error; // first, so that a pointer to it is one to the struct
  struct jpeg_progress_mgr progress;
  struct jpeg_decompress_struct jpeg;
  jmp_buf stop;
  const unsigned char *bytes;
  size_t n;
  int channels;
  bool no_memory;
  ImageWork *work;
  Image *out;
  char *why;
} Decoding;

static Decoding *of(j_common_ptr c) { return (Decoding *)(void *)c->err; }

static _Noreturn void on_error(j_common_ptr c) {
  Decoding *d = of(c);
  char text[JMSG_LENGTH_MAX];
  c->err->format_message(c, text);
  d->no_memory = c->err->msg_code == JERR_OUT_OF_MEMORY;
  if (!*d->why) why_not(d->why, "is a damaged JPEG: %.120s", text);
  longjmp(d->stop, 1);
}

// Warnings of what other readers accept, too.
static bool is_harmless(int code) {
  return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR ||
         code == JWRN_NOT_SEQUENTIAL;
}

static void on_message(j_common_ptr c, int level) {
  if (level < 0 && !is_harmless(c->err->msg_code)) on_error(c);
}

static void on_output(j_common_ptr c) { (void)c; }

static void on_progress(j_common_ptr c) {
  if (((j_decompress_ptr)c)->input_scan_number <= SCANS_MOST) return;
  why_not(of(c)->why, "is a damaged JPEG: it has more than %d scans", SCANS_MOST);
  longjmp(of(c)->stop, 1);
}

// Sets the colours that libjpeg converts to. Returns the bytes of a pixel in them, or 0.
static int choose_colours(Decoding *d) {
  J_COLOR_SPACE from = d->jpeg.jpeg_color_space, to = JCS_UNKNOWN;
  if (from == JCS_GRAYSCALE || (from == JCS_YCbCr && d->channels == 1))
    to = JCS_GRAYSCALE;
  else if (from == JCS_YCbCr || from == JCS_RGB)
    to = JCS_RGB;
  else if (from == JCS_CMYK || from == JCS_YCCK)
    to = JCS_CMYK;
  d->jpeg.out_color_space = to;
  return to == JCS_GRAYSCALE ? 1 : to == JCS_RGB ? 3 : to == JCS_CMYK ? 4 : 0;
}

// Returns x times y / 255, rounded.
static unsigned share(unsigned x, unsigned y) {
  unsigned z = x * y + 128;
  return (z + (z >> 8)) >> 8;
}

// Converts CMYK to RGB: R = (255 - C) (255 - K) / 255. Files with a marker of Adobe have inverted
// numbers.
static void from_cmyk(Image *x, bool inverted) {
  int64_t n = x->height * x->width;
  unsigned flip = inverted ? 0 : 255;
  const unsigned char *p = x->at;
  unsigned char *q = x->at;
  for (int64_t i = 0; i < n; i++, p += 4, q += 3) {
    unsigned light = p[3] ^ flip;
    for (int k = 0; k < 3; k++) q[k] = (unsigned char)share(p[k] ^ flip, light);
  }
}

static void read_rows(Decoding *d, int bytes) {
  Image *x = d->out;
  while (d->jpeg.output_scanline < d->jpeg.output_height) {
    JSAMPROW row = x->at + (int64_t)d->jpeg.output_scanline * x->width * bytes;
    jpeg.read_scanlines(&d->jpeg, &row, 1);
  }
}

static bool decode(Decoding *d) {
  struct jpeg_decompress_struct *j = &d->jpeg;
  jpeg.CreateDecompress(j, JPEG_LIB_VERSION, sizeof *j);
  d->progress.progress_monitor = on_progress;
  j->progress = &d->progress;
  jpeg.mem_src(j, d->bytes, d->n);
  jpeg.read_header(j, TRUE);
  int bytes = choose_colours(d);
  if (!bytes)
    return why_not(d->why, "has %d channels, which are neither gray, RGB nor CMYK",
                   j->num_components);
  d->out->channels = bytes == 1 ? 1 : 3;
  if (!image_room(j->image_height, j->image_width, bytes == 4 ? 4 : 3, d->n * PIXELS_A_BYTE,
                  d->work, d->out, d->why))
    return false;
  jpeg.start_decompress(j);
  read_rows(d, bytes);
  bool inverted = j->saw_Adobe_marker;
  jpeg.finish_decompress(j);
  if (bytes == 4) from_cmyk(d->out, inverted);
  return true;
}

static bool decode_guarded(Decoding *d) {
  if (setjmp(d->stop)) return false;
  return decode(d);
}

bool jpeg_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w, Image *out,
                 char *why) {
  Decoding d = {.bytes = bytes, .n = n, .channels = channels, .work = w, .out = out, .why = why};
  *why = '\0';
  d.jpeg.err = jpeg.std_error(&d.error);
  d.error.error_exit = on_error;
  d.error.emit_message = on_message;
  d.error.output_message = on_output;
  bool good = decode_guarded(&d);
  jpeg.destroy_decompress(&d.jpeg);
  if (d.no_memory) mem_exhausted(0);
  return good;
}
