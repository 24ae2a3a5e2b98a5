// How ordered operations are launched on a GPU: names, blocks of threads, records.
#include "ir/program/gpu_ordered.h"

#include <string.h>

#include "ir/program/ordered_flags.h"

enum {
  PIECE = 8,            // elements of a row that a thread of a team has at least
  MANY_ROWS = 4096,     // so many rows give every thread of a GPU something to do
  SORT_ELEMENTS = 1024, // elements of short rows that a block sorts
  SORT_BLOCKS = 256     // most blocks that sort long rows, because each needs scratch memory
};

const char *gpu_ordered_name(OrderedKind kind, Dtype type) {
#define NAMES(name)                                                                                \
  {                                                                                                \
    [TYPE_F32] = name "_f32", [TYPE_F64] = name "_f64", [TYPE_BF16] = name "_bf16",                \
    [TYPE_F16] = name "_f16", [TYPE_I32] = name "_i32", [TYPE_U8] = name "_u8",                    \
    [TYPE_I64] = name "_i64", [TYPE_U64] = name "_u64", [TYPE_BOOL] = name "_bool"                 \
  }
  static const char *const names[][TYPE_COUNT] = {
      [ORDERED_CUMSUM] = NAMES("cumsum"), [ORDERED_CUMPROD] = NAMES("cumprod"),
      [ORDERED_CUMMAX] = NAMES("cummax"), [ORDERED_CUM_INDEX] = NAMES("cum_index"),
      [ORDERED_ARGSORT] = NAMES("sort"),  [ORDERED_TOP_K] = NAMES("sort")};
#undef NAMES
  return names[kind][type];
}

static bool is_sort(const Ordered *w) {
  return w->kind == ORDERED_ARGSORT || w->kind == ORDERED_TOP_K;
}

static int log2_down(int64_t n) {
  int k = 0;
  for (; n > 1; n /= 2) k++;
  return k;
}

// Returns log2 of the threads of a team. Rows that are neighbours in memory have one thread each,
// if they are many: threads then read neighbours.
static int team_log2(const OrderedSizes *s) {
  const Ordered *w = s->what;
  bool neighbours = w->nrows > 0 && w->row[w->nrows - 1].src == 1 && w->src_step != 1;
  if (neighbours && s->rows >= MANY_ROWS) return 0;
  int most = log2_down(ORDERED_THREADS), team = log2_down(s->n / PIECE);
  return team < most ? team : most;
}

// Returns the number of results of a row of a sort.
static int64_t results(const OrderedSizes *s) {
  return s->what->kind == ORDERED_TOP_K ? s->what->k : s->n;
}

static OrderedLaunch sort_launch(const OrderedSizes *s) {
  OrderedLaunch l = {0};
  if (s->n <= ORDERED_RUN) {
    int64_t width = results(s) > s->n ? results(s) : s->n;
    l.grain = clamp64(SORT_ELEMENTS / (width ? width : 1), 1, SORT_ELEMENTS);
    l.blocks = ceil_div(s->rows, l.grain);
    return l;
  }
  l.grain = s->rows > SORT_BLOCKS ? ceil_div(s->rows, SORT_BLOCKS) : 1;
  l.blocks = ceil_div(s->rows, l.grain);
  l.scratch = l.blocks * 2 * s->n * ORDERED_ENTRY;
  return l;
}

OrderedLaunch gpu_ordered_launch(const OrderedSizes *s) {
  if (s->n == 0 || s->rows == 0) return (OrderedLaunch){.grain = 1};
  if (is_sort(s->what)) return sort_launch(s);
  int64_t grain = ORDERED_THREADS >> team_log2(s);
  return (OrderedLaunch){.grain = grain, .blocks = ceil_div(s->rows, grain)};
}

static int64_t passes(int64_t n) {
  int64_t p = 0;
  for (int64_t run = ORDERED_RUN; run < n; run *= 2) p++;
  return p;
}

static void set_slots(const OrderedSizes *s, int64_t *slot) {
  const Ordered *w = s->what;
  bool reverse = !is_sort(w) && w->flags & ORDER_REVERSE;
  slot[ORDERED_N] = s->n;
  slot[ORDERED_K] = results(s);
  slot[ORDERED_SRC_STEP] = reverse ? -w->src_step : w->src_step;
  slot[ORDERED_DST_STEP] = reverse ? -w->dst_step : w->dst_step;
  slot[ORDERED_EXCLUSIVE] = w->flags & ORDER_EXCLUSIVE ? 1 : 0;
  slot[ORDERED_REVERSED] = reverse;
  slot[ORDERED_FLIP] = w->kind == ORDERED_TOP_K || w->flags & ORDER_DESCENDING ? -1 : 0;
  slot[ORDERED_TEAM_LOG2] = team_log2(s);
  slot[ORDERED_PASSES] = passes(s->n);
  slot[ORDERED_LOOPS] = w->nrows;
  for (int i = 0; i < w->nrows; i++) {
    slot[ORDERED_ROW + 3 * i] = s->count[i];
    slot[ORDERED_ROW + 3 * i + 1] = w->row[i].src;
    slot[ORDERED_ROW + 3 * i + 2] = w->row[i].dst;
  }
}

void gpu_ordered_record(const OrderedSizes *s, uint64_t src, uint64_t dst, uint64_t scratch,
                        int64_t first_block, void *record) {
  const Ordered *w = s->what;
  OrderedLaunch l = gpu_ordered_launch(s);
  int64_t slot[ORDERED_SLOTS] = {0};
  set_slots(s, slot);
  int64_t src_bytes = dtype_bytes(w->type);
  int64_t dst_bytes = w->kind <= ORDERED_CUMMAX ? src_bytes : dtype_bytes(TYPE_I32);
  if (slot[ORDERED_REVERSED] && s->n > 0) { // rows begin at their last element
    src += (uint64_t)((s->n - 1) * w->src_step * src_bytes);
    dst += (uint64_t)((s->n - 1) * w->dst_step * dst_bytes);
  }
  GpuRecord head = {.first_block = first_block, .to = s->rows, .grain = l.grain};
  uint64_t pointer[ORDERED_POINTERS] = {src, dst, scratch};
  char *at = record;
  memcpy(at, &head, sizeof head);
  memcpy(at + gpu_ptr_at(0), pointer, sizeof pointer);
  memcpy(at + gpu_slot_at(ORDERED_POINTERS, 0), slot, sizeof slot);
}
