// 3x3 convolutions by Winograd's algorithm (winograd_plan.c). In: the units lo..hi-1 of a chunk.
// Out: LLVM IR that computes the sums of phase 0, and runs the later phases on them.
//
//   for blocks of the vector loop
//     weights = transformed weights of the block              [16][column group][channel][column]
//     for runs, some rows of tiles of one image
//       patches = transformed patches of the tiles            [16][tile][channel]
//       products = patches * weights, 16 products of matrices [16][tile][column]
//       scratch = transformed products                        [row][column of the image][column]
//       units of the run: phases after the first, from the scratch
//
// A plane is one of the 16 matrices. Planes are PLANE_GAP elements longer than their contents, so
// that equal elements of all planes are not in the same set of a cache. A run begins at a multiple
// of its rows in the image. A chunk that begins or ends inside a run computes the whole run, and
// runs the later phases for its own units. So a result does not depend on the chunk.
#include "codegen/cpu/emit_winograd_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

Winograd winograd_make(Emit *e) {
  const WinogradPlan *p = &e->plan.winograd;
  Winograd w = {
      .plan = p, .f = &p->form, .vec = type_vector(e, e->f32), .columns = p->form.columns};
  int rows = p->form.gradient ? 1 : p->rows;
  w.tiles = ceil_div(p->form.run_rows * p->form.tiles[1], rows) * rows;
  w.group = (int64_t)p->vecs * e->plan.lanes;
  w.weights_plane = p->form.channels * w.columns + PLANE_GAP;
  w.patches_plane = w.tiles * p->form.channels + PLANE_GAP;
  w.products_plane = w.tiles * w.columns + PLANE_GAP;
  w.weights = scratch_make(e, TYPE_F32, PLANES * w.weights_plane);
  w.patches = scratch_make(e, TYPE_F32, PLANES * w.patches_plane);
  w.products = scratch_make(e, TYPE_F32, PLANES * w.products_plane);
  int64_t most = p->form.channels > w.columns ? p->form.channels : w.columns;
  w.zeros = scratch_make(e, TYPE_F32, most);
  w.unused = scratch_make(e, TYPE_F32, most);
  return w;
}

void zeros_write(Emit *e, const Winograd *w, LLVMValueRef at, int64_t n) {
  EmitLoop l = loop_begin(e, i64_of(e, 0), i64_of(e, n), i64_of(e, e->plan.lanes));
  vector_write(e, element(e, at, l.var), LLVMConstNull(w->vec));
  loop_end(e, &l);
}

// -- transforms ---------------------------------------------------------------------------------

static void transform_weights(Emit *e, const LLVMValueRef *g, int step, LLVMValueRef *out, int to) {
  LLVMValueRef ends = scale(e, add(e, g[0], g[2 * step]), 0.5), middle = scale(e, g[step], 0.5);
  out[0] = g[0];
  out[to] = add(e, ends, middle);
  out[2 * to] = sub(e, ends, middle);
  out[3 * to] = g[2 * step];
}

static void transform_patch(Emit *e, const LLVMValueRef *d, int step, LLVMValueRef *out, int to) {
  out[0] = sub(e, d[0], d[2 * step]);
  out[to] = add(e, d[step], d[2 * step]);
  out[2 * to] = sub(e, d[2 * step], d[step]);
  out[3 * to] = sub(e, d[step], d[3 * step]);
}

static void transform_products(Emit *e, const LLVMValueRef *m, int step, LLVMValueRef *out,
                               int to) {
  out[0] = add(e, add(e, m[0], m[step]), m[2 * step]);
  out[to] = sub(e, sub(e, m[step], m[2 * step]), m[3 * step]);
}

void transform_both(Emit *e, Transform *t, const LLVMValueRef *x, int n, int m, LLVMValueRef *out) {
  LLVMValueRef half[PLANES];
  for (int j = 0; j < n; j++) t(e, x + j, n, half + j, n);
  for (int i = 0; i < m; i++) t(e, half + i * n, 1, out + i * m, 1);
}

