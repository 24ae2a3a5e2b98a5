// Which tiles of scores need not be computed: those that a mask over indices, such as a causal one,
// discards as a whole. In: the place of a tile. Out: code that decides from it.
//
// What is known of a statement in a tile: of integers their least and largest value; of bools
// whether all are true or all false; of floats whether all are 0 or all -inf. It follows from the
// statement's arguments:
//
//   index of columns 64..127, of rows 0..63   le: all false   where(le, score, -inf): all -inf
//   exp of that minus the row's maximum: all 0
//
// A tile is dead in a phase if it adds nothing but 0 to all sums and nothing but -inf to all
// maxima. As on CPUs (codegen/values/live_range.c), what 0 is multiplied by and what is added to
// -inf is taken to be finite.
//
// That does not hold for the maximum of a softmax: it is -inf where a mask discards all scores. The
// score minus the maximum is NaN then, and so is the result. Where the softmax goes along the
// columns, each row finds this NaN in its first tile of columns, which is therefore always
// computed. Where it goes along the rows of the tile, each column has a maximum of its own: the
// code reads those of the tile's columns, and the tile is dead only if all are finite.
#include "codegen/gpu/gpu_scores.h"

#ifdef MESHC_HAVE_LLVM

// What is known of a statement. NULL: nothing.
typedef struct Known {
  LLVMValueRef low, high;   // i64s: least and largest value; of results of additions, i32s only
  LLVMValueRef all, none;   // i1s: all elements are true, none is
  LLVMValueRef zero, least; // i1s: all elements are 0, all are -inf
} Known;

static LLVMValueRef either(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return a && b ? bit_or(e, a, b) : a ? a : b;
}
static LLVMValueRef both(Emit *e, LLVMValueRef a, LLVMValueRef b) {
  return a && b ? bit_and(e, a, b) : NULL;
}
static LLVMValueRef yes(Emit *e) { return LLVMConstInt(e->i1, 1, false); }

// -- numbers and indices --------------------------------------------------------------------------

static Known of_number(GpuScoresEmit *x, int id) {
  Emit *e = &x->g->e;
  const KStmt *s = &e->k->stmt[id];
  Known out = {0};
  if (dtype_class(s->type) == CLASS_INT && s->type != TYPE_U64)
    out.low = out.high = emit_coerce(e, value_at(e, id, 0, 0), s->type, TYPE_I64);
  if (dtype_is_float(s->type) && s->step == NUMBER_ZERO) out.zero = yes(e);
  if (dtype_is_float(s->type) && s->step == NUMBER_LEAST) out.least = yes(e);
  return out;
}

static Known of_index(GpuScoresEmit *x, const KStmt *s) {
  Emit *e = &x->g->e;
  const GpuScores *t = x->t;
  Known out = {0};
  bool rows = s->index == t->rows;
  if (s->index < 0 || t->results >> s->index & 1) return out; // results have no counter yet
  out.low = out.high = e->counter[s->index];
  if (rows || s->index == t->columns) {
    LLVMValueRef last = int_sub(e, e->extent[s->index], i64_of(e, 1));
    out.low = rows ? x->first_row : x->first_column;
    out.high = int_add(e, out.low, i64_of(e, (rows ? t->tile_rows : t->tile_columns) - 1));
    out.high = int_min(e, out.high, last);
  }
  if (s->slot < 0) return out;
  out.low = int_add(e, out.low, slot_value(e, s->slot));
  out.high = int_add(e, out.high, slot_value(e, s->slot));
  return out;
}

// -- operations -----------------------------------------------------------------------------------

// Returns what is known of an integer of a type, if additions in i64s gave `a`. If that is outside
// of the range of an i32, the i32 has wrapped and may be any number. Nothing is known of other
// types: the additions here might wrap, too.
static Known in_range(Emit *e, Known a, Dtype type) {
  if (!a.low) return a;
  LLVMValueRef least = i64_of(e, INT32_MIN), most = i64_of(e, INT32_MAX);
  LLVMValueRef in =
      bit_and(e, bit_not(e, int_less(e, a.low, least)), bit_not(e, int_less(e, most, a.high)));
  a.low = type == TYPE_I32 ? pick(e, in, a.low, least) : NULL;
  a.high = type == TYPE_I32 ? pick(e, in, a.high, most) : NULL;
  return a;
}

