// The folder of checkpoints: lists and locks it, renames and removes entries.
#ifndef RUNTIME_CHECKPOINT_FOLDER_H
#define RUNTIME_CHECKPOINT_FOLDER_H

#include "ir/base/disk.h"
#include "runtime/train/checkpoint.h"

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
// Renames the entry to NAME.old or NAME.K.old, which `to` gets. False with errno.
bool checkpoint_set_aside(int folder, const char *name, char to[DISK_NAME]);
// Removes the shards and the manifest of a folder, and the folder if nothing else is in it.
bool checkpoint_remove(int folder, const char *name);

#endif
