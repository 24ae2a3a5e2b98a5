// Statements of kind K_OP: one rule for each name in column `emit` of ir/graph/ops.def. A rule
// emits one instance, the statement for one row and one vector of a tile.
//
// Fast-math flags: additions of a reduction have reassoc, nsz and contract, products have contract.
// So a sum of products becomes fused multiply-adds in any order. Other sums and differences have no
// flag: x - max gives the same bits in every kernel. Comparisons and selections have no flag, so
// that NaN is kept. Maximum and minimum return NaN if an operand is NaN. Integer division never
// traps.
#include "codegen/cpu/emit_arith_internal.h"

#ifdef MESHC_HAVE_LLVM
// A statement with the values of its operands. Operand x[i] has the register type of `type`. If the
// op has the flag OWN_TYPES, x[i] has the register type of from[i] instead.
typedef struct OpCall {
  const KStmt *s;
  Dtype type;    // element type of the result
  Dtype from[3]; // element types of the operands, as they were computed
  LLVMValueRef x[3];
  int r, v;
} OpCall;

typedef LLVMValueRef OpRule(Emit *e, const OpCall *c);

static bool is_float(const OpCall *c) { return dtype_is_float(c->type); }
static LLVMTypeRef shape(const OpCall *c) { return LLVMTypeOf(c->x[0]); }
static LLVMValueRef zero_of(const OpCall *c) { return LLVMConstNull(shape(c)); }

// Returns v, the result of an op in element type t. A u8 is kept in a register as an i32 in 0..255,
// so its upper bits are cleared. Values of other types are returned unchanged.
static LLVMValueRef wrap(Emit *e, Dtype t, LLVMValueRef v) {
  return t == TYPE_U8 ? keep_bits(e, v, 255) : v;
}

static LLVMValueRef emit_none(Emit *e, const OpCall *c) {
  (void)e;
  BUG("op %s is not a statement of kind K_OP", op_row(c->s->op)->text);
}
// The ops constant, contract, take and scatter have kinds of statements of their own, not K_OP.
#define emit_constant emit_none
#define emit_contract emit_none
#define emit_take emit_none
#define emit_scatter emit_none

// -- counters -----------------------------------------------------------------------------------

static LLVMValueRef emit_index(Emit *e, const OpCall *c) {
  int l = c->s->index;
  LLVMValueRef i = counter_at(e, l, c->r, c->v);
  if (c->s->slot >= 0) i = int_add(e, i, slot_value(e, c->s->slot));
  bool wide = dtype_bytes(c->type) == 8 && !is_float(c);
  LLVMTypeRef t = wide ? e->i64 : e->i32;
  if (!wide) i = int_trunc(e, i, t);
  if (has_lanes(e, l)) i = int_add(e, emit_splat(e, i), const_lanes(e, t, 1));
  return emit_coerce(e, i, wide ? TYPE_I64 : TYPE_I32, c->type);
}

static LLVMValueRef emit_step(Emit *e, const OpCall *c) {
  return emit_coerce(e, run_number(e, RUN_STEP), TYPE_I64, c->type);
}

// Emits the operand on the first processor of a group, and 0 on the others. So the sum of the
// values of all processors of the group is the operand.
static LLVMValueRef emit_to_partial(Emit *e, const OpCall *c) {
  LLVMValueRef own = int_equal(e, slot_value(e, c->s->slot), i64_of(e, 0));
  return pick(e, own, c->x[0], zero_of(c));
}

static LLVMValueRef emit_random(Emit *e, const OpCall *c) { return emit_draw(e, c->s, c->x[0]); }

// -- arithmetic ---------------------------------------------------------------------------------

static LLVMValueRef exactly(LLVMValueRef v) { return v; }

#define ARITHMETIC(name, build_float, build_int, flags)                                            \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) {                                      \
    if (is_float(c)) return flags(build_float(e->b, c->x[0], c->x[1], ""));                        \
    return wrap(e, c->type, build_int(e->b, c->x[0], c->x[1], ""));                                \
  }
