// The session: one run of the program, from options to a model, a compiled program and its
// processors. Input: Options. Every command and the library work on a Session; its parts are in the
// files named below.
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
  // The built-in machine (machine_named) that --device cuda has chosen, because --machine is not
  // given; else NULL.
  const char *machine_name;
  Gpu *gpu;             // the GPU that programs run on; NULL: they run on the CPU, or none runs
  const char *products; // what computes products of f32, such as "AVX-512"; NULL before compiling
  const char *text; // text of the model; if set before session_load, it is used instead of the file
  size_t text_bytes;
  uint32_t source;
  const Ast *ast;
  ModelOptions options; // options that the model was built with
  Model *model;
  Timings timings;       // the stages of the current compile; printed and cleared after it
  int64_t beside;        // bytes of a processor that a program has which runs beside the next ones
  const char *directory; // directory to which relative paths in the model refer
  Ranks *ranks;          // the processes of this run, or NULL for a single process
  const char *inject_pass; // NAME of --fault pass@NAME, or NULL
  ExecInject inject;       // fault of --fault value@PROCESSOR:CALL or kernel@PROCESSOR:CALL
  const ExecProbe *probe;  // called at each kernel of a program that session_exec binds, or NULL
  bool apart, alone;       // ExecOptions.apart and .alone of such a program
  const volatile sig_atomic_t *stop_request; // a value other than 0 ends training after the step
  bool unfused;                              // the next compiles make one kernel for each operation
  // What is known about the sources of inputs: means of columns, names of classes (data_facts.c).
  VEC(SourceFacts) facts;
  bool facts_read;          // those of the saved parameters are among them
  VEC(const char *) sought; // inputs whose classes were sought for results
  // The program is only examined, not run: it may need more than --memory, and -v says nothing
  // about its compile.
  bool trial;
  bool in_job;   // other jobs run beside it, so it has one thread (session_of_job)
  double budget; // the memory budget of such a program in place of --memory; 0: that of --memory
  const Compilation *begun; // PipelineOptions.begun of such a program
  bool simplified;          // PipelineOptions.simplified of such a program
  KnownBytes *known;        // PipelineOptions.known of programs that do not run, or NULL
  // Programs for "run" hold all parameters and states, also those that the graph does not read,
  // because other programs of the library share them. The library opens the GPU of --device cuda
  // when it first compiles, and not when the model is loaded.
  bool keeps;
  // The first program that was compiled to run: later ones store parameters and states as it does.
  const Program *stores;
  bool stores_kept; // that program has a key, and may be in the compile cache (program_reuse.h)
  ProgramKey stores_key;
} Session;

// The graph that a command computes, and what it is for.
typedef struct Selected {
  const Graph *graph;
  const char *purpose; // "train", "eval" or "run"
  const char *over;    // the dim whose last batch can be incomplete, or NULL
} Selected;

// -- session*.c: loading, selecting, compiling, files -------------------------------------------
// Returns whether the model is read from standard input, because the first argument is `-`.
bool session_from_stdin(const Session *s);
// Reads the text of the model file, the first argument, and does not parse it. Returns false after
// an error.
MUST_USE bool session_read(Session *s);
// Sets s->machine, to that of --machine or the default. session_load does so, too. Returns false
// after an error.
MUST_USE bool session_read_machine(Session *s);
// Reads and parses the model, builds it with the options, chooses the layout for `--layout auto`
// and checks the layout. To be called by all ranks together. Returns false after an error.
MUST_USE bool session_load(Session *s);
// The budget of a program that may need any amount of memory.
#define NO_BUDGET 0x1p62
// Sets *out to the memory of a processor in bytes: Session.budget, --memory, or the machine's.
// Returns false after an error.
MUST_USE bool session_memory(const Session *s, double *out);
// Returns the number of threads for work other than that of processors of the mesh: --threads, or
// this rank's share of the cores. A session of a job has one.
int session_threads(const Session *s);
// Returns a session for a job (ir/base/jobs.h) that compiles the model of s: with names and
// messages of its own, in arena `a`. The messages are not shown. Thread rule: as long as nobody
// changes s, several threads may each use such a session.
Session session_of_job(const Session *s, Arena *a);
// Returns the values that --fetch, --loss and --training ask for, with their positions. The list of
// names is empty without --fetch.
Fetch session_fetch(const Session *s);
// Returns the names of the loss and the metrics, for an evaluation of one batch.
Fetch session_evaluated(const Session *s);
// Selects the graph that --for, --fetch and --training ask for, which check, dump and explain
// describe. Returns false after an error.
MUST_USE bool session_select(Session *s, Selected *out);
// Selects the graph (session_select) and compiles it up to stage `last` (session_compile). Returns
// false after an error.
MUST_USE bool session_make(Session *s, const char *last, Selected *of, Compilation *out);
// Runs the passes on g up to stage `last` (NULL: up to machine code); `purpose` and `over` as in
// Selected. With `last` NULL all ranks call it together. Returns false after an error, also if the
// program needs more than --memory.
MUST_USE bool session_compile(Session *s, const Graph *g, const char *purpose, const char *over,
                              const char *last, Compilation *out);
