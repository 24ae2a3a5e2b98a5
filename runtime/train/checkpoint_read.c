// Reads checkpoints: first the manifest, which is checked in full, then every shard, which is
// checked before any of it is used.
#include "ir/program/decode_state.h"
#include "runtime/exec/exec_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct CheckpointShard {
  const char *path;
  int64_t bytes;
  uint32_t sum;
} CheckpointShard;
typedef struct CheckpointPiece {
  uint32_t shard;
  int64_t at[MAX_RANK], size[MAX_RANK], elements;
} CheckpointPiece;

enum { MANIFEST_MOST = 1 << 30 };

// -- finding the checkpoint to read -------------------------------------------------------------

static bool has_manifest(Arena *a, const char *path) {
  return access(arena_printf(a, "%s/%s", path, CHECKPOINT_MANIFEST), F_OK) == 0;
}

// Returns the folder of the newest complete checkpoint in the folder `path`, or `path` if it is a
// checkpoint; NULL if there is no checkpoint. *all gets the entries step-N of `path`, later steps
// first. The first *skipped entries are of later steps than the result and not complete.
static const char *find_checkpoint(Arena *a, const char *path, StepList *all, uint32_t *skipped) {
  *all = (StepList){0};
  *skipped = 0;
  if (has_manifest(a, path)) return path;
  *all = checkpoint_steps(a, path);
  while (*skipped < all->n && !all->at[*skipped].complete) ++*skipped;
  return *skipped < all->n ? arena_printf(a, "%s/%s", path, all->at[*skipped].name) : NULL;
}

bool checkpoint_exists(const char *path) {
  Arena *a = arena_new();
  StepList all;
  uint32_t skipped;
  bool found = find_checkpoint(a, path, &all, &skipped) != NULL;
  arena_free(a);
  return found;
}

const char *checkpoint_of_step(Arena *a, const char *directory, int64_t step) {
  StepList all = checkpoint_steps(a, directory);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.at[i].step == step && all.at[i].complete)
      return arena_printf(a, "%s/%s", directory, all.at[i].name);
  return NULL;
}

const char *checkpoint_steps_text(Arena *a, const char *directory) {
  enum { FIRST = 4, LAST = 8 };
  StepList all = checkpoint_steps(a, directory);
  uint32_t n = 0, k = 0;
  const char *text = NULL;
  for (uint32_t i = 0; i < all.n; i++) n += all.at[i].complete;
  for (uint32_t i = all.n; i-- > 0;) { // ascending
    if (!all.at[i].complete) continue;
    bool left_out = k >= FIRST && k + LAST < n;
    if (!left_out)
      text = arena_printf(a, "%s%s%lld", text ? text : "step ", text ? ", " : "",
                          (long long)all.at[i].step);
    else if (k == FIRST)
      text = arena_printf(a, "%s, ...", text);
    k++;
  }
  return text;
}

// -- reading the manifest -----------------------------------------------------------------------

typedef struct ManifestReader {
  Arena *a;
  Diag *d;
  Pos at;
  const char *file; // path of the manifest
  Checkpoint *out;
} ManifestReader;

// Adds a hint to the error about a damaged checkpoint: the newest complete checkpoint of an earlier
// step.
static void hint_older(Arena *a, const char *path, Diag *d) {
  const char *slash = strrchr(path, '/'),
             *folder = slash ? arena_text(a, path, (size_t)(slash - path) + (slash == path)) : ".";
  int64_t step = checkpoint_step(slash ? slash + 1 : path);
  StepList all = checkpoint_steps(a, folder);
  uint32_t i = 0;
  while (i < all.n && (all.at[i].step >= step || !all.at[i].complete)) i++;
  if (step < 0 || i == all.n) return;
  diag_hint(d,
            "the checkpoint before it is %s/%s: train --resume=%lld goes on from it, --checkpoint "
            "%s/%s reads it",
            folder, all.at[i].name, (long long)all.at[i].step, folder, all.at[i].name);
}

static bool malformed(const ManifestReader *r, const char *what) {
  (void)file_malformed(r->file, what, r->d, r->at);
  hint_older(r->a, r->out->path, r->d);
  return false;
}

// Returns the text of the manifest, malloc'd; *n gets its length. Returns NULL after an error in
// r->d.
static char *read_text(const ManifestReader *r, size_t *n) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, r->file, r->d, r->at)) return NULL;
  char *text = datafile_whole(&f, MANIFEST_MOST, why);
  *n = (size_t)f.size;
  datafile_close(&f);
  if (!text) (void)malformed(r, why);
  return text;
}

