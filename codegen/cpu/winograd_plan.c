// Plans the computation of a 3x3 convolution by Winograd's algorithm F(2x2, 3x3) (Lavin and Gray,
// "Fast algorithms for convolutional neural networks", 2016). In: a kernel. Out: a WinogradPlan.
//
// A tile is 2x2 results. It reads a patch of 4x4 positions of the image. With the patch d, the
// weights g and their transforms, the results are
//
//   A' [ sum over channels of (G g G') * (B' d B) ] A
//
// where * multiplies the elements of two 4x4 matrices: 16 products in place of 36. The kernel is
// the plain sum over ky, kx and the channels; this file recognises it by its strides. A result is
// computed from the elements of its own window alone.
#include "codegen/cpu/emit_internal.h"
#include "ir/program/sums.h"

enum {
  TAPS = 3,
  PLANES = 16,
  LEAST_CHANNELS = 16, // with fewer, the transforms take longer than they save
  CHANNEL_STEP = 16,   // channels are a multiple of this, so that all vectors are full
  LEAST_SIDE = 4,      // fewest rows and columns of results
  RUN_TILES = 64,      // tiles of a run, about
  LEAST_TILES = 48,    // fewest tiles of all images
  LEAST_CHUNKS = 4,    // fewest chunks of a kernel, so that several threads have work
  CHUNK_TILES = 192,   // tiles of a chunk, if there are enough: it transforms the weights once
  CHUNK_TILES_GRADIENT = 512, // the same for gradients, whose chunks have a sum for each weight
  MEMORY_BYTES = 2359296      // upper limit of the transformed data of a run
};

// One summed dim of the convolution: an inner loop, or one of the dims that a loop covers.
typedef struct Summed {
  int loop;
  bool alone;                   // whether the loop covers this dim only
  int64_t size, image, weights; // strides of the two factors along it
} Summed;

static int summed_dims(const Kernel *k, const KPtr *image, const KPtr *weights, Summed *out) {
  int n = 0;
  for (int l = k->nouter; l < k->nouter + k->ninner; l++) {
    const KLoop *loop = &k->loop[l];
    int parts = loop->nparts ? loop->nparts : 1;
    int64_t step = loop->size;
    if (loop->slot >= 0 || n + parts > TAPS) return 0;
    for (int i = 0; i < parts; i++) {
      int64_t size = loop->nparts ? loop->part[i] : loop->size;
      step /= size;
      out[n++] = (Summed){.loop = l,
                          .alone = parts == 1,
                          .size = size,
                          .image = image->stride[l] * step,
                          .weights = weights->stride[l] * step};
    }
  }
  return n;
}

// Returns whether walk w is the counter of outer loop `outer` plus or minus that of dim d.
static bool walk_along(const Kernel *k, const KPtr *w, int outer, const Summed *d, bool flip) {
  if (w->nbases || !d->alone) return false;
  for (int l = 0; l < k->nouter + k->ninner; l++)
    if (w->stride[l] != (l == outer ? 1 : l == d->loop ? (flip ? -1 : 1) : 0)) return false;
  return true;
}

// Reads the guard of the image, a chain of K_INSIDE statements, into the limits of the two axes.
// Returns false if it has another form.
static bool read_guard(const Kernel *k, int guard, const Summed *const *tap, WinogradForm *f) {
  for (int s = guard; s != NO_STMT; s = k->stmt[s].arg[1]) {
    const KStmt *in = &k->stmt[s];
    if (in->kind != K_INSIDE || in->slot >= 0) return false;
    const KStmt *at = &k->stmt[in->arg[0]];
    if (at->kind != K_POSITION || at->arg[0] != NO_STMT || at->arg[1] != NO_STMT) return false;
    const KPtr *w = &k->walk[at->index];
    int a = 0;
    while (a < 2 && !walk_along(k, w, f->axis[a].loop, tap[a], f->axis[a].flip)) a++;
    if (a == 2) return false;
    WinogradAxis *x = &f->axis[a];
    int64_t first = (x->flip ? TAPS - 1 : 0) - w->offset;
    x->first = first > x->first ? first : x->first;
    x->last = first + in->step < x->last ? first + in->step : x->last;
  }
  return true;
}

