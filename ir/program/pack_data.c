// The tables of the fields of a DataBlock, for pack.c, and the check of what was read. Its dims are
// left out: whoever reads it knows them by name.
#include "ir/program/pack_fields.h"
#include "ir/program/spec.h"

#include <stdio.h>

static const PackField image_fields[] = {
    INT(ImageSpec, resize, RESIZE_COVER, RESIZE_EXACT),
    SIZED(ImageSpec, height),
    SIZED(ImageSpec, width),
    INT(ImageSpec, crop, CROP_CENTER, CROP_AREA),
    REAL(ImageSpec, area),
    SIZED(ImageSpec, pad),
    REAL(ImageSpec, flip),
    REAL(ImageSpec, flip_vertical),
    REAL(ImageSpec, brightness),
    REAL(ImageSpec, contrast),
    REAL(ImageSpec, saturation),
    SIZED(ImageSpec, cutout),
    ANY(ImageSpec, draws),
};
static RECORD(ImageSpec, image);

static const PackField source_fields[] = {
    INT(DataSource, kind, 0, SOURCE_SYNTHETIC),
    TEXT(DataSource, path),
    TEXT(DataSource, key),
    INT(DataSource, first, COLUMNS_NUMBERED, (INT64_MAX >> 8)),
    INT(DataSource, last, -1, (INT64_MAX >> 8)),
    INT(DataSource, header, -1, 1),
    TEXT(DataSource, columns),
    TEXT(DataSource, separator),
    TEXT(DataSource, decimal),
    INT(DataSource, missing, MISSING_REFUSED, MISSING_MASK),
    REAL(DataSource, fill),
    INT(DataSource, classes, CLASSES_NONE, CLASSES_AUTO),
    TEXT(DataSource, class_list),
    TEXT(DataSource, date),
    BOOL(DataSource, seconds),
    REAL(DataSource, since),
    REAL(DataSource, scale),
    HAS(DataSource, image, image),
    SIZED(DataSource, skip),
    SIZED(DataSource, offset),
    INT(DataSource, token_bytes, 0, 4),
    TEXT(DataSource, vocabulary),
    INT(DataSource, synthetic, SYNTHETIC_NORMAL, SYNTHETIC_INTEGERS),
    REAL(DataSource, low),
    REAL(DataSource, high),
    SIZED(DataSource, row_first),
    INT(DataSource, row_last, -1, (INT64_MAX >> 8)),
    POS(DataSource, pos),
};
static RECORD(DataSource, source);

static const PackField field_fields[] = {TEXT(DataField, input), HAS(DataField, source, source),
                                         POS(DataField, pos)};
static RECORD(DataField, field);

static const PackField block_fields[] = {
    BOOL(DataBlock, present),
    LEFT(DataBlock, over),
    LEFT(DataBlock, micro),
    COUNT(DataBlock, nfields, UINT32_MAX),
    LIST(DataBlock, field, nfields, field),
    BOOL(DataBlock, shuffle),
    ANY(DataBlock, seed),
    POS(DataBlock, pos),
};
const PackRecord pack_of_data_block = {"DataBlock", sizeof(DataBlock), countof(block_fields),
                                       block_fields};

// Returns whether a source has the texts that its kind needs.
static bool is_complete(const DataSource *s) {
  bool named = s->kind == SOURCE_NPZ || s->kind == SOURCE_SAFETENSORS ||
               s->kind == SOURCE_CIFAR10 || (s->kind == SOURCE_CSV && s->first == -1);
  bool counted = s->kind != SOURCE_TOKENS || s->token_bytes == 2 || s->token_bytes == 4;
  bool listed = s->kind != SOURCE_CSV || s->first != COLUMNS_NUMBERED || s->columns;
  return (s->path || s->kind == SOURCE_SYNTHETIC) && (s->key || s->columns || !named) && counted &&
         listed && (s->class_list || s->classes != CLASSES_LISTED);
}

bool data_block_sound(const DataBlock *b, char *why) {
  bool good = b->present && (b->field || !b->nfields);
  for (uint32_t i = 0; good && i < b->nfields; i++)
    good = b->field[i].input && is_complete(&b->field[i].source);
  if (!good) snprintf(why, PACK_WHY, "has a source of data that lacks a name or path");
  return good;
}
