// Tests images: pixels of every kind of file against the numbers that were written, resampling
// against its definition, random changes against a plain computation, damaged files, labels, and
// that batches do not depend on threads, ranks or the size of a batch.
#include <math.h>
#include <sys/stat.h>

#include "ir/base/philox.h"
#include "runtime/images/image.h"
#include "tests/pictures/pictures.h"
#include "tests/unit/data_frame.h"

#include <jpeglib.h> // needs stdio.h before it

static ImageWork work;

static void picture(PictureKind k, int width, int height, int pattern, const char *name) {
  if (!picture_write(k, width, height, pattern, path_of(name))) fail_msg("cannot write %s", name);
}

static void folder(const char *name) {
  if (mkdir(path_of(name), 0700) != 0) fail_msg("cannot make %s", name);
}

static unsigned char *bytes_of(const char *name, size_t *n) {
  FILE *f = fopen(path_of(name), "rb");
  unsigned char *out = arena_alloc(arena, 1 << 20);
  *n = f ? fread(out, 1, 1 << 20, f) : 0;
  if (f) fclose(f);
  return out;
}

static bool decode(const char *name, int channels, Image *out, char *why) {
  size_t n;
  const unsigned char *bytes = bytes_of(name, &n);
  return image_decode(bytes, n, channels, &work, out, why);
}

// -- formats ------------------------------------------------------------------------------------

enum { W = 21, H = 17 };

static int luma(int r, int g, int b) { return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16; }

static void png_of_every_kind(void **state) {
  (void)state;
  char why[WHY];
  for (int k = 0; k < PICTURE_KINDS; k++) {
    Image x;
    if (!picture_is_png((PictureKind)k)) continue;
    picture((PictureKind)k, W, H, 3, "p.png");
    for (int channels = 1; channels <= 3; channels += 2) {
      if (!decode("p.png", channels, &x, why)) fail_msg("%s %s", picture_name((PictureKind)k), why);
      assert_true(x.width == W && x.height == H && x.channels == channels);
      for (int i = 0; i < W * H; i++) {
        int rgb[3];
        for (int c = 0; c < 3; c++) rgb[c] = picture_seen((PictureKind)k, 3, i % W, i / W, c);
        for (int c = 0; c < channels; c++) {
          int want = channels == 1 ? luma(rgb[0], rgb[1], rgb[2]) : rgb[c];
          int got = x.at[i * channels + c];
          if (got != want)
            fail_msg("%s, pixel %d, channel %d of %d: %d, not %d", picture_name((PictureKind)k), i,
                     c, channels, got, want);
        }
      }
    }
  }
}

// What libjpeg itself decodes, in the colours `space`.
static unsigned char *reference(const char *name, J_COLOR_SPACE space, int channels) {
  struct jpeg_decompress_struct j;
  struct jpeg_error_mgr e;
  FILE *f = fopen(path_of(name), "rb");
  unsigned char *out = arena_alloc(arena, (size_t)(W * H * channels));
  j.err = jpeg_std_error(&e);
  jpeg_create_decompress(&j);
  jpeg_stdio_src(&j, f);
  (void)jpeg_read_header(&j, TRUE);
  j.out_color_space = space;
  (void)jpeg_start_decompress(&j);
  while (j.output_scanline < j.output_height) {
    JSAMPROW row = out + j.output_scanline * W * (unsigned)channels;
    (void)jpeg_read_scanlines(&j, &row, 1);
  }
  (void)jpeg_finish_decompress(&j);
  jpeg_destroy_decompress(&j);
  fclose(f);
  return out;
}

