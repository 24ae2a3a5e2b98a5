// Copies full arrays, in declared order of dims, to and from the blocks of all processors. Also
// reports an index of the model that is out of range in a step.
#include "runtime/exec/exec_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Move {
  char *block;
  const char *in; // full array to write to the blocks; NULL: the blocks are read into `out`
  char *out;
  Dtype type, whole_type;
  int64_t moved; // bytes of the block so far
} Move;

static void write_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  Move *m = context;
  int64_t to = dtype_bytes(m->type), from = dtype_bytes(m->whole_type);
  m->moved += n * to;
  char *dst = m->block + at * to;
  const char *src = m->in + index * from;
  if (m->type == m->whole_type && step == 1) {
    memcpy(dst, src, (size_t)(n * to));
  } else if (m->type == m->whole_type) {
    for (int64_t i = 0; i < n; i++) memcpy(dst + i * to, src + i * step * from, (size_t)to);
  } else {
    for (int64_t i = 0; i < n; i++)
      dtype_store(m->type, dst + i * to,
                  dtype_round(m->type, dtype_load(m->whole_type, src + i * step * from)));
  }
}

static void read_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  Move *m = context;
  int64_t bytes = dtype_bytes(m->type);
  const char *src = m->block + at * bytes;
  char *dst = m->out + index * bytes;
  m->moved += n * bytes;
  if (step == 1) {
    memcpy(dst, src, (size_t)(n * bytes));
    return;
  }
  for (int64_t i = 0; i < n; i++) memcpy(dst + i * step * bytes, src + i * bytes, (size_t)bytes);
}

void exec_write(Exec *e, TensorKind kind, const char *name, Dtype type, const void *full) {
  int32_t i = program_tensor(e->program, kind, name);
  if (i >= 0) exec_write_tensor(e, (uint32_t)i, type, full);
}

void exec_write_tensor(Exec *e, uint32_t tensor, Dtype type, const void *full) {
  const ProgTensor *t = &e->program->tensor[tensor];
  exec_writes(e, tensor);
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    if (t->at.common && !exec_keeps(e, r, tensor)) continue;
    Move m = {e->context[r].tensor[tensor], full, NULL, t->type, type, 0};
    block_visit(e->program, t, r, e->rows, write_run, &m);
  }
  exec_wrote(e, tensor);
}

void exec_write_part(Exec *e, uint32_t tensor, int axis, int64_t first, int64_t n,
                     const void *part) {
  const ProgTensor *t = &e->program->tensor[tensor];
  const BlockPart which = {t->declared[axis], first, n};
  exec_writes(e, tensor);
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    if (t->at.common && !exec_keeps(e, r, tensor)) continue;
    Move m = {e->context[r].tensor[tensor], part, NULL, t->type, t->type, 0};
    block_visit_part(e->program, t, r, e->rows, &which, write_run, &m);
  }
  exec_wrote(e, tensor);
}

static bool all_seen(const Exec *e) { return ranks_local_processors(e->ranks) == e->processors; }

// Restricts feed f to read only those rows of input number i that the processors of this rank
// (process) use. With `incomplete` the restriction applies to incomplete batches, otherwise to full
// ones.
static void restrict_input(const Exec *e, Feed *f, uint32_t i, bool incomplete) {
  const FeedInput *input;
  feed_inputs(f, &input);
  int32_t t = program_tensor(e->program, TENSOR_INPUT, input[i].name);
  if (t < 0 || e->program->tensor[t].rank != input[i].rank) return;
  const ProgTensor *x = &e->program->tensor[t];
  const ProgDim *d = &x->dim[x->declared[input[i].over]];
  int64_t from = INT64_MAX, to = 0;
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    int64_t first = block_offset(&e->program->mesh, d, r),
            end = first + block_valid(e->program, d, r, -1);
    if (first < from) from = first;
    if (end > to) to = end;
  }
  feed_restrict(f, i, incomplete, from, to);
}

void exec_restrict_feed(const Exec *e, const Exec *last, Feed *f) {
  const FeedInput *input;
  uint32_t n = feed_inputs(f, &input);
  for (uint32_t i = 0; e->ranks && i < n; i++) {
    restrict_input(e, f, i, false);
    restrict_input(last ? last : e, f, i, true);
  }
}