// How session_program compiles: see the fields of PipelineOptions with these names.
typedef struct ProgramWay {
  int64_t memory;
  bool sparing;
  int again;
  bool plain, modest, first;
  SumOrder sums;
  const Compilation *begun;
  bool (*wanted_again)(void *watcher, const Graph *rematerialised);
  void *watcher;
  const char *last; // the stage up to which it compiles; NULL: the program
  double times;     // StoreOptions.times
} ProgramWay;
// Compiles g up to its program, in memory of `a`. The purpose of the program is that of `of`.
// Returns false after an error; a program that needs more than way.memory is none. Where
// way.wanted_again stops the compile, out->compiled is that of way.begun.
MUST_USE bool session_program(Session *s, Arena *a, const Graph *g, const Selected *of,
                              ProgramWay way, Compilation *out);
// Compiles g up to its program for a package. `products`: the types of products that what runs it
// computes without generated kernels; `epilogues`: what products do on its GPU (CodegenOptions of
// these names); `each`: processors of each GPU, 0: all are on one. All programs since s->stores was
// NULL share parameters and states. Returns false after an error, also if the program needs more
// than --memory.
typedef struct PackageWay {
  DtypeSet products;
  uint32_t epilogues;
  int64_t each;
} PackageWay;
MUST_USE bool session_package(Session *s, const Graph *g, const Selected *of, PackageWay way,
                              Compilation *out);
// Returns the types of products that this machine computes for g without generated kernels.
DtypeSet session_products(const Session *s, const Graph *g);
// Compiles graph g to machine code, in memory of `a`, on this rank alone. The program is not
// compared with the programs of other ranks. Returns false after an error.
MUST_USE bool session_compile_alone(Session *s, Arena *a, const Graph *g, const char *purpose,
                                    const char *over, Compilation *out);
// Runs the passes of the compiler on g up to fusion. After each pass calls passed(watcher, name of
// the pass, graph). Returns false after an error.
MUST_USE bool session_passes(Session *s, Arena *a, const Graph *g, const char *purpose,
                             void (*passed)(void *watcher, const char *pass, const Graph *g),
                             void *watcher, Compilation *out);
// Binds a program that session_compile_alone made, in this process. The caller frees the result
// (exec_free). Returns NULL after an error.
Exec *session_exec_alone(Session *s, const Compilation *c);
// Binds a compiled program for all ranks. `share` is the program whose parameters and states the
// new program uses, or NULL. If the output named `must_be_finite` is NaN or Inf, a step fails;
// NULL: there is no such output. The caller frees the result (exec_free). Returns NULL after an
// error.
Exec *session_exec(Session *s, const Compilation *c, const Exec *share, const char *must_be_finite);

// Binds a program for this process alone, which runs `parts` such programs at the same time and
// divides its threads among them. The other arguments and the result are those of session_exec.
Exec *session_exec_part(Session *s, const Compilation *c, int64_t parts,
                        const char *must_be_finite);

// Returns the folder of the compile cache. Returns NULL with --no-cache, or if neither
// XDG_CACHE_HOME nor HOME is an absolute path.
const char *cache_folder(Session *s);
// Makes the folder `path` and its parents, and checks that files can be written there. Returns
// false after an error.
MUST_USE bool session_folder(Session *s, const char *path);
// Replaces the file at path by n bytes of text (ir/base/disk.h). With `fast` there is no fsync. If
// `text` is NULL, there was no memory to make it: that is reported as an error. Returns false after
// an error at `at`.
MUST_USE bool session_write(const Session *s, const char *path, const char *text, size_t n,
                            bool fast, Pos at);
