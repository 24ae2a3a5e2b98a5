// A stand-in for libcublasLt.so.13 on a machine without a GPU: the functions of
// runtime/gpu/cublaslt.def, with the types of runtime/gpu/cublaslt.h. A product is an operation of
// a stream of the stand-in of libcuda, in whose memory it is computed on the CPU (multiply.c), and
// which checks its accesses.
//
// The stand-in is stricter than the library: what contradicts the descriptions of a product ends
// the process with a sentence (tests/standin/fail.h). An algorithm remembers the product and the
// alignments for which it was chosen, and serves no other.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/standin/cublaslt/multiply.h"
#include "tests/standin/fail.h"
#include "tests/standin/standin.h"

// The library exports its functions.
#define CUBLASLT_FUNCTION(member, symbol, result, parameters)                                      \
  __attribute__((visibility("default"))) result symbol parameters;
#include "runtime/gpu/cublaslt.def"

enum { VERSION = 130100, WORKSPACE = 1 << 16 }; // bytes of workspace that each product uses

// What an object is, so that one that was destroyed, or never made, is found.
typedef enum Sort { DESTROYED = 0x0ff, HANDLE = 0x1a, PRODUCT, LAYOUT, PREFERENCE } Sort;
// The start of each object. All objects are kept in a list, those that were destroyed, too.
typedef struct Head {
  Sort sort;
  struct Head *next;
} Head;

struct cublasLtContext {
  Head head;
};
struct CublasLtProductBody {
  Head head;
  CublasCompute compute;
  CublasType scale;
  int32_t transpose[2];
  uint32_t epilogue;
  const void *bias;
  void *aux;
  int64_t aux_distance;
};
struct CublasLtLayoutBody {
  Head head;
  Matrix matrix;
};
struct CublasLtPreferenceBody {
  Head head;
  uint64_t workspace;
  uint32_t schemes, align[4]; // of A, B, C, D
};

static Head *objects;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

// Objects that a successful process leaves behind are an error.
static void look_for_leaks(int code, void *unused) {
  (void)unused;
  for (const Head *h = objects; h && code == 0; h = h->next)
    if (h->sort != DESTROYED) standin_fail("cuBLASLt: an object was not destroyed");
}

static void *make(size_t bytes, Sort sort) {
  Head *out = calloc(1, bytes);
  if (!out) standin_fail("cuBLASLt: out of memory");
  pthread_mutex_lock(&gate);
  if (!objects) on_exit(look_for_leaks, NULL);
  *out = (Head){sort, objects};
  objects = out;
  pthread_mutex_unlock(&gate);
  return out;
}

static void need(const void *object, Sort sort, const char *call) {
  if (!object) standin_fail("%s: NULL in place of an object", call);
  if (((const Head *)object)->sort != sort)
    standin_fail("%s: the object was destroyed, or is of another sort", call);
}

static CublasStatus destroy(void *object, Sort sort, const char *call) {
  need(object, sort, call);
  ((Head *)object)->sort = DESTROYED;
  return CUBLAS_OK;
}

// Copies the value of an attribute, which must have the size of its type.
static void take(void *to, size_t size, const void *value, size_t bytes, const char *call) {
  if (!value || bytes != size)
    standin_fail("%s: a value of %zu bytes, and the attribute has %zu", call, value ? bytes : 0,
                 size);
  memcpy(to, value, size);
}

// -- objects --------------------------------------------------------------------------------------

size_t cublasLtGetVersion(void) { return VERSION; }

const char *cublasLtGetStatusName(CublasStatus status) {
  static const struct {
    CublasStatus status;
    const char *name;
  } names[] = {
#define CUBLASLT_STATUS(own, value, theirs) {own, #theirs},
#include "runtime/gpu/cublaslt.def"
  };
  for (size_t i = 0; i < countof(names); i++)
    if (names[i].status == status) return names[i].name;
  return "an unknown status";
}

