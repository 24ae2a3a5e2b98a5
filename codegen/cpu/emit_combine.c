// SYMBOL_combine: joins the partial rows of all chunks, in order, and stores the results. A K_ACCUM
// is a reduction over all units of a kernel. The partial row of a chunk is memory with what the
// chunk has accumulated for each element of all K_ACCUMs.
//
//   for each K_ACCUM, for each element: result = op(op(identity, chunk 0), chunk 1) ...
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM

static Dtype combine_type(const KStmt *s) { return stmt_folds(s) ? TYPE_F64 : s->type; }

// Emits a loop over the chunks (parts of the kernel's work) that joins their results for one
// element of reduction s. `index` is the number of the element; with `vector`, the vector of
// elements from `index` on is joined. Returns the joined value.
static LLVMValueRef join_chunks(Emit *e, int s, LLVMValueRef index, LLVMValueRef chunks,
                                bool vector) {
  const KStmt *st = &e->k->stmt[s];
  Dtype type = combine_type(st);
  LLVMTypeRef t = reg_shape(e, type, vector);
  LLVMValueRef cell = emit_alloca(e, t), row = partial_at(e, s, NULL);
  LLVMBuildStore(e->b, emit_identity(e, st->op, type, vector), cell);
  EmitLoop l = loop_begin(e, i64_of(e, 0), chunks, i64_of(e, 1));
  LLVMValueRef skip = int_mul(e, l.var, i64_of(e, accum_offset(e->k, e->k->nstmts)));
  LLVMValueRef first = emit_at(e, e->i8, row, skip);
  LLVMValueRef at = emit_at(e, mem_type(e, st->type), first, index);
  LLVMValueRef x = emit_coerce(e, load_raw(e, st->type, at, vector), st->type, type);
  if (kernel_accum_wide(e->k, s))
    x = emit_join(e, st->op, type, x, load_raw(e, type, wide_at(e, s, first, index), vector));
  LLVMBuildStore(e->b, emit_join(e, st->op, type, emit_read(e, t, cell), x), cell);
  loop_end(e, &l);
  return emit_coerce(e, emit_read(e, t, cell), type, st->type);
}

// Emits the joining of all chunks' results for element `index` of reduction s, and a store at
// address `at`. If l is a loop and not -1, does this for a vector of elements along loop l.
static void combine_at(Emit *e, int s, int l, LLVMValueRef index, LLVMValueRef at,
                       LLVMValueRef chunks) {
  const KStmt *st = &e->k->stmt[s];
  const KPtr *p = &e->k->ptr[st->index];
  LLVMValueRef x = emit_coerce(e, join_chunks(e, s, index, chunks, l >= 0), st->type, p->type);
  if (l >= 0 && p->stride[l] != 1)
    scatter_raw(e, p->type, at, p->stride[l], x);
  else
    store_raw(e, p->type, at, x);
}

// Returns whether the elements of reduction s depend on no loop after loop l. Then neighbours along
// l are neighbours in the partial row, the memory with the results of a chunk.
static bool is_last(const Emit *e, int s, int l) {
  for (l++; l < e->k->nouter + e->k->ninner; l++)
    if (accum_stride(e->k, s, l) != 0) return false;
  return true;
}

// Emits loops over the result elements of reduction s, along loop l and all loops after l. `index`
// is the number of the first element in the partial row, the memory with a chunk's results. `at` is
// the address at which the first result is stored.
static void combine_loops(Emit *e, int s, int l, LLVMValueRef index, LLVMValueRef at,
                          LLVMValueRef chunks) {
  const KPtr *p = &e->k->ptr[e->k->stmt[s].index];
  int end = e->k->nouter + e->k->ninner;
  while (l < end && accum_stride(e->k, s, l) == 0) l++;
  if (l == end) {
    combine_at(e, s, -1, index, at, chunks);
    return;
  }
  bool vector = e->k->vector >= 0 && is_last(e, s, l);
  EmitLoop loop = loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, vector ? e->plan.lanes : 1));
  LLVMValueRef i = int_mul(e, loop.var, i64_of(e, accum_stride(e->k, s, l)));
  index = int_add(e, index, i);
  LLVMValueRef off = int_mul(e, loop.var, i64_of(e, p->stride[l]));
  at = emit_at(e, mem_type(e, p->type), at, off);
  if (vector) {
    emit_mask(e, int_sub(e, e->extent[l], loop.var));
    combine_at(e, s, l, index, at, chunks);
    emit_mask_off(e);
  } else {
    combine_loops(e, s, l + 1, index, at, chunks);
  }
  loop_end(e, &loop);
}

void emit_combine(Emit *e) {
  LLVMValueRef chunks = LLVMGetParam(e->fn, 1);
  for (int s = 0; s < e->k->nstmts; s++)
    if (e->k->stmt[s].kind == K_ACCUM)
      combine_loops(e, s, e->k->nouter, i64_of(e, 0), e->base[e->k->stmt[s].index], chunks);
}
#endif