static void expect_jpeg(PictureKind k, J_COLOR_SPACE space, int channels, int pattern) {
  char why[WHY];
  Image x;
  picture(k, W, H, pattern, "p.jpg");
  if (!decode("p.jpg", channels, &x, why)) fail_msg("%s %s", picture_name(k), why);
  assert_true(x.width == W && x.height == H && x.channels == channels);
  int stored = space == JCS_CMYK ? 4 : space == JCS_RGB ? 3 : 1;
  const unsigned char *want = reference("p.jpg", space, stored);
  for (int i = 0; i < W * H; i++) {
    int rgb[3];
    for (int c = 0; c < 3; c++) {
      const unsigned char *p = want + i * stored;
      // libjpeg writes inverted CMYK with a marker of Adobe
      rgb[c] = stored == 4 ? (int)floor(p[c] * p[3] / 255.0 + 0.5) : p[stored == 1 ? 0 : c];
    }
    for (int c = 0; c < channels; c++) {
      int expected = channels == 1 && stored == 3   ? luma(rgb[0], rgb[1], rgb[2])
                     : channels == 1 && stored == 4 ? luma(rgb[0], rgb[1], rgb[2])
                                                    : rgb[c];
      int got = x.at[i * channels + c];
      if (got != expected)
        fail_msg("%s, pixel %d, channel %d: %d, not %d", picture_name(k), i, c, got, expected);
      if (stored != 4 && channels == 3 && k != PICTURE_jpeg_gray &&
          abs(got - picture_value(pattern, i % W, i / W, c)) > 16)
        fail_msg("%s, pixel %d, channel %d: %d, and %d was written", picture_name(k), i, c, got,
                 picture_value(pattern, i % W, i / W, c));
    }
  }
}

static void jpeg_of_every_kind(void **state) {
  (void)state;
  expect_jpeg(PICTURE_jpeg, JCS_RGB, 3, 2);
  expect_jpeg(PICTURE_jpeg, JCS_GRAYSCALE, 1, 2);
  expect_jpeg(PICTURE_jpeg_progressive, JCS_RGB, 3, 12);
  expect_jpeg(PICTURE_jpeg_gray, JCS_GRAYSCALE, 1, 2);
  expect_jpeg(PICTURE_jpeg_gray, JCS_GRAYSCALE, 3, 2);
  expect_jpeg(PICTURE_jpeg_rgb, JCS_RGB, 3, 2);
  expect_jpeg(PICTURE_jpeg_rgb, JCS_RGB, 1, 2);
  expect_jpeg(PICTURE_jpeg_cmyk, JCS_CMYK, 3, 2);
  expect_jpeg(PICTURE_jpeg_ycck, JCS_CMYK, 3, 2);
  expect_jpeg(PICTURE_jpeg_cmyk, JCS_CMYK, 1, 3);
}

// -- damaged files ------------------------------------------------------------------------------

static void expect_refused(const unsigned char *bytes, size_t n, const char *says) {
  char why[WHY];
  Image x;
  if (image_decode(bytes, n, 3, &work, &x, why)) fail_msg("accepted, not '%s'", says);
  if (!strstr(why, says)) fail_msg("'%s' is not in: %s", says, why);
}

static void a_file_that_ends_early(void **state) {
  (void)state;
  static const PictureKind kinds[] = {PICTURE_png,  PICTURE_png_interlaced,   PICTURE_png_palette8,
                                      PICTURE_jpeg, PICTURE_jpeg_progressive, PICTURE_jpeg_cmyk};
  for (size_t k = 0; k < countof(kinds); k++) {
    size_t n;
    picture(kinds[k], W, H, 3, "p");
    const unsigned char *bytes = bytes_of("p", &n);
    bool png = picture_is_png(kinds[k]);
    for (size_t i = 1; i < n; i++)
      expect_refused(bytes, i,
                     i < (png ? 8 : 3) ? "is no PNG"
                     : png             ? "is a damaged PNG"
                                       : "is a damaged JPEG");
    expect_refused(bytes, 0, "is empty");
    again();
  }
}