CublasStatus cublasLtCreate(CublasLtHandle *handle) {
  if (!handle) standin_fail("cublasLtCreate: NULL");
  *handle = make(sizeof **handle, HANDLE);
  return CUBLAS_OK;
}

CublasStatus cublasLtDestroy(CublasLtHandle handle) {
  return destroy(handle, HANDLE, "cublasLtDestroy");
}

CublasStatus cublasLtMatmulDescCreate(CublasLtProduct *product, CublasCompute compute,
                                      CublasType scale) {
  if (!product) standin_fail("cublasLtMatmulDescCreate: NULL");
  if ((compute == CUBLAS_SUMS_F64) != (scale == CUBLAS_F64) ||
      (compute == CUBLAS_SUMS_F32 || compute == CUBLAS_SUMS_TF32) != (scale == CUBLAS_F32))
    standin_fail("cublasLtMatmulDescCreate: sums %d with scales of type %d", (int)compute,
                 (int)scale);
  *product = make(sizeof **product, PRODUCT);
  (*product)->compute = compute;
  (*product)->scale = scale;
  (*product)->epilogue = CUBLASLT_DEFAULT;
  return CUBLAS_OK;
}

CublasStatus cublasLtMatmulDescDestroy(CublasLtProduct product) {
  return destroy(product, PRODUCT, "cublasLtMatmulDescDestroy");
}

CublasStatus cublasLtMatmulDescSetAttribute(CublasLtProduct product,
                                            CublasLtProductAttribute attribute, const void *value,
                                            size_t bytes) {
  static const char call[] = "cublasLtMatmulDescSetAttribute";
  need(product, PRODUCT, call);
  const struct {
    CublasLtProductAttribute attribute;
    void *to;
    size_t size;
  } all[] = {{CUBLASLT_PRODUCT_TRANSPOSE_A, &product->transpose[0], sizeof product->transpose[0]},
             {CUBLASLT_PRODUCT_TRANSPOSE_B, &product->transpose[1], sizeof product->transpose[1]},
             {CUBLASLT_PRODUCT_EPILOGUE, &product->epilogue, sizeof product->epilogue},
             {CUBLASLT_PRODUCT_BIAS, &product->bias, sizeof product->bias},
             {CUBLASLT_PRODUCT_AUX, &product->aux, sizeof product->aux},
             {CUBLASLT_PRODUCT_AUX_DISTANCE, &product->aux_distance, sizeof product->aux_distance}};
  size_t i = 0;
  while (i < countof(all) && all[i].attribute != attribute) i++;
  if (i == countof(all)) standin_fail("%s: attribute %d is not known here", call, (int)attribute);
  take(all[i].to, all[i].size, value, bytes, call);
  for (int k = 0; k < 2; k++)
    if (product->transpose[k] != CUBLAS_AS_STORED && product->transpose[k] != CUBLAS_TRANSPOSED)
      standin_fail("%s: operation %d", call, (int)product->transpose[k]);
  return CUBLAS_OK;
}

CublasStatus cublasLtMatrixLayoutCreate(CublasLtLayout *layout, CublasType type, uint64_t rows,
                                        uint64_t columns, int64_t distance) {
  static const char call[] = "cublasLtMatrixLayoutCreate";
  if (!layout) standin_fail("%s: NULL", call);
  if (!rows || !columns || rows > INT32_MAX || columns > INT32_MAX)
    standin_fail("%s: a matrix of %llu x %llu", call, (unsigned long long)rows,
                 (unsigned long long)columns);
  if (distance < (int64_t)rows)
    standin_fail("%s: columns of %lld elements, %lld apart", call, (long long)rows,
                 (long long)distance);
  *layout = make(sizeof **layout, LAYOUT);
  (*layout)->matrix = (Matrix){.type = type,
                               .rows = (int64_t)rows,
                               .columns = (int64_t)columns,
                               .distance = distance,
                               .batches = 1};
  return CUBLAS_OK;
}

