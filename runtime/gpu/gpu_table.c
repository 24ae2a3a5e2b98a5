// The table of records of a step's plan: a launch reads its operands from records
// (ir/program/gpu.h), one for each operand set of each processor. All records of a step are in one
// table, which is written on the host and copied to the GPU once.
#include "runtime/gpu/gpu_plan_internal.h"

#include <string.h>

char *gpu_table_add(StepPlan *p, size_t n, int64_t *at) {
  if (n > p->need.table - p->table_bytes) BUG("the records of a step were measured too small");
  *at = (int64_t)p->table_bytes;
  p->table_bytes += n;
  return p->table + *at;
}

size_t gpu_table_record(const ProgKernel *k) {
  return (size_t)gpu_record_bytes(k->nptr, k->nslot, k->nnum);
}

void gpu_table_set(const DeviceWork *w, StepPlan *p, const ProgKernel *k, GpuRecord record,
                   SetOperands of, Launching *l) {
  int64_t at;
  char *to = gpu_table_add(p, gpu_table_record(k), &at);
  record.first_block = l->blocks;
  memcpy(to, &record, sizeof record);
  for (int i = 0; i < k->nptr; i++) {
    CudaAddress address = gpu_operand(w, p, of.ptr[i]);
    memcpy(to + gpu_ptr_at(i), &address, sizeof address);
  }
  if (k->nslot) memcpy(to + gpu_slot_at(k->nptr, 0), of.slot, k->nslot * sizeof *of.slot);
  if (k->nnum) memcpy(to + gpu_num_at(k->nptr, k->nslot, 0), of.num, k->nnum * sizeof *of.num);
  if (l->nsets++ == 0) l->table = at;
  l->blocks += ceil_div(record.to - record.from, record.grain) * (l->parts ? l->parts : 1);
}

void gpu_table_kernel(const DeviceWork *w, StepPlan *p, const BoundKernel *b, int64_t grain,
                      CudaAddress status, const LoopSteps *steps, Launching *l) {
  const ProgKernel *k = b->kernel;
  for (uint32_t s = 0; s < b->nsets; s++) {
    const BoundSet *set = &b->set[s];
    GpuRecord record = {
        .from = set->from, .to = set->from + set->units, .grain = grain, .status = status};
    if (k->partial_bytes)
      record.partial = gpu_translate(w, b->partial) + (CudaAddress)(set->first * k->partial_bytes);
    if (l->scratch) record.partial = l->scratch_at;
    l->scratch_at += (CudaAddress)l->scratch;
    void **moved = w->exec->moved[0];
    for (int i = 0; i < k->nptr; i++)
      moved[i] =
          (char *)set->ptr[i] + (set->ref ? ref_moved(set->ref[i], steps->depth, steps->at) : 0);
    gpu_table_set(w, p, k, record, (SetOperands){moved, set->slot, set->num}, l);
  }
}

size_t gpu_table_move_record(void) {
  return (size_t)gpu_record_bytes(MOVE_POINTERS, MOVE_SLOTS, 0);
}

void gpu_table_move(StepPlan *p, const GpuMove *m, Launching *l) {
  enum { UNIT = 16 };
  uint64_t pointer[MOVE_POINTERS] = {[MOVE_TO] = m->to, [MOVE_FROM] = m->from};
  bool wide = ((m->to | m->from | (uint64_t)m->bytes | (uint64_t)m->stride) & (UNIT - 1)) == 0;
  int64_t slot[MOVE_SLOTS] = {[MOVE_WIDE] = wide, [MOVE_STRIDE] = m->stride};
  int64_t units = wide ? m->bytes / UNIT : m->bytes, at;
  GpuRecord head = {.first_block = l->blocks, .to = units, .grain = MOVE_GRAIN};
  char *to = gpu_table_add(p, gpu_table_move_record(), &at);
  memcpy(to, &head, sizeof head);
  memcpy(to + gpu_ptr_at(0), pointer, sizeof pointer);
  memcpy(to + gpu_slot_at(MOVE_POINTERS, 0), slot, sizeof slot);
  if (l->nsets++ == 0) l->table = at;
  l->blocks += ceil_div(units, MOVE_GRAIN);
}
