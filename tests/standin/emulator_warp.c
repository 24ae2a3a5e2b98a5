// What the threads of a warp do together: shuffles, products by tensor cores, loads of matrices.
// The last thread of the warp that comes to the meeting does the work of all.
#include "tests/standin/emulator_internal.h"

#include <math.h>
#include <string.h>

// -- meetings -----------------------------------------------------------------------------------

static void check_meeting(const Emulator *e, int first) {
  const Thread *warp = &e->thread[first];
  for (int i = 0; i < GPU_WARP; i++)
    if (warp[i].site != warp->site || warp[i].kind != warp->kind)
      emulator_fail(e, first + i,
                    "comes to the meeting of site %d while thread %d of its warp comes to that of "
                    "site %d: a condition before them differs within the warp",
                    warp[i].site, first, warp->site);
}

// Brings `part` to a meeting of the warp. work(e, first), of the warp whose first thread is
// `first`, is called when all threads have come, and finds what they brought.
static void meet(Emulator *e, int32_t kind, void *part, int32_t site,
                 void (*work)(Emulator *e, int first)) {
  Thread *t = &e->thread[e->running];
  int warp = e->running / GPU_WARP, first = warp * GPU_WARP;
  t->kind = kind;
  t->part = part;
  if (++e->arrived[warp] < GPU_WARP) {
    emulator_leave(e, AT_MEETING, site);
    return;
  }
  e->arrived[warp] = 0;
  t->site = site;
  check_meeting(e, first);
  work(e, first);
  for (int i = 0; i < GPU_WARP; i++) e->thread[first + i].state = READY;
}

// -- barriers of a warp --------------------------------------------------------------------------

static void begin_segment(Emulator *e, int first) {
  (void)first;
  emulator_segment(e, OF_REST);
}

void emulator_warp_barrier(GpuEmulator *g, int32_t site) {
  meet(emulator_of(g), MEETING_BARRIER, NULL, site, begin_segment);
}

// -- shuffles -----------------------------------------------------------------------------------

typedef struct Shuffle {
  uint32_t value; // given, later got
  int32_t lane;
} Shuffle;

// Returns the lane from which lane `self` takes its value.
static int source_lane(const Emulator *e, int first, int self, int32_t lane) {
  const Thread *t = &e->thread[first + self];
  int from = t->kind == GPU_SHUFFLE_XOR    ? self ^ lane
             : t->kind == GPU_SHUFFLE_DOWN ? self + lane
                                           : lane;
  if (t->kind == GPU_SHUFFLE_DOWN && lane >= 0) return from < GPU_WARP ? from : self;
  if (from < 0 || from >= GPU_WARP)
    emulator_fail(e, first + self,
                  "the shuffle of site %d takes the value of thread %d of the warp", t->site, from);
  return from;
}

static void exchange(Emulator *e, int first) {
  uint32_t given[GPU_WARP];
  for (int i = 0; i < GPU_WARP; i++) given[i] = ((Shuffle *)e->thread[first + i].part)->value;
  for (int i = 0; i < GPU_WARP; i++) {
    Shuffle *s = e->thread[first + i].part;
    s->value = given[source_lane(e, first, i, s->lane)];
  }
}

uint32_t emulator_shuffle(GpuEmulator *g, int32_t kind, uint32_t value, int32_t lane,
                          int32_t site) {
  Shuffle s = {value, lane};
  meet(emulator_of(g), kind, &s, site, exchange);
  return s.value;
}

// -- products -----------------------------------------------------------------------------------

enum { M = 16, N = 8, K = 16 }; // a: M x K, b: K x N

typedef struct Multiply {
  int32_t factor;
  float *d;
  const uint32_t *a, *b;
  const float *c;
} Multiply;

static float f16_value(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float size = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? ldexpf((float)fraction, -24)
                               : ldexpf((float)(1024 + fraction), exponent - 25);
  return bits & 0x8000 ? -size : size;
}

