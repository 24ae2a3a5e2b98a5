// Checkpoints: a folder step-N with safetensors shards and a manifest, which is complete or does
// not exist.
//
//   D/step-40.partial/   being written: shards, then manifest.json, each synced before the next
//   D/step-40/           complete: the folder after it was renamed
//   D/best               a link to the step with the best evaluation
//   D/step-40.old/       renamed: later than the step that a run resumed from, or without a manifest
//   D/.lock              locked while a training writes to D
//
// A shard has the blocks of one processor, by name, in the declared order of axes. The manifest has
// the dims of every tensor, by name and size, and the place of each block. So the reader needs
// neither the mesh nor the layout of the writer. Checksums (CRC-32C) cover every byte.
#ifndef RUNTIME_CHECKPOINT_H
#define RUNTIME_CHECKPOINT_H

#include "runtime/runtime.h"

// The position of a training: what it needs to resume, beside its tensors.
typedef struct TrainPosition {
  int64_t step;   // steps done
  int64_t before; // steps that a loaded optimizer state had done before the training began
  uint64_t seed;
  int64_t epoch, row; // position of the next batch in the training data
  int64_t evaluated;  // steps done at the last evaluation, 0: none
  int64_t best_step;  // steps done at the best evaluation, 0: there is none
  double best;
  int64_t worse;   // number of evaluations after the best one
  int64_t skipped; // steps that changed nothing because they were not finite
} TrainPosition;

// -- checkpoint_write.c -------------------------------------------------------------------------
typedef struct Saver Saver;
typedef struct SaverOptions {
  const char *directory; // exists
  const char *model;     // path of the model, written to the manifest
  int64_t keep; // how many of the newest checkpoints are kept, and the best one; 0: all are
} SaverOptions;
// Opens a folder for checkpoints of e: locks it and removes what an earlier run left incomplete.
// Returns NULL after an error in d, also where another process has the lock.
Saver *saver_open(const SaverOptions *opt, const Exec *e, Diag *d);
// Prepares to resume from `step`: later checkpoints are renamed to step-M.old, with a warning for
// each, and a D/best that linked to one of them links to `best_step` again. Returns false after an
// error in d.
MUST_USE bool saver_rewind(Saver *s, int64_t step, int64_t best_step, Diag *d);
// Copies all parameters, states and slots, and writes them in the background. Waits first until the
// previous checkpoint is written. `best`: the last evaluation was the best so far. A step that has
// a checkpoint is not written again; a step-N without a manifest is renamed to step-N.old, with a
// warning. Returns false after an error in d.
MUST_USE bool saver_start(Saver *s, const TrainPosition *n, bool best, Diag *d);
// *path gets the checkpoint that has become complete since the last call, or NULL. With `wait`,
// waits for the one being written. Returns false after an error in d: it could not be written;
// nothing of it is left, and older ones are intact.
MUST_USE bool saver_poll(Saver *s, bool wait, const char **path, Diag *d);
void saver_free(Saver *s); // waits until the checkpoint being written is complete

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
  int64_t bytes; // size of all shards together
  uint32_t nshards, ntensors;
  struct CheckpointShard *shard;
  CheckpointTensor *tensor;
} Checkpoint;
int64_t
checkpoint_step(const char *name); // N of "step-N", leading zeros allowed, -1 for other names
// Returns true if the folder is a checkpoint or holds one.
bool checkpoint_exists(const char *path);
// Reads the manifest of the checkpoint in the folder `path`, or of the newest one in that folder.
// Newer folders without a manifest are skipped with a warning; a damaged manifest of the newest is
// an error. Everything is in `a`. Returns NULL after an error in d.
Checkpoint *checkpoint_open(Arena *a, const char *path, Diag *d, Pos at);
// Returns the folder of step `step` in `directory`, NULL if it has no complete checkpoint.
const char *checkpoint_of_step(Arena *a, const char *directory, int64_t step);
// Loads the parameters and states of e, and with `slots` its optimizer state; all of them must be
// there. With `average`, average.NAME is loaded for NAME where the checkpoint has it. Every shard
// is read and checked in full first. Returns false after an error in d that names the file.
MUST_USE bool checkpoint_load(const Checkpoint *c, Exec *e, bool slots, bool average, Diag *d,
                              Pos at);

#endif
