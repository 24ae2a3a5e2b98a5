// Makes the data of the examples: small tasks that a model can learn, the same bytes on every
// machine.
//
//   generate DIR      writes DIR/shapes_train.bin, DIR/shapes_test.bin, DIR/clicks_train.csv ...
//
// Images are drawn, sequences and tables follow rules with a little noise, so that what a model
// reaches can be stated. One function a data set; the table at the end names them.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// -- random numbers: SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014) ----

static uint64_t state;

static uint64_t draw(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static double uniform(double low, double high) {
  return low + (high - low) * (double)(draw() >> 11) * 0x1p-53;
}
static int below(int n) { return (int)(draw() % (uint64_t)n); }
static double normal(void) {
  return sqrt(-2 * log(uniform(1e-12, 1))) * cos(6.283185307179586 * uniform(0, 1));
}

// -- files --------------------------------------------------------------------------------------

static const char *directory, *part; // where to, and train or test

static FILE *file_new(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  FILE *f = fopen(path, "wb");
  if (!f) {
    perror(path);
    exit(1);
  }
  return f;
}

static void file_end(FILE *f, const char *name) {
  if (ferror(f) | fclose(f)) {
    perror(name);
    exit(1);
  }
}

// STEM_train.npy or STEM_test.npy: what is being made.
static const char *file_name(const char *stem, const char *kind) {
  static char name[64];
  snprintf(name, sizeof name, "%s_%s.%s", stem, part, kind);
  return name;
}

// NumPy's format, version 1: a header padded to 64 bytes, then the numbers in row-major order.
static void npy_write(const char *stem, const char *type, int rows, const char *shape,
                      const void *data, size_t row_bytes) {
  const char *name = file_name(stem, "npy");
  FILE *f = file_new(name);
  char header[118];
  int n =
      snprintf(header, sizeof header,
               "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %s), }", type, rows, shape);
  memset(header + n, ' ', sizeof header - (size_t)n);
  header[sizeof header - 1] = '\n';
  fwrite("\x93NUMPY\x01\x00\x76\x00", 1, 10, f);
  fwrite(header, 1, sizeof header, f);
  fwrite(data, row_bytes, (size_t)rows, f);
  file_end(f, name);
}

// -- ten kinds of shapes, 32 x 32 in colour, in the binary format of CIFAR-10 -------------------

enum { SIDE = 32, IMAGE = 3 * SIDE * SIDE };

typedef struct Figure {
  int kind;
  double x, y, r; // centre and half size
} Figure;

static int covers(const Figure *s, int px, int py) {
  double x = px - s->x, y = py - s->y, r = s->r, far = fmax(fabs(x), fabs(y)),
         d = sqrt(x * x + y * y);
  switch (s->kind) {
  case 0: return (py / 3) % 2; // stripes
  case 1: return (px / 3) % 2;
  case 2: return ((px + py) / 4) % 2;
  case 3: return (px / 4 + py / 4) % 2;                        // board
  case 4: return d < r;                                        // disk
  case 5: return d < r && d > 0.6 * r;                         // ring
  case 6: return far < 0.85 * r;                               // square
  case 7: return far < 0.9 * r && far > 0.6 * r;               // frame
  case 8: return far < r && fmin(fabs(x), fabs(y)) < 0.25 * r; // cross
  default: return y > -r && y < r && fabs(x) < (y + r) / 2;    // triangle
  }
}

static void shape_image(unsigned char *out) {
  Figure s = {below(10), uniform(12, 20), uniform(12, 20), uniform(8, 12)};
  double ink[3], paper[3];
  for (int c = 0; c < 3; c++) paper[c] = uniform(0, 110), ink[c] = uniform(145, 255);
  *out++ = (unsigned char)s.kind;
  for (int c = 0; c < 3; c++)
    for (int y = 0; y < SIDE; y++)
      for (int x = 0; x < SIDE; x++) {
        double v = (covers(&s, x, y) ? ink[c] : paper[c]) + 12 * normal();
        *out++ = (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
      }
}

static void make_shapes(int n) {
  unsigned char image[1 + IMAGE];
  const char *name = file_name("shapes", "bin");
  FILE *f = file_new(name);
  for (int i = 0; i < n; i++) {
    shape_image(image);
    fwrite(image, 1, sizeof image, f);
  }
  file_end(f, name);
}

// -- disks in noise and where they are: 16 x 16 -------------------------------------------------

enum { GRID = 16, ROWS = 8000 };

static void make_scenes(int n) {
  static float image[ROWS][GRID][GRID];
  static int32_t mask[ROWS][GRID][GRID];
  for (int i = 0; i < n; i++) {
    double cx = uniform(4, 12), cy = uniform(4, 12), r = uniform(2.5, 5);
    for (int y = 0; y < GRID; y++)
      for (int x = 0; x < GRID; x++) {
        mask[i][y][x] = hypot(x - cx, y - cy) < r;
        image[i][y][x] = (float)(mask[i][y][x] + 0.5 * normal());
      }
  }
  npy_write("scenes", "<f4", n, "16, 16", image, sizeof *image);
  npy_write("masks", "<i4", n, "16, 16", mask, sizeof *mask);
}

// -- 8 x 8 pictures of a row and a column -------------------------------------------------------

static void make_bars(int n) {
  static float image[ROWS][8][8];
  for (int i = 0; i < n; i++) {
    int row = below(8), column = below(8);
    for (int y = 0; y < 8; y++)
      for (int x = 0; x < 8; x++) image[i][y][x] = y == row || x == column;
  }
  npy_write("bars", "<f4", n, "8, 8", image, sizeof *image);
}

// -- eight spots on a circle --------------------------------------------------------------------

static void make_ring(int n) {
  static float point[ROWS][2];
  for (int i = 0; i < n; i++) {
    double angle = 0.7853981633974483 * below(8);
    point[i][0] = (float)(cos(angle) + 0.05 * normal());
    point[i][1] = (float)(sin(angle) + 0.05 * normal());
  }
  npy_write("ring", "<f4", n, "2", point, sizeof *point);
}

// -- sequences and their reverse; 0 begins a target, 1 .. 10 are symbols ------------------------

enum { LENGTH = 8 };

static void make_phrases(int n) {
  static int32_t source[ROWS][LENGTH], begun[ROWS][LENGTH], target[ROWS][LENGTH];
  for (int i = 0; i < n; i++) {
    for (int t = 0; t < LENGTH; t++) source[i][t] = 1 + below(10);
    for (int t = 0; t < LENGTH; t++) target[i][t] = source[i][LENGTH - 1 - t];
    for (int t = 1; t < LENGTH; t++) begun[i][t] = target[i][t - 1];
  }
  npy_write("phrases", "<i4", n, "8", source, sizeof *source);
  npy_write("begun", "<i4", n, "8", begun, sizeof *begun);
  npy_write("reversed", "<i4", n, "8", target, sizeof *target);
}

// -- words whose tag depends on both neighbours: 1 between two words of its own parity, 2 next to one, else 0 ----

enum { WORDS = 12, VOCABULARY = 20 };

static void make_sentences(int n) {
  static int32_t word[ROWS][WORDS], tag[ROWS][WORDS];
  for (int i = 0; i < n; i++) {
    for (int t = 0; t < WORDS; t++) word[i][t] = below(VOCABULARY);
    for (int t = 0; t < WORDS; t++) {
      int own = word[i][t] % 2, left = t > 0 && word[i][t - 1] % 2 == own;
      int right = t + 1 < WORDS && word[i][t + 1] % 2 == own;
      tag[i][t] = left && right ? 1 : left || right ? 2 : 0;
    }
  }
  npy_write("words", "<i4", n, "12", word, sizeof *word);
  npy_write("tags", "<i4", n, "12", tag, sizeof *tag);
}

// -- pictures (feature vectors) and captions of the same thing ----------------------------------

enum { FEATURES = 24, CAPTION = 4, KINDS = 6 };

// A thing is four properties of six kinds each; the picture mixes their fixed random directions.
static void make_pairs(int n) {
  static float picture[ROWS][FEATURES], direction[CAPTION][KINDS][FEATURES];
  static int32_t caption[ROWS][CAPTION];
  uint64_t here = state;
  state = 1; // the directions of train and test are the same
  for (int p = 0; p < CAPTION * KINDS * FEATURES; p++) (&direction[0][0][0])[p] = (float)normal();
  state = here;
  for (int i = 0; i < n; i++) {
    for (int f = 0; f < FEATURES; f++) picture[i][f] = (float)(0.3 * normal());
    for (int p = 0; p < CAPTION; p++) {
      int kind = below(KINDS);
      caption[i][p] = p * KINDS + kind;
      for (int f = 0; f < FEATURES; f++) picture[i][f] += direction[p][kind][f];
    }
  }
  npy_write("pictures", "<f4", n, "24", picture, sizeof *picture);
  npy_write("captions", "<i4", n, "4", caption, sizeof *caption);
}

// -- clicks: four numbers, user, item and shop, and whether it was clicked ----------------------

enum { USERS = 50, ITEMS = 30, SHOPS = 10 };

static void make_clicks(int n) {
  static double taste[USERS][4], kind[ITEMS][4], shop[SHOPS];
  uint64_t here = state;
  state = 1; // the tastes of train and test are the same
  for (int i = 0; i < USERS * 4; i++) (&taste[0][0])[i] = normal();
  for (int i = 0; i < ITEMS * 4; i++) (&kind[0][0])[i] = normal();
  for (int i = 0; i < SHOPS; i++) shop[i] = normal();
  state = here;
  const char *name = file_name("clicks", "csv");
  FILE *f = file_new(name);
  fprintf(f, "age,hour,price,rank,user,item,shop,click\n");
  for (int i = 0; i < n; i++) {
    double x[4], score = 0;
    int u = below(USERS), k = below(ITEMS), s = below(SHOPS);
    for (int j = 0; j < 4; j++) x[j] = normal(), score += 2 * taste[u][j] * kind[k][j];
    score += shop[s] + x[2] * -0.7 + x[3] * 0.4;
    fprintf(f, "%.4f,%.4f,%.4f,%.4f,%d,%d,%d,%d\n", x[0], x[1], x[2], x[3], u, k, s,
            score + 0.3 * normal() > 0);
  }
  file_end(f, name);
}

// -- text: sentences of a small grammar, one byte a letter --------------------------------------

static void make_text(int n) {
  static const char *const who[] = {"the cat", "a dog", "the old man", "my sister", "a bird"};
  static const char *const does[] = {"sees", "likes", "follows", "hears"};
  static const char *const where[] = {"in the garden", "by the river", "at home", "on the hill"};
  const char *name = file_name("text", "txt");
  FILE *f = file_new(name);
  for (int i = 0; i < n; i++)
    fprintf(f, "%s %s %s %s.\n", who[below(5)], does[below(4)], who[below(5)], where[below(4)]);
  file_end(f, name);
}

// -- all of them --------------------------------------------------------------------------------

typedef struct Set {
  void (*make)(int rows);
  int train, test;
} Set;
static const Set sets[] = {
    {make_shapes, 2000, 400}, {make_scenes, 512, 128},   {make_bars, 1024, 128},
    {make_ring, 4096, 512},   {make_phrases, 4096, 512}, {make_sentences, 2048, 256},
    {make_pairs, 2048, 256},  {make_clicks, ROWS, 1000}, {make_text, 6000, 600},
};

static void make_part(const char *name, uint64_t seed) {
  part = name;
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
    state = seed + i; // each data set by itself
    sets[i].make(strcmp(name, "train") == 0 ? sets[i].train : sets[i].test);
  }
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: generate DIR\n");
    return 2;
  }
  directory = argv[1];
  make_part("train", 100);
  make_part("test", 200);
  return 0;
}
