// Products with few rows, C = A B, by AVX-512: those of one position of a text. Each element of B
// is read once, so the product takes as long as reading B from memory. That is fastest in the order
// of addresses, each worker regions of its own. So B is neither copied nor packed, and read line by
// line. Workers take pieces as long as there are any (ThinTurn), so that all end at about the same
// time, though a part of B was in the cache of one, or another process has taken its core:
//
//   rows are lines      the lines are divided into pieces. The sum of a piece,
//                       P[r][0..n) += A[r][k] B[k][0..n), stays in the cache; C is the sum of all
//                       pieces
//   columns are lines   C[r][j] = sum of A[r][k] B[j][k], a column at a time
//
// Factors of bf16 are multiplied as f32, which is exact. Chains of additions are as in
// ir/program/sums.h: long sums are added up in f64. Pieces and chains depend on the sizes of the
// product alone, so the bits of C do not depend on the number of workers.
#include "runtime/exec/thin_product.h"
#include "ir/program/sums.h"
#include "runtime/exec/product_internal.h"

#include <string.h>

enum { PREFETCHES = 16 }; // of lines of a cache, between two looks at a barrier

#if defined(__x86_64__)

enum {
  LANES = F32_GEMM_LANES,
  ALL = 0xffff,                            // a mask of all lanes
  LINES = 4,                               // most lines of B that are added together
  TOGETHER = 8,                            // loads of a line, one after the other
  CHUNK = 4096,                            // columns whose sums stay in the cache
  CHAINS = 2,                              // of a column: sums of LANES elements each
  COLUMN_SLAB = SUM_LEAF * CHAINS * LANES, // terms of a column that are added up in f32
  TURN_BYTES = 1 << 17,                    // least bytes of columns that a worker takes
  AHEAD_BYTES = 1 << 18                    // most bytes that are prefetched
};

#define INLINE                                                                                     \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"), always_inline)) static inline

INLINE __mmask16 lanes_of(int64_t n) { return n >= LANES ? ALL : (__mmask16)((1U << n) - 1); }

