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
// A processor of the mesh is a context of a process, not a thread (docs/decisions.md, 22). The
// threads are called workers; there are as many as cores. With more processors than workers, each
// worker runs its contexts one after the other up to the next collective; with fewer, the workers
// of a context divide the chunks of each kernel among them.
//
// Persistent tensors are parameters, states and optimizer tensors (slots): they keep their values
// from step to step. The declared order of dims is that in the model text; the order in memory may
// differ. The valid rows of a batch are those that an incomplete batch has.
typedef struct Exec Exec;
// A device that runs the steps of programs in place of the workers (runtime/exec/device.h).
typedef struct ExecDevice ExecDevice;
// An injected fault, for tests. Without `kernel`, the processor gets a wrong element from call
// number `call` of a collective, counted from 0 over all steps; -1 means never. With `kernel`,
// `call` counts the kernel launches of the program that have numeric constants, and the first
// constant of that launch is wrong in every step.
typedef struct ExecInject {
  int64_t processor, call;
  bool kernel;
} ExecInject;
// Functions called before and after each kernel of the first processor of this process. `kernel` is
// an index in Program.kernel, `instr` an index in Program.instr. `call` has the operands of the
// first operand set (the tensors of the first application of the kernel in a launch).
typedef struct ExecProbe {
  void *self; // passed to both functions
  void (*before)(void *self, uint32_t kernel, uint32_t instr, const KernelCall *call);
  void (*after)(void *self, uint32_t instr);
} ExecProbe;
typedef struct ExecOptions {
  // Number of threads; 0: as many as cores that this process may use. Not used with `share`, whose
  // threads are used.
  int threads;
  Ranks *ranks; // the ranks that run the processors of the mesh; NULL: this process runs all
  // An Exec whose persistent tensors of equal name are used, or NULL. Like `ranks` and `probe`, it
  // must outlive the new Exec.
  const Exec *share;
  uint64_t seed;              // seed of random numbers
  const char *must_be_finite; // output, a scalar, that must be finite for a step to commit, or NULL
  const char *directory;      // prefix of relative paths of initial values, or NULL
  bool profile;               // measure the seconds of every instruction (exec_profile)
  const ExecInject *inject;   // fault to inject, or NULL
  const ExecProbe *probe;     // functions to call around kernels, or NULL
  // Each processor keeps and updates its own copy of a replicated tensor. All ranks must pass the
  // same. It is needed where a rank has a probe, which compares whole results of one processor.
  bool apart;
  // With ranks: each rank takes steps when it wants to. The program has no collectives, and nothing
  // in it must be finite. One thread runs a step, also if other programs share more threads.
  bool alone;
  // a number that becomes nonzero when this process is asked to stop, for example in a signal
  // handler; or NULL
  const volatile sig_atomic_t *stop_request;
  // The device that runs the program, which has the code of its kernels, or NULL: the workers run
  // it. An Exec and the one whose tensors it shares are both on devices of one GPU, or both not.
  const ExecDevice *device;
} ExecOptions;

// Binds p to all processors of its mesh, or to those of this rank: allocates memory and computes
// the address of every operand. Persistent tensors get their initial values unless they are shared.
// p must outlive the result. Returns NULL after an error in d, such as too little memory or a
// malformed file of initial values.
Exec *exec_new(const Program *p, const ExecOptions *opt, Diag *d);
void exec_free(Exec *e);

// Writes a full tensor to the blocks of all processors. `full` has its elements in declared order,
// as elements of `type`, which are converted. After exec_rows with fewer rows than a batch, `full`
// has only these rows. The caller has checked type and shape.
void exec_write(Exec *e, TensorKind kind, const char *name, Dtype type, const void *full);
// The same for tensor number `tensor` of the program (program_tensor), for loops over steps.
void exec_write_tensor(Exec *e, uint32_t tensor, Dtype type, const void *full);
// Reads a full tensor from the blocks of all processors into `full`, which has room for all
// elements. They are written in declared order, in the type of the tensor. All ranks (processes)
// call this function together; a rank that needs no values passes NULL as `full`.
void exec_read(const Exec *e, TensorKind kind, const char *name, void *full);
// The same for tensor number `tensor` of the program (program_tensor), for loops over steps.
void exec_read_tensor(const Exec *e, uint32_t tensor, void *full);
// Writes positions first .. first + n - 1 of axis `axis`, in declared order, of a tensor to the
// blocks of all processors. `part` has their elements, in declared order and in the type of the
// tensor.
void exec_write_part(Exec *e, uint32_t tensor, int axis, int64_t first, int64_t n,
                     const void *part);
