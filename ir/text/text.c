// The tables of text.h.
#include "ir/text/text.h"

#include <string.h>

#define CHOICE(name, ...)                                                                          \
  static const char *const name##_text[] = {__VA_ARGS__};                                          \
  const EnumNames name = {countof(name##_text), name##_text}

CHOICE(init_kinds, "constant", "normal", "truncated_normal", "uniform", "orthogonal", "data",
       "file");
static const char *const source_text[] = {
#define SOURCE(id, name, opener) #name,
#include "ir/program/source.def"
};
const EnumNames source_kinds = {countof(source_text), source_text};

static const char *const optimizer_text[] = {
#define OPTIMIZER(id, name) #name,
#include "ir/program/optimizer.def"
};
const EnumNames optimizer_kinds = {countof(optimizer_text), optimizer_text};

CHOICE(schedule_kinds, "constant", "linear", "cosine", "inverse_sqrt", "exponential", "step",
       "piecewise");
CHOICE(decl_kinds, "input", "param", "state", "slot");
CHOICE(name_kinds, "value", "output", "metric", "decl");

static const char *const synthetic_text[] = {"normal", "uniform", "integers"};
static const EnumNames synthetic_kinds = {countof(synthetic_text), synthetic_text};

int enum_find(const EnumNames *c, const char *text) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->text[i], text) == 0) return i;
  return -1;
}

#define ROW(T, kind, name)                                                                         \
  { #name, FIELD_##kind, offsetof(T, name), NULL }
#define RECORD(name) const Record name##_record = {countof(name##_fields), name##_fields}

static const RecordField init_fields[] = {
    ROW(Init, REAL, a),   ROW(Init, REAL, b),    ROW(Init, INT, split),
    ROW(Init, INT, each), ROW(Init, TEXT, path), ROW(Init, TEXT, key),
};
RECORD(init);

static const RecordField source_fields[] = {
    ROW(DataSource, TEXT, path),
    ROW(DataSource, TEXT, key),
    ROW(DataSource, LONG, first),
    ROW(DataSource, LONG, last),
    ROW(DataSource, INT, header),
    ROW(DataSource, REAL, scale),
    ROW(DataSource, LONG, skip),
    ROW(DataSource, LONG, offset),
    ROW(DataSource, INT, token_bytes),
    {"synthetic", FIELD_ENUM, offsetof(DataSource, synthetic), &synthetic_kinds},
    ROW(DataSource, REAL, low),
    ROW(DataSource, REAL, high),
    ROW(DataSource, LONG, row_first),
    ROW(DataSource, LONG, row_last),
};
RECORD(source);

static const RecordField block_fields[] = {ROW(DataBlock, BOOL, shuffle),
                                           ROW(DataBlock, SEED, seed)};
RECORD(block);

static const RecordField optimizer_fields[] = {
    ROW(OptimizerSpec, REAL, lr),       ROW(OptimizerSpec, REAL, momentum),
    ROW(OptimizerSpec, REAL, beta1),    ROW(OptimizerSpec, REAL, beta2),
    ROW(OptimizerSpec, REAL, eps),      ROW(OptimizerSpec, REAL, weight_decay),
    ROW(OptimizerSpec, REAL, rho),      ROW(OptimizerSpec, REAL, decay),
    ROW(OptimizerSpec, BOOL, nesterov), ROW(OptimizerSpec, TEXT, no_decay),
};
RECORD(optimizer);

static const char *const best_text[] = {"unknown", "min", "max"}, *const nonfinite_text[] = {
                                                                      "unset", "stop", "skip"};
static const EnumNames best_choices = {countof(best_text), best_text},
                       nonfinite_choices = {countof(nonfinite_text), nonfinite_text};

#define PIECE(i)                                                                                   \
  {"schedule.at" #i, FIELD_REAL, offsetof(TrainSpec, schedule.at[i]), NULL}, {                     \
    "schedule.value" #i, FIELD_REAL, offsetof(TrainSpec, schedule.value[i]), NULL                  \
  }
static const RecordField train_fields[] = {
    ROW(TrainSpec, LONG, steps),
    ROW(TrainSpec, LONG, epochs),
    ROW(TrainSpec, LONG, evaluate),
    ROW(TrainSpec, LONG, log),
    ROW(TrainSpec, LONG, checkpoint),
    ROW(TrainSpec, TEXT, parameters),
    ROW(TrainSpec, TEXT, frozen),
    ROW(TrainSpec, LONG, repeat),
    ROW(TrainSpec, LONG, accumulate),
    ROW(TrainSpec, REAL, average),
    ROW(TrainSpec, TEXT, stop_early),
    ROW(TrainSpec, LONG, patience),
    ROW(TrainSpec, BOOL, scaled),
    {"stop_best", FIELD_ENUM, offsetof(TrainSpec, stop_best), &best_choices},
    {"on_nonfinite", FIELD_ENUM, offsetof(TrainSpec, on_nonfinite), &nonfinite_choices},
    ROW(TrainSpec, REAL, clip_norm),
    ROW(TrainSpec, REAL, clip_value),
    {"schedule", FIELD_ENUM, offsetof(TrainSpec, schedule.kind), &schedule_kinds},
    ROW(TrainSpec, REAL, schedule.warmup),
    ROW(TrainSpec, REAL, schedule.total),
    ROW(TrainSpec, REAL, schedule.final),
    ROW(TrainSpec, REAL, schedule.scale),
    ROW(TrainSpec, REAL, schedule.rate),
    ROW(TrainSpec, REAL, schedule.every),
    ROW(TrainSpec, REAL, schedule.factor),
    ROW(TrainSpec, LONG, schedule.npieces),
    PIECE(0),
    PIECE(1),
    PIECE(2),
    PIECE(3),
    PIECE(4),
    PIECE(5),
    PIECE(6),
    PIECE(7),
};
RECORD(train);
