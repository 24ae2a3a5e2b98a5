// Handles of libmeshc and the functions that its files share. Every call of include/meshc.h passes
// library_call, which catches failures and returns errors as objects.
//
// A model comes from a text, which the compiler in frontend/library compiles, or from a package of
// compiled programs (runtime/package). What the two do in their own way is in struct LibraryKind.
#ifndef RUNTIME_LIBRARY_H
#define RUNTIME_LIBRARY_H

#include <signal.h>

#include "include/meshc.h"
#include "ir/base/guard.h"
#include "runtime/generate/texts.h"
#include "runtime/runtime.h"

typedef struct TensorList {
  uint32_t n;
  meshc_tensor *at;
} TensorList;

enum { KINDS = MESHC_OUTPUT + 1 };

struct meshc_program {
  meshc_model *model;
  const Program *program; // NULL before it is compiled
  Exec *exec;
  bool trains;
  TensorList tensor[KINDS];
  // Indexed by kind and tensor: memory for the tensor in C order, through which buffers in another
  // order, stride or type are copied. Allocated by malloc when it is first needed; NULL before.
  void **room[KINDS];
  meshc_program *before;
};

// The callback of meshc_train and meshc_evaluate.
typedef struct Reporting {
  meshc_model *model;
  meshc_progress_function *progress; // may be NULL
  void *context;
} Reporting;

// What generates text: a decoder of one row, and the conversion of its ids.
typedef struct LibraryText {
  Decoder *decoder;
  TokenCodec codec;
} LibraryText;

// What a model does in the way of its kind. The functions that return bool or a pointer return
// false or NULL after an error in the model's Diag.
typedef struct LibraryKind {
  // Frees all that the model has beside its arena and its error objects.
  void (*close)(meshc_model *m);
  // Returns whether a step failed halfway, so that threads of the model may still be running.
  bool (*stuck)(const meshc_model *m);
  // Returns the store: a program that holds all parameters and states. It is made at the first
  // call. All other programs use its tensors, in whatever order they are compiled.
  meshc_program *(*store)(meshc_model *m);
  meshc_program *(*compile)(meshc_model *m, meshc_purpose purpose, const char *const *fetch,
                            size_t n);
  bool (*train)(meshc_model *m, int64_t steps, const Reporting *to);
  bool (*evaluate)(meshc_model *m, const char *data, const Reporting *to);
  bool (*load)(meshc_model *m, const char *path);
  bool (*save)(meshc_model *m, const char *path);
  // Sets *out to what generates text. It is made at the first call, and belongs to the model.
  bool (*text)(meshc_model *m, LibraryText *out);
  char *(*json)(meshc_model *m, const char *command, meshc_purpose purpose);
  // Returns whether an output of a program is none of the model; the name of a dim for users.
  bool (*hides)(const meshc_model *m, const char *output);
  const char *(*dim_name)(const meshc_model *m, const char *dim);
  // Returns whether a dim counts the micro-batches of a step (`accumulate`).
  bool (*is_micro)(const meshc_model *m, const char *dim);
} LibraryKind;

struct meshc_model {
  const LibraryKind *kind;
  Arena *arena;
  Diag *diag;
  TensorList tensor[KINDS];
  meshc_program *programs; // list of all programs, newest first
  meshc_program *store;    // see LibraryKind.store; NULL before its first call
  const Exec *trainer; // the first program with optimizer state, or NULL; others use its tensors
  volatile sig_atomic_t stop; // set when the callback asks to stop
  int64_t steps;
  meshc_error *warnings;
  uint32_t said; // number of messages in `diag` when the current call began
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

// -- library_options.c --------------------------------------------------------------------------
struct meshc_options {
  size_t n;
  char **word; // the options as words of a command line: "--mesh=rows=2"
};
// Returns whether models have an option of this name, without dashes, and whether `value` may be
// its value: NULL is for switches only. The compiler and the library without it each have their
// own.
bool library_has_option(const char *name, const char *value);

// -- library_open.c -----------------------------------------------------------------------------
// The opening of a model. `open` sets `model` as soon as it has made one, in an arena of its own,
// and returns whether it is good.
typedef struct Opening {
  bool (*open)(struct Opening *o);
  const char *path, *text; // `text` is NULL if the file at path is read
  size_t bytes;
  const meshc_options *options;
  meshc_model *model;
  bool good;
} Opening;
// Returns the model, or NULL after an error in *error.
meshc_model *library_open_model(Opening *o, meshc_error **error);

// -- library_tensor.c ---------------------------------------------------------------------------
meshc_type library_type(Dtype t);
bool library_dtype(meshc_type type, Dtype *out);
TensorKind library_tensor_kind(meshc_kind kind);
// The dims of a tensor that is added to a list, to be filled in.
typedef struct TensorDims {
  const char **name;
  int64_t *size;
} TensorDims;
TensorDims library_add_tensor(Arena *a, TensorList *list, meshc_kind kind, const char *name,
                              Dtype type, int rank);
// Sets the dims of tensor t of a program. The micro-batches of a step follow one another in the
// rows of an input, so the caller sees one dim of all rows.
void library_add_dims(const meshc_model *m, meshc_tensor *tensor, TensorDims to,
                      const ProgTensor *t);
// Fills the lists of tensors of a program, by kind, in the model's arena.
void library_list_program(meshc_program *p);
// Returns the index of the tensor of this name in the list, or -1.
int64_t library_find(const TensorList *list, const char *name);

// -- library_run.c ------------------------------------------------------------------------------
// Adds a program of `bytes` bytes, which begin with a meshc_program, to the model's list at once,
// so that meshc_close frees it even if its compile fails.
meshc_program *library_program_new(meshc_model *m, size_t bytes);
void library_program_free(meshc_program *p);
// Returns the program whose parameters, states and optimizer state the next program uses: the
// trainer if there is one, else the store. Returns NULL if there is neither.
const Exec *library_shared(const meshc_model *m);

// -- library_array.c ----------------------------------------------------------------------------
// Copy a caller's buffer into tensor i of a kind, or tensor i into the buffer. Return false after
// an error in the model's Diag.
MUST_USE bool library_put(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *from);
MUST_USE bool library_get(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *to);

#endif
