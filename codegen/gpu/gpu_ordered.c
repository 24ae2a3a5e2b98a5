// The functions of ordered operations on a GPU: running sums and maxima, and sorting. In: a kind
// and an element type. Out: a function with the parameters of ir/program/gpu.h whose slots and
// order of additions ir/program/gpu_ordered.h describes.
//
// Results are those of runtime/exec/ordered.c. Sums of floats are accumulated in f64, in another
// order; sums of integers wrap. A running maximum that is NaN stays. Sorting is stable: NaN is the
// largest element, and both zeros are equal.
#include "ir/program/gpu_ordered.h"
#include "codegen/gpu/gpu_internal.h"

#include <string.h>

#ifdef MESHC_HAVE_LLVM
enum { ENTRY = ORDERED_ENTRY }; // bytes of a thread's value and index, and of a key and its index

// -- operands -----------------------------------------------------------------------------------

static LLVMValueRef slot(GpuEmit *g, int i) {
  return gpu_constant(g, g->e.i64, g->record, gpu_slot_at(ORDERED_POINTERS, i));
}

static LLVMValueRef pointer(GpuEmit *g, int i) {
  return gpu_address(g, gpu_constant(g, g->e.i64, g->record, gpu_ptr_at(i)));
}

// Emits the address of element i of an array of elements of type t.
static LLVMValueRef element(GpuEmit *g, Dtype t, LLVMValueRef base, LLVMValueRef i) {
  return emit_at(&g->e, mem_type(&g->e, t), base, i);
}

static LLVMValueRef variable(GpuEmit *g, LLVMTypeRef t, LLVMValueRef x) {
  LLVMValueRef at = emit_alloca(&g->e, t);
  LLVMBuildStore(g->e.b, x, at);
  return at;
}

static LLVMValueRef get(GpuEmit *g, LLVMValueRef variable) {
  return emit_read(&g->e, g->e.i64, variable);
}

// A row: the addresses of its first element and of its first result, and the distances of
// neighbours, in elements.
typedef struct Row {
  LLVMValueRef src, dst, src_step, dst_step;
} Row;

// Adds at * slot `i` of loop `loop` over rows to the i64 in `sum`.
static void add_step(GpuEmit *g, LLVMValueRef loop, LLVMValueRef at, int i, LLVMValueRef sum) {
  Emit *e = &g->e;
  LLVMValueRef step = gpu_constant(g, e->i64, loop, gpu_slot_at(ORDERED_POINTERS, ORDERED_ROW + i));
  LLVMBuildStore(e->b, int_add(e, get(g, sum), int_mul(e, at, step)), sum);
}

// Emits the addresses of row number `row`. out: the type of results.
static Row row_begin(GpuEmit *g, LLVMValueRef row, Dtype type, Dtype out) {
  Emit *e = &g->e;
  LLVMValueRef zero = i64_of(e, 0), loops = slot(g, ORDERED_LOOPS);
  LLVMValueRef rest = variable(g, e->i64, row), src = variable(g, e->i64, zero),
               dst = variable(g, e->i64, zero);
  EmitLoop l = loop_begin(e, zero, loops, i64_of(e, 1)); // from the innermost loop outward
  LLVMValueRef i = int_sub(e, int_sub(e, loops, i64_of(e, 1)), l.var);
  LLVMValueRef loop = emit_at(e, e->i8, g->record, int_mul(e, i, i64_of(e, 3 * 8)));
  LLVMValueRef count = gpu_constant(g, e->i64, loop, gpu_slot_at(ORDERED_POINTERS, ORDERED_ROW));
  LLVMValueRef r = get(g, rest), at = LLVMBuildURem(e->b, r, count, "");
  add_step(g, loop, at, 1, src);
  add_step(g, loop, at, 2, dst);
  LLVMBuildStore(e->b, LLVMBuildUDiv(e->b, r, count, ""), rest);
  loop_end(e, &l);
  return (Row){element(g, type, pointer(g, 0), get(g, src)),
               element(g, out, pointer(g, 1), get(g, dst)), slot(g, ORDERED_SRC_STEP),
               slot(g, ORDERED_DST_STEP)};
}

static LLVMValueRef load(GpuEmit *g, const Row *r, Dtype t, LLVMValueRef i) {
  LLVMValueRef at = element(g, t, r->src, int_mul(&g->e, i, r->src_step));
  return gpu_read(g, t, at, GPU_GLOBAL);
}

