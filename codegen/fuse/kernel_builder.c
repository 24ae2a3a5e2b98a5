// A growing kernel: its statements, numeric arguments, pointers and slots. Equal pointers and slots
// are entered once.
#include "codegen/fuse/kernel_build_internal.h"

#include <string.h>

int builder_node(const KernelBuilder *k, NodeId n) {
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

KLevel loops_level(const KernelBuilder *k, const Dims *dims) {
  KLevel level = LEVEL_PROLOGUE;
  for (int i = 0; i < dims->n; i++) {
    if (dims_has(&k->plan.inner, dims->at[i])) return LEVEL_INNER;
    if (dims_has(&k->plan.outer, dims->at[i])) level = LEVEL_OUTER;
  }
  return level;
}

int32_t kernel_add(KernelBuilder *k, KStmt s) {
  vec_push(k->a, k->stmt) = s;
  vec_push(k->a, k->stmt_dim) = 0;
  return (int32_t)(k->stmt.n - 1);
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

int32_t kernel_add_num(KernelBuilder *k, double x, NodeId check) {
  vec_push(k->a, k->num) = x;
  vec_push(k->a, k->check) = check;
  return (int32_t)(k->num.n - 1);
}

int32_t kernel_add_pointer(KernelBuilder *k, NodeId node, const KPtr *ptr, bool address) {
  for (uint32_t i = 0; i < k->ptr.n; i++)
    if (k->ptr_node.at[i] == node && k->ptr_address.at[i] == address &&
        memcmp(&k->ptr.at[i], ptr, sizeof *ptr) == 0)
      return (int32_t)i;
  vec_push(k->a, k->ptr) = *ptr;
  vec_push(k->a, k->ptr_node) = node;
  vec_push(k->a, k->ptr_address) = address;
  return (int32_t)(k->ptr.n - 1);
}

int16_t kernel_add_slot(KernelBuilder *k, Slot s) {
  for (uint32_t i = 0; i < k->slot.n; i++)
    if (slot_equal(&k->slot.at[i], &s)) return (int16_t)i;
  vec_push(k->a, k->slot) = s;
  return (int16_t)(k->slot.n - 1);
}
