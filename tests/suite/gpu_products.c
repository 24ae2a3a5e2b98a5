// Products of matrices on a GPU (runtime/gpu/gpu_product.c) by the stand-ins for the driver and for
// cuBLASLt, against a plain triple loop: all types and transposes, rows further apart than they are
// long, batches of all kinds, pieces, places that move with loops, long sums, sums without terms.
// Elements that a product does not write must stay as they were. Each product also runs from a
// captured graph.
//
//   gpu_products [NAME]    only the cases whose name has NAME in it
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/mem.h"
#include "runtime/gpu/gpu_product.h"
#include "tests/suite/common/standin.h"

enum { POISON = 0x5b };                   // each byte of C before a product
enum { SHORT = 1 << 12, LONG = 1 << 17 }; // elements of a buffer; LONG for long sums

static int passed, failed;
static int64_t elements; // of each buffer
static GpuProducts *products;
static CudaStream stream;
static Arena *arena;
static Diag *diag;

static void must(CudaResult r, const char *call) {
  if (cuda_good(r, call, diag)) return;
  diag_print(diag, stdout, false);
  exit(1);
}

// -- cases ----------------------------------------------------------------------------------------

typedef struct Loop {
  int64_t count, a, b, c;
} Loop;
typedef struct Case {
  const char *name;
  int64_t m, n, k;
  bool ta, tb;
  int64_t lda, ldb, ldc; // 0: rows follow one another
  Loop loop[3];          // batch loops, outermost first; count 0 ends the list
  bool none;             // the first loop has no steps
  int npieces;
  GemmPiece piece[4];
  int32_t by_step;
  int64_t step;     // of the loop around the product
  int64_t moved[3]; // elements by which A, B and C move in each step of that loop
  int64_t shift;    // elements of A, B and C before the matrices: addresses that are not aligned
} Case;

static const Case cases[] = {
    {"one element", 1, 1, 1, .ta = false},
    {"odd sizes", 5, 7, 3, .ta = false},
    {"blocks", 64, 48, 32, .ta = false},
    {"A transposed", 33, 17, 9, .ta = true},
    {"B transposed", 33, 17, 9, .tb = true},
    {"both transposed", 33, 17, 9, .ta = true, .tb = true},
    {"one row", 1, 33, 17, .ta = false},
    {"one row, B transposed", 1, 33, 17, .tb = true},
    {"one row of a wide matrix", 1, 33, 17, .lda = 40, .ldb = 50, .ldc = 60},
    {"one column", 33, 1, 17, .ta = false},
    {"one column, A transposed", 33, 1, 17, .ta = true},
    {"one term", 33, 17, 1, .ta = false},
    {"one term, both transposed", 33, 17, 1, .ta = true, .tb = true},
    {"rows apart", 6, 5, 4, .lda = 9, .ldb = 11, .ldc = 13},
    {"rows apart, transposed", 6, 5, 4, .ta = true, .tb = true, .lda = 9, .ldb = 11, .ldc = 13},
    {"no alignment", 16, 16, 16, .shift = 1},
    {"no alignment, rows apart", 16, 16, 16, .lda = 17, .ldb = 19, .ldc = 21, .shift = 3},
    {"no rows", 0, 8, 8, .ta = false},
    {"no columns", 8, 0, 8, .ta = false},
    {"no terms", 8, 6, 0, .ldc = 9},
    {"no terms, batches", 8, 6, 0, .loop = {{3, 0, 0, 64}}},
    {"batches", 8, 6, 4, .loop = {{5, 32, 24, 48}}},
    {"batches that share B", 8, 6, 4, .loop = {{5, 32, 0, 48}}},
    {"batches that share A", 8, 6, 4, .loop = {{5, 0, 24, 48}}},
    {"batches apart", 8, 6, 4, .loop = {{5, 35, 29, 61}}},
    {"batches within rows", 8, 6, 4, .lda = 12, .ldb = 18, .ldc = 18, .loop = {{3, 4, 6, 6}}},
    {"heads", 16, 16, 8, .tb = true, .lda = 24, .ldb = 24, .ldc = 16,
     .loop = {{2, 384, 384, 768}, {3, 8, 8, 256}}},
    {"two loops that nest", 8, 6, 4, .loop = {{2, 96, 72, 144}, {3, 32, 24, 48}}},
    {"two loops that do not nest", 8, 6, 4, .loop = {{2, 100, 72, 150}, {3, 32, 24, 48}}},
    {"the outer loop is the longer one", 8, 6, 4, .loop = {{5, 100, 80, 150}, {3, 32, 24, 48}}},
    {"three loops, two of which nest", 4, 4, 4,
     .loop = {{2, 200, 100, 300}, {3, 32, 32, 32}, {2, 16, 16, 16}}},
    {"a loop of one step", 8, 6, 4, .loop = {{1, 7, 7, 7}, {3, 32, 24, 48}}},
    {"no batches", 8, 6, 4, .loop = {{2, 32, 24, 48}}, .none = true},
    {"long sums", 3, 3, 40000, .tb = true},
    {"long sums, A transposed", 4, 3, 16385, .ta = true},
    {"pieces with gaps", 12, 12, 5, .npieces = 3,
     .piece = {{{0, 0, 0}, {4, 4, 5}}, {{4, 0, 0}, {8, 8, 5}}, {{8, 0, 0}, {12, 12, 5}}}},
    {"pieces with other terms", 12, 6, 12, .npieces = 3,
     .piece = {{{0, 0, 0}, {4, 6, 4}}, {{4, 0, 0}, {8, 6, 8}}, {{8, 0, 0}, {12, 6, 12}}}},
    {"pieces, both transposed", 12, 6, 12, .ta = true, .tb = true, .npieces = 2,
     .piece = {{{0, 0, 0}, {5, 6, 7}}, {{5, 0, 3}, {12, 6, 12}}}},
    {"pieces, batches", 8, 8, 4, .loop = {{2, 40, 40, 70}}, .npieces = 2,
     .piece = {{{0, 0, 0}, {4, 4, 4}}, {{4, 0, 0}, {8, 8, 4}}}},
    {"a piece without terms", 8, 8, 8, .npieces = 2,
     .piece = {{{0, 0, 8}, {4, 8, 8}}, {{4, 0, 0}, {8, 8, 8}}}},
    {"pieces that reach into padding", 7, 6, 5, .npieces = 2,
     .piece = {{{0, 0, 0}, {4, 8, 4}}, {{4, 0, 0}, {8, 8, 8}}}},
    {"a piece for each step", 8, 8, 8, .npieces = 3, .by_step = 1, .step = 1,
     .piece = {{{0, 0, 0}, {8, 2, 8}}, {{0, 2, 0}, {8, 5, 8}}, {{0, 5, 0}, {8, 8, 8}}}},
    {"places that move", 8, 6, 4, .step = 3, .moved = {40, 30, 50}},
};