static void store(GpuEmit *g, const Row *r, Dtype t, LLVMValueRef i, LLVMValueRef x) {
  gpu_write(g, t, element(g, t, r->dst, int_mul(&g->e, i, r->dst_step)), x, GPU_GLOBAL);
}

// -- running sums and maxima --------------------------------------------------------------------

// The running value of a thread: for a sum `value`, for a maximum also its position `at`.
typedef struct Scan {
  GpuEmit *g;
  OrderedKind kind;
  Dtype type, acc;              // types of elements and of the running value
  LLVMValueRef value, at;       // variables
  LLVMValueRef first, shared;   // the value of an empty piece; the shared memory
  LLVMValueRef lane, n, lo, hi; // number in the team; elements of the row; the thread's piece
  Row row;
} Scan;

static bool sums(const Scan *s) { return s->kind == ORDERED_CUMSUM; }
static LLVMValueRef running(Scan *s) {
  return emit_read(&s->g->e, reg_type(&s->g->e, s->acc), s->value);
}

static void scan_set(Scan *s, LLVMValueRef value, LLVMValueRef at) {
  LLVMBuildStore(s->g->e.b, value, s->value);
  LLVMBuildStore(s->g->e.b, at, s->at);
}

// Emits whether the running maximum stays after x: x is not larger, or the maximum is NaN.
static LLVMValueRef stays(Scan *s, LLVMValueRef best, LLVMValueRef x) {
  Emit *e = &s->g->e;
  if (dtype_is_float(s->acc)) return bit_or(e, is_nan(e, best), cmp(e, LLVMRealOLE, x, best));
  return int_cmp(e, s->acc == TYPE_U64 ? LLVMIntULE : LLVMIntSLE, x, best);
}

// Combines the running value with x, a later value of type Scan.acc at position i.
static void scan_add(Scan *s, LLVMValueRef x, LLVMValueRef i) {
  Emit *e = &s->g->e;
  LLVMValueRef old = running(s), at = get(s->g, s->at);
  if (sums(s)) {
    scan_set(s, dtype_is_float(s->acc) ? add(e, old, x) : int_add(e, old, x), at);
    return;
  }
  LLVMValueRef keeps = stays(s, old, x);
  scan_set(s, pick(e, keeps, old, x), pick(e, keeps, at, i));
}

static LLVMValueRef scan_load(Scan *s, LLVMValueRef i) {
  return emit_coerce(&s->g->e, load(s->g, &s->row, s->type, i), s->type, s->acc);
}

static void scan_store(Scan *s, LLVMValueRef i, LLVMValueRef value) {
  Emit *e = &s->g->e;
  if (s->kind == ORDERED_CUM_INDEX) {
    LLVMValueRef at = get(s->g, s->at);
    LLVMValueRef back = int_sub(e, int_sub(e, s->n, i64_of(e, 1)), at);
    at = pick(e, not_zero(e, slot(s->g, ORDERED_REVERSED)), back, at);
    store(s->g, &s->row, TYPE_I32, i, int_trunc(e, at, e->i32));
    return;
  }
  bool rounds = dtype_is_float(s->type);
  value = rounds ? emit_convert(e, value, s->acc, s->type) : emit_coerce(e, value, s->acc, s->type);
  store(s->g, &s->row, s->type, i, value);
}

// Emits the address of the entry of thread `thread` in shared memory, at byte `at`.
static LLVMValueRef entry(Scan *s, LLVMValueRef thread, int at) {
  Emit *e = &s->g->e;
  LLVMValueRef byte = int_add(e, int_mul(e, thread, i64_of(e, ENTRY)), i64_of(e, at));
  return emit_at(e, e->i8, s->shared, byte);
}

static void publish(Scan *s) {
  LLVMValueRef thread = s->g->thread;
  gpu_write(s->g, s->acc, entry(s, thread, 0), running(s), GPU_SHARED);
  gpu_write(s->g, TYPE_I64, entry(s, thread, 8), get(s->g, s->at), GPU_SHARED);
}

// Sets the running value to that of another thread of the team.
static void take(Scan *s, LLVMValueRef thread) {
  LLVMValueRef x = gpu_read(s->g, s->acc, entry(s, thread, 0), GPU_SHARED);
  scan_set(s, x, gpu_read(s->g, TYPE_I64, entry(s, thread, 8), GPU_SHARED));
}