static void wrong_bytes(void **state) {
  (void)state;
  size_t n;
  picture(PICTURE_png, W, H, 3, "p.png");
  unsigned char *b = bytes_of("p.png", &n);
  b[8 + 8 + 13] ^= 1; // the checksum of IHDR
  expect_refused(b, n, "is a damaged PNG: IHDR: CRC error");
  b = bytes_of("p.png", &n);
  b[8 + 25 + 8 + 20] ^= 0x10; // in the pixels
  expect_refused(b, n, "is a damaged PNG");
  b = bytes_of("p.png", &n);
  b[n - 1] ^= 1; // the checksum of IEND
  expect_refused(b, n, "is a damaged PNG");
  expect_refused((const unsigned char *)"P6 2 2 255 abcdefghijkl", 23,
                 "is no PNG and no JPEG file");
  picture(PICTURE_jpeg_two, W, H, 3, "p.jpg");
  b = bytes_of("p.jpg", &n);
  expect_refused(b, n, "has 2 channels");
  picture(PICTURE_jpeg, W, H, 3, "p.jpg");
  b = bytes_of("p.jpg", &n);
  for (size_t i = 0; i + 9 < n; i++)
    if (b[i] == 0xff && b[i + 1] == 0xc0) {
      unsigned char size[4];
      memcpy(size, b + i + 5, 4);
      memcpy(b + i + 5, "\xff\x00\xff\x00", 4); // 65280 x 65280
      expect_refused(b, n, "claims 65280 x 65280 pixels");
      memcpy(b + i + 5, "\x10\x00\x10\x00", 4); // 4096 x 4096
      expect_refused(b, n, "is too short for the 4096 x 4096 pixels");
      memcpy(b + i + 5, size, 4);
      b[i + 4] = 12; // bits
      expect_refused(b, n, "is a damaged JPEG: Unsupported JPEG data precision 12");
      return;
    }
  fail_msg("no header of a frame");
}

// -- resampling ---------------------------------------------------------------------------------

static double weight(int64_t i, int64_t k, int64_t from, int64_t to) {
  double s = from > to ? (double)from / (double)to : 1;
  double c = ((double)i + 0.5) * (double)from / (double)to;
  return fmax(0, 1 - fabs((double)k + 0.5 - c) / s);
}

// Pixel (i, j) of an image that is resized as a whole, by the definition.
static double resized(const Image *x, int64_t rows, int64_t columns, int64_t i, int64_t j, int c) {
  double sum = 0, all = 0;
  for (int64_t y = 0; y < x->height; y++)
    for (int64_t z = 0; z < x->width; z++) {
      double w = weight(i, y, x->height, rows) * weight(j, z, x->width, columns);
      all += w;
      sum += w * x->at[(y * x->width + z) * x->channels + c];
    }
  return sum / all;
}

static void expect_resized(int width, int height, int channels, int64_t rows, int64_t columns) {
  char why[WHY];
  Image x;
  picture(PICTURE_png, width, height, 3, "p.png");
  assert_true(decode("p.png", channels, &x, why));
  ImagePlan p = {.height = rows, .width = columns, .brightness = 1, .contrast = 1, .saturation = 1};
  p.box.height = height, p.box.width = width;
  const float *got = image_resample(&x, &p, rows, columns, &work);
  for (int64_t i = 0; i < rows * columns * channels; i++) {
    int64_t pixel = i / channels;
    double want = resized(&x, rows, columns, pixel / columns, pixel % columns, (int)(i % channels));
    if (fabs((double)got[i] - want) > 1e-3)
      fail_msg("%d x %d to %lld x %lld, element %lld: %g, not %g", width, height,
               (long long)columns, (long long)rows, (long long)i, (double)got[i], want);
  }
}

