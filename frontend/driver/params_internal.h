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
// Returns the name that the parameter file has for `name` of the model. The first line of the map
// (--map) that matches gives it; without such a line it is `name`.
const char *params_name(const Session *s, const ParamMap *m, const char *name);

// -- params_table.c: a parameter file compared with the model -----------------------------------
// How an array of the file fits the parameter of its name. FIT_EQUAL: sizes are equal.
// FIT_REGROUPED: dims are split or merged and the order of elements is unchanged. FIT_DIFFERS:
// sizes differ. FIT_MISSING: the file lacks the array. FIT_EXTRA: the model has no such parameter.
typedef enum ParamFit { FIT_EQUAL, FIT_REGROUPED, FIT_DIFFERS, FIT_MISSING, FIT_EXTRA } ParamFit;
// A row of the comparison of file and model. It is a parameter or state with the array of its name,
// or an array without a parameter or state.
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
// params_table_print prints the comparison of file and model as text. The other function returns it
// as a JSON object, which the caller owns.
void params_table_print(const Session *s, const ParamTable *t);
json_t *params_table_json(const Session *s, const ParamTable *t);

#endif
