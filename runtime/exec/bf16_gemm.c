// Products of bf16 matrices by instructions of the CPU that multiply pairs of bf16: AMX (tiles of
// 16 x 32 by 32 x 16) or AVX512_BF16 (vdpbf16ps). In: matrices of bf16 in memory. Out: their
// product, summed in f32 and stored as f32 or bf16.
//
// Both instructions multiply two neighbours along k at a time, so both operands are packed into
// tiles in which the two elements of such a pair are next to each other:
//
//   tile of A   16 rows of m, each with the 16 pairs of 32 elements of k
//   tile of B   16 rows, one for each pair of k; each has the pairs of 16 columns of n
//
// A panel is 32 rows of A, or 32 columns of B, over a range of k: two tiles for each step of 32
// elements of k. A block of panels of B is packed first and stays in the L2 cache while all panels
// of A are multiplied with it (Goto and van de Geijn, "Anatomy of high-performance matrix
// multiplication", 2008). Elements beyond m, n and k are packed as zeros.
//
// The instructions take subnormal factors as 0, and round subnormal results to 0. The order of the
// additions depends on k alone, never on the division of m and n among threads.
#include "ir/base/guard.h"
#include "runtime/exec/product_internal.h"

#include <stdlib.h>
#include <string.h>

// The instructions of this CPU that bf16_gemm uses.
static enum { UNIT_NONE, UNIT_AVX512, UNIT_AMX } unit;
static GuardOnce once;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  SIDE = 32,            // rows and columns of the part of C that one multiplication makes
  STEP = 32,            // elements of k in a tile
  TILE = 16 * STEP,     // elements of a tile
  MOST_K = 4096,        // most elements of k that are packed at a time
  B_ELEMENTS = 1 << 18, // elements of the packed block of B
  SUM_ROWS = 256,
  SUM_COLS = 64, // part of C whose sums wait in memory if k is above MOST_K
};

// Work memory of one thread.
typedef struct Work {
  uint16_t b[B_ELEMENTS], a[SIDE * MOST_K];
  float sum[SUM_ROWS * SUM_COLS], c[SIDE * SIDE];
} Work;
_Static_assert(sizeof(Work) == BF16_GEMM_SCRATCH, "the room that program_scratch foresees");
_Static_assert(B_ELEMENTS >= MOST_K * SUM_COLS, "a block of B has the columns of the sums");

// An operand in memory. Element (k, o), where o is its row of A or its column of B, is at[k * by_k
// + o * by_o]. One of the two strides is 1.
typedef struct Operand {
  const uint16_t *at;
  int64_t by_k, by_o;
  bool is_b;
} Operand;

// Panels, packed or in place: tile t (0 or 1) of step s begins at at + s * step + t * half; `row`
// is the distance of its rows. All in elements.
typedef struct Panel {
  const uint16_t *at;
  int64_t row, step, half;
} Panel;

// -- packing ------------------------------------------------------------------------------------

// Packs one tile of x: elements k..k + 31 of the rows or columns o..o + 15. The first nk and no of
// them exist; the others are zeros.
WIDE static void pack_tile(const Operand *x, const uint16_t *at, int nk, int no, uint16_t *out) {
  __m512i v[16];
  if (x->by_k == 1) { // a row of memory has 32 elements of k
    __mmask32 some = (__mmask32)((UINT64_C(1) << nk) - 1);
    for (int i = 0; i < 16; i++)
      v[i] = i < no ? _mm512_maskz_loadu_epi16(some, at + i * x->by_o) : _mm512_setzero_si512();
  } else { // a row of memory has 16 elements of o: two rows become one of pairs
    __mmask16 some = (__mmask16)((1U << no) - 1);
    for (int i = 0; i < 16; i++) {
      __m256i none = _mm256_setzero_si256();
      __m256i even = 2 * i < nk ? _mm256_maskz_loadu_epi16(some, at + 2 * i * x->by_k) : none;
      __m256i odd =
          2 * i + 1 < nk ? _mm256_maskz_loadu_epi16(some, at + (2 * i + 1) * x->by_k) : none;
      v[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even),
                             _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
    }
  }
  if (x->is_b == (x->by_k == 1)) transpose_wide(v);
  for (int i = 0; i < 16; i++) _mm512_store_si512(out + i * STEP, v[i]);
}

// Packs the panel of x with rows or columns o..o + 31 for k0..k1 - 1. n: the number of all rows or
// columns of x.
static void pack_panel(const Operand *x, int64_t o, int64_t n, int64_t k0, int64_t k1,
                       uint16_t *out) {
  for (int64_t k = k0; k < k1; k += STEP)
    for (int64_t t = o; t < o + SIDE; t += 16, out += TILE)
      if (t < n)
        pack_tile(x, x->at + k * x->by_k + t * x->by_o, within(k1 - k, STEP), within(n - t, 16),
                  out);
      else
        memset(out, 0, TILE * sizeof *out);
}