// Emits the transform of the weights for the columns of a block that begins at column `from`.
static void weights_make(Emit *e, const Winograd *w, LLVMValueRef from) {
  const WinogradForm *f = w->f;
  LLVMValueRef start = element(e, e->base[e->k->stmt[f->weights].index], from);
  EmitLoop k = loop_to(e, f->channels);
  LLVMValueRef row = element(e, start, times(e, k.var, f->weights_channel));
  EmitLoop g = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, w->group));
  LLVMValueRef to = element(e, w->weights, times(e, g.var, f->channels));
  to = element(e, to, times(e, k.var, w->group));
  for (int64_t v = 0; v < w->group; v += e->plan.lanes) {
    LLVMValueRef tap[TAPS * TAPS], out[PLANES];
    for (int i = 0; i < TAPS * TAPS; i++) {
      int y = i / TAPS, x = i % TAPS;
      int64_t at = (f->axis[0].flip ? TAPS - 1 - y : y) * f->axis[0].weights +
                   (f->axis[1].flip ? TAPS - 1 - x : x) * f->axis[1].weights + v;
      tap[i] = vector_read(e, w, element_at(e, element(e, row, g.var), at));
    }
    transform_both(e, transform_weights, tap, TAPS, PATCH, out);
    for (int i = 0; i < PLANES; i++)
      vector_write(e, element_at(e, to, i * w->weights_plane + v), out[i]);
  }
  loop_end(e, &g);
  loop_end(e, &k);
}

// Emits the transform of one patch. at: the addresses of its positions.
static void patch_make(Emit *e, const Winograd *w, const LLVMValueRef *at, LLVMValueRef tile) {
  LLVMValueRef to = element(e, w->patches, times(e, tile, w->f->channels));
  EmitLoop c = loop_begin(e, i64_of(e, 0), i64_of(e, w->f->channels), i64_of(e, e->plan.lanes));
  LLVMValueRef d[PLANES], out[PLANES];
  for (int i = 0; i < PLANES; i++) d[i] = vector_read(e, w, element(e, at[i], c.var));
  transform_both(e, transform_patch, d, PATCH, PATCH, out);
  to = element(e, to, c.var);
  for (int i = 0; i < PLANES; i++) vector_write(e, element_at(e, to, i * w->patches_plane), out[i]);
  loop_end(e, &c);
}

// Emits whether position `at` of an axis of the patches is inside the image.
static LLVMValueRef is_inside(Emit *e, const WinogradAxis *x, LLVMValueRef at) {
  LLVMValueRef from = int_sub(e, at, i64_of(e, x->first));
  return int_cmp(e, LLVMIntULT, from, i64_of(e, x->last - x->first));
}

// Patches inside the image read at constant distances; the others read zeros where they are
// outside.
void patches_make(Emit *e, const Winograd *w) {
  const WinogradAxis *y = &w->f->axis[0], *x = &w->f->axis[1];
  EmitLoop ty = loop_begin(e, i64_of(e, 0), w->height, i64_of(e, 1)),
           tx = loop_to(e, w->f->tiles[1]);
  LLVMValueRef tile = int_add(e, times(e, ty.var, w->f->tiles[1]), tx.var);
  LLVMValueRef row = int_add(e, w->first, times(e, ty.var, RESULTS)),
               column = times(e, tx.var, RESULTS);
  LLVMValueRef start = element(e, w->image, times(e, ty.var, RESULTS * y->image));
  start = element(e, start, times(e, column, x->image));
  LLVMValueRef in[2][PATCH], all = NULL, at[PLANES];
  for (int i = 0; i < PATCH; i++) {
    in[0][i] = is_inside(e, y, int_add(e, row, i64_of(e, i)));
    in[1][i] = is_inside(e, x, int_add(e, column, i64_of(e, i)));
    LLVMValueRef both = bit_and(e, in[0][i], in[1][i]);
    all = all ? bit_and(e, all, both) : both;
  }
  for (int i = 0; i < PLANES; i++)
    at[i] = element_at(e, start, i / PATCH * y->image + i % PATCH * x->image);
  LLVMBasicBlockRef inside = emit_block(e), edge = emit_block(e), done = emit_block(e);
  LLVMBuildCondBr(e->b, all, inside, edge);
  LLVMPositionBuilderAtEnd(e->b, inside);
  patch_make(e, w, at, tile);
  LLVMBuildBr(e->b, done);
  LLVMPositionBuilderAtEnd(e->b, edge);
  for (int i = 0; i < PLANES; i++)
    at[i] = pick(e, bit_and(e, in[0][i / PATCH], in[1][i % PATCH]), at[i], w->zeros);
  patch_make(e, w, at, tile);
  if_end(e, done);
  loop_end(e, &tx);
  loop_end(e, &ty);
}

