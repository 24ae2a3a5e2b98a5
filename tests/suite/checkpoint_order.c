// Checks that a machine crash never destroys a checkpoint, or a file that is being replaced. Input:
// two small checkpoints and a text file that the suite itself writes. The file calls of one commit
// are recorded (ir/base/disk.h). The suite then builds the folder that a crash could leave after
// every prefix of these calls. It also builds random crashes, in which the disk did only a part of
// the calls that no sync had made safe. From each folder the complete old or the complete new state
// must be readable.
//
//   Model of the disk: a write is safe after a sync of its file; a new or changed name is safe
//   after a sync of its folder. Any other call may be lost. A write may also be lost in part, in
//   sectors of 512 or 4096 bytes: a lost sector reads as zeros, or the file ends before it. A
//   rename happens completely or not at all. This is the model of Pillai et al., OSDI 2014, "All
//   file systems are not created equal", without an order between calls that no sync separates.
//
//   suite_checkpoint_order      ORDERS=N: number of random crashes, default 300
#define _XOPEN_SOURCE 700 // nftw
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/disk.h"
#include "runtime/train/checkpoint.h"
#include "tests/suite/common/saved.h"

enum { ROWS = SAVED_ROWS, STATES = SAVED_STATES, ORDERS = 300, MOST = 4096, OLD = 2, NEW = 3 };

static Arena *arena;
static int passed, failed;
static char base[] = "/tmp/suite_checkpoint_order_XXXXXX";
static const char *recorded, *replayed; // folders inside `folder`

// -- inodes and what was done to them -----------------------------------------------------------

typedef struct Inode {
  ino_t number;
  char kind; // 'd', 'f', 'l'
  char *bytes;
  size_t n;
} Inode;
typedef struct Name {
  ino_t folder, inode;
  const char *text;
} Name;
typedef struct Op {
  enum { OP_NAME, OP_UNNAME, OP_RENAME, OP_WRITE, OP_SYNC } kind;
  ino_t on;    // the folder whose entry changes, or the file that is written
  ino_t inode; // the inode that gets or loses the name
  const char *name, *to;
  char *bytes;
  size_t at, n;
} Op;

typedef struct Disk {
  uint32_t ninodes, nnames;
  Inode inode[MOST];
  Name name[MOST];
} Disk;
static Disk before;
static ino_t root;
static Op op[MOST];
static uint32_t nops;

static Inode *inode_of(Disk *d, ino_t number) {
  for (uint32_t i = 0; i < d->ninodes; i++)
    if (d->inode[i].number == number) return &d->inode[i];
  return NULL;
}

static void add_inode(Disk *d, ino_t number, char kind) {
  if (!inode_of(d, number)) d->inode[d->ninodes++] = (Inode){.number = number, .kind = kind};
}

static Name *name_of(Disk *d, ino_t folder, const char *text) {
  for (uint32_t i = 0; i < d->nnames; i++)
    if (d->name[i].folder == folder && strcmp(d->name[i].text, text) == 0) return &d->name[i];
  return NULL;
}

static void unname(Disk *d, ino_t folder, const char *text) {
  Name *x = name_of(d, folder, text);
  if (x) *x = d->name[--d->nnames];
}

static void name(Disk *d, ino_t folder, const char *text, ino_t inode) {
  unname(d, folder, text);
  d->name[d->nnames++] = (Name){folder, inode, text};
}

// -- recording ----------------------------------------------------------------------------------

static ino_t number_of(int fd) {
  struct stat s;
  if (fstat(fd, &s) != 0) BUG("no such descriptor");
  return s.st_ino;
}

static ino_t named(int folder, const char *text, char *kind) {
  struct stat s;
  if (fstatat(folder, text, &s, AT_SYMLINK_NOFOLLOW) != 0) BUG("%s is not there", text);
  *kind = S_ISDIR(s.st_mode) ? 'd' : S_ISLNK(s.st_mode) ? 'l' : 'f';
  return s.st_ino;
}

static const char *kept(const char *text) {
  return text ? arena_text(arena, text, strlen(text)) : NULL;
}

// Records the content of the disk before the commit.
static void scan(Disk *d, int folder, ino_t number) {
  DIR *entries = fdopendir(dup(folder));
  for (const struct dirent *e; entries && (e = readdir(entries));) {
    char kind;
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    ino_t i = named(folder, e->d_name, &kind);
    add_inode(d, i, kind);
    name(d, number, kept(e->d_name), i);
    Inode *x = inode_of(d, i);
    x->bytes = arena_alloc(arena, 1 << 20);
    int fd = kind == 'l' ? -1 : openat(folder, e->d_name, O_RDONLY);
    if (kind == 'd') scan(d, fd, i);
    ssize_t n = kind == 'f'   ? read(fd, x->bytes, 1 << 20)
                : kind == 'l' ? readlinkat(folder, e->d_name, x->bytes, 1 << 20)
                              : 0;
    x->n = n > 0 ? (size_t)n : 0;
    if (fd >= 0) close(fd);
  }
  if (entries) closedir(entries);
}

