// Makes the calls of cuBLASLt that compute a product of matrices, and puts them into a stream
// (gpu_product.h).
//
// In: a Gemm of a program, with sizes and addresses. Its batch loops that nest in all operands act
// as one; the longest loop becomes the batch of a call, the others repeat the call. Pieces become
// calls of their own, as on the CPU. Long sums of f32 are split, and the parts added to C one after
// the other, so that the rounding error does not grow with their length:
//
//   [h=12, b=64] A[t, d] B[d, u], h outside, nesting      one call, 768 batches
//   k = 40000, f32                                        3 calls, the later ones added to C
#include "runtime/gpu/gpu_product.h"

#include <stdlib.h>
#include <string.h>

enum {
  LONGEST_SUM = 16384, // most terms of a sum in one call
  MOST_ALIGNMENT = 256 // bytes; the library does not ask for more
};

struct GpuProducts {
  CublasLtHandle library;
  CudaStream stream;
  CudaAddress workspace;
  ProductKind *kinds; // a list
};

struct GpuProductCall {
  const ProductKind *kind; // NULL: m rows of n elements of C are set to 0
  GpuOperands at;
  size_t pitch, width, height; // of the rows that are set to 0, in bytes
};

GpuProducts *gpu_products_new(CudaStream stream, Diag *d) {
  const LibraryFound *found = cublaslt_open();
  if (!found->library) {
    diag_error(d, DIAG_UNAVAILABLE, (Pos){0}, "%s", found->why);
    return NULL;
  }
  GpuProducts *all = mem_zeroed(1, sizeof *all);
  all->stream = stream;
  if (cublaslt_good(cublaslt.Create(&all->library), "cublasLtCreate", NULL, d) &&
      cuda_good(cuda.MemAlloc(&all->workspace, GPU_WORKSPACE_BYTES), "cuMemAlloc of 32 MiB", d))
    return all;
  gpu_products_free(all);
  return NULL;
}

uint32_t gpu_products_epilogues(void) {
  CublasLtHandle library;
  uint32_t out = 0;
  if (!cublaslt_open()->library || cublaslt.Create(&library) != CUBLAS_OK) return 0;
  for (int row = 0; row < GEMM_ROWS; row++)
    if (product_epilogue_exists(library, row, GPU_WORKSPACE_BYTES)) out |= 1U << row;
  (void)cublaslt.Destroy(library);
  return out;
}

void gpu_products_free(GpuProducts *all) {
  if (!all) return;
  for (ProductKind *k = all->kinds, *next; k; k = next) {
    next = k->next;
    product_kind_free(k);
  }
  if (all->workspace) (void)cuda.MemFree(all->workspace);
  if (all->library) (void)cublaslt.Destroy(all->library);
  free(all);
}

bool gpu_products_tune(GpuProducts *all, const GpuKeeper *keeper, const char *gpu, GpuComms *comms,
                       Diag *d) {
  const ProductTuner t = {.library = all->library,
                          .stream = all->stream,
                          .workspace = all->workspace,
                          .workspace_bytes = GPU_WORKSPACE_BYTES,
                          .keeper = keeper,
                          .gpu = gpu,
                          .comms = comms};
  return product_tune(&t, all->kinds, d);
}

void gpu_products_settle(GpuProducts *all) {
  for (ProductKind *k = all ? all->kinds : NULL; k; k = k->next) k->settled = true;
}

// Returns the kind of products with these sizes. Returns NULL after an error in d.
static const ProductKind *kind_of(GpuProducts *all, const ProductSizes *s, const GpuOperands *at,
                                  Diag *d) {
  for (ProductKind *k = all->kinds; k; k = k->next)
    if (memcmp(&k->sizes, s, sizeof *s) == 0) return k;
  ProductKind *k = product_kind_new(all->library, s, at, GPU_WORKSPACE_BYTES, d);
  if (!k) return NULL;
  k->next = all->kinds;
  return all->kinds = k;
}

// -- batches --------------------------------------------------------------------------------------

// Strides of a loop in the three operands, in elements.
typedef struct BatchLoop {
  int64_t count, a, b, c;
} BatchLoop;
typedef struct Batches {
  BatchLoop inner; // the batch of a call
  int n;           // other loops, each of which repeats the call
  BatchLoop outer[MAX_RANK];
  int64_t calls; // product of their counts
} Batches;

static bool nests(const BatchLoop *outer, const BatchLoop *inner) {
  return outer->a == inner->a * inner->count && outer->b == inner->b * inner->count &&
         outer->c == inner->c * inner->count;
}