ARITHMETIC(add, LLVMBuildFAdd, LLVMBuildAdd, exactly)
ARITHMETIC(sub, LLVMBuildFSub, LLVMBuildSub, exactly)
ARITHMETIC(mul, LLVMBuildFMul, LLVMBuildMul, contracting)
ARITHMETIC(sum, LLVMBuildFAdd, LLVMBuildAdd, fast)

static LLVMValueRef emit_neg(Emit *e, const OpCall *c) {
  if (is_float(c)) return fast(negate(e, c->x[0]));
  return wrap(e, c->type, LLVMBuildNeg(e->b, c->x[0], ""));
}

// Emits a division. If all lanes have one divisor, it is replaced by products with its reciprocal.
static LLVMValueRef emit_div(Emit *e, const OpCall *c) {
  LLVMValueRef divisor = c->s ? value_at(e, c->s->arg[1], c->r, c->v) : c->x[1];
  if (!is_vector(c->x[0]) || is_vector(divisor) || !e->target->fma)
    return fast(quot(e, c->x[0], c->x[1]));
  return math_quotients(e, c->x[0], emit_coerce(e, divisor, c->from[1], c->type));
}
static LLVMValueRef emit_reciprocal(Emit *e, const OpCall *c) {
  return fast(quot(e, num(c->x[0], 1), c->x[0]));
}
static LLVMValueRef emit_sqrt(Emit *e, const OpCall *c) {
  return emit_unary(e, "llvm.sqrt", c->x[0]);
}
static LLVMValueRef emit_rsqrt(Emit *e, const OpCall *c) {
  return quot(e, num(c->x[0], 1), emit_sqrt(e, c));
}

static LLVMValueRef below_zero(Emit *e, const OpCall *c) {
  if (is_float(c)) return less(e, c->x[0], 0);
  return int_cmp(e, c->type == TYPE_U64 ? LLVMIntULT : LLVMIntSLT, c->x[0], zero_of(c));
}

static LLVMValueRef emit_abs(Emit *e, const OpCall *c) {
  if (is_float(c)) return absolute(e, c->x[0]);
  return pick(e, below_zero(e, c), LLVMBuildNeg(e->b, c->x[0], ""), c->x[0]);
}

static LLVMValueRef emit_relu(Emit *e, const OpCall *c) {
  return pick(e, below_zero(e, c), zero_of(c), c->x[0]);
}

// Emits -1 or 1; NaN and zeros are returned unchanged.
static LLVMValueRef emit_sign(Emit *e, const OpCall *c) {
  LLVMValueRef one = is_float(c) ? num(c->x[0], 1) : int_like(c->x[0], 1);
  LLVMValueRef minus_one = is_float(c) ? num(c->x[0], -1) : int_like(c->x[0], -1);
  LLVMIntPredicate p = c->type == TYPE_U64 ? LLVMIntUGT : LLVMIntSGT;
  LLVMValueRef above = is_float(c) ? greater(e, c->x[0], 0) : int_cmp(e, p, c->x[0], zero_of(c));
  return pick(e, above, one, pick(e, below_zero(e, c), minus_one, c->x[0]));
}

#define UNARY(name)                                                                                \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) { return math_##name(e, c->x[0]); }
MATH_FUNCTIONS(UNARY)

#define ROUNDING(name, intrinsic)                                                                  \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) {                                      \
    return is_float(c) ? emit_unary(e, intrinsic, c->x[0]) : c->x[0];                              \
  }
ROUNDING(floor, "llvm.floor")
ROUNDING(ceil, "llvm.ceil")
ROUNDING(trunc, "llvm.trunc")
ROUNDING(round, "llvm.roundeven")

// -- integer division, powers -------------------------------------------------------------------

