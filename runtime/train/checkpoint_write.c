// Writes checkpoints (checkpoint.h): copies all blocks into shards in memory, which a thread then
// writes to disk. It writes the shards, then the manifest, syncs their folder, renames it to step-N
// and syncs the folder of checkpoints. So at no moment is there a folder step-N that is incomplete.
// The first rank writes all files.
#include "ir/base/guard.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_NAME = 64 };

// A shard (one file of a checkpoint) in memory: the bytes of the file.
typedef struct Shard {
  int64_t processor;
  char *bytes;
  size_t n;
} Shard;

struct Saver {
  const Exec *exec;
  char *directory;
  int folder, lock; // descriptors of the directory and of its lock; -1 on all but the first rank
  const char *model;
  uint32_t nfacts;
  const SourceFacts *facts;
  int64_t keep;      // how many of the newest checkpoints are kept; 0: all
  int64_t best_step; // step of the checkpoint to which D/best links; -1: there is no D/best
  // the fields from here on are about the checkpoint that is being written
  int64_t step;
  bool best;
  uint32_t nshards;
  Shard *shard;
  json_t *manifest;
  pthread_t thread;
  bool running;
  atomic_bool done;
  int error; // errno of the first failure; 0: there was none
  char *path,
      *failed; // path of the checkpoint; path of a file that could not be written, or NULL
};

// -- copying blocks into shards -----------------------------------------------------------------

static const char *kind_text(TensorKind k) {
  return k == TENSOR_PARAM   ? "param"
         : k == TENSOR_STATE ? "state"
         : k == TENSOR_SLOT  ? "slot"
                             : NULL;
}

// The place of a processor's block (its part of a tensor) in the full tensor: `at` has the first
// index and `size` the length along each dim, in declared order. `stride` has the stride of each
// dim in the processor's memory, in elements.
typedef struct BlockBox {
  int64_t at[MAX_RANK], size[MAX_RANK], stride[MAX_RANK], elements;
} BlockBox;
// Sets *out to the place of processor r's block of t in the full tensor. Returns false if the shard
// (file) of r does not have this block. The reasons are that t is not in checkpoints, the block is
// empty, or another shard has an equal block.
static bool box_of(const Exec *e, const ProgTensor *t, int64_t r, BlockBox *out) {
  const Program *p = e->program;
  if (!kind_text(t->kind) || block_first(&p->mesh, t, r) != r) return false;
  int64_t block[MAX_RANK], stride[MAX_RANK];
  for (int k = 0; k < t->rank; k++) block[k] = t->dim[k].block;
  row_strides(t->rank, block, stride);
  out->elements = 1;
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *d = &t->dim[t->declared[i]];
    out->at[i] = block_offset(&p->mesh, d, r);
    out->size[i] = block_valid(p, d, r, -1);
    out->stride[i] = stride[t->declared[i]];
    out->elements *= out->size[i];
  }
  return out->elements > 0;
}

// Bytes of the widest element. A shard (one file of a checkpoint) has tensors with wide elements
// first, so that the elements of all tensors are aligned.
enum { WIDEST = 8 };

// Returns the header, malloc'd, of the shard (file) of processor r; *n gets its length. *bytes gets
// the number of bytes that follow the header. Returns NULL if a name is not UTF-8.
static char *header_of(const Exec *e, int64_t r, int64_t *bytes, size_t *n) {
  json_t *root = json_object();
  *bytes = 0;
  for (int64_t each = WIDEST; each > 0; each /= 2)
    for (uint32_t i = 0; i < e->program->ntensors; i++) {
      const ProgTensor *t = &e->program->tensor[i];
      BlockBox b;
      if (dtype_bytes(t->type) != each || !box_of(e, t, r, &b)) continue;
      int64_t end = *bytes + b.elements * each;
      json_object_set_new(root, t->name, safetensors_entry(t->type, t->rank, b.size, *bytes, end));
      *bytes = end;
    }
  return safetensors_header(root, WIDEST, n);
}

