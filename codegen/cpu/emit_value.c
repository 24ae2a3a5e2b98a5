// Builder shorthand, and element types: how they stand in memory, how in registers, and casts.
//
// In registers bf16 and f16 are float, u8 is i32 (0..255), bool is i1. Values are scalars or
// vectors of CpuPlan.lanes elements; whatever takes two operands gets both in one shape by
// emit_splat.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM
#include <string.h>

// -- types and constants ------------------------------------------------------------------------

bool is_vector(LLVMValueRef v) { return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind; }

LLVMTypeRef type_vector(Emit *e, LLVMTypeRef element) {
  return LLVMVectorType(element, (unsigned)e->plan.lanes);
}

// Keeps the length of shape, which may be half of a vector inside a horizontal reduction.
LLVMTypeRef type_like(Emit *e, LLVMTypeRef element, LLVMValueRef shape) {
  (void)e;
  return is_vector(shape) ? LLVMVectorType(element, LLVMGetVectorSize(LLVMTypeOf(shape))) : element;
}

static LLVMTypeRef element_of(LLVMTypeRef t) {
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

static LLVMValueRef splat_const(LLVMTypeRef t, LLVMValueRef c) {
  if (LLVMGetTypeKind(t) != LLVMVectorTypeKind) return c;
  LLVMValueRef all[64];
  unsigned n = LLVMGetVectorSize(t);
  for (unsigned i = 0; i < n; i++) all[i] = c;
  return LLVMConstVector(all, n);
}

LLVMValueRef const_int(LLVMTypeRef t, int64_t x) {
  return splat_const(t, LLVMConstInt(element_of(t), (unsigned long long)x, true));
}

LLVMValueRef const_real(LLVMTypeRef t, double x) {
  return splat_const(t, LLVMConstReal(element_of(t), x));
}

LLVMValueRef const_lanes(Emit *e, LLVMTypeRef element, int64_t stride) {
  LLVMValueRef all[64];
  for (int i = 0; i < e->plan.lanes; i++)
    all[i] = LLVMConstInt(element, (unsigned long long)(i * stride), true);
  return LLVMConstVector(all, (unsigned)e->plan.lanes);
}

LLVMValueRef i64_of(Emit *e, int64_t x) {
  return LLVMConstInt(e->i64, (unsigned long long)x, true);
}

// -- instructions -------------------------------------------------------------------------------

LLVMValueRef emit_splat(Emit *e, LLVMValueRef v) {
  if (is_vector(v)) return v;
  LLVMTypeRef t = type_vector(e, LLVMTypeOf(v));
  if (LLVMIsConstant(v)) return splat_const(t, v);
  LLVMValueRef one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, i64_of(e, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), LLVMConstNull(type_vector(e, e->i32)),
                                "");
}

LLVMValueRef emit_alloca(Emit *e, LLVMTypeRef t) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(e->b);
  LLVMPositionBuilderAtEnd(e->b, e->allocas);
  LLVMValueRef cell = LLVMBuildAlloca(e->b, t, "");
  LLVMPositionBuilderAtEnd(e->b, here);
  return cell;
}

LLVMValueRef emit_intrinsic(Emit *e, const char *name, int ntypes, LLVMTypeRef *types, int n,
                            LLVMValueRef *args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  if (id == 0) BUG("LLVM has no intrinsic %s", name);
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(e->module, id, types, (size_t)ntypes);
  LLVMTypeRef t = LLVMIntrinsicGetType(e->ctx, id, types, (size_t)ntypes);
  return LLVMBuildCall2(e->b, t, f, args, (unsigned)n, "");
}

LLVMValueRef emit_unary(Emit *e, const char *name, LLVMValueRef x) {
  LLVMTypeRef t = LLVMTypeOf(x);
  return emit_intrinsic(e, name, 1, &t, 1, &x);
}

LLVMValueRef fast(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowReassoc | LLVMFastMathNoSignedZeros |
                                LLVMFastMathAllowContract);
  return v;
}

