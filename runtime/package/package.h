// Packages: a compiled model in a folder, which runs without the compiler. docs/package.md has the
// format.
//
//   package.json            what is in it, with sizes and checksums of all other files
//   PROGRAM.BUILD.program   a Program (ir/program/pack.h)
//   train.data              the data block of a package that trains (pack_of_data_block)
//   PROGRAM.BUILD.o         the machine code of its kernels, for one kind of processor
//   PROGRAM.BUILD.ptx       or their code for a GPU, and
//   PROGRAM.BUILD.launches  how they are launched there (GpuLaunches of ir/program/gpu.h)
//   weights.safetensors     parameters and states
//
// A build is all programs compiled for a level of the CPU or of GPUs, and for what computes
// products of matrices there. The first build that this machine can run is used. A package is for
// CPUs or for GPUs.
//
// A packed package is one block of bytes: u64 length of package.json, package.json, then the other
// files in the order in which it lists them, each at a multiple of PACK_ALIGN bytes.
#ifndef RUNTIME_PACKAGE_H
#define RUNTIME_PACKAGE_H

#include "ir/program/image.h"
#include "runtime/generate/decoder.h"
#include "runtime/generate/token_codec.h"
#include "runtime/runtime.h"

#define PACKAGE_SCHEMA "meshc.package/1"
#define PACKAGE_FILE "package.json"
#define PACKAGE_WEIGHTS "weights.safetensors"
enum { PACK_ALIGN = 64 };
// The programs that generate text: for one position, and for many; of one text, and of several at a
// time.
#define PACKAGE_GENERATE "generate"
#define PACKAGE_PROMPT "prompt"
#define PACKAGE_GENERATE_ROWS "generate_rows"
#define PACKAGE_PROMPT_ROWS "prompt_rows"

// The names of the classes that an output consists of, and of the positions along its dims.
typedef struct PackageClasses {
  const char *output;
  ClassNames element;
  uint32_t ndims;
  const char **dim;
  ClassNames *axis; // by `dim`
} PackageClasses;

typedef struct PackageProgram {
  const char *name; // "predict", "evaluate", "train", PACKAGE_GENERATE and the others of text
  bool any_rows;    // it may run batches with fewer rows (exec_rows)
  Program program;  // with the addresses of its kernels
  Image *image;
  GpuProgram *on_gpu; // of a package for GPUs; then `image` is NULL
  uint32_t nclasses;
  PackageClasses *classes; // of outputs that have names
} PackageProgram;

// A parameter, state or optimizer tensor in the file of weights.
typedef struct PackageValue {
  const char *name;
  TensorKind kind;
  Dtype type;
  int64_t at, bytes; // in the file
} PackageValue;

// What a package says about its programs that generate text.
typedef struct PackageTextFacts {
  DecoderFacts decoder, several; // of the programs of one text, and of several
  int64_t texts;                 // of the latter; 1: there are none
  TokenKind tokens;
  const VocabularyKind *kind; // of its vocabulary, or NULL
} PackageTextFacts;

// What a package says about its training with the files of its data block.
typedef struct PackageTrainFacts {
  const char *file, *rows;    // the file with the data block; the dim of the rows
  int64_t steps, epochs, log; // as in TrainSpec
  bool evaluates;             // its schedule or its end depends on evaluations
  bool skip;                  // steps that are not finite are left out
  const char *skipped;        // TrainJob.skipped
  uint32_t nshown;
  const char **shown; // outputs that users see: losses, then metrics
} PackageTrainFacts;

