// Sets the initial values of parameters, states and optimizer tensors (slots): random numbers,
// constants, data of the program, or values from a file.
//
// A value depends only on the seed, the full name of the tensor and the index of the element in
// the full tensor, in declared order of dims (docs/decisions.md, 25). So it is equal on every mesh,
// and a new layer in a model changes no values of other layers.
#include "runtime/exec/exec_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PIECE = 512,
  SPAN = 1 << 16 // elements of a block that one worker draws, before those of the next worker
};

// How the block (the part of a tensor on one processor) is filled with initial values: random
// numbers or given values.
typedef struct Fill {
  const Init *init;
  Dtype type;
  uint64_t key;
  char *block;
  const double *values; // the elements of the full tensor in declared order; NULL if they are drawn
  int64_t nvalues;      // number of `values`; 1: every element has this value
  int worker, workers;  // which spans of the block are drawn
  int64_t at, n;        // elements that are drawn next: they begin at offset `at` in the block
  int64_t where[PIECE]; // their indices in the full tensor
} Fill;

static void store_all(const Fill *f, int64_t at, int64_t n, const double *x) {
  if (f->type == TYPE_F32) {
    float *to = (float *)(void *)f->block + at;
    for (int64_t i = 0; i < n; i++) to[i] = (float)x[i];
    return;
  }
  int64_t bytes = dtype_bytes(f->type);
  for (int64_t i = 0; i < n; i++)
    dtype_store(f->type, f->block + (at + i) * bytes, dtype_round(f->type, x[i]));
}

// Draws the elements that wait in f->where.
static void draw_waiting(Fill *f) {
  double x[PIECE];
  if (f->n > 0 && f->type == TYPE_F32) {
    rng_draw_floats(f->init, f->key, f->n, f->where, (float *)(void *)f->block + f->at);
  } else if (f->n > 0) {
    rng_draw(f->init, f->key, f->n, f->where, x);
    store_all(f, f->at, f->n, x);
  }
  f->n = 0;
}

// Draws a run of elements. They wait until there are PIECE elements, of this run and the next ones.
static void draw_elements(Fill *f, int64_t at, int64_t index, int64_t step, int64_t n) {
  if (f->at + f->n != at) draw_waiting(f);
  for (int64_t i = 0, m; i < n; i += m) {
    if (f->n == 0) f->at = at + i;
    m = n - i < PIECE - f->n ? n - i : PIECE - f->n;
    rng_indices(index + i * step, step, m, f->where + f->n);
    f->n += m;
    if (f->n == PIECE) draw_waiting(f);
  }
}

// Draws those elements of a run that lie in spans of f->worker.
static void draw_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  Fill *f = context;
  for (int64_t i = 0; i < n;) {
    int64_t span = (at + i) / SPAN, rest = (span + 1) * SPAN - (at + i);
    int64_t m = n - i < rest ? n - i : rest;
    if (span % f->workers == f->worker) draw_elements(f, at + i, index + i * step, step, m);
    i += m;
  }
}

static void value_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  const Fill *f = context;
  double x[PIECE];
  for (int64_t lo = 0; lo < n; lo += PIECE) {
    int64_t m = n - lo < PIECE ? n - lo : PIECE;
    for (int64_t i = 0; i < m; i++) x[i] = f->values[f->nvalues == 1 ? 0 : index + (lo + i) * step];
    store_all(f, at + lo, m, x);
  }
}

// -- filling one tensor -------------------------------------------------------------------------

static bool is_zero(const Fill *f) {
  return f->values && f->nvalues == 1 && f->values[0] == 0 && !signbit(f->values[0]);
}

// Returns whether the block of x on processor r is a copy of that on another processor of this
// process, whose index *first gets.
static bool is_copy(const Exec *e, const ProgTensor *x, int64_t r, int64_t *first) {
  *first = block_first(&e->program->mesh, x, r);
  return *first >= e->first && *first < r;
}

// Fills the blocks (parts) of tensor t on the processors of this process, but not the copies. The
// memory of the blocks is new, so its bytes are zero.
static void fill_blocks(Exec *e, uint32_t t, Fill *f, BlockRun *run) {
  const ProgTensor *x = &e->program->tensor[t];
  int64_t first;
  if (is_zero(f)) return;
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    if (is_copy(e, x, r, &first) || !exec_keeps(e, r, t)) continue;
    f->block = e->context[r].tensor[t];
    block_visit(e->program, x, r, -1, run, f);
    draw_waiting(f);
  }
}

