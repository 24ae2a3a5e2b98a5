// Evaluates the last, incomplete batch of a data block. The result is that of a model whose batch
// dim has the size of this batch, as `--set b=SIZE` would make it. Input: the graph for whole
// batches. Output: whether the program of that graph can run fewer rows, and if not, a second
// program for the incomplete batch. Used by training.c and the command predict.
#ifndef FRONTEND_LAST_BATCH_H
#define FRONTEND_LAST_BATCH_H

#include "frontend/driver/session.h"

// A program for a batch of `rows` rows. With `rows` 0 there is no such program: the program for
// whole batches runs the incomplete batch, too.
typedef struct LastBatch {
  int64_t rows;
  const Graph *graph;
  Compilation made;
  Exec *exec; // owned; reads and writes the persistent tensors of the program for whole batches
} LastBatch;

// Builds the model again with `rows` as the size of the dim named `over`. Returns NULL after an
// error.
Model *model_of_rows(Session *s, const char *over, int64_t rows);
// The same for the last batch of a data block; `all` is the number of
// rows in the data, for messages. Returns NULL after an error, such as a dim of fixed size that the
// model equates with the batch dim.
Model *last_batch_model(Session *s, const char *over, int64_t rows, int64_t all);
// Returns whether the program of `whole` computes an incomplete batch correctly. `last` is the
// graph that the command selects from the model of last_batch_model; `over` is the batch dim in
// `whole`.
bool last_batch_fits(Arena *a, const Graph *whole, const Graph *last, DimId over);
// Returns whether the metrics of whole batches and of the last batch have equal parts (results of
// reductions) and combine them by equal graphs. Only then can one metric accumulate over all
// batches.
bool last_batch_alike(const EvalMetric *whole, const EvalMetric *last);
// Reports the first parameter or state whose size depends on the number of rows of dim `over`.
// `fits` is the result of last_batch_fits. If it is true, the program for whole batches runs the
// last batch with the first elements of that tensor, and the report is a warning. If it is false,
// the report is an error, and so is an input with another dim whose size depends on the rows.
// Returns false after the error.
MUST_USE bool last_batch_sized(const Session *s, const Graph *whole, const Graph *last, DimId over,
                               bool fits);
// Checks that no output of `last`, which has the outputs of `whole`, has more elements along a dim:
// results have room for those of whole batches. Returns false after an error.
MUST_USE bool last_batch_room(const Session *s, const Graph *whole, const Graph *last);
// Compiles `last` for `rows` rows and binds it to the persistent tensors of `share`, which runs the
// program `shared` and must outlive *out. Returns false after an error. The caller calls
// last_batch_free after success and after an error.
MUST_USE bool last_batch_open(Session *s, const Graph *last, int64_t rows, const Exec *share,
                              const Program *shared, LastBatch *out);
void last_batch_free(LastBatch *b);

#endif