LLVMValueRef contracting(LLVMValueRef v) {
  if (LLVMIsAInstruction(v) && LLVMCanValueUseFastMathFlags(v))
    LLVMSetFastMathFlags(v, LLVMFastMathAllowContract);
  return v;
}

// -- element types ------------------------------------------------------------------------------

LLVMTypeRef reg_type(Emit *e, Dtype t) {
  switch (t) {
  case TYPE_F32:
  case TYPE_BF16:
  case TYPE_F16: return e->f32;
  case TYPE_F64: return e->f64;
  case TYPE_I32:
  case TYPE_U8: return e->i32;
  case TYPE_BOOL: return e->i1;
  case TYPE_I64:
  case TYPE_U64: return e->i64;
  case TYPE_COUNT: break;
  }
  BUG("no element type %d", (int)t);
}

LLVMTypeRef mem_type(Emit *e, Dtype t) {
  switch (t) {
  case TYPE_F32: return e->f32;
  case TYPE_BF16:
  case TYPE_F16: return e->i16;
  case TYPE_F64: return e->f64;
  case TYPE_I32: return e->i32;
  case TYPE_U8:
  case TYPE_BOOL: return e->i8;
  case TYPE_I64:
  case TYPE_U64: return e->i64;
  case TYPE_COUNT: break;
  }
  BUG("no element type %d", (int)t);
}

static LLVMValueRef bits_of(Emit *e, LLVMValueRef x) {
  return LLVMBuildBitCast(e->b, x, type_like(e, e->i32, x), "");
}
static LLVMValueRef float_of(Emit *e, LLVMValueRef bits) {
  return LLVMBuildBitCast(e->b, bits, type_like(e, e->f32, bits), "");
}

// f16 without the processor's help: the exponent is moved by a product, which also makes subnormals
// right.
static LLVMValueRef f16_widen(Emit *e, LLVMValueRef raw) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef t = type_like(e, e->i32, raw);
  LLVMValueRef x = LLVMBuildZExt(b, raw, t, "");
  LLVMValueRef sign =
      LLVMBuildShl(b, LLVMBuildAnd(b, x, const_int(t, 0x8000), ""), const_int(t, 16), "");
  LLVMValueRef rest =
      LLVMBuildShl(b, LLVMBuildAnd(b, x, const_int(t, 0x7fff), ""), const_int(t, 13), "");
  LLVMValueRef y = float_of(e, rest);
  y = LLVMBuildFMul(b, y, const_real(LLVMTypeOf(y), 0x1p112), "");
  // infinities and NaNs come out at 2^16 and above
  LLVMValueRef big = LLVMBuildICmp(b, LLVMIntUGE, rest, const_int(t, 0x0f800000), "");
  LLVMValueRef bits = bits_of(e, y);
  bits = LLVMBuildSelect(b, big, LLVMBuildOr(b, bits, const_int(t, 0x7f800000), ""), bits, "");
  return float_of(e, LLVMBuildOr(b, bits, sign, ""));
}

// The same the other way; the rounding is done by adding a number whose last place is that of the
// result.
static LLVMValueRef f16_narrow(Emit *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->b;
  LLVMValueRef bits = bits_of(e, x);
  LLVMTypeRef t = LLVMTypeOf(bits), f = LLVMTypeOf(x);
  LLVMValueRef abs = LLVMBuildAnd(b, bits, const_int(t, 0x7fffffff), "");
  LLVMValueRef sign =
      LLVMBuildAnd(b, LLVMBuildLShr(b, bits, const_int(t, 16), ""), const_int(t, 0x8000), "");
  // subnormal results: 0.5 has its last place at 2^-24
  LLVMValueRef low = bits_of(e, LLVMBuildFAdd(b, float_of(e, abs), const_real(f, 0.5), ""));
  low = LLVMBuildSub(b, low, const_int(t, 0x3f000000), "");
  LLVMValueRef odd =
      LLVMBuildAnd(b, LLVMBuildLShr(b, abs, const_int(t, 13), ""), const_int(t, 1), "");
  LLVMValueRef high = LLVMBuildAdd(b, abs, const_int(t, 0xfff - (112 << 23)), "");
  high = LLVMBuildLShr(b, LLVMBuildAdd(b, high, odd, ""), const_int(t, 13), "");
  LLVMValueRef y = LLVMBuildSelect(
      b, LLVMBuildICmp(b, LLVMIntULT, abs, const_int(t, 113 << 23), ""), low, high, "");
  LLVMValueRef huge = LLVMBuildICmp(b, LLVMIntUGE, abs, const_int(t, 0x477ff000), "");
  y = LLVMBuildSelect(b, huge, const_int(t, 0x7c00), y, "");
  LLVMValueRef nan = LLVMBuildICmp(b, LLVMIntUGT, abs, const_int(t, 0x7f800000), "");
  y = LLVMBuildSelect(b, nan, const_int(t, 0x7e00), y, "");
  return LLVMBuildTrunc(b, LLVMBuildOr(b, y, sign, ""), type_like(e, e->i16, x), "");
}

