// The runtime: executes a Program on the processors of a mesh, feeds it and trains with it. It does
// not link the compiler; a Program must come with the addresses of its kernels.
//
// It prints nothing and, in a process that meshc does not own (ir/base/guard.h), installs no signal
// handler. Functions are for one thread at a time for each object, except where they say otherwise.
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include <signal.h>

#include "collectives/ranks/ranks.h"
#include "ir/program/program.h"

// -- exec.c: contexts and workers ---------------------------------------------------------------
// A processor is a context, not a thread (decision 22). There are as many workers as cores. With
// more processors than workers, each worker runs its contexts one after the other up to the next
// collective; with fewer, the workers of a context share the chunks of each kernel.
typedef struct Exec Exec;
// An injected fault, for tests: the processor receives a wrong element in its call number `call` of
// a collective, counted from 0 over all steps; -1: never. With `kernel`, `call` counts the kernel
// launches of the program that have numeric constants, and the first constant is wrong in every
// step.
typedef struct ExecInject {
  int64_t processor, call;
  bool kernel;
} ExecInject;
// Functions called before and after each kernel of the first processor of this process. `kernel` is
// the index in Program.kernel, `instr` that of the instruction. `call` is the call for the first
// operand set, the tensors to which the kernel is applied first.
typedef struct ExecProbe {
  void *self;
  void (*before)(void *self, uint32_t kernel, uint32_t instr, const KernelCall *call);
  void (*after)(void *self, uint32_t instr);
} ExecProbe;
typedef struct ExecOptions {
  int threads;  // cores in all; 0: those of this process; with `share` its threads are used
  Ranks *ranks; // the processes that share the processors of the mesh, or NULL; must live longer
  const Exec *share; // its persistent tensors of equal name are used; must live longer; or NULL
  uint64_t seed;
  const char *must_be_finite; // a step commits only if this scalar output is finite; or NULL
  const char *directory;      // prefix of relative paths of initial values, or NULL
  bool profile;               // keep the seconds of every instruction
  const ExecInject *inject;   // or NULL
  const ExecProbe *probe;     // must live longer; or NULL
  // Nonzero: this process is asked to stop. A signal handler may set it. Or NULL.
  const volatile sig_atomic_t *stop_request;
} ExecOptions;

// Binds p to all processors of its mesh, or to those of this rank: allocates memory and computes
// the address of every operand. Persistent tensors get their initial values unless they are shared.
// p must outlive the result. Returns NULL after an error in d: not enough memory, a bad file of
// initial values.
Exec *exec_new(const Program *p, const ExecOptions *opt, Diag *d);
void exec_free(Exec *e);

// Sets params, states and slots to their initial values again (decision 25).
bool exec_initialise(Exec *e, Diag *d);

// Writes a full tensor in declared order to the blocks of all processors, converting to its type.
// If only some rows of the batch are valid (exec_rows), `full` has those rows only. Type and shape
// must have been checked.
void exec_write(Exec *e, TensorKind kind, const char *name, Dtype type, const void *full);
// Reads a full tensor from the blocks of all processors, in declared order and its own type, into
// `full`, which has room for all elements. All ranks call it together; a rank that needs no values
// passes NULL.
void exec_read(const Exec *e, TensorKind kind, const char *name, void *full);
// Several processors may hold the same block; exec_read takes the first of them. These give the
// number of such replicas, and read replica number `replica`.
int64_t exec_replicas(const Exec *e, TensorKind kind, const char *name);
void exec_read_replica(const Exec *e, TensorKind kind, const char *name, int64_t replica,
                       void *full);
// Copies inputs, valid rows and persistent tensors from one Exec to another of the same program.
void exec_copy(Exec *to, const Exec *from);
// With ranks: makes f read only the rows that the processors of this rank use. e runs the batches
// of f; `last`, if it is not NULL, runs the incomplete ones.
struct Feed;
void exec_restrict_feed(const Exec *e, const Exec *last, struct Feed *f);
// Sets the number of valid rows of a batch: elements of the dim Program.over. -1: all.
void exec_rows(Exec *e, int64_t rows);

