// A kernel while it grows out of a group: what kernels.c and views.c share. Private to the two.
#ifndef CODEGEN_MAKER_H
#define CODEGEN_MAKER_H

#include "codegen/fuse/kernel_build_internal.h"

typedef struct Value {
  uint8_t level, phase;
  uint8_t ready; // phase from which it can be used: of reductions one later
  bool direct;   // wanted at the loop counters; others only through windows over them
  bool stored, reduces, accumulates;
  bool needed;     // in the phase under work, at level INNER
  int32_t stmt;    // once emitted
  int inner_phase; // phase of stmt when level is INNER, else -1
} Value;

typedef struct Load {
  NodeId node;
  KLevel level;
  int phase;
  int32_t stmt;
} Load;

typedef struct Maker {
  KernelMaker m;
  const Graph *g;
  uint32_t n;
  const NodeId *node;
  Value *value;
  VEC(Load) load;
} Maker;

// maker.c
int maker_local(const Maker *k, NodeId n); // index of a node of the group, -1
int32_t maker_emit(Maker *k, KStmt s);
KStmt stmt_new(KKind kind, Op op, Dtype type, KLevel level, int phase, NodeId n);
int32_t maker_num(Maker *k, double x, NodeId check);
int32_t maker_pointer(Maker *k, NodeId node, const KPtr *ptr, bool address);
KLevel maker_level(const Maker *k, const Dims *dims);
int16_t maker_slot(KernelMaker *m, Slot s);

// views.c
// The value of a window or an own slice, or a draw, at the loop counters.
int32_t view_emit(Maker *k, NodeId n, int phase);

#endif