// Processors first .. first + n - 1 of a mesh, which may be those of other ranks of this machine,
// seen from the group with the number `group`: groups have the processors with equal coordinates on
// the axes `over`.
typedef struct ShardRange {
  int64_t first, n;
  Axes over;
  int64_t group;
} ShardRange;
// Copies the full tensor, with its elements in declared order and in the type of the tensor, to the
// blocks of the processors of a range, or puts the elements of `full` together from them, of which
// each comes from one processor. Nobody else uses these blocks meanwhile. Returns the bytes copied
// to or from processors outside the group.
int64_t exec_scatter(const Exec *e, uint32_t tensor, const ShardRange *of, const void *full);
int64_t exec_gather(const Exec *e, uint32_t tensor, const ShardRange *of, void *full);
// Returns what exec_gather or, without `gather`, exec_scatter will return for tensor number
// `tensor` of p.
int64_t shards_predict(const Program *p, uint32_t tensor, const ShardRange *of, bool gather);
// Returns the number of replicas of a tensor's blocks: how many processors have equal blocks.
int64_t exec_replicas(const Exec *e, TensorKind kind, const char *name);
// Reads a full tensor as exec_read does, but from replica number `replica` of each block (copy of
// the block). Replica 0 is the one that exec_read reads.
void exec_read_replica(const Exec *e, TensorKind kind, const char *name, int64_t replica,
                       void *full);
// Copies inputs, the number of valid rows, and persistent tensors from one Exec to another of the
// same program.
void exec_copy(Exec *to, const Exec *from);
struct Feed;
// With several ranks (processes), restricts f to the rows that the processors of this rank use. e
// runs the batches of f. If `last` is not NULL, it runs the incomplete batches instead of e.
void exec_restrict_feed(const Exec *e, const Exec *last, struct Feed *f);
// Sets the number of valid rows of the batch, the number of elements of dim Program.over; -1 means
// a full batch.
void exec_rows(Exec *e, int64_t rows);

typedef enum StepResult { STEP_OK, STEP_BAD_INDEX, STEP_NOT_FINITE, STEP_FAILED } StepResult;
// Runs the program once. `step` is the step counter that the program reads. With `commit`,
// persistent tensors are updated if no processor has an error; without it, the instructions after
// INSTR_COMMIT, which update them, do not run. After STEP_BAD_INDEX or STEP_FAILED, exec_fault adds
// the error to a Diag.
StepResult exec_step(Exec *e, int64_t step, bool commit);
// exec_step in two: exec_start starts a step, and exec_finish waits for the first step that was
// started, and returns its result. Up to exec_ahead steps may be started before the first of them
// is finished: 1 on the CPU, more on a device, which then goes from one step to the next without
// the host. Each of these is a step with `commit` and the number behind that of the step before.
// Inputs may be written while one step less is under way, and nothing else; what is read are scalar
// outputs (exec_scalar), which are those of the step that was finished last. After a result other
// than STEP_OK the steps behind have changed nothing, and are not to be finished.
int exec_ahead(const Exec *e);
void exec_start(Exec *e, int64_t step, bool commit);
StepResult exec_finish(Exec *e);
void exec_fault(const Exec *e, Diag *d);
// A bad index, and its position along the dim of the rows of a batch.
typedef struct FaultRow {
  const char *value, *dim; // name of the value with the index, and of the dim; or NULL
  int64_t index, size;     // size of that dim
  int64_t row;
} FaultRow;
// After STEP_BAD_INDEX, sets *out. Returns false if the value with the index has no dim `over` of
// `rows` elements.
bool exec_fault_row(const Exec *e, const char *over, int64_t rows, FaultRow *out);
// The first value of a step that is not finite, in the order of one processor's instructions
// (probe.c).
typedef struct NotFinite {
  bool found;
  bool given; // it is an input or a persistent tensor, which was not finite before the step
  bool backward;
  int64_t processor;
  int64_t round; // step of the innermost loop (scan) around the operation, from 0; -1: no loop
  double value;
  const char *name, *op; // full name of the value, or NULL; the operation that computed it
  char where[256];       // its indices in the full tensor, as in "b=3, h=1"; "" for a scalar
  char why[96];          // of an operation on matrices: what its matrix lacks; else ""
  Pos pos;
} NotFinite;
// Runs the step without its commit and finds the first value that is not finite. e must have the
// batch, and the persistent tensors as before the step. All ranks call it together and get equal
// results. Returns false if the step could not be run.
MUST_USE bool exec_find_not_finite(Exec *e, int64_t step, NotFinite *out);
// Returns whether the device that runs e, if there is one, has not failed. Otherwise adds its error
// to d: then values that were read since may be wrong.
MUST_USE bool exec_works(const Exec *e, Diag *d);
// Returns true if this process has been asked to stop. With several ranks, returns true on all if
// one of them had been asked before the last finished step of e ended (on the CPU) or was started
// (on a device).
bool exec_stop_asked(const Exec *e);
// Returns the address of a tensor if all its elements are in memory of this process in declared
// order, as with one processor; otherwise NULL. A step overwrites inputs.
void *exec_direct(const Exec *e, TensorKind kind, const char *name);
void *exec_direct_tensor(const Exec *e, uint32_t tensor);
// Returns true if a step of e was aborted while it ran. Workers of e may still use its memory, so
// exec_free must not be called. e may be NULL.
bool exec_is_stuck(const Exec *e);
// Returns the value of a scalar output.
double exec_scalar(const Exec *e, const char *output);
const CommCount *exec_counts(const Exec *e);
int exec_workers(const Exec *e);
// Returns the profile, or NULL without ExecOptions.profile. The profile has for each instruction
// the seconds that worker 0 spent in it in all steps, including waits for other workers.
const double *exec_profile(const Exec *e);
// Turns the profile (seconds by instruction) on or off. While the profile is on, worker 0 reads the
// clock after every instruction.
void exec_profile_switch(Exec *e, bool on);
// Returns the bytes of memory of one processor: persistent tensors and arena, without tensors
// shared from another Exec.
int64_t exec_bytes(const Exec *e);
// Returns what collectives should have sent in all steps so far, as the program predicts it.
const ProgramCount *exec_predicted(const Exec *e);
// Makes the self-check at the end of a run: compares the counts of the communicator and the memory
// of every processor with the predictions. If they differ, returns false after an error in d that
// names what differs and both figures.
MUST_USE bool exec_check(const Exec *e, Diag *d);