// -- multiplication: c[32 x 32] = A B for one panel of A and one of B -----------------------------

// The operand of the instruction ldtilecfg: all tiles have 16 rows of 64 bytes.
typedef struct TileShape {
  uint8_t palette, first_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} TileShape;

__attribute__((target("amx-tile"))) static void tiles_begin(void) {
  TileShape s = {.palette = 1};
  for (int i = 0; i < 8; i++) s.row_bytes[i] = 64, s.rows[i] = 16;
  __asm__ volatile("" : : "r"(&s) : "memory"); // gcc 12 takes only 8 bytes of s as read
  _tile_loadconfig(&s);
}

__attribute__((target("amx-tile"))) static void tiles_end(void) { _tile_release(); }

__attribute__((target("amx-tile,amx-bf16"))) static void
multiply_amx(const Panel *a, const Panel *b, int64_t steps, float *c) {
  const uint16_t *x = a->at, *y = b->at;
  size_t ra = (size_t)a->row * 2, rb = (size_t)b->row * 2;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t s = 0; s < steps; s++, x += a->step, y += b->step) {
    _tile_loadd(4, x, ra);
    _tile_loadd(6, y, rb);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, y + b->half, rb);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, x + a->half, ra);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, SIDE * 4);
  _tile_stored(1, c + 16, SIDE * 4);
  _tile_stored(2, c + 16 * SIDE, SIDE * 4);
  _tile_stored(3, c + 16 * SIDE + 16, SIDE * 4);
}

enum { ROWS = 8 }; // rows of C that multiply_rows computes together

__attribute__((target("avx512f,avx512bf16"))) static void
multiply_rows(const Panel *a, const uint16_t *x, const Panel *b, int64_t steps, float *c) {
  __m512 sum[ROWS][2];
  const uint16_t *y = b->at;
  for (int r = 0; r < ROWS; r++) sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  for (int64_t s = 0; s < steps; s++, x += a->step, y += b->step)
    for (int p = 0; p < 16; p++) {
      __m512i left = _mm512_loadu_si512(y + p * b->row),
              right = _mm512_loadu_si512(y + b->half + p * b->row);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; r++) {
        int32_t pair;
        memcpy(&pair, x + r * a->row + 2 * p, sizeof pair);
        __m512i z = _mm512_set1_epi32(pair);
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], (__m512bh)z, (__m512bh)left);
        sum[r][1] = _mm512_dpbf16_ps(sum[r][1], (__m512bh)z, (__m512bh)right);
      }
    }
  for (int r = 0; r < ROWS; r++) {
    _mm512_store_ps(c + r * SIDE, sum[r][0]);
    _mm512_store_ps(c + r * SIDE + 16, sum[r][1]);
  }
}

static void multiply(const Panel *a, const Panel *b, int64_t steps, float *c) {
  if (unit == UNIT_AMX) {
    multiply_amx(a, b, steps, c);
    return;
  }
  for (int r = 0; r < SIDE; r += ROWS)
    multiply_rows(a, a->at + r / 16 * a->half + r % 16 * a->row, b, steps, c + r * SIDE);
}

// -- results --------------------------------------------------------------------------------------

// Where the sums of a part of C go: added to `sum` (with `first`, stored there), and with `last` to
// C itself, which is f32 or bf16.
typedef struct Store {
  const Product *g;
  bool first, last;
  float *sum; // NULL: there is one range of k
} Store;