typedef struct Types {
  Dtype factors, type;
} Types;
static const Types types[] = {
    {TYPE_F32, TYPE_F32}, {TYPE_F64, TYPE_F64}, {TYPE_BF16, TYPE_BF16}, {TYPE_BF16, TYPE_F32}};

// Makes the product of a case.
static void describe(const Case *x, Types t, Gemm *g, BoundGemm *b, int64_t stride[3][LOOP_DEPTH]) {
  memset(stride, 0, 3 * LOOP_DEPTH * sizeof(int64_t));
  *g = (Gemm){.factors = t.factors,
              .type = t.type,
              .ta = x->ta,
              .tb = x->tb,
              .lda = x->lda  ? x->lda
                     : x->ta ? x->m
                             : x->k,
              .ldb = x->ldb  ? x->ldb
                     : x->tb ? x->k
                             : x->n,
              .ldc = x->ldc ? x->ldc : x->n,
              .npieces = x->npieces,
              .by_step = x->by_step,
              .piece = x->piece};
  Ref *const ref[3] = {&g->a, &g->b, &g->c};
  for (int i = 0; i < 3; i++) {
    stride[i][0] = x->moved[i] * dtype_bytes(i == 2 ? t.type : t.factors);
    ref[i]->stride = stride[i];
  }
  *b = (BoundGemm){.what = g, .m = x->m, .n = x->n, .k = x->k, .batches = 1};
  for (int i = 0; i < 3 && x->loop[i].count; i++) {
    g->batch[i].a = x->loop[i].a;
    g->batch[i].b = x->loop[i].b;
    g->batch[i].c = x->loop[i].c;
    b->count[i] = i == 0 && x->none ? 0 : x->loop[i].count;
    b->batches *= b->count[i];
    g->nbatch++;
  }
}

// -- the triple loop ------------------------------------------------------------------------------

