// The share of the tiles of attention's scores that a kernel for a GPU computes: a mask over
// indices lets it leave out the others (codegen/gpu/gpu_scores_live.c). In: a kernel, one set of
// its operands. Out: a share, 1 without masks.
//
// Whether a tile is computed follows from the ranges of statements at the tile's rows and columns.
// Of many tiles only a sample is looked at: up to SAMPLES along the rows times SAMPLES along the
// columns, at equal distances.
#include <math.h>

#include "codegen/gpu/gpu_internal.h"
#include "codegen/simulate/simulate_internal.h"
#include "codegen/values/live_internal.h"

enum { SAMPLES = 24 };

// The kernel that is looked at, and the tile.
typedef struct Tiles {
  const Sim *s;
  const Kernel *k;
  const GpuScores *t;
  const KernelSet *set;
  Range at[MAX_LOOPS]; // by loop: the positions of the tile
  Range *range;        // by statement
} Tiles;

static const Range any = {-(double)INFINITY, (double)INFINITY};

// Returns the range of a slot over all processors. So a tile counts as left out only if every
// processor leaves it out.
static Range slot_range(const Tiles *x, int32_t slot) {
  Range r = {(double)INFINITY, -(double)INFINITY};
  for (int64_t rank = 0; rank < mesh_size(&x->s->p->mesh); rank++) {
    double v = (double)program_slot(x->s->p, x->set->slot[slot], rank, -1);
    r = (Range){fmin(r.lo, v), fmax(r.hi, v)};
  }
  return r;
}

static Range index_range(const Tiles *x, const KStmt *s) {
  if (s->index < 0) return any;
  Range r = x->at[s->index], offset = s->slot < 0 ? (Range){0, 0} : slot_range(x, s->slot);
  return (Range){r.lo + offset.lo, r.hi + offset.hi};
}

// Returns whether the code for a GPU knows something of the results of this operation (of_op in
// gpu_scores_live.c).
static bool is_known(Op op, Dtype type) {
  static const Op of_any[] = {OP_CAST, OP_NEG, OP_ADD, OP_SUB, OP_LT,
                              OP_LE,   OP_NOT, OP_AND, OP_OR,  OP_WHERE},
                  of_floats[] = {OP_MUL, OP_DIV, OP_EXP};
  for (size_t i = 0; i < countof(of_any); i++)
    if (of_any[i] == op) return true;
  for (size_t i = 0; i < countof(of_floats) && dtype_is_float(type); i++)
    if (of_floats[i] == op) return true;
  return false;
}

static Range stmt_range(const Tiles *x, const KStmt *s) {
  Range arg[3] = {any, any, any};
  if (s->kind == K_NUM) return (Range){x->set->num[s->index], x->set->num[s->index]};
  if (s->kind != K_OP) return any;
  if (s->op == OP_INDEX) return index_range(x, s);
  for (int i = 0; i < 3; i++)
    if (s->arg[i] != NO_STMT) arg[i] = x->range[s->arg[i]];
  return is_known(s->op, s->type) ? range_of_op(s->op, s->type, arg) : any;
}

// Returns whether the tile x->at changes no result of any phase.
static bool is_dead(Tiles *x) {
  for (int i = 0; i < x->k->nstmts; i++) {
    const KStmt *s = &x->k->stmt[i];
    x->range[i] = stmt_range(x, s);
    if (s->kind != K_REDUCE) continue;
    double none = s->op == OP_MAX ? -(double)INFINITY : 0;
    if ((s->op != OP_MAX && s->op != OP_SUM) || !range_is(x->range[s->arg[0]], none)) return false;
  }
  return true;
}

// Returns the positions of tile number i of `size` positions in a loop.
static Range tile_range(double i, int size, double extent) {
  return (Range){i * size, fmin((i + 1) * size, extent) - 1};
}

double scores_live(const Sim *s, const Kernel *k, const GpuScores *t, const KernelSet *set,
                   const double *extent) {
  ArenaMark mark = arena_mark(s->a);
  Tiles x = {s, k, t, set, .range = arena_array(s->a, Range, k->nstmts + 1)};
  double rows = ceil(extent[t->rows] / t->tile_rows), live = 0,
         columns = ceil(extent[t->columns] / t->tile_columns);
  double nrows = fmin(rows, SAMPLES), ncolumns = fmin(columns, SAMPLES);
  for (int l = 0; l < MAX_LOOPS; l++) x.at[l] = (Range){0, fmax(extent[l], 1) - 1};
  for (double i = 0; i < nrows; i++)
    for (double j = 0; j < ncolumns; j++) {
      double row = floor((i + 0.5) * rows / nrows), column = floor((j + 0.5) * columns / ncolumns);
      x.at[t->rows] = tile_range(row, t->tile_rows, extent[t->rows]);
      x.at[t->columns] = tile_range(column, t->tile_columns, extent[t->columns]);
      live += column == 0 || !is_dead(&x);
    }
  arena_reset(s->a, mark);
  return live > 0 ? live / (nrows * ncolumns) : 1;
}
