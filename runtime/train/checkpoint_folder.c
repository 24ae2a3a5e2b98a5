// The folder of checkpoints: lists and locks it, renames and removes entries. It never follows
// links, and removes only files that meshc writes.
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OWNER = 256 };

// -- listing the checkpoints of a folder --------------------------------------------------------

int64_t checkpoint_step(const char *name) {
  char *end;
  if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return -1;
  errno = 0;
  long long n = strtoll(name + 5, &end, 10);
  return *end || errno ? -1 : n;
}

// Compares two entries for qsort: the later step comes first. For equal steps, the name that meshc
// writes, such as step-7, comes before others, such as step-07.
static int by_step(const void *a, const void *b) {
  const StepEntry *x = a, *y = b;
  if (x->step != y->step) return x->step < y->step ? 1 : -1;
  size_t n = strlen(x->name), m = strlen(y->name);
  return (n > m) - (n < m);
}

static bool is_plain(const char *name) { return name[5] != '0' || !name[6]; }

StepList checkpoint_steps(Arena *a, const char *directory) {
  StepList out = {0};
  VEC(StepEntry) all = {0};
  DIR *folder = mem_opendir(directory);
  for (const struct dirent *entry; folder && (entry = readdir(folder));) {
    const char *name = entry->d_name;
    int64_t step = checkpoint_step(name);
    if (step < 0) continue;
    bool complete =
        faccessat(dirfd(folder), arena_printf(a, "%s/%s", name, CHECKPOINT_MANIFEST), F_OK, 0) == 0;
    vec_push(a, all) = (StepEntry){step, arena_text(a, name, strlen(name)), complete,
                                   is_plain(name) && disk_is_folder(dirfd(folder), name)};
  }
  if (folder) closedir(folder);
  out.n = all.n;
  out.at = all.at;
  if (out.n) qsort(out.at, out.n, sizeof *out.at, by_step);
  return out;
}

// -- locking a folder ---------------------------------------------------------------------------

static int take_lock(int folder, const char *directory, Diag *d) {
  char host[128] = "", text[OWNER], owner[OWNER];
  gethostname(host, sizeof host - 1);
  snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
  int lock = disk_lock(folder, ".lock", text, owner, sizeof owner);
  if (lock >= 0) return lock;
  owner[strcspn(owner, "\n")] = '\0';
  if (errno == EWOULDBLOCK) {
    diag_error(d, DIAG_USAGE, (Pos){0}, "another training writes to the folder %s: %s", directory,
               *owner ? owner : "an unknown process");
    diag_hint(d, "wait until it ends, or name another folder");
  } else {
    diag_error(d, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0},
               "cannot lock the folder %s by its file .lock: %s", directory,
               errno == EEXIST || errno == ELOOP ? "it is a link or no regular file"
                                                 : strerror(errno));
  }
  return -1;
}

// -- removing entries of a folder ---------------------------------------------------------------

static bool is_ours(const char *name) {
  return strcmp(name, CHECKPOINT_MANIFEST) == 0 ||
         (strncmp(name, "shard-", 6) == 0 && strstr(name, ".safetensors") != NULL);
}

bool checkpoint_remove(int folder, const char *name) {
  return disk_remove_folder(folder, name, is_ours);
}

static void remove_partial(const char *directory, int folder) {
  DIR *entries = mem_opendir(directory);
  for (const struct dirent *e; entries && (e = readdir(entries));) {
    size_t n = strlen(e->d_name), end = strlen(".partial");
    bool partial = n > end && strcmp(e->d_name + n - end, ".partial") == 0 &&
                   strncmp(e->d_name, "step-", 5) == 0;
    if (partial && disk_is_folder(folder, e->d_name)) (void)checkpoint_remove(folder, e->d_name);
  }
  if (entries) closedir(entries);
}

int checkpoint_folder_open(const char *directory, int *lock, Diag *d) {
  int folder = disk_folder(directory);
  if (folder < 0) {
    diag_error(d, DIAG_FAILURE, (Pos){0}, "cannot open the folder %s: %s", directory,
               strerror(errno));
    return -1;
  }
  *lock = take_lock(folder, directory, d);
  if (*lock >= 0) {
    remove_partial(directory, folder);
    return folder;
  }
  close(folder);
  return -1;
}

bool checkpoint_set_aside(int folder, const char *name, char to[DISK_NAME]) {
  return disk_free_name(folder, name, "old", to) && disk_rename(folder, name, to);
}
