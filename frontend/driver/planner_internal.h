// What the files of the search for a layout share (planner.h).
//
//   planner_meshes.c    the meshes to search
//   planner_samples.c   the models from which estimates and prices are computed
//   planner.c           the search
//   planner_whole.c     whole programs of the choices that it finds
//   planner_micro_internal.h   the files that try micro-batches
#ifndef FRONTEND_PLANNER_INTERNAL_H
#define FRONTEND_PLANNER_INTERNAL_H

#include "frontend/driver/planner.h"

// -- planner_meshes.c
// Sets `names` to the axes of the model's mesh that its pins (layout(...) in the model) name, in
// the order of the mesh. Returns their number.
int planner_pinned(const Session *s, const char *names[MAX_AXES]);

// -- planner_samples.c
// Sets the samples for prices of *out to models with all rounds (iterations) of loops, and with two
// and three of the micro-batches of the model of s. Returns false if they cannot be built.
bool planner_long_samples(Session *s, SearchTask *out);

// -- planner.c
// Reports that no layout fits. least: the one that needs the least memory. all: every layout was
// priced, and none of them with other micro-batches.
bool planner_too_large(Session *s, const SearchTask *t, const SearchChoice *least, bool all);

// -- planner_whole.c
// Prices of short models are extrapolated, and may be above the memory although the programs fit.
// Where all are, compiles the whole programs of those with the lowest peaks, and adds to r->at
// those that fit. Returns false after an error.
MUST_USE bool planner_confirm_smallest(Session *s, const SearchTask *t, SearchResult *r);

#endif
