// Loads, stores and scatters of one element, and loads and stores of neighbours. A guard is a bool
// argument of a load: where it is false, nothing is read.
#include "codegen/gpu/gpu_internal.h"
#include "ir/program/sums.h"

#ifdef MESHC_HAVE_LLVM

// Emits the address of a pointer at the counters of the first `loops` loops, for neighbour v along
// the vector loop, `index` elements further. NULL: 0.
static LLVMValueRef address_in(GpuEmit *g, int pointer, int v, LLVMValueRef index, int loops) {
  Emit *e = &g->e;
  const KPtr *p = &e->k->ptr[pointer];
  LLVMValueRef at = index;
  for (int l = 0; l < loops; l++) {
    if (p->stride[l] == 0) continue;
    LLVMValueRef off = int_mul(e, counter_at(e, l, 0, v), i64_of(e, p->stride[l]));
    at = at ? int_add(e, at, off) : off;
  }
  return at ? emit_at(e, mem_type(e, p->type), e->base[pointer], at) : e->base[pointer];
}

static LLVMValueRef address(GpuEmit *g, int pointer, int v, LLVMValueRef index) {
  return address_in(g, pointer, v, index, g->e.k->nouter + g->e.k->ninner);
}

LLVMValueRef gpu_element(GpuEmit *g, int pointer) { return address(g, pointer, 0, NULL); }

static LLVMValueRef load_if(GpuEmit *g, Dtype t, LLVMValueRef at, LLVMValueRef guard) {
  Emit *e = &g->e;
  LLVMTypeRef type = reg_type(e, t);
  LLVMValueRef cell = emit_alloca(e, type);
  LLVMBuildStore(e->b, LLVMConstNull(type), cell);
  LLVMBasicBlockRef done = if_begin(e, guard);
  LLVMBuildStore(e->b, gpu_read(g, t, at, GPU_GLOBAL), cell);
  if_end(e, done);
  return emit_read(e, type, cell);
}

LLVMValueRef gpu_load(GpuEmit *g, const KStmt *s, int v) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef index = s->kind == K_LOAD ? NULL : scaled_operand(e, s, 0, 0, v);
  LLVMValueRef at = address(g, s->index, v, index);
  LLVMValueRef x = s->arg[1] == NO_STMT ? gpu_read(g, t, at, GPU_GLOBAL)
                                        : load_if(g, t, at, value_at(e, s->arg[1], 0, v));
  return emit_coerce(e, x, t, s->type);
}

// Emits whether a unit stores through a pointer: in the first round of the outer loops along which
// the pointer does not move (K_STORE). Returns NULL if there are no such loops.
static LLVMValueRef stores_here(GpuEmit *g, int pointer) {
  Emit *e = &g->e;
  LLVMValueRef here = NULL;
  for (int l = 0; l < e->k->nouter; l++) {
    if (e->k->ptr[pointer].stride[l] || e->k->loop[l].size == 1) continue;
    LLVMValueRef first = int_equal(e, e->counter[l], i64_of(e, 0));
    here = here ? bit_and(e, here, first) : first;
  }
  return here;
}

void gpu_store(GpuEmit *g, const KStmt *s, int v) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef here = stores_here(g, s->index);
  LLVMBasicBlockRef done = here ? if_begin(e, here) : NULL;
  gpu_write(g, t, address(g, s->index, v, NULL), operand_at(e, s, 0, t, 0, v), GPU_GLOBAL);
  if (done) if_end(e, done);
}

void gpu_load_wide(GpuEmit *g, int id) {
  Emit *e = &g->e;
  const KStmt *s = &e->k->stmt[id];
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef x[GPU_VECS];
  gpu_read_wide(g, t, address(g, s->index, 0, NULL), GPU_GLOBAL, e->vecs, x);
  for (int v = 0; v < e->vecs; v++)
    e->value[instance_id(id, 0, v)] = emit_coerce(e, x[v], t, s->type);
}