// Emits x / y rounded down, for integers of at most 32 bits. The quotient in f64 is so accurate
// that its floor is exact. Unlike integer division, it runs in vectors.
static LLVMValueRef narrow_quotient(Emit *e, const OpCall *c, LLVMValueRef y) {
  LLVMTypeRef d = type_like(e, e->f64, y);
  LLVMValueRef a = LLVMBuildSIToFP(e->b, c->x[0], d, ""), b = LLVMBuildSIToFP(e->b, y, d, "");
  return LLVMBuildFPToSI(e->b, emit_unary(e, "llvm.floor", quot(e, a, b)), LLVMTypeOf(y), "");
}

static LLVMValueRef wide_quotient(Emit *e, const OpCall *c, LLVMValueRef y) {
  if (c->type == TYPE_U64) return LLVMBuildUDiv(e->b, c->x[0], y, "");
  LLVMValueRef q = LLVMBuildSDiv(e->b, c->x[0], y, "");
  LLVMValueRef rest = int_sub(e, c->x[0], int_mul(e, q, y));
  LLVMValueRef inexact = not_zero(e, rest);
  LLVMValueRef signs_differ = int_less(e, bit_xor(e, rest, y), zero_of(c));
  return int_sub(e, q, int_zext(e, bit_and(e, inexact, signs_differ), shape(c)));
}

// Emits floor(x / y). The result is 0 if y is 0, and x if y is -1 and -x overflows.
static LLVMValueRef int_quotient(Emit *e, const OpCall *c) {
  bool wide = dtype_bytes(c->type) == 8;
  LLVMValueRef y = c->x[1], none = int_equal(e, y, zero_of(c)), bad = none;
  if (c->type != TYPE_U64) {
    LLVMValueRef lowest = const_int(shape(c), wide ? INT64_MIN : INT32_MIN);
    LLVMValueRef over =
        bit_and(e, int_equal(e, c->x[0], lowest), int_equal(e, y, const_int(shape(c), -1)));
    bad = bit_or(e, none, over);
  }
  y = pick(e, bad, const_int(shape(c), 1), y);
  LLVMValueRef q = wide ? wide_quotient(e, c, y) : narrow_quotient(e, c, y);
  return pick(e, none, zero_of(c), q);
}

static LLVMValueRef emit_floor_div(Emit *e, const OpCall *c) {
  return is_float(c) ? math_floor_div(e, c->x[0], c->x[1]) : int_quotient(e, c);
}

static LLVMValueRef emit_mod(Emit *e, const OpCall *c) {
  if (is_float(c)) return math_mod(e, c->x[0], c->x[1]);
  LLVMValueRef multiple = int_mul(e, int_quotient(e, c), c->x[1]);
  LLVMValueRef rest = int_sub(e, c->x[0], multiple);
  LLVMValueRef none = int_equal(e, c->x[1], zero_of(c));
  return pick(e, none, zero_of(c), rest);
}

// Emits x^n for n >= 0: a loop over the bits of n that squares x in each round.
static LLVMValueRef power_by_squaring(Emit *e, const OpCall *c) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = shape(c);
  LLVMValueRef one = const_int(t, 1), y = emit_alloca(e, t), x = emit_alloca(e, t),
               n = emit_alloca(e, t);
  LLVMBuildStore(b, one, y);
  LLVMBuildStore(b, c->x[0], x);
  LLVMBuildStore(b, c->x[1], n);
  EmitLoop l = loop_to(e, dtype_bytes(c->type) == 8 ? 63 : 31);
  LLVMValueRef power = emit_read(e, t, x), left = emit_read(e, t, n);
  LLVMValueRef odd = not_zero(e, bit_and(e, left, one));
  LLVMValueRef factor = pick(e, odd, power, one);
  LLVMBuildStore(b, int_mul(e, emit_read(e, t, y), factor), y);
  LLVMBuildStore(b, int_mul(e, power, power), x);
  LLVMBuildStore(b, shift_right(e, left, one), n);
  loop_end(e, &l);
  return emit_read(e, t, y);
}

