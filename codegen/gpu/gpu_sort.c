// Sorting on a GPU. In: an element type. Out: the body of a function that a launch of rows runs
// (ir/program/gpu_ordered.h). Its results are the indices of elements in the order of their values.
//
//   short rows   a thread counts the elements of the row that come before its own
//   long rows    a block of threads does so in each run of ORDERED_RUN elements, then merges pairs
//                of runs
//
// Elements are compared by unsigned keys of 64 bits. Sorting is stable: NaN is the largest element,
// and both zeros are equal.
#include "codegen/gpu/gpu_ordered_internal.h"

#ifdef MESHC_HAVE_LLVM
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
  GpuRow row;
} Sort;

static LLVMValueRef sort_key(Sort *s, LLVMValueRef i) {
  Emit *e = &s->g->e;
  return bit_xor(e, key_of(e, s->type, gpu_row_load(s->g, &s->row, s->type, i)), s->flip);
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
  gpu_row_store(s->g, &s->row, TYPE_I32, at, int_trunc(&s->g->e, index, s->g->e.i32));
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
  s->row = gpu_row_begin(g, row, s->type, TYPE_I32);
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
  LLVMValueRef byte = int_add(e, int_mul(e, i, i64_of(e, ORDERED_ENTRY)), i64_of(e, at));
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
  LLVMValueRef bytes = int_mul(e, s->n, i64_of(e, ORDERED_ENTRY));
  LLVMValueRef scratch = gpu_constant(g, e->i64, g->record, gpu_ptr_at(2));
  scratch = int_add(e, scratch, int_mul(e, g->chunk, int_mul(e, bytes, i64_of(e, 2))));
  s->from = variable(g, e->i64, scratch);
  s->to = variable(g, e->i64, int_add(e, scratch, bytes));
  EmitLoop rows = loop_begin(e, g->from, g->to, i64_of(e, 1));
  s->row = gpu_row_begin(g, rows.var, s->type, TYPE_I32);
  sort_runs(s);
  gpu_barrier(g);
  EmitLoop pass = loop_begin(e, i64_of(e, 0), gpu_ordered_slot(g, ORDERED_PASSES), i64_of(e, 1));
  merge_runs(s, int_add(e, pass.var, i64_of(e, ORDERED_RUN_LOG2)));
  swap_lists(s);
  gpu_barrier(g);
  loop_end(e, &pass);
  store_results(s);
  gpu_barrier(g);
  loop_end(e, &rows);
}

void gpu_sort_emit(GpuEmit *g, Dtype type) {
  Emit *e = &g->e;
  Sort s = {.g = g,
            .type = type,
            .n = gpu_ordered_slot(g, ORDERED_N),
            .k = gpu_ordered_slot(g, ORDERED_K)};
  s.flip = gpu_ordered_slot(g, ORDERED_FLIP);
  LLVMValueRef is_short = int_less(e, s.n, i64_of(e, ORDERED_RUN + 1));
  LLVMBasicBlockRef is_long = if_begin(e, is_short);
  sort_short(&s);
  if_end(e, is_long);
  LLVMBasicBlockRef done = if_begin(e, bit_not(e, is_short));
  sort_long(&s);
  if_end(e, done);
}
#endif
