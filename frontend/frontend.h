// The front: model text to Graph, what a command asks of it, and the order of all passes.
#ifndef FRONTEND_FRONTEND_H
#define FRONTEND_FRONTEND_H

#include "codegen/codegen.h"
#include "frontend/driver/timings.h"
#include "frontend/syntax/ast.h"
#include "ir/graph/graph.h"
#include "partition/partition.h"

// -- build*.c: Ast to Graph ---------------------------------------------------------------------
// One --set NAME=VALUE; `path` is "b", "rate", "train.steps", "train.optimizer.lr", "data.train.x".
typedef struct Setting {
  const char *path;
  Ast *value;             // expression
  bool used;              // set by model_build; an unused one is an error there
  struct Setting *before; // set by model_build: the one of the same path before it, or NULL
  Pos pos;
} Setting;

// Builds a model with less of its repetition: what one more round of a `for` costs is the
// difference of two such models. The outermost loops have one round, `longer` two.
typedef struct ShortLoop {
  const Ast *loop;
  int64_t rounds; // that the file says
} ShortLoop;
typedef struct ShortLoops {
  const Ast *longer;   // or NULL
  VEC(ShortLoop) loop; // found by model_build, of more than two rounds
  bool mixed;          // some loop has other numbers of rounds at other calls
} ShortLoops;

typedef struct ModelOptions {
  const char *path;    // of the model file
  ShortLoops *shorten; // or NULL: all rounds
  uint32_t nsettings;
  Setting *setting;
  const Ast *mesh, *layout; // of the command line; NULL: the file's
  bool no_layout;           // --layout none
  bool loaded;              // parameters get their values from a file: --params, a checkpoint
  bool layout_may_go;       // ignore the file's layout if the mesh of the command line lacks
                            // its axes
  bool pins_name_axes; // without a mesh, axes that pins name are added to it with size 1: `plan`
                       // searches their sizes
  uint64_t seed;
  const char *data_dir;  // or NULL
  const char *precision; // --precision, or NULL
  const char *micro_dim; // a dim to split into `micro` parts, of which the model sees one; or NULL
  int64_t micro;
  const char *rows_dim; // a dim of the file that has `rows` elements whatever the file says: that
                        // of the rows of a last,
  int64_t rows;         // incomplete batch in an evaluation; or NULL
} ModelOptions;

// A number that depends on how many rows a batch has: size(d) of a dim that rows run over, or what
// arithmetic makes of it (row_numbers.c). A constant node of the model's graph that
// is such a number has its index in Model.numbers plus 1 as tag.
typedef struct RowNumber {
  DimId d;       // size(d); 0: an operation or, without arguments, any other number
  double number; // with the rows that the model states
  Op op;
  int nargs;
  uint32_t arg[2]; // smaller indices
} RowNumber;

// A model as written: the whole graph with all names, decls, blocks; mesh and layout.
typedef struct Model Model;
struct Model {
  Arena *arena;
  Intern *names;
  Diag *diag;
  Graph *graph; // STAGE_GRAPH
  Mesh mesh;    // graph->mesh points here
  Layout layout;
  const char *loss; // of the first train block, else "loss" if it is a scalar, else NULL
  NodeId loss_node;
  Dtype precision; // of products and activations: f32, bf16, f16
  VEC(RowNumber) numbers;
  const Model
      *part; // `accumulate`: the same model of one micro-batch, with dims of its own; or NULL
};

// Text of a file, NUL-terminated, in the arena; NULL (errno tells) when it cannot be read.
char *file_text(Arena *a, const char *path, size_t *n);
// The rest of a stream, in the same form.
char *stream_text(Arena *a, FILE *f, size_t *n);
// import.c: the file with what it imports in place of its imports; the file itself when there are
// none, NULL after errors. `path` is the model's, or NULL.
const Ast *imports_resolve(Arena *a, Intern *names, Diag *d, const Ast *file, const char *path);
// NULL after at least one error in d. Errors are collected over statements.
Model *model_build(Arena *a, Intern *names, Diag *d, const Ast *file, const ModelOptions *opt);
// precision.c: the model's graph with products and activations in m->precision; casts are nodes.
void precision_apply(Model *m);
// train_schedule.c: whether a schedule counts epochs; then, before selecting, the batches of an
// epoch make them steps. False after an error. train.c: whether a comma-separated list of patterns
// has one that matches the full name.
bool patterns_match(Arena *a, const char *patterns, const char *name);
// Whether the block trains the parameter d.
bool train_trains(Arena *a, const TrainSpec *t, const Decl *d);
bool train_counts_epochs(const Model *m);
MUST_USE bool train_resolve_epochs(Model *m, int64_t batches);

