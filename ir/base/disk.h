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
  DISK_EXCHANGE,
  DISK_LINK,
  DISK_REMOVE
} DiskKind;
typedef struct DiskCall {
  DiskKind kind;
  // For WRITE and SYNC the descriptor of the file or folder itself, for other kinds that of the
  // folder in which `name` is.
  int fd;
  const char *name;
  // RENAME: the new name in the same folder; EXCHANGE: the other one; LINK: the target of the link
  const char *to;
  const void *bytes; // WRITE: the n bytes to write
  size_t n;
  int result; // after OPEN and CREATE the descriptor, otherwise -1
} DiskCall;
// A hook: a function that is called before each system call of this file, with `done` false. If it
// returns an errno, the system call fails with this errno; 0 lets it proceed. After a system call
// that succeeded the hook is called again, with `done` true. Thread rule: any thread.
typedef int DiskHook(void *context, const DiskCall *call, bool done);
// Sets the hook, which is called before and after each system call of this file. NULL removes it.
// No other thread may be in a function of this file.
void disk_watch(DiskHook *hook, void *context);

// The functions from here on set errno after an error, and return -1 or false.

// Opens an existing folder and returns its descriptor. The path may lead through links.
int disk_folder(const char *path);
int disk_subfolder(int folder, const char *name); // opens folder `name`; refuses a link
bool disk_make(int folder, const char *name, mode_t mode);
bool disk_sync(int fd); // syncs a file or folder; true if the system cannot sync folders
bool disk_rename(int folder, const char *from, const char *to);
// Exchanges two files or folders in one step. EINVAL, ENOSYS: the file system cannot.
bool disk_exchange(int folder, const char *name, const char *other);
bool disk_link(int folder, const char *name, const char *content);
bool disk_remove(int folder, const char *name); // removes a file or a link, not a folder
// Opens a regular file for reading and writing and returns its descriptor. With `fresh` an old file
// or link of that name is removed and a new file created.
int disk_open_file(int folder, const char *name, bool fresh);
bool disk_write(int fd, const void *bytes, size_t n); // writes all n bytes

// Return true if `name` is a folder, or a regular file. A link to one is neither.
bool disk_is_folder(int folder, const char *name);
bool disk_is_file(int folder, const char *name);
// Returns whether two paths lead to one regular file, whatever their names, also through links.
bool disk_same_file(const char *path, const char *other);
// Removes the files and links in folder `name` for which `ours` returns true, then the folder if it
// is empty. Returns false if the folder could not be removed. Does nothing if `name` is a link.
bool disk_remove_folder(int folder, const char *name, bool (*ours)(const char *name));

// disk_free_name puts into `out` the first of name.END, name.1.END, name.2.END, ... that does not
// exist. Returns false with errno after an error. DISK_NAME is the size of `out` in bytes.
enum { DISK_NAME = 256 };
bool disk_free_name(int folder, const char *name, const char *end, char out[DISK_NAME]);

// Locks the file `name` until the process closes the descriptor or dies. Creates the file if it
// does not exist, and writes `text` to it. Returns the descriptor, or -1 with errno. EWOULDBLOCK:
// another process has the lock, and `owner` gets the text that it wrote.
int disk_lock(int folder, const char *name, const char *text, char *owner, size_t room);

// Locks the folder `name` until the descriptor is closed or the process dies. Returns the
// descriptor, or -1 with errno. EWOULDBLOCK: another process has the lock, or has just removed the
// folder.
int disk_lock_folder(int folder, const char *name);
// Makes and locks a folder that is to be renamed when it is complete, and puts its name into `out`:
// NAME.partial, or NAME.1.partial and so on if another process has the lock of that. Of a folder
// that a dead process left, the files for which `ours` returns true are removed. Returns the
// descriptor, or -1 with errno.
int disk_make_partial(int folder, const char *name, bool (*ours)(const char *name),
                      char out[DISK_NAME]);

// -- a file that replaces another when it is complete -------------------------------------------

// A file that is written as NAME.partial and then renamed to NAME. A NAME.partial that a dead
// process left is removed. Any other NAME.partial is not touched; the file is then NAME.1.partial
// or has the next free number. If NAME is a link, the link is replaced. A device, a pipe, a socket
// or a descriptor (/dev/stdout) cannot be replaced: it is opened and written directly.
typedef struct DiskFile {
  int folder, fd;
  bool through; // the file cannot be replaced and is written directly
  bool fast;    // the file is not synced: a crash of the machine may lose it
  char name[DISK_NAME], partial[DISK_NAME];
  char *buffer;
  size_t n;
  int error; // errno of the first failed write, or 0
} DiskFile;
// Creates the partial file. Returns false with errno after an error; then f must not be passed to
// the other functions.
MUST_USE bool disk_begin(DiskFile *f, const char *path);
// Creates the partial file in `folder`, an open descriptor that it does not close.
MUST_USE bool disk_begin_in(DiskFile *f, int folder, const char *name, mode_t mode);
void disk_put(DiskFile *f, const void *bytes, size_t n);
// Renames the file to its final name. Returns false with errno if this or an earlier call failed.
// In that case no partial file is left and the old file is unchanged. The only exception is a
// failure of the last step, the sync of the folder: the file then has its final name.
MUST_USE bool disk_commit(DiskFile *f);
void disk_abandon(DiskFile *f);
// Writes n bytes to `path` through a partial file. Returns false with errno after an error.
MUST_USE bool disk_write_file(const char *path, const void *bytes, size_t n, bool fast);
// Returns true if the errno `error` means that a disk is full or broken. meshc then exits with code
// 7.
bool disk_full(int error);

#endif
