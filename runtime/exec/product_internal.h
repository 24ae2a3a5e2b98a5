// The ways to compute a product of matrices, each in a file of its own (blas.c, bf16_gemm.c,
// f32_gemm.c), and what these files share. product.c chooses among them.
#ifndef RUNTIME_EXEC_PRODUCT_INTERNAL_H
#define RUNTIME_EXEC_PRODUCT_INTERNAL_H

#include "runtime/runtime.h"

// Computes a product whose m, n and k are at least 1. work: gemm_scratch bytes of this thread
// alone, aligned to 64 bytes.
typedef void Multiply(const Product *g, void *work);
Multiply f32_gemm, bf16_gemm, blas_gemm;

// Each returns whether the machine has what its Multiply needs. *name, if not NULL, gets a text
// such as "AVX-512" or "none". Any thread may call them.
bool f32_gemm_open(const char **name);  // MESHC_F32=none forbids its use
bool bf16_gemm_open(const char **name); // MESHC_BF16 restricts the instructions

// Writes the address of a function of OpenBLAS, such as "dpotrf_" of LAPACK, to `out`, a function
// pointer of `size` bytes. Returns false if there is no OpenBLAS or no such function in it. Call
// blas_open before.
bool blas_function(const char *name, void *out, size_t size);

// Computes a product of f32 by parts of at most `piece` elements of k, which are summed in f64.
// `multiply` computes the parts.
void product_by_pieces(const Product *g, int64_t piece, Multiply *multiply, void *work);

// Returns whether there is a way for each product of p. Otherwise reports what is missing.
bool products_check(const Program *p, Diag *d);
// Reserves what products and operations on matrices of p need with so many workers. Returns false,
// with an error, if there is not enough memory.
MUST_USE bool products_reserve(const Program *p, int workers, Diag *d);

// Returns whether the CPU has the subsets of AVX-512 that WIDE names, and the system saves their
// registers.
bool cpu_is_wide(void);

#if defined(__x86_64__)
#include <immintrin.h>

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

// Returns n limited to 0..most.
static inline int within(int64_t n, int most) { return n <= 0 ? 0 : n < most ? (int)n : most; }

// Transposes 16 x 16 elements of 32 bits.
WIDE static inline void transpose_wide(__m512i v[16]) {
  __m512i t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    v[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    v[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    v[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    v[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(v[i], v[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(v[i + 8], v[i + 12], 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; i++) {
    v[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    v[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    v[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    v[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}
#endif

#endif
