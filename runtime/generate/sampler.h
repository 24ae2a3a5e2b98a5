// Chooses the next id from the logits of one row: the largest, or a draw. Draws are numbers of
// Philox (ir/base/philox.h) by seed, row and position, so that equal logits give equal ids whatever
// the layout and the number of processes.
#ifndef RUNTIME_SAMPLER_H
#define RUNTIME_SAMPLER_H

#include "ir/base/dtype.h"

typedef struct SamplerOptions {
  double temperature; // logits are divided by it; 0: the largest logit is taken
  int64_t top_k;      // draw among the k most probable ids; 0: among all
  double top_p;       // draw among the most probable ids whose probabilities add up to p; 1: all
  uint64_t seed;
} SamplerOptions;
typedef struct Sampler Sampler;
// The caller frees the result with sampler_free. A sampler is for one thread at a time.
Sampler *sampler_new(const SamplerOptions *opt, int64_t vocab);
void sampler_free(Sampler *s); // s may be NULL
// Returns the next id of a row whose first `position` ids are known, or -1 if a logit is NaN or
// none is finite. logits: `vocab` numbers of type `type`.
int32_t sampler_next(Sampler *s, Dtype type, const void *logits, int64_t row, int64_t position);

// For beam search: an id that may come next, and the logarithm of its probability.
typedef struct NextToken {
  double log_p;
  int32_t id;
} NextToken;
// Writes the n most probable ids to out[0..n), most probable first; of equal ones the lowest id
// comes first. n is at most `vocab`. Returns false if a logit is NaN or none is finite.
MUST_USE bool sampler_best(Sampler *s, Dtype type, const void *logits, int64_t n, NextToken *out);

#endif
