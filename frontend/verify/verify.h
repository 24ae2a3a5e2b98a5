// --verify: runs one step on one processor and on the mesh, with the same input and equal state,
// and compares the results. Words of this room:
//
//   whole    the step on one processor, its program and its results
//   split    the step on the mesh
//   given    a tensor that the step begins with: an input, parameter, state or optimizer slot
//   value    an output of the step or a tensor that it updates; value i is VerifyRun.value[i]
//   want     the expected elements of a value
//   sample   a run of the whole step with random errors, whose spread gives the bounds
//   open     an element that is not compared, because rounding can decide it: a comparison or an index
//   vague    a value most of whose elements are open
#ifndef FRONTEND_VERIFY_H
#define FRONTEND_VERIFY_H

#include "frontend/driver/session.h"
#include "ir/eval/eval.h"

typedef struct VerifyJob {
  const Graph *graph;      // the selected graph, before any pass
  const Compilation *made; // `graph`, compiled for the mesh
  Exec *exec; // has the inputs, the valid rows and the state that the step begins with; is not
              // changed
  const char *purpose; // "train", "eval" or "run": `purpose` of session_compile
  int64_t rows;        // number of valid rows of the batch; -1: all
  int64_t step;
  bool commit;
} VerifyJob;

typedef struct Verified {
  bool done;                  // true if --verify was given and all values agree
  uint32_t values, vague;     // number of values compared; number of vague ones among them
  bool evaluated;             // the evaluator gave the bounds; else samples did
  const char *worst;          // name of the value with the largest error
  double error;               // that error, as a multiple of its bound
  int64_t wire_bytes;         // bytes sent, counted during the split step; equal to the prediction
  uint32_t kernels, elements; // distinct kernels that were compared with the evaluator, and the
                              // number of elements compared
} Verified;

// Verifies the step of one job. Does nothing without --verify. Prints a line if all values agree.
// Returns false after an error: a value that differs (the message has element and both numbers), or
// a run that failed. With ranks, all call it together: the first runs the whole step, all run the
// split one.
MUST_USE bool verify_step(Session *s, const VerifyJob *job, Verified *out);
// Verifies a second program of the same command, as verify_step does. *out has the result of the
// first program and gets the totals of both.
MUST_USE bool verify_more(Session *s, const VerifyJob *job, Verified *out);
// Writes the first batch of f into e. *rows gets the number of valid rows for VerifyJob, -1 if the
// batch is full. Returns false after an error.
MUST_USE bool verify_batch(Session *s, Exec *e, Feed *f, int64_t *rows);
// Adds the member "verify" to the JSON object `out`, if the step was verified.
void verified_json(json_t *out, const Verified *v);

// -- verify_kernels.c: kernels beside the evaluator ---------------------------------------------
typedef struct VerifyKernels VerifyKernels;
// Prepares the comparison for one step of the program of `made`, which runs with the probe
// (ExecOptions.probe). Allocates from a.
VerifyKernels *verify_kernels(Session *s, Arena *a, const Compilation *made);
const ExecProbe *verify_kernels_probe(const VerifyKernels *v);
// Call it after the step. Returns false after an error that names file, line, value and element.
// *kernels and *elements get how many were compared.
MUST_USE bool verify_kernels_agree(const VerifyKernels *v, uint32_t *kernels, uint32_t *elements);

// -- verify_stages.c: the graph after every pass ------------------------------------------------
// With --stages: evaluates the graph after every pass on the tensors that `run` begins with.
// Returns false after an error: it names the first pass that changes a value, and the value, or
// says that the model is too large.
typedef struct VerifyRun VerifyRun;
MUST_USE bool verify_stages(Session *s, const VerifyRun *run, const VerifyJob *job);

// -- verify_bound.c: tolerances of elements -----------------------------------------------------
// An output of the step, or a tensor that it updates. Its axes are in the order of files.
typedef struct VerifyValue {
  const char *name;
  TensorKind kind;
  Dtype type;
  int rank;
  const char *dim[MAX_RANK];
  int64_t size[MAX_RANK], n; // n: the number of elements; sizes count valid rows only
  Pos pos;
} VerifyValue;
// A tensor that the step begins with, not split; `data` has n elements of `type`.
typedef struct VerifyGiven {
  const char *name;
  TensorKind kind;
  Dtype type;
  int64_t n;
  char *data;
} VerifyGiven;

typedef struct VerifyBound VerifyBound;
struct VerifyRun {
  Arena *a;
  const Graph *graph; // the simplified graph for one processor
  Exec *exec;         // the program for one processor
  int64_t rows, step;
  bool commit;
  uint32_t ngiven, nvalues;
  VerifyGiven *given;
  VerifyValue *value;
};
// Returns true if the model is small enough for the evaluator: its elements and work are at most
// `most` times the limits of --verify. If verify_small(r, 1) is false, verify_bound runs samples.
// The caller must then have replaced r->exec by a program for the graph of verify_perturbed.
bool verify_small(const VerifyRun *r, double most);
// Sets *out to the values of all declared tensors of g that have a node, taken from what the step
// begins with; zeros for tensors that no node reads. Returns their number. Allocates from a.
uint32_t verify_feeds(const VerifyRun *r, Arena *a, const Graph *g, EvalFeed **out);
// Returns the relative size of the random errors that replace the rounding errors of node n. For a
// sum they are errors of its terms, otherwise of the result.
double verify_delta(const Graph *g, NodeId n);
double verify_terms(const Graph *g, NodeId n); // number of terms of one element of the sum n
// verify_perturb.c: returns the graph with random errors (verify_delta) in all sums. The scalar
// input verify_sample gives every sample other errors.
Graph *verify_perturbed(Arena *a, const Graph *from);
extern const char verify_sample[];
// Computes the bounds of all elements: runs the evaluator, or samples whose given tensors have
// random errors, too. whole[i] has the elements of value i after the step on one processor.
VerifyBound *verify_bound(const VerifyRun *r, double *const *whole);
// Runs more samples, which may find more elements that cannot be compared. Returns false if the
// limit of samples was reached before.
bool verify_widen(VerifyBound *b);
bool verify_evaluated(const VerifyBound *b);
// Compares the elements `got` with value i. Returns the largest error relative to its bound. *wrong
// gets the first element beyond its bound, or -1; *vague is true if most elements cannot be
// compared.
double verify_compare(const VerifyBound *b, uint32_t i, const double *got, int64_t *wrong,
                      bool *vague);
// Returns the expected number for an element of value i; *bound gets its bound.
double verify_want(const VerifyBound *b, uint32_t i, int64_t element, double *bound);
// Allocates an array of elements for each value of the run.
double **verify_numbers(const VerifyRun *r);
// Reads a value of e, from one of its replicas, into `out`; NULL on a rank that does not compare.
// All ranks call it together.
void verify_read(const Exec *e, const VerifyValue *x, int64_t replica, double *out);
// Runs the step of r on n given tensors, and reads value i into out[i] (from verify_numbers).
// Returns false if the step failed.
MUST_USE bool verify_run_step(const VerifyRun *r, uint32_t n, const VerifyGiven *given,
                              double **out);

#endif