static void resampling(void **state) {
  (void)state;
  static const int sizes[][5] = {{W, H, 3, H, W},  {W, H, 1, 5, 7},  {W, H, 3, 40, 33},
                                 {W, H, 3, 9, 60}, {1, 1, 1, 4, 4},  {5, 1, 3, 1, 2},
                                 {64, 3, 1, 2, 3}, {30, 30, 3, 1, 1}};
  for (size_t i = 0; i < countof(sizes); i++)
    expect_resized(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], sizes[i][4]);
  // numbers by hand: twice as large, half as large
  unsigned char line[] = {0, 100, 200, 252};
  Image x = {.height = 1, .width = 2, .channels = 1, .at = line};
  ImagePlan p = {.height = 1, .width = 4};
  p.box.height = 1, p.box.width = 2;
  const float *got = image_resample(&x, &p, 1, 4, &work);
  static const float up[] = {0, 25, 75, 100};
  for (int i = 0; i < 4; i++) assert_true(got[i] == up[i]);
  x.width = p.box.width = 4, p.width = 2;
  got = image_resample(&x, &p, 1, 2, &work);
  assert_true(fabs((double)got[0] - (0.75 * 0 + 0.75 * 100 + 0.25 * 200) / 1.75) < 1e-4);
  assert_true(fabs((double)got[1] - (0.25 * 100 + 0.75 * 200 + 0.75 * 252) / 1.75) < 1e-4);
}

static void expect_plan(ImageSpec s, int64_t height, int64_t width, int64_t rows, int64_t columns,
                        const int64_t want[4]) {
  char why[WHY];
  ImagePlan p;
  ImageDraws none = {0};
  if (!image_plan(&s, &none, height, width, rows, columns, &p, why)) fail_msg("%s", why);
  int64_t got[4] = {p.height, p.width, p.top, p.left};
  for (int i = 0; i < 4; i++)
    if (got[i] != want[i])
      fail_msg("%lld x %lld: number %d is %lld, not %lld", (long long)width, (long long)height, i,
               (long long)got[i], (long long)want[i]);
  assert_true(p.box.top == 0 && p.box.left == 0 && p.box.height == height && p.box.width == width);
  assert_true(!p.mirror && !p.upside_down && p.brightness == 1 && p.contrast == 1 && !p.erase);
}

static void sizes_of_parts(void **state) {
  (void)state;
  ImageSpec cover = {.flip = 1, .contrast = 0.5, .cutout = 3}, none = {.resize = RESIZE_NONE};
  ImageSpec shorter = {.resize = RESIZE_SHORTER, .height = 256};
  ImageSpec exact = {.resize = RESIZE_EXACT, .height = 40, .width = 50};
  expect_plan(cover, 375, 500, 224, 224, (int64_t[]){224, 298, 0, 37});
  expect_plan(cover, 500, 375, 224, 224, (int64_t[]){298, 224, 37, 0});
  expect_plan(cover, 28, 28, 28, 28, (int64_t[]){28, 28, 0, 0});
  expect_plan(cover, 10, 40, 20, 20, (int64_t[]){20, 80, 0, 30});
  expect_plan(shorter, 375, 500, 224, 224, (int64_t[]){256, 341, 16, 58});
  expect_plan(shorter, 500, 375, 224, 224, (int64_t[]){341, 256, 58, 16});
  expect_plan(exact, 375, 500, 32, 32, (int64_t[]){40, 50, 4, 9});
  expect_plan(none, 33, 36, 32, 32, (int64_t[]){33, 36, 0, 2});
  char why[WHY];
  ImagePlan p;
  assert_false(image_plan(&none, &(ImageDraws){0}, 20, 30, 32, 32, &p, why));
  assert_string_equal(why, "has 30 x 20 pixels, and the input needs 32 x 32");
}

// -- feeds --------------------------------------------------------------------------------------

enum { N = 8, FILES = 7 }; // pixels of a side; files

static FeedInput images_input(const DataSource *s, int channels, int64_t side, bool augment) {
  FeedInput in = {.name = "x",
                  .type = TYPE_F32,
                  .rank = 4,
                  .size = {4, channels, side, side},
                  .source = s,
                  .augment = augment};
  return in;
}

static DataSource images(const char *path, ImageSpec spec) {
  return (DataSource){.kind = SOURCE_IMAGES, .path = path, .row_last = -1, .image = spec};
}

static void make_files(int side) {
  folder("set");
  for (int i = 0; i < FILES; i++)
    picture(PICTURE_png, side, side, 3 + 10 * i, arena_printf(arena, "set/%d.png", i));
}

