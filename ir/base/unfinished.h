// The register of files and folders that are being written, so that a process that must end in the
// middle can remove them. ir/base/disk.c keeps it. Nothing here allocates. Thread rule: any thread.
#ifndef IR_UNFINISHED_H
#define IR_UNFINISHED_H

#include "ir/base/base.h"

// Around a system call that makes, renames or removes a file, together with what the register has
// to say of it.
void unfinished_hold(void);
void unfinished_release(void);

// Between the two. `dir`: the descriptor of the folder, which stays open until the name leaves the
// register. Where the register is full, the name is left out.
void unfinished_add(int dir, const char *name, bool folder);
void unfinished_drop(int dir, const char *name);

// Removes all that is registered, not through links, of folders also the files in them. After it
// other threads wait in unfinished_hold for ever, so that nothing is made behind it. Once, by a
// process that is about to end.
void unfinished_clear(void);

// Removes what the calling thread has registered, and forgets it: its work failed halfway.
void unfinished_abandon(void);

#endif
