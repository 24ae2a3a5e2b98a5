// What the files of checkpoints share: the names and the manifest's fields, which the writer and
// the reader must agree on, and the folder of checkpoints.
#ifndef RUNTIME_CHECKPOINT_FOLDER_H
#define RUNTIME_CHECKPOINT_FOLDER_H

#include "ir/base/disk.h"
#include "runtime/train/checkpoint.h"

// -- checkpoint_manifest.c ----------------------------------------------------------------------
#define CHECKPOINT_MANIFEST "manifest.json"
#define CHECKPOINT_SCHEMA "meshc.checkpoint/1"
enum { STEP_NAME = 32 };
// Writes "step-N", the name of the folder of the checkpoint of a step. Returns `out`.
const char *checkpoint_name(int64_t step, char out[STEP_NAME]);
// Adds the fields of a position to the manifest.
struct json_t;
void position_put(struct json_t *manifest, const TrainPosition *n);
// Reads these fields. Returns NULL, or what the manifest does wrong: the rest of a sentence that
// begins with its path.
const char *position_read(struct json_t *manifest, TrainPosition *out);
// Writes the last lines of a manifest: the checksum of text[0..n), which is all before it.
enum { MANIFEST_END = 25 };
void manifest_end(const char *text, size_t n, char out[MANIFEST_END]);

// -- checkpoint_folder.c ------------------------------------------------------------------------
// An entry step-N.
typedef struct StepEntry {
  int64_t step;
  const char *name;
  bool complete; // it has a manifest
  bool own;      // a folder, no link, with the name that meshc gives to it
} StepEntry;
typedef struct StepList {
  uint32_t n;
  StepEntry *at; // the newest first
} StepList;
// Lists all entries step-N of a folder, also links. Everything is in `a`. None if the folder cannot
// be read.
StepList checkpoint_steps(Arena *a, const char *directory);

// Locks the folder for writing and removes what an earlier run left incomplete. Returns the
// descriptor of the folder; *lock gets that of the lock. Both stay open while checkpoints are
// written. -1 after an error in d.
int checkpoint_folder_open(const char *directory, int *lock, Diag *d);
// Renames the entry to NAME.old or NAME.K.old, which `to` gets. Returns false with errno.
bool checkpoint_set_aside(int folder, const char *name, char to[DISK_NAME]);
// Removes the shards and the manifest of a folder, and the folder if nothing else is in it.
bool checkpoint_remove(int folder, const char *name);

#endif