// Reports that the path cannot be written, with the reason in errno. Always returns false.
bool session_cannot_write(const Session *s, const char *path, Pos at);
// Returns whether `path` is a folder in which this user can write. If it returns false, errno has
// the reason.
bool folder_writable(const char *path);
// outputs.c: returns false after an error: a file that an option names to be written is read in
// this run, too. The model may be missing (of a package, or before it is loaded).
MUST_USE bool outputs_check(const Session *s);
// Returns the folder part of a path, or "." if the path has no folder.
const char *path_folder(Arena *a, const char *path);

// -- device.c: --device ---------------------------------------------------------------------------
// Returns whether programs are compiled for a GPU: --device cuda.
bool session_for_gpu(const Session *s);
// Returns whether programs run on one GPU per process: the open one, or that of a package.
bool session_has_gpu(const Session *s);
// Returns whether --precision tf32 is given: products of f32 on a GPU may round their factors.
bool session_tf32(const Session *s);
// Checks --device, and the options that the device does not support. Returns false after an error.
MUST_USE bool session_check_device(const Session *s);
// Returns whether the command runs programs.
bool session_runs_steps(const Session *s);
// Without --machine, chooses the figures of --device cuda: those of the GPU, if one is open and
// meshc knows it, else those of an H100. Without --device cuda does nothing.
void session_device_machine(Session *s);
// With --device cuda, opens the GPU if it is not open yet, and chooses the machine anew. Returns
// false after an error.
MUST_USE bool session_open_device(Session *s);
// Closes the GPU. All programs on it have been freed.
void session_close_device(Session *s);
// Returns the device for headers: "cpu (2 threads, znver5, 512 bit, products by AVX-512)".
const char *device_text(const Session *s, const Exec *e);

// -- describe.c: meshes, layouts, collectives and programs as text and JSON ---------------------
// Returns the name of the file in which a position is: the model, or a file that the model imports.
const char *line_file(const Session *s, Pos pos);
// Each returns a new JSON value, which the caller owns. In order: the collectives of a compilation,
// a mesh, a list of axis names, the layout of the session's model.
json_t *collectives_json(const Session *s, const CollFacts *facts);
json_t *mesh_json(const Mesh *m);
json_t *axes_json(const Mesh *m, Axes axes);
json_t *layout_json(const Session *s);
// Returns the sizes of the axes of an array as a new JSON array, which the caller owns.
json_t *shape_json(int rank, const int64_t *size);
// Returns the number of instructions of one kind in the program.
int64_t count_instructions(const Program *p, InstrKind kind);
// Adds the facts of a compiled program to the object `out`: "kernels", "products" and "memory".
void program_json(json_t *out, const Compilation *c);
// Returns the length of the loop round that a value's name begins with: that of "layer.3" in
// "layer.3.attention.q". Returns 0 for a value outside loops. *loop gets the length of the loop's
// name, "layer".
size_t round_prefix(const char *name, size_t *loop);
// Returns the number of elements of all parameters.
int64_t parameter_count(const Graph *g);

// -- diag_json.c --------------------------------------------------------------------------------
// Returns a JSON string of any text; bytes that are not UTF-8 become \xNN. Returns NULL if `text`
// is NULL.
json_t *json_text(const char *text);
// Takes ownership of `object`, which json_end prints at the end of the command. Always returns the
// exit code 0, so that a command can return this result.
int json_finish(json_t *object);
// Adds "diagnostics" to out: all errors and warnings in d.
void json_diagnostics(json_t *out, const Diag *d);
// Prints the object that json_finish took, with all diagnostics added, at the end of the run.
// Without such an object prints the diagnostics alone.
void json_end(const Session *s);
// To be called at the start of main. If the command line has --json, an error that ends the process
// at once (ir/base/abrupt.h) is also printed as an object with diagnostics.
void json_watch(int argc, char **argv);
// Sets the file descriptor to which json_end prints, for a rank whose standard output is discarded.
void json_output(int fd);

// -- measure_machine.c --------------------------------------------------------------------------
// Measures the rates of this machine into *out, with all cores busy; all ranks call it together.
// The caller sets the figures that are not measured (caches, memory) before. Returns false after an
// error.
MUST_USE bool machine_measure(Session *s, Machine *out);

