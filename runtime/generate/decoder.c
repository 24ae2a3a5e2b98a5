// Runs the programs of a decoding form (decoder.h).
//
//   prompt of 100 ids     one run of the program for up to 128 positions, 100 of them valid
//   each further id       one run of the program for one position
#include "runtime/generate/decoder.h"
#include "runtime/runtime_internal.h"

#include <stdlib.h>

enum {
  LEAST_CHUNK = 8, // fewer positions are run one at a time
  GROWS_BY = 16    // positions: a run of one reads a multiple of them
};
_Static_assert((int)DECODER_WHY == (int)WHY, "the room for a reason");

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

static const ProgDim *dim_of(const ProgTensor *t, int axis) { return &t->dim[t->declared[axis]]; }

static int64_t elements_of(const ProgTensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->dim[i].whole;
  return n;
}

// -- opening -------------------------------------------------------------------------------------

static const ProgTensor *find(const Program *p, TensorKind kind, const char *name) {
  int32_t i = program_tensor(p, kind, name);
  return i < 0 ? NULL : &p->tensor[i];
}

// Returns the axis of the tensor that runs over texts, or -1.
static int rows_axis(const DecoderFacts *f, const ProgTensor *t) {
  for (int i = 0; f->rows && i < t->rank; i++)
    if (strcmp(dim_of(t, i)->name, f->rows) == 0) return i;
  return -1;
}

// Sets rows, positions and the order of the ids from the input of the ids.
static bool take_ids(Decoder *d, DecoderProgram *p, char *why) {
  const ProgTensor *ids = find(p->program, TENSOR_INPUT, DECODE_IDS);
  int rank = d->facts.rows ? 2 : 1, axis = ids ? rows_axis(&d->facts, ids) : -1;
  if (!ids || ids->type != TYPE_I32 || ids->rank != rank || (rank == 2 && axis < 0))
    return why_not(why, "reads no ids over rows and positions");
  d->time_first = axis == 1;
  d->rows = axis < 0 ? 1 : dim_of(ids, axis)->whole;
  p->positions = elements_of(ids) / (d->rows > 0 ? d->rows : 1);
  return (d->rows > 0 && p->positions > 0) || why_not(why, "reads no ids");
}

static bool other_inputs(const Program *p, char *why) {
  for (uint32_t i = 0; i < p->ntensors; i++) {
    const ProgTensor *t = &p->tensor[i];
    bool scalar = strcmp(t->name, DECODE_POSITION) == 0 || strcmp(t->name, DECODE_COUNT) == 0;
    if (t->kind != TENSOR_INPUT || strcmp(t->name, DECODE_IDS) == 0) continue;
    if (!scalar || t->rank != 0 || t->type != TYPE_I32)
      return why_not(why, "reads the input %.80s, which no text has", t->name);
  }
  return true;
}

static bool take_logits(Decoder *d, const Program *p, char *why) {
  const ProgTensor *t = find(p, TENSOR_OUTPUT, DECODE_LOGITS);
  if (!t || !t->rank || !dtype_is_float(t->type)) return why_not(why, "has no logits");
  d->type = t->type;
  d->vocab = dim_of(t, t->rank - 1)->whole;
  return (d->vocab > 0 && d->vocab <= INT32_MAX && elements_of(t) == d->rows * d->vocab) ||
         why_not(why, "has other logits than one row for each text");
}

// Returns whether the rows of a run fit the state; exec_write_part leaves out those behind its end.
static bool kept_fits(const DecoderProgram *p, const KeptRows *k) {
  const ProgTensor *state = &p->program->tensor[k->state], *rows = &p->program->tensor[k->rows];
  if (state->rank != rows->rank || k->axis < 0 || k->axis >= state->rank ||
      state->type != rows->type)
    return false;
  for (int i = 0; i < state->rank; i++) {
    int64_t own = dim_of(rows, i)->whole, all = dim_of(state, i)->whole;
    if (own != (i == k->axis ? p->positions : all)) return false;
  }
  return true;
}