static size_t written(ino_t file) {
  size_t n = 0;
  for (uint32_t i = 0; i < nops; i++)
    if (op[i].kind == OP_WRITE && op[i].on == file) n += op[i].n;
  return n;
}

// Adds the inode of a created file, folder or link, and returns its number. Fails if the system has
// reused the number of a removed inode: both would be mistaken for one.
static ino_t made(const DiskCall *c) {
  char kind;
  ino_t inode = named(c->fd, c->name, &kind);
  if (inode_of(&before, inode)) BUG("the number of an inode is used again");
  add_inode(&before, inode, kind);
  if (kind != 'l') return inode;
  Inode *x = inode_of(&before, inode);
  x->bytes = arena_text(arena, c->to, x->n = strlen(c->to));
  return inode;
}

static int record(void *context, const DiskCall *c, bool done) {
  static ino_t moved;
  char kind;
  (void)context;
  if (!done && (c->kind == DISK_RENAME || c->kind == DISK_REMOVE))
    moved = named(c->fd, c->name, &kind);
  if (!done || c->kind == DISK_OPEN) return 0;
  Op *o = &op[nops++];
  *o = (Op){.on = number_of(c->fd), .name = kept(c->name), .to = kept(c->to), .inode = moved};
  o->kind = c->kind == DISK_WRITE    ? OP_WRITE
            : c->kind == DISK_SYNC   ? OP_SYNC
            : c->kind == DISK_RENAME ? OP_RENAME
            : c->kind == DISK_REMOVE ? OP_UNNAME
                                     : OP_NAME;
  if (o->kind == OP_NAME) o->inode = made(c);
  if (o->kind != OP_WRITE) return 0;
  o->n = 0;
  o->at = written(o->on);
  o->n = c->n;
  o->bytes = arena_copy(arena, c->bytes, c->n);
  return 0;
}

// -- a crash ------------------------------------------------------------------------------------

static uint64_t state = 1;
static uint32_t below(uint32_t n) { // splitmix64
  uint64_t x = state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return (uint32_t)((x ^ x >> 31) % n);
}

typedef struct Crash {
  uint32_t ops;     // number of calls before the crash
  uint32_t percent; // chance that an unsafe call is on disk
  uint32_t sector;
  bool cut;          // a file with lost sectors at its end is shorter
  uint32_t unsynced; // index of a sync that does nothing, to test the suite itself; MOST: none
} Crash;

static bool is_safe(const Crash *c, uint32_t i) {
  for (uint32_t k = i + 1; k < c->ops; k++)
    if (op[k].kind == OP_SYNC && op[k].on == op[i].on && k != c->unsynced) return true;
  return false;
}

static void write_part(Disk *d, const Crash *c, const Op *o, bool safe) {
  Inode *x = inode_of(d, o->on);
  char *more = arena_alloc(arena, o->at + o->n);
  size_t end = x->n;
  if (x->n) memcpy(more, x->bytes, x->n < o->at + o->n ? x->n : o->at + o->n);
  for (size_t i = 0; i < o->n;) {
    size_t step = c->sector - (o->at + i) % c->sector, m = step < o->n - i ? step : o->n - i;
    bool there = safe || below(100) < c->percent;
    if (there) memcpy(more + o->at + i, o->bytes + i, m);
    if (there || !c->cut) end = o->at + i + m > end ? o->at + i + m : end;
    i += m;
  }
  x->bytes = more;
  x->n = end;
}

static void apply(Disk *d, const Crash *c) {
  for (uint32_t i = 0; i < c->ops; i++) {
    const Op *o = &op[i];
    bool safe = o->kind == OP_SYNC || is_safe(c, i);
    if (o->kind == OP_WRITE) write_part(d, c, o, safe);
    if (o->kind == OP_WRITE || o->kind == OP_SYNC || (!safe && below(100) >= c->percent)) continue;
    if (o->kind != OP_NAME) unname(d, o->on, o->name);
    if (o->kind == OP_NAME) name(d, o->on, o->name, o->inode);
    if (o->kind == OP_RENAME) name(d, o->on, o->to, o->inode);
  }
}