// Copies the blocks that the shard (file) of processor r contains to `to`, the bytes after the
// header. If `to` is NULL, this rank only takes part in the exchange of blocks. Returns false once
// the run has failed.
static bool fill_shard(const Exec *e, int64_t r, char *to) {
  char *room = mem_alloc((size_t)exec_block_bytes(e) + 1);
  for (int64_t each = WIDEST; each > 0; each /= 2)
    for (uint32_t i = 0; i < e->program->ntensors; i++) {
      const ProgTensor *t = &e->program->tensor[i];
      BlockBox b;
      int64_t stride[MAX_RANK];
      if (dtype_bytes(t->type) != each || !box_of(e, t, r, &b)) continue;
      const char *block = exec_block(e, i, r, room);
      if (!block) return free(room), false;
      if (!to) continue;
      row_strides(t->rank, b.size, stride);
      box_copy(t->rank, b.size, each, to, stride, block, b.stride);
      to += b.elements * each;
    }
  free(room);
  return true;
}

static bool writes(const Exec *e) { return !e->ranks || ranks_rank(e->ranks) == 0; }

// Makes the shard (file) of processor r in memory. out->bytes stays NULL if the shard has no
// blocks, or if this rank writes no files. Returns false after a failure.
static bool copy_shard(const Exec *e, int64_t r, Shard *out) {
  int64_t data;
  size_t n;
  char *header = header_of(e, r, &data, &n);
  *out = (Shard){.processor = r};
  if (header && data > 0 && writes(e)) {
    out->n = n + (size_t)data;
    out->bytes = mem_grow(header, out->n);
    header = out->bytes;
  }
  bool good = header && (data == 0 || fill_shard(e, r, out->bytes ? out->bytes + n : NULL));
  if (good && out->bytes) return true;
  free(header);
  out->bytes = NULL;
  return good;
}

static void free_copy(Saver *s) {
  for (uint32_t i = 0; i < s->nshards; i++) free(s->shard[i].bytes);
  free(s->shard);
  json_decref(s->manifest);
  s->shard = NULL;
  s->manifest = NULL;
  s->nshards = 0;
}

static bool copy_shards(Saver *s) {
  const Exec *e = s->exec;
  s->shard = mem_zeroed((size_t)e->processors, sizeof *s->shard);
  for (int64_t r = 0; r < e->processors; r++) {
    Shard one;
    if (!copy_shard(e, r, &one)) return false;
    if (one.bytes) s->shard[s->nshards++] = one;
  }
  return true;
}

// -- making the manifest ------------------------------------------------------------------------

static json_t *pieces_json(const Saver *s, const ProgTensor *t) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < s->nshards; i++) {
    BlockBox b;
    if (!box_of(s->exec, t, s->shard[i].processor, &b)) continue;
    json_array_append_new(out, json_pack("{s:i, s:o, s:o}", "shard", (int)i, "at",
                                         json_numbers(t->rank, b.at), "size",
                                         json_numbers(t->rank, b.size)));
  }
  return out;
}

static json_t *tensors_json(const Saver *s) {
  const Program *p = s->exec->program;
  json_t *out = json_array();
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    json_t *dims = json_array();
    for (int k = 0; kind_text(t->kind) && k < t->rank; k++) {
      const ProgDim *d = &t->dim[t->declared[k]];
      json_array_append_new(dims, json_pack("[s, I]", d->name, (json_int_t)d->whole));
    }
    if (kind_text(t->kind))
      json_array_append_new(out, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", t->name, "kind",
                                           kind_text(t->kind), "type", dtype_text(t->type), "dims",
                                           dims, "pieces", pieces_json(s, t)));
    else
      json_decref(dims);
  }
  return out;
}

static json_t *manifest_json(const Saver *s, const TrainPosition *n) {
  const Mesh *m = &s->exec->program->mesh;
  json_t *mesh = json_object();
  for (int i = 0; i < m->naxes; i++)
    json_object_set_new(mesh, m->axis[i].name, json_integer(m->axis[i].size));
  json_t *out = json_pack("{s:s, s:s, s:s}", "schema", CHECKPOINT_SCHEMA, "version", MESHC_VERSION,
                          "model", s->model);
  position_put(out, n);
  facts_put(out, s->nfacts, s->facts);
  json_object_set_new(out, "mesh", mesh);
  json_object_set_new(out, "tensors", tensors_json(s));
  return out;
}