// Combines the values of the pieces, so that the entry of a thread has those of its piece and all
// pieces before it in the team. In round k a thread takes that of the thread 2^k before it.
static void join_pieces(Scan *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  publish(s);
  gpu_barrier(g);
  EmitLoop l = loop_begin(e, i64_of(e, 0), slot(g, ORDERED_TEAM_LOG2), i64_of(e, 1));
  LLVMValueRef step = shift_left(e, i64_of(e, 1), l.var);
  LLVMValueRef has = bit_not(e, int_less(e, s->lane, step));
  LLVMBasicBlockRef none = if_begin(e, has);
  LLVMValueRef mine = running(s), at = get(g, s->at);
  take(s, int_sub(e, g->thread, step));
  scan_add(s, mine, at);
  if_end(e, none);
  gpu_barrier(g);
  publish(s);
  gpu_barrier(g);
  loop_end(e, &l);
}

// Emits the pass over the thread's piece of the row. With `stores`, it stores the results.
static void scan_piece(Scan *s, bool stores) {
  Emit *e = &s->g->e;
  EmitLoop l = loop_begin(e, s->lo, s->hi, i64_of(e, 1));
  LLVMValueRef before = running(s);
  scan_add(s, scan_load(s, l.var), l.var);
  if (stores) {
    LLVMValueRef exclusive = not_zero(e, slot(s->g, ORDERED_EXCLUSIVE)), after = running(s);
    scan_store(s, l.var, sums(s) ? pick(e, exclusive, before, after) : after);
  }
  loop_end(e, &l);
}

// Sets the row of the thread and its piece of it. Threads behind the last row have empty pieces.
static void scan_begin(Scan *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef log = slot(g, ORDERED_TEAM_LOG2), one = i64_of(e, 1);
  LLVMValueRef last = int_sub(e, shift_left(e, one, log), one); // of the team
  LLVMValueRef row = int_add(e, g->from, shift_right(e, g->thread, log));
  Dtype out = s->kind == ORDERED_CUM_INDEX ? TYPE_I32 : s->type;
  s->lane = bit_and(e, g->thread, last);
  s->row = row_begin(g, row, s->type, out);
  s->n = pick(e, int_less(e, row, g->to), slot(g, ORDERED_N), i64_of(e, 0));
  LLVMValueRef piece = shift_right(e, int_add(e, s->n, last), log);
  s->lo = int_min(e, int_mul(e, s->lane, piece), s->n);
  s->hi = int_min(e, int_add(e, s->lo, piece), s->n);
}

// Sets the value of an empty piece: 0, or the first element of the row for a maximum.
static void scan_start(Scan *s) {
  Emit *e = &s->g->e;
  LLVMTypeRef t = reg_type(e, s->acc);
  s->value = variable(s->g, t, LLVMConstNull(t));
  s->at = variable(s->g, e->i64, i64_of(e, 0));
  if (!sums(s)) {
    LLVMBasicBlockRef empty = if_begin(e, int_less(e, i64_of(e, 0), s->n));
    LLVMBuildStore(e->b, scan_load(s, i64_of(e, 0)), s->value);
    if_end(e, empty);
  }
  s->first = running(s);
}

static Dtype scan_type(OrderedKind kind, Dtype type) {
  if (kind == ORDERED_CUMSUM) return dtype_is_float(type) ? TYPE_F64 : TYPE_I64;
  return type == TYPE_BF16 || type == TYPE_F16 ? TYPE_F32 : type;
}

static void emit_scan(GpuEmit *g, OrderedKind kind, Dtype type) {
  Emit *e = &g->e;
  Scan s = {.g = g, .kind = kind, .type = type, .acc = scan_type(kind, type)};
  s.shared = gpu_shared(g);
  scan_begin(&s);
  scan_start(&s);
  scan_piece(&s, false);
  join_pieces(&s);
  scan_set(&s, s.first, i64_of(e, 0));
  LLVMBasicBlockRef leads = if_begin(e, not_zero(e, s.lane));
  take(&s, int_sub(e, g->thread, i64_of(e, 1)));
  if_end(e, leads);
  scan_piece(&s, true);
}

// -- keys ---------------------------------------------------------------------------------------