static void put_tree(Disk *d, ino_t folder, const char *path) {
  if (mkdir(path, 0777) != 0) BUG("cannot make %s", path);
  for (uint32_t i = 0; i < d->nnames; i++) {
    if (d->name[i].folder != folder) continue;
    const Inode *x = inode_of(d, d->name[i].inode);
    const char *at = arena_printf(arena, "%s/%s", path, d->name[i].text);
    if (x->kind == 'd') put_tree(d, x->number, at);
    if (x->kind == 'l' && symlink(arena_text(arena, x->bytes, x->n), at) != 0)
      BUG("cannot link %s", at);
    if (x->kind != 'f') continue;
    int fd = open(at, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (fd < 0 || write(fd, x->bytes, x->n) != (ssize_t)x->n || close(fd) != 0)
      BUG("cannot write %s", at);
  }
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}

static void remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

// -- the program whose tensors are saved --------------------------------------------------------

static Exec *saved, *loaded;

static void set_values(Exec *e, int64_t step) {
  static float w[ROWS];
  static double m[STATES];
  for (int i = 0; i < ROWS; i++) w[i] = (float)(step * ROWS + i);
  for (int i = 0; i < STATES; i++) m[i] = (double)(step * STATES + i);
  exec_write(e, TENSOR_PARAM, "w", TYPE_F32, w);
  exec_write(e, TENSOR_SLOT, "m", TYPE_F64, m);
}

static bool has_values(const Exec *e, int64_t step) {
  static float w[ROWS];
  static double m[STATES];
  exec_read(e, TENSOR_PARAM, "w", w);
  exec_read(e, TENSOR_SLOT, "m", m);
  bool good = true;
  for (int i = 0; i < ROWS; i++) good &= w[i] == (float)(step * ROWS + i);
  for (int i = 0; i < STATES; i++) good &= m[i] == (double)(step * STATES + i);
  return good;
}

// -- checkpoints --------------------------------------------------------------------------------

static bool save(const char *directory, int64_t step, Diag *d) {
  const char *path;
  SaverOptions options = {.directory = directory, .model = "order", .keep = 1};
  TrainPosition note = {.step = step, .best_step = step, .best = 1};
  Saver *s = saver_open(&options, saved, d);
  if (!s) return false;
  set_values(saved, step);
  bool good = saver_start(s, &note, true, d) && saver_poll(s, true, &path, d);
  saver_free(s);
  return good;
}

// Returns NULL, or what is wrong with the checkpoint at path.
static const char *read_checkpoint(const char *path, int64_t *step) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  const Checkpoint *c = checkpoint_open(a, path, d, (Pos){0});
  const char *why = NULL;
  *step = c ? c->note.step : -1;
  if (!c || !checkpoint_load(c, loaded, true, false, d, (Pos){0}))
    why = "it cannot be read";
  else if (*step != OLD && *step != NEW)
    why = "it is neither the old nor the new one";
  else if (!has_values(loaded, *step))
    why = "its values are not those of its step";
  if (why) diag_print(d, stdout, false);
  arena_free(a);
  return why;
}

static const char *check_checkpoint(bool again) {
  int64_t step;
  struct stat info;
  const char *best = arena_printf(arena, "%s/best", replayed),
             *why = read_checkpoint(replayed, &step);
  if (!why && lstat(best, &info) == 0) why = read_checkpoint(best, &step);
  if (why || !again) return why;
  if (!save(replayed, NEW, diag_new(arena))) return "the next one cannot be written";
  why = read_checkpoint(replayed, &step);
  return why ? why : step == NEW ? NULL : "the next one is not the newest";
}

// -- a file that is replaced --------------------------------------------------------------------

static bool write_array(const char *directory, int64_t step) {
  static float w[ROWS];
  for (int i = 0; i < ROWS; i++) w[i] = (float)(step * ROWS + i);
  NamedArray x = {"w", {.type = TYPE_F32, .rank = 1, .size = {ROWS}, .elements = ROWS, .data = w}};
  return npz_write(arena_printf(arena, "%s/o.npz", directory), 1, &x, diag_new(arena));
}

static const char *check_array(bool again) {
  Array x;
  Diag *d = diag_new(arena);
  if (!array_read(&x, arena_printf(arena, "%s/o.npz", replayed), "w", d, (Pos){0}))
    return "it cannot be read";
  const float *w = x.data;
  float first = w[0];
  bool good = x.elements == ROWS && (first == (float)(OLD * ROWS) || first == (float)(NEW * ROWS));
  for (int i = 0; good && i < ROWS; i++) good = w[i] == first + (float)i;
  array_free(&x);
  if (!good) return "it is neither the old nor the new one";
  return again && !write_array(replayed, NEW) ? "the next one cannot be written" : NULL;
}

