// The functions that every program for a GPU has beside its kernels: the judge of a step, and
// copies (ir/program/gpu_step.h).
#include "codegen/gpu/gpu_internal.h"
#include "ir/program/gpu_step.h"

#ifdef MESHC_HAVE_LLVM
#include <stddef.h>

static GpuEmit begin(Arena *a, LLVMModuleRef module, const GpuCodeOptions *opt,
                     const EmitTarget *t) {
  GpuEmit g = {.e = {.arena = a, .target = t, .module = module}, .opt = opt};
  g.e.ctx = LLVMGetModuleContext(module);
  g.e.b = LLVMCreateBuilderInContext(g.e.ctx);
  emit_types(&g.e);
  return g;
}

static LLVMValueRef at_byte(GpuEmit *g, LLVMValueRef base, LLVMValueRef byte) {
  return emit_at(&g->e, g->e.i8, base, byte);
}

// Emits a loop in which each thread of the block has every threads-th of the rounds from..to-1.
static EmitLoop each_begin(GpuEmit *g, LLVMValueRef from, LLVMValueRef to) {
  Emit *e = &g->e;
  return loop_begin(e, int_add(e, from, g->thread), to, i64_of(e, g->threads));
}

// -- the judge ----------------------------------------------------------------------------------

typedef struct Judge {
  GpuEmit *g;
  LLVMValueRef record, header, slot; // addresses: a GpuJudging, the GpuHeaders, a GpuResult
  GpuCell worst;                     // the largest GpuVerdict that the thread has found
} Judge;

static LLVMValueRef of_record(Judge *j, size_t at) {
  return gpu_constant(j->g, j->g->e.i64, j->record, (int64_t)at);
}

// Emits the address of field `at` of header number i.
static LLVMValueRef field(Judge *j, int i, size_t at) {
  return at_byte(j->g, j->header, i64_of(&j->g->e, i * (int64_t)sizeof(GpuHeader) + (int64_t)at));
}

// Emits the address of the slot of this step. The numbers of slots are few, so they are compared.
static LLVMValueRef slot_of_step(Judge *j) {
  Emit *e = &j->g->e;
  LLVMValueRef step =
      gpu_read(j->g, TYPE_I64, field(j, 0, offsetof(GpuHeader, sequence)), GPU_GLOBAL);
  LLVMValueRef turn = LLVMBuildURem(e->b, step, i64_of(e, GPU_SLOTS), ""), at = NULL;
  for (int i = 0; i < GPU_SLOTS; i++) {
    LLVMValueRef one = of_record(j, offsetof(GpuJudging, slot) + 8 * (size_t)i);
    at = at ? pick(e, int_equal(e, turn, i64_of(e, i)), one, at) : one;
  }
  return gpu_address(j->g, at);
}

// Emits that the thread's worst verdict becomes `verdict` if `bad`, an i1, is true and it is worse.
static void found(Judge *j, LLVMValueRef bad, GpuVerdict verdict) {
  Emit *e = &j->g->e;
  LLVMValueRef x = pick(e, bad, int_like(LLVMConstNull(e->i32), verdict), LLVMConstNull(e->i32));
  gpu_cell_add(j->g, &j->worst, x, TYPE_I32);
}

static void look_at_statuses(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  LLVMValueRef all = gpu_address(g, of_record(j, offsetof(GpuJudging, statuses)));
  EmitLoop l = each_begin(g, i64_of(e, 0), of_record(j, offsetof(GpuJudging, nstatuses)));
  LLVMValueRef byte = int_add(e, int_mul(e, l.var, i64_of(e, sizeof(GpuStatus))),
                              i64_of(e, offsetof(GpuStatus, first.code)));
  found(j, not_zero(e, gpu_read(g, TYPE_I32, at_byte(g, all, byte), GPU_GLOBAL)), GPU_STEP_FAULTY);
  loop_end(e, &l);
}