// Reads `epochs` epochs of all files to *out, by the row of the source.
static float *read_rows(FeedInput in, int64_t batch, bool shuffle, int epochs) {
  int64_t n = 1;
  for (int i = 1; i < in.rank; i++) n *= in.size[i];
  in.size[0] = batch;
  Feed *f = feed_open(1, &in, batch, shuffle, 5, true, directory, diag);
  if (!f) fail_msg("the feed does not open");
  float *out = arena_alloc(arena, (size_t)(epochs * FILES * n) * sizeof *out);
  const void *data[1];
  for (int64_t row = 0, epoch = 0; epoch < epochs;) {
    int64_t got = feed_next(f, data);
    assert_true(got >= 0);
    memcpy(out + (epoch * FILES + row) * n, data[0], (size_t)(got * n) * sizeof *out);
    row += got;
    if (got == 0) epoch++, row = 0;
  }
  feed_close(f);
  return out;
}

static void pixels_of_a_feed(void **state) {
  (void)state;
  make_files(N);
  DataSource s = images("set", (ImageSpec){0});
  const float *x = read_rows(images_input(&s, 3, N, true), 3, false, 1);
  for (int64_t i = 0; i < FILES * 3 * N * N; i++) {
    int64_t pixel = i % (N * N), c = i / (N * N) % 3, row = i / (3 * N * N);
    int v = picture_value(3 + 10 * (int)row, (int)(pixel % N), (int)(pixel / N), (int)c);
    assert_true(x[i] == (float)(v * (1.0 / 255)));
  }
  // channels last, bytes, another scale
  s.scale = 2;
  FeedInput in = images_input(&s, 3, N, false);
  in.size[1] = N, in.size[3] = 3;
  x = read_rows(in, 7, false, 1);
  assert_true(x[3 * N + 2] == 2.0f * (float)picture_value(3, 0, 1, 2));
  in.type = TYPE_U8;
  in.size[0] = 2;
  s.scale = 0;
  Feed *f = feed_open(1, &in, 2, false, 1, true, directory, diag);
  const void *data[1];
  assert_int_equal(feed_next(f, data), 2);
  assert_int_equal(((const unsigned char *)data[0])[3 * N * N + 3 * N + 2],
                   picture_value(13, 0, 1, 2));
  feed_close(f);
}

static double uniform(int64_t row, int64_t epoch, uint32_t n, int i, int64_t draws) {
  uint32_t w[4];
  uint64_t key = philox_mix(rng_key(5, "images") + (uint64_t)draws);
  philox_words(key, 0, row, epoch, n, w);
  return (double)(w[i] >> 8) / 16777216.0;
}

static double limited(double x) { return x < 0 ? 0 : x > 255 ? 255 : x; }

// What training sees of pixel (i, j) of a file, before colours: padded by 2, mirrored by chance.
static double placed(int row, int64_t epoch, int i, int j, int c) {
  int top = (int)floor(uniform(row, epoch, 0, 0, 0) * 5) - 2,
      left = (int)floor(uniform(row, epoch, 0, 1, 0) * 5) - 2;
  if (uniform(row, epoch, 0, 2, 0) < 0.5) j = N - 1 - j;
  if (uniform(row, epoch, 0, 3, 0) < 0.25) i = N - 1 - i;
  int y = i + top, x = j + left;
  return y < 0 || x < 0 || y >= N || x >= N ? 0 : picture_value(3 + 10 * row, x, y, c);
}

static double gray_at(const double x[3]) { return 0.299 * x[0] + 0.587 * x[1] + 0.114 * x[2]; }

