// Ordered operations in the evaluator, row by row: running sums, products and maxima, sorted
// indices.
//
// An element is tainted if errors within the bounds could change its place in the order: if its
// interval, from value minus bound to value plus bound, overlaps that of another element. Equal
// exact numbers keep their order, so they are not tainted.
#include "ir/eval/eval_rules.h"
#include "ir/program/sums.h"

#include <stdlib.h>

// A row of n elements along the ordered dim. Element i, counted in the direction of the operation,
// is at from + i * step in the argument and at to + i * out_step in the result.
typedef struct OrderedRow {
  const EvalNode *c;
  int64_t n, from, step, to, out_step;
  int64_t last; // n - 1; in reverse, element i is at position last - i of the dim
  bool reversed;
  int granule; // the elements of the argument are exact multiples of 2^granule (tensor_granule)
} OrderedRow;
typedef void OrderedRule(const OrderedRow *row);

static Cell row_cell(const OrderedRow *row, int64_t i) {
  return tensor_cell(row->c->arg[0], row->from + i * row->step);
}
static void row_put(const OrderedRow *row, int64_t i, Cell y) {
  tensor_put(row->c->out, row->to + i * row->out_step, y);
}
static double row_place(const OrderedRow *row, int64_t i) {
  return (double)(row->reversed ? row->last - i : i);
}

// Calls the rule for each row of the argument along the ordered dim. The result of top_k has
// another dim in place of the ordered one.
static void each_row(const EvalNode *c, OrderedRule *rule) {
  const Tensor *x = c->arg[0];
  DimId d = c->n->attr->dims[0], to = c->n->attr->nto ? c->n->attr->to[0] : d;
  OrderedRow row = {.c = c, .n = x->extent[dims_index(&x->dims, d)]};
  row.step = tensor_stride(x, d);
  row.out_step = tensor_stride(c->out, to);
  row.last = row.n - 1;
  row.reversed = c->n->attr->flags & ORDER_REVERSE;
  row.granule = tensor_granule(x);
  int64_t x_first = row.reversed ? row.last * row.step : 0,
          out_first = row.reversed ? row.last * row.out_step : 0;
  if (row.reversed) row.step = -row.step, row.out_step = -row.out_step;
  StrideWalk w = walk_over(NULL, NULL, NULL);
  for (int i = 0; i < x->dims.n; i++)
    if (x->dims.at[i] != d) walk_dim(&w, x->dims.at[i], x->extent[i]);
  walk_operand(&w, c->out);
  walk_operand(&w, x);
  for (bool on = row.n > 0 && walk_first(&w); on; on = walk_next(&w)) {
    row.to = w.at[0] + out_first;
    row.from = w.at[1] + x_first;
    rule(&row);
  }
}

// -- running sums, products and maxima ----------------------------------------------------------

static void sum_row(const OrderedRow *row) {
  Dtype t = row->c->out->type, acc = dtype_accumulator(t);
  bool exclusive = row->c->n->attr->flags & ORDER_EXCLUSIVE;
  Sum s = {0};
  for (int64_t i = 0; i < row->n; i++) {
    if (!exclusive) sum_add(&s, row_cell(row, i), t);
    row_put(row, i, sum_cell(acc, t, &s, row->granule, SUM_ROUNDINGS));
    if (exclusive) sum_add(&s, row_cell(row, i), t);
  }
}

static void product_row(const OrderedRow *row) {
  Dtype t = row->c->out->type;
  bool exclusive = row->c->n->attr->flags & ORDER_EXCLUSIVE;
  RunningProduct p = product_one;
  for (int64_t i = 0; i < row->n; i++) {
    if (!exclusive) product_factor(&p, row_cell(row, i), t);
    row_put(row, i, product_cell(&p, t));
    if (exclusive) product_factor(&p, row_cell(row, i), t);
  }
}

static void max_row(const OrderedRow *row) {
  Cell best = row_cell(row, 0);
  for (int64_t i = 0; i < row->n; i++) {
    best = i ? cell_extreme(row->c->out->type, true, best, row_cell(row, i)) : best;
    row_put(row, i, best);
  }
}