static void fill_orthogonal(Exec *e, uint32_t t, Fill *f) {
  const ProgTensor *x = &e->program->tensor[t];
  double *values = orthogonal_draw(x, f->key);
  f->values = values;
  f->nvalues = INT64_MAX;
  fill_blocks(e, t, f, value_run);
  free(values);
}

static bool fill_from_file(Exec *e, uint32_t t, Diag *d) {
  const ProgTensor *x = &e->program->tensor[t];
  char *path = path_under(e->directory, x->init.path);
  Array array = {0};
  int64_t size[MAX_RANK];
  for (int i = 0; i < x->rank; i++) size[i] = x->dim[x->declared[i]].whole;
  bool ok = array_map(&array, path, x->init.key, d, x->pos);
  if (ok && !sizes_fit(array.rank, array.size, x->rank, size)) {
    char got[256], want[256];
    diag_error(d, DIAG_DATA_SHAPE, x->pos, "%s holds %s, but %s is %s", path,
               sizes_text(array.rank, array.size, got, sizeof got), x->name,
               sizes_text(x->rank, size, want, sizeof want));
    ok = false;
  }
  ok = ok && array_fits(&array, x->type, x->name, d, x->pos);
  if (ok)
    exec_write(e, x->kind, x->name, array.type,
               array.data); // writes to each block its part of the array
  array_free(&array);
  free(path);
  return ok;
}

static void fill_with(Exec *e, uint32_t t, Fill *f, int64_t n, const double *values) {
  f->values = values;
  f->nvalues = n;
  fill_blocks(e, t, f, value_run);
}

static Fill fill_of(const Exec *e, uint32_t t) {
  const ProgTensor *x = &e->program->tensor[t];
  return (Fill){.init = &x->init, .type = x->type, .key = rng_key(e->seed, x->name), .workers = 1};
}

static bool begins(const Exec *e, uint32_t t) {
  TensorKind k = e->program->tensor[t].kind;
  return (k == TENSOR_PARAM || k == TENSOR_STATE || k == TENSOR_SLOT) && e->own_offset[t] >= 0;
}

static bool is_drawn(const Exec *e, uint32_t t) {
  InitKind k = e->program->tensor[t].init.kind;
  return k == INIT_NORMAL || k == INIT_TRUNCATED_NORMAL || k == INIT_UNIFORM;
}

// Fills tensor t, unless its values are drawn. Values from a file are written to copies, too.
static bool initialise_tensor(Exec *e, uint32_t t, Diag *d) {
  const Init *init = &e->program->tensor[t].init;
  Fill f = fill_of(e, t);
  switch (init->kind) {
  case INIT_CONSTANT: fill_with(e, t, &f, 1, &init->a); return true;
  case INIT_DATA: fill_with(e, t, &f, init->ndata, init->data); return true;
  case INIT_NORMAL:
  case INIT_TRUNCATED_NORMAL:
  case INIT_UNIFORM: return true;
  case INIT_ORTHOGONAL: fill_orthogonal(e, t, &f); return true;
  case INIT_FILE: return fill_from_file(e, t, d);
  }
  BUG("%s has no initial value", e->program->tensor[t].name);
}

// Draws the spans of all random tensors that belong to a worker (thread).
static void draw_tensors(void *exec, int worker) {
  Exec *e = exec;
  for (uint32_t t = 0; t < e->program->ntensors; t++) {
    if (!begins(e, t) || !is_drawn(e, t)) continue;
    Fill f = fill_of(e, t);
    f.worker = worker;
    f.workers = e->workers;
    fill_blocks(e, t, &f, draw_run);
  }
}

// Copies blocks that are equal to a block of another processor. The workers divide the tensors.
static void copy_blocks(void *exec, int worker) {
  Exec *e = exec;
  int64_t first;
  for (uint32_t t = (uint32_t)worker; t < e->program->ntensors; t += (uint32_t)e->workers) {
    const ProgTensor *x = &e->program->tensor[t];
    for (int64_t r = e->first; begins(e, t) && r < e->first + e->own; r++)
      if (is_copy(e, x, r, &first) && exec_keeps(e, r, t))
        memcpy(e->context[r].tensor[t], e->context[first].tensor[t], (size_t)x->bytes);
  }
}

bool exec_initialise(Exec *e, Diag *d) {
  bool ok = true;
  team_run(e->team, draw_tensors, e);
  for (uint32_t t = 0; t < e->program->ntensors; t++)
    if (begins(e, t)) ok = initialise_tensor(e, t, d) && ok;
  if (e->own > 1) team_run(e->team, copy_blocks, e);
  // ranks read the values that another rank has set
  return ok && (!e->ranks || ranks_meet_local(e->ranks, true));
}
