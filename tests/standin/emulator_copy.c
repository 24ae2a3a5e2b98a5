// Copies to shared memory that run beside the computation (cp.async). A copy lands when its thread
// waits for it, never before, and nobody may access the bytes between its begin and that.
#include "tests/standin/emulator_internal.h"

#include <string.h>

#include "ir/base/mem.h"

enum { WORD = 4 };

void emulator_copy_reset(Emulator *e) {
  memset(e->copied, 0, (size_t)(e->launch->shared + WORD - 1) / WORD * sizeof *e->copied);
  for (int i = 0; i < e->launch->threads; i++) {
    e->thread[i].ncopies = 0;
    e->thread[i].groups = 0;
  }
}

void emulator_copy_check(const Emulator *e, int thread, const char *at, int32_t bytes) {
  int64_t offset = at - e->shared;
  for (int64_t i = offset / WORD; i * WORD < offset + bytes; i++)
    if (e->copied[i])
      emulator_fail(e, thread,
                    "accesses %d bytes at offset %lld of shared memory, to which thread %d copies "
                    "asynchronously: that thread has to wait for the copy, then comes a barrier",
                    bytes, (long long)offset, e->copied[i] - 1);
}

static void mark(Emulator *e, const AsyncCopy *c, int thread) {
  int64_t first = (c->to - e->shared) / WORD;
  for (int64_t i = first; i < first + c->bytes / WORD; i++) e->copied[i] = (uint16_t)thread;
}

// Checks the reads of the copy. Those of a part of its bytes may have any length.
static void check_source(GpuEmulator *g, const AsyncCopy *c) {
  const Emulator *e = emulator_of(g);
  if ((uintptr_t)c->from % (uintptr_t)c->bytes != 0)
    emulator_fail(e, e->running, "copies %d bytes from %p, which is not aligned to as many",
                  c->bytes, (const void *)c->from);
  if (c->valid == c->bytes) emulator_access(g, c->from, c->bytes, GPU_READ, GPU_GLOBAL);
  for (int32_t i = 0; i < c->valid && c->valid < c->bytes; i++)
    emulator_access(g, c->from + i, 1, GPU_READ, GPU_GLOBAL);
}

void emulator_copy_begin(GpuEmulator *g, void *to, const void *from, int32_t bytes, int32_t valid) {
  Emulator *e = emulator_of(g);
  Thread *t = &e->thread[e->running];
  if ((bytes != 4 && bytes != 8 && bytes != 16) || valid < 0 || valid > bytes)
    emulator_fail(e, e->running,
                  "copies %d of %d bytes asynchronously: a GPU copies 4, 8 or 16 bytes", valid,
                  bytes);
  AsyncCopy c = {to, from, bytes, valid, t->groups};
  emulator_access(g, to, bytes, GPU_WRITE, GPU_SHARED);
  check_source(g, &c);
  mark(e, &c, e->running + 1);
  if (t->ncopies == t->copies) {
    t->copies = 2 * t->copies + 16;
    t->copy = mem_grow(t->copy, t->copies * sizeof *t->copy);
  }
  t->copy[t->ncopies++] = c;
}

void emulator_copy_commit(GpuEmulator *g) {
  Emulator *e = emulator_of(g);
  e->thread[e->running].groups++;
}

// Carries out a copy, when its thread has waited for it. It counts as a write by this thread at
// this moment, so that accesses by other threads before the next barrier are races.
static void land(Emulator *e, const AsyncCopy *c) {
  mark(e, c, 0);
  emulator_access_shared(e, e->running, c->to, c->bytes, GPU_WRITE);
  memset(c->to, 0, (size_t)c->bytes);
  memcpy(c->to, c->from, (size_t)c->valid);
}

void emulator_copy_wait(GpuEmulator *g, int32_t groups) {
  Emulator *e = emulator_of(g);
  Thread *t = &e->thread[e->running];
  size_t landed = 0;
  while (landed < t->ncopies && t->copy[landed].group < t->groups - groups)
    land(e, &t->copy[landed++]);
  t->ncopies -= landed;
  memmove(t->copy, t->copy + landed, t->ncopies * sizeof *t->copy);
}
