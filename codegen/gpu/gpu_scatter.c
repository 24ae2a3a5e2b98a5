// Computes a kernel that only scatters (GpuOwners): each block adds the terms of the rows that it
// owns, in the order of terms.
//
//   for each scatter
//     for each run of as many terms as the block has threads
//       each thread reads the index of one of them; the warps write which terms the block owns,
//       a bit for each term
//       for each owned term: the threads add its columns to the row
//
// All threads of a block see the same bits, so that they run the same terms.
#include "codegen/gpu/gpu_scatter.h"

#ifdef MESHC_HAVE_LLVM
#include "codegen/gpu/gpu_product.h"

// The scatter that is emitted.
typedef struct Scattering {
  GpuEmit *g;
  const GpuOwners *o;
  int scatter, index;        // statements: the scatter, and the index of its row
  bool *needed, *of_index;   // by statement: scatter needs it or is it; index needs it or is it
  LLVMValueRef terms, width; // rounds of the terms and of the columns
  LLVMValueRef owner, group; // numbers of the owner, and of the block among its blocks
  LLVMValueRef shared, run;  // the words of the warps; the first term of the run
  LLVMValueRef warp_lane;    // number of the thread in its warp, an i64
} Scattering;

// -- terms and columns --------------------------------------------------------------------------

static void set_counters(Scattering *s, LoopSet set, LLVMValueRef i) {
  gpu_decode(s->g, i, false, set, s->g->e.extent, s->g->e.counter);
}

// Emits needed statements that are not at the start of the function.
static void emit_needed(Scattering *s, const bool *needed) {
  GpuEmit *g = s->g;
  for (int i = 0; i < g->e.k->nstmts; i++)
    if (needed[i] && g->plan.place[i] != GPU_AT_ENTRY) gpu_statement(g, i);
}

// Emits a condition: whether the unit at the counters is one of the set.
static LLVMValueRef in_set(GpuEmit *g) {
  Emit *e = &g->e;
  LLVMValueRef unit = gpu_unit_number(g);
  return bit_and(e, bit_not(e, int_less(e, unit, g->from)), int_less(e, unit, g->to));
}

static void add_term(Scattering *s, LLVMValueRef term) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  int64_t threads = s->o->threads;
  set_counters(s, s->o->terms, term);
  LLVMValueRef first = int_add(e, int_mul(e, s->group, i64_of(e, threads)), g->thread);
  EmitLoop l = loop_begin(e, first, s->width, i64_of(e, threads * s->o->groups));
  set_counters(s, s->o->columns, l.var);
  LLVMBasicBlockRef other = if_begin(e, in_set(g));
  emit_needed(s, s->needed);
  if_end(e, other);
  loop_end(e, &l);
}

// -- the terms that a block owns ------------------------------------------------------------------

// Emits whether the block owns the row of a term.
static LLVMValueRef owns(Scattering *s, LLVMValueRef term) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  set_counters(s, s->o->terms, term);
  for (int l = 0; l < e->k->nouter + e->k->ninner; l++)
    if (s->o->columns >> l & 1) e->counter[l] = i64_of(e, 0);
  emit_needed(s, s->of_index);
  LLVMValueRef row = operand_at(e, &e->k->stmt[s->scatter], 1, TYPE_I64, 0, 0);
  return int_equal(e, LLVMBuildURem(e->b, row, i64_of(e, s->o->owners), ""), s->owner);
}

// Emits an i32 whose bit i is set if thread i of the warp has found a term that the block owns.
static LLVMValueRef owned_of_warp(Scattering *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef at = emit_alloca(e, e->i32), term = int_add(e, s->run, g->thread);
  LLVMBuildStore(e->b, const_int(e->i32, 0), at);
  LLVMBasicBlockRef behind = if_begin(e, int_less(e, term, s->terms));
  LLVMValueRef own = int_zext(e, owns(s, term), e->i32);
  LLVMBuildStore(e->b, shift_left(e, own, int_trunc(e, s->warp_lane, e->i32)), at);
  if_end(e, behind);
  LLVMValueRef bits = emit_read(e, e->i32, at);
  for (int lane = 1; lane < GPU_WARP; lane *= 2)
    bits = bit_or(e, bits, gpu_shuffle(g, GPU_SHUFFLE_XOR, bits, lane));
  return bits;
}

