// Accumulators of K_REDUCE and K_ACCUM statements: their identities, types and addresses. A
// K_REDUCE is a reduction over the inner loops. A K_ACCUM is one over all units of a chunk; a unit
// is one round of the outer loops, a chunk a sequence of units.
//
// A cell is the accumulator of one instance, a statement for one row and one vector of a tile:
// stack memory, which LLVM's mem2reg turns into a register. In an inner vector loop the cell of a
// K_REDUCE is a vector of partial results; its lanes are joined at the end of the phase. In an
// outer vector loop each lane is a result of its own.
//
// A K_ACCUM with one result has cells for the whole chunk. A K_ACCUM with many results adds to
// their elements in the chunk's partial row, memory that SYMBOL_combine reads.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
LLVMValueRef emit_identity(Emit *e, Op op, Dtype t, bool vector) {
  LLVMTypeRef type = reg_shape(e, t, vector);
  Monoid m = op_row(op)->monoid;
  return dtype_is_float(t) ? const_real(type, monoid_identity(m, t))
                           : const_int(type, monoid_identity_int(m, t));
}

// Emits the reduction of vector v to a scalar by op. It joins the lower and the upper half of the
// lanes until one lane is left.
LLVMValueRef emit_horizontal(Emit *e, Op op, Dtype t, LLVMValueRef v) {
  for (unsigned n = LLVMGetVectorSize(LLVMTypeOf(v)) / 2; n >= 1; n /= 2) {
    LLVMValueRef low[32], high[32], none = LLVMGetPoison(LLVMTypeOf(v));
    for (unsigned i = 0; i < n; i++) {
      low[i] = LLVMConstInt(e->i32, i, false);
      high[i] = LLVMConstInt(e->i32, n + i, false);
    }
    LLVMValueRef a = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(low, n), "");
    LLVMValueRef b = LLVMBuildShuffleVector(e->b, v, none, LLVMConstVector(high, n), "");
    v = emit_join(e, op, t, a, b);
  }
  return lane_of(e, v, i64_of(e, 0));
}

bool vector_is_inner(const Emit *e) { return e->k->vector >= 0 && !e->plan.vec_outer; }

bool accum_in_registers(const Emit *e, int s) { return accum_elements(e->k, s) == 1; }

static bool runs_in_vector_loop(const Emit *e, const KStmt *s) {
  if (e->k->vector < 0) return false;
  return e->plan.vec_outer || s->level == LEVEL_INNER || s->kind == K_REDUCE;
}

// Returns whether the cells (accumulators in stack memory) of reduction s are vectors. A cell is a
// scalar if the vector loop is an outer loop and the reduced value is equal in all lanes.
bool cell_is_vector(const Emit *e, int s) {
  const KStmt *st = &e->k->stmt[s];
  if (!runs_in_vector_loop(e, st)) return false;
  return st->kind == K_ACCUM || vector_is_inner(e) || depends(e, s, e->k->vector);
}

LLVMTypeRef cell_type(Emit *e, int s, Dtype t) { return reg_shape(e, t, cell_is_vector(e, s)); }

int cell_vecs(const Emit *e, int s) { return cell_is_vector(e, s) ? e->plan.vecs : 1; }

int body_rows(const Emit *e, int s) {
  return e->k->stmt[s].kind == K_REDUCE && depends(e, s, e->k->rows) ? e->rows : 1;
}

int body_vecs(const Emit *e, int s) {
  bool main = e->k->stmt[s].kind == K_ACCUM || vector_is_inner(e);
  return main ? cell_vecs(e, s) : cell_is_vector(e, s) ? e->vecs : 1;
}

void each_cell(Emit *e, int s, int rows, int vecs, CellVisitor *visit) {
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) visit(e, s, instance_id(s, r, v));
}

LLVMValueRef partial_at(Emit *e, int s, LLVMValueRef index) {
  LLVMValueRef at = emit_at(e, e->i8, e->partial, i64_of(e, accum_offset(e->k, s)));
  return index ? emit_at(e, mem_type(e, e->k->stmt[s].type), at, index) : at;
}

LLVMValueRef wide_at(Emit *e, int s, LLVMValueRef row, LLVMValueRef index) {
  row = emit_at(e, e->i8, row, i64_of(e, accum_row_bytes(e->k, s)));
  return emit_at(e, e->f64, row, index);
}
#endif
