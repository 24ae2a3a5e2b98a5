// Describes products of matrices to cuBLASLt (product_kind.h).
//
// The library's matrices are stored by columns, ours by rows. A matrix stored by rows is its
// transpose stored by columns, and C = A B is C' = B' A'. So the library's first factor is our B,
// its second one our A, and its result has n rows and m columns:
//
//   ours, by rows          library, by columns
//   A[m, k]                second factor [k, m]; with ta A[k, m] is [m, k], to be transposed
//   B[k, n]                first factor [n, k]; with tb B[n, k] is [k, n], to be transposed
//   C[m, n]                result [n, m]
//   bias[n]                bias, one number for each row of the result
#include "runtime/gpu/product_kind.h"

#include <inttypes.h>
#include <stdlib.h>

#include "ir/base/mem.h"

bool cublaslt_good(CublasStatus status, const char *call, const ProductSizes *s, Diag *d) {
  if (status == CUBLAS_OK) return true;
  const char *name = cublaslt.GetStatusName(status);
  if (s)
    diag_error(d, DIAG_FAILURE, (Pos){0},
               "GPU: %s gives %s for a product of %s to %s, %" PRId64 " x %" PRId64 " by %" PRId64
               " x %" PRId64 ", %" PRId64 " batch%s",
               call, name, dtype_text((Dtype)s->factors), dtype_text((Dtype)s->type), s->m, s->k,
               s->k, s->n, s->batches, s->batches == 1 ? "" : "es");
  else
    diag_error(d, DIAG_FAILURE, (Pos){0}, "GPU: %s gives %s", call, name);
  diag_hint(d, status == CUBLAS_NO_MEMORY
                   ? "use a smaller batch, or end other programs that use the GPU"
                   : "report it with the model and the options, or use --device cpu");
  return false;
}

// -- types ----------------------------------------------------------------------------------------

static CublasType type_of(int64_t t) {
  return t == TYPE_F64    ? CUBLAS_F64
         : t == TYPE_F16  ? CUBLAS_F16
         : t == TYPE_BF16 ? CUBLAS_BF16
                          : CUBLAS_F32;
}

// The scales alpha and beta of C = alpha A B + beta C, as 1 or 0 in the type of the sums.
typedef struct Scales {
  CublasCompute sums;
  CublasType type;
  const void *zero, *one;
} Scales;

static Scales scales_of(const ProductSizes *s) {
  static const float zero = 0, one = 1;
  static const double zero_wide = 0, one_wide = 1;
  if (s->factors == TYPE_F64) return (Scales){CUBLAS_SUMS_F64, CUBLAS_F64, &zero_wide, &one_wide};
  return (Scales){s->tf32 ? CUBLAS_SUMS_TF32 : CUBLAS_SUMS_F32, CUBLAS_F32, &zero, &one};
}

// -- descriptions ---------------------------------------------------------------------------------

// Makes the description *out of matrices that are `stride` elements apart. The library counts
// batches in 32 bits.
static CublasStatus describe_matrix(CublasLtLayout *out, int64_t type, int64_t rows,
                                    int64_t columns, int64_t distance, int64_t batches,
                                    int64_t stride) {
  if (batches > INT32_MAX) return CUBLAS_NOT_SUPPORTED;
  int32_t count = (int32_t)batches;
  // With one column the distance of columns has no meaning, but it must be that of a full one.
  if (columns == 1 && distance < rows) distance = rows;
  CublasStatus s =
      cublaslt.MatrixLayoutCreate(out, type_of(type), (uint64_t)rows, (uint64_t)columns, distance);
  if (s == CUBLAS_OK && batches > 1)
    s = cublaslt.MatrixLayoutSetAttribute(*out, CUBLASLT_LAYOUT_BATCHES, &count, sizeof count);
  if (s == CUBLAS_OK && batches > 1)
    s = cublaslt.MatrixLayoutSetAttribute(*out, CUBLASLT_LAYOUT_BATCH_STRIDE, &stride,
                                          sizeof stride);
  return s;
}

static CublasStatus describe_matrices(ProductKind *p) {
  const ProductSizes *s = &p->sizes;
  CublasStatus status = describe_matrix(&p->a, s->factors, s->ta ? s->m : s->k, s->ta ? s->k : s->m,
                                        s->lda, s->batches, s->a_stride);
  if (status == CUBLAS_OK)
    status = describe_matrix(&p->b, s->factors, s->tb ? s->k : s->n, s->tb ? s->n : s->k, s->ldb,
                             s->batches, s->b_stride);
  return status == CUBLAS_OK
             ? describe_matrix(&p->c, s->type, s->n, s->m, s->ldc, s->batches, s->c_stride)
             : status;
}

