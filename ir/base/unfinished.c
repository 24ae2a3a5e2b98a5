// The register of files that are being written (unfinished.h): a table of names and one lock.
#define _GNU_SOURCE
#include "ir/base/unfinished.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 64, NAME = 256, LISTING = 4096, LOCK_SECONDS = 5 };

typedef struct Entry {
  bool used, folder;
  int dir;
  pthread_t owner;
  char name[NAME];
} Entry;

// The lock of the register of unfinished files. No thread holds the lock longer than one system
// call takes.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Entry entry[ENTRIES];

void unfinished_hold(void) { pthread_mutex_lock(&lock); }
void unfinished_release(void) { pthread_mutex_unlock(&lock); }

void unfinished_add(int dir, const char *name, bool folder) {
  size_t n = strlen(name);
  for (int i = 0; n < NAME && i < ENTRIES; i++) {
    if (entry[i].used) continue;
    entry[i] = (Entry){.used = true, .folder = folder, .dir = dir, .owner = pthread_self()};
    memcpy(entry[i].name, name, n + 1);
    return;
  }
}

void unfinished_drop(int dir, const char *name) {
  for (int i = 0; i < ENTRIES; i++)
    if (entry[i].used && entry[i].dir == dir && strcmp(entry[i].name, name) == 0)
      entry[i].used = false;
}

// -- the end of the process ---------------------------------------------------------------------

// An entry of a directory listing, as the system call getdents64 writes it. opendir cannot be used,
// because it allocates.
typedef struct Listed {
  uint64_t inode, offset;
  uint16_t bytes;
  uint8_t type;
  char name[];
} Listed;

static void remove_folder(int dir, const char *name) {
  _Alignas(8) char list[LISTING];
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  long n;
  while (fd >= 0 && (n = syscall(SYS_getdents64, fd, list, sizeof list)) > 0)
    for (long at = 0; at < n;) {
      const Listed *e = (const Listed *)(const void *)(list + at);
      if (e->name[0] != '.') unlinkat(fd, e->name, 0);
      at += e->bytes;
    }
  if (fd >= 0) close(fd);
  unlinkat(dir, name, AT_REMOVEDIR);
}

static void remove_entry(const Entry *e) {
  if (e->folder)
    remove_folder(e->dir, e->name);
  else
    unlinkat(e->dir, e->name, 0);
}

void unfinished_abandon(void) {
  unfinished_hold();
  for (int i = 0; i < ENTRIES; i++) {
    if (!entry[i].used || !pthread_equal(entry[i].owner, pthread_self())) continue;
    remove_entry(&entry[i]);
    entry[i].used = false;
  }
  unfinished_release();
}

void unfinished_clear(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LOCK_SECONDS;
  if (pthread_mutex_timedlock(&lock, &until) != 0) return; // a file system does not answer: give up
  for (int i = 0; i < ENTRIES; i++) {
    if (entry[i].used) remove_entry(&entry[i]);
  }
}
