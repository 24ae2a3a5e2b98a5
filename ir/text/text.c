// The tables that the printer and the reader of graph text share: names of the values of enums, and
// fields of structs.
#include "ir/text/text.h"

#include <string.h>

#define CHOICE(name, ...)                                                                          \
  static const char *const name##_text[] = {__VA_ARGS__};                                          \
  const EnumNames name = {countof(name##_text), name##_text}

CHOICE(init_kinds, INIT_NAMES);
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
       "piecewise", "one_cycle", "cosine_restarts", "wsd", "plateau");
CHOICE(decl_kinds, "input", "param", "state", "slot");
CHOICE(name_kinds, "value", "output", "metric", "decl");

CHOICE(synthetic_kinds, "normal", "uniform", "integers");
CHOICE(missing_rules, MISSING_NAMES);
CHOICE(class_rules, CLASS_NAMES);
CHOICE(resize_rules, RESIZE_NAMES);
CHOICE(crop_rules, CROP_NAMES);
CHOICE(best_choices, "unknown", "min", "max");
CHOICE(nonfinite_choices, "unset", "stop", "skip");
CHOICE(monoid_kinds, MONOID_NAMES);

int enum_find(const EnumNames *c, const char *text) {
  for (int i = 0; i < c->n; i++)
    if (strcmp(c->text[i], text) == 0) return i;
  return -1;
}

#define FIELD(T, kind_, text, member, ...)                                                         \
  {                                                                                                \
    .name = text, .kind = FIELD_##kind_, .offset = offsetof(T, member),                            \
    .size = sizeof(((T *)0)->member), __VA_ARGS__                                                  \
  }
#define ROW(T, kind, name) FIELD(T, kind, #name, name, .most = 0)
#define RECORD(name, kinds)                                                                        \
  const Record name##_record = {countof(name##_fields), name##_fields, kinds}

static const RecordField init_fields[] = {
    ROW(Init, REAL, a),   ROW(Init, REAL, b),    ROW(Init, INT, split),
    ROW(Init, INT, each), ROW(Init, TEXT, path), ROW(Init, TEXT, key),
};
RECORD(init, &init_kinds);

static const RecordField source_fields[] = {
    ROW(DataSource, TEXT, path),
    ROW(DataSource, TEXT, key),
    ROW(DataSource, INT, first),
    ROW(DataSource, INT, last),
    ROW(DataSource, INT, header),
    ROW(DataSource, TEXT, columns),
    ROW(DataSource, TEXT, separator),
    ROW(DataSource, TEXT, decimal),
    FIELD(DataSource, ENUM, "missing", missing, .names = &missing_rules),
    ROW(DataSource, REAL, fill),
    FIELD(DataSource, ENUM, "classes", classes, .names = &class_rules),
    ROW(DataSource, TEXT, class_list),
    ROW(DataSource, TEXT, date),
    ROW(DataSource, BOOL, seconds),
    ROW(DataSource, REAL, since),
    ROW(DataSource, REAL, scale),
    ROW(DataSource, INT, skip),
    ROW(DataSource, INT, offset),
    ROW(DataSource, INT, token_bytes),
    ROW(DataSource, TEXT, vocabulary),
    FIELD(DataSource, ENUM, "synthetic", synthetic, .names = &synthetic_kinds),
    ROW(DataSource, REAL, low),
    ROW(DataSource, REAL, high),
    ROW(DataSource, INT, row_first),
    ROW(DataSource, INT, row_last),
    FIELD(DataSource, ENUM, "resize", image.resize, .names = &resize_rules),
    FIELD(DataSource, INT, "height", image.height, .most = 0),
    FIELD(DataSource, INT, "width", image.width, .most = 0),
    FIELD(DataSource, ENUM, "crop", image.crop, .names = &crop_rules),
    FIELD(DataSource, REAL, "area", image.area, .most = 0),
    FIELD(DataSource, INT, "pad", image.pad, .most = 0),
    FIELD(DataSource, REAL, "flip", image.flip, .most = 0),
    FIELD(DataSource, REAL, "flip_vertical", image.flip_vertical, .most = 0),
    FIELD(DataSource, REAL, "brightness", image.brightness, .most = 0),
    FIELD(DataSource, REAL, "contrast", image.contrast, .most = 0),
    FIELD(DataSource, REAL, "saturation", image.saturation, .most = 0),
    FIELD(DataSource, INT, "cutout", image.cutout, .most = 0),
    FIELD(DataSource, INT, "draws", image.draws, .most = 0),
};
RECORD(source, &source_kinds);

static const RecordField block_fields[] = {ROW(DataBlock, BOOL, shuffle),
                                           ROW(DataBlock, SEED, seed)};
RECORD(block, NULL);

static const RecordField optimizer_fields[] = {
    ROW(OptimizerSpec, REAL, lr),
    ROW(OptimizerSpec, REAL, momentum),
    ROW(OptimizerSpec, REAL, beta1),
    ROW(OptimizerSpec, REAL, beta2),
    ROW(OptimizerSpec, REAL, eps),
    ROW(OptimizerSpec, REAL, weight_decay),
    ROW(OptimizerSpec, REAL, rho),
    ROW(OptimizerSpec, REAL, decay),
    ROW(OptimizerSpec, BOOL, nesterov),
    ROW(OptimizerSpec, TEXT, no_decay),
    ROW(OptimizerSpec, REAL, momentum_decay),
    ROW(OptimizerSpec, TEXT, out),
    ROW(OptimizerSpec, TEXT, each),
};
RECORD(optimizer, &optimizer_kinds);

#define PIECE(i)                                                                                   \
  FIELD(TrainSpec, REAL, "schedule.at" #i, schedule.at[i], .most = 0),                             \
      FIELD(TrainSpec, REAL, "schedule.value" #i, schedule.value[i], .most = 0)
static const RecordField train_fields[] = {
    ROW(TrainSpec, INT, steps),
    ROW(TrainSpec, INT, epochs),
    ROW(TrainSpec, INT, evaluate),
    ROW(TrainSpec, INT, log),
    ROW(TrainSpec, INT, checkpoint),
    ROW(TrainSpec, TEXT, parameters),
    ROW(TrainSpec, TEXT, frozen),
    ROW(TrainSpec, INT, repeat),
    ROW(TrainSpec, INT, accumulate),
    ROW(TrainSpec, INT, sync),
    ROW(TrainSpec, INT, replicas),
    ROW(TrainSpec, BOOL, sync_slots),
    ROW(TrainSpec, INT, ahead),
    ROW(TrainSpec, REAL, average),
    ROW(TrainSpec, TEXT, stop_early),
    ROW(TrainSpec, INT, patience),
    ROW(TrainSpec, BOOL, scaled),
    FIELD(TrainSpec, ENUM, "stop_best", stop_best, .names = &best_choices),
    FIELD(TrainSpec, ENUM, "on_nonfinite", on_nonfinite, .names = &nonfinite_choices),
    ROW(TrainSpec, REAL, clip_norm),
    ROW(TrainSpec, REAL, clip_value),
    FIELD(TrainSpec, ENUM, "schedule", schedule.kind, .names = &schedule_kinds),
    ROW(TrainSpec, REAL, schedule.warmup),
    ROW(TrainSpec, REAL, schedule.total),
    ROW(TrainSpec, REAL, schedule.final),
    ROW(TrainSpec, REAL, schedule.scale),
    ROW(TrainSpec, REAL, schedule.rate),
    ROW(TrainSpec, REAL, schedule.every),
    ROW(TrainSpec, REAL, schedule.factor),
    ROW(TrainSpec, REAL, schedule.start),
    ROW(TrainSpec, REAL, schedule.rise),
    ROW(TrainSpec, REAL, schedule.grow),
    ROW(TrainSpec, REAL, schedule.decay),
    ROW(TrainSpec, REAL, schedule.patience),
    ROW(TrainSpec, REAL, schedule.threshold),
    ROW(TrainSpec, TEXT, schedule.of),
    FIELD(TrainSpec, ENUM, "schedule.best", schedule.best, .names = &best_choices),
    ROW(TrainSpec, INT, schedule.npieces),
    PIECE(0),
    PIECE(1),
    PIECE(2),
    PIECE(3),
    PIECE(4),
    PIECE(5),
    PIECE(6),
    PIECE(7),
};
RECORD(train, NULL);

// The attributes of a node, in the order in which its line shows them.
static const RecordField node_fields[] = {
    FIELD(NodeText, DECL, "decl", attr.decl, .most = 0),
    [NODE_NUM] = FIELD(NodeText, NUM, "num", attr.num, .most = 0),
    FIELD(NodeText, DIMS, "dims", attr.ndims, .list = offsetof(NodeText, attr.dims)),
    FIELD(NodeText, DIMS, "to", attr.nto, .list = offsetof(NodeText, attr.to)),
    FIELD(NodeText, AXES, "axes", attr.axes, .most = 0),
    FIELD(NodeText, ENUM, "monoid", attr.monoid, .names = &monoid_kinds),
    FIELD(NodeText, REALS, "data", attr.ndata, .list = offsetof(NodeText, attr.data)),
    FIELD(NodeText, AFFINE, "affine", attr.affine, .most = 0),
    FIELD(NodeText, SEED, "key", attr.key, .most = 0),
    FIELD(NodeText, INT, "carry", attr.carry, .most = MAX_ARGS - 1),
    FIELD(NodeText, INT, "tag", attr.tag, .most = UINT32_MAX),
    FIELD(NodeText, INT, "flags", attr.flags, .most = 7),
    FIELD(NodeText, INT, "region", attr.region, .most = UINT32_MAX),
    FIELD(NodeText, INT, "instance", instance, .most = UINT32_MAX),
    FIELD(NodeText, INT, "composite", origin.composite, .most = UINT32_MAX),
    FIELD(NodeText, BOOL, "backward", origin.backward, .most = 0),
};
RECORD(node, NULL);

const char *const layout_scopes[] = {[LAYOUT_OPTIMIZER] = "optimizer:",
                                     [LAYOUT_PARAMETERS] = "parameters:",
                                     [LAYOUT_GRADIENTS] = "gradients:",
                                     [LAYOUT_TENSOR] = NULL};
