// What the files of the pipeline share.
//
//   pipeline.c         the passes, in order
//   pipeline_better.c  the comparison of two placements
//   pipeline_levels.c  the search for a recompute level that fits a memory budget
#ifndef FRONTEND_PIPELINE_H
#define FRONTEND_PIPELINE_H

#include "frontend/frontend.h"

// Indices in stage_names of the compiler stages after which pipeline_run may stop. The other stages
// are made together with one of these.
enum {
  AFTER_SIMPLIFY = 3,
  AFTER_PLACE,
  AFTER_LOWER,
  AFTER_COLLECTIVES,
  AFTER_ORDER,
  AFTER_FUSE,
  AFTER_PROGRAM = 11
};

// -- pipeline.c
// Returns the graph `from`, of one processor, with what a recompute level rematerialises. Notes its
// flops in *facts, unless that is NULL.
const Graph *pipeline_recompute(Arena *a, const PipelineOptions *opt, const Graph *from, int level,
                                PartitionFacts *facts);
// Returns where opt->known, which is not NULL, has the bytes of the program of a graph, by its
// hash.
int64_t *pipeline_known(const PipelineOptions *opt, uint64_t graph);
// Determines how the values of g are computed: physical order of dims, kernels, schedule and memory
// offsets. g is what pipeline_recompute returned for out->collected; it is released. The result
// in *out is one Program, or less of it up to stage `last`.
void pipeline_program(Arena *a, const PipelineOptions *opt, int last, const Graph *g,
                      Compilation *out);
// Runs the passes from the placement in *out on, up to stage number `end`, and fills *out. A graph
// of a later stage needs no placement.
void pipeline_placed(Arena *a, const PipelineOptions *opt, int end, Compilation *out);

// -- pipeline_better.c
// Returns the placement that is to be compared with that of c, or NULL if there is none.
const Placement *pipeline_other(const PipelineOptions *opt, const Compilation *c);
// Compiles with both placements, at least up to the programs, and sets *out to the better program.
void pipeline_better(Arena *a, const PipelineOptions *opt, int end, Compilation *out);

// -- pipeline_levels.c
// Sets out->again to the first recompute level (how much is rematerialised) whose
// program fits the memory budget. If none fits, it is that one of the levels tried whose program
// needs least memory. Sets out->least to the bytes that this program needs, out->trials and
// out->gave_up. Before, out->least is what level 0 needs, or 0, and out->levels the highest level.
// Returns whether it has also set the program of this level, which fits.
bool pipeline_find_level(Arena *a, const PipelineOptions *opt, int last, Compilation *out);
// Returns the bytes that the program of c needs at a recompute level.
int64_t pipeline_bytes(const PipelineOptions *opt, const Compilation *c, int level);
// Returns whether a sparing search gives up at a program that needs so many bytes.
bool pipeline_is_far(const PipelineOptions *opt, int64_t bytes);

#endif