// Emits x^n. For negative n this is 1 / x^-n rounded toward zero: 1, -1 or 0.
static LLVMValueRef int_pow(Emit *e, const OpCall *c) {
  LLVMTypeRef t = shape(c);
  LLVMValueRef one = const_int(t, 1), minus_one = const_int(t, -1), y = power_by_squaring(e, c);
  if (c->type == TYPE_U64 || c->type == TYPE_U8) return wrap(e, c->type, y);
  LLVMValueRef negative = int_less(e, c->x[1], zero_of(c));
  LLVMValueRef even = int_equal(e, bit_and(e, c->x[1], one), zero_of(c));
  LLVMValueRef is_one = int_equal(e, c->x[0], one), is_minus = int_equal(e, c->x[0], minus_one);
  LLVMValueRef small = pick(e, is_minus, pick(e, even, one, minus_one), zero_of(c));
  small = pick(e, is_one, one, small);
  return pick(e, negative, small, y);
}

static LLVMValueRef emit_pow(Emit *e, const OpCall *c) {
  return is_float(c) ? math_pow(e, c->x[0], c->x[1]) : int_pow(e, c);
}

// -- comparisons, selections --------------------------------------------------------------------

static LLVMValueRef compare(Emit *e, const OpCall *c, LLVMRealPredicate f, LLVMIntPredicate s,
                            LLVMIntPredicate u) {
  Dtype t = c->from[0] == c->from[1] ? c->from[0] : dtype_join(c->from[0], c->from[1]);
  LLVMValueRef a = emit_coerce(e, c->x[0], c->from[0], t),
               b = emit_coerce(e, c->x[1], c->from[1], t);
  if (dtype_is_float(t)) return cmp(e, f, a, b);
  return int_cmp(e, t == TYPE_U64 || t == TYPE_BOOL ? u : s, a, b);
}
#define COMPARISON(name, f, s, u)                                                                  \
  static LLVMValueRef emit_##name(Emit *e, const OpCall *c) { return compare(e, c, f, s, u); }
COMPARISON(eq, LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ)
COMPARISON(ne, LLVMRealUNE, LLVMIntNE, LLVMIntNE)
COMPARISON(lt, LLVMRealOLT, LLVMIntSLT, LLVMIntULT)
COMPARISON(le, LLVMRealOLE, LLVMIntSLE, LLVMIntULE)

static LLVMValueRef emit_and(Emit *e, const OpCall *c) { return bit_and(e, c->x[0], c->x[1]); }
static LLVMValueRef emit_or(Emit *e, const OpCall *c) { return bit_or(e, c->x[0], c->x[1]); }
static LLVMValueRef emit_not(Emit *e, const OpCall *c) { return bit_not(e, c->x[0]); }

static LLVMValueRef emit_bit_xor(Emit *e, const OpCall *c) { return bit_xor(e, c->x[0], c->x[1]); }

// Shifts by more bits than a number has are undefined in LLVM, so such a result is not used.
static LLVMValueRef emit_shift_left(Emit *e, const OpCall *c) {
  LLVMValueRef fits = int_cmp(e, LLVMIntULT, c->x[1], int_like(c->x[1], 32));
  return pick(e, fits, shift_left(e, c->x[0], c->x[1]), zero_of(c));
}
static LLVMValueRef emit_shift_right(Emit *e, const OpCall *c) {
  LLVMValueRef most = int_like(c->x[1], 31);
  LLVMValueRef n = pick(e, int_cmp(e, LLVMIntULT, c->x[1], most), c->x[1], most);
  return LLVMBuildAShr(e->b, c->x[0], n, "");
}

