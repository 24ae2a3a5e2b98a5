// How long chains of f32 additions are in sums: sums are accumulated in blocks, so that the
// rounding error does not grow with the number of terms (Higham, "The accuracy of floating point
// summation", 1993: blocked and pairwise summation). A leaf is a chain of terms, a middle a chain
// of leaves:
//
//   short sums   leaf     f32, at most SUM_LEAF_SHORT terms one after the other
//                total    f32, all leaves
//   long sums    leaf     f32, at most SUM_LEAF terms one after the other
//                middle   f32, at most SUM_MIDDLE leaves one after the other
//                total    f64, all middles
//
// Terms, leaves and middles are added in order. In sums of n equal numbers the rounding errors can
// all have one sign. For the worst number from 1 to 2 the relative error at any n is 9.8e-7 with
// leaves of 64 in middles of 4. It is 1.12e-6 with middles of 16, 1.5e-6 with leaves of 96, and
// 1.9e-6 with leaves of 128. Short sums have longer leaves because of the register tiles of
// convolutions (288 and 576 terms). There, adding up leaves of 64 costs 3 % of a step.
//
// 3x3 convolutions with many channels are sums of other products (codegen/cpu/winograd_plan.c). The
// sum over channels is a short sum. In the gradient of the weights, leaves are sums over at most 64
// tiles; at most about 16 leaves of a chunk of images are added in f32, and the chunks in f64.
//
// Narrow floats are accumulated as f32. Products of many factors are kept in f64: there each
// rounding is an error of the whole result, and blocks do not help. Sums of f64 are one chain: n *
// 2^-53 stays below 1e-8 for any n in use. The lengths depend on shapes only, never on the number
// of threads. The positions where leaves of a reduction end depend only on its summed dims
// (codegen/cpu/fold.c). A sum thus has the same bits in every kernel that computes it with the same
// number of vector lanes.
#ifndef IR_SUMS_H
#define IR_SUMS_H

enum {
  SUM_SHORT = 1024,
  SUM_LEAF_SHORT = 96,
  SUM_LEAF = 64,
  SUM_MIDDLE = 4,
  SUM_LEAF_LIBRARY = 384, // longest chain of the BLAS library within one of its blocks of k
  // Upper limits for the error bounds of the evaluator: the number of roundings that a term of a
  // sum, or of a contraction, passes through.
  SUM_ROUNDINGS = 128,
  SUM_ROUNDINGS_CONTRACT = 512,
};

#endif