// What C is to be. An element that is not written has the value of the poison.
typedef struct Truth {
  double *a, *b; // elements of the buffers
  double *value; // of C
  double *size;  // of C: the sum of the absolute values of its terms
  bool *written;
} Truth;

static void expect_piece(const BoundGemm *b, const GemmPiece *p, const int64_t at[3], Truth *t) {
  const Gemm *g = b->what;
  for (int64_t i = p->from[0]; i < p->to[0] && i < b->m; i++)
    for (int64_t j = p->from[1]; j < p->to[1] && j < b->n; j++) {
      int64_t c = at[2] + i * g->ldc + j;
      t->value[c] = t->size[c] = 0;
      t->written[c] = true;
      for (int64_t k = p->from[2]; k < p->to[2] && k < b->k; k++) {
        double term = t->a[at[0] + (g->ta ? k * g->lda + i : i * g->lda + k)] *
                      t->b[at[1] + (g->tb ? j * g->ldb + k : k * g->ldb + j)];
        t->value[c] += term;
        t->size[c] += fabs(term);
      }
    }
}

static void expect(const Case *x, const BoundGemm *b, Truth *t) {
  const Gemm *g = b->what;
  for (int64_t i = 0; i < b->batches; i++) {
    int64_t rest = i, at[3];
    for (int o = 0; o < 3; o++) at[o] = x->shift + x->step * x->moved[o];
    for (int l = g->nbatch - 1; l >= 0; l--) {
      int64_t step = rest % b->count[l];
      rest /= b->count[l];
      at[0] += step * g->batch[l].a;
      at[1] += step * g->batch[l].b;
      at[2] += step * g->batch[l].c;
    }
    GemmPiece whole = {.to = {b->m, b->n, b->k}};
    if (!g->npieces) expect_piece(b, &whole, at, t);
    for (int32_t p = 0; p < g->npieces; p++) {
      // a piece among several that has no terms is left out
      bool empty = g->piece[p].from[2] >= g->piece[p].to[2];
      if (g->by_step ? p == x->step : !empty) expect_piece(b, &g->piece[p], at, t);
    }
  }
}

// -- running --------------------------------------------------------------------------------------

// Small numbers that bf16 has exactly.
static double element(uint64_t i) {
  uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  return (double)((int64_t)(h >> 40 & 255) - 128) / 128;
}

static void fill(Dtype t, uint64_t seed, char *to, double *value) {
  for (int64_t i = 0; i < elements; i++) {
    value[i] = element(seed * LONG + (uint64_t)i);
    dtype_store(t, to + i * dtype_bytes(t), value[i]);
  }
}

typedef struct Run {
  CudaAddress at[3];
  char *host[3];
  size_t bytes[3];
} Run;

static void prepare(Run *r, Types t, Truth *truth) {
  for (int i = 0; i < 3; i++) {
    Dtype type = i == 2 ? t.type : t.factors;
    r->bytes[i] = (size_t)elements * (size_t)dtype_bytes(type);
    r->host[i] = mem_zeroed(r->bytes[i], 1);
    must(cuda.MemAlloc(&r->at[i], r->bytes[i]), "cuMemAlloc");
  }
  fill(t.factors, 1, r->host[0], truth->a);
  fill(t.factors, 2, r->host[1], truth->b);
  memset(r->host[2], POISON, r->bytes[2]);
  for (int i = 0; i < 3; i++)
    must(cuda.MemcpyHtoD(r->at[i], r->host[i], r->bytes[i]), "cuMemcpyHtoD");
}

static void release(Run *r) {
  for (int i = 0; i < 3; i++) {
    must(cuda.MemFree(r->at[i]), "cuMemFree");
    free(r->host[i]);
  }
}