// Sets p->growing if a run of one position reads only those so far.
static bool take_growing(DecoderProgram *p, uint32_t nkept, char *why) {
  if (!p->program->over) return true;
  for (uint32_t i = 0; i < nkept; i++) {
    const ProgDim *d = dim_of(&p->program->tensor[p->kept[i].state], p->kept[i].axis);
    if (!d->name || strcmp(d->name, p->program->over) != 0) continue;
    p->growing = d->whole;
  }
  return (p->growing && p->positions == 1) ||
         why_not(why, "has %.80s rows that are no positions", p->program->over);
}

// Finds the tensors of states with a row for each position. *most gets the bytes of the largest
// rows, if they are more.
static bool find_kept(const Decoder *d, Arena *a, DecoderProgram *p, int64_t *most, char *why) {
  p->kept = arena_array(a, KeptRows, d->facts.nkept + 1);
  for (uint32_t i = 0; i < d->facts.nkept; i++) {
    const DecodeKept *k = &d->facts.kept[i];
    int32_t state = program_tensor(p->program, TENSOR_STATE, k->state),
            rows = program_tensor(p->program, TENSOR_OUTPUT, k->rows);
    p->kept[i] = (KeptRows){(uint32_t)state, (uint32_t)rows, k->axis};
    if (state < 0 || rows < 0 || !kept_fits(p, &p->kept[i]))
      return why_not(why, "has no state %.80s with a row for each position", k->state);
    const ProgTensor *t = &p->program->tensor[rows];
    int64_t bytes = elements_of(t) * dtype_bytes(t->type);
    if (bytes > *most) *most = bytes;
  }
  return true;
}

static bool take_program(Decoder *d, Arena *a, DecoderProgram *p, int64_t *most, char *why) {
  return take_ids(d, p, why) && other_inputs(p->program, why) && take_logits(d, p->program, why) &&
         find_kept(d, a, p, most, why) && take_growing(p, d->facts.nkept, why);
}

bool decoder_open(Arena *a, const DecoderFacts *facts, const DecoderProgram *step,
                  const DecoderProgram *chunk, Diag *diag, char why[DECODER_WHY], Decoder *out) {
  Decoder *d = out;
  int64_t most = 1;
  *d = (Decoder){.facts = *facts, .diag = diag, .step = *step, .chunk = *chunk};
  if (!take_program(d, a, &d->step, &most, why)) return false;
  if (d->step.positions != 1) return why_not(why, "has a step of several positions");
  int64_t rows = d->rows, vocab = d->vocab, together = 1;
  Dtype type = d->type;
  if (chunk->program) {
    if (!take_program(d, a, &d->chunk, &most, why)) return false;
    if (rows != d->rows || vocab != d->vocab || type != d->type)
      return why_not(why, "has two programs of other models");
    together = d->chunk.positions;
  }
  d->room = mem_alloc((size_t)most);
  d->logits = d->copy = mem_alloc((size_t)(d->rows * d->vocab * dtype_bytes(d->type)));
  d->ids = mem_alloc((size_t)(d->rows * together) * sizeof *d->ids);
  return true;
}

void decoder_free(Decoder *d) {
  free(d->copy);
  free(d->room);
  free(d->ids);
}

// -- running -------------------------------------------------------------------------------------

// Writes the rows that a run has output to the states.
static void keep_rows(Decoder *d, const DecoderProgram *p) {
  for (uint32_t i = 0; i < d->facts.nkept; i++) {
    const KeptRows *k = &p->kept[i];
    const void *rows = exec_direct_tensor(p->exec, k->rows);
    if (!rows) exec_read_tensor(p->exec, k->rows, d->room);
    exec_write_part(p->exec, k->state, k->axis, d->position, p->positions, rows ? rows : d->room);
  }
}

// Lets a run of one position read the positions up to its own, and a few more, so that sizes seldom
// change.
static void grow(const Decoder *d, const DecoderProgram *p) {
  if (p->growing) exec_rows(p->exec, least(p->growing, (d->position / GROWS_BY + 1) * GROWS_BY));
}

