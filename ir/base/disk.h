// Creating, replacing and removing files and folders.
//
// All calls are relative to the descriptor of a folder. They do not follow a symbolic link at the
// last part of a path; links in the path of a folder that the user named are followed. Every call
// passes a hook, with which tests record the calls or make one fail.
#ifndef IR_DISK_H
#define IR_DISK_H

#include <sys/types.h>

#include "ir/base/base.h"

// -- the calls ----------------------------------------------------------------------------------

typedef enum DiskKind {
  DISK_MAKE,
  DISK_OPEN,
  DISK_CREATE,
  DISK_WRITE,
  DISK_SYNC,
  DISK_RENAME,
  DISK_LINK,
  DISK_REMOVE
} DiskKind;
typedef struct DiskCall {
  DiskKind kind;
  int fd; // descriptor of the folder that has `name`; for WRITE and SYNC of the file or folder
          // itself
  const char *name;
  const char *to;    // for RENAME the new name in the same folder, for LINK the target of the link
  const void *bytes; // for WRITE: the n bytes to write
  size_t n;
  int result; // after OPEN and CREATE: the descriptor, otherwise -1
} DiskCall;
// Called before each call with `done` false: an errno as result makes the call fail. Called again
// after each call that succeeded. Thread rule: any thread.
typedef int DiskHook(void *context, const DiskCall *call, bool done);
void disk_watch(DiskHook *hook, void *context); // NULL: no hook; no other thread may be in a call

// The following functions set errno and return -1 or false after an error.
int disk_folder(const char *path); // an existing folder; the path may lead through links
int disk_subfolder(int folder, const char *name); // opens a folder in `folder`; a link is an error
bool disk_make(int folder, const char *name, mode_t mode);
bool disk_sync(int fd); // syncs a file or folder; true where folders cannot be synced
bool disk_rename(int folder, const char *from, const char *to);
bool disk_link(int folder, const char *name, const char *content);
bool disk_remove(int folder, const char *name); // a file or a link, not a folder
// Opens a regular file and returns a descriptor. `fresh`: an old file or link of that name is
// removed, and a new file is written. Otherwise the file is opened for reading and writing.
int disk_open_file(int folder, const char *name, bool fresh);
bool disk_write(int fd, const void *bytes, size_t n); // all n bytes

// Return true if `name` is a folder (not a link to one), or a regular file.
bool disk_is_folder(int folder, const char *name);
bool disk_is_file(int folder, const char *name);
// Removes the files and links in folder `name` for whose names `ours` returns true, then the folder
// if it is empty. Returns false if something is left. Does nothing if `name` is a link.
bool disk_remove_folder(int folder, const char *name, bool (*ours)(const char *name));

// Finds the first of name.END, name.1.END, name.2.END, ... that does not exist. Returns false with
// errno after an error.
enum { DISK_NAME = 256 };
bool disk_free_name(int folder, const char *name, const char *end, char out[DISK_NAME]);

// Locks the file `name` until the process closes the descriptor or dies. Creates the file if it
// does not exist, and writes `text` to it. Returns the descriptor, or -1 with errno. EWOULDBLOCK:
// another process has the lock, and `owner` gets the text that it wrote.
int disk_lock(int folder, const char *name, const char *text, char *owner, size_t room);

// -- a file that replaces another when it is complete -------------------------------------------

// A file that is written as NAME.partial and then renamed to NAME. A NAME.partial of a dead process
// is removed. If NAME.partial exists for any other reason it is not touched, and NAME.1.partial,
// ... is used. If NAME is a link, the link is replaced. A device, a pipe, a socket or a descriptor
// (/dev/stdout) cannot be replaced: it is opened and written directly.
typedef struct DiskFile {
  int folder, fd;
  bool through; // written directly
  bool fast;    // without fsync: a crash of the machine may lose the file
  char name[DISK_NAME], partial[DISK_NAME];
  char *buffer;
  size_t n;
  int error; // errno of the first failure
} DiskFile;
// Returns false with errno after an error; then the other calls are not allowed.
MUST_USE bool disk_begin(DiskFile *f, const char *path);
MUST_USE bool disk_begin_in(DiskFile *f, int folder, const char *name,
                            mode_t mode); // `folder` is not closed
void disk_put(DiskFile *f, const void *bytes, size_t n);
// Renames the file to its final name. Returns false with errno after an error of any call. Then no
// partial file is left and the old file is unchanged, unless only the last step failed, the sync of
// the folder.
MUST_USE bool disk_commit(DiskFile *f);
void disk_abandon(DiskFile *f);
// Does all steps for a file of n bytes. Returns false with errno after an error.
MUST_USE bool disk_write_file(const char *path, const void *bytes, size_t n, bool fast);
// Returns true if an errno means that a disk is full or broken: exit code 7.
bool disk_full(int error);

#endif
