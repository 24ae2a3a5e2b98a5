// The gradient of the weights of a 3x3 convolution by Winograd's algorithm (winograd_plan.c). In:
// images lo..hi-1 of a chunk. Out: LLVM IR that stores their sums in the partial row of the chunk.
//
//   weights = 0                                               [16][channel][column]
//   for images, for runs, some rows of tiles of the image
//     patches = transformed patches B' d B of the tiles       [16][tile][channel]
//     slopes = transformed slopes A s A' of the tiles         [16][tile][column]
//     weights += sum over tiles of patches * slopes           16 products of matrices
//   partial row = G' weights G                                [ky][kx][channel][column]
//
// The sum over the tiles of a run is one chain of additions; the sums of runs are added in order.
#include "codegen/cpu/emit_winograd_internal.h"

#ifdef MESHC_HAVE_LLVM

static void transform_slope(Emit *e, const LLVMValueRef *s, int step, LLVMValueRef *out, int to) {
  out[0] = s[0];
  out[to] = add(e, s[0], s[step]);
  out[2 * to] = sub(e, s[0], s[step]);
  out[3 * to] = negate(e, s[step]);
}

static void transform_gradient(Emit *e, const LLVMValueRef *m, int step, LLVMValueRef *out,
                               int to) {
  LLVMValueRef half = scale(e, add(e, m[step], m[2 * step]), 0.5);
  out[0] = add(e, m[0], half);
  out[to] = scale(e, sub(e, m[step], m[2 * step]), 0.5);
  out[2 * to] = add(e, half, m[3 * step]);
}

// Emits the transforms of the slopes of the run, which begin at `start`. The last tile of a row or
// column may have results that do not exist; their slope is 0.
static void slopes_make(Emit *e, const Winograd *w, LLVMValueRef start) {
  const WinogradAxis *y = &w->f->axis[0], *x = &w->f->axis[1];
  EmitLoop ty = loop_begin(e, i64_of(e, 0), w->height, i64_of(e, 1));
  EmitLoop tx = loop_to(e, w->f->tiles[1]);
  LLVMValueRef tile = int_add(e, times(e, ty.var, w->f->tiles[1]), tx.var);
  LLVMValueRef row = times(e, ty.var, RESULTS), column = times(e, tx.var, RESULTS);
  LLVMValueRef from = element(e, start, times(e, row, y->weights));
  from = element(e, from, times(e, column, x->weights));
  LLVMValueRef below = int_add(e, int_add(e, w->first, row), i64_of(e, 1));
  LLVMValueRef low = int_less(e, below, i64_of(e, y->size));
  LLVMValueRef left = int_less(e, int_add(e, column, i64_of(e, 1)), i64_of(e, x->size));
  LLVMValueRef at[RESULTS * RESULTS], s[RESULTS * RESULTS], half[RESULTS * PATCH], out[PLANES];
  for (int i = 0; i < RESULTS * RESULTS; i++) {
    at[i] = element_at(e, from, i / RESULTS * y->weights + i % RESULTS * x->weights);
    if (i >= RESULTS && y->size % RESULTS) at[i] = pick(e, low, at[i], w->zeros);
    if (i % RESULTS && x->size % RESULTS) at[i] = pick(e, left, at[i], w->zeros);
  }
  LLVMValueRef to = element(e, w->products, times(e, tile, w->columns));
  EmitLoop c = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, e->plan.lanes));
  for (int i = 0; i < RESULTS * RESULTS; i++) s[i] = vector_read(e, w, element(e, at[i], c.var));
  for (int j = 0; j < RESULTS; j++) transform_slope(e, s + j, RESULTS, half + j, RESULTS);
  for (int i = 0; i < PATCH; i++) transform_slope(e, half + i * RESULTS, 1, out + i * PATCH, 1);
  for (int i = 0; i < PLANES; i++)
    vector_write(e, element_at(e, element(e, to, c.var), i * w->products_plane), out[i]);
  loop_end(e, &c);
  loop_end(e, &tx);
  loop_end(e, &ty);
}

// Emits the sum over the tiles of the run for one register tile, and its addition to the weights.
// left, right, result: addresses of its first elements.
static void register_tile(Emit *e, const Winograd *w, LLVMValueRef *cell, LLVMValueRef left,
                          LLVMValueRef right, LLVMValueRef result, LLVMValueRef tiles) {
  int rows = w->plan->rows, vecs = w->plan->vecs, lanes = e->plan.lanes;
  for (int i = 0; i < rows * vecs; i++) LLVMBuildStore(e->b, LLVMConstNull(w->vec), cell[i]);
  EmitLoop t = loop_begin(e, i64_of(e, 0), tiles, i64_of(e, 1));
  LLVMValueRef x[TILE_VECS], line = element(e, right, times(e, t.var, w->columns));
  for (int v = 0; v < vecs; v++) x[v] = vector_read(e, w, element_at(e, line, v * lanes));
  LLVMValueRef column = element(e, left, times(e, t.var, w->f->channels));
  for (int r = 0; r < rows; r++) {
    LLVMValueRef y = emit_splat(e, emit_read(e, e->f32, element_at(e, column, r)));
    for (int v = 0; v < vecs; v++) {
      LLVMValueRef sum = cell[r * vecs + v];
      LLVMBuildStore(e->b, multiply_add(e, y, x[v], emit_read(e, w->vec, sum)), sum);
    }
  }
  loop_end(e, &t);
  for (int i = 0; i < rows * vecs; i++) {
    LLVMValueRef at = element_at(e, result, i / vecs * w->columns + i % vecs * lanes);
    vector_write(e, at, add(e, vector_read(e, w, at), emit_read(e, w->vec, cell[i])));
  }
}