typedef enum StepResult { STEP_OK, STEP_BAD_INDEX, STEP_NOT_FINITE, STEP_FAILED } StepResult;
// Runs the program once. `step` is the step counter that the program reads. With `commit`,
// persistent tensors change if no processor has an error; without, the instructions after COMMIT
// are left out. After STEP_BAD_INDEX or STEP_FAILED, exec_fault adds the error to a Diag.
StepResult exec_step(Exec *e, int64_t step, bool commit);
void exec_fault(const Exec *e, Diag *d);
// The first value of a step that is not finite, in the order of one processor's instructions
// (probe.c).
typedef struct NotFinite {
  bool found;
  bool given; // the step begins with it: an input, parameter, state or slot
  bool backward;
  int64_t processor;
  int64_t round; // step of the innermost loop (scan), from 0; -1: not in a loop
  double value;
  const char *name, *op; // full name of the value or NULL; the operation that made it
  char where[256];       // "b=3, h=1": its global indices; "" of a scalar
  Pos pos;
} NotFinite;
// Runs the step without its commit and finds the first value that is not finite. e has the batch
// and the state before the step. All ranks call it together and get the same answer. Returns false
// if the step could not be run.
MUST_USE bool exec_find_not_finite(Exec *e, int64_t step, NotFinite *out);
// Returns true if this process has been asked to stop. With ranks, returns true on all ranks if one
// of them had been asked before the last step of e ended.
bool exec_stop_asked(const Exec *e);
// Returns the memory of a tensor where it is one block in declared order, as with one processor;
// else NULL. Inputs are overwritten by a step.
void *exec_direct(const Exec *e, TensorKind kind, const char *name);
// Returns true if a step of e has failed halfway. Its workers may still use its memory, so
// exec_free must not be called. e may be NULL.
bool exec_is_stuck(const Exec *e);
// Returns the value of a scalar output.
double exec_scalar(const Exec *e, const char *output);
const CommCount *exec_counts(const Exec *e);
int exec_workers(const Exec *e);
// Returns, with ExecOptions.profile, the seconds that the first worker spent in each instruction,
// in all steps together, with the time it waited for others. Else NULL.
const double *exec_profile(const Exec *e);
// Turns the profile on or off. It reads the clock for every instruction.
void exec_profile_switch(Exec *e, bool on);
// Returns the bytes of memory of one processor: persistent tensors and arena, without tensors
// shared from another Exec.
int64_t exec_bytes(const Exec *e);
// Returns what the steps so far should have sent, as the program predicts it.
const ProgramCount *exec_predicted(const Exec *e);
// Makes the self-check at the end of a run: compares the counts of the communicator and the memory
// of every processor with the predictions. Returns false after an error in d that names the kind
// and the figures.
MUST_USE bool exec_check(const Exec *e, Diag *d);

// -- array.c and readers: files of numbers ------------------------------------------------------
// A whole array in memory, C order.
typedef struct Array {
  Dtype type;
  int rank;
  int64_t size[MAX_RANK];
  int64_t elements;
  void *data; // malloc'd, or inside map
  void *map;  // start of the mapping, which has map_bytes; NULL: not mapped
  size_t map_bytes;
} Array;
void array_free(Array *x);
// Reads path, and in an .npz or .safetensors file the array `key`. Returns false after an error in
// d at `at` that names the file and the offset or row. i64 is not converted.
MUST_USE bool array_read(Array *out, const char *path, const char *key, Diag *d, Pos at);
// Reads as array_read does, but without a copy where the file allows it: data is then inside a
// private mapping, at any alignment, and only pages that are accessed are loaded. A file that
// becomes shorter while it is mapped ends the process with a message and exit code 5; where meshc
// does not own the process, files are read instead.
MUST_USE bool array_map(Array *out, const char *path, const char *key, Diag *d, Pos at);
// Returns true if all elements keep their values in `type`. Otherwise adds an error to d that names
// `what` and the first element that does not.
MUST_USE bool array_fits(const Array *x, Dtype type, const char *what, Diag *d, Pos at);
// Names inside an .npz or .safetensors file: NULL-terminated, in `a`.
MUST_USE bool array_names(Arena *a, const char *path, const char ***out, Diag *d, Pos at);
// An array in a file of numbers, without its elements.
typedef struct ArrayInfo {
  const char *name; // "" where the file holds one array
  const char *type; // as the file says: "f32", "i16", "F8_E4M3"
  bool usable;      // elements of that type can be read
  int rank;
  int64_t size[MAX_RANK], elements, bytes;
} ArrayInfo;
typedef struct CsvColumn {
  const char *name;                 // NULL: there is no header
  int64_t numbers, missing, others; // number of fields that are numbers, empty, anything else
  double low, high;                 // the smallest and the largest number
} CsvColumn;
typedef struct ArrayText {
  const char *key, *value;
} ArrayText;
typedef struct ArrayList {
  const char
      *format;   // "npy", "npz", "safetensors", "shards", "folder", "idx", "csv", "text", "bytes"
  int64_t bytes; // of the file
  uint32_t n;
  ArrayInfo *at;
  uint32_t ntexts;
  ArrayText *text; // __metadata__ of safetensors
  int64_t rows;    // csv, text: records, lines
  uint32_t ncolumns;
  CsvColumn *column;
} ArrayList;
// Lists the arrays of a file or of a folder of .npy files. Everything is in `a`. Returns false
// after an error in d.
MUST_USE bool array_list(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at);
// Converts to `type` when no value is lost (f64 to f32 rounds; i64 to i32 is checked). Returns
// false with an error in d that names `what` and the first bad element.
MUST_USE bool array_convert(Array *x, Dtype type, const char *what, Diag *d, Pos at);
// Writes sizes as "[2, 3]" to `out`, which it returns.
const char *sizes_text(int rank, const int64_t *size, char *out, size_t room);
// Returns true if one shape becomes the other by splitting or merging neighbouring axes: runs of
// axes of equal product of which one side is a single axis.
bool sizes_fit(int rank, const int64_t *size, int other_rank, const int64_t *other);
// Writers write a temporary file and rename it, so that no half-written file is left. bf16 is
// written as f32, bool as npy bool.
typedef struct NamedArray {
  const char *name;
  Array array;
} NamedArray;
MUST_USE bool npy_write(const char *path, const Array *x, Diag *d);
// Writes the bytes of a .npy file; ferror(out) tells whether that failed.
void npy_put(FILE *out, const Array *x);
MUST_USE bool npz_write(const char *path, uint32_t n, const NamedArray *x, Diag *d);
MUST_USE bool safetensors_write(const char *path, uint32_t n, const NamedArray *x, Diag *d);