static LLVMValueRef f16_load(Emit *e, LLVMValueRef raw) {
  if (!e->target->f16) return f16_widen(e, raw);
  LLVMValueRef h = LLVMBuildBitCast(e->b, raw, type_like(e, e->f16, raw), "");
  return LLVMBuildFPExt(e->b, h, type_like(e, e->f32, raw), "");
}

static LLVMValueRef f16_store(Emit *e, LLVMValueRef x) {
  if (!e->target->f16) return f16_narrow(e, x);
  LLVMValueRef h = LLVMBuildFPTrunc(e->b, x, type_like(e, e->f16, x), "");
  return LLVMBuildBitCast(e->b, h, type_like(e, e->i16, x), "");
}

// Rounded to nearest even by integers: processors' own conversions flush subnormals.
static LLVMValueRef bf16_store(Emit *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->b;
  LLVMValueRef bits = bits_of(e, x);
  LLVMTypeRef t = LLVMTypeOf(bits);
  LLVMValueRef odd =
      LLVMBuildAnd(b, LLVMBuildLShr(b, bits, const_int(t, 16), ""), const_int(t, 1), "");
  LLVMValueRef up = LLVMBuildAdd(b, LLVMBuildAdd(b, bits, const_int(t, 0x7fff), ""), odd, "");
  LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, x, x, "");
  up = LLVMBuildSelect(b, nan, LLVMBuildOr(b, bits, const_int(t, 0x400000), ""), up, "");
  return LLVMBuildTrunc(b, LLVMBuildLShr(b, up, const_int(t, 16), ""), type_like(e, e->i16, x), "");
}

static LLVMValueRef bf16_load(Emit *e, LLVMValueRef raw) {
  LLVMTypeRef t = type_like(e, e->i32, raw);
  return float_of(e, LLVMBuildShl(e->b, LLVMBuildZExt(e->b, raw, t, ""), const_int(t, 16), ""));
}

LLVMValueRef from_memory(Emit *e, Dtype t, LLVMValueRef raw) {
  if (t == TYPE_BF16) return bf16_load(e, raw);
  if (t == TYPE_F16) return f16_load(e, raw);
  if (t == TYPE_U8) return LLVMBuildZExt(e->b, raw, type_like(e, e->i32, raw), "");
  if (t == TYPE_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, raw, const_int(LLVMTypeOf(raw), 0), "");
  return raw;
}

LLVMValueRef to_memory(Emit *e, Dtype t, LLVMValueRef v) {
  if (t == TYPE_BF16) return bf16_store(e, v);
  if (t == TYPE_F16) return f16_store(e, v);
  if (t == TYPE_U8) return LLVMBuildTrunc(e->b, v, type_like(e, e->i8, v), "");
  if (t == TYPE_BOOL) return LLVMBuildZExt(e->b, v, type_like(e, e->i8, v), "");
  return v;
}

// -- casts --------------------------------------------------------------------------------------

static bool is_unsigned(Dtype t) { return t == TYPE_U64 || t == TYPE_U8 || t == TYPE_BOOL; }