// Runs `valid` positions of a program, whose ids are in d->ids.
static bool run_once(Decoder *d, const DecoderProgram *p, int64_t valid) {
  int32_t position = (int32_t)d->position, count = (int32_t)valid;
  grow(d, p);
  exec_write(p->exec, TENSOR_INPUT, DECODE_IDS, TYPE_I32, d->ids);
  if (program_tensor(p->program, TENSOR_INPUT, DECODE_POSITION) >= 0)
    exec_write(p->exec, TENSOR_INPUT, DECODE_POSITION, TYPE_I32, &position);
  if (program_tensor(p->program, TENSOR_INPUT, DECODE_COUNT) >= 0)
    exec_write(p->exec, TENSOR_INPUT, DECODE_COUNT, TYPE_I32, &count);
  if (exec_step(p->exec, 0, true) != STEP_OK) {
    exec_fault(p->exec, d->diag);
    return false;
  }
  keep_rows(d, p);
  d->position += valid;
  d->logits = exec_direct(p->exec, TENSOR_OUTPUT, DECODE_LOGITS);
  if (!d->logits) {
    exec_read(p->exec, TENSOR_OUTPUT, DECODE_LOGITS, d->copy);
    d->logits = d->copy;
  }
  return exec_works(p->exec, d->diag);
}

// Sets d->ids to the ids of a run: `valid` of each row, and zeros.
static void take_run(Decoder *d, int64_t positions, int64_t valid, const int32_t *ids,
                     int64_t stride) {
  int64_t row = d->time_first ? 1 : positions, next = d->time_first ? d->rows : 1;
  memset(d->ids, 0, (size_t)(d->rows * positions) * sizeof *d->ids);
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t i = 0; i < valid; i++) d->ids[r * row + i * next] = ids[r * stride + i];
}

bool decoder_run(Decoder *d, int64_t n, const int32_t *ids, int64_t stride) {
  for (int64_t first = 0; first < n;) {
    bool chunk = d->chunk.program && n - first >= LEAST_CHUNK;
    const DecoderProgram *p = chunk ? &d->chunk : &d->step;
    int64_t valid = least(p->positions, n - first);
    take_run(d, p->positions, valid, ids + first, stride);
    if (!run_once(d, p, valid)) return false;
    first += valid;
  }
  return true;
}

void decoder_restart(Decoder *d) { d->position = 0; }

// -- beams ---------------------------------------------------------------------------------------

// Copies the rows of tensor t, of which `axis` runs over rows, from `old` to `new`.
static void take_rows(const ProgTensor *t, int axis, const int64_t *source, const char *old,
                      char *new) {
  int64_t outer = 1, inner = dtype_bytes(t->type), rows = dim_of(t, axis)->whole;
  for (int i = 0; i < axis; i++) outer *= dim_of(t, i)->whole;
  for (int i = axis + 1; i < t->rank; i++) inner *= dim_of(t, i)->whole;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t r = 0; r < rows; r++)
      memcpy(new + (o * rows + r) * inner, old + (o * rows + source[r]) * inner, (size_t)inner);
}

static bool reorder_state(Decoder *d, const ProgTensor *t, const int64_t *source) {
  int axis = rows_axis(&d->facts, t);
  if (axis < 0) return true;
  int64_t bytes = elements_of(t) * dtype_bytes(t->type);
  char *old = mem_alloc((size_t)bytes), *new = mem_alloc((size_t)bytes);
  exec_read(d->step.exec, TENSOR_STATE, t->name, old);
  take_rows(t, axis, source, old, new);
  exec_write(d->step.exec, TENSOR_STATE, t->name, t->type, new);
  free(old);
  free(new);
  return exec_works(d->step.exec, d->diag);
}

bool decoder_reorder(Decoder *d, const int64_t *source) {
  const Program *p = d->step.program;
  bool same = true, good = true;
  for (int64_t r = 0; r < d->rows; r++) same = same && source[r] == r;
  if (!same) exec_rows(d->step.exec, -1); // states are read in full
  for (uint32_t i = 0; i < p->ntensors && !same && good; i++)
    if (tensor_is_of_text(&p->tensor[i])) good = reorder_state(d, &p->tensor[i], source);
  return good;
}
