// Random orthogonal matrices as initial values: vectors of normal random numbers are made
// orthonormal.
//
// Every operation is rounded once, in an order that does not depend on the width of vectors. So
// results have equal bits on every processor.
#include "runtime/runtime_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

enum {
  PIECE = 512, // random numbers that are drawn at once
  LANES = 8,   // numbers of a Lanes
  CHAINS = 4   // Lanes to which a sum adds in turn, so that no addition waits for the one before it
};

typedef double Lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));

#define EVERYWHERE static inline __attribute__((always_inline))

// Returns the sum of x[i] * y[i] over n elements.
EVERYWHERE double dot(int64_t n, const double *x, const double *y) {
  Lanes chain[CHAINS] = {0};
  int64_t i = 0;
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    for (int c = 0; c < CHAINS; c++)
      chain[c] += *(const Lanes *)(x + i + c * LANES) * *(const Lanes *)(y + i + c * LANES);
  Lanes all = (chain[0] + chain[1]) + (chain[2] + chain[3]);
  double s = 0;
  for (int l = 0; l < LANES; l++) s += all[l];
  for (; i < n; i++) s += x[i] * y[i];
  return s;
}

// Subtracts s * y from x, vectors of n elements.
EVERYWHERE void subtract(int64_t n, double s, const double *y, double *x) {
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) *(Lanes *)(x + i) -= s * *(const Lanes *)(y + i);
  for (; i < n; i++) x[i] -= s * y[i];
}

// Makes n vectors orthonormal by Gram-Schmidt orthogonalisation, applied twice to each vector
// ("twice is enough": Giraud et al., 2005). The triangular factor has a positive diagonal. So
// vectors of normal random numbers become a uniformly distributed orthogonal matrix.
EVERYWHERE void orthonormalise(int64_t n, int64_t length, double *v) {
  for (int64_t j = 0; j < n; j++) {
    double *x = v + j * length;
    for (int64_t i = 0; i < 2 * j; i++) {
      const double *y = v + i % j * length;
      subtract(length, dot(length, x, y), y, x);
    }
    double norm = sqrt(dot(length, x, x));
    for (int64_t k = 0; k < length; k++) x[k] /= norm;
  }
}

// The same code for processors with vectors of different widths.
typedef void Orthonormalise(int64_t n, int64_t length, double *v);
#define FOR(name, target)                                                                          \
  target static void name(int64_t n, int64_t length, double *v) { orthonormalise(n, length, v); }
FOR(plain, )
#if defined(__x86_64__)
FOR(avx2, __attribute__((target("avx2"))))
FOR(avx512, __attribute__((target("avx512f"))))
#endif

static Orthonormalise *widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return avx512;
  if (__builtin_cpu_supports("avx2")) return avx2;
#endif
  return plain;
}

// The role of a dim in an orthogonal tensor, which consists of matrices: the dim counts rows of a
// matrix, columns of a matrix, or matrices (EACH). PARTS is the number of roles.
typedef enum InitialPart { ROWS, COLS, EACH, PARTS } InitialPart;

static InitialPart part_of(const Init *init, int dim) {
  return init->split >> dim & 1 ? ROWS : init->each >> dim & 1 ? EACH : COLS;
}

// Draws matrix number `number` of a tensor of random orthogonal matrices. A matrix with fewer rows
// than columns gets orthonormal rows, any other matrix orthonormal columns. `out` gets the elements
// row by row. `v` is work memory for rows * cols numbers.
static void draw_matrix(uint64_t key, int64_t number, int64_t rows, int64_t cols, double *v,
                        double *out) {
  int64_t n = rows < cols ? rows : cols, length = rows < cols ? cols : rows;
  Init normal = {.kind = INIT_NORMAL, .b = 1};
  int64_t index[PIECE];
  for (int64_t i = 0; i < n * length; i += PIECE) {
    int64_t m = n * length - i < PIECE ? n * length - i : PIECE;
    for (int64_t k = 0; k < m; k++) index[k] = number * n * length + i + k;
    rng_draw(&normal, key, m, index, v + i);
  }
  widest()(n, length, v);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      out[r * cols + c] = rows < cols ? v[r * length + c] : v[c * length + r];
}

// Copies the n elements of a tensor from `matrix`, where matrix follows matrix, to `out` in the
// declared order of dims. `size` has the number of rows, columns and matrices.
static void lay_out(const ProgTensor *t, const int64_t *size, int64_t n, const double *matrix,
                    double *out) {
  int64_t step[MAX_RANK], at[MAX_RANK] = {0}, from = 0;
  int64_t next[PARTS] = {[ROWS] = size[COLS], [COLS] = 1, [EACH] = size[ROWS] * size[COLS]};
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t *unit = &next[part_of(&t->init, i)];
    step[i] = *unit;
    *unit *= t->dim[t->declared[i]].whole;
  }
  for (int64_t e = 0; e < n; e++) {
    out[e] = matrix[from];
    for (int i = t->rank - 1; i >= 0; i--) {
      from += step[i];
      if (++at[i] < t->dim[t->declared[i]].whole) break;
      from -= step[i] * at[i];
      at[i] = 0;
    }
  }
}

double *orthogonal_draw(const ProgTensor *t, uint64_t key) {
  int64_t size[PARTS] = {1, 1, 1};
  for (int i = 0; i < t->rank; i++) size[part_of(&t->init, i)] *= t->dim[t->declared[i]].whole;
  int64_t one = size[ROWS] * size[COLS], n = one * size[EACH];
  double *matrix = mem_alloc(sizeof *matrix * (size_t)n), *out = mem_alloc(sizeof *out * (size_t)n);
  // `out`, which lay_out fills afterwards, is the work memory of draw_matrix
  for (int64_t k = 0; k < size[EACH]; k++)
    draw_matrix(key, k, size[ROWS], size[COLS], out, matrix + k * one);
  lay_out(t, size, n, matrix, out);
  free(matrix);
  return out;
}