// -- rng.c: initial values and permutations, by Philox (ir/base/philox.h) -----------------------
uint64_t rng_key(uint64_t seed, const char *name); // hash of seed and full name
// Draws n elements of `init`, those with global indices index[0..n) in declared order, as doubles.
void rng_draw(const Init *init, uint64_t key, int64_t n, const int64_t *index, double *out);
// Returns element i of the keyed permutation of 0..n-1, computed on demand (cycle-walking Feistel
// network).
int64_t rng_permute(uint64_t key, int64_t n, int64_t i);

// -- feed.c: batches read ahead in the background -----------------------------------------------
typedef struct Feed Feed;
typedef struct FeedInput {
  const char *name; // of the input
  Dtype type;
  int rank;
  int64_t size[MAX_RANK]; // full, declared order
  int over;               // which axis runs over rows
  const DataSource *source;
  Pos pos;
} FeedInput;
// Opens all sources of a block and checks that their numbers of rows are equal and fit the shapes
// of the inputs. The strings and sources that `input` refers to must outlive the feed. `directory`:
// prefix of relative paths. A block of synthetic sources only has 64 batches an epoch. Returns NULL
// after errors in d.
Feed *feed_open(uint32_t n, const FeedInput *input, int64_t batch, bool shuffle, uint64_t seed,
                bool keep_last, const char *directory, Diag *d);
void feed_close(Feed *f);
int64_t feed_rows(const Feed *f);    // rows of the data set, which is an epoch
int64_t feed_batch(const Feed *f);   // rows of a full batch
int64_t feed_batches(const Feed *f); // batches of an epoch
// Gets the next batch: data[i] is input i in full, in declared order, valid until the next call.
// Returns its rows (fewer than a batch only for a last one that is kept), 0 at the end of an epoch,
// -1 after an error (feed_fault). After an epoch the next one begins.
int64_t feed_next(Feed *f, const void **data);
// Continues with that row of that epoch, in the order in which the epoch has its rows. Returns
// false after an error in d.
MUST_USE bool feed_seek(Feed *f, int64_t epoch, int64_t row, Diag *d);
// Sets *epoch and *row to the position after the rows that feed_next has returned.
void feed_position(const Feed *f, int64_t *epoch, int64_t *row);
void feed_fault(const Feed *f, Diag *d);
double feed_wait_seconds(const Feed *f); // time that feed_next has waited for data

// From here on only rows from..to-1 of that input are read, in full or in incomplete batches.
void feed_restrict(Feed *f, uint32_t input, bool incomplete, int64_t from, int64_t to);
// *out gets the inputs that the feed was opened with, in the order of the batches' data
// (feed_next). Returns their number.
uint32_t feed_inputs(const Feed *f, const FeedInput **out);

