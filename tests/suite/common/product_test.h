// Runs bound products of matrices on a GPU, by the stand-ins for NVIDIA's libraries, and compares
// them with a plain triple loop.
#ifndef TESTS_SUITE_COMMON_PRODUCT_TEST_H
#define TESTS_SUITE_COMMON_PRODUCT_TEST_H

#include "runtime/exec/exec_internal.h"

typedef struct ProductTest ProductTest;

// Loads the stand-ins and opens the GPU. Returns NULL, and prints why, if that fails. The caller
// frees it with product_test_free, which ends the stand-ins' process with an error if the products
// have left something behind.
ProductTest *product_test_new(void);
void product_test_free(ProductTest *t);

// Runs product b, of which only sizes are read, in the round `steps` of the loops around it: from
// the stream, or if `captured` twice from a graph. Its matrices begin `shift` elements after an
// aligned address. The addend is C itself if b->extra[GEMM_ADDEND] is b->c: then it cannot be
// captured, as the graph would add twice. Returns NULL if C is right, and what the product does not
// write is as it was. Otherwise returns what is wrong, which lives until the next call.
const char *product_test(ProductTest *t, const BoundGemm *b, const LoopSteps *steps, int64_t shift,
                         bool captured);

#endif