bool exec_meet_readers(const Exec *e, bool done, bool *first_says) {
  RankNote mine = {.what = NOTE_READ, .elements = done, .value = first_says && *first_says};
  const RankNote *const *all;
  if (!e->ranks) return true;
  if (!ranks_meet(e->ranks, &mine, false, &all)) return false;
  if (first_says) *first_says = all[0]->value;
  return true;
}

const char *exec_block(const Exec *e, uint32_t t, int64_t r, char *room) {
  const char *block = e->context[r].tensor[t];
  if (!exec_fetch(e, t)) return NULL;
  if (!e->ranks || all_seen(e)) return block;
  if (!ranks_broadcast_block(e->ranks, r, block, e->program->tensor[t].bytes, room)) return NULL;
  return block ? block : room;
}

bool exec_fetch_kept(const Exec *e) {
  for (uint32_t t = 0; t < e->program->ntensors; t++)
    if (tensor_is_persistent(e->program, t) && !exec_fetch(e, t)) return false;
  return true;
}

int64_t exec_block_bytes(const Exec *e) {
  int64_t most = 0;
  for (uint32_t t = 0; e->ranks && !all_seen(e) && t < e->program->ntensors; t++)
    if (e->program->tensor[t].bytes > most) most = e->program->tensor[t].bytes;
  return most;
}

// -- shards of tensors --------------------------------------------------------------------------

// Returns the bytes of the elements of processor r's block that are not padding.
static int64_t shard_bytes(const Program *p, const ProgTensor *t, int64_t r) {
  int64_t n = dtype_bytes(t->type);
  for (int d = 0; d < t->rank; d++) n *= block_valid(p, &t->dim[d], r, -1);
  return n;
}

static bool is_elsewhere(const Program *p, const ShardRange *of, int64_t r) {
  return axes_rank(&p->mesh, of->over, r) != of->group;
}

int64_t exec_scatter(const Exec *e, uint32_t tensor, const ShardRange *of, const void *full) {
  const ProgTensor *t = &e->program->tensor[tensor];
  int64_t bytes = 0;
  for (int64_t r = of->first; r < of->first + of->n; r++) {
    Move m = {e->context[r].tensor[tensor], full, NULL, t->type, t->type, 0};
    block_visit(e->program, t, r, -1, write_run, &m);
    if (is_elsewhere(e->program, of, r)) bytes += m.moved;
  }
  return bytes;
}

int64_t exec_gather(const Exec *e, uint32_t tensor, const ShardRange *of, void *full) {
  const ProgTensor *t = &e->program->tensor[tensor];
  int64_t bytes = 0;
  for (int64_t r = of->first; r < of->first + of->n; r++) {
    if (block_replica(&e->program->mesh, t, r) != 0) continue;
    Move m = {e->context[r].tensor[tensor], NULL, full, t->type, t->type, 0};
    block_visit(e->program, t, r, -1, read_run, &m);
    if (is_elsewhere(e->program, of, r)) bytes += m.moved;
  }
  return bytes;
}

int64_t shards_predict(const Program *p, uint32_t tensor, const ShardRange *of, bool gather) {
  const ProgTensor *t = &p->tensor[tensor];
  int64_t bytes = 0;
  for (int64_t r = of->first; r < of->first + of->n; r++)
    if (is_elsewhere(p, of, r) && !(gather && block_replica(&p->mesh, t, r) != 0))
      bytes += shard_bytes(p, t, r);
  return bytes;
}

int64_t exec_replicas(const Exec *e, TensorKind kind, const char *name) {
  int32_t i = program_tensor(e->program, kind, name);
  return i < 0 ? 0 : block_replicas(&e->program->mesh, &e->program->tensor[i]);
}