CublasStatus cublasLtMatrixLayoutDestroy(CublasLtLayout layout) {
  return destroy(layout, LAYOUT, "cublasLtMatrixLayoutDestroy");
}

CublasStatus cublasLtMatrixLayoutSetAttribute(CublasLtLayout layout,
                                              CublasLtLayoutAttribute attribute, const void *value,
                                              size_t bytes) {
  static const char call[] = "cublasLtMatrixLayoutSetAttribute";
  need(layout, LAYOUT, call);
  Matrix *m = &layout->matrix;
  int32_t batches = 1;
  switch (attribute) {
  case CUBLASLT_LAYOUT_BATCHES: take(&batches, sizeof batches, value, bytes, call); break;
  case CUBLASLT_LAYOUT_BATCH_STRIDE:
    take(&m->stride, sizeof m->stride, value, bytes, call);
    return CUBLAS_OK;
  default: standin_fail("%s: attribute %d is not known here", call, (int)attribute);
  }
  if (batches < 1) standin_fail("%s: %d batches", call, (int)batches);
  m->batches = batches;
  return CUBLAS_OK;
}

CublasStatus cublasLtMatmulPreferenceCreate(CublasLtPreference *preference) {
  if (!preference) standin_fail("cublasLtMatmulPreferenceCreate: NULL");
  *preference = make(sizeof **preference, PREFERENCE);
  for (int i = 0; i < 4; i++) (*preference)->align[i] = 256;
  return CUBLAS_OK;
}

CublasStatus cublasLtMatmulPreferenceDestroy(CublasLtPreference preference) {
  return destroy(preference, PREFERENCE, "cublasLtMatmulPreferenceDestroy");
}

CublasStatus cublasLtMatmulPreferenceSetAttribute(CublasLtPreference p,
                                                  CublasLtPreferenceAttribute attribute,
                                                  const void *value, size_t bytes) {
  static const char call[] = "cublasLtMatmulPreferenceSetAttribute";
  need(p, PREFERENCE, call);
  switch (attribute) {
  case CUBLASLT_PREFER_WORKSPACE_BYTES:
    take(&p->workspace, sizeof p->workspace, value, bytes, call);
    return CUBLAS_OK;
  case CUBLASLT_PREFER_SCHEMES: take(&p->schemes, sizeof p->schemes, value, bytes, call); break;
  case CUBLASLT_PREFER_ALIGNMENT_A:
  case CUBLASLT_PREFER_ALIGNMENT_B:
  case CUBLASLT_PREFER_ALIGNMENT_C:
  case CUBLASLT_PREFER_ALIGNMENT_D:
    take(&p->align[attribute - CUBLASLT_PREFER_ALIGNMENT_A], sizeof p->align[0], value, bytes,
         call);
    break;
  default: standin_fail("%s: attribute %d is not known here", call, (int)attribute);
  }
  return CUBLAS_OK;
}

// -- products -------------------------------------------------------------------------------------

// What an algorithm remembers in CublasLtAlgorithm.data.
typedef struct Chosen {
  uint64_t mark, product; // hash of the product
  uint32_t align[4];
  uint32_t bias_align, aux_align; // of the addresses in the description; 0: there is none
  uint32_t proposal;              // index in the list of proposals
} Chosen;
enum { CHOSEN_MARK = 0x57a9d1 };
_Static_assert(sizeof(Chosen) <= sizeof(CublasLtAlgorithm), "room of an algorithm");