// -- runtime/gpu: programs on a GPU -------------------------------------------------------------
// A GPU of this machine with its driver, which is opened at run time.
typedef struct Gpu Gpu;
typedef struct GpuFacts {
  const char *name; // such as "NVIDIA H100 80GB HBM3"
  int capability;   // compute capability times 10, such as 90
  int64_t memory;   // bytes
  bool emulated;    // it is the stand-in of tests, which runs code for GPU_EMULATED
} GpuFacts;
// Opens the first GPU or, with ranks, the one of this rank: all ranks call it together, and `ranks`
// must outlive the GPU. Returns NULL after an error in d, such as a driver that is missing. Free it
// with gpu_close, after all programs on it.
Gpu *gpu_open(Ranks *ranks, Diag *d);
// well: false if the run has failed, so that other ranks may not answer. g may be NULL.
void gpu_close(Gpu *g, bool well);
const GpuFacts *gpu_facts(const Gpu *g);
// Keeps what was measured on a GPU for later runs: a value of `bytes` bytes under a key, in a
// folder. recall returns false if nothing of this size is kept there; a failure of `keep` is
// ignored.
typedef struct GpuKeeper {
  const char *folder;
  bool (*recall)(const char *folder, const void *key, size_t key_bytes, void *value, size_t bytes);
  void (*keep)(const char *folder, const void *key, size_t key_bytes, const void *value,
               size_t bytes);
} GpuKeeper;
// Lets the programs of a GPU measure which algorithms of cuBLASLt are the fastest, and keep the
// choices. Without this they take what the library proposes first. Called once, before the first
// program is loaded; the folder's name is copied.
void gpu_keep(Gpu *g, const GpuKeeper *keeper);
// Returns whether there is a library for products of matrices on GPUs, cuBLASLt. Programs for a GPU
// have products (CodegenOptions.products) only if there is.
bool gpu_library_of_products(void);
// Returns which epilogues products can have on the GPU (CodegenOptions.epilogues): 0 if cuBLASLt is
// missing, which it opens.
uint32_t gpu_epilogues(Gpu *g);
// The code of a program's kernels, loaded into a GPU.
typedef struct GpuProgram GpuProgram;
typedef struct GpuParts {
  const struct GpuEntry *entry; // by kernel of the program
  uint32_t nimages;
  const struct GpuImage *image; // have all functions that the entries name
  // by instruction: the plans of the parts of a collective (collectives/local/transfer_plan.h)
  struct PartPlan *const *transfers;
  // With ranks: the plans of collectives between GPUs (collectives/local/messages.h). A collective
  // has plans in one of the two lists, and NULL in the other. Without ranks: NULL.
  struct MessagePart *const *messages;
  // With `messages`, for each collective there: the first later instruction that has to wait for
  // it.
  const uint32_t *join;
} GpuParts;
// Loads the code. g, p, the entries and the plans must outlive the result. A program without images
// only keeps tensors on the GPU: it has no instructions, and its Exec runs no step. Returns NULL
// after an error in d. Free it with gpu_program_free, after all Execs that use it.
GpuProgram *gpu_program_new(Gpu *g, const Program *p, const GpuParts *parts, Diag *d);
void gpu_program_free(GpuProgram *p); // p may be NULL
// Returns the device of an Exec of the program (ExecOptions.device). NULL if p is NULL.
const ExecDevice *gpu_program_device(const GpuProgram *p);