static Known of_sum(Emit *e, const Known *a, const Known *b) {
  Known out = {.zero = both(e, a->zero, b->zero), .least = either(e, a->least, b->least)};
  if (!a->low || !b->low) return out;
  out.low = int_add(e, a->low, b->low);
  out.high = int_add(e, a->high, b->high);
  return out;
}

static Known negated(Emit *e, const Known *a) {
  Known out = {.zero = a->zero};
  if (!a->low) return out;
  out.low = int_sub(e, i64_of(e, 0), a->high);
  out.high = int_sub(e, i64_of(e, 0), a->low);
  return out;
}

// Returns what is known of a < b or, with `equal`, of a <= b.
static Known of_order(Emit *e, const Known *a, const Known *b, bool equal) {
  Known out = {0};
  if (!a->low || !b->low) return out;
  out.all = int_cmp(e, equal ? LLVMIntSLE : LLVMIntSLT, a->high, b->low);
  out.none = int_cmp(e, equal ? LLVMIntSGT : LLVMIntSGE, a->low, b->high);
  return out;
}

// Returns what is known of where(c, a, b).
static Known of_choice(Emit *e, const Known *c, const Known *a, const Known *b) {
  return (Known){
      .zero = both(e, either(e, a->zero, c->none), either(e, b->zero, c->all)),
      .least = both(e, either(e, a->least, c->none), either(e, b->least, c->all)),
      .all = both(e, either(e, a->all, c->none), either(e, b->all, c->all)),
      .none = both(e, either(e, a->none, c->none), either(e, b->none, c->all)),
  };
}

// Returns whether a cast keeps what is known: it is one between floats, or from i32 to i64.
static bool keeps(const Kernel *k, const KStmt *s) {
  Dtype from = k->stmt[s->arg[0]].type;
  return dtype_is_float(s->type) ? dtype_is_float(from) : s->type == TYPE_I64 && from == TYPE_I32;
}

static Known of_op(GpuScoresEmit *x, const KStmt *s, const Known *known) {
  static const Known nothing;
  Emit *e = &x->g->e;
  const Known *a = s->arg[0] == NO_STMT ? &nothing : &known[s->arg[0]],
              *b = s->arg[1] == NO_STMT ? &nothing : &known[s->arg[1]],
              *c = s->arg[2] == NO_STMT ? &nothing : &known[s->arg[2]];
  Known minus = negated(e, b);
  switch ((int)s->op) {
  case OP_INDEX: return of_index(x, s);
  case OP_CAST: return keeps(x->g->e.k, s) ? *a : nothing;
  case OP_NEG: return in_range(e, negated(e, a), s->type);
  case OP_ADD: return in_range(e, of_sum(e, a, b), s->type);
  case OP_SUB: return in_range(e, of_sum(e, a, &minus), s->type);
  case OP_MUL: return (Known){.zero = either(e, a->zero, b->zero)};
  case OP_DIV: return (Known){.zero = a->zero};
  case OP_EXP: return (Known){.zero = a->least};
  case OP_LT: return of_order(e, a, b, false);
  case OP_LE: return of_order(e, a, b, true);
  case OP_NOT: return (Known){.all = a->none, .none = a->all};
  case OP_AND: return (Known){.all = both(e, a->all, b->all), .none = either(e, a->none, b->none)};
  case OP_OR: return (Known){.all = either(e, a->all, b->all), .none = both(e, a->none, b->none)};
  case OP_WHERE: return of_choice(e, a, b, c);
  }
  return nothing;
}

// -- tiles ----------------------------------------------------------------------------------------

// Returns an i1: whether reduction s has no effect, by what is known of its argument. NULL:
// unknown.
static LLVMValueRef changes_nothing(const KStmt *s, const Known *arg) {
  return s->op == OP_SUM ? arg->zero : s->op == OP_MAX ? arg->least : NULL;
}

// Returns whether statement s is in the inner loops of phases `phase` to `last`.
static bool is_inside(const KStmt *s, int phase, int last) {
  return s->level == LEVEL_INNER && s->phase >= phase && s->phase <= last;
}

