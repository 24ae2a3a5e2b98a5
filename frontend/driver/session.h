// What the commands share: one run of the program, from options to model, compile and processors.
#ifndef FRONTEND_SESSION_H
#define FRONTEND_SESSION_H

#include <jansson.h>

#include "frontend/driver/options.h"
#include "frontend/frontend.h"
#include "ir/base/units.h"
#include "runtime/train/checkpoint.h"

typedef struct Session {
  Arena *arena;
  Intern *names;
  Diag *diag;
  const Options *opt;
  Machine machine;
  const char *blas; // its name, NULL: none
  const char *text; // of the model file; set before session_load: instead of it
  size_t text_bytes;
  uint32_t source;
  const Ast *ast;
  ModelOptions options; // that the model was built with
  Model *model;
  Timings timings;         // of what is being compiled
  const char *directory;   // where relative paths of the model start
  Ranks *ranks;            // the processes of this run, or NULL: there is one
  const char *inject_pass; // of --fault pass@NAME, or NULL
  ExecInject inject;       // of --fault value@PROCESSOR:CALL, kernel@PROCESSOR:CALL
  const ExecProbe *probe;  // of processors made from here on, or NULL
  const volatile sig_atomic_t *stop_request; // as in ExecOptions
  bool unfused;                              // the next compile has one kernel an operation
  bool trial; // a program that is only looked at may need more than --memory
  bool keeps; // programs for run hold all parameters and states
} Session;

// -- session.c, session_select.c, session_compile.c, session_files.c: loading, selecting, compiling ----
// Whether the model is read from standard input: the first argument is `-`.
bool session_from_stdin(const Session *s);
// Reads the model file (the first argument), no more. False after an error.
MUST_USE bool session_read(Session *s);
// Reads, parses, builds the model under the options, and checks its layout.
MUST_USE bool session_load(Session *s);
// Bytes that a processor may hold: --memory, or the machine's. False after an error.
MUST_USE bool session_memory(const Session *s, double *out);
// The places and names of --fetch and --loss as a Fetch; n 0 without --fetch.
Fetch session_fetch(const Session *s);
// The loss and the metrics: what an evaluation computes of one batch.
Fetch session_evaluated(const Session *s);
// What check, dump and explain describe: the graph that --for, --fetch and --training ask for, its
// purpose ("train", "eval", "run") and the dim with an incomplete last batch (NULL: none). NULL
// after an error.
Graph *session_select(Session *s, const char **purpose, const char **over);
// Runs the passes up to `last` (NULL: machine code) for "train", "eval" or "run"; `over` is the dim
// with an incomplete last batch or NULL.
MUST_USE bool session_compile(Session *s, const Graph *g, const char *purpose, const char *over,
                              const char *last, Compilation *out);
// The same to machine code in memory of `a`, by this process alone whatever the ranks do; and its
// processors.
MUST_USE bool session_compile_alone(Session *s, Arena *a, const Graph *g, const char *purpose,
                                    const char *over, Compilation *out);
// Runs the passes up to fusion and tells `passed` every graph (PipelineOptions.passed).
MUST_USE bool session_passes(Session *s, Arena *a, const Graph *g, const char *purpose,
                             void (*passed)(void *watcher, const char *pass, const Graph *g),
                             void *watcher, Compilation *out);
Exec *session_exec_alone(Session *s, const Compilation *c);
// Binds a compiled program; `share` and `must_be_finite` as in ExecOptions.
Exec *session_exec(Session *s, const Compilation *c, const Exec *share, const char *must_be_finite);
// Text of a file, NUL-terminated, in the arena; NULL (errno tells) when it cannot be read.
char *session_file(Session *s, const char *path, size_t *n);
// Where compiled kernels are kept; NULL with --no-cache, or where neither XDG_CACHE_HOME nor HOME
// says it.
const char *cache_folder(Session *s);
// Makes the folder and those above it. False after an error.
MUST_USE bool session_folder(Session *s, const char *path);
// Replaces the file at path by n bytes of text (ir/base/disk.h); `fast`: without fsync. False after
// an error at `at`.
MUST_USE bool session_write(const Session *s, const char *path, const char *text, size_t n,
                            bool fast, Pos at);
