// What the files about parameter files share.
#ifndef FRONTEND_PARAMS_H
#define FRONTEND_PARAMS_H

#include "frontend/driver/session.h"

typedef struct MapLine {
  const char *model, *file;
} MapLine;
typedef VEC(MapLine) ParamMap;

// Reads the file of --map; without the option the map is empty. False after errors.
MUST_USE bool params_map(Session *s, ParamMap *out);
// What the file calls the model's `name`.
const char *params_name(const Session *s, const ParamMap *m, const char *name);

// -- params_table.c: a parameter file beside the model ------------------------------------------
typedef enum ParamFit { FIT_EQUAL, FIT_REGROUPED, FIT_DIFFERS, FIT_MISSING, FIT_EXTRA } ParamFit;
typedef struct ParamRow {
  const Decl *decl;      // NULL: the model lacks it
  const char *name;      // in the file
  const ArrayInfo *held; // NULL: the file lacks it
  ParamFit fit;
} ParamRow;
typedef struct ParamTable {
  const char *path;
  uint32_t n;
  ParamRow *row;
  uint32_t slots; // arrays of optimizer state in the file
} ParamTable;
// --params beside the model's parameters and states; n 0 without the option. What --params would
// refuse is said as an error. False when the file cannot be read.
MUST_USE bool params_table(Session *s, ParamTable *out);
void params_table_print(const Session *s, const ParamTable *t);
json_t *params_table_json(const Session *s, const ParamTable *t);

#endif
