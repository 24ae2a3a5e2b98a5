// Operations that are ordered along one dim: cumsum, cumprod, cummax, cum_index, argsort, top_k. A
// row is the elements along that dim at one index of the other dims.
//
// Running sums, products and maxima process LANES rows that are neighbours in memory together, so
// that they read full cache lines and vectorise also where the elements of a row are far apart.
// Sorting maps each element to an unsigned key such that keys and elements have equal order (NaN
// largest, both zeros equal; keys are inverted for a descending order). It sorts pairs of key and
// index: few by insertion, many by a stable radix sort from the lowest digit. For a small k, top_k
// keeps a sorted list.
#include "runtime/exec/ordered_internal.h"

#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define EVERYWHERE static inline __attribute__((always_inline))

enum { LANES = 64, FEW = 32, FEW_LARGEST = 64, DIGITS = 8, RADIX = 256 };

// -- loading and storing elements ---------------------------------------------------------------

// Returns a bf16 element as f32. Floats narrower than f32 are compared in f32. Sums of f32 and
// narrower floats are accumulated in f64, so that the rounding error does not grow with the length
// of a row. Results are rounded to nearest even.
static inline float load_bf16(const uint16_t *p) {
  uint32_t bits = (uint32_t)*p << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static inline float load_f16(const uint16_t *p) { return (float)dtype_load(TYPE_F16, p); }
static inline void store_bf16(uint16_t *p, double x) {
  dtype_store(TYPE_BF16, p, dtype_round(TYPE_BF16, x));
}
static inline void store_f16(uint16_t *p, double x) {
  dtype_store(TYPE_F16, p, dtype_round(TYPE_F16, x));
}
#define store_f32(p, x) (*(p) = (float)(x))

// Loads an element of a type that needs no conversion.
#define load_plain(p) (*(p))
#define store_plain(p, x) (*(p) = (x))

// Calls the macro DO for each element type with: its Dtype, the suffix of function names, the type
// in memory, the accumulator of sums and products, the type of comparisons, the load and the store
// function.
#define TYPES(DO)                                                                                  \
  DO(TYPE_F32, f32, float, double, float, load_plain, store_f32)                                   \
  DO(TYPE_F64, f64, double, double, double, load_plain, store_plain)                               \
  DO(TYPE_BF16, bf16, uint16_t, double, float, load_bf16, store_bf16)                              \
  DO(TYPE_F16, f16, uint16_t, double, float, load_f16, store_f16)                                  \
  DO(TYPE_I32, i32, int32_t, uint32_t, int32_t, load_plain, store_wrapped)                         \
  DO(TYPE_U8, u8, uint8_t, uint8_t, uint8_t, load_plain, store_plain)                              \
  DO(TYPE_I64, i64, int64_t, uint64_t, int64_t, load_plain, store_wrapped)                         \
  DO(TYPE_U64, u64, uint64_t, uint64_t, uint64_t, load_plain, store_plain)

// Stores the low bits of x, an unsigned sum, as the integer at p. So integers wrap around as in
// two's complement.
#define store_wrapped(p, x) memcpy(p, &(x), sizeof *(p))

// -- running sums, products and maxima ----------------------------------------------------------

// A running sum, product or maximum of m rows of n elements. Element i of row l of the source is
// element i * src_step + l * src_lane in memory; for the destination with dst_step and dst_lane.
typedef struct RunningScan {
  int64_t n, m, src_step, dst_step, src_lane, dst_lane;
  bool exclusive;
} RunningScan;
typedef void ScanFn(const RunningScan *s, const void *src, void *dst);

// Defines a function that computes the running results of s->m rows. For one row, the number
// 1 is passed as a constant, so that the compiler keeps the running value in a register.
#define ONE_OR_MORE(fn, name)                                                                      \
  static void fn##_##name(const RunningScan *s, const void *src, void *dst) {                      \
    if (s->m == 1)                                                                                 \
      fn##_rows_##name(s, 1, src, dst);                                                            \
    else                                                                                           \
      fn##_rows_##name(s, s->m, src, dst);                                                         \
  }