static void random_changes(void **state) {
  (void)state;
  DataSource s = images("set", (ImageSpec){.crop = CROP_RANDOM,
                                           .pad = 2,
                                           .flip = 0.5,
                                           .flip_vertical = 0.25,
                                           .brightness = 0.4,
                                           .contrast = 0.5,
                                           .saturation = 2,
                                           .cutout = 3});
  const float *x = read_rows(images_input(&s, 3, N, true), 4, false, 2);
  int mirrored = 0;
  for (int e = 0; e < 2; e++)
    for (int row = 0; row < FILES; row++) {
      double v[N][N][3], mean = 0;
      double bright = 0.6 + 0.8 * uniform(row, e, 1, 0, 0),
             contrast = 0.5 + uniform(row, e, 1, 1, 0), colour = 3 * uniform(row, e, 1, 2, 0);
      int top = (int)floor(uniform(row, e, 2, 0, 0) * N) - 1,
          left = (int)floor(uniform(row, e, 2, 1, 0) * N) - 1;
      mirrored += uniform(row, e, 0, 2, 0) < 0.5;
      for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
          for (int c = 0; c < 3; c++) v[i][j][c] = limited(bright * placed(row, e, i, j, c));
          mean += gray_at(v[i][j]) / (N * N);
        }
      for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
          for (int c = 0; c < 3; c++)
            v[i][j][c] = limited(contrast * v[i][j][c] + (1 - contrast) * mean);
          double gray = gray_at(v[i][j]);
          bool erased = i >= top && i < top + 3 && j >= left && j < left + 3;
          for (int c = 0; c < 3; c++) {
            double want = erased ? 0 : limited(colour * v[i][j][c] + (1 - colour) * gray) / 255;
            double got = (double)x[(((e * FILES + row) * 3 + c) * N + i) * N + j];
            if (fabs(got - want) > 1e-5)
              fail_msg("epoch %d, file %d, pixel %d %d, channel %d: %g, not %g", e, row, i, j, c,
                       got, want);
          }
        }
    }
  assert_in_range(mirrored, 2, 12);
}

static void parts_of_random_area(void **state) {
  (void)state;
  ImageSpec s = {.crop = CROP_AREA, .area = 0.3};
  char why[WHY];
  double least = 1, most = 0;
  for (int64_t row = 0; row < 200; row++) {
    ImagePlan p;
    ImageDraws d = {true, 7, row, 1};
    assert_true(image_plan(&s, &d, 60, 80, 32, 32, &p, why));
    assert_true(p.box.top >= 0 && p.box.top + p.box.height <= 60);
    assert_true(p.box.left >= 0 && p.box.left + p.box.width <= 80);
    double area = (double)(p.box.height * p.box.width) / (60 * 80),
           shape = (double)p.box.width / (double)p.box.height;
    assert_true(shape > 0.72 && shape < 1.39);
    least = fmin(least, area), most = fmax(most, area);
    assert_true(p.height == 32 && p.width == 32 && p.top == 0 && p.left == 0);
  }
  assert_true(least > 0.28 && least < 0.4 && most > 0.85);
  // no part has such a shape: the largest in the middle
  ImagePlan p;
  s.area = 1;
  assert_true(image_plan(&s, &(ImageDraws){true, 7, 1, 1}, 10, 100, 8, 8, &p, why));
  assert_true(p.box.height == 10 && p.box.width == 13 && p.box.left == 43);
}

static void equal_on_all_machines(void **state) {
  (void)state;
  DataSource s =
      images("set", (ImageSpec){.crop = CROP_AREA, .area = 0.4, .flip = 0.5, .saturation = 0.5});
  FeedInput in = images_input(&s, 3, N - 3, true);
  size_t bytes = (size_t)(2 * FILES * 3 * (N - 3) * (N - 3)) * sizeof(float);
  const float *want = read_rows(in, 7, false, 2);
  static const int ways[][3] = {{1, 1, 0}, {2, 1, 1}, {3, 2, 0}, {7, 5, 500}, {4, 3, 1}};
  for (size_t i = 0; i < countof(ways); i++) {
    in.threads = ways[i][1];
    in.keep = ways[i][2]; // all decoded images are kept, none, some
    assert_memory_equal(read_rows(in, ways[i][0], false, 2), want, bytes);
  }
  // other draws for another number and for each epoch
  assert_memory_not_equal(want, want + bytes / sizeof(float) / 2, bytes / 2);
  s.image.draws = 1;
  assert_memory_not_equal(read_rows(in, 7, false, 2), want, bytes);
  // in evaluations nothing is drawn
  in.augment = false;
  const float *plain = read_rows(in, 7, false, 2);
  assert_memory_equal(plain, plain + bytes / sizeof(float) / 2, bytes / 2);
  DataSource center = images("set", (ImageSpec){0});
  in.source = &center;
  assert_memory_equal(read_rows(in, 7, false, 2), plain, bytes);
}

