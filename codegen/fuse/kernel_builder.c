// Adds statements, numeric arguments, pointers and slots to a kernel under construction.
#include "codegen/fuse/kernel_build_internal.h"

#include <string.h>

int group_index(const Group *g, NodeId n) {
  uint32_t low = 0, high = g->nnodes;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (g->node[middle] < n)
      low = middle + 1;
    else
      high = middle;
  }
  return low < g->nnodes && g->node[low] == n ? (int)low : -1;
}

KLevel loops_level(const KernelBuilder *k, const DimList *dims) {
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
                 .other = -1,
                 .slot = -1,
                 .node = n};
}

void stmt_order_args(KStmt *s) {
  if (!(op_row(s->op)->flags & COMMUTES) || s->arg[0] <= s->arg[1]) return;
  int32_t swap = s->arg[0];
  s->arg[0] = s->arg[1];
  s->arg[1] = swap;
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