static json_t *read_manifest(const ManifestReader *r) {
  size_t n;
  json_error_t e;
  char *text = read_text(r, &n);
  if (!text) return NULL;
  json_t *root = NULL;
  if (!manifest_holds(text, n))
    (void)malformed(r, "is damaged: its checksum does not fit");
  else if (!(root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e)))
    (void)malformed(r, arena_printf(r->a, "is no JSON: line %d: %.120s", e.line, e.text));
  free(text);
  return root;
}

static const char *text_of(const ManifestReader *r, json_t *x) {
  const char *s = json_string_value(x);
  return s ? arena_text(r->a, s, strlen(s)) : "";
}

static bool read_note(const ManifestReader *r, json_t *root) {
  const char *wrong = position_read(root, &r->out->note);
  if (wrong) return malformed(r, wrong);
  r->out->model = text_of(r, json_object_get(root, "model"));
  r->out->version = text_of(r, json_object_get(root, "version"));
  return true;
}

static void read_mesh(const ManifestReader *r, json_t *mesh) {
  const char *key, *text = "";
  json_t *value;
  json_object_foreach(mesh, key, value) text = arena_printf(
      r->a, "%s%s%s=%lld", text, *text ? " " : "", key, (long long)json_integer_value(value));
  r->out->mesh = *text ? text : "one processor";
}

static bool read_shards(const ManifestReader *r, json_t *list) {
  Checkpoint *c = r->out;
  c->shard = arena_array(r->a, CheckpointShard, json_array_size(list) + 1);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *file, *sum;
    json_int_t bytes;
    char *end;
    if (json_unpack(json_array_get(list, i), "{s:s, s:I, s:s}", "file", &file, "bytes", &bytes,
                    "crc32c", &sum) != 0)
      return malformed(r, "has a broken entry of a shard");
    if (strchr(file, '/') || file[0] == '.')
      return malformed(r, "names a shard outside its folder");
    c->shard[c->nshards++] = (CheckpointShard){.path = arena_printf(r->a, "%s/%s", c->path, file),
                                               .bytes = bytes,
                                               .sum = (uint32_t)strtoul(sum, &end, 16)};
    if (bytes < 0 || !size_add(c->bytes, bytes, &c->bytes))
      return malformed(r, "gives a shard a size that cannot be");
  }
  return true;
}

static bool read_numbers(json_t *list, int n, int64_t *out) {
  if (json_array_size(list) != (size_t)n) return false;
  for (int i = 0; i < n; i++) {
    json_t *x = json_array_get(list, (size_t)i);
    if (!json_is_integer(x)) return false;
    out[i] = json_integer_value(x);
  }
  return true;
}

static bool read_piece(const ManifestReader *r, json_t *x, CheckpointTensor *t,
                       CheckpointPiece *p) {
  json_int_t shard;
  json_t *at, *size;
  if (json_unpack(x, "{s:I, s:o, s:o}", "shard", &shard, "at", &at, "size", &size) != 0 ||
      shard < 0 || shard >= (json_int_t)r->out->nshards || !read_numbers(at, t->rank, p->at) ||
      !read_numbers(size, t->rank, p->size))
    return malformed(r, arena_printf(r->a, "has a broken piece of %s", t->name));
  p->shard = (uint32_t)shard;
  p->elements = 1;
  for (int i = 0; i < t->rank; i++) {
    if (p->at[i] < 0 || p->size[i] < 1 || p->size[i] > t->size[i] ||
        p->at[i] > t->size[i] - p->size[i])
      return malformed(r, arena_printf(r->a, "has a piece outside of %s", t->name));
    p->elements *= p->size[i]; // cannot overflow: a piece lies within t
  }
  return true;
}

// -- whether pieces tile their tensor -----------------------------------------------------------
//
// A piece is the box of elements that one shard has. Give each corner of a box a sign: -1 if an odd
// number of its coordinates are upper ends of the box, otherwise 1. At each point, add up the signs
// of the corners of all pieces there. Each element is in exactly one piece if and only if these
// sums equal the signs of the corners of the full tensor, and are 0 at all other points. Only dims
// that are split need be considered.

typedef struct Corner {
  // the point as one number: its row-major index in a grid with size + 1 points along each split
  // dim
  int64_t at;
  int sign;
} Corner;