static void read_replica(const Exec *e, uint32_t i, int64_t replica, void *full) {
  const ProgTensor *t = &e->program->tensor[i];
  // after a failure, which the next step reports, there is nothing to read
  if (!exec_fetch(e, i) || !exec_meet_readers(e, false, NULL)) return;
  char *room = mem_alloc((size_t)exec_block_bytes(e) + 1);
  // elements without a row: a rename of the rows in an incomplete batch has some
  if (full && e->rows >= 0) memset(full, 0, (size_t)block_full_bytes(e->program, t, e->rows));
  for (int64_t r = 0; r < e->processors; r++) {
    if (block_replica(&e->program->mesh, t, r) != replica) continue;
    const char *block = exec_block(e, i, r, room);
    if (!block) break;
    Move m = {(char *)(uintptr_t)block, NULL, full, t->type, t->type, 0};
    if (full) block_visit(e->program, t, r, e->rows, read_run, &m);
  }
  free(room);
  if (!exec_meet_readers(e, true, NULL)) return;
}

void exec_read(const Exec *e, TensorKind kind, const char *name, void *full) {
  exec_read_replica(e, kind, name, 0, full);
}

void exec_read_replica(const Exec *e, TensorKind kind, const char *name, int64_t replica,
                       void *full) {
  int32_t i = program_tensor(e->program, kind, name);
  if (i < 0) BUG("program has no tensor %s", name);
  read_replica(e, (uint32_t)i, replica, full);
}

void exec_read_tensor(const Exec *e, uint32_t tensor, void *full) {
  read_replica(e, tensor, 0, full);
}

// Returns whether a batch of fewer rows (exec_rows) has fewer elements of dim d.
static bool has_fewer(const Exec *e, const ProgDim *d) {
  return e->rows >= 0 && e->program->over && d->name && strcmp(d->name, e->program->over) == 0;
}

void *exec_direct(const Exec *e, TensorKind kind, const char *name) {
  int32_t i = program_tensor(e->program, kind, name);
  return i < 0 ? NULL : exec_direct_tensor(e, (uint32_t)i);
}

void *exec_direct_tensor(const Exec *e, uint32_t tensor) {
  const ProgTensor *t = &e->program->tensor[tensor];
  int last = -1; // the place in memory of the dim before, of those with several elements
  if (e->processors > 1 || e->device) return NULL;
  for (int i = 0; i < t->rank; i++) {
    const ProgDim *d = &t->dim[t->declared[i]];
    if (has_fewer(e, d) || (d->whole > 1 && t->declared[i] < last)) return NULL;
    if (d->whole > 1) last = t->declared[i];
  }
  return e->context[0].tensor[tensor];
}

double exec_scalar(const Exec *e, const char *output) {
  int32_t i = program_tensor(e->program, TENSOR_OUTPUT, output);
  if (i < 0) BUG("program has no output %s", output);
  if (!exec_fetch(e, (uint32_t)i)) return (double)NAN; // the next step reports why
  return dtype_load(e->program->tensor[i].type, e->context[e->first].tensor[i]);
}

// -- reporting an index out of range ------------------------------------------------------------

// Computes the position in a full tensor from the row-major position `at` in processor r's block:
// out[d] gets the index along dim d. The tensor has the positions at which check c tested an index
// of the model.
static void unflatten(const Program *p, const Check *c, int64_t r, int64_t at, int64_t *out) {
  for (int d = c->rank - 1; d >= 0; d--) {
    int64_t n = c->loop[d].block > 0 ? c->loop[d].block : 1;
    out[d] = block_offset(&p->mesh, &c->loop[d], r) + at % n;
    at /= n;
  }
}

static bool is_earlier(const int64_t *a, const int64_t *b, int n) {
  for (int i = 0; i < n; i++)
    if (a[i] != b[i]) return a[i] < b[i];
  return false;
}

// Returns the first fault of the step, ordered by instruction, then by position in the full tensor;
// NULL if there is no fault. *position gets the position. So the fault is equal on every mesh.
static const StepFault *find_fault(const Exec *e, int64_t *position) {
  const StepFault *best = NULL;
  for (int64_t i = 0; i < e->processors * e->workers; i++) {
    const StepFault *f = &e->fault[i];
    if (f->status.code == 0 || f->status.code > e->program->nchecks) continue;
    if (best && f->instr > best->instr) continue;
    const Check *c = &e->program->check[f->status.code - 1];
    int64_t at[MAX_RANK] = {0};
    unflatten(e->program, c, i / e->workers, f->status.position, at);
    bool same = best && f->instr == best->instr && f->status.code == best->status.code;
    if (best && f->instr == best->instr && (!same || !is_earlier(at, position, c->rank))) continue;
    best = f;
    memcpy(position, at, sizeof at);
  }
  return best;
}