// Finds the dims ky, kx and channels among d[0..3), and fills the axes of the image.
static bool read_axes(const Kernel *k, const KStmt *load, const Summed *d, WinogradForm *f) {
  const Summed *tap[2] = {NULL, NULL}, *channels = NULL;
  for (int i = 0; i < TAPS; i++) {
    if (!channels && d[i].image == 1 && d[i].size >= LEAST_CHANNELS) {
      channels = &d[i];
      continue;
    }
    for (int a = 0; a < 2; a++) {
      WinogradAxis *x = &f->axis[a];
      if (tap[a] || d[i].size != TAPS || (d[i].image != x->image && d[i].image != -x->image))
        continue;
      tap[a] = &d[i];
      x->flip = d[i].image < 0;
      x->weights = d[i].weights;
      break;
    }
  }
  if (!tap[0] || !tap[1] || !channels || channels->size % CHANNEL_STEP) return false;
  f->channels = channels->size;
  f->weights_channel = channels->weights;
  return read_guard(k, load->arg[1], tap, f);
}

static bool f32_load(const Kernel *k, int s) {
  const KStmt *x = &k->stmt[s];
  return x->kind == K_LOAD && x->level == LEVEL_INNER && x->type == TYPE_F32 &&
         k->ptr[x->index].type == TYPE_F32 && !k->ptr[x->index].written;
}

// Finds the sum and its factors. Only the weights vary along the vector loop, and along no other
// outer loop.
static bool read_sum(const Kernel *k, WinogradForm *f) {
  f->sum = 0;
  while (f->sum < k->nstmts && k->stmt[f->sum].kind != K_REDUCE) f->sum++;
  const KStmt *product = &k->stmt[k->stmt[f->sum].arg[0]];
  if (k->stmt[f->sum].type != TYPE_F32 || product->kind != K_OP || product->op != OP_MUL)
    return false;
  int left = product->arg[0], right = product->arg[1];
  if (!f32_load(k, left) || !f32_load(k, right)) return false;
  bool swap = k->ptr[k->stmt[left].index].stride[k->vector] != 0;
  f->image = swap ? right : left;
  f->weights = swap ? left : right;
  const KPtr *w = &k->ptr[k->stmt[f->weights].index];
  for (int l = 0; l < k->vector; l++)
    if (w->stride[l]) return false;
  return w->stride[k->vector] == 1 && k->ptr[k->stmt[f->image].index].stride[k->vector] == 0 &&
         k->stmt[f->weights].arg[1] == NO_STMT;
}

static bool fits(const WinogradForm *f) {
  int64_t rows = f->axis[0].size, columns = f->axis[1].size;
  int64_t tiles = f->run_rows * f->tiles[1], planes = PLANES * (int64_t)sizeof(float);
  int64_t bytes = planes * (tiles * (f->channels + f->columns) + f->channels * f->columns);
  return rows >= LEAST_SIDE && columns >= LEAST_SIDE && bytes <= MEMORY_BYTES &&
         f->tiles[0] * f->tiles[1] * 16 <= rows * columns * 5;
}

// Fills the axes and tiles for results along the loops l (y) and l + 1 (x).
static void read_results(const Kernel *k, int l, WinogradForm *f) {
  for (int a = 0; a < 2; a++) {
    int64_t size = k->loop[l + a].size;
    f->axis[a] = (WinogradAxis){.loop = l + a,
                                .size = size,
                                .image = k->ptr[k->stmt[f->image].index].stride[l + a],
                                .weights = k->ptr[k->stmt[f->weights].index].stride[l + a],
                                .last = size + TAPS - 1};
    f->tiles[a] = ceil_div(size, 2);
  }
  f->all_tiles = f->tiles[0] * f->tiles[1];
  for (int o = 0; o < l; o++) f->all_tiles = size_times(f->all_tiles, loop_rounds(k, o));
  int64_t most = clamp64(RUN_TILES / f->tiles[1], 1, f->tiles[0]);
  f->run_rows = ceil_div(f->tiles[0], ceil_div(f->tiles[0], most));
}