// Emits a load of `bytes` bytes, which are a power of 2 up to 8, as an i64.
static LLVMValueRef load_bits(GpuEmit *g, LLVMValueRef at, LLVMValueRef bytes) {
  Emit *e = &g->e;
  LLVMValueRef bits = emit_alloca(e, e->i64);
  LLVMBuildStore(e->b, i64_of(e, 0), bits);
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, bytes, i64_of(e, 8)));
  LLVMBuildStore(e->b, gpu_read(g, TYPE_I64, at, GPU_GLOBAL), bits);
  if_end(e, done);
  done = if_begin(e, int_equal(e, bytes, i64_of(e, 4)));
  LLVMBuildStore(e->b, int_zext(e, gpu_read(g, TYPE_I32, at, GPU_GLOBAL), e->i64), bits);
  if_end(e, done);
  done = if_begin(e, int_less(e, bytes, i64_of(e, 4)));
  EmitLoop l = loop_begin(e, i64_of(e, 0), bytes, i64_of(e, 1));
  LLVMValueRef x = gpu_read(g, TYPE_U8, at_byte(g, at, l.var), GPU_GLOBAL);
  x = keep_bits(e, int_zext(e, x, e->i64), 255);
  x = shift_left(e, x, int_mul(e, l.var, i64_of(e, 8)));
  LLVMBuildStore(e->b, bit_or(e, emit_read(e, e->i64, bits), x), bits);
  loop_end(e, &l);
  if_end(e, done);
  return emit_read(e, e->i64, bits);
}

// Emits copies of all values to the slot, and looks which are not finite.
static void copy_values(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  EmitLoop l = each_begin(g, i64_of(e, 0), of_record(j, offsetof(GpuJudging, nvalues)));
  LLVMValueRef value = at_byte(
      g, j->record,
      int_add(e, int_mul(e, l.var, i64_of(e, sizeof(GpuValue))), i64_of(e, sizeof(GpuJudging))));
  LLVMValueRef at = gpu_constant(g, e->i64, value, offsetof(GpuValue, at)),
               bytes = gpu_constant(g, e->i64, value, offsetof(GpuValue, bytes)),
               exponent = gpu_constant(g, e->i64, value, offsetof(GpuValue, exponent));
  LLVMValueRef bits = load_bits(g, gpu_address(g, at), bytes);
  LLVMValueRef full = int_equal(e, bit_and(e, bits, exponent), exponent);
  found(j, bit_and(e, full, not_zero(e, exponent)), GPU_STEP_NOT_FINITE);
  LLVMValueRef byte = int_add(e, left_by(e, l.var, 3), i64_of(e, sizeof(GpuResult)));
  gpu_write(g, TYPE_I64, at_byte(g, j->slot, byte), bits, GPU_GLOBAL);
  loop_end(e, &l);
}

static LLVMValueRef read_field(Judge *j, Dtype t, size_t at) {
  return gpu_read(j->g, t, field(j, 0, at), GPU_GLOBAL);
}
static void write_field(Judge *j, int header, Dtype t, size_t at, LLVMValueRef x) {
  gpu_write(j->g, t, field(j, header, at), x, GPU_GLOBAL);
}

// Emits whether the launch has a bit of `flags`.
static LLVMValueRef has_flag(Judge *j, int flag) {
  Emit *e = &j->g->e;
  return not_zero(e, keep_bits(e, LLVMGetParam(e->fn, 3), flag));
}

// Emits the address of field `at` of the GpuVote, which lies behind the headers.
static LLVMValueRef vote(Judge *j, size_t at) { return field(j, 2, at); }

static LLVMValueRef of_slot(Judge *j, size_t at) {
  return at_byte(j->g, j->slot, i64_of(&j->g->e, (int64_t)at));
}

// Emits that the vote says whether the process was asked to stop, if other devices are to know it.
// To read memory of the host takes a microsecond, so one device alone leaves it out.
static void take_asked(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  LLVMBasicBlockRef done = if_begin(e, bit_not(e, has_flag(j, GPU_DECIDES)));
  LLVMValueRef asked = gpu_read(g, TYPE_I64, of_slot(j, offsetof(GpuResult, asked)), GPU_GLOBAL);
  gpu_write(g, TYPE_I64, vote(j, offsetof(GpuVote, asked)), asked, GPU_GLOBAL);
  if_end(e, done);
}