// Collects the descriptions, which must fit one another.
static Multiplication describe(CublasLtProduct product, CublasLtLayout a, CublasLtLayout b,
                               CublasLtLayout c, CublasLtLayout d, const char *call) {
  need(product, PRODUCT, call);
  const CublasLtLayout all[4] = {a, b, c, d};
  Multiplication out = {.wide = product->compute == CUBLAS_SUMS_F64,
                        .tf32 = product->compute == CUBLAS_SUMS_TF32,
                        .transpose = {product->transpose[0], product->transpose[1]},
                        .epilogue = (CublasLtEpilogue)product->epilogue,
                        .bias = product->bias,
                        .aux = product->aux,
                        .aux_distance = product->aux_distance};
  for (int i = 0; i < 4; i++) {
    need(all[i], LAYOUT, call);
    out.matrix[i] = all[i]->matrix;
  }
  const char *wrong = multiplication_fault(&out);
  if (wrong) standin_fail("%s: %s", call, wrong);
  return out;
}

// Returns a hash of everything of a product but its addresses.
static uint64_t hash_of(const Multiplication *m) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  const int64_t head[] = {m->wide,         m->tf32,     m->transpose[0],
                          m->transpose[1], m->epilogue, m->aux_distance};
  for (size_t i = 0; i < countof(head); i++) h = (h ^ (uint64_t)head[i]) * 0x100000001b3;
  for (int i = 0; i < 4; i++) {
    const Matrix *x = &m->matrix[i];
    const int64_t word[] = {x->type, x->rows, x->columns, x->distance, x->batches, x->stride};
    for (size_t k = 0; k < countof(word); k++) h = (h ^ (uint64_t)word[k]) * 0x100000001b3;
  }
  return h;
}

// Returns the largest power of 2, up to 256, that divides an address.
static uint32_t alignment(const void *at) {
  uint32_t n = 256;
  while ((uintptr_t)at % n) n /= 2;
  return n;
}

enum { MOST_PROPOSALS = 8 };

// Reads MESHC_STANDIN_CUBLASLT_TIMES: how many milliseconds each of the algorithms that are
// proposed needs, as in "3,1,2". Returns their number; without the variable there is one, which
// needs no time.
static int times_of_proposals(double ms[MOST_PROPOSALS]) {
  const char *text = getenv("MESHC_STANDIN_CUBLASLT_TIMES");
  int n = 0;
  for (char *end; text && *text && n < MOST_PROPOSALS; text = *end == ',' ? end + 1 : end) {
    ms[n++] = strtod(text, &end);
    if (end == text) standin_fail("MESHC_STANDIN_CUBLASLT_TIMES is not a list of numbers");
  }
  if (n == 0) ms[n++] = 0;
  return n;
}

CublasStatus cublasLtMatmulAlgoGetHeuristic(CublasLtHandle handle, CublasLtProduct product,
                                            CublasLtLayout a, CublasLtLayout b, CublasLtLayout c,
                                            CublasLtLayout d, CublasLtPreference preference,
                                            int wanted, CublasLtChoice *choice, int *found) {
  static const char call[] = "cublasLtMatmulAlgoGetHeuristic";
  need(handle, HANDLE, call);
  need(preference, PREFERENCE, call);
  if (!choice || !found || wanted < 1) standin_fail("%s: no room for a result", call);
  const Multiplication m = describe(product, a, b, c, d, call);
  const char *lacks = getenv("MESHC_STANDIN_CUBLASLT_LACKS");
  if (lacks && m.epilogue != CUBLASLT_DEFAULT && (m.epilogue & atoi(lacks)))
    return CUBLAS_NOT_SUPPORTED;
  Chosen chosen = {.mark = CHOSEN_MARK, .product = hash_of(&m)};
  memcpy(chosen.align, preference->align, sizeof chosen.align);
  if (has_bias(&m)) chosen.bias_align = alignment(m.bias);
  if (has_aux(&m)) chosen.aux_align = alignment(m.aux);
  double ms[MOST_PROPOSALS];
  int n = times_of_proposals(ms);
  *found = n < wanted ? n : wanted;
  for (int i = 0; i < *found; i++) {
    chosen.proposal = (uint32_t)i;
    memset(&choice[i], 0, sizeof choice[i]);
    memcpy(choice[i].algorithm.data, &chosen, sizeof chosen);
    choice[i].workspace = preference->workspace < WORKSPACE ? 0 : WORKSPACE;
    choice[i].waves = 1;
  }
  return CUBLAS_OK;
}

