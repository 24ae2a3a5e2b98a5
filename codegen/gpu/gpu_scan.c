// Running sums, products and maxima on a GPU. In: a kind and an element type. Out: the body of a
// function that a launch of rows runs (ir/program/gpu_ordered.h).
//
//   a thread     combines the elements of its piece of the row
//   the team     joins the values of its pieces, in log2(team) rounds
//   a thread     goes through its piece again, beginning with the value of the pieces before it
//
// Sums and products of floats are accumulated in f64, in another order than on a CPU; those of
// integers wrap. A
// running maximum that is NaN stays.
#include "codegen/gpu/gpu_ordered_internal.h"

#ifdef MESHC_HAVE_LLVM
// The running value of a thread: for a sum or product `value`, for a maximum also its position
// `at`.
typedef struct Scan {
  GpuEmit *g;
  OrderedKind kind;
  Dtype type, acc;              // types of elements and of the running value
  LLVMValueRef value, at;       // variables
  LLVMValueRef first, shared;   // the value of an empty piece; the shared memory
  LLVMValueRef lane, n, lo, hi; // number in the team; elements of the row; the thread's piece
  GpuRow row;
} Scan;

// Whether the running value joins all elements. A maximum is one of them.
static bool joins(OrderedKind kind) { return kind == ORDERED_CUMSUM || kind == ORDERED_CUMPROD; }
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
  bool sum = s->kind == ORDERED_CUMSUM;
  if (joins(s->kind)) {
    LLVMValueRef y = !dtype_is_float(s->acc) ? (sum ? int_add : int_mul)(e, old, x)
                                             : (sum ? add : mul)(e, old, x);
    scan_set(s, y, at);
    return;
  }
  LLVMValueRef keeps = stays(s, old, x);
  scan_set(s, pick(e, keeps, old, x), pick(e, keeps, at, i));
}

static LLVMValueRef scan_load(Scan *s, LLVMValueRef i) {
  return emit_coerce(&s->g->e, gpu_row_load(s->g, &s->row, s->type, i), s->type, s->acc);
}

static void scan_store(Scan *s, LLVMValueRef i, LLVMValueRef value) {
  Emit *e = &s->g->e;
  if (s->kind == ORDERED_CUM_INDEX) {
    LLVMValueRef at = get(s->g, s->at);
    LLVMValueRef back = int_sub(e, int_sub(e, s->n, i64_of(e, 1)), at);
    at = pick(e, not_zero(e, gpu_ordered_slot(s->g, ORDERED_REVERSED)), back, at);
    gpu_row_store(s->g, &s->row, TYPE_I32, i, int_trunc(e, at, e->i32));
    return;
  }
  bool rounds = dtype_is_float(s->type);
  value = rounds ? emit_convert(e, value, s->acc, s->type) : emit_coerce(e, value, s->acc, s->type);
  gpu_row_store(s->g, &s->row, s->type, i, value);
}

// Emits the address of the entry of thread `thread` in shared memory, at byte `at`.
static LLVMValueRef entry(Scan *s, LLVMValueRef thread, int at) {
  Emit *e = &s->g->e;
  LLVMValueRef byte = int_add(e, int_mul(e, thread, i64_of(e, ORDERED_ENTRY)), i64_of(e, at));
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
  EmitLoop l = loop_begin(e, i64_of(e, 0), gpu_ordered_slot(g, ORDERED_TEAM_LOG2), i64_of(e, 1));
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
    LLVMValueRef exclusive = not_zero(e, gpu_ordered_slot(s->g, ORDERED_EXCLUSIVE)),
                 after = running(s);
    scan_store(s, l.var, joins(s->kind) ? pick(e, exclusive, before, after) : after);
  }
  loop_end(e, &l);
}

// Sets the row of the thread and its piece of it. Threads behind the last row have empty pieces.
static void scan_begin(Scan *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef log = gpu_ordered_slot(g, ORDERED_TEAM_LOG2), one = i64_of(e, 1);
  LLVMValueRef last = int_sub(e, shift_left(e, one, log), one); // of the team
  LLVMValueRef row = int_add(e, g->from, shift_right(e, g->thread, log));
  Dtype out = s->kind == ORDERED_CUM_INDEX ? TYPE_I32 : s->type;
  s->lane = bit_and(e, g->thread, last);
  s->row = gpu_row_begin(g, row, s->type, out);
  s->n = pick(e, int_less(e, row, g->to), gpu_ordered_slot(g, ORDERED_N), i64_of(e, 0));
  LLVMValueRef piece = shift_right(e, int_add(e, s->n, last), log);
  s->lo = int_min(e, int_mul(e, s->lane, piece), s->n);
  s->hi = int_min(e, int_add(e, s->lo, piece), s->n);
}

// Sets the value of an empty piece: 0 of a sum, 1 of a product, or the first element of the row for
// a maximum.
static void scan_start(Scan *s) {
  Emit *e = &s->g->e;
  LLVMTypeRef t = reg_type(e, s->acc);
  LLVMValueRef one = dtype_is_float(s->acc) ? LLVMConstReal(t, 1) : LLVMConstInt(t, 1, false);
  s->value = variable(s->g, t, s->kind == ORDERED_CUMPROD ? one : LLVMConstNull(t));
  s->at = variable(s->g, e->i64, i64_of(e, 0));
  if (!joins(s->kind)) {
    LLVMBasicBlockRef empty = if_begin(e, int_less(e, i64_of(e, 0), s->n));
    LLVMBuildStore(e->b, scan_load(s, i64_of(e, 0)), s->value);
    if_end(e, empty);
  }
  s->first = running(s);
}

static Dtype scan_type(OrderedKind kind, Dtype type) {
  if (joins(kind)) return dtype_is_float(type) ? TYPE_F64 : TYPE_I64;
  return type == TYPE_BF16 || type == TYPE_F16 ? TYPE_F32 : type;
}

void gpu_scan_emit(GpuEmit *g, OrderedKind kind, Dtype type) {
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
#endif