// -- select.c: what a command asks of the model -------------------------------------------------
// All return a graph in STAGE_GRAD that holds only what is asked for; NULL after errors in m->diag.
// `fetch`: names and grad(NAME), NULL: every output, the loss and every metric.
typedef struct Fetch {
  uint32_t n;
  const char *const *name; // as the user wrote them
  const char *loss;        // --loss or NULL
  bool training;           // training mode
  DimId rows;              // a dim of which a batch may have fewer rows, or 0
  Pos pos;                 // of the option
  Pos loss_pos;            // of --loss
} Fetch;
Graph *select_run(Arena *a, const Model *m, const Fetch *f);
// A training step: forward, gradients, optimizer update as OUT_UPDATE; loss and fetched values out.
// With f NULL: losses and metrics; with f->n 0: the outputs too.
Graph *select_train(Arena *a, const Model *m, const Fetch *f);
// The same with outputs that the training loop reads (select_reserved tells them from others).
typedef struct TrainAsk {
  bool finite; // select_watched is not finite where a gradient is not, as with on_nonfinite = skip
  bool log;    // the learning rate and the norm of gradients: select_rate, select_norm
} TrainAsk;
Graph *select_train_as(Arena *a, const Model *m, const Fetch *f, const TrainAsk *ask);
// An output that must be finite for the step to commit; the loss where the graph has no output of
// that name.
extern const char select_watched[];
// An output of a step with a scaled loss: i32, updates skipped so far because gradients overflowed.
extern const char select_skipped[];
// Outputs of TrainAsk.log, one for each train block: with several blocks ".LOSS" follows.
extern const char select_rate[], select_norm[];
bool select_reserved(const char *output);
// Evaluation over a data block: for the loss and each metric the outermost reductions over the
// batch dim as outputs; the plan says how to put them together (design: language, Data).
typedef struct EvalMetric {
  const char *name;
  uint32_t nparts;
  const char **output; // names of outputs
  int *how;            // MetricPart.how
  Dtype *type;         // of the parts
  int64_t *elements;   // of each: all dims but the batch's
  const Graph *finish; // inputs "part.0", ... and "rows", output "value"
  bool ratio;
} EvalMetric;
Graph *select_eval(Arena *a, const Model *m, uint32_t *nmetrics, EvalMetric **metric);
typedef struct EvalAsk {
  bool average; // on the averages that training keeps: slots average.NAME in place of the trained
                // parameters
  const bool *whole; // of every metric: it is the row-weighted mean of what each batch gives,
                     // nothing is put together; or NULL
} EvalAsk;
Graph *select_eval_as(Arena *a, const Model *m, const EvalAsk *ask, uint32_t *nmetrics,
                      EvalMetric **metric);

// -- pipeline.c: the passes, in order -----------------------------------------------------------
typedef struct PipelineOptions {
  CodegenOptions codegen;
  CodeOptions code;
  const Machine *machine;
  int64_t memory;    // memory budget of a processor in bytes: values that do not fit are
                     // rematerialised; 0: no limit
  bool verify_print; // debug: print, read, print after every pass
  bool machine_code; // false: stop before LLVM
  Timings *timings;  // what each pass cost, or NULL
  // Told every graph that a pass has made, in the order of the passes; or NULL. The graph lives as
  // long as the arena of pipeline_run.
  void (*passed)(void *watcher, const char *pass, const Graph *g);
  void *watcher;
} PipelineOptions;

// Everything one compile made; graphs of all stages live until the end (decision 31).
typedef struct Compilation {
  const Graph *selected, *simplified, *lowered, *collected;
  const Placement *placement;
  const Buckets *buckets;
  const CollFacts *facts;
  const Order *order;
  const Fusion *fusion;
  const Compiled *compiled;
  int again, levels;      // recompute level: chosen for the budget, highest; 0: everything is kept
  const char *again_text; // what that level rematerialises, or NULL
  bool plain;             // placed without moves that send less and hold more (place_plain)
  int64_t least;          // with a budget: bytes of the program
  PartitionFacts partition;
  Code *code;
} Compilation;

// Runs the passes on a selected graph up to `last` (inclusive; see stage_names) or to machine code.
// False after errors in d.
MUST_USE bool pipeline_run(Arena *a, const Graph *selected, const PipelineOptions *opt,
                           const char *last, Diag *d, Compilation *out);
// Names of the stages that `dump` knows, in order, with one sentence each.
typedef struct StageName {
  const char *name, *holds;
} StageName;
extern const StageName stage_names[];
extern const int stage_name_count;

#endif