// Returns whether statement s subtracts a value that varies along the columns from what may be
// -inf.
static bool subtracts_column_value(const GpuScoresEmit *x, const KStmt *s, const Known *known) {
  LoopSet columns = (LoopSet)1 << x->t->columns;
  return s->kind == K_OP && s->op == OP_SUB && dtype_is_float(s->type) && known[s->arg[0]].least &&
         x->g->plan.dep[s->arg[1]] & columns;
}

// Emits whether statement `id` is -inf or NaN at one of the columns of the tile, the same for all
// warps. Each lane of a warp looks at a column in turn, until all have been looked at. The
// statement must not depend on the rows, whose counter is not set here.
static LLVMValueRef any_infinite(GpuScoresEmit *x, int id) {
  GpuEmit *g = x->g;
  Emit *e = &g->e;
  bool *needed = gpu_statements_of(g, id);
  LLVMValueRef lane = keep_bits(e, g->thread, GPU_WARP - 1), any = LLVMConstInt(e->i1, 0, false);
  LLVMValueRef last = int_sub(e, e->extent[x->t->columns], i64_of(e, 1));
  for (int j = 0; j < x->t->tile_columns; j += GPU_WARP) {
    LLVMValueRef column = int_add(e, x->first_column, int_add(e, lane, i64_of(e, j)));
    e->counter[x->t->columns] = int_min(e, column, last);
    for (int i = 0; i <= id; i++)
      if (needed[i]) gpu_statement(g, i);
    LLVMValueRef v = value_at(e, id, 0, 0),
                 least = emit_identity(e, OP_MAX, e->k->stmt[id].type, false);
    any = bit_or(e, any, LLVMBuildFCmp(e->b, LLVMRealULE, v, least, ""));
  }
  any = LLVMBuildZExt(e->b, any, e->i64, "");
  for (int lanes = 1; lanes < GPU_WARP; lanes *= 2)
    any = LLVMBuildOr(e->b, any, gpu_shuffle(g, GPU_SHUFFLE_XOR, any, lanes), "");
  return not_zero(e, any);
}

// Emits whether `dead` is true and statement `id` is finite at all columns of the tile. The columns
// are read only where `dead` is true.
static LLVMValueRef if_finite(GpuScoresEmit *x, LLVMValueRef dead, int id) {
  Emit *e = &x->g->e;
  LLVMValueRef cell = emit_alloca(e, e->i1);
  LLVMBuildStore(e->b, dead, cell);
  LLVMBasicBlockRef done = if_begin(e, dead);
  LLVMBuildStore(e->b, bit_not(e, any_infinite(x, id)), cell);
  if_end(e, done);
  return emit_read(e, e->i1, cell);
}

// Emits whether `dead` is true and all values that phases subtract from -inf are finite. Returns
// NULL if one of them cannot be read here, because it depends on rows or results.
static LLVMValueRef if_all_finite(GpuScoresEmit *x, int phase, int last, const Known *known,
                                  LLVMValueRef dead) {
  const Kernel *k = x->g->e.k;
  LoopSet rows = (LoopSet)1 << x->t->rows;
  for (int i = 0; i < k->nstmts && dead; i++) {
    const KStmt *s = &k->stmt[i];
    if (!is_inside(s, phase, last) || !subtracts_column_value(x, s, known)) continue;
    bool readable = !(x->g->plan.dep[s->arg[1]] & (rows | x->t->results));
    dead = readable ? if_finite(x, dead, s->arg[1]) : NULL;
  }
  return dead;
}

LLVMValueRef gpu_scores_dead(GpuScoresEmit *x, int phase, int last) {
  Emit *e = &x->g->e;
  const Kernel *k = e->k;
  Known *known = arena_array(e->arena, Known, k->nstmts + 1);
  // the first tile is computed in any case: a row without live scores has no softmax, but NaN
  LLVMValueRef dead = not_zero(e, x->first_column);
  for (int i = 0; i < k->nstmts && dead; i++) {
    const KStmt *s = &k->stmt[i];
    if (s->level == LEVEL_INNER && !is_inside(s, phase, last)) continue;
    if (s->kind == K_NUM) known[i] = of_number(x, i);
    if (s->kind == K_OP) known[i] = of_op(x, s, known);
    if (s->kind == K_REDUCE) dead = both(e, dead, changes_nothing(s, &known[s->arg[0]]));
  }
  return if_all_finite(x, phase, last, known, dead);
}
#endif
