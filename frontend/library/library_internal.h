// Handles of libmeshc and the functions that its files share. Every call of include/meshc.h passes
// library_call, which catches failures and returns errors as objects.
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
  // Indexed by kind and tensor: memory for the tensor in C order, through which buffers in another
  // order, stride or type are copied. Allocated by malloc when it is first needed; NULL before.
  void **room[KINDS];
  meshc_program *before;
};

struct meshc_model {
  Session s;
  Options options;
  TensorList tensor[KINDS];
  meshc_program *programs; // list of all programs, newest first
  meshc_program *store;    // see library_store; NULL before its first call
  const Exec *trainer;    // the first program with optimizer state, or NULL; others use its tensors
  ProgramRun train, test; // programs of meshc_train: a training step, and its evaluation
  ProgramRun eval;        // program of the current call of meshc_evaluate
  Saver *saver;           // checkpoint writer of the current call of meshc_save
  TrainJob job;
  int64_t default_steps;          // number of training steps in the train block
  double *value;                  // losses and metrics that a step reports
  const char *const *metric_name; // names of the metrics of an evaluation
  volatile sig_atomic_t stop;     // set when the callback asks to stop
  int64_t steps;
  int64_t epoch, row; // position of the next batch of meshc_train
  meshc_error *warnings;
  uint32_t said; // number of diagnostics in s.diag when the current call began
  bool broken;   // a call failed halfway: only meshc_read and meshc_close still work
};

// -- library_error.c ----------------------------------------------------------------------------
typedef bool LibraryWork(meshc_model *m, void *context);
// Runs work(m, context) under a guard. Returns 0 and sets *error to NULL, or returns the exit code
// of the first error and sets *error to the errors, which the caller of meshc.h frees. The warnings
// are added to the model's.
int library_call(meshc_model *m, LibraryWork *work, void *context, meshc_error **error);
// Sets *error to an error object with one error, which has no position. Returns its exit code.
int library_refuse(DiagId id, const char *text, const char *hint, meshc_error **error);
// Returns the errors and warnings of d from entry `from` on, or only the warnings. The caller frees
// the object (meshc_error_free).
meshc_error *library_errors(const Diag *d, uint32_t from, bool warnings_only);
// Sets *error to an error object for a failed allocation or an internal error. Returns its exit
// code.
int library_failed(const Failure *f, meshc_error **error);

// -- library_model.c ----------------------------------------------------------------------------
// Adds a use of an option with this text. With text NULL it removes the use that was added last: a
// call sets an option, does its work and removes the option.
void library_option(meshc_model *m, OptionId id, const char *text);

// -- library_tensor.c ---------------------------------------------------------------------------
meshc_type library_type(Dtype t);
bool library_dtype(meshc_type type, Dtype *out);
TensorKind library_tensor_kind(meshc_kind kind);
// Fill the lists of tensors of a model and of a program, by kind, in the model's arena.
void library_list_model(meshc_model *m);
void library_list_program(meshc_program *p);
// Returns the index of the tensor of this name in the list, or -1.
int64_t library_find(const TensorList *list, const char *name);

// -- library_program.c --------------------------------------------------------------------------
// Returns the store, a program that holds all parameters and states and has no instructions. It is
// made at the first call. All other programs use its tensors, in whatever order they are compiled.
// Returns NULL after an error in the model's Diag.
meshc_program *library_store(meshc_model *m);
// Compiles and binds a new program for a purpose. The model owns it. Returns NULL after an error in
// the model's Diag.
meshc_program *library_compile(meshc_model *m, meshc_purpose purpose);
// Frees what a training or an evaluation has opened, and clears *p.
void library_run_free(ProgramRun *p);
// Returns the program whose parameters, states and optimizer state the next program uses: the
// trainer if there is one, else the store. Returns NULL if there is neither.
const Exec *library_shared(const meshc_model *m);
void library_program_free(meshc_program *p);
// Returns whether a step of the model failed halfway, so that its threads may still be running.
bool library_stuck(const meshc_model *m);

// -- library_array.c ----------------------------------------------------------------------------
// Copy a caller's buffer into tensor i of a kind, or tensor i into the buffer. Return false after
// an error in the model's Diag.
MUST_USE bool library_put(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *from);
MUST_USE bool library_get(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *to);

#endif
