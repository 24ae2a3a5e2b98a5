// How long sums of f32 are accumulated: in blocks, so that the rounding error does not grow with
// the number of terms (Higham, "The accuracy of floating point summation", 1993: blocked and
// pairwise summation).
//
//   short sums   leaf     f32, at most SUM_LEAF_SHORT terms one after the other
//                total    f32, all leaves
//   long sums    leaf     f32, at most SUM_LEAF terms one after the other
//                middle   f32, at most SUM_MIDDLE leaves one after the other
//                total    f64, all middles
//
// Terms, leaves and middles are added in order. In sums of n equal numbers the rounding errors can
// all have one sign. For the worst number from 1 to 2 the relative error is 9.8e-7 with leaves of
// 64 in middles of 4 at any length, by 1.12e-6 in middles of 16, by 1.5e-6 with leaves of 96,
// by 1.9e-6 with leaves of 128. Short sums have longer leaves because folds in the register tiles
// of convolutions (288 and 576 terms) cost 3 % of a step with leaves of 64.
//
// Narrow floats are accumulated as f32. Products are kept in f64: there each rounding is an error
// of the whole result, and blocks do not help. Sums of f64 are one chain: n * 2^-53 stays below
// 1e-8 for any n in use. The lengths depend on shapes only, never on the number of threads. Leaves
// of a reduction end at positions that its summed dims alone decide (codegen/cpu/fold.c): a sum has
// the same bits in every kernel that computes it, up to the vector lanes.
#ifndef IR_SUMS_H
#define IR_SUMS_H

enum {
  SUM_SHORT = 1024,
  SUM_LEAF_SHORT = 96,
  SUM_LEAF = 64,
  SUM_MIDDLE = 4,
  SUM_LEAF_LIBRARY = 384, // the longest chain of the BLAS library within one of its blocks of k
  // Upper limits, for the evaluator's error bounds: through how many roundings a term of a sum, and
  // a term of a contraction, passes.
  SUM_ROUNDINGS = 128,
  SUM_ROUNDINGS_CONTRACT = 512,
};

#endif
