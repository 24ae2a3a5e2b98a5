// Saved plans: the files of `plan --save`. Such a file is a JSON object with what a plan depends on
// (the text of the model, options, figures of the machine, memory, version of meshc) and what it
// found (layouts with their prices). So a later `plan --against` can price the layouts of then
// again. Input: a PlanReport, or a file. Output: a file, or a SavedPlan.
#ifndef FRONTEND_PLAN_FILE_H
#define FRONTEND_PLAN_FILE_H

#include "frontend/driver/plan.h"

// A layout of a saved plan, in the syntax of --mesh and --layout. `mesh` is "" for one processor
// without axes.
typedef struct SavedChoice {
  const char *mesh, *layout;
  int64_t accumulate; // micro-batches of a step; 0: those of the model
  SearchPrice price;  // without `again` and `programs`
} SavedChoice;

typedef struct SavedName {
  const char *name, *text;
} SavedName;

// All texts are in the session's arena.
typedef struct SavedPlan {
  const char *version; // of meshc
  const char *model;   // path of the model
  const char *digest;  // hash of the parsed model with its imports, 16 hexadecimal digits
  const char *text;    // text of the model
  uint32_t noptions;
  SavedName *option; // the options that the plan depends on, except --machine and --memory
  uint32_t ndims;
  SavedName *dim; // names and sizes
  int64_t parameters;
  const char *machine_name; // of the figures: a file, a name such as h100x8, or "built in"
  const char *machine;      // the figures, as the text of a machine file
  bool states_memory;       // Machine.states_memory
  double memory;            // bytes that a processor may need
  uint32_t nchoices;
  SavedChoice *choice; // the best layouts that were found, the best first
  SavedChoice use;     // the layout to use
} SavedPlan;

// Returns the hash of the parsed model of a loaded session, 16 hexadecimal digits. Comments and
// spaces do not change it; imports do.
const char *plan_digest(const Session *s);
// Returns the contents of a saved plan as a new JSON object.
json_t *plan_saved_json(const PlanReport *r);
// Fills *out from the contents of the file `path`. Returns false after an error: the contents are
// not those of a plan that this version can read.
MUST_USE bool plan_saved_read(const Session *s, const char *path, const json_t *contents,
                              SavedPlan *out);
// Reads the file of --against. Returns false after an error.
MUST_USE bool plan_file_read(const Session *s, SavedPlan *out);
// Checks, before the search, that --save may write its file: it does not exist yet, or is a saved
// plan. Without the option does nothing. Returns false after an error.
MUST_USE bool plan_file_check(const Session *s);
// Writes the plan to the file of --save; without the option does nothing. Returns false after an
// error.
MUST_USE bool plan_file_write(const PlanReport *r);

#endif
