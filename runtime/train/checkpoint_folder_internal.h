// What the writer and the reader of checkpoints share: names and fields of the manifest, and
// functions on a folder of checkpoints (checkpoint.h shows what such a folder has).
#ifndef RUNTIME_CHECKPOINT_FOLDER_H
#define RUNTIME_CHECKPOINT_FOLDER_H

#include "ir/base/disk.h"
#include "runtime/train/checkpoint.h"

// -- checkpoint_manifest.c: the manifest --------------------------------------------------------
#define CHECKPOINT_MANIFEST "manifest.json"
#define CHECKPOINT_SCHEMA "meshc.checkpoint/1"
enum { STEP_NAME = 32 };
// Writes "step-N", the name of the folder of the checkpoint of a step. Returns `out`.
const char *checkpoint_name(int64_t step, char out[STEP_NAME]);
struct json_t;
// Adds the fields of the position of a training to the manifest of a checkpoint.
void position_put(struct json_t *manifest, const TrainPosition *n);
// Reads the position of a training from the manifest of a checkpoint. Returns NULL, or what is
// wrong with the manifest: the rest of a sentence that begins with its path.
const char *position_read(struct json_t *manifest, TrainPosition *out);
// Adds the facts of sources of data to a manifest, or reads them (checkpoint_facts.c). facts_read
// returns their number; a manifest of an earlier version has none.
void facts_put(struct json_t *manifest, uint32_t n, const SourceFacts *facts);
uint32_t facts_read(Arena *a, struct json_t *manifest, const SourceFacts **out);
// Bytes of the buffer for the last lines of a manifest.
enum { MANIFEST_END = 25 };
// Writes the last lines of a manifest to `out`. They have the checksum of text[0..n), all lines
// before them.
void manifest_end(const char *text, size_t n, char out[MANIFEST_END]);
// Returns whether text[0..n) ends in these lines, with the checksum of what is before them.
bool manifest_holds(const char *text, size_t n);

// -- checkpoint_folder.c: the folder of checkpoints ---------------------------------------------
// An entry of a folder of checkpoints that is named step-N.
typedef struct StepEntry {
  int64_t step;
  const char *name;
  bool complete; // the entry has a manifest, so it is a complete checkpoint
  bool own;      // the entry is a folder, not a link, and meshc writes its name this way
} StepEntry;
typedef struct StepList {
  uint32_t n;
  StepEntry *at; // the entries, later steps first
} StepList;
// Lists all entries of a folder that are named step-N, links included. The list is allocated in
// `a`. It is empty if the folder cannot be read.
StepList checkpoint_steps(Arena *a, const char *directory);

// Locks the folder for writing and removes checkpoints that an earlier run left incomplete. Returns
// the descriptor of the folder, or -1 after an error in d. *lock gets the descriptor of the lock.
// The caller closes both after the last checkpoint.
int checkpoint_folder_open(const char *directory, int *lock, Diag *d);
// Renames the entry `name` of the folder to NAME.old or, if that exists, NAME.K.old with a number
// K. `to` gets the new name. Returns false with an error in errno.
bool checkpoint_set_aside(int folder, const char *name, char to[DISK_NAME]);
// Removes the shards and the manifest of a checkpoint, and its folder if nothing else is in it.
bool checkpoint_remove(int folder, const char *name);

#endif