// Addresses on the GPU are pointers for the library.
static void *pointer(CudaAddress at) { return (void *)(uintptr_t)at; }

// Sets an attribute of a product, unless an earlier call has failed.
static void set(CublasLtProduct product, CublasLtProductAttribute attribute, const void *value,
                size_t bytes, CublasStatus *status) {
  if (*status == CUBLAS_OK)
    *status = cublaslt.MatmulDescSetAttribute(product, attribute, value, bytes);
}

// Sets the addresses that belong to the description of a product.
static CublasStatus describe_places(const ProductKind *p, const GpuOperands *at) {
  const void *bias = pointer(at->extra[GEMM_BIAS]), *aux = pointer(at->extra[GEMM_AUX]);
  CublasStatus status = CUBLAS_OK;
  if (bias) set(p->product, CUBLASLT_PRODUCT_BIAS, &bias, sizeof bias, &status);
  if (aux) set(p->product, CUBLASLT_PRODUCT_AUX, &aux, sizeof aux, &status);
  return status;
}

static CublasStatus describe_product(ProductKind *p, const GpuOperands *at) {
  const ProductSizes *s = &p->sizes;
  const Scales scale = scales_of(s);
  int32_t first = s->tb ? CUBLAS_TRANSPOSED : CUBLAS_AS_STORED,
          second = s->ta ? CUBLAS_TRANSPOSED : CUBLAS_AS_STORED;
  uint32_t epilogue = (uint32_t)s->epilogue;
  CublasStatus status = cublaslt.MatmulDescCreate(&p->product, scale.sums, scale.type);
  set(p->product, CUBLASLT_PRODUCT_TRANSPOSE_A, &first, sizeof first, &status);
  set(p->product, CUBLASLT_PRODUCT_TRANSPOSE_B, &second, sizeof second, &status);
  set(p->product, CUBLASLT_PRODUCT_EPILOGUE, &epilogue, sizeof epilogue, &status);
  if (s->extra_align[GEMM_AUX])
    set(p->product, CUBLASLT_PRODUCT_AUX_DISTANCE, &s->ldc, sizeof s->ldc, &status);
  return status == CUBLAS_OK ? describe_places(p, at) : status;
}

// -- the algorithm --------------------------------------------------------------------------------

// Makes *out, which says what an algorithm may use: the workspace, the alignment of the addresses,
// and no sums of parts in the type of the result, which may be narrow.
static CublasStatus state_limits(const ProductSizes *s, uint64_t workspace,
                                 CublasLtPreference *out) {
  const uint32_t schemes = CUBLASLT_SCHEME_SUM_TYPE, a = (uint32_t)s->b_align,
                 b = (uint32_t)s->a_align, d = (uint32_t)s->c_align,
                 c = s->extra_align[GEMM_ADDEND] ? (uint32_t)s->extra_align[GEMM_ADDEND] : d;
  const struct {
    CublasLtPreferenceAttribute attribute;
    const void *value;
    size_t bytes;
  } limit[] = {{CUBLASLT_PREFER_WORKSPACE_BYTES, &workspace, sizeof workspace},
               {CUBLASLT_PREFER_SCHEMES, &schemes, sizeof schemes},
               {CUBLASLT_PREFER_ALIGNMENT_A, &a, sizeof a},
               {CUBLASLT_PREFER_ALIGNMENT_B, &b, sizeof b},
               {CUBLASLT_PREFER_ALIGNMENT_C, &c, sizeof c},
               {CUBLASLT_PREFER_ALIGNMENT_D, &d, sizeof d}};
  CublasStatus status = cublaslt.PreferenceCreate(out);
  for (size_t i = 0; i < countof(limit) && status == CUBLAS_OK; i++)
    status =
        cublaslt.PreferenceSetAttribute(*out, limit[i].attribute, limit[i].value, limit[i].bytes);
  return status;
}

// Asks the library for up to `wanted` algorithms. *found: gets their number.
static CublasStatus propose(CublasLtHandle library, const ProductKind *p, size_t workspace,
                            int wanted, CublasLtChoice *out, int *found) {
  CublasLtPreference limits = NULL;
  CublasStatus status = state_limits(&p->sizes, workspace, &limits);
  *found = 0;
  if (status == CUBLAS_OK)
    status = cublaslt.GetHeuristic(library, p->product, p->b, p->a, p->c, p->c, limits, wanted, out,
                                   found);
  if (limits) (void)cublaslt.PreferenceDestroy(limits);
  return status;
}

