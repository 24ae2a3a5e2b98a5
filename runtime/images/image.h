// Images: the bytes of a PNG or JPEG file become an array of pixels, of which a part is resampled
// to the size that a model reads, and changed at random for training.
//
//   file -> image_decode -> Image (bytes) -> image_resample -> floats -> image_colour -> floats
//                              image_plan: which part, which changes
//
// Every step is a function of its arguments only, so that all ranks and threads get equal pixels.
#ifndef RUNTIME_IMAGE_H
#define RUNTIME_IMAGE_H

#include "runtime/runtime_internal.h"

// Most pixels of an image: 2^27, with at most 2^16 on a side, so that a small hostile file does not
// ask for all memory.
enum { IMAGE_PIXELS = 1 << 27 };
enum { IMAGE_FILE_MOST = 1 << 30 }; // most bytes of a file

// A block of memory that grows to the largest use.
typedef struct Room {
  void *at;
  size_t bytes;
} Room;
// Returns the memory of the room, which has at least `bytes` bytes. Their content is lost.
void *room_for(Room *r, size_t bytes);

// Buffers that a thread uses for one image after the other. All zero at first; image_work_free.
typedef struct ImageWork {
  Room file, pixels, rows, taps, lines, values, row;
} ImageWork;
void image_work_free(ImageWork *w);

// Pixels of 8 bits, row by row, with the channels of a pixel together: 1 (gray) or 3 (red, green,
// blue).
typedef struct Image {
  int64_t height, width;
  int channels;
  unsigned char *at; // in the buffers of the ImageWork, until its next use
} Image;

typedef enum ImageFormat { IMAGE_PNG, IMAGE_JPEG, IMAGE_FORMATS } ImageFormat;
// Opens the library for a format, once in the process. Returns false after an error in d. A format
// whose library has not been opened is not decoded.
MUST_USE bool image_library(ImageFormat f, Diag *d, Pos at);
// Sets *out to the format of a file by its first n bytes. Returns false if it is none of them.
bool image_format(const unsigned char *bytes, size_t n, ImageFormat *out);
// Decodes the n bytes of a file to an image with `channels` channels, 1 or 3, or with 0 as it is:
// gray or colours. Returns false, with the rest of a
// sentence that begins with the name of the file, if it is damaged or cannot be read.
MUST_USE bool image_decode(const unsigned char *bytes, size_t n, int channels, ImageWork *w,
                           Image *out, char *why);

// What becomes of one image. `box` is the part of it that is resized to height x width pixels. The
// result is a window of these, which begins at row `top` and column `left`, and may go beyond them:
// there it is 0.
typedef struct ImagePlan {
  struct {
    int64_t top, left, height, width;
  } box;
  int64_t height, width, top, left;
  bool mirror, upside_down;                // columns, rows in reverse order
  double brightness, contrast, saturation; // factors; 1: no change
  int64_t erase_top, erase_left, erase;    // a square of `erase` pixels that becomes 0; 0: none
} ImagePlan;

// The random draws for an image: those of an epoch, or none.
typedef struct ImageDraws {
  bool random;
  uint64_t key;       // of the data block
  int64_t row, epoch; // number of the image in the source
} ImageDraws;

// Decides what becomes of an image of height x width pixels for a result of rows x columns. Returns
// false, with the rest of a sentence, if it is too small.
MUST_USE bool image_plan(const ImageSpec *s, const ImageDraws *d, int64_t height, int64_t width,
                         int64_t rows, int64_t columns, ImagePlan *out, char *why);
// Computes rows x columns pixels of image x by the plan, before its colours are changed. Values are
// 0 to 255. The result is in the buffers of w, with the channels of a pixel together.
float *image_resample(const Image *x, const ImagePlan *p, int64_t rows, int64_t columns,
                      ImageWork *w);
// Changes brightness, contrast and saturation, and erases the square, as the plan says.
void image_colour(const ImagePlan *p, int64_t rows, int64_t columns, int channels, float *x);

#endif