static LLVMValueRef word_at(Scattering *s, LLVMValueRef warp) {
  return emit_at(&s->g->e, s->g->e.i32, s->shared, warp);
}

static void publish_owned(Scattering *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  LLVMValueRef bits = owned_of_warp(s);
  LLVMBasicBlockRef others = if_begin(e, int_equal(e, s->warp_lane, i64_of(e, 0)));
  gpu_write(g, TYPE_I32, word_at(s, right_by(e, g->thread, 5)), bits, GPU_SHARED);
  if_end(e, others);
}

// Emits the addition of the terms whose bits are set in a word: those from `first` on.
static void add_terms_of(Scattering *s, LLVMValueRef word, LLVMValueRef first) {
  Emit *e = &s->g->e;
  LLVMValueRef left = emit_alloca(e, e->i32);
  LLVMBuildStore(e->b, word, left);
  LLVMBasicBlockRef head = emit_block(e), next = emit_block(e), done = emit_block(e);
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, head);
  LLVMValueRef bits = emit_read(e, e->i32, left);
  LLVMBuildCondBr(e->b, not_zero(e, bits), next, done);
  LLVMPositionBuilderAtEnd(e->b, next);
  LLVMValueRef lowest[] = {bits, LLVMConstNull(LLVMInt1TypeInContext(e->ctx))};
  LLVMValueRef bit = emit_intrinsic(e, "llvm.cttz", 1, &e->i32, 2, lowest);
  LLVMBuildStore(e->b, bit_and(e, bits, int_sub(e, bits, const_int(e->i32, 1))), left);
  add_term(s, int_add(e, first, int_zext(e, bit, e->i64)));
  LLVMBuildBr(e->b, head);
  LLVMPositionBuilderAtEnd(e->b, done);
}

static void add_run(Scattering *s) {
  GpuEmit *g = s->g;
  Emit *e = &g->e;
  publish_owned(s);
  gpu_barrier(g);
  EmitLoop warps = loop_to(e, s->o->threads / GPU_WARP);
  LLVMValueRef word = gpu_read(g, TYPE_I32, word_at(s, warps.var), GPU_SHARED);
  add_terms_of(s, word, int_add(e, s->run, int_mul(e, warps.var, i64_of(e, GPU_WARP))));
  loop_end(e, &warps);
  gpu_barrier(g); // the words have been read
}

// -- all scatters ---------------------------------------------------------------------------------

static void one_scatter(Scattering *s, int scatter) {
  Emit *e = &s->g->e;
  s->scatter = scatter;
  s->index = e->k->stmt[scatter].arg[1];
  gpu_scatter_needs(e->k, scatter, s->needed);
  gpu_scatter_needs(e->k, s->index, s->of_index);
  EmitLoop l = loop_begin(e, i64_of(e, 0), s->terms, i64_of(e, s->o->threads));
  s->run = l.var;
  add_run(s);
  loop_end(e, &l);
}

void gpu_scatter_rows(GpuEmit *g) {
  Emit *e = &g->e;
  const GpuOwners *o = &g->plan.owners;
  Scattering s = {.g = g,
                  .o = o,
                  .needed = arena_array(e->arena, bool, e->k->nstmts + 1),
                  .of_index = arena_array(e->arena, bool, e->k->nstmts + 1),
                  .terms = gpu_rounds(g, o->terms, e->extent),
                  .width = gpu_rounds(g, o->columns, e->extent),
                  .shared = gpu_shared(g)};
  (void)gpu_blocks_of_set(g); // for in_set
  s.group = LLVMBuildURem(e->b, g->chunk, i64_of(e, o->groups), "");
  s.owner = LLVMBuildUDiv(e->b, g->chunk, i64_of(e, o->groups), "");
  s.warp_lane = keep_bits(e, g->thread, GPU_WARP - 1);
  gpu_entry_statements(g);
  for (int i = 0; i < e->k->nstmts; i++)
    if (e->k->stmt[i].kind == K_SCATTER) one_scatter(&s, i);
}
#endif
