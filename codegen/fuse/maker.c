// A growing kernel: its statements, numeric arguments, pointers and slots. Equal pointers and slots
// are entered once.
#include "codegen/fuse/maker_internal.h"

#include <string.h>

int maker_local(const Maker *k, NodeId n) {
  uint32_t lo = 0, hi = k->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (k->node[mid] < n)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < k->n && k->node[lo] == n ? (int)lo : -1;
}

KLevel maker_level(const Maker *k, const Dims *dims) {
  KLevel level = LEVEL_PROLOGUE;
  for (int i = 0; i < dims->n; i++) {
    if (dims_has(&k->m.plan.inner, dims->at[i])) return LEVEL_INNER;
    if (dims_has(&k->m.plan.outer, dims->at[i])) level = LEVEL_OUTER;
  }
  return level;
}

int32_t maker_emit(Maker *k, KStmt s) {
  vec_push(k->m.a, k->m.stmt) = s;
  vec_push(k->m.a, k->m.stmt_dim) = 0;
  return (int32_t)(k->m.stmt.n - 1);
}

KStmt stmt_new(KKind kind, Op op, Dtype type, KLevel level, int phase, NodeId n) {
  return (KStmt){.kind = kind,
                 .op = op,
                 .type = type,
                 .level = level,
                 .phase = (uint8_t)phase,
                 .arg = {NO_STMT, NO_STMT, NO_STMT},
                 .index = -1,
                 .slot = -1,
                 .node = n};
}

int32_t maker_num(Maker *k, double x, NodeId check) {
  vec_push(k->m.a, k->m.num) = x;
  vec_push(k->m.a, k->m.check) = check;
  return (int32_t)(k->m.num.n - 1);
}

int32_t maker_pointer(Maker *k, NodeId node, const KPtr *ptr, bool address) {
  KernelMaker *m = &k->m;
  for (uint32_t i = 0; i < m->ptr.n; i++)
    if (m->ptr_node.at[i] == node && m->ptr_address.at[i] == address &&
        memcmp(&m->ptr.at[i], ptr, sizeof *ptr) == 0)
      return (int32_t)i;
  vec_push(m->a, m->ptr) = *ptr;
  vec_push(m->a, m->ptr_node) = node;
  vec_push(m->a, m->ptr_address) = address;
  return (int32_t)(m->ptr.n - 1);
}

int16_t maker_slot(KernelMaker *m, Slot s) {
  for (uint32_t i = 0; i < m->slot.n; i++)
    if (slot_equal(&m->slot.at[i], &s)) return (int16_t)i;
  vec_push(m->a, m->slot) = s;
  return (int16_t)(m->slot.n - 1);
}
