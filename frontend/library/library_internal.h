// What the files of the library share: handles, and the boundary that every call passes.
#ifndef FRONTEND_LIBRARY_INTERNAL_H
#define FRONTEND_LIBRARY_INTERNAL_H

#include <signal.h>

#include "frontend/driver/training.h"
#include "include/meshc.h"
#include "ir/base/guard.h"

typedef struct TensorList {
  uint32_t n;
  meshc_tensor *at;
} TensorList;

enum { KINDS = MESHC_OUTPUT + 1 };

struct meshc_program {
  meshc_model *model;
  const Graph *graph;
  Compilation made;
  Exec *exec;
  bool trains;
  TensorList tensor[KINDS];
  void **room[KINDS]; // for each tensor: C order, for buffers of another form; malloc'd when needed
  meshc_program *before;
};

struct meshc_model {
  Session s;
  Options options;
  TensorList tensor[KINDS];
  meshc_program *programs; // newest first
  meshc_program *store;    // holds parameters and states; NULL: not needed so far
  const Exec *trainer;     // the first one that holds the optimizer state, too; or NULL
  ProgramRun train, test;  // of meshc_train
  ProgramRun eval;         // of a meshc_evaluate under way
  Saver *saver;            // of a meshc_save under way
  TrainJob job;
  int64_t default_steps;          // that the train block says
  double *value;                  // of what a step reports
  const char *const *metric_name; // of an evaluation
  volatile sig_atomic_t stop;     // the callback has asked for the end
  int64_t steps;
  int64_t epoch, row; // of the next batch of meshc_train
  meshc_error *warnings;
  uint32_t said; // entries of the Diag before the call under way
  bool broken;   // a call has failed halfway
};

// -- library_error.c ----------------------------------------------------------------------------
typedef bool LibraryWork(meshc_model *m, void *context);
// Runs work(m, context) under a guard and hands out what it said. Returns 0, or a code above 0
// after an error; *error as in meshc.h.
int library_call(meshc_model *m, LibraryWork *work, void *context, meshc_error **error);
// As a call that fails with one error without a place.
int library_refuse(DiagId id, const char *text, const char *hint, meshc_error **error);
// The errors and warnings from entry `from` on; the place of each is looked up in d.
meshc_error *library_errors(const Diag *d, uint32_t from, bool warnings_only);
// A failed allocation or an internal error as *error; returns its code.
int library_failed(const Failure *f, meshc_error **error);

// -- library_model.c ----------------------------------------------------------------------------
// Gives the model's options one more use while a call needs it; NULL: takes the last one away.
void library_option(meshc_model *m, OptionId id, const char *text);

// -- library_tensor.c ---------------------------------------------------------------------------
meshc_type library_type(Dtype t);
bool library_dtype(meshc_type type, Dtype *out);
TensorKind library_tensor_kind(meshc_kind kind);
// The tensors of the model and of a program, by kind; in the model's arena.
void library_list_model(meshc_model *m);
void library_list_program(meshc_program *p);
// The index of a tensor in the list; -1: none.
int64_t library_find(const TensorList *list, const char *name);

// -- library_program.c --------------------------------------------------------------------------
// The program that holds the parameters; NULL after an error in the model's Diag.
meshc_program *library_store(meshc_model *m);
// A new program with what the purpose says; NULL after an error in the model's Diag.
meshc_program *library_compile(meshc_model *m, meshc_purpose purpose);
// Frees and forgets what a training or an evaluation has opened.
void library_run_free(ProgramRun *p);
// Whose tensors the next program shares; NULL: none.
const Exec *library_shared(const meshc_model *m);
void library_program_free(meshc_program *p);
// Whether a step of the model has failed halfway: then its threads may still be at work.
bool library_stuck(const meshc_model *m);

// -- library_array.c ----------------------------------------------------------------------------
// Copies a caller's buffer into tensor i of that kind, or out of it. False after an error in the
// model's Diag.
MUST_USE bool library_put(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *from);
MUST_USE bool library_get(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *to);

#endif