// Returns the manifest as text, malloc'd, with the checksum as its last member. Returns NULL if
// there is not enough memory.
static char *manifest_text(const json_t *manifest) {
  char *body = json_dumps(manifest, JSON_INDENT(1));
  size_t n = body ? strlen(body) : 0;
  if (!body) return NULL;
  char *text = mem_grow(body, n + MANIFEST_END);
  memcpy(text + n - 2, ",\n", 2); // replaces the final "\n}"
  manifest_end(text, n, text + n);
  return text;
}

// -- writing to disk ----------------------------------------------------------------------------

// Records the failure of writing a file or link: the errno, and `name`, its name in the folder of
// checkpoints. Returns false.
static bool fails(Saver *s, const char *name) {
  s->error = errno ? errno : EIO;
  free(s->failed);
  s->failed = path_under(s->directory, name);
  return false;
}

// Closes a descriptor, unless it is -1, without changing errno.
static void close_quietly(int fd) {
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
}

// Creates a file in a folder, writes n bytes to it, and syncs it.
static bool write_file(int folder, const char *name, const char *bytes, size_t n) {
  int fd = disk_open_file(folder, name, true);
  bool good = fd >= 0 && disk_write(fd, bytes, n) && disk_sync(fd);
  close_quietly(fd);
  return good;
}

static json_t *shard_json(const char *name, const Shard *x) {
  char sum[16];
  snprintf(sum, sizeof sum, "%08x", crc32c(0, x->bytes, x->n));
  return json_pack("{s:s, s:I, s:s}", "file", name, "bytes", (json_int_t)x->n, "crc32c", sum);
}

static bool write_shards(Saver *s, int folder) {
  char name[FILE_NAME];
  json_t *shards = json_array();
  json_object_set_new(s->manifest, "shards", shards);
  for (uint32_t i = 0; i < s->nshards; i++) {
    snprintf(name, sizeof name, "shard-%05u.safetensors", i);
    json_array_append_new(shards, shard_json(name, &s->shard[i]));
    if (!write_file(folder, name, s->shard[i].bytes, s->shard[i].n)) return false;
  }
  return true;
}

static bool write_manifest(const Saver *s, int folder) {
  char *text = manifest_text(s->manifest);
  errno = ENOMEM;
  bool good = text && write_file(folder, CHECKPOINT_MANIFEST, text, strlen(text));
  int error = errno;
  free(text);
  errno = error;
  return good;
}

// Makes the link `best` in the folder of checkpoints point to the checkpoint of `step`. One rename
// replaces an old link, so that the link exists at every moment.
static bool link_best(Saver *s, int64_t step) {
  char name[STEP_NAME], fresh[DISK_NAME];
  bool good = disk_free_name(s->folder, "best", "partial", fresh) &&
              disk_link(s->folder, fresh, checkpoint_name(step, name));
  if (good && !disk_rename(s->folder, fresh, "best")) {
    int error = errno;
    (void)disk_remove(s->folder, fresh);
    errno = error;
    good = false;
  }
  s->best_step = step;
  return (good && disk_sync(s->folder)) || fails(s, "best");
}

// Returns the step of the oldest checkpoint except the best one, if there are more than s->keep
// such checkpoints; otherwise -1.
static int64_t surplus(const Saver *s) {
  Arena *a = arena_new();
  StepList all = checkpoint_steps(a, s->directory);
  int64_t n = 0, oldest = -1;
  for (uint32_t i = 0; i < all.n; i++) {
    if (!all.at[i].own || !all.at[i].complete || all.at[i].step == s->best_step) continue;
    oldest = all.at[i].step;
    n++;
  }
  arena_free(a);
  return n > s->keep ? oldest : -1;
}

// Removes the oldest checkpoints until s->keep are left, beside the best one. Each folder is
// renamed before its files are removed, because a folder step-N must always be complete.
static void remove_surplus(const Saver *s) {
  bool good = true;
  for (int64_t step; good && s->keep > 0 && (step = surplus(s)) >= 0;) {
    char old[STEP_NAME], hidden[DISK_NAME];
    checkpoint_name(step, old);
    good = disk_free_name(s->folder, old, "partial", hidden) && disk_rename(s->folder, old, hidden);
    if (good) (void)checkpoint_remove(s->folder, hidden);
  }
}

