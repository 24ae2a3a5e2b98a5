// Decides what becomes of an image: how it is resized, which part is taken, what is drawn at random
// for training; and changes its colours.
//
// A draw depends on the key of the data block, the number of the image in its source, and the
// epoch, and on nothing else. Words of Philox with the counter {row, epoch, n}:
//
//   n = 0   top and left of the part | mirrored | upside down
//   n = 1   brightness | contrast | saturation
//   n = 2   row and column of the centre of the square that is erased
//   n = 8.. a try of a part of random area: area | shape | top | left
#include <math.h>

#include "ir/base/philox.h"
#include "runtime/images/image.h"

enum { DRAW_PLACE, DRAW_COLOURS, DRAW_SQUARE, DRAW_TRIES = 8, TRIES = 10 };

// Sets u to four numbers in [0, 1).
static void draw(const ImageDraws *d, uint32_t n, double u[4]) {
  uint32_t word[4];
  philox_words(d->key, 0, d->row, d->epoch, n, word);
  for (int i = 0; i < 4; i++) u[i] = (double)(word[i] >> 8) * 0x1p-24;
}

// Returns an integer from 0 to n - 1 for u in [0, 1).
static int64_t below(double u, int64_t n) { return n > 1 ? (int64_t)(u * (double)n) : 0; }

// -- the part of an image -----------------------------------------------------------------------

static void whole_box(int64_t height, int64_t width, ImagePlan *p) {
  p->box.top = p->box.left = 0;
  p->box.height = height;
  p->box.width = width;
}

// Returns a * b / c, rounded down, at least 1.
static int64_t part(int64_t a, int64_t b, int64_t c) {
  int64_t x = a * b / c;
  return x > 1 ? x : 1;
}

// Sets the size to which an image is resized.
static void choose_size(const ImageSpec *s, int64_t height, int64_t width, int64_t rows,
                        int64_t columns, ImagePlan *p) {
  int64_t h = height, w = width;
  bool tall = height > width;
  switch (s->resize) {
  case RESIZE_NONE: break;
  case RESIZE_EXACT: h = s->height, w = s->width; break;
  case RESIZE_SHORTER:
    h = tall ? part(height, s->height, width) : s->height;
    w = tall ? s->height : part(width, s->height, height);
    break;
  case RESIZE_COVER:
    if (rows * width >= columns * height)
      h = rows, w = part(width, rows, height);
    else
      w = columns, h = part(height, columns, width);
    break;
  }
  p->height = h;
  p->width = w;
}

// Takes a part of random area and shape, as RandomResizedCrop of torchvision: its area is the share
// s->area to 1 of the image, its width 3/4 to 4/3 of its height, evenly in the logarithm. After ten
// tries that do not fit it is the largest part in the middle that has such a shape.
static void choose_area(const ImageSpec *s, const ImageDraws *d, int64_t height, int64_t width,
                        ImagePlan *p) {
  double u[4];
  for (uint32_t i = 0; i < TRIES; i++) {
    draw(d, DRAW_TRIES + i, u);
    double area = (double)height * (double)width * (s->area + (1 - s->area) * u[0]),
           shape = exp(log(4.0 / 3) * (2 * u[1] - 1));
    int64_t w = (int64_t)floor(sqrt(area * shape) + 0.5),
            h = (int64_t)floor(sqrt(area / shape) + 0.5);
    if (w < 1 || h < 1 || w > width || h > height) continue;
    p->box.height = h, p->box.width = w;
    p->box.top = below(u[2], height - h + 1);
    p->box.left = below(u[3], width - w + 1);
    return;
  }
  if (4 * height < 3 * width) p->box.width = part(height, 4, 3);
  if (4 * width < 3 * height) p->box.height = part(width, 4, 3);
  p->box.top = (height - p->box.height) / 2;
  p->box.left = (width - p->box.width) / 2;
}

// Returns the place of `wanted` pixels among `have` with `pad` on both sides.
static int64_t place(const ImageSpec *s, bool random, double u, int64_t have, int64_t wanted) {
  if (!random) return (have - wanted) / 2;
  return below(u, have + 2 * s->pad - wanted + 1) - s->pad;
}

// -- all ----------------------------------------------------------------------------------------

static double factor(double u, double most) {
  double low = most < 1 ? 1 - most : 0;
  return most > 0 ? low + (1 + most - low) * u : 1;
}