// -- measure_gpu.c ------------------------------------------------------------------------------
// Measures the rates of the open GPU into *out, which has figures of a GPU; those that are not
// measured stay. Returns false after an error.
MUST_USE bool gpu_measure(Session *s, Machine *out);

// -- machine_kept.c -----------------------------------------------------------------------------
// Returns the first line of a machine file that is measured with so many cores, or on the open GPU
// of --device cuda.
const char *machine_title(const Session *s, int64_t cores);
// Keeps a copy of a measured machine file in the cache folder, if it can be written there.
void machine_keep(Session *s, const char *text);
// Reads the kept machine file, if it is one of this processor with so many cores, or of this GPU
// with all processors of the mesh on it, into *out. Returns its path, or NULL if there is none.
const char *machine_kept(Session *s, int64_t cores, Machine *out);

// -- predict.c: results of the simulator --------------------------------------------------------
// Returns a simulation of one run of the program, with the rates of the session's machine.
const Simulation *session_simulate(const Session *s, const Compilation *c);
// Returns the predicted seconds of one run of the program.
double predicted_seconds(const Session *s, const Compilation *c);
// Returns the predicted seconds of a step by kind of instruction as a JSON object, which the caller
// owns.
json_t *simulation_json(const Simulation *t);
// Returns the predicted time of a run as text in the arena: "1.234 ms: products 0.9 ms, kernels 80
// us, collectives 0.2 ms (0.1 ms of it overlapped)".
const char *simulation_text(Arena *a, const Simulation *t);

// -- measure.c, synthetic.c: measured times -----------------------------------------------------
// Adds measured_seconds, the mean time of one call, to each entry of `list`, which collectives_json
// returned. `steps` is the number of steps in which e was profiled.
void collectives_measured(const Session *s, json_t *list, const Compilation *c, const Exec *e,
                          int64_t steps);
// Writes generated values to all inputs of the program.
void synthetic_feed(Exec *e, const Program *p);

// -- session_ranks.c: several processes ---------------------------------------------------------
// Starts or joins ranks according to --np, --comm and the launcher. Returns false if this process
// must not run the command; *code is then its exit code, or 2 after an error in s->diag.
MUST_USE bool session_ranks(Session *s, char **argv, int *code);
// Returns whether this is rank 0, which prints and writes, or the only process.
bool session_first(const Session *s);
// Returns whether this process prints remarks and progress: rank 0, without --quiet.
bool session_remarks(const Session *s);
// Compares the model, the mesh and the options of all ranks, and divides the mesh among the ranks.
// Returns false after an error: they differ, or the ranks cannot share the mesh evenly.
MUST_USE bool session_agree(Session *s);
// All ranks call session_before_compile before each compile and session_after_compile after it.
// `cached` says whether there is a compile cache: then one rank of each machine compiles first, and
// the others read its kernels. Return false after an error, such as ranks with different programs.
MUST_USE bool session_before_compile(Session *s, bool cached);
MUST_USE bool session_after_compile(Session *s, bool cached, const Program *p);
// Compares the data files that the ranks have read so far, in the way that --check-data names.
// `last` is true in the last comparison of a run. Returns false after an error if files differ.
MUST_USE bool session_same_files(Session *s, bool last);
// Returns the stream to which a command writes its lines of output. With `--log-rank all` each line
// begins with the rank.
FILE *session_output(const Session *s);
// Returns whether this rank is the one that prints the diagnostics when its run ends with `code`.
bool session_speaks(const Session *s, int code);
int session_leave(Session *s, int code); // ends the ranks' connection; returns the run's exit code

// -- feed_option.c: --feed ----------------------------------------------------------------------
typedef struct Fed {
  DeclId decl;
  OptionUse use;
  Array array;     // converted to the input's type; feeds_free frees it
  ClassNames rows; // names of its rows, if it is made of images
  int64_t dropped; // rows of the file that the source leaves out
} Fed;
typedef struct FedList {
  uint32_t n;
  Fed *at;
} FedList;
// Reads the files of all --feed options. The dim `rows_of` may have any size; 0 means no dim.
// Returns false after errors. The caller calls feeds_free after success and after errors.
MUST_USE bool feeds_read(Session *s, DimId rows_of, FedList *out);
void feeds_free(FedList *f);
// Returns whether every input that g reads is fed. Reports an error for each input that is not fed.
MUST_USE bool feeds_cover(Session *s, const Graph *g, const FedList *f);
// Writes the arrays of --feed to the inputs that the program reads.
void feeds_write(const Session *s, Exec *e, const Program *p, const FedList *f);