// -- array.c and readers: files of numbers ------------------------------------------------------
// An array of numbers with its elements in memory, in C order.
typedef struct Array {
  Dtype type;
  int rank;
  int64_t size[MAX_RANK];
  int64_t elements;
  void *data; // the elements: malloc'd, or inside `map`
  void *map;  // a mapping of map_bytes bytes of the file; NULL: `data` is malloc'd
  size_t map_bytes;
} Array;
void array_free(Array *x);
// Some rows of an array, from row `first` on: in `data`, which has `rows` rows.
typedef struct ArrayRows {
  void *data;
  int64_t rows, first;
} ArrayRows;
// Copies n rows. In both arrays the axis `axis` runs over rows; `shape` gives the type and the
// sizes of the other axes.
void array_copy_rows(const Array *shape, int axis, ArrayRows to, ArrayRows from, int64_t n);
// Gives x, whose data is its own, the sizes `size` along all axes but `axis`. They are not smaller
// than those that it has; the elements that it lacks are 0.
void array_widen(Array *x, int axis, const int64_t *size);
// Reads the array in the file `path`; of an .npz or .safetensors file, the array named `key`.
// Returns false after an error in d at `at` that names the file and the offset or row in it.
MUST_USE bool array_read(Array *out, const char *path, const char *key, Diag *d, Pos at);
// Reads as array_read does, but maps the file if its format allows it: out->data is then inside a
// private mapping, at any alignment, and only pages that are accessed are loaded. A file that
// becomes shorter while it is mapped ends the process with a message and exit code 5. If meshc does
// not own the process (ir/base/guard.h), no file is mapped.
MUST_USE bool array_map(Array *out, const char *path, const char *key, Diag *d, Pos at);
// Returns true if no element would lose its value in a conversion to `type` (array_convert).
// Otherwise adds an error to d that names `what`, the array, and the first element that would.
MUST_USE bool array_fits(const Array *x, Dtype type, const char *what, Diag *d, Pos at);
// Writes the names of the arrays in an .npz or .safetensors file to *out: a list allocated in `a`,
// with NULL after the last name. Returns false after an error in d.
MUST_USE bool array_names(Arena *a, const char *path, const char ***out, Diag *d, Pos at);
// An array in a file of numbers, without its elements.
typedef struct ArrayInfo {
  const char *name; // name of the array; "" if the format has one array without a name
  const char *type; // element type as the file says, such as "f32", "i16", "F8_E4M3"
  bool usable;      // meshc can read elements of that type
  int rank;
  int64_t size[MAX_RANK], elements, bytes;
} ArrayInfo;
typedef struct CsvColumn {
  const char *name;                 // name in the header; NULL: the file has no header
  int64_t numbers, missing, others; // number of fields that are numbers, empty, anything else
  double low, high;                 // the smallest and the largest number
} CsvColumn;
typedef struct ImageFolder {
  const char *name;
  int64_t images, bytes; // the number of its images, and of their bytes
} ImageFolder;
typedef struct ArrayText {
  const char *key, *value;
} ArrayText;
typedef struct ArrayList {
  // "npy", "npz", "safetensors", "shards", "folder", "images", "idx", "csv", "text", "bytes"
  const char *format;
  int64_t bytes; // size of the file
  uint32_t n;
  ArrayInfo *at;
  uint32_t ntexts;
  ArrayText *text; // entries of __metadata__ in a safetensors file
  int64_t rows;    // number of records of a CSV file, of lines of a text, or of images
  uint32_t ncolumns, nfolders;
  CsvColumn *column;
  ImageFolder *folder; // of a folder of images: the folders that have them, by name
} ArrayList;
// Returns the parameter file in a folder as Transformers saves it, DIR/model.safetensors.index.json
// or DIR/model.safetensors, made in `a`; `path` itself if it is no such folder.
const char *array_file_of(Arena *a, const char *path);
// Lists the arrays of a file or of a folder of .npy files, or the images of a folder. All memory of
// *out is allocated in `a`. Returns false after an error in d.
MUST_USE bool array_list(Arena *a, const char *path, ArrayList *out, Diag *d, Pos at);
// Converts the elements of x to `type`. Floats may be rounded; any other element must keep its
// value. Returns false after an error in d that names `what`, the array, and the first element that
// would lose its value.
MUST_USE bool array_convert(Array *x, Dtype type, const char *what, Diag *d, Pos at);
// Names of classes, by their numbers. n = 0: there are none.
typedef struct ClassNames {
  uint32_t n;
  const char *const *name;
} ClassNames;
// Returns the name of the class with the number x, or NULL.
static inline const char *class_name(const ClassNames *c, double x) {
  return x >= 0 && x < c->n ? c->name[(uint32_t)x] : NULL;
}
// Prints an array with its name and the names of its dims. One of more than ARRAY_WHOLE elements is
// shortened. It has no size 0. Elements that are numbers of classes are printed by their names
// (`element`), and the head has the names of the positions along each axis (`axis`, by axis; NULL:
// none has names).
enum { ARRAY_WHOLE = 64 };
void array_print_named(FILE *out, const char *name, const char *const *dim, const Array *x,
                       const ClassNames *element, const ClassNames *axis);
// Writes sizes as "[2, 3]" to `out`, memory of `room` bytes. Returns `out`.
const char *sizes_text(int rank, const int64_t *size, char *out, size_t room);
// Returns true if one shape becomes the other by merging neighbouring axes into one axis and
// splitting an axis into several. Example: [6, 4] and [2, 3, 4].
bool sizes_fit(int rank, const int64_t *size, int other_rank, const int64_t *other);
// An array to write. The functions npy_write, npz_write and safetensors_write write a temporary
// file and rename it, so that no half-written file is left; bf16 is written as f32. They return
// false after an error in d.
typedef struct NamedArray {
  const char *name;
  Array array;
} NamedArray;
MUST_USE bool npy_write(const char *path, const Array *x, Diag *d);
// Writes the bytes of a .npy file to `out`. The caller checks ferror(out) for errors.
void npy_put(FILE *out, const Array *x);
MUST_USE bool npz_write(const char *path, uint32_t n, const NamedArray *x, Diag *d);
MUST_USE bool safetensors_write(const char *path, uint32_t n, const NamedArray *x, Diag *d);
// endings.c: returns the ending of a path if it is one of files with values, such as ".npz", else
// NULL. Sets *written to whether --out writes such files.
const char *values_ending(const char *path, bool *written);

