// Products: kernels whose sum is computed in blocks, from packed factors. In: units lo..hi-1 of a
// chunk. Out: LLVM IR in the current function.
//
// A run is a block of rows in one block of columns, the vector loop. A slab is a part of the summed
// loops, whose length is called depth. The algorithm is that of Goto and van de Geijn, "Anatomy of
// high-performance matrix multiplication" (2008), with the tile of the left factor in the first
// level of cache and the panels of the right factor in the second:
//
//   for runs
//     for slabs
//       pack the right factor: the slab, all columns of the block
//       for tiles of rows
//         pack the left factor: the slab, the rows of the tile
//         for panels of columns: sums of the tile in registers, then added to the scratch
//     for units of the run: phases after the first, from the scratch
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
enum { DEPTH_UNROLLED = 4 };

// The run whose code is emitted.
typedef struct Product {
  Emit *e;
  const Units *u;
  LLVMValueRef lo, rows;    // number of its first unit, and of its units
  LLVMValueRef from, to;    // its columns
  LLVMValueRef left, right; // the packed factors
  LLVMValueRef depth;       // summed elements of the slab
  LLVMValueRef acc[TILE];   // cells of the sums of a tile
} Product;

static Dtype product_type(const Emit *e) { return e->k->stmt[e->plan.product.form.sum].type; }

static LLVMValueRef element_at(Emit *e, LLVMValueRef base, LLVMValueRef index) {
  return emit_at(e, reg_type(e, product_type(e)), base, index);
}

static LLVMValueRef read_aligned(Emit *e, LLVMTypeRef t, LLVMValueRef at) {
  LLVMValueRef x = emit_read(e, t, at);
  LLVMSetAlignment(x, (unsigned)dtype_bytes(product_type(e)));
  return x;
}

// Emits `rounds` steps of the sums of a tile: acc[r][v] += a[r] * b[v]. a, b: the packed factors at
// the first of these steps.
static void tile_steps(Product *x, int rows, int vecs, LLVMValueRef a, LLVMValueRef b, int rounds) {
  Emit *e = x->e;
  LLVMTypeRef one = reg_type(e, product_type(e)), vector = type_vector(e, one);
  int64_t wide = (int64_t)e->plan.lanes * e->plan.vecs;
  for (int q = 0; q < rounds; q++) {
    LLVMValueRef right[TILE_VECS];
    for (int v = 0; v < vecs; v++)
      right[v] = read_aligned(e, vector,
                              element_at(e, b, i64_of(e, q * wide + (int64_t)v * e->plan.lanes)));
    for (int r = 0; r < rows; r++) {
      int64_t at = r * left_row_step(e) + q * left_depth_step(e);
      LLVMValueRef left = emit_splat(e, emit_read(e, one, element_at(e, a, i64_of(e, at))));
      for (int v = 0; v < vecs; v++) {
        LLVMValueRef cell = x->acc[r * TILE_VECS + v], old = emit_read(e, vector, cell);
        LLVMValueRef term = contracting(mul(e, left, right[v]));
        LLVMBuildStore(e->b, contracting(add(e, old, term)), cell);
      }
    }
  }
}

// Emits a loop over the depths from..to in steps of `rounds`.
static void tile_loop(Product *x, int rows, int vecs, LLVMValueRef panel, LLVMValueRef from,
                      LLVMValueRef to, int rounds) {
  Emit *e = x->e;
  int64_t wide = (int64_t)e->plan.lanes * e->plan.vecs;
  EmitLoop l = loop_begin(e, from, to, i64_of(e, rounds));
  LLVMValueRef a = element_at(e, x->left, int_mul(e, l.var, i64_of(e, left_depth_step(e))));
  LLVMValueRef b = element_at(e, panel, int_mul(e, l.var, i64_of(e, wide)));
  tile_steps(x, rows, vecs, a, b, rounds);
  loop_end(e, &l);
}

// Emits the addition of the sums of a tile to the scratch, at element `at`. If there is only one
// slab, they are stored.
static void tile_spill(Product *x, int rows, int vecs, LLVMValueRef at) {
  Emit *e = x->e;
  int s = e->plan.product.form.sum;
  Dtype t = scratch_type(e, s);
  LLVMTypeRef one = reg_type(e, t), vector = type_vector(e, one);
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) {
      int64_t index = r * e->plan.scratch_row + (int64_t)v * e->plan.lanes;
      LLVMValueRef to = emit_at(e, one, e->scratch, int_add(e, at, i64_of(e, index)));
      LLVMValueRef sum =
          emit_read(e, type_vector(e, reg_type(e, product_type(e))), x->acc[r * TILE_VECS + v]);
      sum = emit_coerce(e, sum, product_type(e), t);
      if (!e->plan.product.whole) sum = add(e, emit_read(e, vector, to), sum);
      LLVMBuildStore(e->b, sum, to);
    }
}