static void rows_of_a_rank(void **state) {
  (void)state;
  DataSource s = images("set", (ImageSpec){.crop = CROP_RANDOM, .pad = 1, .flip = 0.5});
  FeedInput in = images_input(&s, 1, N, true);
  int64_t n = N * N;
  in.size[0] = 4;
  Feed *all = feed_open(1, &in, 4, true, 5, false, directory, diag),
       *part = feed_open(1, &in, 4, true, 5, false, directory, diag);
  feed_restrict(part, 0, false, 2, 4);
  assert_true(feed_seek(part, 0, 0, diag));
  for (int i = 0; i < 3; i++) {
    const void *x[1], *y[1];
    int64_t rows = feed_next(all, x);
    assert_int_equal(feed_next(part, y), rows);
    if (rows)
      assert_memory_equal((const float *)x[0] + 2 * n, (const float *)y[0] + 2 * n,
                          (size_t)(2 * n) * sizeof(float));
  }
  SourceReport seen;
  feed_report(part, 0, &seen);
  assert_int_equal(seen.files, FILES);
  assert_true(seen.low[0] == N && seen.high[1] == N && seen.decoded >= 2);
  assert_true(seen.decoded <= FILES && seen.kept == seen.decoded * (8 + N * N)); // each once
  feed_close(all);
  feed_close(part);
}

static void batch_axis_behind(void **state) {
  (void)state;
  DataSource s = images("set", (ImageSpec){0});
  FeedInput in = {
      .name = "x", .type = TYPE_F32, .rank = 3, .size = {N, 4, N}, .over = 1, .source = &s};
  Feed *f = feed_open(1, &in, 4, false, 1, true, directory, diag);
  const void *data[1];
  assert_int_equal(feed_next(f, data), 4);
  for (int y = 0; y < N; y++)
    for (int row = 0; row < 4; row++) {
      int p = 3 + 10 * row,
          v = luma(picture_value(p, 2, y, 0), picture_value(p, 2, y, 1), picture_value(p, 2, y, 2));
      assert_true(((const float *)data[0])[(y * 4 + row) * N + 2] == (float)(v * (1.0 / 255)));
    }
  feed_close(f);
}

// -- files and labels ---------------------------------------------------------------------------

static void touch(const char *name) { picture(PICTURE_png, 4, 4, 3, name); }

static void expect_labels(const char *path, DataSource s, const int32_t *want, int64_t n) {
  s.kind = SOURCE_LABELS;
  s.path = path;
  s.scale = 1;
  FeedInput in = {.name = "y", .type = TYPE_I32, .rank = 1, .size = {n}, .source = &s};
  Feed *f = feed_open(1, &in, n, false, 1, true, directory, diag);
  const void *data[1];
  if (!f) fail_msg("%s does not open", path);
  assert_int_equal(feed_rows(f), n);
  assert_int_equal(feed_next(f, data), n);
  assert_memory_equal(data[0], want, (size_t)n * sizeof *want);
  feed_close(f);
}

