// The register of files and folders that are being written, so that a process that must end at any
// point can remove them. ir/base/disk.c keeps it up to date. Nothing here allocates. Thread rule:
// any thread.
#ifndef IR_UNFINISHED_H
#define IR_UNFINISHED_H

#include "ir/base/base.h"

// Lock and unlock the register. A caller holds the lock during the system call that makes, renames
// or removes a file and the change of the register that belongs to it.
void unfinished_hold(void);
void unfinished_release(void);

// Add a name to the register, or remove it. To be called between unfinished_hold and
// unfinished_release. `dir` is the descriptor of the folder; it must stay open until the name is
// removed. If the register is full, the name is not added.
void unfinished_add(int dir, const char *name, bool folder);
void unfinished_drop(int dir, const char *name);

// Removes all registered files and folders, and the files in the folders, without following links.
// Other threads then wait in unfinished_hold for ever, so that they create nothing more. Called
// once, by a process that is about to end.
void unfinished_clear(void);

// Removes the files that the calling thread has registered, because its work failed halfway.
void unfinished_abandon(void);

#endif