// Emits the bits of float x, as unsigned integers in the order of floats: -0 equals 0, NaN is the
// largest. `t`: the integer type of its size.
static LLVMValueRef float_key(Emit *e, LLVMValueRef x, LLVMTypeRef t, int bits) {
  LLVMValueRef nan = is_nan(e, x), v = bit_cast(e, offset(e, x, 0), t);
  LLVMValueRef negative = LLVMBuildAShr(e->b, v, const_int(t, bits - 1), "");
  LLVMValueRef sign = left_by(e, const_int(t, 1), bits - 1);
  return pick(e, nan, const_int(t, -1), bit_xor(e, v, bit_or(e, negative, sign)));
}

// Emits the key of x, a register of type t: an i64, unsigned, in the order of elements.
static LLVMValueRef key_of(Emit *e, Dtype t, LLVMValueRef x) {
  if (t == TYPE_F64) return float_key(e, x, e->i64, 64);
  if (dtype_is_float(t)) return int_zext(e, float_key(e, x, e->i32, 32), e->i64);
  if (t == TYPE_I32) return int_zext(e, bit_xor(e, x, int_like(x, INT32_MIN)), e->i64);
  if (t == TYPE_I64) return bit_xor(e, x, int_like(x, INT64_MIN));
  return emit_coerce(e, x, t, TYPE_U64);
}

// -- sorting ------------------------------------------------------------------------------------

typedef struct Sort {
  GpuEmit *g;
  Dtype type;
  LLVMValueRef n, k, flip;
  LLVMValueRef from, to; // variables: the entries of the row before and after a pass
  Row row;
} Sort;

static LLVMValueRef sort_key(Sort *s, LLVMValueRef i) {
  Emit *e = &s->g->e;
  return bit_xor(e, key_of(e, s->type, load(s->g, &s->row, s->type, i)), s->flip);
}

// Emits how many of the elements lo..hi-1 of the row come before element i with this key.
static LLVMValueRef rank_among(Sort *s, LLVMValueRef i, LLVMValueRef key, LLVMValueRef lo,
                               LLVMValueRef hi) {
  Emit *e = &s->g->e;
  LLVMValueRef rank = variable(s->g, e->i64, i64_of(e, 0));
  EmitLoop l = loop_begin(e, lo, hi, i64_of(e, 1));
  LLVMValueRef other = sort_key(s, l.var);
  LLVMValueRef earlier = bit_and(e, int_equal(e, other, key), int_less(e, l.var, i));
  LLVMValueRef before = bit_or(e, int_cmp(e, LLVMIntULT, other, key), earlier);
  LLVMBuildStore(e->b, int_add(e, get(s->g, rank), int_zext(e, before, e->i64)), rank);
  loop_end(e, &l);
  return get(s->g, rank);
}

// Begins a loop over 0..n-1 in which each thread of the block has every threads-th round.
static EmitLoop each_begin(GpuEmit *g, LLVMValueRef n) {
  return loop_begin(&g->e, g->thread, n, i64_of(&g->e, ORDERED_THREADS));
}

static void store_index(Sort *s, LLVMValueRef at, LLVMValueRef index) {
  store(s->g, &s->row, TYPE_I32, at, int_trunc(&s->g->e, index, s->g->e.i32));
}

// Emits the sorting of rows of at most ORDERED_RUN elements: a thread counts the elements before
// its own.
static void sort_short(Sort *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef width = pick(e, int_less(e, s->n, s->k), s->k, s->n);
  EmitLoop l = each_begin(g, int_mul(e, int_sub(e, g->to, g->from), width));
  LLVMValueRef i = LLVMBuildURem(e->b, l.var, width, "");
  LLVMValueRef row = int_add(e, g->from, LLVMBuildUDiv(e->b, l.var, width, ""));
  s->row = row_begin(g, row, s->type, TYPE_I32);
  LLVMValueRef exists = int_less(e, i, s->n), at = variable(g, e->i64, i);
  LLVMBasicBlockRef missing = if_begin(e, exists);
  LLVMBuildStore(e->b, rank_among(s, i, sort_key(s, i), i64_of(e, 0), s->n), at);
  if_end(e, missing);
  LLVMValueRef place = get(g, at);
  LLVMBasicBlockRef unused = if_begin(e, int_less(e, place, s->k));
  store_index(s, place, pick(e, exists, i, i64_of(e, 0)));
  if_end(e, unused);
  loop_end(e, &l);
}