// -- csv_date.c ---------------------------------------------------------------------------------
// Parses text[0..n) as a date with an optional time. `format` is "iso" or has %Y, %m and others
// (docs/language/data.md). *out gets seconds since 1970-01-01 00:00 UTC. Returns false if the text
// is no such date.
bool date_parse(const char *text, size_t n, const char *format, double *out);

// -- rng.c, permute.c: initial values by Philox (ir/base/philox.h), and permutations -------------
// Returns the key of the random numbers of a tensor: a hash of the seed and its full name.
uint64_t rng_key(uint64_t seed, const char *name);
// Draws n elements of a tensor with initial values `init`: out[i] is element index[i] of the full
// tensor, in declared order.
void rng_draw(const Init *init, uint64_t key, int64_t n, const int64_t *index, double *out);
// As rng_draw, with the numbers rounded to f32.
void rng_draw_floats(const Init *init, uint64_t key, int64_t n, const int64_t *index, float *out);
// Sets index[i] = first + i * step, for i < n.
void rng_indices(int64_t first, int64_t step, int64_t n, int64_t *index);
// Writes elements first..first + count - 1 of a permutation of 0..n-1 that depends on `key` to
// `out`. Needs no memory: it is a Feistel network with cycle walking.
void rng_permute(uint64_t key, int64_t n, int64_t first, int64_t count, int64_t *out);

// -- feed.c: batches read ahead in the background -----------------------------------------------
typedef struct Feed Feed;
// What the first run fixes about the source of an input, so that later runs read it alike: the
// means of its columns (missing = mean) and the names of its classes (classes = auto, of CSV files
// and of folders of images).
typedef struct SourceFacts {
  const char *input; // name of the input
  uint32_t nmeans, nclasses;
  const double *mean;
  const char *const *class_name;
} SourceFacts;
typedef struct FeedInput {
  const char *name; // name of the input
  Dtype type;
  int rank;
  int64_t size[MAX_RANK];    // sizes of the full batch, in declared order
  int over;                  // index of the axis that counts the rows of a batch
  const char *dim[MAX_RANK]; // names of the dims, for messages; NULL: not known
  const DataSource *source;
  Pos pos;
  const SourceFacts *facts; // NULL: those of the source itself
  // With several ranks: the number of this one and of all. Each then checks its share of a CSV file
  // when it opens it, and reads no other rows than those that are asked for. 0 of 0: all rows.
  int part, parts;
  Ranks *ranks; // tells them which rows a share leaves out (missing = drop); NULL: each reads all
  // images: whether random changes are drawn, as in training; how many threads decode, 0: one for
  // each core
  bool augment;
  int threads;
  // Most bytes that the numbers of read rows of a CSV file may take, or decoded images; 0: half, or
  // a quarter, of what is free.
  int64_t keep;
} FeedInput;
// Returns true if a source has facts: means or names of classes that are found in a file.
bool source_has_facts(const DataSource *s);
// Reads the source of an input to find its facts, in `a`. Returns false after an error in d.
MUST_USE bool source_learn(Arena *a, const FeedInput *input, const char *directory,
                           SourceFacts *out, Diag *d);
// Returns the names of the rows of a source, in `a`: the files of images, in the order of the rows.
// Rows of other sources have none.
ClassNames source_row_names(Arena *a, const DataSource *s, const char *directory);
// Opens the sources of all inputs of a data block, and checks that they have equal numbers of rows
// and that their rows fit the inputs. The strings and sources that `input` refers to must outlive
// the feed. `directory` is the prefix of relative paths. A data block with synthetic sources only
// has 64 batches an epoch. Returns NULL after errors in d.
Feed *feed_open(uint32_t n, const FeedInput *input, int64_t batch, bool shuffle, uint64_t seed,
                bool keep_last, const char *directory, Diag *d);
void feed_close(Feed *f);
int64_t feed_rows(const Feed *f);    // number of rows of an epoch, which are those of the data set
int64_t feed_batch(const Feed *f);   // number of rows of a full batch
int64_t feed_batches(const Feed *f); // number of batches of an epoch
// Gets the next batch: data[i] is the address of input i, in declared order, valid until the next
// call. Returns the number of rows; 0 at the end of an epoch, after which the next one begins; -1
// after an error (feed_fault). Only the last batch of an epoch may have fewer rows than others.
int64_t feed_next(Feed *f, const void **data);
int64_t feed_given(const Feed *f); // what feed_next has returned last; 0 before
// Moves the feed to row number `row` of an epoch; rows are counted in the shuffled order of that
// epoch. Returns false after an error in d.
MUST_USE bool feed_seek(Feed *f, int64_t epoch, int64_t row, Diag *d);
// Sets *epoch and *row to the position after the rows that feed_next has returned.
void feed_position(const Feed *f, int64_t *epoch, int64_t *row);
void feed_fault(const Feed *f, Diag *d);
// Writes where row number `row` of a batch comes from, for an input by its index: "t.csv:19",
// "row 18 of t.npy" (from 0), or the path of an image. The batch is the one after which feed_next
// has returned `since` more. Returns false for drawn numbers. For messages only: it may read the
// file from its start.
bool feed_row_place(const Feed *f, uint32_t input, int64_t since, int64_t row, char *out,
                    size_t room);