static void sums_add(Emit *e, const Winograd *w) {
  LLVMValueRef cell[TILE];
  for (int i = 0; i < w->plan->rows * w->plan->vecs; i++) cell[i] = emit_alloca(e, w->vec);
  LLVMValueRef tiles = times(e, w->height, w->f->tiles[1]);
  EmitLoop plane = loop_to(e, PLANES);
  LLVMValueRef patches = element(e, w->patches, times(e, plane.var, w->patches_plane));
  LLVMValueRef slopes = element(e, w->products, times(e, plane.var, w->products_plane));
  LLVMValueRef sums = element(e, w->weights, times(e, plane.var, w->weights_plane));
  EmitLoop g = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, w->group));
  EmitLoop c = loop_begin(e, i64_of(e, 0), i64_of(e, w->f->channels), i64_of(e, w->plan->rows));
  LLVMValueRef result = element(e, sums, int_add(e, times(e, c.var, w->columns), g.var));
  register_tile(e, w, cell, element(e, patches, c.var), element(e, slopes, g.var), result, tiles);
  loop_end(e, &c);
  loop_end(e, &g);
  loop_end(e, &plane);
}

// Emits the additions of image number `unit` to the weights.
static void image_add(Emit *e, Winograd *w, const Units *u, LLVMValueRef unit) {
  const WinogradAxis *y = &w->f->axis[0];
  int64_t step = RESULTS * w->f->run_rows;
  LLVMValueRef *saved = addresses_save(e);
  units_decode(e, u, unit);
  for (int l = 0; l < e->k->nouter; l++) enter_loop(e, l, emit_read(e, e->i64, u->cell[l]));
  LLVMValueRef image = e->addr[e->k->stmt[w->f->image].index];
  LLVMValueRef slope = e->addr[e->k->stmt[w->f->weights].index];
  leave_loop(e, saved);
  EmitLoop run = loop_begin(e, i64_of(e, 0), i64_of(e, y->size), i64_of(e, step));
  w->first = run.var;
  LLVMValueRef n = int_min(e, i64_of(e, step), int_sub(e, i64_of(e, y->size), run.var));
  w->height = LLVMBuildUDiv(e->b, int_add(e, n, i64_of(e, 1)), i64_of(e, RESULTS), "");
  w->image = element(e, image, times(e, run.var, y->image));
  patches_make(e, w);
  slopes_make(e, w, element(e, slope, times(e, run.var, y->weights)));
  sums_add(e, w);
  loop_end(e, &run);
}

// Emits the transform of the sums, and its addition to the partial row.
static void row_add(Emit *e, const Winograd *w) {
  int s = w->f->sum, ky = e->k->nouter + 2;
  EmitLoop k = loop_to(e, w->f->channels);
  EmitLoop c = loop_begin(e, i64_of(e, 0), i64_of(e, w->columns), i64_of(e, e->plan.lanes));
  LLVMValueRef from = element(e, w->weights, int_add(e, times(e, k.var, w->columns), c.var));
  LLVMValueRef m[PLANES], half[TAPS * PATCH], out[TAPS * TAPS];
  for (int i = 0; i < PLANES; i++)
    m[i] = vector_read(e, w, element_at(e, from, i * w->weights_plane));
  for (int j = 0; j < PATCH; j++) transform_gradient(e, m + j, PATCH, half + j, PATCH);
  for (int i = 0; i < TAPS; i++) transform_gradient(e, half + i * PATCH, 1, out + i * TAPS, 1);
  LLVMValueRef index = int_add(e, times(e, k.var, accum_stride(e->k, s, ky + 2)), c.var);
  for (int i = 0; i < TAPS * TAPS; i++) {
    int64_t tap = i / TAPS * accum_stride(e->k, s, ky) + i % TAPS * accum_stride(e->k, s, ky + 1);
    vector_write(e, partial_at(e, s, int_add(e, index, i64_of(e, tap))), out[i]);
  }
  loop_end(e, &c);
  loop_end(e, &k);
}

void units_as_winograd_grad(Emit *e, const Units *u, LLVMValueRef lo, LLVMValueRef hi) {
  Winograd w = winograd_make(e);
  int64_t most = w.f->channels > w.columns ? w.f->channels : w.columns;
  zeros_write(e, &w, w.zeros, most);
  zeros_write(e, &w, w.weights, PLANES * w.weights_plane);
  EmitLoop unit = loop_begin(e, lo, hi, i64_of(e, 1));
  image_add(e, &w, u, unit.var);
  loop_end(e, &unit);
  row_add(e, &w);
}
#endif
