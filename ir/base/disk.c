// Creates, replaces and removes files and folders. Calls use descriptors instead of paths and do
// not follow links. A file that replaces another has these names:
//
//   x.npz.partial    created with O_EXCL, locked, written, synced
//   x.npz            the same file after the rename; then the folder is synced
//
// The lock shows whether a process is still writing a partial file, or a dead process left it.
#define _GNU_SOURCE // renameat2
#include "ir/base/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "ir/base/mem.h"
#include "ir/base/unfinished.h"

enum { PIECE = 1 << 24, BUFFER = 1 << 16, MOST_NAMES = 1000, PROC_MAGIC = 0x9fa0 };

// -- the hook -----------------------------------------------------------------------------------

static DiskHook *hook;
static void *hook_context;

void disk_watch(DiskHook *new, void *context) {
  hook = new;
  hook_context = context;
}

// Returns true if the system call adds, renames or removes an entry of a folder. During such a call
// the register of unfinished files (ir/base/unfinished.h) is locked, because both must change
// together.
static bool changes_folder(const DiskCall *call) {
  return call->kind != DISK_OPEN && call->kind != DISK_WRITE && call->kind != DISK_SYNC;
}

// Calls the hook (the function that disk_watch set) before a system call. Returns false if the hook
// makes the system call fail.
static bool begins(DiskCall *call) {
  int error = hook ? hook(hook_context, call, false) : 0;
  call->result = -1;
  if (error) errno = error;
  if (!error && changes_folder(call)) unfinished_hold();
  return error == 0;
}

// If a system call succeeded (`good`), calls the hook, the function that disk_watch set. Returns
// `good`.
static bool ended(const DiskCall *call, bool good) {
  int error = errno;
  if (changes_folder(call)) unfinished_release();
  if (good && hook) (void)hook(hook_context, call, true);
  errno = error;
  return good;
}

// Closes a file without a change of errno.
static void close_quietly(int fd) {
  int error = errno;
  close(fd);
  errno = error;
}

// -- the calls ----------------------------------------------------------------------------------

// Returns true if `name` is the name of an incomplete file. Until such a file is renamed, it is in
// the register of unfinished files (ir/base/unfinished.h).
static bool is_partial(const char *name) {
  size_t n = strlen(name), end = strlen(".partial");
  return n > end && strcmp(name + n - end, ".partial") == 0;
}

static void made(int folder, const char *name, bool is_folder) {
  if (is_partial(name)) unfinished_add(folder, name, is_folder);
}

int disk_folder(const char *path) { return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); }

int disk_subfolder(int folder, const char *name) {
  DiskCall call = {.kind = DISK_OPEN, .fd = folder, .name = name};
  if (!begins(&call)) return -1;
  call.result = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  ended(&call, call.result >= 0);
  return call.result;
}

bool disk_make(int folder, const char *name, mode_t mode) {
  DiskCall call = {.kind = DISK_MAKE, .fd = folder, .name = name};
  if (!begins(&call)) return false;
  bool good = mkdirat(folder, name, mode) == 0;
  if (good) made(folder, name, true);
  return ended(&call, good);
}

bool disk_sync(int fd) {
  DiskCall call = {.kind = DISK_SYNC, .fd = fd};
  return begins(&call) && ended(&call, fsync(fd) == 0 || errno == EINVAL);
}

bool disk_rename(int folder, const char *from, const char *to) {
  DiskCall call = {.kind = DISK_RENAME, .fd = folder, .name = from, .to = to};
  if (!begins(&call)) return false;
  bool good = renameat(folder, from, folder, to) == 0;
  if (good) unfinished_drop(folder, from);
  if (good) made(folder, to, disk_is_folder(folder, to));
  return ended(&call, good);
}

bool disk_exchange(int folder, const char *name, const char *other) {
  DiskCall call = {.kind = DISK_EXCHANGE, .fd = folder, .name = name, .to = other};
  if (!begins(&call)) return false;
  return ended(&call, renameat2(folder, name, folder, other, RENAME_EXCHANGE) == 0);
}

