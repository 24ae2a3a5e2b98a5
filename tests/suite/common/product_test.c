// Runs bound products on the stand-in of a GPU and compares them (product_test.h).
#include "tests/suite/common/product_test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gpu/gpu_product.h"
#include "tests/suite/common/standin.h"

enum { POISON = 0x5b }; // each byte of C before a product

struct ProductTest {
  GpuProducts *products;
  CudaStream stream;
  Arena *arena;
  Diag *diag;
  char wrong[300];
};

static void must(const ProductTest *t, CudaResult r, const char *call) {
  if (cuda_good(r, call, t->diag)) return;
  diag_print(t->diag, stdout, false);
  exit(1);
}

ProductTest *product_test_new(void) {
  CudaContext context;
  if (!standin_load()) return NULL;
  const LibraryFound *driver = cuda_open();
  if (!driver->library) printf("%s\n", driver->why);
  if (!driver->library) return NULL;
  ProductTest *t = mem_zeroed(1, sizeof *t);
  t->arena = arena_new();
  t->diag = diag_new(t->arena);
  must(t, cuda.DevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  must(t, cuda.CtxSetCurrent(context), "cuCtxSetCurrent");
  must(t, cuda.StreamCreate(&t->stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate");
  t->products = gpu_products_new(t->stream, t->diag);
  if (t->products) return t;
  diag_print(t->diag, stdout, false);
  return NULL;
}

void product_test_free(ProductTest *t) {
  gpu_products_free(t->products);
  must(t, cuda.StreamDestroy(t->stream), "cuStreamDestroy");
  must(t, cuda.DevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
  arena_free(t->arena);
  free(t);
}

// -- memory ---------------------------------------------------------------------------------------

// One of the operands: its buffers on the host and on the GPU, and its numbers.
typedef struct Operand {
  Dtype type;
  int64_t elements; // of the buffer
  int64_t first;    // element at which the matrix begins in this round
  char *host;
  CudaAddress at;
  double *value;
} Operand;

typedef struct Trial {
  ProductTest *test;
  const BoundGemm *bound;
  Operand a, b, c, extra[GEMM_EXTRAS]; // an operand without elements does not exist
  bool in_place;                       // the addend is C
  double *size;  // by element of C: the sum of the absolute values of its terms
  bool *written; // by element of C
} Trial;

// Small numbers that bf16 has exactly.
static double number(uint64_t i) {
  uint64_t h = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  h *= UINT64_C(0xbf58476d1ce4e5b9);
  return (double)((int64_t)(h >> 40 & 255) - 128) / 128;
}

// Sets up the matrix `rows` x `columns`, with rows `distance` elements apart, whose batches begin
// up to `batches` elements later.
static void operand_new(const Trial *t, Operand *o, Dtype type, Ref ref, const LoopSteps *steps,
                        int64_t shift, int64_t rows, int64_t columns, int64_t distance,
                        int64_t batches) {
  int64_t bytes = dtype_bytes(type);
  o->type = type;
  o->first = shift + ref_moved(ref, steps->depth, steps->at) / bytes;
  o->elements = o->first + batches + (rows > 0 ? rows - 1 : 0) * distance + columns + 1;
  o->host = mem_zeroed((size_t)o->elements, (size_t)bytes);
  o->value = mem_zeroed((size_t)o->elements, sizeof *o->value);
  must(t->test, cuda.MemAlloc(&o->at, (size_t)(o->elements * bytes)), "cuMemAlloc");
}

static void operand_free(const Trial *t, Operand *o) {
  must(t->test, cuda.MemFree(o->at), "cuMemFree");
  free(o->host);
  free(o->value);
}

static void upload(const Trial *t, const Operand *o) {
  must(t->test, cuda.MemcpyHtoD(o->at, o->host, (size_t)(o->elements * dtype_bytes(o->type))),
       "cuMemcpyHtoD");
}

static void fill(const Trial *t, Operand *o, uint64_t seed) {
  for (int64_t i = 0; i < o->elements; i++) {
    o->value[i] = number(seed + (uint64_t)i);
    dtype_store(o->type, o->host + i * dtype_bytes(o->type), o->value[i]);
  }
  upload(t, o);
}

static void fill_poison(const Trial *t, Operand *o) {
  memset(o->host, POISON, (size_t)(o->elements * dtype_bytes(o->type)));
  upload(t, o);
}

// Sets up the operands of the epilogue. batches: where the last matrix of C begins.
static void extras_new(Trial *t, const LoopSteps *steps, int64_t shift, int64_t batches) {
  const BoundGemm *b = t->bound;
  const Gemm *g = b->what;
  t->in_place = gemm_extra(g, GEMM_ADDEND) && b->extra[GEMM_ADDEND] == b->c;
  for (int i = 0; i < GEMM_EXTRAS; i++) {
    bool bias = i == GEMM_BIAS;
    if (!gemm_extra(g, i)) continue;
    operand_new(t, &t->extra[i], g->type, *gemm_extra(g, i), steps, shift, bias ? 1 : b->m, b->n,
                bias ? b->n : g->ldc, bias ? 0 : batches);
    if (gemm_writes_extra(g, i))
      fill_poison(t, &t->extra[i]);
    else
      fill(t, &t->extra[i], UINT64_C(3) << (32 + i));
  }
}

static void trial_new(Trial *t, const LoopSteps *steps, int64_t shift) {
  const BoundGemm *b = t->bound;
  const Gemm *g = b->what;
  int64_t last[3] = {0}; // where the last batches begin
  for (int i = 0; i < g->nbatch && b->batches > 0; i++) {
    last[0] += (b->count[i] - 1) * g->batch[i].a;
    last[1] += (b->count[i] - 1) * g->batch[i].b;
    last[2] += (b->count[i] - 1) * g->batch[i].c;
  }
  operand_new(t, &t->a, g->factors, g->a, steps, shift, g->ta ? b->k : b->m, g->ta ? b->m : b->k,
              g->lda, last[0]);
  operand_new(t, &t->b, g->factors, g->b, steps, shift, g->tb ? b->n : b->k, g->tb ? b->k : b->n,
              g->ldb, last[1]);
  operand_new(t, &t->c, g->type, g->c, steps, shift, b->m, b->n, g->ldc, last[2]);
  t->size = mem_zeroed((size_t)t->c.elements, sizeof *t->size);
  t->written = mem_zeroed((size_t)t->c.elements, sizeof *t->written);
  fill(t, &t->a, 1);
  fill(t, &t->b, UINT64_C(1) << 32);
  fill_poison(t, &t->c);
  extras_new(t, steps, shift, last[2]);
  if (!t->in_place) return;
  int64_t bytes = dtype_bytes(g->type);
  memcpy(t->c.host, t->extra[GEMM_ADDEND].host, (size_t)(t->c.elements * bytes));
  upload(t, &t->c);
}

static void trial_free(Trial *t) {
  operand_free(t, &t->a);
  operand_free(t, &t->b);
  operand_free(t, &t->c);
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (t->extra[i].elements) operand_free(t, &t->extra[i]);
  free(t->size);
  free(t->written);
}

// -- the triple loop ------------------------------------------------------------------------------

// Applies the epilogue to element `at` of C, in column j.
static void expect_epilogue(Trial *t, int64_t at, int64_t j) {
  const Gemm *g = t->bound->what;
  double x[GEMM_EXTRAS] = {0};
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (gemm_extra(g, i) && !gemm_writes_extra(g, i))
      x[i] = t->extra[i].value[i == GEMM_BIAS ? t->extra[i].first + j : at];
  double v = t->c.value[at] + x[GEMM_ADDEND] + x[GEMM_BIAS];
  t->size[at] += fabs(x[GEMM_ADDEND]) + fabs(x[GEMM_BIAS]);
  if (gemm_writes_extra(g, GEMM_AUX)) t->extra[GEMM_AUX].value[at] = v;
  t->c.value[at] = gemm_act(g->epilogue->act, v, x[GEMM_AUX]);
}

// Computes a piece of the product whose matrices begin at elements a, b, c.
static void expect_piece(Trial *t, const GemmPiece *p, int64_t a, int64_t b, int64_t c) {
  const BoundGemm *x = t->bound;
  const Gemm *g = x->what;
  for (int64_t i = p->from[0]; i < p->to[0] && i < x->m; i++)
    for (int64_t j = p->from[1]; j < p->to[1] && j < x->n; j++) {
      int64_t at = c + i * g->ldc + j;
      t->c.value[at] = t->size[at] = 0;
      t->written[at] = true;
      for (int64_t k = p->from[2]; k < p->to[2] && k < x->k; k++) {
        double term = t->a.value[a + (g->ta ? k * g->lda + i : i * g->lda + k)] *
                      t->b.value[b + (g->tb ? j * g->ldb + k : k * g->ldb + j)];
        t->c.value[at] += term;
        t->size[at] += fabs(term);
      }
      if (g->epilogue) expect_epilogue(t, at, j);
    }
}

static void expect(Trial *t, const LoopSteps *steps) {
  const BoundGemm *x = t->bound;
  const Gemm *g = x->what;
  for (int64_t i = 0; i < x->batches; i++) {
    int64_t rest = i, a = t->a.first, b = t->b.first, c = t->c.first;
    for (int l = g->nbatch - 1; l >= 0; l--) {
      int64_t step = rest % x->count[l];
      rest /= x->count[l];
      a += step * g->batch[l].a;
      b += step * g->batch[l].b;
      c += step * g->batch[l].c;
    }
    GemmPiece whole = {.to = {x->m, x->n, x->k}};
    if (!g->npieces) expect_piece(t, &whole, a, b, c);
    if (g->by_step) expect_piece(t, &g->piece[steps->at[g->by_step - 1]], a, b, c);
    for (int32_t p = 0; p < g->npieces && !g->by_step; p++)
      if (g->piece[p].from[2] < g->piece[p].to[2]) // one without terms is left out
        expect_piece(t, &g->piece[p], a, b, c);
  }
}

// -- running --------------------------------------------------------------------------------------

static bool launch(const Trial *t, const GpuProduct *p, bool captured) {
  ProductTest *x = t->test;
  CudaGraph graph = NULL;
  CudaGraphExec exec = NULL;
  if (!captured) return gpu_product_run(x->products, p, x->diag);
  must(x, cuda.StreamBeginCapture(x->stream, CUDA_CAPTURE_THREAD), "cuStreamBeginCapture");
  bool good = gpu_product_run(x->products, p, x->diag);
  must(x, cuda.StreamEndCapture(x->stream, &graph), "cuStreamEndCapture");
  must(x, cuda.GraphInstantiate(&exec, graph, 0), "cuGraphInstantiate");
  must(x, cuda.GraphLaunch(exec, x->stream), "cuGraphLaunch");
  must(x, cuda.GraphLaunch(exec, x->stream), "cuGraphLaunch");
  must(x, cuda.StreamSynchronize(x->stream), "cuStreamSynchronize");
  must(x, cuda.GraphExecDestroy(exec), "cuGraphExecDestroy");
  must(x, cuda.GraphDestroy(graph), "cuGraphDestroy");
  return good;
}

// Returns NULL if all elements of a result, C or a matrix that is stored as C is, are right.
static const char *judge(const Trial *t, const Operand *c) {
  double unit = c->type == TYPE_BF16 ? 0x1p-8 : c->type == TYPE_F32 ? 0x1p-22 : 0x1p-50;
  if (t->bound->what->epilogue) unit *= 2; // the functions are steeper than 1, at most 1.13
  int64_t bytes = dtype_bytes(c->type);
  for (int64_t i = 0; i < c->elements; i++) {
    double got = dtype_load(c->type, c->host + i * bytes);
    bool kept = t->in_place;
    for (int64_t k = 0; k < bytes && !t->in_place; k++) {
      kept = c->host[i * bytes + k] == POISON;
      if (!kept) break;
    }
    if (t->written[i] ? fabs(got - c->value[i]) <= unit * t->size[i] : kept) continue;
    snprintf(t->test->wrong, sizeof t->test->wrong, "element %lld is %g, %s %g",
             (long long)(i - c->first), got,
             t->written[i] ? "wanted" : "and must not be written, as", c->value[i]);
    return t->test->wrong;
  }
  return NULL;
}

static void download(const Trial *t, Operand *o) {
  must(t->test, cuda.MemcpyDtoH(o->host, o->at, (size_t)(o->elements * dtype_bytes(o->type))),
       "cuMemcpyDtoH");
}

// Returns the addresses of the operands in round 0 of all loops.
static GpuOperands places_of(const Trial *t, int64_t shift) {
  CudaAddress factors = (CudaAddress)(shift * dtype_bytes(t->a.type)),
              result = (CudaAddress)(shift * dtype_bytes(t->c.type));
  GpuOperands at = {t->a.at + factors, t->b.at + factors, t->c.at + result, {0}};
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (t->extra[i].elements) at.extra[i] = t->extra[i].at + result;
  if (t->in_place) at.extra[GEMM_ADDEND] = at.c;
  return at;
}

const char *product_test(ProductTest *test, const BoundGemm *b, const LoopSteps *steps,
                         int64_t shift, bool captured) {
  Trial t = {.test = test, .bound = b};
  GpuProduct p;
  trial_new(&t, steps, shift);
  const GpuOperands at = places_of(&t, shift);
  bool good = gpu_product_make(test->products, test->arena, b, at, steps, &p, test->diag) &&
              launch(&t, &p, captured);
  must(test, cuda.StreamSynchronize(test->stream), "cuStreamSynchronize");
  download(&t, &t.c);
  expect(&t, steps);
  const char *wrong = good ? judge(&t, &t.c) : "the product cannot be made or run";
  if (!wrong && gemm_writes_extra(b->what, GEMM_AUX)) {
    download(&t, &t.extra[GEMM_AUX]);
    wrong = judge(&t, &t.extra[GEMM_AUX]);
  }
  if (!good) diag_print(test->diag, stdout, false);
  trial_free(&t);
  return wrong;
}
