// Writes PNG and JPEG files with known pixels (pictures.h).
#include "tests/pictures/pictures.h"

#include <png.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

const char *picture_name(PictureKind k) {
  static const char *const names[] = {
#define F(name, png) #name,
      PICTURES(F)
#undef F
  };
  static char out[PICTURE_KINDS][32];
  snprintf(out[k], sizeof out[k], "%s", names[k]);
  for (char *c = out[k]; *c; c++)
    if (*c == '_') *c = '-';
  return out[k];
}

bool picture_is_png(PictureKind k) {
  static const bool is[] = {
#define F(name, png) png,
      PICTURES(F)
#undef F
  };
  return is[k];
}

static int wave(int x) {
  x = x % 400;
  return 28 + (x < 200 ? x : 400 - x);
}

int picture_value(int pattern, int x, int y, int c) {
  int seed = pattern / 10;
  switch (pattern % 10) {
  case 0: return (x * 37 + seed * 13 + c * 40) % 256;
  case 1: return (y * 37 + seed * 13 + c * 40) % 256;
  case 2: return wave(x * 5 + y * 3 + c * 60 + seed * 17);
  default: return (x * 73 + y * 151 + c * 199 + x * y * 31 + seed * 17) % 256;
  }
}

// -- PNG ----------------------------------------------------------------------------------------

typedef struct PngKind {
  int colour, depth, interlace;
} PngKind;
static const PngKind png_kinds[] = {
    [PICTURE_png] = {PNG_COLOR_TYPE_RGB, 8, 0},
    [PICTURE_png_gray] = {PNG_COLOR_TYPE_GRAY, 8, 0},
    [PICTURE_png_gray1] = {PNG_COLOR_TYPE_GRAY, 1, 0},
    [PICTURE_png_gray2] = {PNG_COLOR_TYPE_GRAY, 2, 0},
    [PICTURE_png_gray4] = {PNG_COLOR_TYPE_GRAY, 4, 0},
    [PICTURE_png_gray16] = {PNG_COLOR_TYPE_GRAY, 16, 0},
    [PICTURE_png_gray_alpha] = {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 0},
    [PICTURE_png_rgb16] = {PNG_COLOR_TYPE_RGB, 16, 0},
    [PICTURE_png_alpha] = {PNG_COLOR_TYPE_RGB_ALPHA, 8, 0},
    [PICTURE_png_palette2] = {PNG_COLOR_TYPE_PALETTE, 2, 0},
    [PICTURE_png_palette8] = {PNG_COLOR_TYPE_PALETTE, 8, 0},
    [PICTURE_png_interlaced] = {PNG_COLOR_TYPE_RGB, 8, 1},
    [PICTURE_png_gray_interlaced] = {PNG_COLOR_TYPE_GRAY, 4, 1},
};

static int channels_of(const PngKind *k) {
  return (k->colour & PNG_COLOR_MASK_COLOR && k->colour != PNG_COLOR_TYPE_PALETTE ? 3 : 1) +
         (k->colour & PNG_COLOR_MASK_ALPHA ? 1 : 0);
}

// The sample that a file has at a place: of `depth` bits.
static int sample(const PngKind *k, int pattern, int x, int y, int c) {
  int v = picture_value(pattern, x, y, c);
  if (k->depth == 16) return v * 256 + (v ^ 0x5a);
  return v >> (8 - k->depth);
}

static int palette_colour(int index, int c) { return (index * 67 + c * 91 + 20) % 256; }

int picture_seen(PictureKind kind, int pattern, int x, int y, int c) {
  const PngKind *k = &png_kinds[kind];
  bool gray = !(k->colour & PNG_COLOR_MASK_COLOR);
  int v = sample(k, pattern, x, y, gray || k->colour == PNG_COLOR_TYPE_PALETTE ? 0 : c);
  if (k->colour == PNG_COLOR_TYPE_PALETTE) return palette_colour(v, c);
  if (k->depth == 16) return (v * 255 * 2 + 65535) / (2 * 65535); // rounded to the nearest
  return v * 255 / ((1 << k->depth) - 1);
}