// -- loop.c: training and evaluation ------------------------------------------------------------
enum { METRIC_NUMBER = 32 };
// Writes x with four digits, such as "0.8714", "1.235e-05" or "nan". Returns the text.
const char *metric_number(double x, char out[METRIC_NUMBER]);

// A metric of an evaluation. For every batch the program outputs the outermost reductions over the
// batch dim; the loop combines them over all batches in double, and `finish` computes the metric
// from them.
typedef struct MetricPart {
  const char *output; // name of the program's output
  enum {
    PART_SUM,
    PART_MAX,
    PART_MIN,
    PART_PROD,
    PART_ROW_MEAN,
    PART_LOGSUMEXP
  } how; // how batches are combined; PART_ROW_MEAN: the mean, each batch weighted by its rows
  Dtype type;
  int64_t elements; // number of elements, each of which is combined by itself; 0: a scalar
} MetricPart;
typedef struct Metric {
  const char *name;
  uint32_t nparts;
  MetricPart *part;
  // The value from the combined parts, each with all its elements, after `rows` rows in all.
  double (*finish)(const void *context, const double *part, int64_t rows);
  const void *context;
  bool ratio; // print "(29/30)": the mean of a bool over the batch dim
} Metric;

// What train_run tells its caller while it runs. The thread that called train_run calls
// TrainJob.report.
typedef enum TrainEvent {
  TRAIN_BEGINS,        // before the first step
  TRAIN_STEP,          // a step is done
  TRAIN_EVALUATING,    // a batch of an evaluation is done
  TRAIN_EVALUATED,     // an evaluation has ended
  TRAIN_SAVED,         // a checkpoint is complete
  TRAIN_LOG_FAILED,    // a file of the log could not be written; training continues without it
  TRAIN_STOPPED_EARLY, // TrainJob.stop has not improved for TrainJob.patience evaluations
  TRAIN_INTERRUPTED,   // a stop was requested; the checkpoint, if any, is complete
  TRAIN_ENDS           // nothing follows
} TrainEvent;
// A field whose comment names an event is set with this event only; the others are set always.
typedef struct TrainReport {
  TrainEvent event;
  int64_t step;    // steps done, those of the run that training went on from included
  int64_t skipped; // steps that changed nothing, because the loss or a gradient was not finite
  double seconds;  // seconds of training so far, without evaluations
  bool due;        // TRAIN_STEP: a line is wanted for this step (TrainJob.log_every)
  // TRAIN_EVALUATED: one value for each of TrainJob.metric, NULL after an error; and whether it is
  // the evaluation after the last step
  const double *metric;
  bool final;
  int64_t rows, all_rows; // evaluated so far (TRAIN_EVALUATED: in all), and of the data set
  int64_t best_step; // TRAIN_STOPPED_EARLY: steps done at the best evaluation, and the value of
                     // TrainJob.stop in it
  double best;
  const char *path; // TRAIN_SAVED, TRAIN_LOG_FAILED
  int error;        // TRAIN_LOG_FAILED: errno
  int code;         // TRAIN_ENDS: what train_run returns
} TrainReport;