static LLVMValueRef emit_where(Emit *e, const OpCall *c) {
  LLVMValueRef p = emit_convert(e, c->x[0], c->from[0], TYPE_BOOL);
  LLVMValueRef a = emit_coerce(e, c->x[1], c->from[1], c->type),
               b = emit_coerce(e, c->x[2], c->from[2], c->type);
  return pick(e, p, a, b);
}

// Emits the larger (smaller) of two numbers, or NaN if one of them is NaN. If b is NaN, a > b is
// false and the first selection returns b. The second selection returns a if a is NaN: it is one
// masked instruction of AVX-512 with the first.
static LLVMValueRef extreme(Emit *e, Dtype t, bool max, LLVMValueRef a, LLVMValueRef b) {
  if (dtype_is_float(t)) {
    LLVMValueRef y = pick(e, cmp(e, max ? LLVMRealOGT : LLVMRealOLT, a, b), a, b);
    return pick(e, cmp(e, LLVMRealORD, a, a), y, a);
  }
  bool u = t == TYPE_U64 || t == TYPE_BOOL;
  LLVMIntPredicate p = max ? (u ? LLVMIntUGT : LLVMIntSGT) : (u ? LLVMIntULT : LLVMIntSLT);
  return pick(e, int_cmp(e, p, a, b), a, b);
}
static LLVMValueRef emit_maximum(Emit *e, const OpCall *c) {
  return extreme(e, c->type, true, c->x[0], c->x[1]);
}
static LLVMValueRef emit_minimum(Emit *e, const OpCall *c) {
  return extreme(e, c->type, false, c->x[0], c->x[1]);
}
static LLVMValueRef emit_clip(Emit *e, const OpCall *c) {
  return extreme(e, c->type, false, extreme(e, c->type, true, c->x[0], c->x[1]), c->x[2]);
}

static LLVMValueRef emit_cast(Emit *e, const OpCall *c) {
  return emit_convert(e, c->x[0], c->from[0], c->type);
}

// -- keys of argmax -----------------------------------------------------------------------------

// Emits 32 bits for each x. Compared as unsigned numbers, they have the order of the x: -0 equals
// 0, and NaN is the highest.
static LLVMValueRef ordered_bits(Emit *e, LLVMValueRef x, Dtype from) {
  LLVMTypeRef t = type_like(e, e->i32, x);
  if (!dtype_is_float(from))
    return bit_xor(e, emit_coerce(e, x, from, TYPE_I32), const_int(t, INT32_MIN));
  x = emit_coerce(e, x, from, TYPE_F32);
  LLVMValueRef bits = bit_cast(e, offset(e, x, 0), t);
  LLVMValueRef all = LLVMBuildAShr(e->b, bits, const_int(t, 31), "");
  LLVMValueRef y = bit_xor(e, bits, bit_or(e, all, const_int(t, INT32_MIN)));
  return pick(e, is_nan(e, x), const_int(t, -1), y);
}

// Emits a u64 key. The maximum of the keys along a dim is that of the largest value; among equal
// values, that of the smallest index. The upper half has the value, the lower half the inverted
// index.
static LLVMValueRef emit_arg_key(Emit *e, const OpCall *c) {
  LLVMTypeRef t = type_like(e, e->i64, c->x[0]);
  LLVMValueRef high = int_zext(e, ordered_bits(e, c->x[0], c->from[0]), t);
  LLVMValueRef index = emit_coerce(e, c->x[1], c->from[1], TYPE_I32);
  LLVMValueRef low = int_zext(e, bit_not(e, index), t);
  return bit_or(e, left_by(e, high, 32), low);
}

static LLVMValueRef emit_key_index(Emit *e, const OpCall *c) {
  return bit_not(e, int_trunc(e, c->x[0], type_like(e, e->i32, c->x[0])));
}

// -- faults -------------------------------------------------------------------------------------

