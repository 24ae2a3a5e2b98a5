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
  // the command's processors: they have the inputs, the number of valid rows and the state with
  // which the step begins, and are not changed
  Exec *exec;
  const char *purpose; // what session_compile needs: "train", "eval" or "run"
  int64_t rows;        // number of valid rows of the batch; -1: all
  int64_t step;
  bool commit;
} VerifyJob;

typedef struct Verified {
  bool done;              // true if --verify was given and all values agree
  uint32_t values, vague; // number of values compared; number of vague ones among them
  bool evaluated;         // the evaluator gave the bounds; else samples did
  const char *worst;      // name of the value with the largest error
  double error;           // that error, as a multiple of its bound
  int64_t wire_bytes;     // bytes sent during the split step, as counted; equal to the prediction
  uint32_t kernels, elements; // distinct kernels that were compared with the evaluator, and the
                              // number of elements compared
} Verified;

// Verifies the step of one job. Does nothing without --verify. Prints a line if all values agree.
// Returns false after an error: a value differs (the message has the element and both numbers), or
// a run failed. All ranks call it together. The first rank runs the whole step; all ranks run the
// split step.
MUST_USE bool verify_step(Session *s, const VerifyJob *job, Verified *out);
// Verifies another program of a command as verify_step does. Before the call, *out has the result
// of the earlier programs; after it, the totals of all.
MUST_USE bool verify_more(Session *s, const VerifyJob *job, Verified *out);
// Writes the first batch of f into the inputs of e. *rows gets the number of valid rows, as
// VerifyJob.rows: -1 if the batch is full. Returns false after an error.
MUST_USE bool verify_batch(Session *s, Exec *e, Feed *f, int64_t *rows);
// Adds the member "verify" to the JSON object `out`, if the step was verified.
void verified_json(json_t *out, const Verified *v);

// -- verify_kernels.c: kernels compared with the evaluator --------------------------------------
typedef struct VerifyKernels VerifyKernels;
// Prepares the comparison for one step of the program of `made`. The caller runs this step with
// verify_kernels_probe as its ExecOptions.probe. Allocates from a.
VerifyKernels *verify_kernels(Session *s, Arena *a, const Compilation *made);
const ExecProbe *verify_kernels_probe(const VerifyKernels *v);
// Compares what the probe recorded during the step. *kernels and *elements get how many of them
// were compared. Returns false after an error that names file, line, value and element.
MUST_USE bool verify_kernels_agree(const VerifyKernels *v, uint32_t *kernels, uint32_t *elements);

// -- verify_stages.c: the graph after every pass ------------------------------------------------
typedef struct VerifyRun VerifyRun;
// With --stages, evaluates the graph after every pass on the tensors `run->given`. Returns false
// after an error, which names the first pass that changes a value, and the value, or says that the
// model is too large.
MUST_USE bool verify_stages(Session *s, const VerifyRun *run, const VerifyJob *job);

// -- verify_bound.c: tolerances of elements -----------------------------------------------------
// An output of the step, or a tensor that it updates. Its dims are in the order of its files, that
// of the declaration.
typedef struct VerifyValue {
  const char *name;
  TensorKind kind;
  Dtype type;
  int rank;
  const char *dim[MAX_RANK];
  int64_t size[MAX_RANK], n; // n: number of elements; sizes and n count valid rows only
  Pos pos;
} VerifyValue;
// A tensor that the step begins with. `data` has all its n elements, of type `type`.
typedef struct VerifyGiven {
  const char *name;
  TensorKind kind;
  Dtype type;
  int64_t n;
  char *data;
} VerifyGiven;

typedef struct VerifyBound VerifyBound;
// The whole step: its program, the tensors that it begins with, and the values that it gives.
struct VerifyRun {
  Arena *a;
  const Graph *graph; // graph for one processor, after the pass `simplify`
  Exec *exec;         // the program for one processor
  int64_t rows, step;
  bool commit;
  uint32_t ngiven, nvalues;
  VerifyGiven *given;
  VerifyValue *value;
};
// Returns true if the model is small enough for the evaluator: the numbers of its elements and
// operations are at most `most` times the limits of --verify. If verify_small(r, 1) is false, the
// caller must replace r->exec by a program for the graph of verify_perturbed before it calls
// verify_bound, which then runs samples.
bool verify_small(const VerifyRun *r, double most);
// Sets *out to the values of all declared tensors of g that have a node, and returns their number.
// The values are those of r->given. A tensor that is missing there is not read by the program and
// gets zeros. Allocates from a.
uint32_t verify_feeds(const VerifyRun *r, Arena *a, const Graph *g, EvalFeed **out);
// Returns how large rounding errors of node n can be, relative to its terms if n is a sum, else to
// its result. Samples have random errors of this size.
double verify_delta(const Graph *g, NodeId n);
// Returns how many terms node n adds for one element of its result; 1 if it is not a sum.
double verify_terms(const Graph *g, NodeId n);
// verify_perturb.c: returns the graph with random errors (verify_delta) in all sums. It has an
// additional scalar input named verify_sample; every sample sets it to a different number, and so
// has different errors.
Graph *verify_perturbed(Arena *a, const Graph *from);
extern const char verify_sample[];
// Computes the bounds of all elements with the evaluator or, for a larger model, with samples. The
// given tensors of a sample have random errors, too. whole[i] has the elements of value i after the
// whole step.
VerifyBound *verify_bound(const VerifyRun *r, double *const *whole);
// Repeats the evaluation or the samples with other random errors: bounds may grow, and more
// elements may become open. Returns false, without a run, if the limit of runs was reached before.
bool verify_widen(VerifyBound *b);
// Returns true if the evaluator gave the bounds, not samples.
bool verify_evaluated(const VerifyBound *b);
// Compares the elements `got` with the expected ones of value i. Returns the largest error as a
// multiple of its bound. *wrong gets the index of the first element whose error exceeds its bound,
// or -1; *vague is true if most elements are open.
double verify_compare(const VerifyBound *b, uint32_t i, const double *got, int64_t *wrong,
                      bool *vague);
// Returns the expected number of element `element` of value i; *bound gets its bound.
double verify_want(const VerifyBound *b, uint32_t i, int64_t element, double *bound);
// Returns an array for each value of the run, with room for its elements. Allocates from r->a.
double **verify_numbers(const VerifyRun *r);
// Reads value x of e into `out`, the blocks from the processors that have replica number `replica`
// of them. All ranks call it together; `out` is NULL on ranks that do not compare.
void verify_read(const Exec *e, const VerifyValue *x, int64_t replica, double *out);
// Runs the step of r on n given tensors, and reads value i into out[i], an array of verify_numbers.
// Returns false if the step failed.
MUST_USE bool verify_run_step(const VerifyRun *r, uint32_t n, const VerifyGiven *given,
                              double **out);

#endif
