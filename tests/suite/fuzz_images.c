// A fuzzer of image files: bytes of small PNG and JPEG files of every kind are dropped, doubled,
// cut off and changed, checksums of PNG are often made right again, and what comes out is decoded
// and resampled. Some results are also read as the data of a model. A file may be refused with a
// message; it must not cause a crash or a hang.
//
//   suite_fuzz_images [count=N] [first=N] [seed=S]   input i of seed S is always the same; SHOW=1
//                                                    prints inputs that fail
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/images/image.h"
#include "tests/pictures/pictures.h"
#include "tests/suite/common/fuzz.h"

enum { COUNT = 4000, SIDE = 19, FEED_EVERY = 16 };

static FuzzText *whole[PICTURE_KINDS];
static ImageWork work;

static char *path_of(const char *name) {
  static char path[64];
  snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
  return path;
}

// Decodes an image, and what a model would make of it. Returns false if it is refused.
static bool decode(const char *bytes, size_t n, int channels) {
  static const ImageSpec specs[] = {
      {0},
      {.crop = CROP_AREA, .area = 0.1, .flip = 0.5, .contrast = 0.5, .cutout = 3},
      {.resize = RESIZE_SHORTER, .height = 30, .crop = CROP_RANDOM, .pad = 4, .saturation = 1}};
  char why[WHY] = "";
  Image x;
  if (!image_decode((const unsigned char *)bytes, n, channels, &work, &x, why)) {
    if (!*why) BUG("an image is refused without a word");
    return false;
  }
  for (size_t i = 0; i < countof(specs); i++) {
    ImagePlan p;
    ImageDraws d = {true, 5, (int64_t)i, 1};
    if (!image_plan(&specs[i], &d, x.height, x.width, 12, 16, &p, why)) continue;
    image_colour(&p, 12, 16, channels, image_resample(&x, &p, 12, 16, &work));
  }
  return true;
}

static bool feed(const FuzzText *t) {
  DataSource s = {.kind = SOURCE_IMAGES, .path = "x.png", .row_last = -1};
  FeedInput in = {
      .name = "x", .type = TYPE_F32, .rank = 4, .size = {1, 3, 8, 8}, .source = &s, .threads = 1};
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  const void *data[1];
  if (!fuzz_write(t, path_of("x.png"))) BUG("cannot write a picture");
  Feed *rows = feed_open(1, &in, 1, false, 1, true, fuzz_folder(), d);
  bool good = rows && feed_next(rows, data) == 1;
  if (rows && !good) feed_fault(rows, d);
  feed_close(rows);
  if (!good && !diag_errors(d)) BUG("an image is refused without a message");
  arena_free(a);
  return good;
}

static const char *pictures_make(void) {
  static char why[80];
  Arena *a = arena_new();
  for (int i = 0; i < IMAGE_FORMATS; i++)
    if (!image_library((ImageFormat)i, diag_new(a), (Pos){0})) return "a library is missing";
  arena_free(a);
  for (int k = 0; k < PICTURE_KINDS; k++) {
    whole[k] = calloc(1, sizeof *whole[k]);
    if (!whole[k] || !picture_write((PictureKind)k, SIDE, SIDE - 3, 3, path_of("x.png")))
      return "a picture cannot be written";
    if (!fuzz_read(whole[k], path_of("x.png"))) return "a picture cannot be read";
    if (decode(whole[k]->at, whole[k]->n, 3) != (k != PICTURE_jpeg_two)) {
      snprintf(why, sizeof why, "%s is not read as it is", picture_name((PictureKind)k));
      return why;
    }
  }
  return NULL;
}

static uint32_t big_endian(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// Writes the checksums of all chunks of a PNG that are whole.
static void repair(FuzzText *t) {
  unsigned char *b = (unsigned char *)t->at;
  for (size_t at = 8; at + 12 <= t->n;) {
    size_t n = big_endian(b + at);
    if (n > t->n - at - 12) return;
    uint32_t sum = (uint32_t)crc32(0, b + at + 4, (uInt)(n + 4));
    for (int i = 0; i < 4; i++) b[at + 8 + n + (size_t)i] = (unsigned char)(sum >> (24 - 8 * i));
    at += 12 + n;
  }
}

static void input_make(FuzzText *t) {
  uint32_t k = fuzz_below(PICTURE_KINDS);
  if (!whole[k]) return;
  fuzz_copy(t, whole[k]);
  for (uint32_t i = 1 + fuzz_below(3); i; i--) fuzz_bytes(t);
  if (picture_is_png((PictureKind)k) && fuzz_below(4)) repair(t);
}

static bool input_run(const FuzzText *t, uint64_t number) {
  bool good = decode(t->at, t->n, 3), gray = decode(t->at, t->n, 1);
  if (good != gray) BUG("an image is refused in %s only", good ? "gray" : "colours");
  if (number % FEED_EVERY == 0 && feed(t) != good) BUG("a feed and the decoder do not agree");
  return good;
}

int main(int argc, char **argv) {
  static const Fuzzer fuzzer = {.count = COUNT,
                                .fault = pictures_make,
                                .make = input_make,
                                .run = input_run,
                                .name = "fuzz_images"};
  int code = fuzz_run(argc, argv, &fuzzer);
  image_work_free(&work);
  for (int k = 0; k < PICTURE_KINDS; k++) free(whole[k]);
  return code;
}
