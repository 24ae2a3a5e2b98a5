// --verify: one step whole on one processor and split on the mesh, on the same input and from equal state.
#ifndef FRONTEND_VERIFY_H
#define FRONTEND_VERIFY_H

#include "frontend/driver/session.h"
#include "ir/eval/eval.h"

typedef struct VerifyJob {
  const Graph *graph;      // as it was selected
  const Compilation *made; // of it, on the mesh
  Exec *exec; // holds the inputs, the valid rows and the state that the step begins with; is left
              // as it is
  const char *purpose; // as of session_compile
  int64_t rows;        // of the dim `over` that are valid, -1: all
  int64_t step;
  bool commit;
} VerifyJob;

typedef struct Verified {
  bool done; // --verify was given, and nothing is wrong
  uint32_t values,
      vague;      // compared; of them so near to jumps that most of their elements may be anything
  bool evaluated; // against the evaluator's bounds, else against the spread of perturbed runs
  const char *worst; // value that came nearest to its bound, and how near
  double error;
  int64_t wire_bytes;         // counted, as predicted
  uint32_t kernels, elements; // distinct ones compared with the evaluator, in so many elements
} Verified;

// Does nothing without --verify. Prints a line where all agree; false after an error that names
// value, element and both numbers, or after one of the runs. With ranks the first does the whole
// run, all do the split one; all call it together.
MUST_USE bool verify_step(Session *s, const VerifyJob *job, Verified *out);
// The same of another program of the command: *out is then of both.
MUST_USE bool verify_more(Session *s, const VerifyJob *job, Verified *out);
// The first batch of f into e, whose program is made for `batch` rows of `over` (NULL: every batch
// is whole); *rows as VerifyJob wants them. False after an error.
MUST_USE bool verify_batch(Session *s, Exec *e, Feed *f, int64_t *rows);
// "verify" of an object, where it was done.
void verified_json(json_t *out, const Verified *v);

// -- verify_kernels.c: kernels beside the evaluator ---------------------------------------------
typedef struct VerifyKernels VerifyKernels;
// For one step of the program of `made` under ExecOptions.probe; memory from a.
VerifyKernels *verify_kernels(Session *s, Arena *a, const Compilation *made);
const ExecProbe *verify_kernels_probe(const VerifyKernels *v);
// After the step; false after an error that names file, line, value and element.
MUST_USE bool verify_kernels_agree(const VerifyKernels *v, uint32_t *kernels, uint32_t *elements);

// -- verify_stages.c: the graph after every pass ------------------------------------------------
// With --stages: evaluates the graph after every pass on what `run` begins with. False after an
// error that names the first pass that changes a value, and the value; or that the model is too
// large.
typedef struct VerifyRun VerifyRun;
MUST_USE bool verify_stages(Session *s, const VerifyRun *run, const VerifyJob *job);

// -- verify_bound.c: what elements may differ by ------------------------------------------------
// One value after the step, axes in the order of files.
typedef struct VerifyValue {
  const char *name;
  TensorKind kind;
  Dtype type;
  int rank;
  const char *dim[MAX_RANK];
  int64_t size[MAX_RANK], n; // valid rows
  Pos pos;
} VerifyValue;
// A tensor that the step begins with, whole; elements of n numbers.
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
  const Graph *graph; // simplified, whole
  Exec *exec;         // of one processor
  int64_t rows, step;
  bool commit;
  uint32_t ngiven, nvalues;
  VerifyGiven *given;
  VerifyValue *value;
};
// Whether the evaluator can run the graph: it has at most `most` times the elements and the work
// that
// --verify evaluates. If not (most = 1), r->exec must be of verify_perturbed when
// verify_bound is called.
bool verify_small(const VerifyRun *r, double most);
// Values of all declared tensors of g that have a node, from what the step begins with; zeros where
// nothing reads a tensor. Returns their number; memory from a.
uint32_t verify_feeds(const VerifyRun *r, Arena *a, const Graph *g, EvalFeed **out);
// The part that random errors in the terms of node n, or in its value, make up: like rounding in
// its sums.
double verify_delta(const Graph *g, NodeId n);
double verify_terms(const Graph *g, NodeId n); // that one element of its sum has
// verify_perturb.c: the graph with such errors in all sums, turned by the scalar input
// verify_sample.
Graph *verify_perturbed(Arena *a, const Graph *from);
extern const char verify_sample[];
// Runs the evaluator, or the program with its inputs and state perturbed. `whole`: what the program
// gave, value by value.
VerifyBound *verify_bound(const VerifyRun *r, double *const *whole);
// More runs, which may find that more elements may be anything; false when there have been all.
bool verify_widen(VerifyBound *b);
bool verify_evaluated(const VerifyBound *b);
// How near got comes to the bound of value i: the largest error as a part of its bound. *wrong gets
// the first element beyond, or -1; *vague whether most elements may be anything.
double verify_compare(const VerifyBound *b, uint32_t i, const double *got, int64_t *wrong,
                      bool *vague);
double verify_want(const VerifyBound *b, uint32_t i, int64_t element, double *bound);
// Room for the elements of all values.
double **verify_numbers(const VerifyRun *r);
// The numbers of a value of e, into `out`; NULL on a rank that does not compare. All ranks call it
// together.
void verify_read(const Exec *e, const VerifyValue *x, int64_t replica, double *out);
// Runs the step of r on n tensors and reads value i into out[i], of verify_numbers. False after the
// step has failed.
MUST_USE bool verify_run_step(const VerifyRun *r, uint32_t n, const VerifyGiven *given,
                              double **out);

#endif