// Emits the results of the run, from the products to the scratch. The last tile of a row or column
// may have results that are outside; they are stored to Winograd.unused.
static void results_make(Emit *e, const Winograd *w) {
  const WinogradAxis *y = &w->f->axis[0], *x = &w->f->axis[1];
  EmitLoop ty = loop_begin(e, i64_of(e, 0), w->height, i64_of(e, 1)),
           tx = loop_to(e, w->f->tiles[1]);
  LLVMValueRef tile = int_add(e, times(e, ty.var, w->f->tiles[1]), tx.var);
  LLVMValueRef row = times(e, ty.var, RESULTS), column = times(e, tx.var, RESULTS);
  LLVMValueRef from = element(e, w->products, times(e, tile, w->columns));
  LLVMValueRef to = int_add(e, times(e, row, x->size), column), at[RESULTS * RESULTS];
  to = element(e, e->scratch, times(e, to, w->columns));
  LLVMValueRef low =
      int_less(e, int_add(e, int_add(e, w->first, row), i64_of(e, 1)), i64_of(e, y->size));
  LLVMValueRef left = int_less(e, int_add(e, column, i64_of(e, 1)), i64_of(e, x->size));
  for (int i = 0; i < RESULTS * RESULTS; i++) {
    bool below = i >= RESULTS && y->size % RESULTS, beside = i % RESULTS && x->size % RESULTS;
    at[i] = element_at(e, to, (i / RESULTS * x->size + i % RESULTS) * w->columns);
    if (below) at[i] = pick(e, low, at[i], w->unused);
    if (beside) at[i] = pick(e, left, at[i], w->unused);
  }
  EmitLoop c = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, e->plan.lanes));
  LLVMValueRef m[PLANES], half[RESULTS * PATCH], out[RESULTS * RESULTS];
  for (int i = 0; i < PLANES; i++)
    m[i] = vector_read(e, w, element_at(e, element(e, from, c.var), i * w->products_plane));
  for (int j = 0; j < PATCH; j++) transform_products(e, m + j, PATCH, half + j, PATCH);
  for (int i = 0; i < RESULTS; i++)
    transform_products(e, half + i * PATCH, 1, out + i * RESULTS, 1);
  for (int i = 0; i < RESULTS * RESULTS; i++) vector_write(e, element(e, at[i], c.var), out[i]);
  loop_end(e, &c);
  loop_end(e, &tx);
  loop_end(e, &ty);
}

// -- products -----------------------------------------------------------------------------------

// Emits products += patches * weights for one register tile and channels from..to. left, right,
// result: addresses of its first elements. If `first`, the products were 0.
static void register_tile(Emit *e, const Winograd *w, LLVMValueRef *cell, LLVMValueRef left,
                          LLVMValueRef right, LLVMValueRef result, LLVMValueRef from,
                          LLVMValueRef to, bool first) {
  int rows = w->plan->rows, vecs = w->plan->vecs, lanes = e->plan.lanes;
  for (int i = 0; i < rows * vecs; i++) {
    LLVMValueRef at = element_at(e, result, i / vecs * w->columns + i % vecs * lanes);
    LLVMBuildStore(e->b, first ? LLVMConstNull(w->vec) : vector_read(e, w, at), cell[i]);
  }
  EmitLoop k = loop_begin(e, from, to, i64_of(e, 1));
  LLVMValueRef x[TILE_VECS], row = element(e, right, times(e, k.var, w->group));
  for (int v = 0; v < vecs; v++) x[v] = vector_read(e, w, element_at(e, row, v * lanes));
  LLVMValueRef column = element(e, left, k.var);
  for (int r = 0; r < rows; r++) {
    LLVMValueRef y = emit_splat(e, emit_read(e, e->f32, element_at(e, column, r * w->f->channels)));
    for (int v = 0; v < vecs; v++) {
      LLVMValueRef sum = cell[r * vecs + v];
      LLVMBuildStore(e->b, multiply_add(e, y, x[v], emit_read(e, w->vec, sum)), sum);
    }
  }
  loop_end(e, &k);
  for (int i = 0; i < rows * vecs; i++) {
    LLVMValueRef at = element_at(e, result, i / vecs * w->columns + i % vecs * lanes);
    vector_write(e, at, emit_read(e, w->vec, cell[i]));
  }
}

// Emits the 16 products of matrices of the run.
static void products_make(Emit *e, const Winograd *w) {
  LLVMValueRef cell[TILE];
  int64_t channels = w->f->channels, depth = w->plan->depth;
  for (int i = 0; i < w->plan->rows * w->plan->vecs; i++) cell[i] = emit_alloca(e, w->vec);
  EmitLoop plane = loop_to(e, PLANES);
  LLVMValueRef patches = element(e, w->patches, times(e, plane.var, w->patches_plane));
  LLVMValueRef weights = element(e, w->weights, times(e, plane.var, w->weights_plane));
  LLVMValueRef products = element(e, w->products, times(e, plane.var, w->products_plane));
  EmitLoop g = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, w->group));
  LLVMValueRef right = element(e, weights, times(e, g.var, channels));
  LLVMValueRef tiles = times(e, w->height, w->f->tiles[1]);
  EmitLoop t = loop_begin(e, i64_of(e, 0), tiles, i64_of(e, w->plan->rows));
  LLVMValueRef left = element(e, patches, times(e, t.var, channels));
  LLVMValueRef result = element(e, products, int_add(e, times(e, t.var, w->columns), g.var));
  register_tile(e, w, cell, left, right, result, i64_of(e, 0), i64_of(e, depth), true);
  if (depth < channels) {
    Blocks b = blocks_begin(e, i64_of(e, depth), i64_of(e, channels), depth);
    register_tile(e, w, cell, left, right, result, b.from, b.to, false);
    blocks_end(e, &b);
  }
  loop_end(e, &t);
  loop_end(e, &g);
  loop_end(e, &plane);
}