double feed_wait_seconds(const Feed *f); // seconds that calls of feed_next have waited for data

// What opening a source took, and what it holds.
typedef struct SourceReport {
  int64_t files, bytes; // its files, and their bytes; 0 for synthetic data
  int64_t kept;         // bytes of memory with its rows
  double open_seconds;  // to open it: rows are found, and those of CSV and .gz files decoded
  double read_seconds;  // to read the bytes of its files, measured now, for at most a second
  // images: how many have been decoded since the source was opened, in how many seconds of all
  // threads together; the smallest and the largest height and width
  int64_t decoded, low[2], high[2];
  double decode_seconds;
  const int64_t *missed; // CSV: by number of a row, how many values are missing; else NULL
} SourceReport;
// Reports on the source of an input. `missed` is valid as long as the feed is open.
void feed_report(const Feed *f, uint32_t input, SourceReport *out);

// Reads all rows of a source to *out, whose axis in->over then has as many elements; the size of
// that axis in `in` does not matter. Rows that the source leaves out are not read; *dropped gets
// their number. Returns false after an error in d. The caller calls array_free.
MUST_USE bool feed_array(const FeedInput *in, const char *directory, Array *out, int64_t *dropped,
                         Diag *d);

// Restricts an input: from now on only rows from..to-1 of it are read, in incomplete batches or,
// without `incomplete`, in full ones.
void feed_restrict(Feed *f, uint32_t input, bool incomplete, int64_t from, int64_t to);
// Sets *out to the inputs that the feed was opened with, which have the order of `data` in
// feed_next. Returns their number.
uint32_t feed_inputs(const Feed *f, const FeedInput **out);

// -- loop.c: training and evaluation ------------------------------------------------------------
enum { METRIC_NUMBER = 32 };
// Writes x with four digits, such as "0.8714", "1.235e-05" or "nan". Returns the text.
const char *metric_number(double x, char out[METRIC_NUMBER]);

// A part of a metric. For every batch the program outputs the outermost reductions over the batch
// dim that the metric contains: its parts. The evaluation combines each part over all batches in
// double, and Metric.finish computes the metric from the results.
typedef struct MetricPart {
  const char *output; // name of the output of the program
  enum {
    PART_SUM,
    PART_MAX,
    PART_MIN,
    PART_PROD,
    PART_ROW_MEAN,
    PART_LOGSUMEXP
  } how; // how batches are combined; PART_ROW_MEAN: mean, each batch weighted by its number of rows
  Dtype type;
  int64_t elements; // number of elements of the output, combined one by one; 0: it is a scalar
} MetricPart;
typedef struct Metric {
  const char *name;
  uint32_t nparts;
  MetricPart *part;
  // Returns the metric. `part` has the elements of all combined parts, one part after another;
  // `rows` is the number of rows evaluated.
  double (*finish)(const void *context, const double *part, int64_t rows);
  const void *context;
  bool ratio; // the metric is the mean of a bool over the batch dim, also printed as "(29/30)"
} Metric;

// An event that train_run reports to its caller by TrainJob.report, in the thread that called
// train_run.
typedef enum TrainEvent {
  TRAIN_BEGINS,        // before the first step
  TRAIN_STEP,          // after each step
  TRAIN_EVALUATING,    // after each batch of an evaluation
  TRAIN_EVALUATED,     // after each evaluation
  TRAIN_SAVED,         // a checkpoint is complete on disk
  TRAIN_LOG_FAILED,    // a file of the log could not be written; training continues without it
  TRAIN_STOPPED_EARLY, // TrainJob.stop has not improved for TrainJob.patience evaluations
  TRAIN_INTERRUPTED,   // a stop was requested; the checkpoint, if any, is complete
  TRAIN_ENDS           // the last event
} TrainEvent;
// What train_run reports with an event. A field whose comment names an event is set with this event
// only; the others are set always.
typedef struct TrainReport {
  TrainEvent event;
  int64_t step;    // number of steps done, including those of the run that this one resumes
  int64_t skipped; // number of steps without update, because the loss or a gradient was not finite
  double seconds;  // seconds of training so far, without evaluations
  bool due;        // TRAIN_STEP: the caller should print a line (TrainJob.log_every)
  // TRAIN_EVALUATED: one value for each of TrainJob.metric, NULL after an error; and whether it is
  // the evaluation after the last step
  const double *metric;
  bool final;
  // TRAIN_EVALUATING, TRAIN_EVALUATED: rows evaluated so far; TRAIN_EVALUATING: rows of the data
  // set
  int64_t rows, all_rows;
  int64_t best_step; // TRAIN_STOPPED_EARLY: number of steps done at the best evaluation
  double best;       // TRAIN_STOPPED_EARLY: value of the metric TrainJob.stop in that evaluation
  const char *path;  // TRAIN_SAVED: the checkpoint; TRAIN_LOG_FAILED: the file
  int error;         // TRAIN_LOG_FAILED: the errno
  int code;          // TRAIN_ENDS: the exit code that train_run returns
} TrainReport;

