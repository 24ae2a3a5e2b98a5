// The interface of the front end: building a model from its Ast (frontend/model), selecting the
// graph that a command needs (frontend/step), and running the passes on it (frontend/driver).
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "codegen/codegen.h"
#include "frontend/driver/timings.h"
#include "frontend/syntax/ast.h"
#include "ir/graph/graph.h"
#include "partition/partition.h"
#include "runtime/runtime.h"

// -- build*.c: Ast to Graph ---------------------------------------------------------------------
// One --set PATH=VALUE. Examples of a path: "b", "rate", "train.steps", "train.optimizer.lr",
// "data.train.x".
typedef struct Setting {
  const char *path;
  Ast *value;             // expression
  bool used;              // set by model_build, which reports an unused setting as an error
  const char *near;       // set by model_build: of an unused one, a path that a block has; or NULL
  struct Setting *before; // set by model_build: the previous setting of the same path, or NULL
  Pos pos;
} Setting;

// Asks model_build for a model with fewer rounds of its outermost `for` loops: loops of more than
// `rounds` + 1 rounds get `rounds` of them, and the loop `longer` gets one more. The costs of two
// such models, with and without `longer`, differ by the cost of one round of that loop.
typedef struct ShortLoop {
  const Ast *loop;
  int64_t rounds; // number of rounds in the file
} ShortLoop;
typedef struct ShortLoops {
  int64_t rounds;      // at least 1
  const Ast *longer;   // the loop that gets one round more, or NULL
  VEC(ShortLoop) loop; // set by model_build: the loops that were shortened
  bool mixed;          // set by model_build: a loop has different numbers of rounds in two calls
  int64_t parts;       // a step has only so many of its micro-batches (`accumulate`); 0: all
} ShortLoops;

typedef struct ModelOptions {
  const char *path;    // path of the model file, or NULL
  ShortLoops *shorten; // the loops to shorten; NULL: build all rounds
  uint32_t nsettings;
  Setting *setting;
  const Ast *mesh, *layout; // --mesh and --layout; NULL: use those of the file
  bool no_layout;           // --layout none
  // parameters get their values from a file (--params, a checkpoint): do not warn about parameters
  // without an initial value
  bool loaded;
  // ignore the layout of the file if it names an axis that the mesh of the command line lacks
  bool layout_may_go;
  // if neither --mesh nor the file gives a mesh, add each axis that a pin names, with size 1.
  // `plan` then searches the sizes of the axes
  bool pins_name_axes;
  // the layout(...) at these places do not pin their values, for what-ifs
  uint32_t nunpinned;
  const Pos *unpinned;
  uint64_t seed;
  const char *data_dir;  // or NULL
  const char *precision; // --precision, or NULL
  // build the model of one micro-batch: the size of dim `micro_dim` is divided by `micro`. NULL:
  // build the model of the whole batch
  const char *micro_dim;
  int64_t micro;
  bool replicas; // the parts of the batch are those of replicas, not micro-batches
  bool apart;    // with `replicas`: their updates are asynchronous, so there is no dim of replicas
  // with a value above 0, `accumulate` of the train blocks, whatever the file says
  int64_t accumulate;
  // replace the size of dim `rows_dim` by `rows`: the last, incomplete batch of an evaluation has
  // fewer rows; NULL: keep the size
  const char *rows_dim;
  int64_t rows;
} ModelOptions;

// A number that depends on how many rows a batch has: size(d) of a batch dim, or a result of
// arithmetic on such a number (row_numbers.c). A constant node of the model's graph with such a
// number has the index of the number in Model.numbers, plus 1, as its Attr.tag.
typedef struct RowNumber {
  // size(d) is the number; 0: the result of `op` or, if nargs is 0, a constant is the number
  DimId d;
  double number; // the value of the number for the batch size that the model declares
  Op op;
  int nargs;
  // the arguments of `op`: indices in Model.numbers, less than the index of this number
  uint32_t arg[2];
} RowNumber;

// A model as written in the file: the whole graph with all names, declarations and blocks; mesh and
// layout.
typedef struct Model Model;
struct Model {
  Arena *arena;
  Intern *names;
  Diag *diag;
  Graph *graph; // STAGE_GRAPH
  Mesh mesh;    // graph->mesh points here
  Layout layout;
  // name of the loss: the loss of the first train block, else "loss"; NULL: no loss
  const char *loss;
  NodeId loss_node;
  Dtype precision; // type of products and activations: f32, bf16 or f16
  VEC(RowNumber) numbers;
  // with `accumulate` or `sync`: the model of one micro-batch or replica, which has its own dims;
  // with asynchronous updates also its own mesh; or NULL
  const Model *part;
  int64_t parts; // a step has only so many of its micro-batches (ShortLoops); 0: all
};

