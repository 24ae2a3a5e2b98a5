// Sets the initial values of parameters, states and optimizer tensors (slots): random numbers,
// constants, data of the program, or values from a file.
//
// A value depends only on the seed, the full name of the tensor and the index of the element in
// the full tensor, in declared order of dims (docs/decisions.md, 25). So it is equal on every mesh,
// and a new layer in a model changes no values of other layers.
#include "runtime/exec/exec_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 512 };

// How the block (the part of a tensor on one processor) is filled with initial values: random
// numbers or given values.
typedef struct Fill {
  const Init *init;
  Dtype type;
  uint64_t key;
  char *block;
  const double *values; // the elements of the full tensor in declared order; NULL if they are drawn
  int64_t nvalues;      // number of `values`; 1: every element has this value
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

static void draw_run(void *context, int64_t at, int64_t index, int64_t step, int64_t n) {
  const Fill *f = context;
  int64_t where[PIECE];
  double x[PIECE];
  for (int64_t lo = 0; lo < n; lo += PIECE) {
    int64_t m = n - lo < PIECE ? n - lo : PIECE;
    for (int64_t i = 0; i < m; i++) where[i] = index + (lo + i) * step;
    rng_draw(f->init, f->key, m, where, x);
    store_all(f, at + lo, m, x);
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

// -- orthogonal matrices ------------------------------------------------------------------------

static double dot(int64_t n, const double *a, const double *b) {
  double s = 0;
  for (int64_t i = 0; i < n; i++) s += a[i] * b[i];
  return s;
}

// Makes n vectors orthonormal by Gram-Schmidt orthogonalisation, applied twice to each vector
// ("twice is enough": Giraud et al., 2005). The triangular factor has a positive diagonal. So
// vectors of normal random numbers become a uniformly distributed orthogonal matrix.
static void orthonormalise(int64_t n, int64_t length, double *v) {
  for (int64_t j = 0; j < n; j++) {
    double *x = v + j * length;
    for (int64_t i = 0; i < 2 * j; i++) {
      const double *y = v + i % j * length;
      double s = dot(length, x, y);
      for (int64_t k = 0; k < length; k++) x[k] -= s * y[k];
    }
    double norm = sqrt(dot(length, x, x));
    for (int64_t k = 0; k < length; k++) x[k] /= norm;
  }
}

// The role of a dim in an orthogonal tensor, which consists of matrices: the dim counts rows of a
// matrix, columns of a matrix, or matrices (EACH). PARTS is the number of roles.
typedef enum InitialPart { ROWS, COLS, EACH, PARTS } InitialPart;

static InitialPart part_of(const Init *init, int dim) {
  return init->split >> dim & 1 ? ROWS : init->each >> dim & 1 ? EACH : COLS;
}

// Draws matrix number `number` of a tensor of random orthogonal matrices. A matrix with fewer rows
// than columns gets orthonormal rows, any other matrix orthonormal columns. `out` gets the elements
// row by row. `v` is work memory for rows * cols numbers.
static void draw_matrix(uint64_t key, int64_t number, int64_t rows, int64_t cols, double *v,
                        double *out) {
  int64_t n = rows < cols ? rows : cols, length = rows < cols ? cols : rows;
  Init normal = {.kind = INIT_NORMAL, .b = 1};
  for (int64_t i = 0; i < n * length; i++) {
    int64_t index = number * n * length + i;
    rng_draw(&normal, key, 1, &index, &v[i]);
  }
  orthonormalise(n, length, v);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++)
      out[r * cols + c] = rows < cols ? v[r * length + c] : v[c * length + r];
}

// Copies the n elements of a tensor from `matrix`, where matrix follows matrix, to `out` in the
// declared order of dims. `size` has the number of rows, columns and matrices.
static void lay_out(const ProgTensor *t, const int64_t *size, int64_t n, const double *matrix,
                    double *out) {
  int64_t step[MAX_RANK], at[MAX_RANK] = {0}, from = 0;
  int64_t next[PARTS] = {[ROWS] = size[COLS], [COLS] = 1, [EACH] = size[ROWS] * size[COLS]};
  for (int i = t->rank - 1; i >= 0; i--) {
    int64_t *unit = &next[part_of(&t->init, i)];
    step[i] = *unit;
    *unit *= t->dim[t->declared[i]].whole;
  }
  for (int64_t e = 0; e < n; e++) {
    out[e] = matrix[from];
    for (int i = t->rank - 1; i >= 0; i--) {
      from += step[i];
      if (++at[i] < t->dim[t->declared[i]].whole) break;
      from -= step[i] * at[i];
      at[i] = 0;
    }
  }
}

// Draws the elements of the full tensor t, which consists of orthogonal matrices, and returns them
// in declared order of dims. The caller frees the result.
static double *orthogonal_values(const ProgTensor *t, uint64_t key) {
  int64_t size[PARTS] = {1, 1, 1};
  for (int i = 0; i < t->rank; i++) size[part_of(&t->init, i)] *= t->dim[t->declared[i]].whole;
  int64_t one = size[ROWS] * size[COLS], n = one * size[EACH];
  double *matrix = mem_alloc(sizeof *matrix * (size_t)n), *out = mem_alloc(sizeof *out * (size_t)n);
  // `out`, which lay_out fills afterwards, is the work memory of draw_matrix
  for (int64_t k = 0; k < size[EACH]; k++)
    draw_matrix(key, k, size[ROWS], size[COLS], out, matrix + k * one);
  lay_out(t, size, n, matrix, out);
  free(matrix);
  return out;
}

// -- filling one tensor -------------------------------------------------------------------------

static bool is_zero(const Fill *f) {
  return f->values && f->nvalues == 1 && f->values[0] == 0 && !signbit(f->values[0]);
}

// Fills the blocks (parts) of tensor t on all processors of this process. If several blocks are
// equal, `run` computes the elements of the first block, and the other blocks are copies.
static void fill_blocks(Exec *e, uint32_t t, Fill f, BlockRun *run) {
  const ProgTensor *x = &e->program->tensor[t];
  const Mesh *m = &e->program->mesh;
  for (int64_t r = e->first; r < e->first + e->own; r++) {
    char *block = e->context[r].tensor[t];
    memset(block, 0, (size_t)x->bytes);
    if (is_zero(&f)) continue;
    int64_t first = block_first(m, x, r);
    if (first >= e->first && first < r) {
      memcpy(block, e->context[first].tensor[t], (size_t)x->bytes);
      continue;
    }
    f.block = block;
    block_visit(e->program, x, r, -1, run, &f);
  }
}

static void fill_orthogonal(Exec *e, uint32_t t, Fill f) {
  const ProgTensor *x = &e->program->tensor[t];
  double *values = orthogonal_values(x, f.key);
  f.values = values;
  f.nvalues = INT64_MAX;
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

static bool initialise_tensor(Exec *e, uint32_t t, Diag *d) {
  const ProgTensor *x = &e->program->tensor[t];
  Fill f = {.init = &x->init, .type = x->type, .key = rng_key(e->seed, x->name)};
  switch (x->init.kind) {
  case INIT_CONSTANT:
    f.values = &x->init.a;
    f.nvalues = 1;
    fill_blocks(e, t, f, value_run);
    return true;
  case INIT_DATA:
    f.values = x->init.data;
    f.nvalues = x->init.ndata;
    fill_blocks(e, t, f, value_run);
    return true;
  case INIT_NORMAL:
  case INIT_TRUNCATED_NORMAL:
  case INIT_UNIFORM: fill_blocks(e, t, f, draw_run); return true;
  case INIT_ORTHOGONAL: fill_orthogonal(e, t, f); return true;
  case INIT_FILE: return fill_from_file(e, t, d);
  }
  BUG("%s has no initial value", x->name);
}

static bool begins(const Exec *e, uint32_t t) {
  TensorKind k = e->program->tensor[t].kind;
  return (k == TENSOR_PARAM || k == TENSOR_STATE || k == TENSOR_SLOT) && e->own_offset[t] >= 0;
}

static bool is_drawn(const Exec *e, uint32_t t) {
  InitKind k = e->program->tensor[t].init.kind;
  return k == INIT_NORMAL || k == INIT_TRUNCATED_NORMAL || k == INIT_UNIFORM;
}

// The work of drawing all random tensors. The workers (threads) divide the tensors among them,
// because drawing takes time; `next` is the first tensor that no worker has taken.
typedef struct InitialDraws {
  Exec *exec;
  atomic_uint next;
} InitialDraws;
static void draw_tensors(void *context, int worker) {
  InitialDraws *draws = context;
  (void)worker;
  for (uint32_t t; (t = atomic_fetch_add(&draws->next, 1)) < draws->exec->program->ntensors;)
    if (begins(draws->exec, t) && is_drawn(draws->exec, t)) initialise_tensor(draws->exec, t, NULL);
}

bool exec_initialise(Exec *e, Diag *d) {
  bool ok = true;
  InitialDraws draws = {.exec = e};
  atomic_init(&draws.next, 0);
  team_run(e->team, draw_tensors, &draws);
  for (uint32_t t = 0; t < e->program->ntensors; t++)
    if (begins(e, t) && !is_drawn(e, t)) ok = initialise_tensor(e, t, d) && ok;
  return ok;
}