// What a run of TrainJob.sync does with the parameters that replicas have of their own.
typedef enum SyncWay {
  SYNC_SPREAD,  // all replicas get the parameters of the model
  SYNC_AVERAGE, // the parameters of the model and all replicas get the mean of the replicas
  SYNC_SHOW     // the parameters of the model get the mean; the replicas keep their own
} SyncWay;

// Two f32 states of `train` that hear of evaluations, for a learning rate that depends on them.
typedef struct Hearer {
  const char *metric; // name of a metric
  const char *value;  // the state that gets the value of the metric after each evaluation
  const char *fresh;  // the state that gets 1 with it
} Hearer;

// Asynchronous updates (runtime/train/stale.c). Replicas compute gradients, each on its rows of the
// batch; TrainJob.train is the program of the servers, which make the updates. The processors of
// the mesh with equal coordinates on the axes `over` are a group, and run replicas / groups of them
// in turn.
typedef struct StaleJob {
  int64_t replicas, groups;
  Axes over;
  int64_t ahead;      // a replica begins step t only if all have finished more than t - ahead steps
  int64_t first, own; // the groups of this process: the number of the first, and how many
  Exec *const *worker; // by group of this process: its program, a step of one replica
  double *shown; // gets the values of TrainJob.shown: means over the last steps of all replicas
  // Get what the groups of this process have done: updates, and bytes sent to and got from
  // processors outside the group.
  int64_t updates, pushed, pulled;
} StaleJob;
// Returns the bytes that a replica of group number `group` sends to servers, and gets from them, in
// each step, for the program of the servers.
int64_t stale_pushed(const Program *server, Axes over, int64_t group);
int64_t stale_pulled(const Program *server, Axes over, int64_t group);
// Begin the names of gradients of parameters and of changes of states: inputs of the servers, and
// outputs of a step of a replica.
#define STALE_PUSH "train.push."
#define STALE_CHANGE "train.change."

// The programs, data and settings of a training. Everything must outlive train_run.
typedef struct TrainJob {
  Exec *train;       // runs a step of the training
  Exec *eval;        // runs a batch of an evaluation; shares train's persistent tensors; or NULL
  Exec *last;        // runs the last batch of an evaluation if it is incomplete; NULL: `eval` does
  Feed *feed, *test; // data of the training, and of evaluations
  const char *test_name; // name of the data block of `test`: "test" or "valid"
  uint32_t nmetrics;
  const Metric *metric; // metrics of an evaluation; the first is the loss
  uint32_t nshown;
  const char *const *shown; // names of the outputs of `train` that users see: losses, metrics
  int64_t steps;            // number of steps done when training ends, including `start`
  int64_t log_every;        // number of steps between two lines; 0: ten lines a run
  int64_t evaluate;         // number of steps between two evaluations; 0: only at the end
  int64_t start;            // number of steps done by the run that this one resumes; 0: none
  // number of steps that a loaded optimizer state had done, with which the step counter of the
  // program begins
  int64_t before;
  const struct TrainPosition *resume; // position at which tensors and feed are; NULL: at the start
  const char *resume_path;            // path of the checkpoint to resume from, or NULL
  struct Saver *saver;                // writes checkpoints (runtime/train/checkpoint.h), or NULL
  int64_t checkpoint;                 // number of steps between two checkpoints; 0: only at the end
  uint64_t seed;                      // seed of random numbers
  const char *stop;   // name of the metric by which training may stop early, or NULL
  int64_t patience;   // training stops after this many evaluations without a better value of `stop`
  bool stop_minimise; // a smaller value of `stop` is better
  // Joins the replicas of `train`, whose tensors it shares; its step number is a SyncWay. NULL:
  // there are no replicas. They are averaged after every `sync_every` steps, and shown to
  // evaluations and checkpoints.
  Exec *sync;
  int64_t sync_every;
  StaleJob *stale; // asynchronous updates, or NULL
  uint32_t nhearers;
  const Hearer *hearer;
  // A device may run up to exec_ahead steps before the first of them is reported. Then `report`
  // reads no values but scalar outputs of `train`.
  bool ahead;
  bool skip; // a step that is not finite makes no update, and training continues; false: it ends
  // name of the output of `train` that counts steps without update because gradients of a scaled
  // loss (f16) overflowed, or NULL
  const char *skipped;
  int64_t *done;    // gets the number of updates: steps done less steps skipped; or NULL
  int64_t batch;    // number of rows or, with `tokens`, of tokens in a step
  bool tokens;      // `batch` counts tokens
  uint32_t nlogged; // number of scalar outputs of `train` that only the log gets
  // names of these outputs in the program, and their names in the log
  const char *const *logged, *const *logged_as;
  // Adds notes to d that say where a value of step `step`, on the batch `data`, is first not
  // finite. May be NULL.
  void (*locate)(void *context, int64_t step, const void **data, Diag *d);
  void *locating; // the context for `locate`
  // Receives the events. Must not change the job. May be NULL.
  void (*report)(void *context, const TrainReport *report);
  void *report_context; // the context for `report`
  struct Log *log;      // gets every step and evaluation (runtime/train/log.h), or NULL
  struct Trace *trace;  // gets some steps (runtime/exec/trace.h), or NULL
  // a program that shares train's tensors and outputs gradients, of which the log gets histograms;
  // or NULL
  Exec *gradients;
} TrainJob;
// Sets job->batch and job->tokens, from which the speed is shown, for job->feed: the rows in a step
// or, if a source reads tokens or text, the tokens in a step of the first such source.
void train_count_units(TrainJob *job);
// Runs the training. Returns the exit code: 0, 4 if the loss is not finite, 5 for bad data, 6 if
// another rank is lost, 7 without memory or disk space, EXIT_INTERRUPTED after a stop request.
// Errors are added to d.
int train_run(const TrainJob *job, Diag *d);
// Returns the value of output job->shown[i] in the last step.
double train_shown(const TrainJob *job, uint32_t i);
// Returns the value of output job->skipped: the number of steps so far without update because
// gradients of the scaled loss (f16) overflowed. Returns 0 if the job has no such output.
int64_t train_skipped_updates(const TrainJob *job);

