// How long sums of f32 are accumulated: in blocks, so that the rounding error does not grow with the number
// of terms (Higham, "The accuracy of floating point summation", 1993: blocked and pairwise summation).
//
//   leaf     f32, at most SUM_LEAF.. terms one after the other
//   middle   f32, at most SUM_MIDDLE leaves one after the other
//   total    f64, all middles (where it is long enough to need one)
//
// Narrow floats are accumulated as f32. Products are kept in f64: there each rounding is an error of the whole result, and
// blocks do not help. Sums of f64 are one chain: n * 2^-53 stays below 1e-8 for any n in use.
// The lengths depend on shapes only, never on the number of threads. Leaves of a reduction end at positions that its summed
// dims alone decide (codegen/fold.c): a sum has the same bits in every kernel that computes it, up to the vector lanes.
#ifndef IR_SUMS_H
#define IR_SUMS_H

enum {
  SUM_LEAF = 64,         // of accumulators in registers; 128 terms of a constant were off by 1.2e-6
  SUM_LEAF_ROW = 96,     // of accumulators in memory: each leaf is added to a row of f64
  SUM_MIDDLE = 16,
  SUM_LEAF_LIBRARY = 384, // the longest chain of the BLAS library within one of its blocks of k
  // The most roundings that a term of a sum, and of a contraction, takes part in; the evaluator's error bounds.
  SUM_ROUNDINGS = 128,
  SUM_ROUNDINGS_CONTRACT = 512,
};

#endif