// Writes the shards and the manifest to a new folder, syncs it, renames it to `name`, and syncs the
// folder of checkpoints. Returns false after a failure, which is recorded in *s.
static bool write_step(Saver *s, const char *name) {
  char partial[DISK_NAME];
  if (!disk_free_name(s->folder, name, "partial", partial) || !disk_make(s->folder, partial, 0777))
    return false;
  int folder = disk_subfolder(s->folder, partial);
  bool good =
      folder >= 0 && write_shards(s, folder) && write_manifest(s, folder) && disk_sync(folder);
  close_quietly(folder);
  if (good && disk_rename(s->folder, partial, name)) return disk_sync(s->folder);
  int error = errno;
  (void)checkpoint_remove(s->folder, partial);
  errno = error;
  return false;
}

static void write_folder(void *saver) {
  Saver *s = saver;
  char name[STEP_NAME];
  (void)mem_doing("writing the checkpoint", s->path);
  checkpoint_name(s->step, name);
  bool good = write_step(s, name) || fails(s, name);
  good = good && (!s->best || link_best(s, s->step));
  if (good) remove_surplus(s);
}

static void *write_checkpoint(void *saver) {
  Saver *s = saver;
  Failure why;
  if (!guard_run(write_folder, s, &why)) s->error = why.internal ? EINVAL : ENOMEM;
  atomic_store(&s->done, true);
  return NULL;
}

// -- opening, starting and polling a Saver ------------------------------------------------------

static int64_t linked_step(int folder) {
  char to[FILE_NAME];
  ssize_t n = readlinkat(folder, "best", to, sizeof to - 1);
  if (n < 0) return -1;
  to[n] = '\0';
  return checkpoint_step(to);
}

static bool lost(Diag *d) { return ranks_lost(d); }

// Opens and locks the folder on the first rank. If that fails, the first rank ends the run, which
// other ranks notice while they wait for it.
static bool open_folder(Saver *s, Diag *d) {
  if (writes(s->exec)) s->folder = checkpoint_folder_open(s->directory, &s->lock, d);
  if (writes(s->exec) && s->folder < 0) return false;
  return exec_meet_readers(s->exec, false, NULL) || lost(d);
}

Saver *saver_open(const SaverOptions *opt, const Exec *e, Diag *d) {
  Saver *s = mem_zeroed(1, sizeof *s);
  s->directory = mem_text(opt->directory);
  s->exec = e;
  s->model = opt->model;
  s->nfacts = opt->nfacts;
  s->facts = opt->facts;
  s->keep = opt->keep;
  s->folder = s->lock = s->best_step = -1;
  if (!open_folder(s, d)) {
    saver_free(s);
    return NULL;
  }
  if (s->folder >= 0) s->best_step = linked_step(s->folder);
  return s;
}

static bool say_failed(const Saver *s, const char *what, int error, Diag *d) {
  diag_error(d, disk_full(error) ? DIAG_NO_DISK : DIAG_FAILURE, (Pos){0}, "cannot %s: %s", what,
             strerror(error));
  diag_hint(d, "older checkpoints in %s are as they were", s->directory);
  return false;
}

static bool set_aside(const Saver *s, const char *name, const char *why, Diag *d) {
  char to[DISK_NAME], what[DISK_NAME + 512];
  if (checkpoint_set_aside(s->folder, name, to)) {
    diag_warning(d, DIAG_CHECKPOINT_MOVED, (Pos){0}, "%s/%s %s: it is now %s", s->directory, name,
                 why, to);
    return true;
  }
  snprintf(what, sizeof what, "rename %s/%s", s->directory, name);
  return say_failed(s, what, errno, d);
}