bool disk_link(int folder, const char *name, const char *content) {
  DiskCall call = {.kind = DISK_LINK, .fd = folder, .name = name, .to = content};
  if (!begins(&call)) return false;
  bool good = symlinkat(content, folder, name) == 0;
  if (good) made(folder, name, false);
  return ended(&call, good);
}

static bool remove_entry(int folder, const char *name, int flags) {
  DiskCall call = {.kind = DISK_REMOVE, .fd = folder, .name = name};
  if (!begins(&call)) return false;
  bool good = unlinkat(folder, name, flags) == 0;
  if (good) unfinished_drop(folder, name);
  return ended(&call, good);
}

bool disk_remove(int folder, const char *name) { return remove_entry(folder, name, 0); }

static int create(int folder, const char *name, int flags, mode_t mode) {
  DiskCall call = {.kind = DISK_CREATE, .fd = folder, .name = name};
  if (!begins(&call)) return -1;
  call.result = openat(folder, name, flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (call.result >= 0) made(folder, name, false);
  ended(&call, call.result >= 0);
  return call.result;
}

bool disk_write(int fd, const void *bytes, size_t n) {
  const char *at = bytes;
  while (n > 0) {
    DiskCall call = {.kind = DISK_WRITE, .fd = fd, .bytes = at, .n = n < PIECE ? n : PIECE};
    if (!begins(&call)) return false;
    ssize_t put = write(fd, at, call.n);
    if (put < 0 && errno == EINTR) continue;
    if (put == 0) errno = EIO;
    if (put <= 0) return false;
    call.n = (size_t)put;
    ended(&call, true);
    at += put;
    n -= (size_t)put;
  }
  return true;
}

static bool is_kind(int folder, const char *name, mode_t kind) {
  struct stat s;
  return fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && (s.st_mode & S_IFMT) == kind;
}

bool disk_is_folder(int folder, const char *name) { return is_kind(folder, name, S_IFDIR); }
bool disk_is_file(int folder, const char *name) { return is_kind(folder, name, S_IFREG); }

bool disk_same_file(const char *path, const char *other) {
  struct stat a, b;
  return stat(path, &a) == 0 && S_ISREG(a.st_mode) && stat(other, &b) == 0 &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Opens the regular file `name` and puts the result of fstat into *s. Returns the descriptor, or -1
// with errno, which is EEXIST if `name` is another kind of file.
static int open_regular(int folder, const char *name, int flags, struct stat *s) {
  int fd = openat(folder, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  if (fd < 0 || (fstat(fd, s) == 0 && S_ISREG(s->st_mode))) return fd;
  close(fd);
  errno = EEXIST;
  return -1;
}

int disk_open_file(int folder, const char *name, bool fresh) {
  struct stat s;
  if (!fresh) return open_regular(folder, name, O_RDWR, &s);
  if ((disk_is_file(folder, name) || is_kind(folder, name, S_IFLNK)) && !disk_remove(folder, name))
    return -1;
  return create(folder, name, O_RDWR, 0666);
}

bool disk_remove_folder(int folder, const char *name, bool (*ours)(const char *name)) {
  int fd = disk_subfolder(folder, name), list = fd < 0 ? -1 : dup(fd);
  DIR *entries = list < 0 ? NULL : fdopendir(list);
  if (list >= 0 && !entries) mem_check_errno();
  for (const struct dirent *e; entries && (e = readdir(entries));)
    if (ours(e->d_name)) (void)disk_remove(fd, e->d_name);
  if (entries)
    closedir(entries);
  else if (list >= 0)
    close(list);
  if (fd >= 0) close(fd);
  return entries && remove_entry(folder, name, AT_REMOVEDIR);
}

// -- names of incomplete files ------------------------------------------------------------------

// Tries to lock a file. Returns true if this process has the lock now, or if the file system has no
// locks.
static bool lock_now(int fd) {
  return flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR);
}

static bool is_same(int folder, const char *name, int fd) {
  struct stat a, b;
  return fstatat(folder, name, &a, AT_SYMLINK_NOFOLLOW) == 0 && fstat(fd, &b) == 0 &&
         a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

// Removes an incomplete file of this user that no process is writing any more, so that its name is
// free.
static void remove_stale(int folder, const char *name) {
  struct stat s;
  int fd = disk_is_file(folder, name) ? open_regular(folder, name, O_RDONLY, &s) : -1;
  if (fd < 0) return;
  if (s.st_uid == geteuid() && lock_now(fd) && is_same(folder, name, fd))
    (void)disk_remove(folder, name);
  close(fd);
}

static bool is_free(int folder, const char *name) {
  struct stat s;
  return fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
}

static bool numbered(const char *name, int k, const char *end, char out[DISK_NAME]) {
  int n = k ? snprintf(out, DISK_NAME, "%s.%d.%s", name, k, end)
            : snprintf(out, DISK_NAME, "%s.%s", name, end);
  if (n < DISK_NAME) return true;
  errno = ENAMETOOLONG;
  return false;
}

static bool find_name(int folder, const char *name, const char *end, bool stale,
                      char out[DISK_NAME]) {
  for (int k = 0; k < MOST_NAMES; k++) {
    if (!numbered(name, k, end, out)) return false;
    if (stale) remove_stale(folder, out);
    if (is_free(folder, out)) return true;
  }
  errno = EEXIST;
  return false;
}

bool disk_free_name(int folder, const char *name, const char *end, char out[DISK_NAME]) {
  return find_name(folder, name, end, false, out);
}

// Creates and locks name.partial, or name.K.partial if another process is writing name.partial.
// Another process may remove the file as stale before it is locked. Then this function tries again.
static int create_partial(int folder, const char *name, mode_t mode, char out[DISK_NAME]) {
  for (int tries = 0; tries < MOST_NAMES; tries++) {
    if (!find_name(folder, name, "partial", true, out)) return -1;
    int fd = create(folder, out, O_WRONLY, mode);
    if (fd < 0 && errno != EEXIST) return -1;
    if (fd >= 0 && lock_now(fd) && is_same(folder, out, fd)) return fd;
    if (fd >= 0) close(fd);
  }
  errno = EEXIST;
  return -1;
}

int disk_lock_folder(int folder, const char *name) {
  int fd = disk_subfolder(folder, name);
  if (fd < 0 || (lock_now(fd) && is_same(folder, name, fd))) return fd;
  close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

int disk_make_partial(int folder, const char *name, bool (*ours)(const char *name),
                      char out[DISK_NAME]) {
  for (int k = 0; k < MOST_NAMES; k++) {
    if (!numbered(name, k, "partial", out)) return -1;
    int stale = disk_is_folder(folder, out) ? disk_lock_folder(folder, out) : -1;
    if (stale >= 0) {
      (void)disk_remove_folder(folder, out, ours);
      close(stale);
    }
    if (!disk_make(folder, out, 0777)) {
      if (errno != EEXIST) return -1;
      continue;
    }
    // Another process may have taken it for stale before it is locked; then it goes by another name
    int fd = disk_lock_folder(folder, out);
    if (fd >= 0 || (errno != EWOULDBLOCK && errno != ENOENT)) return fd;
  }
  errno = EEXIST;
  return -1;
}

int disk_lock(int folder, const char *name, const char *text, char *owner, size_t room) {
  struct stat s;
  int fd = open_regular(folder, name, O_RDWR | O_CREAT, &s);
  owner[0] = '\0';
  if (fd < 0) return -1;
  if (s.st_nlink != 1) {
    close(fd);
    errno = EEXIST;
    return -1;
  }
  if (lock_now(fd)) {
    bool told = ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) >= 0;
    (void)told; // an unwritten text is no error: the lock is what matters
    return fd;
  }
  ssize_t n = pread(fd, owner, room - 1, 0);
  owner[n > 0 ? n : 0] = '\0';
  close(fd);
  errno = EWOULDBLOCK;
  return -1;
}

// -- a file that replaces another ---------------------------------------------------------------

bool disk_full(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
}

// Returns true if the file cannot be replaced and is written directly: a device, a pipe, a socket,
// or a link to a descriptor such as /dev/stdout. Regular files in /dev, as in /dev/shm, are
// replaced.
static bool is_written_through(int folder, const char *name) {
  struct stat s;
  struct statfs system;
  static const char *const descriptors[] = {"/proc/", "/dev/fd/", "/dev/std"};
  char to[16] = "";
  if (fstatat(folder, name, &s, 0) != 0 || S_ISDIR(s.st_mode)) return false;
  if (!S_ISREG(s.st_mode)) return true;
  ssize_t n = readlinkat(folder, name, to, sizeof to - 1);
  for (size_t i = 0; n > 0 && i < countof(descriptors); i++)
    if (strncmp(to, descriptors[i], strlen(descriptors[i])) == 0) return true;
  return fstatfs(folder, &system) == 0 && system.f_type == PROC_MAGIC;
}

static bool begin(DiskFile *f, const char *name, mode_t mode) {
  size_t n = strlen(name);
  f->buffer = mem_alloc(BUFFER);
  if (n >= DISK_NAME || n == 0)
    errno = n ? ENAMETOOLONG : EISDIR;
  else if (disk_is_folder(f->folder, name))
    errno = EISDIR;
  else {
    memcpy(f->name, name, n + 1);
    f->through = is_written_through(f->folder, name);
    f->fd = f->through ? openat(f->folder, name, O_WRONLY | O_NOCTTY | O_CLOEXEC)
                       : create_partial(f->folder, name, mode, f->partial);
    if (f->fd >= 0) return true;
  }
  free(f->buffer);
  return false;
}

bool disk_begin_in(DiskFile *f, int folder, const char *name, mode_t mode) {
  *f = (DiskFile){.folder = folder < 0 ? -1 : dup(folder), .fd = -1};
  if (f->folder < 0) return false;
  if (begin(f, name, mode)) return true;
  close_quietly(f->folder);
  return false;
}

bool disk_begin(DiskFile *f, const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? mem_text_n(path, (size_t)(slash - path + 1)) : mem_text(".");
  int fd = disk_folder(folder);
  bool good = fd >= 0 && disk_begin_in(f, fd, slash ? slash + 1 : path, 0666);
  if (fd >= 0) close_quietly(fd);
  free(folder);
  return good;
}

static void put_now(DiskFile *f, const void *bytes, size_t n) {
  if (!f->error && !disk_write(f->fd, bytes, n)) f->error = errno;
}

void disk_put(DiskFile *f, const void *bytes, size_t n) {
  if (f->n + n > BUFFER) {
    put_now(f, f->buffer, f->n);
    f->n = 0;
  }
  if (n > BUFFER) {
    put_now(f, bytes, n);
    return;
  }
  if (n) memcpy(f->buffer + f->n, bytes, n);
  f->n += n;
}

static void finish(DiskFile *f) {
  if (f->fd >= 0) close(f->fd);
  close(f->folder);
  free(f->buffer);
  *f = (DiskFile){.folder = -1, .fd = -1};
}

void disk_abandon(DiskFile *f) {
  if (!f->through && is_same(f->folder, f->partial, f->fd))
    (void)disk_remove(f->folder, f->partial);
  finish(f);
}

// Performs the steps of a commit until one fails. The file stays open, and so locked, until it has
// its final name.
static bool install(DiskFile *f) {
  if (f->error) errno = f->error;
  if (f->error || f->through) return !f->error;
  if (!f->fast && !disk_sync(f->fd)) return false;
  if (!is_same(f->folder, f->partial, f->fd)) {
    errno = ENOENT;
    return false;
  }
  return disk_rename(f->folder, f->partial, f->name) && (f->fast || disk_sync(f->folder));
}

bool disk_commit(DiskFile *f) {
  put_now(f, f->buffer, f->n);
  f->n = 0;
  if (install(f)) {
    finish(f);
    return true;
  }
  int error = errno;
  disk_abandon(f);
  errno = error;
  return false;
}

bool disk_write_file(const char *path, const void *bytes, size_t n, bool fast) {
  DiskFile f;
  if (!disk_begin(&f, path)) return false;
  f.fast = fast;
  disk_put(&f, bytes, n);
  return disk_commit(&f);
}