static int by_place(const void *a, const void *b) {
  const Corner *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

// Writes the 2^n corners of a box in the n dims `split` to `out`, with their signs times `sign`.
// `at` and `size` are those of the box. Returns the number of corners.
static size_t put_corners(const CheckpointTensor *t, const int64_t *at, const int64_t *size,
                          const int *split, int n, int sign, Corner *out) {
  for (unsigned k = 0; k < 1u << n; k++) {
    out[k] = (Corner){0, sign};
    for (int i = 0; i < n; i++) {
      bool upper = k >> i & 1;
      out[k].at = out[k].at * (t->size[split[i]] + 1) + at[split[i]] + (upper ? size[split[i]] : 0);
      if (upper) out[k].sign = -out[k].sign;
    }
  }
  return (size_t)1 << n;
}

static int split_dims(const CheckpointTensor *t, int *split) {
  int n = 0;
  for (int i = 0; i < t->rank; i++) {
    bool is_split = false;
    for (uint32_t k = 0; k < t->npieces; k++) is_split |= t->piece[k].size[i] != t->size[i];
    if (is_split) split[n++] = i;
  }
  return n;
}

static bool pieces_tile(const CheckpointTensor *t) {
  static const int64_t origin[MAX_RANK];
  int split[MAX_RANK], n = split_dims(t, split);
  if (n > MAX_AXES) return false; // more split dims than a mesh can have axes
  size_t each = (size_t)1 << n, total = 0;
  Corner *corner = mem_zeroed(t->npieces + 1u, each * sizeof *corner);
  for (uint32_t k = 0; k < t->npieces; k++)
    total += put_corners(t, t->piece[k].at, t->piece[k].size, split, n, 1, corner + total);
  total += put_corners(t, origin, t->size, split, n, -1, corner + total);
  qsort(corner, total, sizeof *corner, by_place);
  int64_t sum = 0;
  for (size_t k = 0; k < total; k++) {
    sum += corner[k].sign;
    if ((k + 1 == total || corner[k + 1].at != corner[k].at) && sum != 0) break;
  }
  free(corner);
  return sum == 0;
}

static bool read_dims(const ManifestReader *r, json_t *dims, CheckpointTensor *t) {
  if (json_array_size(dims) > MAX_RANK) return malformed(r, "has a tensor of too many dims");
  t->rank = (int)json_array_size(dims);
  t->elements = 1;
  for (int i = 0; i < t->rank; i++) {
    json_t *dim = json_array_get(dims, (size_t)i);
    t->dim[i] = text_of(r, json_array_get(dim, 0));
    t->size[i] = json_integer_value(json_array_get(dim, 1));
    if (t->size[i] < 1 || !size_mul(t->elements, t->size[i], &t->elements) ||
        t->elements > INT64_C(1) << 40)
      return malformed(r, arena_printf(r->a, "gives %s a size that cannot be", t->name));
  }
  return true;
}

static bool read_tensor(const ManifestReader *r, json_t *x, CheckpointTensor *t) {
  json_t *name, *kind, *type, *dims, *pieces;
  if (json_unpack(x, "{s:o, s:o, s:o, s:o, s:o}", "name", &name, "kind", &kind, "type", &type,
                  "dims", &dims, "pieces", &pieces) != 0)
    return malformed(r, "has a broken entry of a tensor");
  t->name = text_of(r, name);
  t->kind = text_of(r, kind);
  int found = 0;
  while (found < TYPE_COUNT && strcmp(dtype_text((Dtype)found), text_of(r, type)) != 0) found++;
  if (found == TYPE_COUNT)
    return malformed(r, arena_printf(r->a, "gives %s an unknown type", t->name));
  t->type = (Dtype)found;
  if (!read_dims(r, dims, t)) return false;
  t->piece = arena_array(r->a, CheckpointPiece, json_array_size(pieces) + 1);
  if (json_array_size(pieces) > r->out->nshards)
    return malformed(r, arena_printf(r->a, "has more pieces of %s than shards", t->name));
  for (size_t i = 0; i < json_array_size(pieces); i++)
    if (!read_piece(r, json_array_get(pieces, i), t, &t->piece[t->npieces++])) return false;
  return pieces_tile(t) ||
         malformed(
             r, arena_printf(r->a, "has pieces of %s that overlap or leave a part out", t->name));
}

static bool read_tensors(const ManifestReader *r, json_t *list) {
  Checkpoint *c = r->out;
  c->tensor = arena_array(r->a, CheckpointTensor, json_array_size(list) + 1);
  for (size_t i = 0; i < json_array_size(list); i++)
    if (!read_tensor(r, json_array_get(list, i), &c->tensor[c->ntensors++])) return false;
  return true;
}

static void no_checkpoint(const char *path, Diag *d, Pos at) {
  struct stat info;
  if (stat(path, &info) != 0)
    diag_error(d, DIAG_FILE_MISSING, at, "cannot read the checkpoint %s: %s", path,
               strerror(errno));
  else
    diag_error(d, DIAG_FILE_MISSING, at, "%s is no checkpoint and holds none", path);
  diag_hint(d, "meshc train --checkpoint-dir DIR writes DIR/step-N");
}

static void warn_skipped(const char *path, const StepList *all, uint32_t skipped, Diag *d, Pos at) {
  for (uint32_t i = 0; i < skipped; i++)
    diag_warning(d, DIAG_CHECKPOINT_SKIPPED, at,
                 "%s/%s is ignored: it has no manifest.json, so it is no complete checkpoint", path,
                 all->at[i].name);
}

Checkpoint *checkpoint_open(Arena *a, const char *path, Diag *d, Pos at) {
  StepList all;
  uint32_t skipped;
  const char *folder = find_checkpoint(a, path, &all, &skipped);
  if (!folder) {
    no_checkpoint(path, d, at);
    return NULL;
  }
  warn_skipped(path, &all, skipped, d, at);
  Checkpoint *c = arena_new_of(a, Checkpoint);
  c->path = folder;
  ManifestReader r = {a, d, at, arena_printf(a, "%s/%s", folder, CHECKPOINT_MANIFEST), c};
  json_t *root = read_manifest(&r);
  if (!root) return NULL;
  read_mesh(&r, json_object_get(root, "mesh"));
  c->nfacts = facts_read(a, root, &c->facts);
  bool good = read_note(&r, root) && read_shards(&r, json_object_get(root, "shards")) &&
              read_tensors(&r, json_object_get(root, "tensors"));
  json_decref(root);
  return good ? c : NULL;
}

// -- loading tensors ----------------------------------------------------------------------------

static bool damaged(const CheckpointShard *s, Diag *d, Pos at, const char *why) {
  (void)file_malformed(s->path, why, d, at);
  const char *slash = strrchr(s->path, '/');
  Arena *a = arena_new();
  if (slash) hint_older(a, arena_text(a, s->path, (size_t)(slash - s->path)), d);
  arena_free(a);
  return false;
}

static bool check_shard(const CheckpointShard *s, const Datafile *f, Diag *d, Pos at) {
  enum { PIECE = 1 << 22 };
  char why[WHY], *piece = mem_alloc(PIECE);
  uint32_t sum = 0;
  bool good = true;
  if (f->size != s->bytes) {
    snprintf(why, sizeof why, "is torn: it has %lld of %lld bytes", (long long)f->size,
             (long long)s->bytes);
    free(piece);
    return damaged(s, d, at, why);
  }
  for (int64_t i = 0; good && i < s->bytes; i += PIECE) {
    int64_t n = s->bytes - i < PIECE ? s->bytes - i : PIECE;
    good = datafile_read(f, i, n, piece, why);
    if (good) sum = crc32c(sum, piece, (size_t)n);
  }
  free(piece);
  if (!good) return damaged(s, d, at, why);
  return sum == s->sum || damaged(s, d, at, "is damaged: its checksum does not fit");
}

typedef struct Loader {
  const Checkpoint *c;
  Datafile *file; // by shard: its open file
  Diag *d;
  Pos at;
} Loader;

static bool open_shards(Loader *l) {
  for (uint32_t i = 0; i < l->c->nshards; i++) {
    if (!datafile_open(&l->file[i], l->c->shard[i].path, l->d, l->at)) {
      l->file[i].fd = -1;
      return false;
    }
    if (!check_shard(&l->c->shard[i], &l->file[i], l->d, l->at)) return false;
  }
  return true;
}

static bool load_piece(const Loader *l, const CheckpointTensor *t, const CheckpointPiece *p,
                       char *full) {
  const CheckpointShard *s = &l->c->shard[p->shard];
  ArrayPlace place;
  char why[WHY];
  int64_t to[MAX_RANK], from[MAX_RANK], at = 0, each = dtype_bytes(t->type);
  if (!safetensors_find(&l->file[p->shard], t->name, &place, why))
    return damaged(s, l->d, l->at, why);
  if (place.elements != p->elements || place.raw.bytes != each)
    return damaged(s, l->d, l->at, "is not as its manifest says");
  row_strides(t->rank, t->size, to);
  row_strides(t->rank, p->size, from);
  for (int i = 0; i < t->rank; i++) at += p->at[i] * to[i];
  char *block = mem_alloc((size_t)(p->elements * each));
  bool good = datafile_read(&l->file[p->shard], place.offset, p->elements * each, block, why);
  if (good) box_copy(t->rank, p->size, each, full + at * each, to, block, from);
  free(block);
  return good || damaged(s, l->d, l->at, why);
}

static const CheckpointTensor *find_tensor(const Checkpoint *c, const char *name) {
  for (uint32_t i = 0; i < c->ntensors; i++)
    if (strcmp(c->tensor[i].name, name) == 0) return &c->tensor[i];
  return NULL;
}

static bool shape_fits(const Loader *l, const CheckpointTensor *x, const ProgTensor *t) {
  int64_t size[MAX_RANK];
  bool same = x->rank == t->rank;
  for (int i = 0; i < t->rank; i++) {
    size[i] = t->dim[t->declared[i]].whole;
    same = same && x->size[i] == size[i];
  }
  if (same) return true;
  char got[256], want[256];
  diag_error(l->d, DIAG_DATA_SHAPE, l->at, "%s holds %s for %s, the model declares %s", l->c->path,
             sizes_text(x->rank, x->size, got, sizeof got), t->name,
             sizes_text(t->rank, size, want, sizeof want));
  if (t->pos.line) diag_note(l->d, t->pos, "declared here");
  return false;
}

static bool load_tensor(const Loader *l, Exec *e, const ProgTensor *t, const CheckpointTensor *x) {
  if (!shape_fits(l, x, t)) return false;
  Array full = {.type = x->type, .rank = x->rank, .elements = x->elements};
  memcpy(full.size, x->size, sizeof full.size);
  full.data = mem_alloc((size_t)(x->elements * dtype_bytes(x->type)));
  bool good = true;
  for (uint32_t i = 0; good && i < x->npieces; i++)
    good = load_piece(l, x, &x->piece[i], full.data);
  good = good && array_fits(&full, t->type, t->name, l->d, l->at);
  if (good) exec_write(e, t->kind, t->name, x->type, full.data);
  array_free(&full);
  return good;
}

// Returns the tensor of the checkpoint to load into t, whose name is NAME. With `average` this is
// the tensor average.NAME, if the checkpoint has it, otherwise the tensor NAME. Returns NULL if the
// checkpoint has neither.
static const CheckpointTensor *tensor_for(const Checkpoint *c, const ProgTensor *t, bool average) {
  char name[1024];
  snprintf(name, sizeof name, "average.%s", t->name);
  const CheckpointTensor *x = average && t->kind == TENSOR_PARAM ? find_tensor(c, name) : NULL;
  return x ? x : find_tensor(c, t->name);
}

static bool load_tensors(const Loader *l, Exec *e, bool slots, bool average) {
  bool good = true;
  for (uint32_t i = 0; i < e->program->ntensors; i++) {
    const ProgTensor *t = &e->program->tensor[i];
    if (t->kind != TENSOR_PARAM && t->kind != TENSOR_STATE && !(slots && t->kind == TENSOR_SLOT))
      continue;
    if (tensor_is_of_text(t)) continue;
    const CheckpointTensor *x = tensor_for(l->c, t, average);
    if (x) {
      good = load_tensor(l, e, t, x) && good;
      continue;
    }
    diag_error(l->d, DIAG_PARAM_MISSING, l->at, "the checkpoint %s holds no value for %s",
               l->c->path, t->name);
    diag_hint(l->d,
              t->kind == TENSOR_SLOT
                  ? "another optimizer wrote it, or another model than %s; go on with those"
                  : "it is of the model %s; go on with the model that wrote it",
              l->c->model);
    if (t->pos.line) diag_note(l->d, t->pos, "declared here");
    good = false;
  }
  return good;
}

bool checkpoint_load(const Checkpoint *c, Exec *e, bool slots, bool average, Diag *d, Pos at) {
  (void)mem_doing("loading the checkpoint", c->path);
  Loader l = {c, mem_zeroed(c->nshards + 1u, sizeof(Datafile)), d, at};
  for (uint32_t i = 0; i < c->nshards; i++) l.file[i].fd = -1;
  bool good = open_shards(&l) && load_tensors(&l, e, slots, average);
  for (uint32_t i = 0; i < c->nshards; i++)
    if (l.file[i].fd >= 0) datafile_close(&l.file[i]);
  free(l.file);
  return good;
}