// Returns the text of a file, NUL-terminated, in the arena, and its length in *n. Returns NULL,
// with errno set, if the file cannot be read.
char *file_text(Arena *a, const char *path, size_t *n);
// Returns the rest of a stream, NUL-terminated, in the arena, and its length in *n. Returns NULL,
// with errno set, if the stream cannot be read.
char *stream_text(Arena *a, FILE *f, size_t *n);
// The most bytes of a model, an imported file or a prompt; larger ones are data, or a device.
enum { MODEL_BYTES = 64 << 20 };
// As file_text and stream_text, but with errno EFBIG for more than MODEL_BYTES.
char *model_text(Arena *a, const char *path, size_t *n);
char *model_stream(Arena *a, FILE *f, size_t *n);
// import.c: returns a copy of `file` in which imported functions and dims replace the imports, or
// `file` itself if it has no imports. `path` is that of the model file, or NULL. Returns NULL after
// errors.
const Ast *imports_resolve(Arena *a, Intern *names, Diag *d, const Ast *file, const char *path);
// Builds the model of a parsed file, in arena a. Returns NULL after at least one error in d; errors
// of all statements are collected.
Model *model_build(Arena *a, Intern *names, Diag *d, const Ast *file, const ModelOptions *opt);
// precision.c: replaces the model's graph by one that computes products and activations in
// m->precision, with casts as nodes.
void precision_apply(Model *m);
// train.c: returns true if the full name `name` matches a pattern of the comma-separated list
// `patterns`.
bool patterns_match(Arena *a, const char *patterns, const char *name);
// train.c: returns true if block t trains declaration d.
bool train_trains(Arena *a, const TrainSpec *t, const Decl *d);
// train_sync.c: returns the axes over which the layout splits the batch of `data train`. With
// asynchronous updates, processors with equal coordinates on them run replicas together.
Axes sync_axes(const Model *m);
// train_optimizer.c: returns the optimizer that block t uses for the parameter `name`: that of the
// first group whose pattern matches, else that of the block.
const OptimizerSpec *train_optimizer(const Graph *g, const TrainSpec *t, const char *name);
// The dims of the matrices of a parameter, and the numbers of outputs and inputs of one matrix. The
// other dims of the parameter number matrices.
typedef struct MatrixDims {
  Dims out, in;
  double outs, ins;
} MatrixDims;
// matrix_dims.c: sets *out to the dims of the matrices that the optimizer s updates in d. Returns
// NULL, or why d has no such matrices, as the end of a sentence.
const char *matrix_dims(const Graph *g, const OptimizerSpec *s, const Decl *d, MatrixDims *out);
// train_schedule.c: returns true if a schedule of the model has a number in epochs.
bool train_counts_epochs(const Model *m);
// train_schedule.c: converts epochs of schedules to steps, with `batches` steps in an epoch. Call
// it before a select function. Returns false after an error.
MUST_USE bool train_resolve_epochs(Model *m, int64_t batches);

// -- select.c: the graph that a command needs ---------------------------------------------------
// All select functions return a graph in STAGE_GRAD, in arena a, that holds only what is asked for;
// NULL after errors in m->diag.

