// The register of files and folders that are being written. A process that must end at any point
// removes them with its help. ir/base/disk.c keeps it up to date. No function here allocates.
// Thread rule: any thread.
#ifndef IR_UNFINISHED_H
#define IR_UNFINISHED_H

#include "ir/base/base.h"

// Lock and unlock the register of unfinished files. A caller holds the lock during a system call
// that makes, renames or removes a file, and while it changes the register for that file.
void unfinished_hold(void);
void unfinished_release(void);

// Add a file or folder to the register of unfinished files, or remove it. The caller holds the lock
// (unfinished_hold). `dir` is the descriptor of the folder that contains `name`; it must stay open
// until the name is removed. If the register is full, the name is not added.
void unfinished_add(int dir, const char *name, bool folder);
void unfinished_drop(int dir, const char *name);

// Removes all registered files and folders, with the files in these folders, without following
// links. Keeps the lock, so that other threads wait in unfinished_hold and create nothing more.
// Call it once, in a process that is about to end.
void unfinished_clear(void);

// Removes the files that the calling thread has registered, after its work failed.
void unfinished_abandon(void);

#endif