static Batches batches_of(const BoundGemm *b) {
  Batches out = {.inner = {.count = 1}, .calls = 1};
  for (int i = 0; i < b->what->nbatch; i++) {
    BatchLoop loop = {b->count[i], b->what->batch[i].a, b->what->batch[i].b, b->what->batch[i].c};
    if (loop.count == 1) continue;
    if (out.n && nests(&out.outer[out.n - 1], &loop)) {
      loop.count *= out.outer[out.n - 1].count;
      out.n--;
    }
    out.outer[out.n++] = loop;
  }
  int longest = 0;
  for (int i = 1; i < out.n; i++)
    if (out.outer[i].count > out.outer[longest].count) longest = i;
  if (out.n == 0) return out;
  out.inner = out.outer[longest];
  out.n--;
  for (int i = longest; i < out.n; i++) out.outer[i] = out.outer[i + 1];
  for (int i = 0; i < out.n; i++) out.calls *= out.outer[i].count;
  return out;
}

// -- calls ----------------------------------------------------------------------------------------

typedef struct Making {
  GpuProducts *all;
  const BoundGemm *bound;
  GpuOperands at; // addresses in this round of the loops
  Batches batches;
  GpuProduct *out;
  Diag *diag;
} Making;

// Returns the alignment of the matrices of all batches, which are `stride` bytes apart.
static int64_t alignment(CudaAddress at, int64_t stride) {
  CudaAddress bits = at | (CudaAddress)stride;
  int64_t lowest = (int64_t)(bits & (~bits + 1));
  return lowest == 0 || lowest > MOST_ALIGNMENT ? MOST_ALIGNMENT : lowest;
}

static ProductSizes sizes_of(const Making *m, const GemmPiece *p, const GpuOperands *at,
                             CublasLtEpilogue epilogue) {
  const Gemm *w = m->bound->what;
  const BatchLoop *batch = &m->batches.inner;
  int64_t bytes = dtype_bytes(w->factors), result = dtype_bytes(w->type);
  ProductSizes s = {.factors = w->factors,
                    .type = w->type,
                    .tf32 = w->tf32,
                    .ta = w->ta,
                    .tb = w->tb,
                    .m = p->to[0] - p->from[0],
                    .n = p->to[1] - p->from[1],
                    .k = p->to[2] - p->from[2],
                    .lda = w->lda,
                    .ldb = w->ldb,
                    .ldc = w->ldc,
                    .batches = batch->count,
                    .a_stride = batch->a,
                    .b_stride = batch->b,
                    .c_stride = batch->c,
                    .a_align = alignment(at->a, batch->a * bytes),
                    .b_align = alignment(at->b, batch->b * bytes),
                    .c_align = alignment(at->c, batch->c * result),
                    .epilogue = epilogue};
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (at->extra[i]) s.extra_align[i] = alignment(at->extra[i], batch->c * result);
  return s;
}

// Returns the addresses of a piece in repetition `i` of the calls.
static GpuOperands place_of(const Making *m, const GemmPiece *p, int64_t i) {
  const Gemm *w = m->bound->what;
  int64_t m0 = p->from[0], n0 = p->from[1], k0 = p->from[2], bytes = dtype_bytes(w->factors);
  int64_t a = w->ta ? k0 * w->lda + m0 : m0 * w->lda + k0,
          b = w->tb ? n0 * w->ldb + k0 : k0 * w->ldb + n0, c = m0 * w->ldc + n0;
  for (int l = m->batches.n - 1; l >= 0; l--) {
    const BatchLoop *loop = &m->batches.outer[l];
    int64_t at = i % loop->count;
    i /= loop->count;
    a += at * loop->a;
    b += at * loop->b;
    c += at * loop->c;
  }
  CudaAddress moved = (CudaAddress)(c * dtype_bytes(w->type));
  GpuOperands at = {
      m->at.a + (CudaAddress)(a * bytes), m->at.b + (CudaAddress)(b * bytes), m->at.c + moved, {0}};
  for (int e = 0; e < GEMM_EXTRAS; e++)
    if (m->at.extra[e]) at.extra[e] = m->at.extra[e] + (e == GEMM_BIAS ? 0 : moved);
  return at;
}

// Adds calls that set the elements of a piece to 0: sums without terms.
static void clear_piece(const Making *m, const GemmPiece *p, const GpuOperands *at) {
  const Gemm *w = m->bound->what;
  int64_t bytes = dtype_bytes(w->type);
  for (int64_t i = 0; i < m->batches.inner.count; i++)
    m->out->call[m->out->ncalls++] =
        (GpuProductCall){.at.c = at->c + (CudaAddress)(i * m->batches.inner.c * bytes),
                         .pitch = (size_t)(w->ldc * bytes),
                         .width = (size_t)((p->to[1] - p->from[1]) * bytes),
                         .height = (size_t)(p->to[0] - p->from[0])};
}

// Returns the terms of a sum that one call adds up. A result that is narrower than the sums cannot
// take parts of them.
static int64_t longest_sum(const Gemm *w) { return w->type == TYPE_F32 ? LONGEST_SUM : INT64_MAX; }

// Returns what the library does with the sums of a product.
static CublasLtEpilogue epilogue_of(const Gemm *w) {
  int row = gemm_library(w);
  if (row < 0) BUG("a product with an epilogue that the library does not have");
  return product_epilogue(row);
}

