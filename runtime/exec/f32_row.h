// Products of f32 matrices with one row, by AVX-512 (f32_row.c).
#ifndef RUNTIME_F32_ROW_H
#define RUNTIME_F32_ROW_H

#include "runtime/runtime.h"

// Computes a product with m = 1 on a CPU with AVX-512. If B is transposed, A is a line of memory:
// ta is false, or lda is 1.
void f32_row(const Product *g);

#endif