// The values to fetch: names and grad(NAME). With n 0: every output, the loss and every metric.
typedef struct Fetch {
  uint32_t n;
  const char *const *name; // n names as the user wrote them
  const char *loss;        // --loss or NULL
  bool training;           // compute in training mode (`training` is true in the model)
  DimId rows;              // the batch dim if the last batch may have fewer rows, or 0
  Pos pos;                 // position of the option that names the values
  Pos loss_pos;            // position of --loss
} Fetch;
Graph *select_run(Arena *a, const Model *m, const Fetch *f);
// Returns the graph of a training step: forward pass, gradients, and optimizer updates as
// OUT_UPDATE. The graph also outputs the loss and the fetched values. If f is NULL, it outputs the
// losses and metrics; if f->n is 0, also the outputs of the model.
Graph *select_train(Arena *a, const Model *m, const Fetch *f);
// Additional outputs of a training step, for the training loop. Their names are reserved
// (select_reserved).
typedef struct TrainAsk {
  // add the output select_watched, which is finite only if the loss and all gradients are finite
  bool finite;
  // add the outputs select_rate (the learning rate) and select_norm (the norm of the gradients)
  bool log;
} TrainAsk;
// Returns the graph of select_train with the additional outputs of `ask`.
Graph *select_train_as(Arena *a, const Model *m, const Fetch *f, const TrainAsk *ask);
// Name of an output that must be finite for the step to commit. If the graph has no output of that
// name, the loss must be finite.
extern const char select_watched[];
// replicas.c: returns the graph that joins the replicas of the training step `train`, in arena a;
// NULL if its train block has no `sync`. It shares the tensors of the step. Its step number is a
// SyncWay (runtime/runtime.h).
Graph *select_sync(Arena *a, const Graph *train);
// Returns whether `name` is the slot with the parameters of replicas.
bool replica_slot(const char *name);
// Returns the name of the state `which` of the schedule `plateau` of a train block, in arena a. The
// training loop writes two of them after an evaluation: plateau_value gets the value of the watched
// metric, plateau_fresh gets 1.
const char *plateau_name(Arena *a, uint32_t block, const char *which);
extern const char plateau_value[], plateau_fresh[];
// Name of an i32 output of a step with a scaled loss: the number of updates skipped so far because
// gradients overflowed.
extern const char select_skipped[];
// Names of the outputs of TrainAsk.log. With several train blocks there is one for each, with the
// suffix ".LOSS".
extern const char select_rate[], select_norm[];
// With asynchronous updates a training step makes no update. It outputs the gradient of each
// parameter w that it trains, after clipping, as "train.push.w", and the change of each state s as
// "train.change.s": both go to a server. These are the names without those of the tensors.
extern const char select_pushed[], select_changed[];
// server.c: returns the graph of a server, in arena a: its inputs are what a step of a replica
// outputs, and it makes the update. Its step number counts updates; `replicas` of them are one step
// of schedules. m is the model of the whole batch, which has asynchronous updates. Returns NULL
// after an error in m->diag.
Graph *select_server(Arena *a, const Model *m);
// Returns true if `output` is one of the reserved names of outputs (select_watched, select_skipped,
// select_rate, select_norm, select_pushed, select_changed).
bool select_reserved(const char *output);
// How an evaluation over a data block computes the loss or a metric. The outermost reductions over
// the batch dim are outputs of the step; they are combined over batches, and `finish` computes the
// value from the results.
typedef struct EvalMetric {
  const char *name;
  uint32_t nparts;
  const char **output; // names of the outputs, one for each part
  int *how;            // how each part is combined over batches: sum, maximum ... (MetricPart.how
                       // in runtime/runtime.h)
  Dtype *type;         // type of each part
  int64_t *elements;   // elements of each part: the product of all dims but the batch dim
  const Graph *finish; // inputs "part.0", ... and "rows", output "value"
  bool ratio;          // the metric is the fraction of rows for which a bool is true
} EvalMetric;
// Returns the graph of an evaluation step, and its metrics in arena a.
Graph *select_eval(Arena *a, const Model *m, uint32_t *nmetrics, EvalMetric **metric);
typedef struct EvalAsk {
  // use the averages that training keeps: slots average.NAME in place of the trained parameters
  bool average;
  // index: metric. True: the metric is the mean of its values in the batches, weighted by their
  // rows; false: it is combined from parts. NULL: false for all
  const bool *whole;
} EvalAsk;
Graph *select_eval_as(Arena *a, const Model *m, const EvalAsk *ask, uint32_t *nmetrics,
                      EvalMetric **metric);

// -- known_bytes.c ------------------------------------------------------------------------------
// The memory of programs that a search compiled, by hashes of the graphs they were made of and of
// what else they depend on. Of each only the first is compiled to know what it needs.
typedef struct KnownBytes KnownBytes;
KnownBytes *known_bytes_new(Arena *a);
// Returns a table in `a` that begins with the entries of `below`, which must outlive it. Thread
// rule: as long as `below` does not change, several threads may each use such a table.
KnownBytes *known_bytes_over(Arena *a, KnownBytes *below);
// Adds the entries of a table that known_bytes_over made to the table below it.
void known_bytes_merge(const KnownBytes *k);
// Returns where the bytes of a program are; they are 0 if they are not known. Adds new programs.
int64_t *known_bytes(KnownBytes *k, uint64_t program);