// The error for a path that cannot be written, by errno. Returns false.
bool session_cannot_write(const Session *s, const char *path, Pos at);
bool text_ends(const char *text, const char *end);

// -- describe.c: meshes, layouts, collectives and programs as text and JSON ---------------------
// The file of a place: the model, or one that it imports.
const char *line_file(const Session *s, Pos pos);
json_t *collectives_json(const Session *s, const CollFacts *facts);
json_t *mesh_json(const Mesh *m);
json_t *axes_json(const Mesh *m, Axes axes);
json_t *layout_json(const Session *s);
int64_t count_instructions(const Program *p, InstrKind kind);
// "kernels", "products" and "memory" of a compile.
void program_json(json_t *out, const Compilation *c);
int64_t parameter_count(const Graph *g);

// -- diag_json.c --------------------------------------------------------------------------------
// A string of any bytes: those that are not UTF-8 become \xNN. NULL of NULL.
json_t *json_text(const char *text);
// Takes the object that the command prints under --json. Returns the exit code 0.
int json_finish(json_t *object);
// Puts "diagnostics" into out: what was said so far.
void json_diagnostics(json_t *out, const Diag *d);
// At the end of the run: prints the command's object with all diagnostics; without one, the
// diagnostics alone.
void json_end(const Session *s);
// From here on what the process says when it cannot go on (ir/base/abrupt.h) is such an object,
// too, if the command line asks for JSON. json_output: the descriptor for it, where standard output
// is not the user's.
void json_watch(int argc, char **argv);
void json_output(int fd);

// -- measure_machine.c --------------------------------------------------------------------------
// Puts into *out what can be measured, with all cores at work, or all ranks: they call it together.
// What else it holds (caches, memory) must be there. False after an error.
MUST_USE bool machine_measure(Session *s, Machine *out);

// -- predict.c: the simulator's answers ---------------------------------------------------------
// One run of the program by the machine's figures.
const Simulation *session_simulate(const Session *s, const Compilation *c);
double predicted_seconds(const Session *s, const Compilation *c);
json_t *simulation_json(const Simulation *t);
// Each instruction, predicted beside what it has taken in `steps` profiled steps of e.
json_t *instructions_json(const Simulation *t, const Program *p, const Exec *e, int64_t steps);
// "1.234 ms: products 0.9 ms, kernels 80 us, collectives 0.2 ms (0.1 ms of it overlapped)".
const char *simulation_text(Arena *a, const Simulation *t);

// -- measure.c, synthetic.c: times --------------------------------------------------------------
// Adds measured_seconds of one call to the entries of collectives_json, after `steps` profiled
// steps of e.
void collectives_measured(const Session *s, json_t *list, const Compilation *c, const Exec *e,
                          int64_t steps);
// Made-up values for all inputs; *bytes gets their size.
void synthetic_feed(Exec *e, const Program *p, int64_t *bytes);

// -- session_ranks.c: several processes ---------------------------------------------------------
// Starts or joins ranks, as --np, --comm and the launcher say. False when the command is not to be
// run here: *code is then the exit code, or 2 after an error in s->diag.
MUST_USE bool session_ranks(Session *s, char **argv, int *code);
bool session_first(const Session *s); // rank 0, which prints and writes; or the only process
// All ranks have loaded the same model for the same mesh, which they can share.
MUST_USE bool session_agree(Session *s);
// Around a compile: with a cache one rank of a machine compiles, the others read what it has made.
// Then all have the same program.
MUST_USE bool session_before_compile(Session *s, bool cached);
MUST_USE bool session_after_compile(Session *s, bool cached, const Program *p);
// All ranks have read the same data files so far; `last`: no further ones are recorded.
// --check-data says how they are compared.
MUST_USE bool session_same_files(Session *s, bool last);
FILE *
session_output(const Session *s); // where lines go; with --log-rank all they begin with the rank
// Whether this process prints the diagnostics of a run that ended with that code.
bool session_speaks(const Session *s, int code);
int session_leave(Session *s, int code); // the exit code of the run

