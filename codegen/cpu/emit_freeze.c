// Freezes the addresses and integers that a basic block takes from another one. In: a module after
// mem2reg and early-cse. Out: the same module with `freeze` instructions, which become no code.
//
// Loop strength reduction writes each address of a loop as a sum over all loops around it, and
// tries the ways to divide that sum. A kernel has many loops and, in each, many addresses, so this
// took half of the time of code generation. It does not look through a freeze: an address of an
// inner loop is then a fixed part and one for the loop itself.
#include "codegen/cpu/emit_internal.h"

#ifdef MESHC_HAVE_LLVM

// Returns whether v is integer arithmetic, or an address whose offset is not a constant. Other
// addresses are left alone: their offset becomes part of an instruction.
static bool is_computed(LLVMValueRef v) {
  switch (LLVMGetInstructionOpcode(v)) {
  case LLVMAdd:
  case LLVMSub:
  case LLVMMul: return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMIntegerTypeKind;
  case LLVMGetElementPtr:
    return LLVMGetNumOperands(v) == 2 && !LLVMIsAConstantInt(LLVMGetOperand(v, 1));
  default: return false;
  }
}

// Returns whether `use` is in another block than v. A phi does not count: it may be the counter of
// a loop, which must remain visible.
static bool is_elsewhere(LLVMValueRef v, LLVMUseRef use) {
  LLVMValueRef user = LLVMGetUser(use);
  return !LLVMIsAPHINode(user) && LLVMGetInstructionParent(user) != LLVMGetInstructionParent(v);
}

// Returns an instruction of another block that uses v, or NULL.
static LLVMValueRef user_elsewhere(LLVMValueRef v) {
  for (LLVMUseRef u = LLVMGetFirstUse(v); u; u = LLVMGetNextUse(u))
    if (is_elsewhere(v, u)) return LLVMGetUser(u);
  return NULL;
}

// Makes `user` use `frozen` in place of v.
static void replace_operand(LLVMValueRef user, LLVMValueRef v, LLVMValueRef frozen) {
  for (unsigned i = 0; i < (unsigned)LLVMGetNumOperands(user); i++)
    if (LLVMGetOperand(user, i) == v) LLVMSetOperand(user, i, frozen);
}

static void freeze_block(LLVMBuilderRef b, LLVMBasicBlockRef block) {
  LLVMValueRef next;
  for (LLVMValueRef v = LLVMGetFirstInstruction(block); v; v = next) {
    next = LLVMGetNextInstruction(v);
    LLVMValueRef user = is_computed(v) ? user_elsewhere(v) : NULL;
    if (!user) continue;
    LLVMPositionBuilderBefore(b, next); // a terminator follows at the latest
    LLVMValueRef frozen = LLVMBuildFreeze(b, v, "");
    for (; user; user = user_elsewhere(v)) replace_operand(user, v, frozen);
  }
}

void freeze_addresses(LLVMModuleRef m) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(LLVMGetModuleContext(m));
  for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
    for (LLVMBasicBlockRef k = LLVMGetFirstBasicBlock(f); k; k = LLVMGetNextBasicBlock(k))
      freeze_block(b, k);
  LLVMDisposeBuilder(b);
}
#endif
