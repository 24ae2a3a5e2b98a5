// Resamples images by the triangle filter: bilinear interpolation that takes more pixels where an
// image gets smaller, so that none is left out. Columns are done first, then rows, in f32, and
// results are not rounded.
//
// Of n pixels that become m, result i has its centre at c = (i + 1/2) n / m. With s = max(1, n / m)
// pixel k has the weight max(0, 1 - |k + 1/2 - c| / s), divided by the sum of all weights. For
// m = n this is pixel i itself.
#include <math.h>

#include "runtime/images/image.h"

// The pixels that a result along one axis is made of: `n` from `first` on, none outside of the
// image.
typedef struct Tap {
  int64_t first;
  int32_t n;
  const float *weight;
} Tap;

// One axis: n pixels from `begin` on become `resized` ones, of which `count` from `from` on are
// needed, in reverse order with `reverse`.
typedef struct Axis {
  int64_t begin, n, resized, from, count;
  bool reverse;
} Axis;

// Returns most pixels of a tap.
static int64_t most_taps(const Axis *a) {
  double s = (double)a->n / (double)a->resized;
  return 2 * (int64_t)ceil(s > 1 ? s : 1) + 1;
}

static void make_tap(const Axis *a, int64_t i, float *weight, Tap *out) {
  *out = (Tap){.first = a->begin, .weight = weight};
  if (i < 0 || i >= a->resized) return;
  double ratio = (double)a->n / (double)a->resized, s = ratio > 1 ? ratio : 1;
  double centre = ((double)i + 0.5) * ratio, sum = 0;
  int64_t low = (int64_t)ceil(centre - s - 0.5), high = (int64_t)floor(centre + s - 0.5);
  if (low < 0) low = 0;
  if (high > a->n - 1) high = a->n - 1;
  // The first and the last may have the weight 0.
  while (low < high && 1 - fabs((double)low + 0.5 - centre) / s <= 0) low++;
  while (high > low && 1 - fabs((double)high + 0.5 - centre) / s <= 0) high--;
  for (int64_t k = low; k <= high; k++) sum += 1 - fabs((double)k + 0.5 - centre) / s;
  for (int64_t k = low; k <= high; k++)
    weight[k - low] = (float)((1 - fabs((double)k + 0.5 - centre) / s) / sum);
  out->first = a->begin + low;
  out->n = (int32_t)(high - low + 1);
}

// Makes the taps of an axis in `tap`, their weights in `weight`, `most` for each.
static void make_taps(const Axis *a, Tap *tap, float *weight, int64_t most) {
  for (int64_t i = 0; i < a->count; i++)
    make_tap(a, a->from + (a->reverse ? a->count - 1 - i : i), weight + i * most, &tap[i]);
}

// Elements that an inner loop computes at once; constant, so that compilers vectorise it.
enum { PIECE = 32 };

// Adds up the rows of pixels that a tap has. row[0..n) is the first of them, `stride` bytes before
// the next. Writes n numbers to `out`.
static void combine_rows(const unsigned char *row, int64_t n, int64_t stride, const Tap *tap,
                         float *out) {
  int64_t i = 0;
  for (; i + PIECE <= n; i += PIECE) {
    float sum[PIECE] = {0};
    for (int32_t k = 0; k < tap->n; k++) {
      const unsigned char *p = row + k * stride + i;
      float w = tap->weight[k];
      for (int j = 0; j < PIECE; j++) sum[j] += w * (float)p[j];
    }
    for (int j = 0; j < PIECE; j++) out[i + j] = sum[j];
  }
  for (; i < n; i++) {
    float sum = 0;
    for (int32_t k = 0; k < tap->n; k++) sum += tap->weight[k] * (float)row[k * stride + i];
    out[i] = sum;
  }
}

// Computes a row of results from a row of numbers, whose first is that of pixel `first`.
static void combine_columns(const float *line, int64_t first, int channels, const Tap *tap,
                            int64_t n, float *out) {
  for (int64_t i = 0; i < n; i++, out += channels) {
    const float *p = line + (tap[i].first - first) * channels, *w = tap[i].weight;
    float x = 0, y = 0, z = 0;
    if (channels == 1) {
      for (int32_t k = 0; k < tap[i].n; k++) x += w[k] * p[k];
      out[0] = x;
      continue;
    }
    for (int32_t k = 0; k < tap[i].n; k++, p += 3) {
      x += w[k] * p[0];
      y += w[k] * p[1];
      z += w[k] * p[2];
    }
    out[0] = x, out[1] = y, out[2] = z;
  }
}

// Sets *first and *last to the pixels that the taps have, up to last - 1.
static void range_of(const Tap *tap, int64_t n, int64_t *first, int64_t *last) {
  *first = INT64_MAX;
  *last = 0;
  for (int64_t i = 0; i < n; i++) {
    if (!tap[i].n) continue;
    if (tap[i].first < *first) *first = tap[i].first;
    if (tap[i].first + tap[i].n > *last) *last = tap[i].first + tap[i].n;
  }
  if (*last == 0) *first = 0;
}

float *image_resample(const Image *x, const ImagePlan *p, int64_t rows, int64_t columns,
                      ImageWork *w) {
  Axis down = {p->box.top, p->box.height, p->height, p->top, rows, p->upside_down},
       across = {p->box.left, p->box.width, p->width, p->left, columns, p->mirror};
  int64_t most_down = most_taps(&down), most_across = most_taps(&across), first, last;
  size_t taps = (size_t)(rows + columns),
         weights = (size_t)(rows * most_down + columns * most_across);
  Tap *tap_down = room_for(&w->taps, taps * sizeof(Tap) + weights * sizeof(float)),
      *tap_across = tap_down + rows;
  float *weight = (float *)(void *)(tap_down + taps);
  make_taps(&down, tap_down, weight, most_down);
  make_taps(&across, tap_across, weight + rows * most_down, most_across);
  range_of(tap_across, columns, &first, &last);
  int64_t n = (last - first) * x->channels, stride = x->width * x->channels;
  float *line = room_for(&w->lines, (size_t)(n + 1) * sizeof *line),
        *out = room_for(&w->values, (size_t)(rows * columns * x->channels) * sizeof *out);
  for (int64_t i = 0; i < rows; i++) {
    combine_rows(x->at + tap_down[i].first * stride + first * x->channels, n, stride, &tap_down[i],
                 line);
    combine_columns(line, first, x->channels, tap_across, columns, out + i * columns * x->channels);
  }
  return out;
}