// An entry of the scratch memory: a key and the index of its element.
static LLVMValueRef entry_at(Sort *s, LLVMValueRef list, LLVMValueRef i, int at) {
  Emit *e = &s->g->e;
  LLVMValueRef byte = int_add(e, int_mul(e, i, i64_of(e, ENTRY)), i64_of(e, at));
  return emit_at(e, e->i8, gpu_address(s->g, get(s->g, list)), byte);
}
static LLVMValueRef read_entry(Sort *s, LLVMValueRef list, LLVMValueRef i, int at) {
  return gpu_read(s->g, TYPE_U64, entry_at(s, list, i, at), GPU_GLOBAL);
}
static void write_entry(Sort *s, LLVMValueRef list, LLVMValueRef i, LLVMValueRef key,
                        LLVMValueRef index) {
  gpu_write(s->g, TYPE_U64, entry_at(s, list, i, 0), key, GPU_GLOBAL);
  gpu_write(s->g, TYPE_U64, entry_at(s, list, i, 8), index, GPU_GLOBAL);
}

// Emits the sorting of each run of ORDERED_RUN elements of the row, to the list `from`.
static void sort_runs(Sort *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  EmitLoop l = each_begin(g, s->n);
  LLVMValueRef run = keep_bits(e, l.var, -ORDERED_RUN);
  LLVMValueRef end = int_min(e, int_add(e, run, i64_of(e, ORDERED_RUN)), s->n);
  LLVMValueRef key = sort_key(s, l.var), rank = rank_among(s, l.var, key, run, end);
  write_entry(s, s->from, int_add(e, run, rank), key, l.var);
  loop_end(e, &l);
}

// Emits a binary search among entries lo..hi-1, which are sorted: returns the first whose key is
// not less than `key` or, if `after`, larger than it. rounds: so that 2^rounds > hi - lo.
static LLVMValueRef search(Sort *s, LLVMValueRef key, LLVMValueRef after, LLVMValueRef lo,
                           LLVMValueRef hi, LLVMValueRef rounds) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef low = variable(g, e->i64, lo), high = variable(g, e->i64, hi);
  EmitLoop l = loop_begin(e, i64_of(e, 0), rounds, i64_of(e, 1));
  LLVMValueRef a = get(g, low), b = get(g, high);
  LLVMBasicBlockRef found = if_begin(e, int_less(e, a, b));
  LLVMValueRef middle = right_by(e, int_add(e, a, b), 1), other = read_entry(s, s->from, middle, 0);
  LLVMValueRef equal = bit_and(e, int_equal(e, other, key), after);
  LLVMValueRef before = bit_or(e, int_cmp(e, LLVMIntULT, other, key), equal);
  LLVMBuildStore(e->b, pick(e, before, int_add(e, middle, i64_of(e, 1)), a), low);
  LLVMBuildStore(e->b, pick(e, before, b, middle), high);
  if_end(e, found);
  loop_end(e, &l);
  return get(g, low);
}

// Emits the merging of pairs of runs of 2^log elements, from the list `from` to the list `to`. The
// place of an entry is its number in its run plus the entries of the other run that come before it.
// Equal entries of the first run come before those of the second.
static void merge_runs(Sort *s, LLVMValueRef log) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef one = i64_of(e, 1);
  EmitLoop l = each_begin(g, s->n);
  LLVMValueRef run = shift_right(e, l.var, log), other = bit_xor(e, run, one);
  LLVMValueRef second = not_zero(e, bit_and(e, run, one));
  LLVMValueRef begin = int_min(e, shift_left(e, other, log), s->n);
  LLVMValueRef end = int_min(e, shift_left(e, int_add(e, other, one), log), s->n);
  LLVMValueRef key = read_entry(s, s->from, l.var, 0), index = read_entry(s, s->from, l.var, 8);
  LLVMValueRef place = search(s, key, second, begin, end, int_add(e, log, one));
  LLVMValueRef own = int_sub(e, l.var, shift_left(e, run, log));
  LLVMValueRef pair = shift_left(e, bit_and(e, run, i64_of(e, -2)), log);
  place = int_add(e, int_add(e, pair, own), int_sub(e, place, begin));
  write_entry(s, s->to, place, key, index);
  loop_end(e, &l);
}

