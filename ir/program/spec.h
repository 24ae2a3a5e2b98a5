// What a model file says besides operations: initial values of parameters, sources of data,
// training. The frontend fills these structs, graph text contains them, the runtime reads them.
#ifndef IR_SPEC_H
#define IR_SPEC_H

#include "ir/base/dim.h"
#include "ir/base/dtype.h"

// The initial value of a parameter, state or optimizer slot. A random element is drawn from the
// full name of the tensor and the index of the element in the whole tensor, with dims in declared
// order. Initial values are therefore the same on every mesh.
typedef enum InitKind {
  INIT_CONSTANT, // all elements are `a`
  INIT_NORMAL,   // normal with mean a and standard deviation b
  // Normal with mean a and standard deviation b, limited to a - 2b ... a + 2b.
  INIT_TRUNCATED_NORMAL,
  INIT_UNIFORM, // uniform from a to b
  // Orthogonal matrices. If bit i of `split` is set, declared dim i is part of the row index. If
  // bit i of `each` is set, each index of dim i has a matrix of its own. Other dims are part of the
  // column index.
  INIT_ORTHOGONAL,
  // index; bit i of `each`: each index of dim i has a matrix of its own; else:
  // columns
  INIT_DATA, // the ndata numbers `data`, in declared order, computed at compile time
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
const char *source_kind_text(SourceKind k); // the name in a data block
typedef enum SyntheticKind {
  SYNTHETIC_NORMAL,
  SYNTHETIC_UNIFORM,
  SYNTHETIC_INTEGERS
} SyntheticKind;

// csv: what becomes of a field without a value.
typedef enum MissingRule {
  MISSING_REFUSED, // an error
  MISSING_VALUE,   // the number `fill`
  MISSING_MEAN,    // the mean of the column in the train block
  MISSING_DROP,    // the row is left out, for all inputs of the block
  MISSING_MASK,    // 0, and every other value is 1
} MissingRule;
#define MISSING_NAMES "refused", "value", "mean", "drop", "mask"
// csv, labels: how texts become the numbers of classes.
typedef enum ClassRule {
  CLASSES_NONE,   // fields are numbers
  CLASSES_LISTED, // DataSource.class_list, from 0
  CLASSES_AUTO,   // the texts that occur, in ascending order
} ClassRule;
#define CLASS_NAMES "none", "listed", "auto"
enum { COLUMNS_NUMBERED = -2 }; // DataSource.first: `columns` has numbers of columns, not names

// images: the size that an image is resized to, before a part of the size of the input is taken.
typedef enum ResizeRule {
  RESIZE_COVER,   // the least size that covers the input, with the shape of the image
  RESIZE_NONE,    // its own
  RESIZE_SHORTER, // ImageSpec.height pixels on its shorter side, with the shape of the image
  RESIZE_EXACT,   // ImageSpec.height x ImageSpec.width
} ResizeRule;
#define RESIZE_NAMES "cover", "none", "shorter", "exact"
// images: which part is taken.
typedef enum CropRule {
  CROP_CENTER,
  CROP_RANDOM, // at a random place
  CROP_AREA,   // of random area and shape, before it is resized
} CropRule;
#define CROP_NAMES "center", "random", "area"
// images: how an image becomes pixels of an input. What is random is so in training only.
typedef struct ImageSpec {
  ResizeRule resize;
  int64_t height, width;
  CropRule crop;
  double area;                             // CROP_AREA: least share of the image
  int64_t pad;                             // CROP_RANDOM: pixels of 0 around the resized image
  double flip, flip_vertical;              // probabilities
  double brightness, contrast, saturation; // a factor is 1 minus to 1 plus this; 0: no change
  int64_t cutout;                          // side of a square that becomes 0; 0: none
  int64_t draws;                           // sources with other numbers have other random draws
} ImageSpec;

typedef struct DataSource {
  SourceKind kind;
  const char *path; // as written in the model: relative to the model's folder or to --data-dir
  // Npz, safetensors: name of the array; csv: of the column; cifar10: "images" or "labels".
  const char *key;
  int64_t first, last; // csv: columns first to last - 1, from 0; first = -1: the column named `key`
  int header;          // csv: 1: the file has a header, 0: it has none, -1: decided from the file
  const char *columns; // csv: names of columns, each with a line end behind it, or NULL
  // csv: one character each; NULL: the separator is found in the first line, the decimal sign is
  // "."
  const char *separator, *decimal;
  MissingRule missing;
  double fill;
  ClassRule classes;
  const char *class_list; // csv, labels: names of classes, each with a line end behind it, or NULL
  const char *date;       // csv: "iso" or a format of dates, which become numbers; or NULL
  bool seconds;           // csv: dates become seconds; else days
  double since;           // csv: from this moment, in seconds from 1970-01-01 00:00 UTC
  // idx, cifar10, images: factor of every number; 1 for other sources. images: 0: 1/255 for an
  // input of floats, else 1
  double scale;
  ImageSpec image;
  int64_t skip, offset; // tokens, text: bytes before the first token; tokens before row 0
  int token_bytes;      // tokens: bytes of one token, 2 or 4
  // Tokens, text: path of the vocabulary of the ids, as `path`; NULL: ids of a text are its bytes.
  const char *vocabulary;
  SyntheticKind synthetic;
  double low, high; // synthetic integers x: low <= x < high
  // Rows row_first to row_last - 1 are used; row_last <= 0: all from row_first.
  int64_t row_first, row_last;
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
  DimId over;  // whole dim along which the rows of the data lie, the batch
  DimId micro; // dim along which the micro-batches of a step lie (`accumulate`); 0: none
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
  double lr, momentum, beta1, beta2, eps, weight_decay, rho, decay, momentum_decay;
  bool nesterov;
  // Name patterns, separated by commas, of parameters without weight decay; or NULL.
  const char *no_decay;
  // Muon: names of dims, separated by commas; or NULL. `out`: the dims of the outputs of a matrix.
  // `each`: dims that number matrices.
  const char *out, *each;
  Pos pos;
} OptimizerSpec;

// The schedules: formulas for the factor of the learning rate in step t, where t is 0 in the first
// step. docs/language/training.md has the formulas.
typedef enum ScheduleKind {
  SCHEDULE_CONSTANT,
  SCHEDULE_LINEAR,
  SCHEDULE_COSINE,
  SCHEDULE_INVERSE_SQRT,
  SCHEDULE_EXPONENTIAL,
  SCHEDULE_STEP,
  SCHEDULE_PIECEWISE,
  SCHEDULE_ONE_CYCLE,
  SCHEDULE_RESTARTS,
  SCHEDULE_STABLE_DECAY,
  SCHEDULE_PLATEAU,
} ScheduleKind;
enum { MAX_PIECES = 8 };

typedef enum StopBest { BEST_UNKNOWN, BEST_MIN, BEST_MAX } StopBest;

typedef struct ScheduleSpec {
  ScheduleKind kind;
  double warmup, total, final, scale, rate, every, factor, start, rise, grow, decay;
  // Plateau: the factor is lowered after more than `patience` evaluations in which the metric or
  // loss `of` was not better than the best value by the share `threshold`.
  double patience, threshold;
  const char *of;
  StopBest best;
  // Piecewise: the factor is value[i] for the first i with t < at[i]; after the last `at` it is the
  // last value.
  int64_t npieces;
  double at[MAX_PIECES], value[MAX_PIECES];
  // Marks the numbers that are still in epochs, not in steps (train_schedule.c has the order of
  // bits).
  unsigned in_epochs;
  Pos pos;
} ScheduleSpec;

// An optimizer for the parameters whose full names match a pattern.
typedef struct GroupSpec {
  const char *pattern; // one or more name patterns, separated by commas
  OptimizerSpec optimizer;
} GroupSpec;

typedef enum OnNonfinite { NONFINITE_UNSET, NONFINITE_STOP, NONFINITE_SKIP } OnNonfinite;

// A train block of the model. Each step runs all train blocks of a model one after the other. The
// fields from `steps` to `patience` concern the run as a whole and are equal in all blocks.
typedef struct TrainSpec {
  const char *loss; // full name of the loss
  OptimizerSpec optimizer;
  uint32_t ngroups;
  GroupSpec *group;       // the optimizers; the first group that matches a parameter is used
  const char *parameters; // name patterns of the parameters that the block trains; NULL: all
  const char *frozen;     // name patterns of the parameters that it does not train, or NULL
  int64_t repeat;         // number of updates in each step; 0 means 1
  ScheduleSpec schedule;
  double clip_norm, clip_value; // limit of the norm of all gradients, and of each element; 0: none
  int64_t steps, epochs; // length of the run; 0: not given; `steps` is used if both are given
  // Numbers of steps between two evaluations, log lines, checkpoints; 0: never (log: default).
  int64_t evaluate, log, checkpoint;
  int64_t accumulate; // number of micro-batches in a step; 0 means 1
  // Steps after which the replicas take the mean of their parameters; 0: there are none. Number of
  // replicas. Whether they also take the mean of the optimizer's slots.
  int64_t sync, replicas;
  bool sync_slots;
  Pos sync_pos; // the key `sync`
  // With asynchronous updates: a replica begins step t only if every replica has finished more than
  // t - ahead steps. 0: updates are synchronous.
  int64_t ahead;
  double average;         // decay of the moving average of parameters; 0: no average
  const char *stop_early; // the metric or loss that ends the run early, or NULL
  int64_t patience;       // the run ends after this many evaluations without a better value
  StopBest stop_best;     // whether low or high values of stop_early are better
  Pos stop_pos;
  // NONFINITE_STOP: a loss that is not finite ends the run. NONFINITE_SKIP: a step is skipped if
  // its loss or a gradient is not finite.
  OnNonfinite on_nonfinite;
  // With precision f16 the loss is multiplied by a scale, so that small gradients are not rounded
  // to 0.
  bool scaled;
  Pos pos;
} TrainSpec;

typedef struct ModelSpec {
  DataBlock data[DATA_BLOCKS];
  uint32_t ntrain;
  TrainSpec *train;
  uint64_t seed; // value of the option --seed; 0 by default
} ModelSpec;

#endif