typedef struct PackageSource PackageSource;
typedef struct Package {
  const char *path;
  const char *model, *version; // path of the model; version of meshc that has made the package
  const char *build; // the build that was chosen: "x86-64-v3", "sm_80"; of package_look: all
  Gpu *gpu;          // of a package for GPUs
  int64_t gpus;      // with `gpu`: how many share the mesh
  Diag *diag;        // of the opening
  uint64_t seed;     // of random numbers in steps, and of the order of rows
  int64_t steps;     // training steps that the values had done
  const char *micro; // dim of inputs that counts the micro-batches of a step, or NULL
  const char *watch; // output that must be finite for a training step to commit, or NULL
  uint32_t nhidden;
  const char **hidden; // outputs that are none of the model
  uint32_t nprograms;
  PackageProgram *program;
  uint32_t nvalues;
  PackageValue *value;               // by place in the file
  const PackageTextFacts *text;      // NULL: it generates no text
  const PackageTrainFacts *training; // NULL: it does not know data to train on
  PackageSource *source;
} Package;

// Opens the package in folder `path`, or the packed one in bytes[0..n), which must live as long as
// the package; `path` is then its name in messages. Loads the programs of the build for this
// machine. All memory but machine code is allocated in `a`. Returns NULL after an error in d: files
// that are missing, damaged or of another version of meshc, or no build for this CPU or GPU. ranks:
// those that run it together; NULL: this process does.
Package *package_open(Arena *a, const char *path, Ranks *ranks, Diag *d);
Package *package_open_packed(Arena *a, const char *path, const char *bytes, size_t n, Diag *d);
// Reads only what the package says about itself, of all its builds: its programs have no code, and
// this machine need have no CPU or GPU for them. bytes: NULL for a package in folder `path`.
Package *package_look(Arena *a, const char *path, const char *bytes, size_t n, Diag *d);
void package_close(Package *p); // after all Execs of its programs; p may be NULL
// Binds a program to memory: exec_new on the device that the package is for.
Exec *package_exec(const PackageProgram *p, const ExecOptions *options, Diag *d);
// Returns whether `path` is a folder with a package.
bool package_is(const char *path);
bool package_is_micro(const Package *p, const char *dim);
// Returns whether the program is one of those that generate text.
bool package_is_of_text(const PackageProgram *p);
// Returns the program of this name, or NULL.
PackageProgram *package_program(const Package *p, const char *name);
// Copies the values of the file of weights to the tensors of e, which runs `program`. Returns false
// after an error in d.
MUST_USE bool package_load(const Package *p, const Program *program, Exec *e, Diag *d);

// -- package_pack.c -----------------------------------------------------------------------------
struct DiskFile;
// Writes the packed form of a package in a folder to `out`. *bytes gets its length. Returns false
// after an error in d; the caller checks `out`.
MUST_USE bool package_pack(Arena *a, const char *folder, struct DiskFile *out, int64_t *bytes,
                           Diag *d);
// Writes it behind the `before` bytes of an executable file, so that package_at_end finds it.
MUST_USE bool package_append(Arena *a, const char *folder, int64_t before, struct DiskFile *out,
                             Diag *d);
// Returns the packed package at the end of a file with the content bytes[0..n), and its length, or
// NULL if there is none.
const char *package_at_end(const char *bytes, size_t n, size_t *length);
// The same of the file at `path`, in `a`; also NULL if the file cannot be read.
const char *package_in_file(Arena *a, const char *path, size_t *length);

// -- package_write.c ----------------------------------------------------------------------------
typedef struct PackageWriter PackageWriter;
// Begins a package that replaces folder `path` when it is complete. Returns NULL after an error in
// d, such as a folder that is no package.
PackageWriter *package_begin(Arena *a, const char *path, Diag *d);
// Adds a file. Returns false after an error.
MUST_USE bool package_put(PackageWriter *w, const char *name, const void *bytes, size_t n);
// Writes the file of weights: n arrays, which are tensors of these kinds.
MUST_USE bool package_put_values(PackageWriter *w, uint32_t n, const NamedArray *x,
                                 const TensorKind *kind);
struct json_t;
// Adds files and values to the description, which it takes, writes it, and puts the folder in its
// place. Returns false after an error. Frees the writer.
MUST_USE bool package_end(PackageWriter *w, struct json_t *description);
// Removes what was written, and frees the writer. w may be NULL.
void package_abandon(PackageWriter *w);

#endif