// -- params.c: --params, --map, --save-params ---------------------------------------------------
// Returns whether the train block asks for moving averages of the parameters over the steps.
bool values_averaged(const Session *s);
// Returns whether program p gets these averages as its parameters: as --average says, else if it is
// for "eval".
bool values_take_averages(const Session *s, const Program *p);
// Reads the file of --params into e: parameters and states of p and, with `slots`, the optimizer
// state. *step gets the number of training steps of that state, or 0. Without --params nothing is
// read. Returns false after errors.
MUST_USE bool params_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step);
// Checks --save-params and --map before anything is computed. Returns false after an error.
MUST_USE bool params_check(Session *s);
// Writes parameters, states and optimizer state of e to the file of --save-params, with `step` as
// the number of training steps; without the option does nothing. All ranks call it together.
// Returns false after an error.
MUST_USE bool params_save(Session *s, const Exec *e, const Program *p, int64_t step);

// Sets *name to the names of the arrays in the file of --params. Returns false without the option,
// or after an error.
MUST_USE bool params_names(Session *s, const char ***name);
// Reads an array of the file of --params. Returns false after an error.
MUST_USE bool params_array(Session *s, const char *name, Array *out);

// -- data_facts.c: what is known about sources of data --------------------------------------------
// Returns whether an array of this name in a parameter file has facts of a source.
bool params_of_data(const char *name);
// Finds the names of the classes of an input with classes = auto in the first data block that has
// them, and keeps them: for results of a command that reads parameters without saved names. A file
// that cannot be read is no error: a line says that numbers are printed. Sought once, by rank 0.
void facts_seek_classes(Session *s, const char *input);
// Adds facts, which are copied, to those of the session. They replace what was known of the input.
void facts_keep(Session *s, const SourceFacts *f);
// Reads the facts that are saved with the parameters of this run, if there are any, once.
void facts_read_saved(Session *s);
// Sets in->facts to what is known about the source of the input: from saved parameters, else from
// data train. Leaves NULL if the source itself has to be read. Returns false after an error.
MUST_USE bool facts_supply(Session *s, FeedInput *in);
// With ranks, which call it together: if the source of an input has facts that are not known yet,
// rank 0 finds them, and in->facts of all ranks gets them. Returns false after an error.
MUST_USE bool facts_share(Session *s, FeedInput *in);
// Writes the facts as arrays to out, at most two for each input. Returns their number.
uint32_t facts_arrays(const Session *s, NamedArray *out);

// -- checkpoints.c ------------------------------------------------------------------------------
// values_check checks the options that load values (--params, --checkpoint). checkpoints_check
// checks the options for checkpoints of a training. To be called before anything is computed. Both
// return false after an error.
MUST_USE bool values_check(const Session *s);
MUST_USE bool checkpoints_check(const Session *s);
// Loads parameters and states of e from --checkpoint or --params; without them they keep their
// initial values. With `slots` loads the optimizer state, too, and *step gets its number of
// training steps. If values_take_averages returns true, the averages become the parameters.
// Returns false after an error.
MUST_USE bool values_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step);
// Returns whether the options name a checkpoint, from which values are loaded or a training is
// resumed, and opens it: *c is NULL after an error.
bool checkpoint_given(Session *s, const Checkpoint **c);
// Prepares the checkpoints of a training whose programs and feeds are open. With --checkpoint-dir
// makes job->saver (saver_free). With --resume loads the newest checkpoint, or that of step N for
// --resume=N, and moves the feed to the batch after it. Returns false after an error.
MUST_USE bool checkpoints_begin(Session *s, TrainJob *job);

// -- results.c: fetched values ------------------------------------------------------------------
typedef struct Result {
  const char *name;       // name of the fetch: "probs", "grad(w)"
  const char *const *dim; // name of the dim along each axis
  Array array;
  ClassNames element; // names of what the elements, class numbers, stand for
  ClassNames *axis;   // by axis: names of its positions; NULL: no axis has names
  bool files;         // the names of axis 0 are those of files
} Result;
// Reads the tensor of this kind and name into a new array (array_free). All ranks call it together;
// only rank 0 gets the data. Returns false after an error.
MUST_USE bool result_read(Session *s, const Exec *e, const Program *p, TensorKind kind,
                          const char *name, Result *out);