static void draw_changes(const ImageSpec *s, const ImageDraws *d, int64_t rows, int64_t columns,
                         ImagePlan *p) {
  double u[4];
  draw(d, DRAW_PLACE, u);
  p->mirror = u[2] < s->flip;
  p->upside_down = u[3] < s->flip_vertical;
  draw(d, DRAW_COLOURS, u);
  p->brightness = factor(u[0], s->brightness);
  p->contrast = factor(u[1], s->contrast);
  p->saturation = factor(u[2], s->saturation);
  draw(d, DRAW_SQUARE, u);
  p->erase = s->cutout;
  p->erase_top = below(u[0], rows) - s->cutout / 2;
  p->erase_left = below(u[1], columns) - s->cutout / 2;
}

bool image_plan(const ImageSpec *s, const ImageDraws *d, int64_t height, int64_t width,
                int64_t rows, int64_t columns, ImagePlan *out, char *why) {
  double u[4] = {0};
  bool random = d->random && s->crop == CROP_RANDOM;
  int64_t pad =
      s->crop == CROP_RANDOM ? s->pad : 0; // without draws: the middle of the padded image
  *out = (ImagePlan){.brightness = 1, .contrast = 1, .saturation = 1};
  whole_box(height, width, out);
  if (d->random) {
    draw(d, DRAW_PLACE, u);
    draw_changes(s, d, rows, columns, out);
  }
  if (d->random && s->crop == CROP_AREA) {
    choose_area(s, d, height, width, out);
    out->height = rows, out->width = columns;
    return true;
  }
  choose_size(s, height, width, rows, columns, out);
  if (out->height + 2 * pad < rows || out->width + 2 * pad < columns)
    return why_not(why, "has %lld x %lld pixels%s, and the input needs %lld x %lld",
                   (long long)out->width, (long long)out->height,
                   s->resize == RESIZE_NONE ? "" : " after it is resized", (long long)columns,
                   (long long)rows);
  out->top = place(s, random, u[0], out->height, rows);
  out->left = place(s, random, u[1], out->width, columns);
  return true;
}

// -- colours ------------------------------------------------------------------------------------

static float limited(float x) { return x < 0 ? 0 : x > 255 ? 255 : x; }

static float gray_of(const float *x, int channels) {
  return channels == 1 ? x[0] : 0.299f * x[0] + 0.587f * x[1] + 0.114f * x[2];
}

// Replaces every number by f x + rest, limited to 0 to 255. The inner loop has a constant length,
// so that compilers vectorise it.
static void scale_values(float *x, int64_t n, float f, float rest) {
  enum { PIECE = 32 };
  int64_t i = 0;
  for (; i + PIECE <= n; i += PIECE)
    for (int j = 0; j < PIECE; j++) x[i + j] = limited(f * x[i + j] + rest);
  for (; i < n; i++) x[i] = limited(f * x[i] + rest);
}

static void change_contrast(float *x, int64_t pixels, int channels, double factor) {
  double sum = 0;
  for (int64_t i = 0; i < pixels; i++) sum += (double)gray_of(x + i * channels, channels);
  scale_values(x, pixels * channels, (float)factor, (float)((1 - factor) * sum / (double)pixels));
}

static void saturate(float *x, int64_t pixels, double factor) {
  float f = (float)factor;
  for (int64_t i = 0; i < pixels; i++, x += 3) {
    float rest = (1 - f) * gray_of(x, 3);
    for (int k = 0; k < 3; k++) x[k] = limited(f * x[k] + rest);
  }
}

static void erase(const ImagePlan *p, int64_t rows, int64_t columns, int channels, float *x) {
  int64_t bottom = p->erase_top + p->erase, right = p->erase_left + p->erase;
  for (int64_t i = p->erase_top > 0 ? p->erase_top : 0; i < rows && i < bottom; i++)
    for (int64_t j = p->erase_left > 0 ? p->erase_left : 0; j < columns && j < right; j++)
      for (int k = 0; k < channels; k++) x[(i * columns + j) * channels + k] = 0;
}

void image_colour(const ImagePlan *p, int64_t rows, int64_t columns, int channels, float *x) {
  int64_t pixels = rows * columns;
  if (p->brightness != 1) scale_values(x, pixels * channels, (float)p->brightness, 0);
  if (p->contrast != 1) change_contrast(x, pixels, channels, p->contrast);
  if (p->saturation != 1 && channels == 3) saturate(x, pixels, p->saturation);
  if (p->erase) erase(p, rows, columns, channels, x);
}