// -- all crashes --------------------------------------------------------------------------------

typedef const char *
Reading(bool again); // returns what is wrong, or NULL; `again`: the reader also writes afterwards

static const char *crash(const Crash *c, Reading *check, bool again) {
  static Disk disk;
  ArenaMark mark = arena_mark(arena);
  disk = before;
  apply(&disk, c);
  put_tree(&disk, root, replayed);
  const char *why = check(again);
  remove_tree(replayed);
  arena_reset(arena, mark);
  return why;
}

static void judge(const char *what, const Crash *c, const char *why) {
  if (!why) {
    passed++;
    return;
  }
  if (failed++ < 20)
    printf("FAIL %s after %u of %u calls, %u %% of what is not synced, sectors of %u: %s\n", what,
           c->ops, nops, c->percent, c->sector, why);
}

static Crash random_crash(void) {
  static const uint32_t percent[] = {0, 10, 50, 90, 100};
  return (Crash){.ops = below(nops + 1),
                 .percent = percent[below(countof(percent))],
                 .sector = below(2) ? 512 : 4096,
                 .cut = below(2),
                 .unsynced = MOST};
}

// Turns each sync but the last into a no-op. Some crash must then lose the data, or the model of
// the disk would be too lenient.
static void check_syncs(const char *what, Reading *check) {
  uint32_t last = nops;
  while (last > 0 && op[last - 1].kind != OP_SYNC) last--;
  for (uint32_t k = 0; k + 1 < last; k++) {
    if (op[k].kind != OP_SYNC) continue;
    bool missed = false;
    fflush(stdout);
    int out = dup(STDOUT_FILENO), nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, STDOUT_FILENO); // failures are expected here: hide their messages
    for (uint32_t i = 0; i < 400 && !missed; i++) {
      Crash c = random_crash();
      c.ops = nops - below(nops - k);
      c.percent = c.percent < 100 ? c.percent : 50;
      c.unsynced = k;
      missed = crash(&c, check, false) != NULL;
    }
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    close(out), close(nothing);
    Crash c = {.ops = k};
    judge(what, &c, missed ? NULL : "a sync there is not needed, or its loss is not seen");
  }
}

static void check_all(const char *what, Reading *check, uint32_t orders) {
  for (uint32_t n = 0; n <= nops; n++)
    for (uint32_t percent = 0; percent <= 100; percent += 100) {
      Crash c = {.ops = n, .percent = percent, .sector = 512, .cut = true, .unsynced = MOST};
      judge(what, &c, crash(&c, check, true));
    }
  for (uint32_t i = 0; i < orders; i++) {
    Crash c = random_crash();
    judge(what, &c, crash(&c, check, i % 16 == 0));
  }
  check_syncs(what, check);
}

static void begin_recording(void) {
  int fd = open(recorded, O_RDONLY | O_DIRECTORY);
  before = (Disk){0};
  nops = 0;
  root = number_of(fd);
  scan(&before, fd, root);
  close(fd);
  disk_watch(record, NULL);
}

static void end_recording(void) { disk_watch(NULL, NULL); }

int main(void) {
  const char *text = getenv("ORDERS");
  uint32_t orders = text ? (uint32_t)strtoul(text, NULL, 10) : ORDERS;
  arena = arena_new();
  Diag *d = diag_new(arena);
  if (!mkdtemp(base)) return 1;
  recorded = arena_printf(arena, "%s/recorded", base);
  replayed = arena_printf(arena, "%s/replayed", base);
  saved = exec_new(saved_program(), &(ExecOptions){.threads = 1}, d);
  loaded = exec_new(saved_program(), &(ExecOptions){.threads = 1}, d);
  if (!saved || !loaded || mkdir(recorded, 0777) != 0) BUG("no program to save");
  bool good = save(recorded, 1, d) && save(recorded, OLD, d);
  begin_recording();
  good = good && save(recorded, NEW, d);
  end_recording();
  printf("a checkpoint: %u calls\n", nops);
  if (good) check_all("a checkpoint", check_checkpoint, orders);
  good = good && write_array(recorded, OLD);
  begin_recording();
  good = good && write_array(recorded, NEW);
  end_recording();
  printf("a file: %u calls\n", nops);
  if (good) check_all("a file", check_array, orders / 4);
  if (!good) failed++, diag_print(d, stdout, false);
  exec_free(saved);
  exec_free(loaded);
  remove_tree(base);
  arena_free(arena);
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