// Emits that all threads look at the step, and one writes the vote.
static void look(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  gpu_cell_clear(g, &j->worst);
  found(j, LLVMConstNull(e->i1), GPU_STEP_GOOD); // what it stays if there is nothing to look at
  look_at_statuses(j);
  copy_values(j);
  LLVMValueRef worst;
  gpu_cells_join(g, 1, &j->worst, true, &worst);
  LLVMBasicBlockRef done = if_begin(e, int_equal(e, g->thread, i64_of(e, 0)));
  gpu_write(g, TYPE_I64, vote(j, offsetof(GpuVote, verdict)), int_zext(e, worst, e->i64),
            GPU_GLOBAL);
  gpu_write(g, TYPE_I64, vote(j, offsetof(GpuVote, asked)), i64_of(e, 0), GPU_GLOBAL);
  take_asked(j);
  if_end(e, done);
}

// Emits the decision, for one thread: it writes verdict and step to the slot, the header of the
// launches after the commit (number 1), and that of the next step (number 0).
static void decide(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  LLVMValueRef worst = gpu_read(g, TYPE_I64, vote(j, offsetof(GpuVote, verdict)), GPU_GLOBAL),
               asked = gpu_read(g, TYPE_I64, vote(j, offsetof(GpuVote, asked)), GPU_GLOBAL);
  LLVMValueRef go = read_field(j, TYPE_I32, offsetof(GpuHeader, go));
  LLVMValueRef verdict = pick(e, not_zero(e, go), worst, i64_of(e, GPU_STEP_HALTED));
  LLVMValueRef good = int_equal(e, verdict, i64_of(e, 0));
  LLVMValueRef step = read_field(j, TYPE_I64, offsetof(GpuHeader, step)),
               sequence = read_field(j, TYPE_I64, offsetof(GpuHeader, sequence));
  gpu_write(g, TYPE_I64, of_slot(j, offsetof(GpuResult, verdict)), verdict, GPU_GLOBAL);
  gpu_write(g, TYPE_I64, of_slot(j, offsetof(GpuResult, sequence)), sequence, GPU_GLOBAL);
  gpu_write(g, TYPE_I64, of_slot(j, offsetof(GpuResult, asked)), asked, GPU_GLOBAL);
  static const size_t same[] = {offsetof(GpuHeader, seed), offsetof(GpuHeader, repeat)};
  for (size_t i = 0; i < countof(same); i++)
    write_field(j, 1, TYPE_I64, same[i], read_field(j, TYPE_I64, same[i]));
  write_field(j, 1, TYPE_I64, offsetof(GpuHeader, step), step);
  write_field(j, 1, TYPE_I64, offsetof(GpuHeader, sequence), sequence);
  LLVMValueRef commits = has_flag(j, GPU_COMMITS);
  LLVMValueRef advance = int_zext(e, bit_and(e, good, commits), e->i64);
  write_field(j, 0, TYPE_I64, offsetof(GpuHeader, step), int_add(e, step, advance));
  write_field(j, 0, TYPE_I64, offsetof(GpuHeader, sequence), int_add(e, sequence, i64_of(e, 1)));
  for (int i = 0; i < 2; i++)
    write_field(j, i, TYPE_I32, offsetof(GpuHeader, go), int_zext(e, good, e->i32));
}

// Emits a sign of progress, for one thread: sequence of the step and number of the sign.
static void give_sign(Judge *j) {
  GpuEmit *g = j->g;
  Emit *e = &g->e;
  LLVMValueRef flags = LLVMGetParam(e->fn, 3),
               number = int_zext(e, right_by(e, flags, GPU_PHASE_BIT), e->i64),
               step = read_field(j, TYPE_I64, offsetof(GpuHeader, sequence)),
               to = gpu_address(g, of_record(j, offsetof(GpuJudging, sign)));
  gpu_write(g, TYPE_I64, to, bit_or(e, left_by(e, step, GPU_SIGN_BITS), number), GPU_GLOBAL);
}