// Returns elements at..at + LANES - 1 of x, which are bf16 if `narrow`, as f32.
INLINE __m512 load(bool narrow, __mmask16 some, const void *x, int64_t at) {
  const float *wide = (const float *)x + at;
  const uint16_t *half = (const uint16_t *)x + at;
  if (!narrow) return some == ALL ? _mm512_loadu_ps(wide) : _mm512_maskz_loadu_ps(some, wide);
  __m256i bits = some == ALL ? _mm256_loadu_si256((const __m256i_u *)half)
                             : _mm256_maskz_loadu_epi16(some, half);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Loads TOGETHER times LANES elements, all of them before the first is used: stores between the
// loads would leave fewer of them on their way from memory at a time.
INLINE void load_together(bool narrow, const void *x, int64_t at, __m512 *out) {
  _Pragma("GCC unroll 8") for (int i = 0; i < TOGETHER; i++) out[i] =
      load(narrow, ALL, x, at + i * LANES);
  __asm__(""
          : "+v"(out[0]), "+v"(out[1]), "+v"(out[2]), "+v"(out[3]), "+v"(out[4]), "+v"(out[5]),
            "+v"(out[6]), "+v"(out[7]));
}

static float number(const Product *g, int64_t at) {
  float value;
  if (g->factors == TYPE_F32) return ((const float *)g->a)[at];
  uint32_t bits = (uint32_t)((const uint16_t *)g->a)[at] << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void put(const Product *g, int64_t r, int64_t j, double x) {
  int64_t at = r * g->ldc + j;
  if (g->type == TYPE_F32)
    ((float *)g->c)[at] = (float)x;
  else
    dtype_store(g->type, (char *)g->c + at * dtype_bytes(g->type), dtype_round(g->type, x));
}

// -- rows of B are lines ---------------------------------------------------------------------------

// The factors of LINES lines: those of line i in row r are at a[r][i].
typedef struct Factors {
  float a[THIN_ROWS][LINES];
} Factors;

// Adds the products of `lines` lines of B, which begin at b, to columns j.. of the rows of `part`.
// The first `some` lanes exist.
INLINE void add_lanes(bool narrow, int rows, int lines, const Product *g, const Factors *f,
                      const void *b, int64_t j, __mmask16 some, float *part) {
  __m512 line[LINES];
  _Pragma("GCC unroll 4") for (int i = 0; i < lines; i++) line[i] =
      load(narrow, some, b, i * g->ldb + j);
  for (int r = 0; r < rows; r++) {
    float *at = part + r * g->n + j;
    __m512 sum = some == ALL ? _mm512_loadu_ps(at) : _mm512_maskz_loadu_ps(some, at);
    _Pragma("GCC unroll 4") for (int i = 0; i < lines; i++) sum =
        _mm512_fmadd_ps(_mm512_set1_ps(f->a[r][i]), line[i], sum);
    if (some == ALL)
      _mm512_storeu_ps(at, sum);
    else
      _mm512_mask_storeu_ps(at, some, sum);
  }
}

// The same for TOGETHER times LANES elements of one line and one row.
INLINE void add_wide(bool narrow, const Factors *f, const void *b, int64_t j, float *part) {
  __m512 line[TOGETHER], a = _mm512_set1_ps(f->a[0][0]);
  load_together(narrow, b, j, line);
  _Pragma("GCC unroll 8") for (int i = 0; i < TOGETHER; i++) {
    float *at = part + j + i * LANES;
    _mm512_storeu_ps(at, _mm512_fmadd_ps(a, line[i], _mm512_loadu_ps(at)));
  }
}

INLINE void add_lines(bool narrow, int rows, int lines, const Product *g, const Factors *f,
                      const void *b, int64_t n, float *part) {
  int64_t j = 0;
  for (; rows == 1 && lines == 1 && j + TOGETHER * LANES <= n; j += TOGETHER * LANES)
    add_wide(narrow, f, b, j, part);
  _Pragma("GCC unroll 4") for (; j + LANES <= n; j += LANES)
      add_lanes(narrow, rows, lines, g, f, b, j, ALL, part);
  if (j < n) add_lanes(narrow, rows, lines, g, f, b, j, lanes_of(n - j), part);
}

// One line of a single row; lines of several rows, of which `part` is read and written less often
// if they are added together.
typedef void AddLines(const Product *g, const Factors *f, const void *b, int64_t n, float *part);
#define ADD_LINES(name, narrow, rows, lines)                                                       \
  WIDE static void name(const Product *g, const Factors *f, const void *b, int64_t n,              \
                        float *part) {                                                             \
    add_lines(narrow, rows, lines, g, f, b, n, part);                                              \
  }
ADD_LINES(row_f32, false, 1, 1)
ADD_LINES(row_bf16, true, 1, 1)
ADD_LINES(line_f32, false, (int)g->m, 1)
ADD_LINES(line_bf16, true, (int)g->m, 1)
ADD_LINES(lines_f32, false, (int)g->m, LINES)
ADD_LINES(lines_bf16, true, (int)g->m, LINES)

static Factors factors_of(const Product *g, int64_t k, int lines) {
  Factors f;
  for (int64_t r = 0; r < g->m; r++)
    for (int i = 0; i < lines; i++)
      f.a[r][i] = number(g, g->ta ? (k + i) * g->lda + r : r * g->lda + k + i);
  return f;
}

// Adds up lines from..to - 1 of B in `part`, m x n numbers.
static void run_piece(const Product *g, int64_t from, int64_t to, float *part) {
  static AddLines *const rows[2] = {row_f32, row_bf16}, *const one[2] = {line_f32, line_bf16},
                         *const more[2] = {lines_f32, lines_bf16};
  int64_t narrow = g->factors == TYPE_BF16, bytes = narrow ? 2 : 4;
  memset(part, 0, (size_t)(g->m * g->n) * sizeof *part);
  for (int64_t j = 0; j < g->n; j += CHUNK)
    for (int64_t k = from; k < to;) {
      int lines = g->m > 1 && to - k >= LINES ? LINES : 1;
      Factors f = factors_of(g, k, lines);
      AddLines *add = (g->m == 1 ? rows : lines == 1 ? one : more)[narrow];
      add(g, &f, (const char *)g->b + (k * g->ldb + j) * bytes, g->n - j < CHUNK ? g->n - j : CHUNK,
          part + j);
      k += lines;
    }
}

// Returns the piece that a worker takes next.
static int64_t take(ThinTurn *t, int members) {
  return members + atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
}

// Ends the product for one worker. The workers meet before the next product.
static void end_turn(ThinTurn *t, int members) {
  if (atomic_fetch_add(&t->done, 1) + 1 < members) return;
  atomic_store(&t->next, 0);
  atomic_store(&t->done, 0);
}

void thin_lines(const Product *g, float *part, ThinTurn *turn, int member, int members) {
  int64_t pieces = thin_pieces(g->k);
  for (int64_t i = member; i < pieces; i = take(turn, members))
    run_piece(g, thin_line(g->k, i), thin_line(g->k, i + 1), part + i * g->m * g->n);
  end_turn(turn, members);
}

// Adds up LANES elements of all pieces, of which n exist, in order.
WIDE static void sum_lanes(const float *part, int64_t pieces, int64_t step, int64_t n, bool is_long,
                           float *out) {
  __mmask16 some = lanes_of(n);
  __m512 sum = _mm512_setzero_ps();
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  for (int64_t i = 0; i < pieces; i++) {
    __m512 x = _mm512_maskz_loadu_ps(some, part + i * step);
    if (!is_long) {
      sum = _mm512_add_ps(sum, x);
      continue;
    }
    low = _mm512_add_pd(low, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    high = _mm512_add_pd(high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
  }
  if (is_long)
    sum =
        _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
  _mm512_storeu_ps(out, sum);
}

// Returns the columns of worker `member`: a multiple of LANES but for the last worker.
static int64_t column_of(const Product *g, int member, int members) {
  return clamp64(ceil_div(g->n, LANES) * member / members * LANES, 0, g->n);
}

void thin_sum(const Product *g, const float *part, int member, int members) {
  int64_t from = column_of(g, member, members), to = column_of(g, member + 1, members);
  for (int64_t r = 0; r < g->m; r++)
    for (int64_t j = from; j < to; j += LANES) {
      float sum[LANES];
      sum_lanes(part + r * g->n + j, thin_pieces(g->k), g->m * g->n, to - j, f32_gemm_is_long(g->k),
                sum);
      for (int64_t i = 0; i < LANES && j + i < to; i++) put(g, r, j + i, (double)sum[i]);
    }
}

// -- columns of B are lines ------------------------------------------------------------------------

// Adds LANES terms of column j, from term `at` on, of which the lanes `some` exist.
INLINE void add_terms(bool narrow, int ROWS, const Product *g, int64_t j, int64_t at,
                      __mmask16 some, __m512 *sum) {
  __m512 y = load(narrow, some, g->b, j * g->ldb + at);
  _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++) {
    __m512 x = load(narrow, some, g->a, (r < g->m ? r : 0) * g->lda + at);
    sum[r * CHAINS] = _mm512_fmadd_ps(x, y, sum[r * CHAINS]);
  }
}

// Adds the terms k..k + n - 1 of column j to total[r] for all rows r.
INLINE void add_column(bool narrow, int ROWS, const Product *g, int64_t j, int64_t k, int64_t n,
                       double *total) {
  __m512 sum[THIN_ROWS * CHAINS];
  int64_t i = 0;
  _Pragma("GCC unroll 8") for (int r = 0; r < ROWS * CHAINS; r++) sum[r] = _mm512_setzero_ps();
  for (; ROWS == 1 && i + TOGETHER * LANES <= n; i += TOGETHER * LANES) {
    __m512 y[TOGETHER];
    load_together(narrow, g->b, j * g->ldb + k + i, y);
    _Pragma("GCC unroll 8") for (int h = 0; h < TOGETHER; h++) sum[h % CHAINS] =
        _mm512_fmadd_ps(load(narrow, ALL, g->a, k + i + h * LANES), y[h], sum[h % CHAINS]);
  }
  for (; i + CHAINS * LANES <= n; i += CHAINS * LANES)
    _Pragma("GCC unroll 2") for (int h = 0; h < CHAINS; h++)
        add_terms(narrow, ROWS, g, j, k + i + h * LANES, ALL, sum + h);
  for (int h = 0; i < n; i += LANES, h++)
    add_terms(narrow, ROWS, g, j, k + i, lanes_of(n - i), sum + h);
  for (int r = 0; r < ROWS; r++)
    total[r] += (double)_mm512_reduce_add_ps(_mm512_add_ps(sum[r * CHAINS], sum[r * CHAINS + 1]));
}

typedef void AddColumn(const Product *g, int64_t j, int64_t k, int64_t n, double *total);
#define ADD_COLUMN(name, narrow, ROWS)                                                             \
  WIDE static void name(const Product *g, int64_t j, int64_t k, int64_t n, double *total) {        \
    add_column(narrow, ROWS, g, j, k, n, total);                                                   \
  }
ADD_COLUMN(column_1_f32, false, 1)
ADD_COLUMN(column_2_f32, false, 2)
ADD_COLUMN(column_4_f32, false, 4)
ADD_COLUMN(column_1_bf16, true, 1)
ADD_COLUMN(column_2_bf16, true, 2)
ADD_COLUMN(column_4_bf16, true, 4)
static const struct {
  int rows; // at most
  AddColumn *f32, *bf16;
} columns[] = {{1, column_1_f32, column_1_bf16},
               {2, column_2_f32, column_2_bf16},
               {4, column_4_f32, column_4_bf16}};

// Returns how many columns a worker takes if `left` > 0 are left: a part of them, so that workers
// seldom leave a region of memory, and that the last ones are few. At least one.
static int64_t columns_of_turn(const Product *g, int64_t left, int members) {
  int64_t least = TURN_BYTES / (g->k * dtype_bytes(g->factors)); // 0, if a column is longer
  int64_t n = ceil_div(left, 3 * members);
  return ceil_div(n > least ? n : least, LANES) * LANES;
}

// Takes the next columns *from..*to - 1. Returns false if there are none left.
static bool take_columns(const Product *g, ThinTurn *t, int members, int64_t *from, int64_t *to) {
  int64_t first = members * columns_of_turn(g, g->n, members);
  int64_t taken = atomic_load_explicit(&t->next, memory_order_relaxed);
  do {
    *from = first + taken;
    if (*from >= g->n) return false;
    *to = *from + columns_of_turn(g, g->n - *from, members);
  } while (!atomic_compare_exchange_weak_explicit(&t->next, &taken, *to - first,
                                                  memory_order_relaxed, memory_order_relaxed));
  *to = *to < g->n ? *to : g->n;
  return true;
}

// Sets *from and *to to the columns that a worker takes first.
static void first_columns(const Product *g, int member, int members, int64_t *from, int64_t *to) {
  int64_t each = columns_of_turn(g, g->n, members);
  *from = clamp64(member * each, 0, g->n);
  *to = clamp64(*from + each, 0, g->n);
}

void thin_columns(const Product *g, ThinTurn *turn, int member, int members) {
  size_t which = 0;
  while (columns[which].rows < g->m) which++;
  AddColumn *add = g->factors == TYPE_BF16 ? columns[which].bf16 : columns[which].f32;
  int64_t from, to;
  first_columns(g, member, members, &from, &to);
  do {
    for (int64_t j = from; j < to; j++) {
      double total[THIN_ROWS] = {0};
      for (int64_t k = 0; k < g->k; k += COLUMN_SLAB)
        add(g, j, k, g->k - k < COLUMN_SLAB ? g->k - k : COLUMN_SLAB, total);
      for (int64_t r = 0; r < g->m; r++) put(g, r, j, total[r]);
    }
  } while (take_columns(g, turn, members, &from, &to));
  end_turn(turn, members);
}

ThinAhead thin_first(const Product *g, int member, int members) {
  int64_t from = 0, to = 0;
  if (g->tb)
    first_columns(g, member, members, &from, &to);
  else
    from = thin_line(g->k, member), to = thin_line(g->k, member + 1);
  int64_t line = g->ldb * dtype_bytes(g->factors), bytes = (to - from) * line;
  const char *at = (const char *)g->b + from * line;
  return (ThinAhead){at, at + (bytes < AHEAD_BYTES ? bytes : AHEAD_BYTES), UINT32_MAX};
}

bool thin_opens(void) { return f32_gemm_open(NULL); }

#else

bool thin_opens(void) { return false; }

void thin_lines(const Product *g, float *part, ThinTurn *turn, int member, int members) {
  (void)g, (void)part, (void)turn, (void)member, (void)members;
  BUG("a thin product on a CPU without AVX-512");
}

void thin_sum(const Product *g, const float *part, int member, int members) {
  (void)g, (void)part, (void)member, (void)members;
  BUG("a thin product on a CPU without AVX-512");
}

void thin_columns(const Product *g, ThinTurn *turn, int member, int members) {
  (void)g, (void)turn, (void)member, (void)members;
  BUG("a thin product on a CPU without AVX-512");
}

ThinAhead thin_first(const Product *g, int member, int members) {
  (void)g, (void)member, (void)members;
  BUG("a thin product on a CPU without AVX-512");
}

#endif

bool thin_prefetch(void *ahead) {
  ThinAhead *a = ahead;
  if (a->at >= a->end) return false;
  for (int i = 0; i < PREFETCHES; i++) __builtin_prefetch(a->at + i * 64, 0, 2);
  a->at += PREFETCHES * 64;
  return true;
}