// f64 to f32 with the last digit set when anything was cut off, so that the next rounding is right.
static LLVMValueRef round_to_odd(Emit *e, LLVMValueRef x) {
  LLVMBuilderRef b = e->b;
  LLVMValueRef y = LLVMBuildFPTrunc(b, x, type_like(e, e->f32, x), ""), bits = bits_of(e, y);
  LLVMTypeRef t = LLVMTypeOf(bits);
  LLVMValueRef back = LLVMBuildFPExt(b, y, LLVMTypeOf(x), "");
  LLVMValueRef up = LLVMBuildFCmp(b, LLVMRealOGT, emit_unary(e, "llvm.fabs", back),
                                  emit_unary(e, "llvm.fabs", x), "");
  LLVMValueRef off = LLVMBuildFCmp(b, LLVMRealONE, back, x, "");
  bits = LLVMBuildSub(b, bits, LLVMBuildZExt(b, up, t, ""), "");
  return float_of(e, LLVMBuildOr(b, bits, LLVMBuildZExt(b, off, t, ""), ""));
}

static LLVMValueRef float_to_float(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  bool narrow = to == TYPE_BF16 || to == TYPE_F16;
  if (from == TYPE_F64 && narrow)
    v = round_to_odd(e, v);
  else if (from == TYPE_F64 && to != TYPE_F64)
    v = LLVMBuildFPTrunc(e->b, v, want, "");
  else if (from != TYPE_F64 && to == TYPE_F64)
    v = LLVMBuildFPExt(e->b, v, want, "");
  return narrow && from != to ? from_memory(e, to, to_memory(e, to, v)) : v;
}

// Least and largest values that do not saturate, as doubles that the float type holds exactly.
static void int_range(Dtype to, bool wide, double *low, double *high, int64_t *max) {
  switch (to) {
  case TYPE_U8: *low = 0, *high = 255, *max = 255; return;
  case TYPE_I32:
    *low = -0x1p31, *high = wide ? 2147483647.0 : 2147483520.0, *max = INT32_MAX;
    return;
  case TYPE_I64:
    *low = -0x1p63, *high = wide ? 0x1.fffffffffffffp62 : 0x1.fffffep62, *max = INT64_MAX;
    return;
  case TYPE_U64: *low = 0, *high = wide ? 0x1.fffffffffffffp63 : 0x1.fffffep63, *max = -1; return;
  case TYPE_F32:
  case TYPE_BF16:
  case TYPE_F16:
  case TYPE_F64:
  case TYPE_BOOL:
  case TYPE_COUNT: break;
  }
  BUG("%d is no integer type", (int)to);
}

static LLVMValueRef float_to_int(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  LLVMBuilderRef b = e->b;
  LLVMTypeRef f = LLVMTypeOf(v), want = type_like(e, reg_type(e, to), v);
  double low, high;
  int64_t max;
  int_range(to, from == TYPE_F64, &low, &high, &max);
  LLVMValueRef above = LLVMBuildFCmp(b, LLVMRealOGT, v, const_real(f, high), "");
  LLVMValueRef nan = LLVMBuildFCmp(b, LLVMRealUNO, v, v, "");
  LLVMValueRef x = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, v, const_real(f, low), ""),
                                   const_real(f, low), v, "");
  x = LLVMBuildSelect(b, above, const_real(f, high), x, "");
  x = LLVMBuildSelect(b, nan, const_real(f, 0), x, "");
  LLVMValueRef y =
      to == TYPE_U64 ? LLVMBuildFPToUI(b, x, want, "") : LLVMBuildFPToSI(b, x, want, "");
  return LLVMBuildSelect(b, above, const_int(want, max), y, "");
}

static LLVMValueRef int_to_float(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  // i64 to a narrow float goes through double, which a float of this range never needs in full
  Dtype via =
      to == TYPE_F64 || from == TYPE_I64 || from == TYPE_U64 || (from == TYPE_I32 && to != TYPE_F32)
          ? TYPE_F64
          : TYPE_F32;
  if (to == TYPE_F32) via = TYPE_F32;
  LLVMTypeRef t = type_like(e, reg_type(e, via), v);
  LLVMValueRef x =
      is_unsigned(from) ? LLVMBuildUIToFP(e->b, v, t, "") : LLVMBuildSIToFP(e->b, v, t, "");
  return float_to_float(e, x, via, to);
}