// -- pipeline.c: the passes, in order -----------------------------------------------------------
// Recompute levels (remat) for PipelineOptions.again: cheap values; these and gathered parameters;
// these and all that was gathered; the lowest level with all segments of the forward pass; the
// highest.
enum { AGAIN_CHEAP = 1, AGAIN_PARAMETERS, AGAIN_GATHERS, AGAIN_ALL = 1 << 30, AGAIN_SEGMENTS = -1 };
typedef struct PipelineOptions {
  CodegenOptions codegen;
  CodeOptions code;
  StoreOptions store;
  const Machine *machine;
  int64_t memory; // memory budget of a processor in bytes; 0: no limit
  // Gives up early where no recompute level is likely to fit the budget. If none fits, `least` of
  // the result is the memory of the best level tried, and its program that without recomputation.
  bool sparing;
  int again;         // without a budget: the recompute level, such as AGAIN_SEGMENTS
  bool plain;        // choose shardings by place_plain, which may save memory
  SumOrder sums;     // the order in which `place` reduces sums
  bool modest;       // take the placement without redundant work, where there are two
  bool verify_print; // debug: after every pass print the graph, read it, and print it again
  bool machine_code; // false: stop before LLVM
  Gpu *gpu;          // the GPU that the machine code is for; NULL: it is for the CPU
  bool transfers;    // plan collectives for a GPU, also without `gpu`
  int64_t each;      // with a GPU: the processors that each GPU has; 0: this one has all
  int threads;       // the most threads that the compile uses; 0: one
  Timings *timings;  // receives time and memory of each pass; or NULL
  bool first;        // compare the placement with no other (Placement.modest, Placement.full)
  // The result for the same graph without a memory budget and at recompute level 0, up to stage
  // "place" or a later one: what it has is taken over.
  // Its `least` is 0 or, if it has no program, the bytes that this is known to need, which are more
  // than `memory`. Or NULL.
  const struct Compilation *begun;
  bool simplified; // the selected graph has passed stage "simplify" already, under another layout
  // The memory of programs that were compiled from the model with these options, but for budget,
  // recompute level, placement, `times` and the micro-batches (`accumulate`); more are added. Or
  // NULL.
  KnownBytes *known;
  int64_t accumulate;
  // Called with the graph in which values are rematerialised for `again`; returns whether it is to
  // be compiled further. If not, order and program of the result are those of `begun`, if it has
  // them. Or NULL.
  bool (*wanted_again)(void *watcher, const Graph *rematerialised);
  // Called with every graph that a pass has made, in the order of the passes; or NULL. The graph
  // lives only during the call.
  void (*passed)(void *watcher, const char *pass, const Graph *g);
  void *watcher;
} PipelineOptions;

// The results of one compilation. The graphs of all stages live as long as the arena of
// pipeline_run.
typedef struct Compilation {
  const Graph *selected, *simplified, *lowered, *collected;
  const Placement *placement;
  const Buckets *buckets;
  const CollFacts *facts;
  const Order *order;
  const Fusion *fusion;
  const Compiled *compiled;
  int again, levels;      // the recompute level chosen for the budget, and the highest; 0: none
  int trials;             // programs that were compiled to find the level
  const char *again_text; // what the recompute level rematerialises, or NULL
  bool plain;             // placed by place_plain, which needs less memory than `place`
  bool gave_up;           // sparing: other recompute levels, or place_plain, were not tried
  bool plain_tried;       // place_plain was tried, because no program of `place` fits the budget
  int64_t least;          // with a budget: memory in bytes of the program at the chosen level
  PartitionFacts partition;
  double predicted; // seconds of a step with the figures of the session's machine; 0: not computed
  // the machine code: of the CPU, or of the GPU and as it is loaded there; NULL: there is none
  Code *code;
  GpuCode *gpu_code;
  GpuTransfers *transfers; // of programs for a GPU that will run
  GpuProgram *on_gpu;
} Compilation;
// Frees the machine code. No Exec may still use it.
void compilation_free(Compilation *c);
// pipeline_better.c: returns a compilation with the same graphs and the placement of c, in arena a,
// to whose dims a compile (PipelineOptions.begun) may add others. Thread rule: as long as nobody
// changes c, several threads may each use such a copy.
Compilation compilation_apart(Arena *a, const Compilation *c);

// Runs the passes on a selected graph up to `last` (inclusive; see stage_names) or to machine code.
// Returns false after errors in d.
MUST_USE bool pipeline_run(Arena *a, const Graph *selected, const PipelineOptions *opt,
                           const char *last, Diag *d, Compilation *out);
// The stages that `dump` can print, in order: the name, and one sentence on what it shows.
typedef struct StageName {
  const char *name, *holds;
} StageName;
extern const StageName stage_names[];
extern const int stage_name_count;

#endif