// Runs the product in the stream, or twice from a graph that the stream has captured.
static bool launch(const GpuProduct *p, bool captured) {
  CudaGraph graph = NULL;
  CudaGraphExec exec = NULL;
  if (!captured) return gpu_product_run(products, p, diag);
  must(cuda.StreamBeginCapture(stream, CUDA_CAPTURE_THREAD), "cuStreamBeginCapture");
  bool good = gpu_product_run(products, p, diag);
  must(cuda.StreamEndCapture(stream, &graph), "cuStreamEndCapture");
  must(cuda.GraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
  must(cuda.GraphLaunch(exec, stream), "cuGraphLaunch");
  must(cuda.GraphLaunch(exec, stream), "cuGraphLaunch");
  must(cuda.StreamSynchronize(stream), "cuStreamSynchronize");
  must(cuda.GraphExecDestroy(exec), "cuGraphExecDestroy");
  must(cuda.GraphDestroy(graph), "cuGraphDestroy");
  return good;
}

// Returns the index of the first element of C that is wrong, or -1.
static int64_t first_wrong(Types t, const char *c, const Truth *truth) {
  double unit = t.type == TYPE_BF16 ? 1.0 / 256 : t.type == TYPE_F32 ? 0x1p-22 : 0x1p-50;
  int64_t bytes = dtype_bytes(t.type);
  for (int64_t i = 0; i < elements; i++) {
    double got = dtype_load(t.type, c + i * bytes);
    bool kept = true;
    for (int64_t k = 0; k < bytes; k++) kept &= c[i * bytes + k] == POISON;
    if (truth->written[i] ? !(fabs(got - truth->value[i]) <= unit * truth->size[i]) : !kept)
      return i;
  }
  return -1;
}

static void report(const Case *x, Types t, bool captured, int64_t wrong, const char *c,
                   const Truth *truth) {
  if (wrong < 0) passed++;
  if (wrong < 0) return;
  failed++;
  printf("FAIL %s, %s to %s%s: element %lld is %g, not %g%s\n", x->name, dtype_text(t.factors),
         dtype_text(t.type), captured ? ", captured" : "", (long long)wrong,
         dtype_load(t.type, c + wrong * dtype_bytes(t.type)), truth->value[wrong],
         truth->written[wrong] ? "" : ", and must not be written");
}

static void run(const Case *x, Types t, bool captured) {
  Gemm g;
  BoundGemm b;
  int64_t stride[3][LOOP_DEPTH], bytes = dtype_bytes(t.factors);
  elements = x->k > SHORT ? LONG : SHORT;
  Truth truth = {
      mem_zeroed((size_t)elements, sizeof(double)), mem_zeroed((size_t)elements, sizeof(double)),
      mem_zeroed((size_t)elements, sizeof(double)), mem_zeroed((size_t)elements, sizeof(double)),
      mem_zeroed((size_t)elements, sizeof(bool))};
  Run r;
  GpuProduct p;
  describe(x, t, &g, &b, stride);
  prepare(&r, t, &truth);
  const GpuOperands at = {r.at[0] + (CudaAddress)(x->shift * bytes),
                          r.at[1] + (CudaAddress)(x->shift * bytes),
                          r.at[2] + (CudaAddress)(x->shift * dtype_bytes(t.type))};
  LoopSteps steps = {.depth = 1, .at = {x->step}};
  bool good = gpu_product_make(products, arena, &b, at, &steps, &p, diag) && launch(&p, captured);
  must(cuda.StreamSynchronize(stream), "cuStreamSynchronize");
  must(cuda.MemcpyDtoH(r.host[2], r.at[2], r.bytes[2]), "cuMemcpyDtoH");
  expect(x, &b, &truth);
  if (good)
    report(x, t, captured, first_wrong(t, r.host[2], &truth), r.host[2], &truth);
  else
    failed++, printf("FAIL %s\n", x->name), diag_print(diag, stdout, false);
  release(&r);
  free(truth.a), free(truth.b), free(truth.value), free(truth.size), free(truth.written);
}

// -------------------------------------------------------------------------------------------------

static bool begin(void) {
  CudaContext context;
  const LibraryFound *driver = cuda_open();
  if (!driver->library) printf("%s\n", driver->why);
  if (!driver->library) return false;
  must(cuda.DevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(cuda.CtxSetCurrent(context), "cuCtxSetCurrent");
  must(cuda.StreamCreate(&stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
  products = gpu_products_new(stream, diag);
  if (!products) diag_print(diag, stdout, false);
  return products != NULL;
}

static void end(void) {
  gpu_products_free(products);
  must(cuda.StreamDestroy(stream), "cuStreamDestroy");
  must(cuda.DevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
}

int main(int argc, char **argv) {
  const char *only = argc > 1 ? argv[1] : "";
  arena = arena_new();
  diag = diag_new(arena);
  if (!standin_load() || !begin()) return printf("0 passed, 1 failed, 0 skipped\n"), 1;
  for (size_t i = 0; i < countof(cases); i++)
    for (size_t t = 0; t < countof(types) && strstr(cases[i].name, only); t++)
      for (int captured = 0; captured < 2; captured++) run(&cases[i], types[t], captured);
  end();
  arena_free(arena);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed != 0;
}