// Takes the first algorithm that the library proposes.
static CublasStatus choose(CublasLtHandle library, ProductKind *p, size_t workspace) {
  int found;
  CublasStatus status = propose(library, p, workspace, 1, &p->choice, &found);
  if (status == CUBLAS_OK && found < 1) return CUBLAS_NOT_SUPPORTED;
  return status == CUBLAS_OK ? p->choice.state : status;
}

int product_kind_proposals(CublasLtHandle library, const ProductKind *p, size_t workspace,
                           CublasLtChoice out[PRODUCT_PROPOSALS]) {
  int found, n = 0;
  if (propose(library, p, workspace, PRODUCT_PROPOSALS, out, &found) != CUBLAS_OK) return 0;
  for (int i = 0; i < found; i++)
    if (out[i].state == CUBLAS_OK) out[n++] = out[i];
  return n;
}

bool product_kind_accept(CublasLtHandle library, ProductKind *p, const CublasLtAlgorithm *algorithm,
                         size_t workspace) {
  CublasLtChoice checked = {.state = CUBLAS_OK};
  if (cublaslt.AlgoCheck(library, p->product, p->b, p->a, p->c, p->c, algorithm, &checked) !=
          CUBLAS_OK ||
      checked.state != CUBLAS_OK || checked.workspace > workspace)
    return false;
  p->choice = checked;
  p->choice.algorithm = *algorithm;
  return true;
}

// -------------------------------------------------------------------------------------------------

ProductKind *product_kind_new(CublasLtHandle library, const ProductSizes *sizes,
                              const GpuOperands *at, size_t workspace, Diag *d) {
  ProductKind *p = mem_zeroed(1, sizeof *p);
  p->sizes = *sizes;
  bool good =
      cublaslt_good(describe_matrices(p), "cublasLtMatrixLayoutSetAttribute", sizes, d) &&
      cublaslt_good(describe_product(p, at), "cublasLtMatmulDescSetAttribute", sizes, d) &&
      cublaslt_good(choose(library, p, workspace), "cublasLtMatmulAlgoGetHeuristic", sizes, d);
  if (good) return p;
  product_kind_free(p);
  return NULL;
}

CublasLtEpilogue product_epilogue(int row) {
  static const CublasLtEpilogue theirs[] = {
#define GEMM_LIBRARY(act, bias, aux, types, name) CUBLASLT_##name,
#include "ir/program/gemm_library.def"
#undef GEMM_LIBRARY
  };
  return theirs[row];
}

bool product_epilogue_exists(CublasLtHandle library, int row, size_t workspace) {
  enum { SIDE = 128, ALIGNED = 256 };
  const CudaAddress at = 1 << 20; // nobody reads what is there
  GemmEpilogue e;
  const Gemm g = gemm_of_row(row, &e);
  ProductSizes s = {.factors = g.factors,
                    .type = g.type,
                    .m = SIDE,
                    .n = SIDE,
                    .k = SIDE,
                    .lda = SIDE,
                    .ldb = SIDE,
                    .ldc = SIDE,
                    .batches = 1,
                    .a_align = ALIGNED,
                    .b_align = ALIGNED,
                    .c_align = ALIGNED,
                    .epilogue = product_epilogue(row)};
  GpuOperands all = {at, at, at, {0}};
  for (int i = 0; i < GEMM_EXTRAS; i++)
    if (e.has[i]) s.extra_align[i] = ALIGNED, all.extra[i] = at;
  Arena *a = arena_new();
  ProductKind *kind = product_kind_new(library, &s, &all, workspace, diag_new(a));
  product_kind_free(kind);
  arena_free(a);
  return kind;
}

void product_kind_free(ProductKind *p) {
  if (!p) return;
  if (p->product) (void)cublaslt.MatmulDescDestroy(p->product);
  if (p->a) (void)cublaslt.MatrixLayoutDestroy(p->a);
  if (p->b) (void)cublaslt.MatrixLayoutDestroy(p->b);
  if (p->c) (void)cublaslt.MatrixLayoutDestroy(p->c);
  free(p);
}

CublasStatus product_kind_run(CublasLtHandle library, const ProductKind *p, const GpuOperands *at,
                              CudaAddress workspace, size_t workspace_bytes, CudaStream stream) {
  const Scales scale = scales_of(&p->sizes);
  CudaAddress addend = at->extra[GEMM_ADDEND];
  CublasStatus status = describe_places(p, at);
  if (status != CUBLAS_OK) return status;
  return cublaslt.Matmul(library, p->product, scale.one, pointer(at->b), p->b, pointer(at->a), p->a,
                         addend ? scale.one : scale.zero, pointer(addend ? addend : at->c), p->c,
                         pointer(at->c), p->c, &p->choice.algorithm, pointer(workspace),
                         workspace_bytes, stream);
}