// Defines running results that begin with `first` and join each element by the operator `op`.
#define ACCUMULATE(fn, first, op, name, T, Acc, load, store)                                       \
  EVERYWHERE void fn##_rows_##name(const RunningScan *s, int64_t m, const void *src, void *dst) {  \
    Acc all[LANES];                                                                                \
    for (int64_t l = 0; l < m; l++) all[l] = first;                                                \
    for (int64_t i = 0; i < s->n; i++) {                                                           \
      const T *x = (const T *)src + i * s->src_step;                                               \
      T *y = (T *)dst + i * s->dst_step;                                                           \
      for (int64_t l = 0; l < m; l++) {                                                            \
        Acc before = all[l];                                                                       \
        all[l] = (Acc)(before op(Acc) load(x + l * s->src_lane));                                  \
        Acc put = s->exclusive ? before : all[l];                                                  \
        store(y + l * s->dst_lane, put);                                                           \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  ONE_OR_MORE(fn, name)
#define SUM(id, name, T, Acc, Cmp, load, store) ACCUMULATE(sum, 0, +, name, T, Acc, load, store)
#define PRODUCT(id, name, T, Acc, Cmp, load, store)                                                \
  ACCUMULATE(product, 1, *, name, T, Acc, load, store)
TYPES(SUM)
TYPES(PRODUCT)

// True if `best`, the running maximum so far, is still the maximum after element x. A `best` that
// is NaN is kept.
#define STAYS(best, x) ((best) != (best) || (x) <= (best))

#define MAXIMUM(id, name, T, Acc, Cmp, load, store)                                                \
  EVERYWHERE void max_rows_##name(const RunningScan *s, int64_t m, const void *src, void *dst) {   \
    Cmp best[LANES];                                                                               \
    for (int64_t l = 0; l < m; l++) best[l] = load((const T *)src + l * s->src_lane);              \
    for (int64_t i = 0; i < s->n; i++) {                                                           \
      const T *x = (const T *)src + i * s->src_step;                                               \
      T *y = (T *)dst + i * s->dst_step;                                                           \
      for (int64_t l = 0; l < m; l++) {                                                            \
        Cmp now = load(x + l * s->src_lane);                                                       \
        best[l] = STAYS(best[l], now) ? best[l] : now;                                             \
        Acc put = (Acc)best[l];                                                                    \
        store(y + l * s->dst_lane, put);                                                           \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  ONE_OR_MORE(max, name)
TYPES(MAXIMUM)

#define PLACE(id, name, T, Acc, Cmp, load, store)                                                  \
  EVERYWHERE void place_rows_##name(const RunningScan *s, int64_t m, const void *src, void *dst) { \
    Cmp best[LANES];                                                                               \
    int32_t at[LANES] = {0};                                                                       \
    for (int64_t l = 0; l < m; l++) best[l] = load((const T *)src + l * s->src_lane);              \
    for (int64_t i = 0; i < s->n; i++) {                                                           \
      const T *x = (const T *)src + i * s->src_step;                                               \
      int32_t *y = (int32_t *)dst + i * s->dst_step;                                               \
      for (int64_t l = 0; l < m; l++) {                                                            \
        Cmp now = load(x + l * s->src_lane);                                                       \
        bool stays = STAYS(best[l], now);                                                          \
        best[l] = stays ? best[l] : now;                                                           \
        at[l] = stays ? at[l] : (int32_t)i;                                                        \
        y[l * s->dst_lane] = at[l];                                                                \
      }                                                                                            \
    }                                                                                              \
  }                                                                                                \
  ONE_OR_MORE(place, name)
TYPES(PLACE)

#define ROW(id, name, T, Acc, Cmp, load, store)                                                    \
  [id] = {sum_##name, product_##name, max_##name, place_##name},
static ScanFn *const scan_rule[TYPE_COUNT][ORDERED_CUM_INDEX + 1] = {TYPES(ROW)};

// -- sorting ------------------------------------------------------------------------------------

typedef struct KeyedRow {
  uint64_t key;
  uint64_t index;
} KeyedRow;
_Static_assert(sizeof(KeyedRow) == ORDERED_ENTRY, "the room that program_scratch foresees");

// The functions key_* return the sort key of an element: an unsigned integer, such that keys have
// the same order as elements. For a negative float all bits are inverted, for another float only
// the sign bit.
static uint64_t key_f32(float x) {
  uint32_t bits;
  if (x != x) return UINT32_MAX;
  x += 0.0F; // turns -0 into 0, so that both have one key
  memcpy(&bits, &x, sizeof bits);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
static uint64_t key_f64(double x) {
  uint64_t bits, sign = (uint64_t)1 << 63;
  if (x != x) return UINT64_MAX;
  x += 0.0;
  memcpy(&bits, &x, sizeof bits);
  return bits & sign ? ~bits : bits | sign;
}
#define key_bf16 key_f32
#define key_f16 key_f32
#define key_i32(x) ((uint32_t)(x) ^ 0x80000000u)
#define key_u8(x) (x)
#define key_i64(x) ((uint64_t)(x) ^ (uint64_t)1 << 63)
#define key_u64(x) (x)

typedef void KeysFn(const void *src, int64_t n, int64_t step, uint64_t flip, KeyedRow *out);
#define KEYS(id, name, T, Acc, Cmp, load, store)                                                   \
  static void keys_##name(const void *src, int64_t n, int64_t step, uint64_t flip,                 \
                          KeyedRow *out) {                                                         \
    const T *x = src;                                                                              \
    for (int64_t i = 0; i < n; i++)                                                                \
      out[i] = (KeyedRow){(uint64_t)key_##name(load(x + i * step)) ^ flip, (uint64_t)i};           \
  }
TYPES(KEYS)

#define KEYS_ROW(id, name, T, Acc, Cmp, load, store) [id] = keys_##name,
static KeysFn *const keys_rule[TYPE_COUNT] = {TYPES(KEYS_ROW)};

// Inserts e at its place among sorted[0..n-1], which are in ascending order of keys. Entries with
// larger keys move up by one, so sorted[n] is overwritten.
static void insert(KeyedRow *sorted, int64_t n, KeyedRow e) {
  for (; n > 0 && sorted[n - 1].key > e.key; n--) sorted[n] = sorted[n - 1];
  sorted[n] = e;
}

// Sorts the n entries of a by key (radix sort) and returns the sorted array, which is a or b. Array
// b is work memory for n entries.
static KeyedRow *sort_radix(KeyedRow *a, KeyedRow *b, int64_t n) {
  uint32_t count[DIGITS][RADIX];
  memset(count, 0, sizeof count);
  for (int64_t i = 0; i < n; i++)
    for (int d = 0; d < DIGITS; d++) count[d][a[i].key >> 8 * d & 0xff]++;
  for (int d = 0; d < DIGITS; d++) {
    if (count[d][a[0].key >> 8 * d & 0xff] == n)
      continue; // all keys have an equal digit here, which changes no order
    uint32_t at = 0;
    for (int v = 0; v < RADIX; v++) {
      uint32_t here = count[d][v];
      count[d][v] = at;
      at += here;
    }
    for (int64_t i = 0; i < n; i++) b[count[d][a[i].key >> 8 * d & 0xff]++] = a[i];
    KeyedRow *other = a;
    a = b;
    b = other;
  }
  return a;
}

static KeyedRow *sort_entries(KeyedRow *a, KeyedRow *b, int64_t n) {
  if (n > FEW) return sort_radix(a, b, n);
  for (int64_t i = 1; i < n; i++) insert(a, i, a[i]);
  return a;
}

// Writes the k entries with the smallest keys among the n entries of a to b, in ascending order,
// and returns b. An entry after the first k is inserted only if its key is less than the largest
// key in b.
static KeyedRow *select_first(const KeyedRow *a, KeyedRow *b, int64_t n, int64_t k) {
  for (int64_t i = 0; i < k; i++) insert(b, i, a[i]);
  for (int64_t i = k; i < n; i++)
    if (a[i].key < b[k - 1].key) insert(b, k - 1, a[i]);
  return b;
}

static void sort_row(const BoundOrdered *b, const char *src, int32_t *dst, void *scratch) {
  const Ordered *w = b->what;
  bool top = w->kind == ORDERED_TOP_K;
  uint64_t flip = top || w->flags & ORDER_DESCENDING ? UINT64_MAX : 0;
  int64_t n = b->n, k = !top ? n : w->k < n ? w->k : n;
  KeyedRow *e = scratch, *other = e + n;
  keys_rule[w->type](src, n, w->src_step, flip, e);
  if (top && k > 0 && k <= FEW_LARGEST)
    e = select_first(e, other, n, k);
  else
    e = sort_entries(e, other, n);
  for (int64_t i = 0; i < k; i++) dst[i * w->dst_step] = (int32_t)e[i].index;
  for (int64_t i = k; top && i < w->k; i++) dst[i * w->dst_step] = 0;
}

// -- running an instruction row by row ----------------------------------------------------------

static bool is_scan(const Ordered *w) { return w->kind <= ORDERED_CUM_INDEX; }

static int64_t dst_bytes(const Ordered *w) {
  return w->kind <= ORDERED_CUMMAX ? dtype_bytes(w->type) : (int64_t)sizeof(int32_t);
}

// Returns how many rows are computed together. This is more than 1 only for running sums and maxima
// of rows whose first elements are neighbours in memory.
static int64_t lanes_of(const BoundOrdered *b) {
  const Ordered *w = b->what;
  int last = w->nrows - 1;
  bool neighbours = is_scan(w) && last >= 0 && w->row[last].src == 1 && w->src_step != 1;
  if (neighbours && b->count[last] == 0) return 1; // the block is empty: any number will do
  return neighbours && b->count[last] < LANES ? b->count[last] : neighbours ? LANES : 1;
}

int64_t ordered_unit(const BoundOrdered *b) { return lanes_of(b); }

// Sets *src and *dst to the offsets of row r in source and destination, in elements. Rows are
// numbered over nested loops. Returns the number of rows from r to the end of the innermost of
// these loops, r included.
static int64_t row_begin(const BoundOrdered *b, int64_t r, int64_t *src, int64_t *dst) {
  const Ordered *w = b->what;
  int64_t left = 1;
  *src = *dst = 0;
  for (int i = w->nrows - 1; i >= 0; i--) {
    int64_t at = r % b->count[i];
    if (i == w->nrows - 1) left = b->count[i] - at;
    *src += at * w->row[i].src;
    *dst += at * w->row[i].dst;
    r /= b->count[i];
  }
  return left;
}

// Computes the running results of m rows. With ORDER_REVERSE, they run from the
// last element of a row to the first. The positions in the result of cum_index count from the first
// element in any case.
static void scan_rows(const BoundOrdered *b, const char *src, char *dst, int64_t m) {
  const Ordered *w = b->what;
  int last = w->nrows - 1;
  RunningScan s = {.n = b->n, .m = m, .src_step = w->src_step, .dst_step = w->dst_step};
  s.exclusive = w->flags & ORDER_EXCLUSIVE;
  if (last >= 0) s.src_lane = w->row[last].src, s.dst_lane = w->row[last].dst;
  if (!(w->flags & ORDER_REVERSE)) {
    scan_rule[w->type][w->kind](&s, src, dst);
    return;
  }
  int64_t to_last = (b->n - 1) * w->dst_step * dst_bytes(w);
  s.src_step = -s.src_step;
  s.dst_step = -s.dst_step;
  scan_rule[w->type][w->kind](&s, src + (b->n - 1) * w->src_step * dtype_bytes(w->type),
                              dst + to_last);
  if (w->kind != ORDERED_CUM_INDEX) return;
  for (int64_t i = 0; i < b->n; i++)
    for (int64_t l = 0; l < m; l++) {
      int32_t *at = (int32_t *)(void *)dst + i * w->dst_step + l * s.dst_lane;
      *at = (int32_t)(b->n - 1) - *at;
    }
}

void ordered_run(const BoundOrdered *b, int64_t lo, int64_t hi, void *scratch) {
  const Ordered *w = b->what;
  int64_t lanes = lanes_of(b), src_bytes = dtype_bytes(w->type), m = 1;
  for (int64_t r = lo; r < hi && b->n > 0; r += m) {
    int64_t from, to, left = row_begin(b, r, &from, &to);
    const char *src = b->src + from * src_bytes;
    char *dst = b->dst + to * dst_bytes(w);
    m = left < lanes ? left : lanes;
    if (m > hi - r) m = hi - r;
    if (is_scan(w))
      scan_rows(b, src, dst, m);
    else
      sort_row(b, src, (int32_t *)(void *)dst, scratch);
  }
}
