// The folder of checkpoints: what it holds, its lock, and what is moved or removed in it.
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
// All entries step-N of a folder, links among them; everything lives in a. None where the folder
// cannot be read.
StepList checkpoint_steps(Arena *a, const char *directory);

// Locks the folder for writing and removes what an earlier run left half-written. Returns its
// descriptor, and that of the lock; both stay open while checkpoints are written. -1 after an error
// in d.
int checkpoint_folder_open(const char *directory, int *lock, Diag *d);
// Gives the entry another name, NAME.old or NAME.K.old, which `to` gets. False with errno.
bool checkpoint_set_aside(int folder, const char *name, char to[DISK_NAME]);
// Removes a folder of shards and a manifest; other files in it stay, and then it stays.
bool checkpoint_remove(int folder, const char *name);

#endif
