// Checkpoints: a folder step-N of safetensors shards and a manifest, complete or not there.
//
//   D/step-40.partial/   being written: shards, then manifest.json, each on disk before the next
//   D/step-40/           the same after the rename: complete
//   D/best               a link to the step that was evaluated best
//   D/step-40.old/       moved out of the way: later than the step that training went on from, or without a manifest
//   D/.lock              locked while a training writes to D
//
// A shard has the blocks of one processor, by name, in declared order of axes. The manifest has for
// every tensor its dims, by name and whole size, and where each block stands: the reader needs
// neither the mesh nor the layout that wrote them. Checksums (CRC-32C) cover every byte.
#ifndef RUNTIME_CHECKPOINT_H
#define RUNTIME_CHECKPOINT_H

#include "runtime/runtime.h"

// What training needs to go on, beside its tensors.
typedef struct TrainPosition {
  int64_t step;   // steps done
  int64_t before; // that the step counter was ahead of them, by loaded optimizer state
  uint64_t seed;
  int64_t epoch, row; // of the next batch in the training data
  int64_t evaluated;  // steps done at the last evaluation, 0: none
  int64_t best_step;  // of the best evaluation, 0: none
  double best;
  int64_t worse;   // evaluations since
  int64_t skipped; // steps that changed nothing because they were not finite
} TrainPosition;

// -- checkpoint_write.c -------------------------------------------------------------------------
typedef struct Saver Saver;
typedef struct SaverOptions {
  const char *directory; // exists
  const char *model;     // for the manifest
  int64_t keep;          // newest checkpoints that stay, the best one besides; 0: all
} SaverOptions;
// Ready to write checkpoints of e: the folder is locked, and what an earlier run left half-written
// is removed. NULL after an error in d, also where another process has the lock.
Saver *saver_open(const SaverOptions *opt, const Exec *e, Diag *d);
// Training goes on from `step`: later checkpoints are renamed to step-M.old, with a warning for
// each, and D/best, where it was one of them, leads to `best_step` again. False after an error in
// d.
MUST_USE bool saver_rewind(Saver *s, int64_t step, int64_t best_step, Diag *d);
// Copies all parameters, states and slots, and writes them in the background; waits for the one
// before. `best`: it is the best so far. A checkpoint of that step that is there already is not
// written again; a step-N without a manifest is renamed to step-N.old, with a warning. False after
// an error in d.
MUST_USE bool saver_start(Saver *s, const TrainPosition *n, bool best, Diag *d);
// *path: the checkpoint that has become complete since the last call, or NULL. With `wait`: when
// the one under way is. False after an error in d: it could not be written, nothing of it is left,
// older ones are intact.
MUST_USE bool saver_poll(Saver *s, bool wait, const char **path, Diag *d);
void saver_free(Saver *s); // waits

// -- checkpoint_read.c --------------------------------------------------------------------------
typedef struct CheckpointTensor {
  const char *name, *kind; // "param", "state", "slot"
  Dtype type;
  int rank;
  const char *dim[MAX_RANK];
  int64_t size[MAX_RANK], elements;
  uint32_t npieces;
  struct CheckpointPiece *piece;
} CheckpointTensor;
typedef struct Checkpoint {
  const char *path;
  TrainPosition note;
  const char *model, *version, *mesh;
  int64_t bytes; // of all shards
  uint32_t nshards, ntensors;
  struct CheckpointShard *shard;
  CheckpointTensor *tensor;
} Checkpoint;
int64_t
checkpoint_step(const char *name); // N of "step-N", leading zeros allowed, -1 for other names
// True if the folder is a checkpoint or holds one.
bool checkpoint_exists(const char *path);
// The checkpoint in the folder `path`, or the newest of those that the folder holds; its manifest
// is checked. Newer folders without a manifest are passed over with a warning; a newest one that is
// damaged is an error. Everything lives in a. NULL after an error in d.
Checkpoint *checkpoint_open(Arena *a, const char *path, Diag *d, Pos at);
// The folder of step `step` under `directory`, NULL where there is none that is complete.
const char *checkpoint_of_step(Arena *a, const char *directory, int64_t step);
// Gives e the values of its parameters and states, and with `slots` of its optimizer state; all of
// them must be there. `average`: where the checkpoint has average.NAME it is taken for NAME. Every
// shard is read whole and checked first. False after an error in d that names the file.
MUST_USE bool checkpoint_load(const Checkpoint *c, Exec *e, bool slots, bool average, Diag *d,
                              Pos at);

#endif