// Emits the position of an element: the row-major index of the counters of all loops around the
// statement, for that lane of the vector. KLoop.size is the extent of each loop.
static LLVMValueRef flat_position(Emit *e, const OpCall *c, LLVMValueRef lane) {
  LLVMValueRef at = i64_of(e, 0);
  for (int l = 0; l < kernel_depth(e->k, c->s->level); l++) {
    at = int_mul(e, at, i64_of(e, e->k->loop[l].size));
    LLVMValueRef i = counter_at(e, l, c->r, c->v);
    if (has_lanes(e, l)) i = int_add(e, i, lane);
    at = int_add(e, at, i);
  }
  return at;
}

static void report_lane(Emit *e, const OpCall *c, LLVMValueRef value, LLVMValueRef lane) {
  LLVMValueRef code = LLVMBuildFPToUI(e->b, number_value(e, c->s->index), e->i32, "");
  e->report(e, code, int_sext(e, value, e->i64), flat_position(e, c, lane));
}

// Emits code that reports an index that is out of range, for the first lane in which `bad` is true.
static void report(Emit *e, const OpCall *c, LLVMValueRef bad) {
  if (!is_vector(bad)) {
    report_lane(e, c, c->x[0], i64_of(e, 0));
    return;
  }
  LLVMTypeRef bits = LLVMIntTypeInContext(e->ctx, (unsigned)e->plan.lanes);
  LLVMValueRef args[2] = {bit_cast(e, bad, bits), LLVMConstInt(e->i1, 1, false)};
  LLVMValueRef first = emit_call(e, "llvm.cttz", 2, args);
  LLVMValueRef lane = int_zext(e, first, e->i64);
  report_lane(e, c, lane_of(e, c->x[0], lane), lane);
}

// Emits an index clamped to 0..KStmt.step-1, and a report of the first index that was outside.
static LLVMValueRef emit_bound(Emit *e, const OpCall *c) {
  LLVMValueRef last = int_like(c->x[0], c->s->step - 1), zero = zero_of(c);
  LLVMValueRef low = int_less(e, c->x[0], zero);
  LLVMValueRef high = int_cmp(e, LLVMIntSGT, c->x[0], last),
               bad = used_lanes(e, bit_or(e, low, high));
  LLVMBasicBlockRef found = if_begin(e, any_lane(e, bad));
  report(e, c, bad);
  if_end(e, found);
  return pick(e, low, zero, pick(e, high, last, c->x[0]));
}

// -- the rule of an op --------------------------------------------------------------------------

static OpRule *const rules[OP_COUNT] = {
#define OP(id, text, args, cls, flags, attrs, linear, monoid, rows, memory, cost, infer, eval,     \
           grad, emit)                                                                             \
  [OP_##id] = emit_##emit,
#include "ir/graph/ops.def"
};

LLVMValueRef emit_join(Emit *e, Op op, Dtype t, LLVMValueRef a, LLVMValueRef b) {
  // a is the accumulator: a maximum compares its first argument with itself, so that this
  // comparison does not wait for the accumulator.
  OpCall c = {.type = t, .x = {b, a}};
  return rules[op](e, &c);
}

LLVMValueRef emit_op(Emit *e, const KStmt *s, int r, int v) {
  OpCall c = {.s = s, .type = s->type, .r = r, .v = v};
  bool vector = false;
  for (int i = 0; i < 3 && s->arg[i] != NO_STMT; i++) {
    c.from[i] = e->k->stmt[s->arg[i]].type;
    c.x[i] = value_at(e, s->arg[i], r, v);
    if (!(op_row(s->op)->flags & OWN_TYPES)) c.x[i] = emit_coerce(e, c.x[i], c.from[i], s->type);
    vector = vector || is_vector(c.x[i]);
  }
  for (int i = 0; i < 3 && vector; i++)
    if (c.x[i]) c.x[i] = emit_splat(e, c.x[i]);
  LLVMValueRef y = rules[s->op](e, &c);
  return stmt_rounds(s) ? from_memory(e, s->type, to_memory(e, s->type, y)) : y;
}
#endif