static LLVMValueRef int_clamp(Emit *e, LLVMValueRef v, bool sign, int64_t low, int64_t high) {
  LLVMTypeRef t = LLVMTypeOf(v);
  LLVMValueRef lo = const_int(t, low), hi = const_int(t, high);
  if (sign) v = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, v, lo, ""), lo, v, "");
  return LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, sign ? LLVMIntSGT : LLVMIntUGT, v, hi, ""), hi,
                         v, "");
}

static LLVMValueRef int_to_int(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  bool sign = !is_unsigned(from), wide = from == TYPE_I64 || from == TYPE_U64;
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  if (to == TYPE_U8 && from != TYPE_BOOL) v = int_clamp(e, v, sign, 0, 255);
  if (to == TYPE_I32 && wide) v = int_clamp(e, v, sign, INT32_MIN, INT32_MAX);
  if (to == TYPE_U64 && sign)
    v = LLVMBuildSelect(e->b, LLVMBuildICmp(e->b, LLVMIntSLT, v, const_int(LLVMTypeOf(v), 0), ""),
                        const_int(LLVMTypeOf(v), 0), v, "");
  if (to == TYPE_I64 && from == TYPE_U64) v = int_clamp(e, v, false, 0, INT64_MAX);
  if (LLVMTypeOf(v) == want) return v;
  if (wide) return LLVMBuildTrunc(e->b, v, want, "");
  return sign ? LLVMBuildSExt(e->b, v, want, "") : LLVMBuildZExt(e->b, v, want, "");
}

LLVMValueRef emit_convert(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  if (from == to) return v;
  bool ff = dtype_is_float(from), tf = dtype_is_float(to);
  if (to == TYPE_BOOL && ff)
    return LLVMBuildFCmp(e->b, LLVMRealUNE, v, const_real(LLVMTypeOf(v), 0), "");
  if (to == TYPE_BOOL) return LLVMBuildICmp(e->b, LLVMIntNE, v, const_int(LLVMTypeOf(v), 0), "");
  if (ff) return tf ? float_to_float(e, v, from, to) : float_to_int(e, v, from, to);
  return tf ? int_to_float(e, v, from, to) : int_to_int(e, v, from, to);
}

// Only casts saturate: the low bits of a sum or product kept in a wider integer.
static LLVMValueRef int_wrap(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  LLVMTypeRef want = type_like(e, reg_type(e, to), v);
  bool narrower = dtype_bytes(to) < 8 && dtype_bytes(from) == 8;
  if (narrower)
    v = LLVMBuildTrunc(e->b, v, want, "");
  else if (LLVMTypeOf(v) != want)
    v = is_unsigned(from) ? LLVMBuildZExt(e->b, v, want, "") : LLVMBuildSExt(e->b, v, want, "");
  return to == TYPE_U8 && from != TYPE_BOOL ? LLVMBuildAnd(e->b, v, const_int(want, 255), "") : v;
}

LLVMValueRef emit_coerce(Emit *e, LLVMValueRef v, Dtype from, Dtype to) {
  if (from == to) return v;
  if (dtype_is_float(from) && dtype_is_float(to) && reg_type(e, from) == reg_type(e, to)) return v;
  if (!dtype_is_float(from) && !dtype_is_float(to) && to != TYPE_BOOL)
    return int_wrap(e, v, from, to);
  return emit_convert(e, v, from, to);
}

// -- instances ----------------------------------------------------------------------------------

bool depends(const Emit *e, int s, int loop) { return loop >= 0 && (e->plan.dep[s] >> loop & 1); }

LLVMValueRef value_at(Emit *e, int s, int r, int v) {
  int row = depends(e, s, e->k->rows) ? r : 0, vec = depends(e, s, e->k->vector) ? v : 0;
  LLVMValueRef x = e->value[s * TILE + row * TILE_VECS + vec];
  if (!x) BUG("kernel %s: statement %d is used before it is computed", e->k->name, s);
  return x;
}
#endif