static void labels_of_folders(void **state) {
  (void)state;
  static const char *const folders[] = {"pets", "pets/dog", "pets/cat", "pets/ant",
                                        "nine", "nine/10",  "nine/9"};
  for (size_t i = 0; i < countof(folders); i++) folder(folders[i]);
  touch("pets/dog/1.png"), touch("pets/dog/2.PNG"), touch("pets/cat/x.jpeg");
  touch("pets/ant/.hidden.png"), touch("pets/cat/notes.txt");
  touch("nine/10/a.png"), touch("nine/9/a.png");
  DataSource by_name = {.classes = CLASSES_AUTO, .row_last = -1};
  expect_labels("pets", by_name, (int32_t[]){0, 1, 1}, 3);
  expect_labels("pets/*", by_name, (int32_t[]){0, 1, 1}, 3);
  expect_labels("pets/*/*", by_name, (int32_t[]){0, 1, 1}, 3);
  expect_labels("nine", by_name, (int32_t[]){1, 0}, 2); // classes 9, 10; files by bytes
  DataSource listed = {.classes = CLASSES_LISTED, .class_list = "dog\nant\ncat\n", .row_last = -1};
  expect_labels("pets", listed, (int32_t[]){2, 0, 0}, 3);
  SourceFacts facts;
  by_name.kind = SOURCE_LABELS, by_name.path = "pets";
  FeedInput in = {.name = "y", .type = TYPE_I32, .rank = 1, .size = {1}, .source = &by_name};
  assert_true(source_learn(arena, &in, directory, &facts, diag));
  assert_int_equal(facts.nclasses, 2);
  assert_string_equal(facts.class_name[0], "cat");
  assert_string_equal(facts.class_name[1], "dog");
  by_name.path = "nine";
  in.facts = &facts;
  assert_null(feed_open(1, &in, 1, false, 1, true, directory, diag));
  expect_said("nine/10/a.png: its folder '10' is none of the classes");
}

// Opens a feed and reads it. One of both must fail with the given sentence.
static void expect_bad(FeedInput in, const char *says) {
  const void *data[1];
  Feed *f = feed_open(1, &in, in.size[0], false, 1, true, directory, diag);
  if (f) {
    assert_true(feed_next(f, data) < 0);
    feed_fault(f, diag);
  }
  feed_close(f);
  expect_said(says);
  again();
}

static void bad_sources(void **state) {
  (void)state;
  DataSource s = images("set/*.gif", (ImageSpec){0});
  FeedInput in = images_input(&s, 3, N, false);
  expect_bad(in, "no image matches");
  s.path = "nothing.png";
  expect_bad(in, "nothing.png cannot be opened: No such file");
  s.path = "set";
  in.size[1] = 2;
  expect_bad(in, "a row of input x is [2, 8, 8], which is no shape of an image");
  in.size[1] = 3;
  s.image.resize = RESIZE_NONE;
  in.size[2] = 9;
  expect_bad(in, "set/0.png has 8 x 8 pixels, and the input needs 8 x 9");
  in.size[2] = 8;
  in.size[0] = FILES;
  // the first damaged file is named, whatever the threads do
  for (int threads = 1; threads < 6; threads += 2) {
    size_t n;
    in.threads = threads;
    unsigned char *bytes = bytes_of("set/3.png", &n);
    FILE *f = fopen(path_of("set/3.png"), "wb"), *g = fopen(path_of("set/5.png"), "wb");
    fwrite(bytes, 1, n / 2, f);
    fclose(f);
    fclose(g);
    expect_bad(in, "set/3.png is a damaged PNG: it ends at byte");
    picture(PICTURE_png, N, N, 33, "set/3.png");
    expect_bad(in, "set/5.png is empty");
    picture(PICTURE_png, N, N, 53, "set/5.png");
  }
}

static int leave(void **state) {
  image_work_free(&work);
  return tear_down(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TEST(png_of_every_kind),     TEST(jpeg_of_every_kind), TEST(a_file_that_ends_early),
      TEST(wrong_bytes),           TEST(resampling),         TEST(sizes_of_parts),
      TEST(pixels_of_a_feed),      TEST(random_changes),     TEST(parts_of_random_area),
      TEST(equal_on_all_machines), TEST(rows_of_a_rank),     TEST(batch_axis_behind),
      TEST(labels_of_folders),     TEST(bad_sources)};
  return cmocka_run_group_tests(tests, set_up, leave);
}