WIDE static void put_row(const Store *s, __m512 v, float *sum, int64_t at, int n) {
  __mmask16 some = (__mmask16)((1U << n) - 1);
  if (sum && !s->first) v = _mm512_add_ps(v, _mm512_loadu_ps(sum));
  if (!s->last) {
    _mm512_storeu_ps(sum, v);
    return;
  }
  if (s->g->type == TYPE_F32) {
    _mm512_mask_storeu_ps((float *)s->g->c + at, some, v);
    return;
  }
  // rounds to nearest even; a NaN keeps its upper bits and becomes quiet
  __m512i bits = _mm512_castps_si512(v), odd = _mm512_srli_epi32(bits, 16);
  odd = _mm512_and_si512(odd, _mm512_set1_epi32(1));
  __m512i up = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
  _mm256_mask_storeu_epi16((uint16_t *)s->g->c + at, some,
                           _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}

// Stores part c of C: rows i.. and columns j.. . `sum` is the place of its sums.
WIDE static void put(const Store *s, const float *c, float *sum, int64_t i, int64_t j) {
  int rows = within(s->g->m - i, SIDE);
  for (int r = 0; r < rows; r++)
    for (int h = 0; h < SIDE; h += 16)
      if (j + h < s->g->n)
        put_row(s, _mm512_load_ps(c + r * SIDE + h), sum ? sum + r * SUM_COLS + h : NULL,
                (i + r) * s->g->ldc + j + h, within(s->g->n - j - h, 16));
}

// -- the loops ------------------------------------------------------------------------------------

typedef struct Range {
  int64_t from, to;
} Range;

// Returns panel i.. of A for the elements of k. It is in place if no element has to be moved or
// replaced by a zero.
static Panel panel_of_a(const Operand *a, int64_t i, int64_t m, Range k, Work *w) {
  if (a->by_k == 1 && i + SIDE <= m && (k.to - k.from) % STEP == 0)
    return (Panel){a->at + i * a->by_o + k.from, a->by_o, STEP, 16 * a->by_o};
  pack_panel(a, i, m, k.from, k.to, w->a);
  return (Panel){w->a, STEP, 2 * TILE, TILE};
}

// Multiplies rows `m` of A with columns `n` of B for the elements of k.
static void block(const Operand *a, const Operand *b, Range m, Range n, Range k, const Store *s,
                  Work *w) {
  int64_t steps = ceil_div(k.to - k.from, STEP), panel = steps * 2 * TILE;
  for (int64_t j = n.from; j < n.to; j += SIDE)
    pack_panel(b, j, s->g->n, k.from, k.to, w->b + (j - n.from) / SIDE * panel);
  for (int64_t i = m.from; i < m.to; i += SIDE) {
    Panel x = panel_of_a(a, i, s->g->m, k, w);
    for (int64_t j = n.from; j < n.to; j += SIDE) {
      Panel y = {w->b + (j - n.from) / SIDE * panel, STEP, 2 * TILE, TILE};
      float *sum = s->sum ? s->sum + (i - m.from) * SUM_COLS + j - n.from : NULL;
      multiply(&x, &y, steps, w->c);
      put(s, w->c, sum, i, j);
    }
  }
}

void bf16_gemm(const Product *g, void *work) {
  Work *w = work;
  const Operand a = {g->a, g->ta ? g->lda : 1, g->ta ? 1 : g->lda, false},
                b = {g->b, g->tb ? 1 : g->ldb, g->tb ? g->ldb : 1, true};
  bool whole = g->k <= MOST_K;
  int64_t depth = ceil_div(clamp64(g->k, 1, MOST_K), STEP) * STEP, rows = whole ? g->m : SUM_ROWS,
          cols = whole ? B_ELEMENTS / depth / SIDE * SIDE : SUM_COLS;
  if (unit == UNIT_AMX) tiles_begin();
  for (int64_t i = 0; i < g->m; i += rows)
    for (int64_t j = 0; j < g->n; j += cols)
      for (int64_t k = 0; k == 0 || k < g->k; k += MOST_K) {
        Store s = {g, k == 0, k + MOST_K >= g->k, whole ? NULL : w->sum};
        Range m = {i, i + rows < g->m ? i + rows : g->m},
              n = {j, j + cols < g->n ? j + cols : g->n};
        block(&a, &b, m, n, (Range){k, k + MOST_K < g->k ? k + MOST_K : g->k}, &s, w);
      }
  if (unit == UNIT_AMX) tiles_end();
}

// -- which instructions the CPU has -----------------------------------------------------------------

static bool saves(unsigned bits) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & bits) == bits;
}

// Asks the system to keep the registers of AMX (Linux: ARCH_REQ_XCOMP_PERM for XTILEDATA).
static bool tiles_allowed(void) {
  enum { ASK = 0x1023, TILE_DATA = 18 };
  return saves(3U << 17) && syscall(SYS_arch_prctl, ASK, TILE_DATA) == 0;
}

static void find_unit(void *unused) {
  (void)unused;
  unsigned a, b, c, d, one[4];
  const char *choice = getenv("MESHC_BF16");
  if ((choice && strcmp(choice, "none") == 0) || !__get_cpuid(1, one, one + 1, one + 2, one + 3) ||
      !(one[2] >> 27 & 1) || !saves(0xe6) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return;
  bool wide = (b >> 16 & 1) && (b >> 17 & 1) && (b >> 30 & 1) && (b >> 31 & 1);
  bool tiles = (d >> 22 & 1) && (d >> 24 & 1) && !(choice && strcmp(choice, "avx512") == 0);
  if (wide && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1)) unit = UNIT_AVX512;
  if (wide && tiles && tiles_allowed()) unit = UNIT_AMX;
}

#else

static void find_unit(void *unused) { (void)unused; }
void bf16_gemm(const Product *g, void *work) {
  (void)g, (void)work;
  BUG("bf16_gemm on a CPU without an instruction for it");
}

#endif

bool bf16_gemm_open(const char **name) {
  static const char *const names[] = {
      [UNIT_NONE] = "none", [UNIT_AVX512] = "AVX512_BF16", [UNIT_AMX] = "AMX"};
  guard_once(&once, find_unit, NULL);
  if (name) *name = names[unit];
  return unit != UNIT_NONE;
}