bool saver_rewind(Saver *s, int64_t step, int64_t best_step, Diag *d) {
  char why[WHY], best[STEP_NAME];
  bool good = true;
  if (s->folder < 0) return true;
  Arena *a = arena_new();
  StepList all = checkpoint_steps(a, s->directory);
  snprintf(why, sizeof why, "is later than step %lld, from which training goes on",
           (long long)step);
  checkpoint_name(best_step, best);
  for (uint32_t i = 0; good && i < all.n && all.at[i].step > step; i++)
    good = set_aside(s, all.at[i].name, why, d);
  arena_free(a);
  if (!good || s->best_step <= step) return good;
  s->best_step = -1;
  if (best_step > 0 && disk_is_folder(s->folder, best))
    good = link_best(s, best_step);
  else
    good = disk_remove(s->folder, "best") || errno == ENOENT || fails(s, "best");
  const char *ignored;
  return good || saver_poll(s, true, &ignored, d);
}

static bool start_thread(Saver *s) {
  atomic_store(&s->done, false);
  s->error = 0;
  s->running = pthread_create(&s->thread, NULL, write_checkpoint, s) == 0;
  if (!s->running) write_checkpoint(s); // the thread could not be started: writes it here
  return true;
}

// Sets *is_there to whether s->step has a complete checkpoint. If the folder has another entry with
// the name of that checkpoint, renames the entry. Returns false after an error in d.
static bool look_for(Saver *s, bool *is_there, Diag *d) {
  char name[STEP_NAME], manifest[FILE_NAME];
  struct stat info;
  *is_there = false;
  if (s->folder < 0) return true;
  snprintf(manifest, sizeof manifest, "%s/%s", checkpoint_name(s->step, name), CHECKPOINT_MANIFEST);
  *is_there = faccessat(s->folder, manifest, F_OK, 0) == 0;
  if (*is_there || fstatat(s->folder, name, &info, AT_SYMLINK_NOFOLLOW) != 0) return true;
  return set_aside(s, name, "has no manifest.json, so it is no checkpoint", d);
}

bool saver_start(Saver *s, const TrainPosition *n, bool best, Diag *d) {
  const char *before;
  char name[STEP_NAME];
  if (!saver_poll(s, true, &before, d)) return false;
  free(s->path);
  s->path = path_under(s->directory, checkpoint_name(n->step, name));
  s->step = n->step;
  s->best = best;
  bool is_there, looked = look_for(s, &is_there, d);
  if (!looked) return false; // this rank ends, so the meeting below fails on the other ranks
  // other ranks read the blocks of this one
  if (!exec_fetch_kept(s->exec)) return exec_works(s->exec, d);
  if (!exec_meet_readers(s->exec, false, &is_there)) return lost(d);
  if (!writes(s->exec)) {
    bool shown = is_there || (copy_shards(s) && exec_meet_readers(s->exec, true, NULL));
    free_copy(s);
    return shown || lost(d);
  }
  if (is_there) {
    s->error = 0;
    return !best || link_best(s, s->step) || saver_poll(s, true, &before, d);
  }
  if (copy_shards(s) && (s->manifest = manifest_json(s, n)))
    return exec_meet_readers(s->exec, true, NULL) ? start_thread(s) : lost(d);
  free_copy(s);
  diag_error(d, DIAG_NO_MEMORY, (Pos){0},
             "no memory for a copy of what the checkpoint of step %lld holds", (long long)n->step);
  return false;
}

bool saver_poll(Saver *s, bool wait, const char **path, Diag *d) {
  bool under_way = s->shard != NULL;
  *path = NULL;
  if (under_way && !wait && !atomic_load(&s->done)) return true;
  if (s->running) pthread_join(s->thread, NULL);
  s->running = false;
  free_copy(s);
  int error = s->error;
  s->error = 0;
  if (error) {
    char what[WHY];
    snprintf(what, sizeof what, "write the checkpoint %.160s",
             s->failed ? s->failed : s->directory);
    return say_failed(s, what, error, d);
  }
  if (under_way) *path = s->path;
  return true;
}

void saver_free(Saver *s) {
  if (!s) return;
  if (s->running) pthread_join(s->thread, NULL);
  free_copy(s);
  free(s->path);
  free(s->failed);
  free(s->directory);
  if (s->folder >= 0) close(s->folder);
  if (s->lock >= 0) close(s->lock);
  free(s);
}
