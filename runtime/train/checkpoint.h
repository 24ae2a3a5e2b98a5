// Checkpoints: the state of a training on disk. A checkpoint is a folder step-N with safetensors
// files, called shards, and a manifest. It is complete or does not exist. In the folder D of
// checkpoints are:
//
//   D/step-40.partial/   checkpoint that is being written: shards, then manifest.json
//   D/step-40/           complete checkpoint: the folder is renamed when all is on disk
//   D/best               link to the checkpoint with the best evaluation
//   D/step-40.old/       set aside: it was later than the step from which a run resumed, or had no
//                        manifest
//   D/.lock              file that is locked while a training writes to D
//
// A shard has the blocks of one processor, by name of the tensor, in the declared order of dims.
// The manifest has the dims of every tensor, by name and size, and the place of each block in the
// tensor. So the reader needs neither the mesh nor the layout of the writer. Checksums (CRC-32C)
// cover every byte. Slots are the tensors of the optimizer.
#ifndef RUNTIME_CHECKPOINT_H
#define RUNTIME_CHECKPOINT_H

#include "runtime/runtime.h"

// The position of a training: what a run needs to resume the training, beside its tensors.
typedef struct TrainPosition {
  int64_t step;   // number of steps done
  int64_t before; // number of steps that a loaded optimizer state had done before this training
  uint64_t seed;
  int64_t epoch, row; // position of the next batch in the training data
  int64_t evaluated;  // number of steps done at the last evaluation; 0: there was none
  int64_t best_step;  // number of steps done at the best evaluation; 0: there was none
  double best;        // value of the compared metric in the best evaluation
  int64_t worse;      // number of evaluations after the best one
  int64_t skipped;    // number of steps without update, because a value was not finite
} TrainPosition;

// -- checkpoint_write.c: writing checkpoints ----------------------------------------------------
typedef struct Saver Saver;
typedef struct SaverOptions {
  const char *directory; // the folder for checkpoints, which must exist
  const char *model;     // path of the model, which is written to the manifest
  uint32_t nfacts;       // what is known about sources of data, which must outlive the saver
  const SourceFacts *facts;
  int64_t keep; // how many of the newest checkpoints are kept, beside the best one; 0: all
} SaverOptions;
// Opens a folder for checkpoints of e: locks it and removes checkpoints that an earlier run left
// incomplete. Returns NULL after an error in d, such as that another process has the lock.
Saver *saver_open(const SaverOptions *opt, const Exec *e, Diag *d);
// Prepares to resume from `step`: renames each later checkpoint step-M to step-M.old, with a
// warning. The link `best` in the folder points to the best checkpoint. If that checkpoint is
// renamed, the link gets the checkpoint of `best_step`. Returns false after an error in d.
MUST_USE bool saver_rewind(Saver *s, int64_t step, int64_t best_step, Diag *d);
// Begins to write a checkpoint: copies all parameters, states and optimizer tensors, and writes the
// copy in the background. Waits first until the previous checkpoint is written. With `best`, the
// last evaluation was the best so far, and the link `best` in the folder will point to this
// checkpoint. A step that already has a checkpoint is not written again. A folder step-N without a
// manifest is renamed to step-N.old, with a warning. Returns false after an error in d.
MUST_USE bool saver_start(Saver *s, const TrainPosition *n, bool best, Diag *d);
// Sets *path to the checkpoint that has become complete since the last call, or NULL. With `wait`,
// first waits until the checkpoint that is being written is complete. If the checkpoint could not
// be written, returns false with an error in d. Then its files are removed, and older checkpoints
// are intact.
MUST_USE bool saver_poll(Saver *s, bool wait, const char **path, Diag *d);
// Frees s after waiting for the checkpoint that is being written, and unlocks the folder.
void saver_free(Saver *s);

// -- checkpoint_read.c: reading checkpoints -----------------------------------------------------
typedef struct CheckpointTensor {
  const char *name, *kind; // full name; "param", "state" or "slot"
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
  uint32_t nshards, ntensors, nfacts;
  const SourceFacts *facts;
  struct CheckpointShard *shard;
  CheckpointTensor *tensor;
} Checkpoint;
// Returns the number N of a name "step-N", which may have leading zeros; -1 for other names.
int64_t checkpoint_step(const char *name);
// Returns true if the folder `path` is a checkpoint or contains one.
bool checkpoint_exists(const char *path);
// Reads the manifest of a checkpoint. `path` is the checkpoint or a folder of checkpoints; of a
// folder, the newest checkpoint that has a manifest is read. Newer folders without a manifest are
// skipped with a warning; a damaged manifest is an error. The result is allocated in `a`. Returns
// NULL after an error in d.
Checkpoint *checkpoint_open(Arena *a, const char *path, Diag *d, Pos at);
// Returns the path of the checkpoint of a step in the folder `directory`, allocated in `a`; NULL if
// the step has no complete checkpoint.
const char *checkpoint_of_step(Arena *a, const char *directory, int64_t step);
// Returns the steps of the complete checkpoints in the folder as text, "step 4, 8, 12", allocated
// in `a`: all, or the first and the last ones of many. NULL if there are none.
const char *checkpoint_steps_text(Arena *a, const char *directory);
// Loads the parameters and states of e, and with `slots` the tensors of its optimizer. The
// checkpoint must have them all. With `average`, parameter NAME gets the tensor average.NAME if the
// checkpoint has it. All shards are read and checked before any tensor is loaded. Returns false
// after an error in d that names the file.
MUST_USE bool checkpoint_load(const Checkpoint *c, Exec *e, bool slots, bool average, Diag *d,
                              Pos at);

#endif