// Accepts an algorithm that was proposed for this product, to this process or another one, if as
// many are proposed now.
CublasStatus cublasLtMatmulAlgoCheck(CublasLtHandle handle, CublasLtProduct product,
                                     CublasLtLayout a, CublasLtLayout b, CublasLtLayout c,
                                     CublasLtLayout d, const CublasLtAlgorithm *algorithm,
                                     CublasLtChoice *result) {
  static const char call[] = "cublasLtMatmulAlgoCheck";
  need(handle, HANDLE, call);
  if (!algorithm || !result) standin_fail("%s: NULL", call);
  const Multiplication m = describe(product, a, b, c, d, call);
  double ms[MOST_PROPOSALS];
  Chosen chosen;
  memcpy(&chosen, algorithm->data, sizeof chosen);
  memset(result, 0, sizeof *result);
  if (chosen.mark != CHOSEN_MARK || chosen.product != hash_of(&m)) return CUBLAS_BAD_VALUE;
  if ((int)chosen.proposal >= times_of_proposals(ms)) return CUBLAS_NOT_SUPPORTED;
  result->workspace = WORKSPACE;
  return CUBLAS_OK;
}

// An operation of the stream, copied into it.
typedef struct Operation {
  Multiplication product;
  void *workspace;
  size_t workspace_bytes;
  double ms; // milliseconds that it takes at least
} Operation;

static void run_operation(void *copy) {
  const Operation *o = copy;
  // what a product leaves in the workspace must not matter to the next one
  memset(o->workspace, 0xff, o->workspace_bytes);
  multiply(&o->product);
  const struct timespec nap = {0, (long)(1e6 * o->ms)};
  if (o->ms > 0) nanosleep(&nap, NULL);
}

// Adds the memory of a matrix to a list of accesses: its columns, in each batch.
static int add_accesses(const Matrix *m, const void *at, int flags, StandinAccess *out) {
  size_t bytes = element_bytes(m->type);
  int64_t batches = m->stride ? m->batches : 1;
  for (int64_t i = 0; i < batches; i++)
    out[i] = (StandinAccess){.at = (const char *)at + i * m->stride * (int64_t)bytes,
                             .bytes = (size_t)m->rows * bytes,
                             .rows = (size_t)m->columns,
                             .stride = (size_t)m->distance * bytes,
                             .flags = flags};
  return (int)batches;
}

// Adds the memory of the operands of the epilogue.
static int add_extras(const Multiplication *m, StandinAccess *out) {
  const Matrix *d = &m->matrix[3];
  size_t bytes = element_bytes(d->type), rows = (size_t)d->rows * bytes;
  int n = 0;
  if (has_bias(m)) out[n++] = (StandinAccess){m->bias, rows, 1, rows, 0};
  if (has_aux(m))
    out[n++] = (StandinAccess){m->aux, rows, (size_t)d->columns, (size_t)m->aux_distance * bytes,
                               m->epilogue == CUBLASLT_DGELU ? 0 : STANDIN_WRITES};
  return n;
}

// Whether two matrices that are stored as `m` is have memory in common.
static bool overlap(const Matrix *m, const void *x, const void *y) {
  int64_t all = (m->batches - 1) * m->stride + (m->columns - 1) * m->distance + m->rows;
  uintptr_t bytes = (uintptr_t)all * element_bytes(m->type), a = (uintptr_t)x, b = (uintptr_t)y;
  return a < b + bytes && b < a + bytes;
}