static void emit_judge(GpuEmit *g) {
  Emit *e = &g->e;
  GpuEntry entry = gpu_judge_entry();
  gpu_function_begin(g, entry.run, entry.threads);
  Judge j = {.g = g, .record = LLVMGetParam(e->fn, 0), .header = LLVMGetParam(e->fn, 1)};
  j.slot = slot_of_step(&j);
  j.worst = gpu_cell_make(g, OP_MAX, TYPE_I32);
  LLVMBasicBlockRef done = if_begin(e, has_flag(&j, GPU_LOOKS));
  look(&j);
  if_end(e, done);
  gpu_barrier(g); // all threads have read the header
  LLVMValueRef one = int_equal(e, g->thread, i64_of(e, 0));
  done = if_begin(e, bit_and(e, one, has_flag(&j, GPU_DECIDES)));
  decide(&j);
  if_end(e, done);
  done = if_begin(e, bit_and(e, one, has_flag(&j, GPU_SIGNS)));
  give_sign(&j);
  if_end(e, done);
  gpu_function_end(g);
}

// -- copies -------------------------------------------------------------------------------------

static LLVMValueRef pointer(GpuEmit *g, int i) {
  return gpu_constant(g, g->e.i64, g->record, gpu_ptr_at(i));
}

// Emits how many bytes behind MOVE_FROM the source of this step is.
static LLVMValueRef turn_bytes(GpuEmit *g, LLVMValueRef stride) {
  Emit *e = &g->e;
  LLVMValueRef step =
      gpu_constant(g, e->i64, LLVMGetParam(e->fn, 1), offsetof(GpuHeader, sequence));
  return int_mul(e, LLVMBuildURem(e->b, step, i64_of(e, GPU_SLOTS), ""), stride);
}

enum { WIDE = 2 }; // elements of 8 bytes in a unit of 16

// Emits the units of the block. wide: of 16 bytes, else of one; fills: they become 0.
static void move_units(GpuEmit *g, LLVMValueRef to, LLVMValueRef from, bool wide, bool fills) {
  Emit *e = &g->e;
  EmitLoop l = each_begin(g, g->from, g->to);
  LLVMValueRef byte = wide ? left_by(e, l.var, 4) : l.var;
  LLVMValueRef target = gpu_address(g, int_add(e, to, byte)),
               source = gpu_address(g, int_add(e, from, byte));
  LLVMValueRef x[WIDE] = {i64_of(e, 0), i64_of(e, 0)};
  if (wide) {
    if (!fills) gpu_read_wide(g, TYPE_I64, source, GPU_GLOBAL, WIDE, x);
    gpu_write_wide(g, TYPE_I64, target, GPU_GLOBAL, WIDE, x);
  } else {
    LLVMValueRef one =
        fills ? emit_coerce(e, x[0], TYPE_I64, TYPE_U8) : gpu_read(g, TYPE_U8, source, GPU_GLOBAL);
    gpu_write(g, TYPE_U8, target, one, GPU_GLOBAL);
  }
  loop_end(e, &l);
}

// Emits `move`. Of the four loops exactly one runs.
static void emit_move(GpuEmit *g) {
  Emit *e = &g->e;
  GpuEntry entry = gpu_move_entry();
  LLVMBasicBlockRef done =
      gpu_run_begin(g, entry.run, entry.threads, gpu_record_bytes(MOVE_POINTERS, MOVE_SLOTS, 0));
  LLVMValueRef slot[MOVE_SLOTS];
  for (int i = 0; i < MOVE_SLOTS; i++)
    slot[i] = gpu_constant(g, e->i64, g->record, gpu_slot_at(MOVE_POINTERS, i));
  LLVMValueRef to = pointer(g, MOVE_TO), from = pointer(g, MOVE_FROM);
  LLVMValueRef copies = not_zero(e, from), wide = not_zero(e, slot[MOVE_WIDE]);
  from = int_add(e, from, turn_bytes(g, slot[MOVE_STRIDE]));
  for (int way = 0; way < 4; way++) {
    bool is_wide = way & 1, fills = way & 2;
    LLVMValueRef runs =
        bit_and(e, is_wide ? wide : bit_not(e, wide), fills ? bit_not(e, copies) : copies);
    LLVMBasicBlockRef end = if_begin(e, runs);
    move_units(g, to, from, is_wide, fills);
    if_end(e, end);
  }
  gpu_run_end(g, done);
}

void gpu_judge_emit(LLVMModuleRef module, const GpuCodeOptions *opt, const EmitTarget *t) {
  Arena *a = arena_new();
  GpuEmit g = begin(a, module, opt, t);
  emit_judge(&g);
  emit_move(&g);
  LLVMDisposeBuilder(g.e.b);
  arena_free(a);
}
#endif
