// What a model file says besides operations: initial values of parameters, sources of data,
// training. The frontend fills these structs, graph text contains them, the runtime reads them.
#ifndef IR_SPEC_H
#define IR_SPEC_H

#include "ir/base/dim.h"
#include "ir/base/dtype.h"

// Initial value of a parameter, state or optimizer slot. A random element is drawn by the full name
// of the tensor and the index of the element in the whole tensor, in declared order. Initial values
// are therefore the same on every mesh (decision 25 of docs/decisions.md).
typedef enum InitKind {
  INIT_CONSTANT,         // all elements are `a`
  INIT_NORMAL,           // mean a, standard deviation b
  INIT_TRUNCATED_NORMAL, // mean a, standard deviation b, from a - 2b to a + 2b
  INIT_UNIFORM,          // low a, high b
  INIT_ORTHOGONAL,       // orthogonal matrices. Bit i of `split`: declared dim i is part of the row
                   // index; bit i of `each`: each index of dim i has a matrix of its own; else:
                   // columns
  INIT_DATA, // `data` has ndata numbers in declared order, computed at compile time
  INIT_FILE, // read from the array `key` of the file `path`
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
  const char *path;     // as the model has it: relative to the model's folder or --data-dir
  const char *key;      // npz, safetensors: array; csv: column; cifar10: "images" or "labels"
  int64_t first, last;  // csv: columns first ... last - 1; first = -1: the column `key`
  int header;           // csv: 1: it has a header, 0: it has none, -1: found out from the file
  double scale;         // idx, cifar10: every number is multiplied by it; 1 otherwise
  int64_t skip, offset; // tokens, text: bytes before the first token; tokens before row 0
  int token_bytes;      // tokens: bytes of a token, 2 or 4
  SyntheticKind synthetic;
  double low, high;            // synthetic integers: low <= x < high
  int64_t row_first, row_last; // rows row_first ... row_last - 1 are used; row_last <= 0: all later
  Pos pos;
} DataSource;

typedef struct DataField {
  const char *input; // full name of the input that it feeds
  DataSource source;
  Pos pos;
} DataField;

typedef enum BlockKind { DATA_TRAIN, DATA_VALID, DATA_TEST, DATA_BLOCKS } BlockKind;
const char *block_text(BlockKind k);

typedef struct DataBlock {
  bool present;
  DimId over;  // whole dim whose elements are rows of the data
  DimId micro; // dim whose elements are the micro-batches of a step (`accumulate`); 0: none
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
  const char *no_decay; // patterns, separated by commas, of parameters without decay; or NULL
  Pos pos;
} OptimizerSpec;

// The factor of the learning rate in step t, where t is 0 in the first step.
// docs/language/training.md has the formulas.
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
  int64_t npieces; // piecewise: the factor is value[i] while t < at[i], and at the end the last one
  double at[MAX_PIECES], value[MAX_PIECES];
  unsigned in_epochs; // bits of the numbers that are in epochs, not yet in steps (train_schedule.c)
  Pos pos;
} ScheduleSpec;

// An optimizer for the parameters whose full names match a pattern.
typedef struct GroupSpec {
  const char *pattern; // one or more, separated by commas
  OptimizerSpec optimizer;
} GroupSpec;

typedef enum StopBest { BEST_UNKNOWN, BEST_MIN, BEST_MAX } StopBest;
typedef enum OnNonfinite { NONFINITE_UNSET, NONFINITE_STOP, NONFINITE_SKIP } OnNonfinite;

// A train block of the model. In every step its train blocks run one after the other. The fields
// from `steps` to `patience` concern the run as a whole and are equal in all blocks.
typedef struct TrainSpec {
  const char *loss; // full name of the loss
  OptimizerSpec optimizer;
  uint32_t ngroups;
  GroupSpec *group;       // the first group that matches a parameter gives its optimizer
  const char *parameters; // patterns of the parameters that the block trains; NULL: all
  const char *frozen;     // patterns of the parameters that it does not train, or NULL
  int64_t repeat;         // updates in each step; 0 means 1
  ScheduleSpec schedule;
  double clip_norm, clip_value;      // limits of gradients; 0: none
  int64_t steps, epochs;             // length of the run; 0: not given; `steps` has priority
  int64_t evaluate, log, checkpoint; // steps from one to the next; 0: never, for `log` a default
  int64_t accumulate;                // micro-batches in a step; 0 means 1
  double average;                    // decay of the moving average of parameters; 0: no average
  const char *stop_early;            // the metric or loss that ends the run early, or NULL
  int64_t patience;                  // the run ends after so many evaluations without a better one
  StopBest stop_best;                // whether low or high values of stop_early are better
  Pos stop_pos;
  OnNonfinite on_nonfinite; // NONFINITE_STOP: a loss that is not finite ends the run;
                            // NONFINITE_SKIP: a step whose loss or gradients are not is skipped
  bool scaled;              // precision f16: the loss is multiplied by a scale (decision 26)
  Pos pos;
} TrainSpec;

typedef struct ModelSpec {
  DataBlock data[DATA_BLOCKS];
  uint32_t ntrain;
  TrainSpec *train;
  uint64_t seed; // option --seed; 0 by default
} ModelSpec;

#endif