// -- runs ---------------------------------------------------------------------------------------

// Emits the sums of a run that begins at unit e->run, to the scratch.
static void run_sums(Emit *e, Winograd *w, const Units *u) {
  const WinogradAxis *y = &w->f->axis[0], *x = &w->f->axis[1];
  LLVMValueRef *saved = addresses_save(e);
  units_decode(e, u, e->run);
  for (int l = 0; l < e->k->vector; l++) enter_loop(e, l, emit_read(e, e->i64, u->cell[l]));
  int64_t back = (y->flip ? (TAPS - 1) * y->image : 0) + (x->flip ? (TAPS - 1) * x->image : 0);
  w->image = element_at(e, e->addr[e->k->stmt[w->f->image].index], -back);
  leave_loop(e, saved);
  patches_make(e, w);
  products_make(e, w);
  results_make(e, w);
}

// Emits the units from..to-1, which are in one block of the vector loop. base: its first unit.
static void units_of_block(Emit *e, Winograd *w, const Units *u, LLVMValueRef base,
                           LLVMValueRef from, LLVMValueRef to) {
  int64_t width = w->f->axis[1].size, rows = w->f->axis[0].size, step = RESULTS * w->f->run_rows;
  LLVMValueRef at = emit_alloca(e, e->i64);
  LLVMBasicBlockRef body = emit_block(e), done = emit_block(e);
  LLVMBuildStore(e->b, from, at);
  LLVMBuildBr(e->b, body);
  LLVMPositionBuilderAtEnd(e->b, body);
  LLVMValueRef unit = emit_read(e, e->i64, at);
  LLVMValueRef line = LLVMBuildUDiv(e->b, int_sub(e, unit, base), i64_of(e, width), "");
  LLVMValueRef row = LLVMBuildURem(e->b, line, i64_of(e, rows), "");
  LLVMValueRef into = LLVMBuildURem(e->b, row, i64_of(e, step), ""); // rows of the run before it
  w->first = int_sub(e, row, into);
  LLVMValueRef n = int_min(e, i64_of(e, step), int_sub(e, i64_of(e, rows), w->first));
  w->height = LLVMBuildUDiv(e->b, int_add(e, n, i64_of(e, 1)), i64_of(e, RESULTS), "");
  e->run = int_add(e, base, times(e, int_sub(e, line, into), width));
  run_sums(e, w, u);
  LLVMValueRef end = int_min(e, to, int_add(e, e->run, times(e, n, width)));
  units_after_slabs(e, u, unit, end);
  LLVMBuildStore(e->b, end, at);
  LLVMBuildCondBr(e->b, int_less(e, end, to), body, done);
  LLVMPositionBuilderAtEnd(e->b, done);
}

void units_as_winograd(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  Winograd w = winograd_make(e);
  e->scratch = scratch_make(e, TYPE_F32, e->plan.run * w.columns);
  LLVMValueRef others = i64_of(e, 1);
  for (int l = 0; l < e->k->vector; l++) others = int_mul(e, others, u->count[l]);
  zeros_write(e, &w, w.zeros, w.f->channels);
  zeros_write(e, &w, w.patches, PLANES * w.patches_plane);
  LLVMValueRef last = LLVMBuildUDiv(e->b, int_sub(e, hi, i64_of(e, 1)), others, "");
  EmitLoop block = loop_begin(e, LLVMBuildUDiv(e->b, lo, others, ""),
                              int_add(e, last, i64_of(e, 1)), i64_of(e, 1));
  weights_make(e, &w, times(e, block.var, w.columns));
  LLVMValueRef base = int_mul(e, block.var, others), end = int_add(e, base, others);
  LLVMValueRef from = pick(e, int_less(e, lo, base), base, lo);
  units_of_block(e, &w, u, base, from, int_min(e, hi, end));
  loop_end(e, &block);
}
#endif