static void swap_lists(Sort *s) {
  LLVMValueRef from = get(s->g, s->from), to = get(s->g, s->to);
  LLVMBuildStore(s->g->e.b, to, s->from);
  LLVMBuildStore(s->g->e.b, from, s->to);
}

static void store_results(Sort *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  EmitLoop l = each_begin(g, s->k);
  LLVMValueRef last = int_sub(e, s->n, i64_of(e, 1));
  LLVMValueRef index = read_entry(s, s->from, int_min(e, l.var, last), 8);
  store_index(s, l.var, pick(e, int_less(e, l.var, s->n), index, i64_of(e, 0)));
  loop_end(e, &l);
}

// Emits the sorting of rows one after the other, each by all threads of the block.
static void sort_long(Sort *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef bytes = int_mul(e, s->n, i64_of(e, ENTRY));
  LLVMValueRef scratch = gpu_constant(g, e->i64, g->record, gpu_ptr_at(2));
  scratch = int_add(e, scratch, int_mul(e, g->chunk, int_mul(e, bytes, i64_of(e, 2))));
  s->from = variable(g, e->i64, scratch);
  s->to = variable(g, e->i64, int_add(e, scratch, bytes));
  EmitLoop rows = loop_begin(e, g->from, g->to, i64_of(e, 1));
  s->row = row_begin(g, rows.var, s->type, TYPE_I32);
  sort_runs(s);
  gpu_barrier(g);
  EmitLoop pass = loop_begin(e, i64_of(e, 0), slot(g, ORDERED_PASSES), i64_of(e, 1));
  merge_runs(s, int_add(e, pass.var, i64_of(e, ORDERED_RUN_LOG2)));
  swap_lists(s);
  gpu_barrier(g);
  loop_end(e, &pass);
  store_results(s);
  gpu_barrier(g);
  loop_end(e, &rows);
}

static void emit_sort(GpuEmit *g, Dtype type) {
  Emit *e = &g->e;
  Sort s = {.g = g, .type = type, .n = slot(g, ORDERED_N), .k = slot(g, ORDERED_K)};
  s.flip = slot(g, ORDERED_FLIP);
  LLVMValueRef is_short = int_less(e, s.n, i64_of(e, ORDERED_RUN + 1));
  LLVMBasicBlockRef is_long = if_begin(e, is_short);
  sort_short(&s);
  if_end(e, is_long);
  LLVMBasicBlockRef done = if_begin(e, bit_not(e, is_short));
  sort_long(&s);
  if_end(e, done);
}

// -- the functions of a program -----------------------------------------------------------------

void gpu_ordered_emit(LLVMModuleRef module, const GpuOrdered *o, const GpuCodeOptions *opt,
                      const EmitTarget *t) {
  Arena *a = arena_new();
  GpuEmit g = {.e = {.arena = a, .target = t, .module = module}, .opt = opt};
  g.e.ctx = LLVMGetModuleContext(module);
  g.e.b = LLVMCreateBuilderInContext(g.e.ctx);
  emit_types(&g.e);
  LLVMBasicBlockRef done = gpu_run_begin(&g, gpu_ordered_name(o->kind, o->type), ORDERED_THREADS,
                                         gpu_record_bytes(ORDERED_POINTERS, ORDERED_SLOTS, 0));
  if (o->kind == ORDERED_ARGSORT || o->kind == ORDERED_TOP_K)
    emit_sort(&g, o->type);
  else
    emit_scan(&g, o->kind, o->type);
  gpu_run_end(&g, done);
  LLVMDisposeBuilder(g.e.b);
  arena_free(a);
}
#endif

uint32_t gpu_ordered_list(Arena *a, const Program *p, GpuOrdered **out) {
  uint32_t n = 0;
  GpuOrdered *list = arena_array(a, GpuOrdered, p->ninstrs + 1);
  for (uint32_t i = 0; i < p->ninstrs; i++) {
    if (p->instr[i].kind != INSTR_ORDERED) continue;
    const Ordered *w = &p->instr[i].u.ordered;
    const char *name = gpu_ordered_name(w->kind, w->type);
    uint32_t k = 0;
    while (k < n && strcmp(gpu_ordered_name(list[k].kind, list[k].type), name) != 0) k++;
    if (k == n) list[n++] = (GpuOrdered){w->kind, w->type};
  }
  *out = list;
  return n;
}