// Return the ends of the interval of a cell (value with error bound). For an inexact cell they are
// one bit further out, so that adjacent intervals overlap. Equal exact numbers do not overlap.
static double upper(Cell x) { return x.b > 0 ? nextafter(x.v + x.b, INF) : x.v; }
static double lower(Cell x) { return x.b > 0 ? nextafter(x.v - x.b, -INF) : x.v; }

static void max_index_row(const OrderedRow *row) {
  Cell best = row_cell(row, 0);
  // others: the largest upper end of the elements before i, except `best`.
  double place = row_place(row, 0), others = -INF;
  bool tainted = false;
  for (int64_t i = 0; i < row->n; i++) {
    Cell x = row_cell(row, i);
    tainted = tainted || x.t;
    if (i > 0 && !isnan(best.v)) {
      bool wins = isnan(x.v) || x.v > best.v;
      others = fmax(others, upper(wins ? best : x));
      if (wins) best = x, place = row_place(row, i);
    }
    row_put(row, i, (Cell){place, 0, tainted || others > lower(best)});
  }
}

void eval_cumsum(const EvalNode *c) { each_row(c, sum_row); }
void eval_cumprod(const EvalNode *c) { each_row(c, product_row); }
void eval_cummax(const EvalNode *c) { each_row(c, max_row); }
void eval_cum_index(const EvalNode *c) { each_row(c, max_index_row); }

// -- sorted indices -----------------------------------------------------------------------------

typedef struct SortEntry {
  Cell x; // negated for a descending order; a NaN is replaced by the infinity that sorts to its
          // place
  int64_t index;
  uint64_t key; // a key of argmax (u64), inverted for a descending order; 0 for other types
  bool nan;
} SortEntry;

static int compare_entries(const void *a, const void *b) {
  const SortEntry *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  if (x->x.v != y->x.v) return x->x.v < y->x.v ? -1 : 1;
  if (x->nan != y->nan) return x->nan == (x->x.v > 0) ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

static bool entries_read(const OrderedRow *row, bool descending, SortEntry *e) {
  bool tainted = false, keys = row->c->arg[0]->type == TYPE_U64;
  for (int64_t i = 0; i < row->n; i++) {
    Cell x = row_cell(row, i);
    uint64_t key = keys ? key_bits(x.v) : 0;
    if (keys) x.v = key_value(x.v, true);
    e[i] = (SortEntry){x, i, keys && descending ? ~key : key, isnan(x.v)};
    tainted = tainted || x.t;
    if (e[i].nan) e[i].x = (Cell){INF, 0, false};
    if (descending) e[i].x.v = -e[i].x.v;
  }
  return tainted;
}

// Writes to the result the indices of the first k elements in sorted order.
static void sort_row(const OrderedRow *row, bool descending, int64_t k) {
  Arena *a = row->c->arena;
  ArenaMark mark = arena_mark(a);
  int64_t n = row->n;
  SortEntry *e = arena_array(a, SortEntry, n);
  double *below = arena_array(a, double, n + 1), *above = arena_array(a, double, n + 1);
  bool tainted = entries_read(row, descending, e);
  qsort(e, (size_t)n, sizeof *e, compare_entries);
  // below[i]: the largest upper end of entries 0 to i - 1; above[i]: the least lower end of entries
  // i to n - 1. Entry i keeps its place in the order if its interval lies between the two.
  below[0] = -INF;
  above[n] = INF;
  for (int64_t i = 0; i < n; i++) below[i + 1] = fmax(below[i], upper(e[i].x));
  for (int64_t i = n; i > 0; i--) above[i - 1] = fmin(above[i], lower(e[i - 1].x));
  for (int64_t i = 0; i < k && i < n; i++) {
    bool sure = !tainted && below[i] <= lower(e[i].x) && above[i + 1] >= upper(e[i].x);
    row_put(row, i, (Cell){(double)e[i].index, 0, !sure});
  }
  arena_reset(a, mark);
}

static void argsort_row(const OrderedRow *row) {
  sort_row(row, row->c->n->attr->flags & ORDER_DESCENDING, row->n);
}
static void top_row(const OrderedRow *row) {
  const Tensor *y = row->c->out;
  sort_row(row, true, y->extent[dims_index(&y->dims, row->c->n->attr->to[0])]);
}

void eval_argsort(const EvalNode *c) { each_row(c, argsort_row); }
void eval_top_k(const EvalNode *c) { each_row(c, top_row); }