// -- feed_option.c: --feed ----------------------------------------------------------------------
typedef struct Fed {
  DeclId decl;
  OptionUse use;
  Array array; // converted to the input's type
} Fed;
typedef struct FedList {
  uint32_t n;
  Fed *at;
} FedList;
// Reads all --feed options. `rows_of` is a dim that may have any number of rows (0: none). False
// after errors; then, too, feeds_free.
MUST_USE bool feeds_read(Session *s, DimId rows_of, FedList *out);
void feeds_free(FedList *f);
// Every input that g reads is fed; false after an error for each that is not.
MUST_USE bool feeds_cover(Session *s, const Graph *g, const FedList *f);
// Hands what the program reads to it.
void feeds_write(const Session *s, Exec *e, const Program *p, const FedList *f);

// -- params.c: --params, --map, --save-params ---------------------------------------------------
// Reads parameter files into e: parameters and states of p, and slots if `slots`. *step gets the
// number of steps behind the optimizer state (0 without). False after errors. Without --params it
// does nothing.
MUST_USE bool params_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step);
// Whether --save-params can be done, before anything is computed. False after an error.
MUST_USE bool params_check(Session *s);
MUST_USE bool params_save(Session *s, const Exec *e, const Program *p, int64_t step);

// -- checkpoints.c ------------------------------------------------------------------------------
// Whether the options fit, before anything is computed. False after an error.
MUST_USE bool values_check(const Session *s);
MUST_USE bool checkpoints_check(const Session *s);
// Parameters and states of e: those of --checkpoint or of --params, else as they were drawn. With
// `slots` also the state of the optimizer, and *step gets the steps behind it. Averages are taken
// by a program for eval. False after an error.
MUST_USE bool values_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step);
// job has its programs, feeds and header: with --resume they are brought to the newest checkpoint;
// with
// --checkpoint-dir job->saver is made (saver_free). False after an error.
MUST_USE bool checkpoints_begin(Session *s, TrainJob *job);

// -- results.c: values out ----------------------------------------------------------------------
typedef struct Result {
  const char *name;       // as fetched: "probs", "grad(w)"
  const char *const *dim; // names, one an axis
  Array array;
} Result;
// Reads tensor `name` of that kind into a new array (array_free); false after an error.
MUST_USE bool result_read(Session *s, const Exec *e, const Program *p, TensorKind kind,
                          const char *name, Result *out);
// Warns of NaN and Inf, or with --check finite says an error.
MUST_USE bool results_check(const Session *s); // --check and --out, before anything is computed
bool out_is_stdout(const Session *s);          // --out -
MUST_USE bool results_finite(Session *s, uint32_t n, const Result *r);
// To --out, or printed.
MUST_USE bool results_write(Session *s, uint32_t n, const Result *r);
json_t *results_json(uint32_t n, const Result *r);
// The name that users know of a program's dim.
const char *result_dim(const Session *s, const char *name);

// -- data_block.c -------------------------------------------------------------------------------
// The dim that rows of that block run over, by name.
const char *data_over(const Session *s, BlockKind kind);
// Opens a data block for the inputs that g reads; keep_last: an incomplete last batch counts. NULL
// after errors.
Feed *data_open(Session *s, const Graph *g, BlockKind kind, bool keep_last);
// The metrics of an evaluation in the runtime's form.
const Metric *metrics_of(Session *s, uint32_t n, const EvalMetric *metric);
// valid if `wanted` is NULL and the model has it, else test; the block that `wanted` names. False
// after an error.
MUST_USE bool data_choose(Session *s, const char *wanted, BlockKind *out);

// -- dump_html.c: a stage as a page of its own --------------------------------------------------
char *dump_html_graph(const Session *s, const Graph *g, const char *stage, GraphNote *note,
                      const void *table);
char *dump_html_text(const Session *s, const char *stage, const char *text);

// -- out_of_memory.c ----------------------------------------------------------------------------
// From here on a failed allocation of any thread ends the process with the message and exit code 7;
// s->ranks is told. Once, before anything is allocated.
void out_of_memory_watch(Session *s);
// From here on the calling thread ends the process: another one without memory waits for that.
void out_of_memory_unwatch(void);

// -- the commands: exit codes -------------------------------------------------------------------
#define COMMAND(id, name, arguments, help, run, example, other) int run(Session *s);
#include "frontend/driver/options.def"
#undef COMMAND

#endif