typedef struct EvalProgress {
  // Called after each batch of an evaluation, with the number of rows evaluated so far and the
  // number of rows of the data set.
  void (*rows)(void *context, int64_t done, int64_t all);
  void *context;
} EvalProgress;
// Evaluates n metrics over all rows of f and writes them to out[0..n); *rows gets the number of
// rows. `last` is a program with outputs of equal names, compiled for the last, incomplete batch.
// If `last` is NULL, e runs this batch too. `progress` may be NULL. Returns the exit code,
// EXIT_INTERRUPTED after a stop request.
int eval_metrics(Exec *e, Exec *last, Feed *f, uint32_t n, const Metric *metric, double *out,
                 int64_t *rows, const EvalProgress *progress, Diag *d);

// -- digest.c: which data files this process has read -------------------------------------------
typedef enum DigestMode { DIGEST_OFF, DIGEST_SAMPLED, DIGEST_FULL } DigestMode;
typedef struct FileDigest {
  const char *path, *name; // path of the file; its name without the folder
  uint64_t key;            // equal for the same file on all ranks, in whatever folder it is
  int64_t size;
  uint32_t sum; // CRC-32C of all bytes, or of sampled blocks
} FileDigest;
// Begins to record every data file that is opened or, with DIGEST_OFF, ends recording. The process
// has one list of these files, by which ranks compare what they have read. Any thread may call it.
void digest_record(DigestMode how);
// Records the file `path`, whose content is text[0..n).
void digest_text(const char *path, const char *text, size_t n);
// Sets *out to the files recorded so far, in the order in which they were first opened. Returns
// their number. No other thread may open files at the same time.
uint32_t digest_list(const FileDigest **out);

// -- cores.c, blas.c ----------------------------------------------------------------------------
int cores_available(void);
// Returns the bytes of memory that this process can allocate without swapping, by the limits of the
// machine and of the cgroup.
int64_t memory_free_bytes(void);
// Loads OpenBLAS, once a process, for this CPU (MESHC_BLAS_CORE overrides the core type) and with
// one thread. *name gets a text such as "OpenBLAS 0.3.21 SkylakeX". Returns false if the machine
// has no OpenBLAS. Any thread may call it.
bool blas_open(const char **name);
// Reserves the memory that OpenBLAS needs for calls by `threads` threads at a time. Call it before
// their first calls: if OpenBLAS gets no memory then, it waits for ever. Returns false if there is
// not enough memory.
MUST_USE bool blas_reserve(int threads);

// -- product.c ----------------------------------------------------------------------------------
// A product C = op(A) op(B) of matrices, with row-major A, B and C, and leading dimensions in
// elements. op transposes if `ta` or `tb` is set. Types: as in Gemm (ir/program/program.h).
typedef struct Product {
  Dtype factors, type; // of A and B, and of C
  bool ta, tb;
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc;
  bool beside; // other threads store columns of the same rows at the same time
  // The product that the thread computes after this one, whose operands may be prefetched, except
  // those that are NULL. NULL: not known.
  const struct Product *next;
} Product;
// A way to compute products whose factors have a type: instructions of the CPU or a library.
typedef struct ProductWay ProductWay;
// Returns the fastest way on this machine, or NULL if there is none. *name, if not NULL, gets a
// text such as "AVX-512", or "generated kernels". Any thread may call it.
const ProductWay *product_way(Dtype factors, const char **name);
// Returns the types of the set for which there is a way. Asking for f64 loads OpenBLAS.
DtypeSet product_types(DtypeSet among);
// Returns whether OpenBLAS computes the products. It needs blas_reserve. It may add up products of
// other sizes in another order, so the bits of an element of C depend on m and n.
bool product_is_blas(const ProductWay *way);
// Computes a product. work: gemm_scratch bytes (ir/program/program.h) of this thread alone, aligned
// to 64 bytes.
void product_run(const ProductWay *way, const Product *g, void *work);

#endif
