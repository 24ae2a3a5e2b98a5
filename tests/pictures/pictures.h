// Pictures for tests: PNG and JPEG files of every kind, written by libpng and libjpeg, whose pixels
// are known numbers.
#ifndef TESTS_PICTURES_H
#define TESTS_PICTURES_H

#include <stdbool.h>

// The kinds of files. Alpha, palettes and CMYK have made-up numbers, too.
#define PICTURES(F)                                                                                \
  F(png, true)                                                                                     \
  F(png_gray, true)                                                                                \
  F(png_gray1, true)                                                                               \
  F(png_gray2, true)                                                                               \
  F(png_gray4, true)                                                                               \
  F(png_gray16, true)                                                                              \
  F(png_gray_alpha, true)                                                                          \
  F(png_rgb16, true)                                                                               \
  F(png_alpha, true)                                                                               \
  F(png_palette2, true)                                                                            \
  F(png_palette8, true)                                                                            \
  F(png_interlaced, true)                                                                          \
  F(png_gray_interlaced, true)                                                                     \
  F(jpeg, false)                                                                                   \
  F(jpeg_gray, false)                                                                              \
  F(jpeg_rgb, false)                                                                               \
  F(jpeg_progressive, false)                                                                       \
  F(jpeg_cmyk, false)                                                                              \
  F(jpeg_ycck, false)                                                                              \
  F(jpeg_two, false) /* with two channels, which nobody reads */
typedef enum PictureKind {
#define F(name, png) PICTURE_##name,
  PICTURES(F)
#undef F
      PICTURE_KINDS
} PictureKind;
const char *picture_name(PictureKind k); // with - for _
bool picture_is_png(PictureKind k);

// Returns the number, 0 to 255, of channel c of a pixel. The pattern is class + 10 seed: classes 0
// and 1 change along x and along y, 2 is smooth, 3 is noise.
int picture_value(int pattern, int x, int y, int c);
// Returns what a reader should see of a PNG with 8 bits a channel: red, green or blue.
int picture_seen(PictureKind k, int pattern, int x, int y, int c);
// Writes a file. Returns false if that fails.
bool picture_write(PictureKind k, int width, int height, int pattern, const char *path);

#endif
