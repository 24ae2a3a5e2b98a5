// Operations on matrices: copies each matrix into work memory, by columns and in f64, computes
// (matrix_compute), and copies the result out.
#include "runtime/exec/matrix_internal.h"

// Where the elements of one task are: element (i, j) is at + i * row + the offset of column j. The
// columns are those of nested loops, the outermost first.
typedef struct Elements {
  char *at;
  Dtype type;
  int64_t rows, row;
  int nloops;
  int64_t count[MAX_RANK], step[MAX_RANK];
} Elements;

// Sets *offset to the distance of column j from the first one.
static int64_t column_offset(const Elements *e, int64_t j) {
  int64_t offset = 0;
  for (int i = e->nloops - 1; i >= 0; i--) {
    offset += j % e->count[i] * e->step[i];
    j /= e->count[i];
  }
  return offset;
}

#define COPIES(T, name)                                                                            \
  static void load_##name(const Elements *e, int64_t columns, double *out) {                       \
    for (int64_t j = 0; j < columns; j++) {                                                        \
      const T *x = (const T *)(const void *)e->at + column_offset(e, j);                           \
      for (int64_t i = 0; i < e->rows; i++) *out++ = (double)x[i * e->row];                        \
    }                                                                                              \
  }                                                                                                \
  static void store_##name(const Elements *e, int64_t columns, const double *from) {               \
    for (int64_t j = 0; j < columns; j++) {                                                        \
      T *y = (T *)(void *)e->at + column_offset(e, j);                                             \
      for (int64_t i = 0; i < e->rows; i++) y[i * e->row] = (T)*from++;                            \
    }                                                                                              \
  }
COPIES(float, f32)
COPIES(double, f64)

static void load(const Elements *e, int64_t columns, double *out) {
  e->type == TYPE_F64 ? load_f64(e, columns, out) : load_f32(e, columns, out);
}

static void store(const Elements *e, int64_t columns, const double *from) {
  e->type == TYPE_F64 ? store_f64(e, columns, from) : store_f32(e, columns, from);
}

// Returns the address of an operand for matrix number r; step[i] is its stride in loop i.
static char *operand(const BoundMatrix *b, const char *base, int64_t r, const int64_t *step) {
  int64_t offset = 0;
  for (int i = b->what->nbatch - 1; i >= 0; i--) {
    offset += r % b->count[i] * step[i];
    r /= b->count[i];
  }
  return (char *)(uintptr_t)base + offset * dtype_bytes(b->what->type);
}

typedef struct Operands {
  Elements a, b, dst;
  int64_t a_step[MAX_RANK], b_step[MAX_RANK], dst_step[MAX_RANK];
} Operands;

static Operands operands(const BoundMatrix *b, int64_t rows, int64_t columns) {
  const MatrixCall *w = b->what;
  Operands o = {.a = {NULL, w->type, w->m, w->a_row, 1, {w->n}, {w->a_column}},
                .b = {NULL, w->type, w->m, w->b_row, w->nright, {0}, {0}},
                .dst = {NULL, w->type, rows, w->dst_row, 1, {columns}, {w->dst_column}}};
  for (int i = 0; i < w->nbatch; i++) {
    o.a_step[i] = w->batch[i].a;
    o.b_step[i] = w->batch[i].b;
    o.dst_step[i] = w->batch[i].dst;
  }
  if (matrix_rows[w->kind].result == MATRIX_SOLUTION) o.dst.nloops = w->nright;
  for (int i = 0; i < w->nright; i++) {
    o.b.count[i] = o.dst.count[i] = b->right_count[i];
    o.b.step[i] = w->right[i].b;
    o.dst.step[i] = w->right[i].dst;
  }
  return o;
}

double matrix_work(const BoundMatrix *b) {
  const MatrixCall *w = b->what;
  return (double)b->matrices * matrix_time(w->kind, (double)w->m, (double)w->n, (double)b->right);
}

// Sets the addresses of the operands of matrix number r.
static void move_to(const BoundMatrix *b, int64_t r, Operands *o) {
  o->a.at = operand(b, b->a, r, o->a_step);
  o->b.at = operand(b, b->b, r, o->b_step);
  o->dst.at = operand(b, b->dst, r, o->dst_step);
}

// Computes one matrix in `scratch`, as matrix_compute.
static const double *compute(const BoundMatrix *b, const MatrixSizes *s, const Operands *o,
                             double *scratch, MatrixFault *why) {
  load(&o->a, s->n, scratch);
  load(&o->b, s->right, scratch + s->m * s->n);
  return matrix_compute(b->engine, b->what->kind, b->what->flags, s, scratch, why);
}

void matrix_run(const BoundMatrix *b, int64_t lo, int64_t hi, void *scratch) {
  MatrixSizes s = {b->what->m, b->what->n, b->right};
  int64_t rows, columns;
  matrix_result(b->what->kind, &s, &rows, &columns);
  Operands o = operands(b, rows, columns);
  for (int64_t r = lo; r < hi; r++) {
    move_to(b, r, &o);
    store(&o.dst, columns, compute(b, &s, &o, scratch, NULL));
  }
}

// Returns whether the elements `e`, in some columns, include the one at an address.
static bool includes(const Elements *e, int64_t columns, const char *at) {
  int64_t size = dtype_bytes(e->type);
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < e->rows; i++)
      if (e->at + (column_offset(e, j) + i * e->row) * size == at) return true;
  return false;
}

MatrixFault matrix_why(const BoundMatrix *b, int64_t element, void *scratch) {
  MatrixSizes s = {b->what->m, b->what->n, b->right};
  const char *at = b->dst + element * dtype_bytes(b->what->type);
  int64_t rows, columns;
  matrix_result(b->what->kind, &s, &rows, &columns);
  Operands o = operands(b, rows, columns);
  MatrixFault why = {0};
  for (int64_t r = 0; r < b->matrices; r++) {
    move_to(b, r, &o);
    if (!includes(&o.dst, columns, at)) continue;
    (void)compute(b, &s, &o, scratch, &why);
    break;
  }
  return why;
}