// Returns half `half` of a register: an element of a factor.
static float element(int32_t factor, uint32_t pair, int half) {
  uint16_t bits = (uint16_t)(half ? pair >> 16 : pair);
  if (factor == GPU_F16) return f16_value(bits);
  uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

// Thread t has, in register r, of a: the elements at row t / 4 + 8 (r % 2), columns 2 (t % 4) +
// 8 (r / 2) and the next; of b: at column t / 4, rows 2 (t % 4) + 8 r and the next.
static void read_factors(const Emulator *e, int first, float a[M][K], float b[K][N]) {
  for (int t = 0; t < GPU_WARP; t++) {
    const Multiply *m = e->thread[first + t].part;
    for (int half = 0; half < 2; half++) {
      int along = 2 * (t % 4) + half;
      for (int r = 0; r < 4; r++)
        a[t / 4 + 8 * (r % 2)][along + 8 * (r / 2)] = element(m->factor, m->a[r], half);
      for (int r = 0; r < 2; r++) b[along + 8 * r][t / 4] = element(m->factor, m->b[r], half);
    }
  }
}

// Thread t has four sums: at row t / 4, columns 2 (t % 4) and the next, and at 8 rows below.
static void multiply(Emulator *e, int first) {
  float a[M][K], b[K][N], sums[GPU_WARP][4];
  read_factors(e, first, a, b);
  for (int t = 0; t < GPU_WARP; t++)
    for (int i = 0; i < 4; i++) {
      int row = t / 4 + 8 * (i / 2), column = 2 * (t % 4) + i % 2;
      double sum = (double)((Multiply *)e->thread[first + t].part)->c[i];
      for (int k = 0; k < K; k++) sum += (double)a[row][k] * (double)b[k][column];
      sums[t][i] = (float)sum;
    }
  for (int t = 0; t < GPU_WARP; t++)
    memcpy(((Multiply *)e->thread[first + t].part)->d, sums[t], sizeof sums[t]);
}

void emulator_multiply(GpuEmulator *g, int32_t factor, float *d, const uint32_t *a,
                       const uint32_t *b, const float *c, int32_t site) {
  Multiply m = {factor, d, a, b, c};
  meet(emulator_of(g), MEETING_MULTIPLY, &m, site, multiply);
}

// -- loads of matrices --------------------------------------------------------------------------

enum { SIDE = 8, ROW_BYTES = 2 * SIDE };

typedef struct LoadMatrix {
  uint32_t *to;
  const char *row;
  int32_t count, transposed;
} LoadMatrix;

static const LoadMatrix *load_of(const Emulator *e, int thread) { return e->thread[thread].part; }

// Checks the reads of a matrix: thread 4 r + c gets a part of row r, and others of each row.
static void check_rows(Emulator *e, int first, int matrix) {
  for (int r = 0; r < SIDE; r++) {
    const char *row = load_of(e, first + SIDE * matrix + r)->row;
    if ((uintptr_t)row % ROW_BYTES != 0)
      emulator_fail(e, first + SIDE * matrix + r, "names a row at %p, which is not aligned to %d",
                    (const void *)row, ROW_BYTES);
    for (int reader = 0; reader < 2; reader++)
      emulator_access_shared(e, first + 4 * r + reader, row, ROW_BYTES, GPU_READ);
  }
}

// Returns element (row, column) of a matrix.
static uint32_t matrix_element(const Emulator *e, int first, int matrix, int row, int column) {
  uint16_t value;
  memcpy(&value, load_of(e, first + SIDE * matrix + row)->row + 2 * column, sizeof value);
  return value;
}

static void load_matrices(Emulator *e, int first) {
  const LoadMatrix *all = load_of(e, first);
  if (all->count != 1 && all->count != 2 && all->count != 4)
    emulator_fail(e, first, "loads %d matrices: a GPU loads 1, 2 or 4", all->count);
  for (int m = 0; m < all->count; m++) {
    check_rows(e, first, m);
    for (int t = 0; t < GPU_WARP; t++) {
      int i = t / 4, j = 2 * (t % 4);
      uint32_t low =
          all->transposed ? matrix_element(e, first, m, j, i) : matrix_element(e, first, m, i, j);
      uint32_t high = all->transposed ? matrix_element(e, first, m, j + 1, i)
                                      : matrix_element(e, first, m, i, j + 1);
      load_of(e, first + t)->to[m] = low | high << 16;
    }
  }
}

void emulator_load_matrix(GpuEmulator *g, uint32_t *to, const void *row, int32_t count,
                          int32_t transposed, int32_t site) {
  LoadMatrix l = {to, row, count, transposed};
  meet(emulator_of(g), MEETING_LOAD_MATRIX, &l, site, load_matrices);
}