static void check_addresses(const Multiplication *m, const Chosen *chosen, const char *call) {
  const void *const at[4] = {m->a, m->b, m->c, m->d};
  for (int i = 0; i < 4; i++) {
    if (!at[i]) standin_fail("%s: the address of matrix %c is NULL", call, "ABCD"[i]);
    if ((uintptr_t)at[i] % chosen->align[i])
      standin_fail(
          "%s: matrix %c is not aligned to the %u bytes for which the algorithm was chosen", call,
          "ABCD"[i], chosen -> align[i]);
  }
  if (m->beta != 0 && m->c != m->d && overlap(&m->matrix[3], m->c, m->d))
    standin_fail("%s: C and D overlap, and do not begin at the same address", call);
  if ((has_bias(m) && alignment(m->bias) < chosen->bias_align) ||
      (has_aux(m) && alignment(m->aux) < chosen->aux_align))
    standin_fail("%s: an operand of the epilogue is less aligned than that for which the algorithm "
                 "was chosen",
                 call);
}

CublasStatus cublasLtMatmul(CublasLtHandle handle, CublasLtProduct product, const void *alpha,
                            const void *a, CublasLtLayout a_layout, const void *b,
                            CublasLtLayout b_layout, const void *beta, const void *c,
                            CublasLtLayout c_layout, void *d, CublasLtLayout d_layout,
                            const CublasLtAlgorithm *algorithm, void *workspace, size_t bytes,
                            CudaStream stream) {
  static const char call[] = "cublasLtMatmul";
  need(handle, HANDLE, call);
  Operation o = {.product = describe(product, a_layout, b_layout, c_layout, d_layout, call)};
  Multiplication *m = &o.product;
  Chosen chosen;
  if (!alpha || !beta || !algorithm) standin_fail("%s: NULL for a scale or the algorithm", call);
  memcpy(&chosen, algorithm->data, sizeof chosen);
  if (chosen.mark != CHOSEN_MARK || chosen.product != hash_of(m))
    standin_fail("%s: the algorithm was chosen for another product", call);
  if (!workspace || bytes < WORKSPACE || (uintptr_t)workspace % 256)
    standin_fail("%s: a workspace of %zu bytes at %p", call, bytes, workspace);
  m->a = a, m->b = b, m->c = c, m->d = d;
  m->alpha = m->wide ? *(const double *)alpha : (double)*(const float *)alpha;
  m->beta = m->wide ? *(const double *)beta : (double)*(const float *)beta;
  check_addresses(m, &chosen, call);
  o.workspace = workspace, o.workspace_bytes = WORKSPACE;
  size_t most = 3;
  for (int i = 0; i < 4; i++) most += (size_t)m->matrix[i].batches;
  StandinAccess *access = calloc(most, sizeof *access);
  if (!access) standin_fail("%s: out of memory", call);
  int n = add_accesses(&m->matrix[0], a, 0, access);
  n += add_accesses(&m->matrix[1], b, 0, access + n);
  n += add_accesses(&m->matrix[3], d, STANDIN_WRITES, access + n);
  if (m->beta != 0 && c != d) n += add_accesses(&m->matrix[2], c, 0, access + n);
  n += add_extras(m, access + n);
  access[n++] = (StandinAccess){workspace, WORKSPACE, 1, WORKSPACE, STANDIN_WRITES};
  static const char *const names[MOST_PROPOSALS] = {"cublasLtMatmul", "algorithm-1", "algorithm-2",
                                                    "algorithm-3",    "algorithm-4", "algorithm-5",
                                                    "algorithm-6",    "algorithm-7"};
  double ms[MOST_PROPOSALS];
  if ((int)chosen.proposal >= times_of_proposals(ms))
    standin_fail("%s: an algorithm that was not proposed", call);
  o.ms = ms[chosen.proposal];
  int result =
      meshc_standin_enqueue(stream, names[chosen.proposal], access, n, run_operation, &o, sizeof o);
  free(access);
  return result == CUDA_OK ? CUBLAS_OK : CUBLAS_FAILED;
}
