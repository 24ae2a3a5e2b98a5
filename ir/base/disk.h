// Creating, replacing and removing files and folders.
//
// All calls are relative to the descriptor of a folder and follow no symbolic link at the name that
// they work on. Links inside the path of a folder that the user named are followed. Every call
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
  int fd; // of the folder that has `name`; of WRITE and SYNC: of the file or folder itself
  const char *name,
      *to;           // to: of RENAME the new name in the same folder, of LINK what the link holds
  const void *bytes; // of WRITE, with n
  size_t n;
  int result; // after OPEN and CREATE: the descriptor; else -1
} DiskCall;
// Called before each call (`done` false), where an errno makes the call fail, and after each that
// succeeded. Any thread.
typedef int DiskHook(void *context, const DiskCall *call, bool done);
void disk_watch(DiskHook *hook, void *context); // NULL: none. While no other thread is in a call

// Each sets errno and returns -1 or false after an error.
int disk_folder(const char *path); // an existing folder; the path may lead through links
int disk_subfolder(int folder, const char *name); // the same in `folder`; a link is an error
bool disk_make(int folder, const char *name, mode_t mode);
bool disk_sync(int fd); // of a file or folder; true where folders cannot be synced
bool disk_rename(int folder, const char *from, const char *to);
bool disk_link(int folder, const char *name, const char *content);
bool disk_remove(int folder, const char *name); // a file or a link, not a folder
// A regular file, written from its start where `fresh` (an old one, or a link, loses the name
// first) or opened for reading and writing. Returns a descriptor.
int disk_open_file(int folder, const char *name, bool fresh);
bool disk_write(int fd, const void *bytes, size_t n); // all n bytes

// Whether `name` is a folder (not a link to one) or a regular file.
bool disk_is_folder(int folder, const char *name);
bool disk_is_file(int folder, const char *name);
// Removes the files and links of folder `name` for whose names `ours` is true, then the folder if
// it is empty. False if something is left. Nothing is done where `name` is a link.
bool disk_remove_folder(int folder, const char *name, bool (*ours)(const char *name));

// The first of name.END, name.1.END, name.2.END, ... that does not exist. False with errno.
enum { DISK_NAME = 256 };
bool disk_free_name(int folder, const char *name, const char *end, char out[DISK_NAME]);

// Locks the file `name`, which is made where missing, for this process until it closes the
// descriptor or dies. -1: errno is EWOULDBLOCK where another process has the lock, with what that
// one wrote in `owner`.
int disk_lock(int folder, const char *name, const char *text, char *owner, size_t room);

// -- a file that replaces another when it is complete -------------------------------------------

// Written as NAME.partial and renamed over NAME. A NAME.partial that a process left when it died is
// removed; another one that is there, of whatever kind, stays, and NAME.1.partial, ... is taken.
// Where NAME is a link, the link is replaced. A device, a pipe, a socket or a descriptor
// (/dev/stdout) cannot be replaced: it is opened and written.
typedef struct DiskFile {
  int folder, fd;
  bool through; // written as it is
  bool fast;    // without fsync: a crash of the machine may lose it
  char name[DISK_NAME], partial[DISK_NAME];
  char *buffer;
  size_t n;
  int error; // errno of the first failure
} DiskFile;
// False with errno; then the other calls must not follow.
MUST_USE bool disk_begin(DiskFile *f, const char *path);
MUST_USE bool disk_begin_in(DiskFile *f, int folder, const char *name,
                            mode_t mode); // `folder` is not closed
void disk_put(DiskFile *f, const void *bytes, size_t n);
// False with errno after an error of any call: no partial file is left, and the old file is as it
// was, but where only the last step failed, the sync of the folder.
MUST_USE bool disk_commit(DiskFile *f);
void disk_abandon(DiskFile *f);
// The whole of it. False with errno.
MUST_USE bool disk_write_file(const char *path, const void *bytes, size_t n, bool fast);
// Whether an errno says that a disk is full or broken: exit 7.
bool disk_full(int error);

#endif