const StepFault *exec_first_fault(const Exec *e) {
  int64_t position[MAX_RANK];
  return find_fault(e, position);
}

// Returns the index in c->loop of the dim of replicas, whose rows have a dim NAME.local; or -1.
static int replicas_of(const Check *c) {
  for (int i = 0; i < c->rank; i++) {
    size_t n = strlen(c->loop[i].name);
    const char *rows = c->loop[c->row - 1].name;
    if (!strncmp(rows, c->loop[i].name, n) && !strcmp(rows + n, ".local")) return i;
  }
  return -1;
}

// Returns the check of fault f. The rows of a micro-batch or replica become rows of the batch, in
// *position too: kind[b=1, b.local=2] of replicas with 4 rows becomes kind[b=6].
static Check whole_check(const Exec *e, const StepFault *f, int64_t *position) {
  Check c = e->program->check[f->status.code - 1];
  if (!c.row) return c;
  ProgDim *row = &c.loop[c.row - 1];
  int replicas = replicas_of(&c);
  position[c.row - 1] += c.first;
  if (replicas >= 0) {
    position[c.row - 1] += position[replicas] * row->whole;
    row->name = c.loop[replicas].name;
    c.without |= (uint16_t)(1U << replicas);
  }
  row->whole = c.batch;
  return c;
}

bool exec_fault_row(const Exec *e, const char *over, int64_t rows, FaultRow *out) {
  int64_t position[MAX_RANK] = {0};
  const StepFault *f = e->result == STEP_BAD_INDEX ? find_fault(e, position) : NULL;
  if (!f || !over) return false;
  const Check c = whole_check(e, f, position);
  *out = (FaultRow){c.value, c.dim, f->status.value, c.size, -1};
  for (int i = 0; i < c.rank; i++)
    if ((i + 1 == c.row || !strcmp(c.loop[i].name, over)) && c.loop[i].whole == rows &&
        !(c.without >> i & 1))
      out->row = position[i];
  return out->row >= 0;
}

// Writes a text such as ", in step 3 of the scan over t" to `out`. It names the current iteration
// of each loop around the instruction with fault f, outermost loop first.
static void loops_text(const Program *p, const StepFault *f, char *out, size_t room) {
  int depth = 0;
  size_t n = 0;
  for (uint32_t i = 0; i < f->instr && depth < FAULT_DEPTH && n < room; i++) {
    const Instr *in = &p->instr[i];
    if (in->kind != INSTR_LOOP || in->u.loop.end < f->instr) continue;
    n += (size_t)snprintf(out + n, room - n, ", in step %lld of the scan over %s",
                          (long long)f->at[depth], in->u.loop.dim);
    depth++;
  }
}

void exec_fault(const Exec *e, Diag *d) {
  if (!exec_works(e, d)) return;
  if (e->result == STEP_FAILED) { // the run has failed, and ranks_leave reports the reason
    (void)ranks_lost(d);
    return;
  }
  int64_t position[MAX_RANK] = {0};
  const StepFault *f = find_fault(e, position);
  if (!f) {
    diag_error(d, DIAG_FAILURE, (Pos){0}, "a step failed and no processor says why");
    return;
  }
  const Check c = whole_check(e, f, position);
  char where[512] = "";
  size_t n = 0;
  for (int i = 0; i < c.rank && n < sizeof where; i++)
    if (!(c.without >> i & 1))
      n += (size_t)snprintf(where + n, sizeof where - n, "%s%s=%lld", n ? ", " : "", c.loop[i].name,
                            (long long)position[i]);
  char loops[256] = "";
  loops_text(e->program, f, loops, sizeof loops);
  diag_error(d, DIAG_INDEX_RANGE, c.pos, "%s%s%s%s is %lld, outside 0..%lld%s%s%s",
             c.value ? c.value : "an index", n ? "[" : "", where, n ? "]" : "",
             (long long)f->status.value, (long long)(c.size - 1), c.dim ? " of dim " : "",
             c.dim ? c.dim : "", loops);
}
