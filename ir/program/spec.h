// What a model file says beside its arithmetic: how parameters start, where data comes from, how to
// train. Plain data that crosses doors: frontend writes it, graph text carries it, runtime reads
// it.
#ifndef IR_SPEC_H
#define IR_SPEC_H

#include "ir/base/dim.h"
#include "ir/base/dtype.h"

// Initial value of a parameter, state or slot. Draws are keyed by the full name and counted by the
// global index in declared order, so they are the same on every mesh (decision 25).
typedef enum InitKind {
  INIT_CONSTANT,         // a
  INIT_NORMAL,           // mean a, std b
  INIT_TRUNCATED_NORMAL, // mean a, std b, within a +- 2b
  INIT_UNIFORM,          // low a, high b
  INIT_ORTHOGONAL, // matrices: bit i of `split`: declared dim i counts rows, of `each`: it counts
                   // matrices
  INIT_DATA,       // ndata numbers in declared order, computed at compile time
  INIT_FILE,       // path, key
} InitKind;
#define INIT_NAMES "constant", "normal", "truncated_normal", "uniform", "orthogonal", "data", "file"

typedef struct Init {
  InitKind kind;
  double a, b;
  int split, each;
  const double *data;
  int64_t ndata;
  const char *path, *key;
} Init;

typedef enum SourceKind {
#define SOURCE(id, name, opener) SOURCE_##id,
#include "ir/program/source.def"
} SourceKind;
typedef enum SyntheticKind {
  SYNTHETIC_NORMAL,
  SYNTHETIC_UNIFORM,
  SYNTHETIC_INTEGERS
} SyntheticKind;

typedef struct DataSource {
  SourceKind kind;
  const char *path;     // as written; resolved against the model's directory or --data-dir
  const char *key;      // npz, safetensors; csv: column name; cifar10: "images" or "labels"
  int64_t first, last;  // csv columns first..last-1; -1: by key
  int header;           // csv: -1 auto, 0 no, 1 yes
  double scale;         // idx, cifar10; 1 otherwise
  int64_t skip, offset; // tokens, text: bytes before the first, tokens before row 0
  int token_bytes;      // tokens: 2 or 4
  SyntheticKind synthetic;
  double low, high;            // integers(low, high): low <= x < high
  int64_t row_first, row_last; // rows row_first..row_last-1 of the file; row_last <= 0: to the end
  Pos pos;
} DataSource;

typedef struct DataField {
  const char *input; // the decl it feeds
  DataSource source;
  Pos pos;
} DataField;

typedef enum BlockKind { DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_BLOCKS } BlockKind;
const char *block_text(BlockKind k);

typedef struct DataBlock {
  bool present;
  DimId over;  // whole dim that rows run over
  DimId micro; // of a training step that accumulates: micro-batches, each of `over` rows; else 0
  uint32_t nfields;
  DataField *field;
  bool shuffle;
  uint64_t seed;
  Pos pos;
} DataBlock;

typedef enum OptimizerKind {
#define OPTIMIZER(id, name) OPTIMIZER_##id,
#include "ir/program/optimizer.def"
} OptimizerKind;

typedef struct OptimizerSpec {
  OptimizerKind kind;
  double lr, momentum, beta1, beta2, eps, weight_decay, rho, decay;
  bool nesterov;
  const char *no_decay; // comma-separated patterns or NULL
  Pos pos;
} OptimizerSpec;

// A factor on the learning rate, t = 0 in the first step (design: language, Training).
typedef enum ScheduleKind {
  SCHEDULE_CONSTANT,
  SCHEDULE_LINEAR,
  SCHEDULE_COSINE,
  SCHEDULE_INVERSE_SQRT,
  SCHEDULE_EXPONENTIAL,
  SCHEDULE_STEP,
  SCHEDULE_PIECEWISE,
} ScheduleKind;
enum { MAX_PIECES = 8 };

typedef struct ScheduleSpec {
  ScheduleKind kind;
  double warmup, total, final, scale, rate, every, factor;
  int64_t npieces; // piecewise: value[i] while t < at[i], the last one from then on
  double at[MAX_PIECES], value[MAX_PIECES];
  unsigned in_epochs; // a bit for each number that counts epochs still (train_schedule.c)
  Pos pos;
} ScheduleSpec;

// Parameters whose full names match have an optimizer of their own.
typedef struct GroupSpec {
  const char *pattern; // comma-separated
  OptimizerSpec optimizer;
} GroupSpec;

typedef enum StopBest { BEST_UNKNOWN, BEST_MIN, BEST_MAX } StopBest;
typedef enum OnNonfinite { NONFINITE_UNSET, NONFINITE_STOP, NONFINITE_SKIP } OnNonfinite;

// One of the blocks that run one after another in every step. What concerns the run as a whole
// (steps to patience) is the same in all blocks.
typedef struct TrainSpec {
  const char *loss; // name of the loss
  OptimizerSpec optimizer;
  uint32_t ngroups;
  GroupSpec *group;       // the first that matches a parameter
  const char *parameters; // patterns of what the block trains, NULL: all
  const char *frozen;     // patterns of what it leaves alone, or NULL
  int64_t repeat;         // updates in each step; 0: 1
  ScheduleSpec schedule;
  double clip_norm, clip_value;      // 0: none
  int64_t steps, epochs;             // 0: not given; steps wins
  int64_t evaluate, log, checkpoint; // every so many steps, 0: never (log: 0 means a default)
  int64_t accumulate;                // micro-batches in a step; 0: 1
  double average;                    // decay of the moving average of parameters, 0: none
  const char *stop_early;            // metric or loss, or NULL
  int64_t patience;                  // evaluations without a better one
  StopBest stop_best;                // of stop_early: which values are better
  Pos stop_pos;
  OnNonfinite
      on_nonfinite; // what becomes of a step whose loss, or with `skip` gradients, are not finite
  bool scaled;      // precision f16: the loss is scaled (decision 26)
  Pos pos;
} TrainSpec;

typedef struct ModelSpec {
  DataBlock data[DATA_BLOCKS];
  uint32_t ntrain;
  TrainSpec *train;
  uint64_t seed; // --seed, default 0
} ModelSpec;

#endif
