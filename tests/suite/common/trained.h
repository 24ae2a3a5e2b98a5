// Models that are compiled and trained for some steps, so that suites can compare their tensors.
#ifndef TESTS_TRAINED_H
#define TESTS_TRAINED_H

#include "frontend/driver/session.h"
#include "runtime/runtime.h"

// A model text; mesh and layout are as in the options of those names, or NULL.
typedef struct TrainedModel {
  const char *name, *text, *mesh, *layout;
  bool library; // a library computes all products, and what follows them (GemmTail)
} TrainedModel;

// Its program, and its tensors after training. The caller makes arena and diag, and frees all.
typedef struct Trained {
  Arena *a;
  Diag *diag;
  Compilation made;
  Exec *exec;
} Trained;

// Compiles a model for training. memory: the budget in bytes, 0: none. Returns false after an error
// in t->diag.
bool trained_compile(Trained *t, const TrainedModel *model, int64_t memory);
// Runs two steps on made-up inputs, whose integers are below `classes`. Returns false if they fail.
bool trained_run(Trained *t, int64_t classes);
// Returns the bytes of a tensor of t's program, or of another one that has the tensor, from t->a.
void *trained_read(Trained *t, const ProgTensor *x, size_t *bytes);

#endif
