// The functions that every program for a GPU has beside its kernels, in C (judge.h).
#include "tests/suite/common/judge.h"

#include <string.h>

static char *at(uint64_t address) { return (char *)(uintptr_t)address; }

static GpuVerdict worst_status(const GpuJudging *j) {
  for (int64_t i = 0; i < j->nstatuses; i++)
    if (((const GpuStatus *)(void *)at(j->statuses))[i].first.code) return GPU_STEP_FAULTY;
  return GPU_STEP_GOOD;
}

// Votes: by the worst of all faults and values, which are copied to the slot. asks: the vote says
// whether the process was asked to stop.
static void look(const void *record, const GpuJudging *j, char *slot, bool asks, GpuVote *vote) {
  GpuVerdict worst = worst_status(j);
  GpuResult r;
  for (int64_t i = 0; i < j->nvalues; i++) {
    GpuValue v;
    uint64_t bits = 0;
    memcpy(&v, (const char *)record + sizeof *j + (size_t)i * sizeof v, sizeof v);
    memcpy(&bits, at(v.at), (size_t)v.bytes);
    memcpy(slot + sizeof(GpuResult) + 8 * i, &bits, 8);
    if (v.exponent && (bits & v.exponent) == v.exponent && worst < GPU_STEP_NOT_FINITE)
      worst = GPU_STEP_NOT_FINITE;
  }
  memcpy(&r, slot, sizeof r);
  *vote = (GpuVote){.verdict = worst, .asked = asks ? r.asked : 0};
}

static void decide(char *slot, GpuHeader *header, int32_t flags, const GpuVote *vote) {
  GpuResult r = {header->go ? vote->verdict : GPU_STEP_HALTED, header->sequence, vote->asked};
  memcpy(slot, &r, sizeof r);
  header[0].go = r.verdict == GPU_STEP_GOOD;
  header[1] = header[0];
  header[0].step += header->go && flags & GPU_COMMITS ? 1 : 0;
  header[0].sequence++;
}

void judge_run(const void *record, GpuHeader *header, int32_t flags) {
  GpuJudging j;
  memcpy(&j, record, sizeof j);
  char *slot = at(j.slot[header->sequence % GPU_SLOTS]);
  GpuVote *vote = (GpuVote *)(void *)(header + 2);
  if (flags & GPU_LOOKS) look(record, &j, slot, !(flags & GPU_DECIDES), vote);
  if (flags & GPU_DECIDES) decide(slot, header, flags, vote);
  if (flags & GPU_SIGNS) {
    int64_t sign = header->sequence << GPU_SIGN_BITS | flags >> GPU_PHASE_BIT;
    memcpy(at(j.sign), &sign, sizeof sign);
  }
}

void move_run(const char *table, const GpuHeader *header, int32_t nsets, int32_t flags) {
  if (flags & GPU_IF_GO && !header->go) return;
  for (int32_t s = 0; s < nsets; s++) {
    const char *record = table + s * gpu_record_bytes(MOVE_POINTERS, MOVE_SLOTS, 0);
    GpuRecord r;
    uint64_t pointer[MOVE_POINTERS];
    int64_t slot[MOVE_SLOTS];
    memcpy(&r, record, sizeof r);
    memcpy(pointer, record + gpu_ptr_at(0), sizeof pointer);
    memcpy(slot, record + gpu_slot_at(MOVE_POINTERS, 0), sizeof slot);
    int64_t unit = slot[MOVE_WIDE] ? 16 : 1;
    int64_t far = header->sequence % GPU_SLOTS * slot[MOVE_STRIDE];
    char *to = at(pointer[MOVE_TO]) + r.from * unit;
    size_t bytes = (size_t)((r.to - r.from) * unit);
    if (pointer[MOVE_FROM])
      memmove(to, at(pointer[MOVE_FROM]) + far + r.from * unit, bytes);
    else
      memset(to, 0, bytes);
  }
}