static void pack(const PngKind *k, int pattern, int width, int y, unsigned char *row) {
  int n = channels_of(k), bit = 0;
  memset(row, 0, (size_t)width * 8);
  for (int x = 0; x < width; x++)
    for (int c = 0; c < n; c++, bit += k->depth) {
      int v = sample(k, pattern, x, y, c);
      if (k->depth == 16)
        row[bit / 8] = (unsigned char)(v >> 8), row[bit / 8 + 1] = (unsigned char)v;
      else
        row[bit / 8] |= (unsigned char)(v << (8 - k->depth - bit % 8));
    }
}

static bool write_png(const PngKind *k, int width, int height, int pattern, FILE *f) {
  png_structp p = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
  png_infop info = p ? png_create_info_struct(p) : NULL;
  unsigned char *row = malloc((size_t)width * 8 + 8);
  if (!info || !row) return false;
  if (setjmp(png_jmpbuf(p))) return false;
  png_init_io(p, f);
  png_set_IHDR(p, info, (png_uint_32)width, (png_uint_32)height, k->depth, k->colour,
               k->interlace ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_BASE,
               PNG_FILTER_TYPE_BASE);
  png_color palette[256];
  png_byte alpha[4] = {0, 80, 160, 255};
  int colours = 1 << (k->depth < 8 ? k->depth : 8);
  for (int i = 0; i < colours; i++)
    palette[i] = (png_color){(png_byte)palette_colour(i, 0), (png_byte)palette_colour(i, 1),
                             (png_byte)palette_colour(i, 2)};
  if (k->colour == PNG_COLOR_TYPE_PALETTE) {
    png_set_PLTE(p, info, palette, colours);
    png_set_tRNS(p, info, alpha, 4, NULL);
  }
  png_write_info(p, info);
  for (int pass = png_set_interlace_handling(p); pass > 0; pass--)
    for (int y = 0; y < height; y++) {
      pack(k, pattern, width, y, row);
      png_write_row(p, row);
    }
  png_write_end(p, info);
  png_destroy_write_struct(&p, &info);
  free(row);
  return true;
}

// -- JPEG ---------------------------------------------------------------------------------------

static const struct JpegKind {
  int channels;
  J_COLOR_SPACE in, stored;
  bool progressive;
} jpeg_kinds[] = {
    [PICTURE_jpeg] = {3, JCS_RGB, JCS_YCbCr, false},
    [PICTURE_jpeg_gray] = {1, JCS_GRAYSCALE, JCS_GRAYSCALE, false},
    [PICTURE_jpeg_rgb] = {3, JCS_RGB, JCS_RGB, false},
    [PICTURE_jpeg_progressive] = {3, JCS_RGB, JCS_YCbCr, true},
    [PICTURE_jpeg_cmyk] = {4, JCS_CMYK, JCS_CMYK, false},
    [PICTURE_jpeg_ycck] = {4, JCS_CMYK, JCS_YCCK, false},
    [PICTURE_jpeg_two] = {2, JCS_UNKNOWN, JCS_UNKNOWN, false},
};

static bool write_jpeg(PictureKind kind, int width, int height, int pattern, FILE *f) {
  const struct JpegKind *k = &jpeg_kinds[kind];
  struct jpeg_compress_struct c;
  struct jpeg_error_mgr e;
  unsigned char *row = malloc((size_t)width * 4);
  if (!row) return false;
  c.err = jpeg_std_error(&e);
  jpeg_create_compress(&c);
  jpeg_stdio_dest(&c, f);
  c.image_width = (JDIMENSION)width;
  c.image_height = (JDIMENSION)height;
  c.input_components = k->channels;
  c.in_color_space = k->in;
  jpeg_set_defaults(&c);
  jpeg_set_colorspace(&c, k->stored);
  jpeg_set_quality(&c, 95, TRUE);
  if (k->progressive) jpeg_simple_progression(&c);
  jpeg_start_compress(&c, TRUE);
  for (int y = 0; y < height; y++) {
    for (int x = 0; x < width; x++)
      for (int i = 0; i < k->channels; i++)
        row[x * k->channels + i] = (unsigned char)picture_value(pattern, x, y, i);
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  free(row);
  return true;
}

bool picture_write(PictureKind k, int width, int height, int pattern, const char *path) {
  FILE *f = fopen(path, "wb");
  if (!f) return false;
  bool good = picture_is_png(k) ? write_png(&png_kinds[k], width, height, pattern, f)
                                : write_jpeg(k, width, height, pattern, f);
  return fclose(f) == 0 && good;
}