// Adds the call of a part of the terms of a piece. A part that is not the first one is added to C,
// and the last one applies the epilogue. Returns false after an error.
static bool add_part(const Making *m, const GemmPiece *part, bool first, bool last,
                     int64_t repetition) {
  GpuOperands at = place_of(m, part, repetition);
  if (!first) at.extra[GEMM_ADDEND] = at.c;
  if (!last) at.extra[GEMM_BIAS] = at.extra[GEMM_AUX] = 0;
  const ProductSizes sizes =
      sizes_of(m, part, &at, last ? epilogue_of(m->bound->what) : CUBLASLT_DEFAULT);
  const ProductKind *kind = kind_of(m->all, &sizes, &at, m->diag);
  if (kind) m->out->call[m->out->ncalls++] = (GpuProductCall){.kind = kind, .at = at};
  return kind;
}

// Adds the calls of a piece in one repetition. Returns false after an error.
static bool add_piece(const Making *m, const GemmPiece *p, int64_t repetition) {
  int64_t longest = longest_sum(m->bound->what);
  GpuOperands at = place_of(m, p, repetition);
  if (p->to[2] == p->from[2]) clear_piece(m, p, &at);
  for (int64_t k = p->from[2]; k < p->to[2];) {
    GemmPiece part = *p;
    part.from[2] = k;
    if (p->to[2] - k > longest) part.to[2] = k + longest;
    if (!add_part(m, &part, k == p->from[2], part.to[2] == p->to[2], repetition)) return false;
    k = part.to[2];
  }
  return true;
}

// -- pieces ---------------------------------------------------------------------------------------

// Writes the pieces to compute in this round to `piece`, and returns their number. Pieces of a
// product that has several are left out if they have no terms; a whole product without terms is 0.
static int64_t pieces_of(const BoundGemm *b, const LoopSteps *steps, GemmPiece *piece) {
  const Gemm *w = b->what;
  int64_t n = 0, all = w->npieces && !w->by_step ? w->npieces : 1;
  for (int64_t i = 0; i < all; i++) {
    GemmPiece p = {.to = {b->m, b->n, b->k}};
    if (w->npieces) p = gemm_piece(b, w->by_step ? steps->at[w->by_step - 1] : i);
    bool empty = p.to[0] == p.from[0] || p.to[1] == p.from[1];
    if (!empty && (all == 1 || p.to[2] > p.from[2])) piece[n++] = p;
  }
  return n;
}

// Returns the number of calls of a piece in one repetition.
static int64_t calls_of(const Making *m, const GemmPiece *p) {
  int64_t terms = p->to[2] - p->from[2], longest = longest_sum(m->bound->what);
  return terms == 0 ? m->batches.inner.count : terms / longest + (terms % longest != 0);
}

bool gpu_product_make(GpuProducts *all, Arena *arena, const BoundGemm *b, GpuOperands at,
                      const LoopSteps *steps, GpuProduct *out, Diag *d) {
  const Gemm *w = b->what;
  Making m = {.all = all, .bound = b, .at = at, .out = out, .diag = d};
  m.at.a += (CudaAddress)ref_moved(w->a, steps->depth, steps->at);
  m.at.b += (CudaAddress)ref_moved(w->b, steps->depth, steps->at);
  m.at.c += (CudaAddress)ref_moved(w->c, steps->depth, steps->at);
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (gemm_extra(w, i))
      m.at.extra[i] += (CudaAddress)ref_moved(*gemm_extra(w, i), steps->depth, steps->at);
  m.batches = batches_of(b);
  GemmPiece *piece = arena_array(arena, GemmPiece, w->npieces + 1);
  int64_t npieces = pieces_of(b, steps, piece), calls = 0;
  for (int64_t i = 0; i < npieces; i++) calls += calls_of(&m, &piece[i]) * m.batches.calls;
  if (m.batches.inner.count == 0) calls = m.batches.calls = 0;
  *out = (GpuProduct){.call = arena_array(arena, GpuProductCall, calls + 1)};
  for (int64_t r = 0; r < m.batches.calls; r++)
    for (int64_t i = 0; i < npieces; i++)
      if (!add_piece(&m, &piece[i], r)) return false;
  return true;
}

bool gpu_product_run(const GpuProducts *all, const GpuProduct *p, Diag *d) {
  for (int64_t i = 0; i < p->ncalls; i++) {
    const GpuProductCall *c = &p->call[i];
    bool good = c->kind
                    ? cublaslt_good(product_kind_run(all->library, c->kind, &c->at, all->workspace,
                                                     GPU_WORKSPACE_BYTES, all->stream),
                                    "cublasLtMatmul", &c->kind->sizes, d)
                    : cuda_good(cuda.MemsetD2D8Async(c->at.c, c->pitch, 0, c->width, c->height,
                                                     all->stream),
                                "cuMemsetD2D8Async", d);
    if (!good) return false;
  }
  return true;
}
