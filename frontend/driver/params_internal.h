// Names and tables shared by params.c, params_map.c and params_table.c, which read and write
// parameter files.
#ifndef FRONTEND_PARAMS_H
#define FRONTEND_PARAMS_H

#include "frontend/driver/session.h"

typedef struct MapLine {
  const char *model, *file;
} MapLine;
typedef VEC(MapLine) ParamMap;

// Reads the file of --map into *out; without the option the map is empty. Returns false after
// errors.
MUST_USE bool params_map(Session *s, ParamMap *out);
// Returns whether an array of this name is part of the optimizer's state.
bool params_of_optimizer(const char *name);
// Returns the name in the file for the model's `name`: by the first line of the map that matches,
// else `name` itself.
const char *params_name(const Session *s, const ParamMap *m, const char *name);

// -- params_table.c: a parameter file compared with the model -----------------------------------
// How the array of a file fits the parameter of its name: EQUAL sizes; REGROUPED: dims are split or
// merged and the order of elements is unchanged; the sizes DIFFER; the array is MISSING; EXTRA: the
// model has no such parameter.
typedef enum ParamFit { FIT_EQUAL, FIT_REGROUPED, FIT_DIFFERS, FIT_MISSING, FIT_EXTRA } ParamFit;
// A parameter or state of the model with the array of its name, or an array without a parameter or
// state.
typedef struct ParamRow {
  const Decl *decl;      // NULL: no parameter or state of the model has `name`
  const char *name;      // the name in the file
  const ArrayInfo *held; // NULL: no array of the file has `name`
  ParamFit fit;
} ParamRow;
typedef struct ParamTable {
  const char *path;
  uint32_t n;
  ParamRow *row;
  uint32_t slots; // number of arrays of optimizer state in the file
} ParamTable;
// Compares the file of --params with the model's parameters and states; without the option the
// table is empty. Whatever loading the file would refuse is reported as an error. Returns false
// only if the file or the map cannot be read.
MUST_USE bool params_table(Session *s, ParamTable *out);
// Print the table as text, or return it as a JSON object, which the caller owns.
void params_table_print(const Session *s, const ParamTable *t);
json_t *params_table_json(const Session *s, const ParamTable *t);

#endif