// What a training runs on, and what it leaves. Everything must outlive train_run.
typedef struct TrainJob {
  Exec *train, *eval; // eval shares train's persistent tensors; NULL: no evaluation
  Exec *last; // runs the last batch of an evaluation when that is incomplete, NULL: eval does
  Feed *feed, *test;
  const char *test_name; // "test" or "valid"
  uint32_t nmetrics;
  const Metric *metric; // evaluated on test; the loss is the first
  uint32_t nshown;
  const char *const *shown; // scalar outputs of train that users see: the losses, metrics
  int64_t steps;            // number of steps done when training ends, `start` included
  int64_t log_every;        // steps between two lines, 0: ten lines a run
  int64_t evaluate;         // steps between two evaluations, 0: at the end only
  int64_t start;            // steps that an earlier run has done, which this one resumes; 0: none
  // steps that a loaded optimizer state had done; the program's step counter starts from them
  int64_t before;
  const struct TrainPosition *resume; // or NULL; tensors and feed are at that position
  const char *resume_path;            // its checkpoint, for reports; or NULL
  struct Saver *saver;                // writes checkpoints (runtime/train/checkpoint.h), or NULL
  int64_t checkpoint;                 // steps between two checkpoints, 0: at the end only
  uint64_t seed;
  const char *stop;   // metric by which training may stop early, or NULL
  int64_t patience;   // evaluations without a better value of it after which training stops
  bool stop_minimise; // a smaller value is better
  bool skip; // a step that is not finite changes nothing, and the run goes on with the next batch
  const char *skipped; // scalar output of train: updates left out by a scaled loss; or NULL
  int64_t *done;       // gets the updates that were made, all steps but those skipped; or NULL
  int64_t batch;       // rows a step, or tokens a step
  bool tokens;         // `batch` counts tokens
  uint32_t nlogged; // number of scalar outputs of train that only the log gets: their names in the
                    // program (logged), and in the log (logged_as)
  const char *const *logged, *const *logged_as;
  // Adds notes to d: where the step of that number, on the batch `data`, stops being finite. Or
  // NULL.
  void (*locate)(void *context, int64_t step, const void **data, Diag *d);
  void *locating;                                           // its context
  void (*report)(void *context, const TrainReport *report); // or NULL; must not change the job
  void *report_context;
  struct Log *log;     // gets every step and evaluation (runtime/train/log.h); or NULL
  struct Trace *trace; // gets some steps (runtime/exec/trace.h); or NULL
  // a program that shares train's tensors and whose outputs are gradients; the log gets histograms
  // of them; or NULL
  Exec *gradients;
} TrainJob;
// Runs the steps. Returns the exit code: 0, 4 if the loss is not finite, 5 for bad data, 6 if
// another rank is lost, 7 without memory or disk space, EXIT_INTERRUPTED after a stop request.
// Errors are in d.
int train_run(const TrainJob *job, Diag *d);
// Returns the number of updates left out so far because gradients of the scaled loss (f16)
// overflowed.
int64_t train_skipped_updates(const TrainJob *job);

typedef struct EvalProgress {
  // Called after each batch of an evaluation: rows done, and rows of the data set.
  void (*rows)(void *context, int64_t done, int64_t all);
  void *context;
} EvalProgress;
// Evaluates the n metrics over all rows of f into out[n]; *rows gets their number. `last`: a
// program compiled for the rows of the last, incomplete batch, whose outputs have the same names;
// NULL: e runs it. `progress` may be NULL. Returns the exit code, EXIT_INTERRUPTED after a stop
// request.
int eval_metrics(Exec *e, Exec *last, Feed *f, uint32_t n, const Metric *metric, double *out,
                 int64_t *rows, const EvalProgress *progress, Diag *d);

// -- digest.c: which data files this process has read -------------------------------------------
typedef enum DigestMode { DIGEST_OFF, DIGEST_SAMPLED, DIGEST_FULL } DigestMode;
typedef struct FileDigest {
  const char *path, *name; // name: without its folder
  uint64_t key;            // equal for the same file on all ranks, wherever they have it
  int64_t size;
  uint32_t sum; // CRC-32C of all bytes, or of sampled blocks
} FileDigest;
// Begins to record every data file that is opened, or ends it (DIGEST_OFF). The process has one
// list, with which several ranks compare what they have read. Any thread.
void digest_record(DigestMode how);
// Records a file whose n bytes have been read as `text`.
void digest_text(const char *path, const char *text, size_t n);
// *out gets the files recorded so far, in the order in which they were first opened. Returns their
// number. No other thread may open files at the same time.
uint32_t digest_list(const FileDigest **out);

// -- cores.c, blas.c ----------------------------------------------------------------------------
int cores_available(void);
int64_t
memory_free_bytes(void); // bytes that can be had without swapping, by the machine and the cgroup
// Loads OpenBLAS for this CPU (MESHC_BLAS_CORE overrides the core type), with one thread, once a
// process. *name gets e.g. "OpenBLAS 0.3.21 SkylakeX". Returns false if there is none. Any thread.
bool blas_open(const char **name);
// Reserves the memory that OpenBLAS needs for calls of that many threads at a time; without it
// OpenBLAS waits for ever in the first call of a thread. Returns false if there is not enough. Call
// it before the threads multiply.
MUST_USE bool blas_reserve(int threads);
// Computes C = op(A) op(B), row-major (beta 0), as cblas_sgemm / cblas_dgemm. blas_open has
// returned true.
void blas_gemm(Dtype type, bool ta, bool tb, int64_t m, int64_t n, int64_t k, const void *a,
               int64_t lda, const void *b, int64_t ldb, void *c, int64_t ldc);

#endif