void gpu_store_wide(GpuEmit *g, const KStmt *s) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef x[GPU_VECS];
  for (int v = 0; v < e->vecs; v++) x[v] = operand_at(e, s, 0, t, 0, v);
  gpu_write_wide(g, t, address(g, s->index, 0, NULL), GPU_GLOBAL, e->vecs, x);
}

// -- sums of K_DOT ------------------------------------------------------------------------------

static bool moves(const GpuEmit *g, const KStmt *s, int l) {
  return g->e.k->ptr[s->index].stride[l] || g->e.k->ptr[s->other].stride[l];
}

static LLVMValueRef factor(GpuEmit *g, int pointer, Dtype type, int v) {
  Dtype t = g->e.k->ptr[pointer].type;
  int loops = g->e.k->nouter + g->e.k->ninner + g->e.k->ndots;
  LLVMValueRef x = gpu_read(g, t, address_in(g, pointer, v, NULL, loops), GPU_GLOBAL);
  return emit_coerce(&g->e, x, t, type);
}

// Emits dot loop l and those behind it, which add to *sum.
static void dot_loops(GpuEmit *g, const KStmt *s, int l, int v, const GpuCell *sum) {
  Emit *e = &g->e;
  const Kernel *k = e->k;
  while (l < k->nouter + k->ninner + k->ndots && !moves(g, s, l)) e->counter[l++] = i64_of(e, 0);
  if (l == k->nouter + k->ninner + k->ndots) {
    LLVMValueRef a = factor(g, s->index, sum->type, v), b = factor(g, s->other, sum->type, v);
    gpu_cell_add(g, sum, LLVMBuildFMul(e->b, a, b, ""), sum->type);
    return;
  }
  EmitLoop loop = loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, 1));
  e->counter[l] = loop.var;
  dot_loops(g, s, l + 1, v, sum);
  loop_end(e, &loop);
}

LLVMValueRef gpu_dot_element(GpuEmit *g, int pointer) {
  return address_in(g, pointer, 0, NULL, g->e.k->nouter + g->e.k->ninner + g->e.k->ndots);
}

LLVMValueRef gpu_dot(GpuEmit *g, const KStmt *s, int v) {
  const Kernel *k = g->e.k;
  int64_t rounds = 1;
  for (int l = k->nouter + k->ninner; l < k->nouter + k->ninner + k->ndots; l++)
    if (moves(g, s, l)) rounds = size_times(rounds, loop_rounds(k, l));
  Dtype type = rounds > SUM_LEAF ? TYPE_F64 : s->type;
  GpuCell sum = gpu_cell_make(g, OP_SUM, type);
  gpu_cell_clear(g, &sum);
  dot_loops(g, s, k->nouter + k->ninner, v, &sum);
  return emit_coerce(&g->e, emit_read(&g->e, reg_type(&g->e, type), sum.at), type, s->type);
}

LLVMValueRef gpu_aligned(GpuEmit *g, int phase) {
  Emit *e = &g->e;
  LLVMValueRef bits = i64_of(e, 0);
  int loops = phase < 0 ? e->k->nouter : e->k->nouter + e->k->ninner;
  for (int i = 0; i < e->k->nstmts; i++) {
    const KStmt *s = &e->k->stmt[i];
    if ((phase >= 0 && s->phase != phase) || !gpu_is_wide(e->k, s)) continue;
    int bytes = gpu_wide_bytes(e->k->ptr[s->index].type, GPU_VECS);
    LLVMValueRef at = LLVMBuildPtrToInt(e->b, address_in(g, s->index, 0, NULL, loops), e->i64, "");
    bits = bit_or(e, bits, keep_bits(e, at, bytes - 1));
  }
  return int_equal(e, bits, i64_of(e, 0));
}

void gpu_scatter(GpuEmit *g, const KStmt *s) {
  Emit *e = &g->e;
  Dtype t = e->k->ptr[s->index].type;
  LLVMValueRef x = operand_at(e, s, 0, t, 0, 0);
  LLVMValueRef at = address(g, s->index, 0, scaled_operand(e, s, 1, 0, 0));
  gpu_write(g, t, at, emit_join(e, s->op, t, gpu_read(g, t, at, GPU_GLOBAL), x), GPU_GLOBAL);
}
#endif