// Emits a tile of `rows` rows from row `row` of the run on, and of `vecs` vectors from column
// `column` of the block on.
static void product_tile(Product *x, int rows, int vecs, LLVMValueRef row, LLVMValueRef column) {
  Emit *e = x->e;
  LLVMTypeRef vector = type_vector(e, reg_type(e, product_type(e)));
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < vecs; v++) {
      LLVMValueRef cell = emit_alloca(e, vector);
      LLVMBuildStore(e->b, LLVMConstNull(vector), cell);
      x->acc[r * TILE_VECS + v] = cell;
    }
  int64_t depth = right_elements(e) / e->plan.scratch_row;
  LLVMValueRef panel = element_at(e, x->right, int_mul(e, column, i64_of(e, depth)));
  LLVMValueRef rest = LLVMBuildURem(e->b, x->depth, i64_of(e, DEPTH_UNROLLED), "");
  LLVMValueRef middle = int_sub(e, x->depth, rest);
  tile_loop(x, rows, vecs, panel, i64_of(e, 0), middle, DEPTH_UNROLLED);
  if (!LLVMIsConstant(rest) || !LLVMIsNull(rest))
    tile_loop(x, rows, vecs, panel, middle, x->depth, 1);
  LLVMValueRef at = int_mul(e, row, i64_of(e, e->plan.scratch_row));
  tile_spill(x, rows, vecs, int_add(e, at, column));
}

// Emits the tiles of `rows` rows from row `row` of the run on, for all columns of the block.
static void product_panels(Product *x, int rows, LLVMValueRef row) {
  Emit *e = x->e;
  int64_t wide = (int64_t)e->plan.lanes * e->plan.vecs;
  LLVMValueRef columns = int_sub(e, x->to, x->from);
  LLVMValueRef rest = LLVMBuildURem(e->b, columns, i64_of(e, wide), "");
  LLVMValueRef middle = int_sub(e, columns, rest);
  EmitLoop l = loop_begin(e, i64_of(e, 0), middle, i64_of(e, wide));
  product_tile(x, rows, e->plan.vecs, row, l.var);
  loop_end(e, &l);
  if (!e->plan.product.vecs_left) return;
  LLVMBasicBlockRef done = if_begin(e, not_zero(e, rest));
  product_tile(x, rows, e->plan.product.vecs_left, row, middle);
  if_end(e, done);
}

// Emits the tiles of at most CpuPlan.rows rows. `here` is the number of rows. Rows behind them are
// computed from stale numbers, and not used.
static void product_rows_here(Product *x, LLVMValueRef row, LLVMValueRef here) {
  Emit *e = x->e;
  int few = e->plan.product.rows_left;
  if (!few) {
    product_panels(x, e->plan.rows, row);
    return;
  }
  LLVMBasicBlockRef some = emit_block(e), many = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, int_less(e, i64_of(e, few), here), many, some);
  LLVMPositionBuilderAtEnd(e->b, many);
  product_panels(x, e->plan.rows, row);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, some);
  product_panels(x, few, row);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

static void product_slab(Product *x) {
  Emit *e = x->e;
  x->depth = int_sub(e, e->slab_to, e->slab_from);
  for (int i = e->plan.slab_loop + 1; i < e->k->ninner; i++)
    x->depth = int_mul(e, x->depth, e->extent[e->k->nouter + i]);
  pack_right(e, x->from, x->to, x->right);
  units_decode(e, x->u, x->lo);
  EmitLoop l = loop_begin(e, i64_of(e, 0), x->rows, i64_of(e, e->plan.rows));
  LLVMValueRef here = int_min(e, int_sub(e, x->rows, l.var), l.step);
  pack_left(e, x->u, here, x->left);
  product_rows_here(x, l.var, here);
  loop_end(e, &l);
}

// Emits loops over the slabs. They run over each round of inner loops i..slab_loop-1, and over
// slab_loop in steps of slab_step rounds.
static void product_slabs(Product *x, int i) {
  Emit *e = x->e;
  int l = e->k->nouter + i;
  bool pieces = i == e->plan.slab_loop;
  if (pieces && e->plan.product.whole) {
    e->slab_from = i64_of(e, 0);
    e->slab_to = e->extent[l];
    product_slab(x);
    return;
  }
  EmitLoop loop =
      loop_begin(e, i64_of(e, 0), e->extent[l], i64_of(e, pieces ? e->plan.slab_step : 1));
  if (pieces) {
    e->slab_from = loop.var;
    e->slab_to = int_min(e, int_add(e, loop.var, loop.step), e->extent[l]);
    product_slab(x);
  } else {
    LLVMValueRef *saved = enter_loop(e, l, loop.var);
    product_slabs(x, i + 1);
    leave_loop(e, saved);
  }
  loop_end(e, &loop);
}

// Emits units lo..hi-1, a run. made: the Product of the kernel, without the fields of a run.
static void run_as_product(Emit *e, const void *made, LLVMValueRef lo, LLVMValueRef hi) {
  Product product = *(const Product *)made, *x = &product;
  e->run = x->lo = lo;
  x->rows = int_sub(e, hi, lo);
  units_decode(e, x->u, lo);
  LLVMValueRef *saved = addresses_save(e), block = i64_of(e, e->k->block);
  for (int l = 0; l < e->plan.product.form.span; l++)
    enter_loop(e, l, emit_read(e, e->i64, x->u->cell[l]));
  x->from = int_mul(e, emit_read(e, e->i64, x->u->cell[e->k->vector]), block);
  x->to = int_min(e, int_add(e, x->from, block), e->extent[e->k->vector]);
  if (!e->plan.product.whole) scratch_clear(e, x->rows);
  product_slabs(x, 0);
  leave_loop(e, saved);
  units_after_slabs(e, x->u, lo, hi);
}

void units_as_product(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  Product x = {.e = e, .u = u};
  x.left = scratch_make(e, product_type(e), left_elements(e));
  x.right = scratch_make(e, product_type(e), right_elements(e));
  LLVMValueRef round = i64_of(e, 1);
  for (int l = e->plan.product.form.span; l <= e->k->rows; l++)
    round = int_mul(e, round, u->count[l]);
  each_run(e, lo, hi, round, run_as_product, &x);
}
#endif