static bool convolution_form(const Kernel *k, WinogradForm *f) {
  Summed d[TAPS];
  if (k->rows < 1 || k->vector != k->nouter - 1 || k->rows != k->nouter - 2 ||
      kernel_lone_sum(k) == NO_STMT || !read_sum(k, f))
    return false;
  const KPtr *image = &k->ptr[k->stmt[f->image].index];
  const KPtr *weights = &k->ptr[k->stmt[f->weights].index];
  for (int l = k->rows - 1; l <= k->vector; l++)
    if (k->loop[l].slot >= 0 || (l < k->vector && image->stride[l] <= 0)) return false;
  f->columns = k->block;
  read_results(k, k->rows - 1, f);
  return f->all_tiles >= LEAST_TILES && k->loop[k->vector].size % k->block == 0 &&
         k->block % CHANNEL_STEP == 0 && k->block >= LEAST_CHANNELS &&
         summed_dims(k, image, weights, d) == TAPS && read_axes(k, &k->stmt[f->image], d, f) &&
         fits(f);
}

// The loops of a kernel of images are known: y, x, ky, kx, channels, columns are the inner ones.
static bool gradient_form(const Kernel *k, WinogradForm *f) {
  int y = k->nouter;
  f->gradient = true;
  f->sum = k->nstmts - 1;
  const KStmt *product = &k->stmt[k->stmt[f->sum].arg[0]];
  bool swap = k->ptr[k->stmt[product->arg[0]].index].stride[k->vector] != 0;
  f->image = product->arg[swap];
  f->weights = product->arg[!swap];
  f->channels = k->loop[y + 4].size;
  f->columns = k->loop[y + 5].size;
  read_results(k, y, f);
  Summed ky = {.loop = y + 2, .alone = true}, kx = {.loop = y + 3, .alone = true};
  const Summed *tap[2] = {&ky, &kx};
  return read_guard(k, k->stmt[f->image].arg[1], tap, f) && fits(f);
}

bool winograd_form(const Kernel *k, WinogradForm *f) {
  *f = (WinogradForm){0};
  return k->images ? gradient_form(k, f) : convolution_form(k, f);
}

int64_t winograd_grain(const WinogradForm *f) {
  int64_t all = f->tiles[0] * f->tiles[1], run = f->run_rows * f->tiles[1];
  int64_t units = f->axis[0].size * f->axis[1].size;
  int64_t chunk = f->gradient ? CHUNK_TILES_GRADIENT : CHUNK_TILES;
  if (chunk > f->all_tiles / LEAST_CHUNKS) chunk = f->all_tiles / LEAST_CHUNKS;
  if (f->gradient) return ceil_div(chunk, all);
  if (all < 2 * chunk) return units * ceil_div(chunk, all);
  return 2 * f->run_rows * f->axis[1].size * ceil_div(chunk, run);
}

// Estimates the cycles that one summed element takes in a register tile of r rows by v vectors.
static double round_cycles(int r, int v) {
  double adds = r * v * 0.5, loads = (r + v) * 0.5, most = adds > loads ? adds : loads;
  return (most > 4 ? most : 4) + 0.75;
}

// Chooses the register tile of the products of a run.
static void choose_tile(const EmitTarget *t, int lanes, WinogradPlan *w) {
  const WinogradForm *f = &w->form;
  int64_t rows = f->gradient ? f->channels : f->run_rows * f->tiles[1];
  int64_t vectors = f->columns / lanes;
  int budget = t->bits == 512 ? 24 : 12;
  double best = -1;
  for (int v = 1; v <= TILE_VECS; v++)
    for (int r = 1; r <= TILE_ROWS && r * v <= budget; r++) {
      if (vectors % v || (f->gradient && rows % r)) continue;
      double cycles = (double)(ceil_div(rows, r) * (vectors / v)) * round_cycles(r, v);
      if (best >= 0 && cycles >= best) continue;
      best = cycles;
      w->rows = r;
      w->vecs = v;
    }
}

void winograd_plan(const Kernel *k, const EmitTarget *t, CpuPlan *p) {
  WinogradPlan *w = &p->winograd;
  if (!winograd_form(k, &w->form) || (t->opt == 0 && !k->images)) return;
  w->on = true;
  choose_tile(t, p->lanes, w);
  if (k->images) return;
  w->depth = w->form.channels <= SUM_LEAF_SHORT ? w->form.channels : SUM_LEAF;
  p->run = 2 * w->form.run_rows * w->form.axis[1].size;
  p->slab_loop = 0;
  p->slab_step = 1;
  p->slab_wide = false;
}