// Sets the names of the classes that elements or positions of the result stand for (class_names.c).
// g is the graph that was selected for the command.
void result_classes(Session *s, const Graph *g, Result *r);
// Adds the names to a JSON object: "classes" by number, and "positions" by dim, unless they are
// very many.
void result_classes_json(json_t *out, const Result *r);
// Returns the names of the classes of an input; none if its source has no classes, or if they are
// not known.
ClassNames input_classes(Session *s, const char *input);
// Check that the dims of which an input is an index in g have a position for each of its classes:
// classes_fit for one input, whose classes are known, and classes_listed_fit for all inputs of the
// model whose data blocks list them. Return false after an error.
MUST_USE bool classes_fit(Session *s, const Graph *g, const char *input, Pos at);
MUST_USE bool classes_listed_fit(Session *s);
// Writes results as a CSV file with a line for each position along their first dim, which is the
// same in all of them. Returns false after an error.
MUST_USE bool results_write_csv(Session *s, const char *path, uint32_t n, const Result *r);
// Checks the options --check and --out before anything is computed. Returns false after an error.
MUST_USE bool results_check(const Session *s);
bool out_is_stdout(const Session *s); // whether --out is `-`
// Warns of NaN and Inf in the n results; with `--check finite` they are an error. Returns false
// after an error.
MUST_USE bool results_finite(Session *s, uint32_t n, const Result *r);
// Writes the n results to --out, or prints them. Returns false after an error.
MUST_USE bool results_write(Session *s, uint32_t n, const Result *r);
// Returns the n results as a JSON object, which the caller owns. The object leaves out the values
// of large arrays.
json_t *results_json(uint32_t n, const Result *r);
// Returns the name that a dim of a program has in the model: "b" for "b.whole", which holds the
// rows of all micro-batches of a step; any other name is unchanged.
const char *result_dim(const Session *s, const char *name);
// Returns true if the dim `name` of an input counts the micro-batches of a step (`accumulate`).
bool result_is_micro(const Session *s, const char *name);

// -- data_block.c -------------------------------------------------------------------------------
// Returns the name of the dim of a data block that counts the rows of a batch.
const char *data_over(const Session *s, BlockKind kind);
// Describes an input of the model as the data block `kind`, which has an entry for it, feeds it.
// Returns false after an error.
MUST_USE bool data_input(Session *s, BlockKind kind, const char *input, FeedInput *out);
// Opens a data block for the inputs that g reads. With `keep_last` an incomplete last batch is
// read; without it, dropped. The caller closes the feed (feed_close). Returns NULL after errors.
Feed *data_open(Session *s, const Graph *g, BlockKind kind, bool keep_last);
// As data_open, for all inputs that the block has entries for, with the incomplete last batch.
Feed *data_open_all(Session *s, BlockKind kind);
// Returns the n metrics of an evaluation as the runtime needs them, in the session's arena.
const Metric *metrics_of(Session *s, uint32_t n, const EvalMetric *metric);
// Chooses a data block: the one that `wanted` names; if that is NULL, valid if the model has it,
// else test. Returns false after an error.
MUST_USE bool data_choose(Session *s, const char *wanted, BlockKind *out);

// -- dump_html.c: one stage as an HTML page -----------------------------------------------------
// dump_html_graph returns the HTML page of a graph, and dump_html_text that of a text, both in the
// arena. note(table, node) returns a remark for each node; `note` is NULL if there are none.
char *dump_html_graph(const Session *s, const Graph *g, const char *stage, GraphNote *note,
                      const void *table);
char *dump_html_text(const Session *s, const char *stage, const char *text);

// -- out_of_memory.c ----------------------------------------------------------------------------
// Makes each later failed allocation, in any thread, end the process with a message and exit code
// 7, and tell the other ranks. To be called once, before anything is allocated.
void out_of_memory_watch(Session *s);
// To be called when the run is over: the calling thread ends the process. An allocation that fails
// in another thread from now on does not print or exit: it waits until the process has ended.
void out_of_memory_unwatch(void);

// -- the commands: each returns its exit code, or 0 if the errors in s->diag give it --------------
#define COMMAND(id, name, arguments, help, run, example, other) int run(Session *s);
#include "frontend/driver/options.def"
#undef COMMAND

#endif
