// Checks the accesses of GPU threads: alignment, bounds, races (tests/standin/shadow.h).
#include "tests/standin/emulator_internal.h"

#include <stdio.h>
#include <string.h>

static const char *how_word(int32_t how) {
  return how == GPU_READ ? "reads" : how == GPU_WRITE ? "writes" : "changes atomically";
}

// Describes the earlier access of a race: "thread 5 wrote it and no barrier is between them".
static void explain_race(const Emulator *e, ShadowFault fault, const ShadowSelf *s, char *text,
                         size_t n) {
  const char *did = s->other_wrote ? "wrote" : "read";
  if (fault == SHADOW_RACE_OPERATIONS) {
    char name[EMULATOR_TEXT];
    e->memory->operation(e->memory->self, s->other, name, sizeof name);
    snprintf(text, n,
             "%s %s it, and nothing orders the two: let a stream wait for an event of the "
             "other",
             name, did);
  } else if (fault == SHADOW_RACE_BLOCKS) {
    char block[EMULATOR_TEXT] = "another block";
    size_t i = e->nstarts;
    while (i > 0 && e->start[i - 1].segment > s->other) i--;
    if (i > 0 && e->start[i - 1].block != e->block)
      emulator_print_block(e, e->start[i - 1].block, block, sizeof block);
    snprintf(text, n,
             "%s of the launch %s it, and blocks are not ordered: give each its own bytes, "
             "or use two launches",
             block, did);
  } else if (s->other_thread >= SHADOW_WARPS)
    snprintf(text, n, "%s, and no barrier is between them",
             s->other_wrote ? "atomic operations changed it" : "several threads read it");
  else
    snprintf(text, n, "thread %d %s it, and no barrier is between them", s->other_thread, did);
}

static _Noreturn void fail_race(const Emulator *e, int thread, ShadowFault fault,
                                const ShadowSelf *s, const char *at, int32_t bytes, int32_t how,
                                const char *where) {
  char text[3 * EMULATOR_TEXT];
  explain_race(e, fault, s, text, sizeof text);
  emulator_fail(e, thread, "%s %d bytes at %p (%s), but %s", how_word(how), bytes, (const void *)at,
                where, text);
}

static ShadowHow shadow_how(int32_t how) {
  return how == GPU_READ ? SHADOW_READ : how == GPU_WRITE ? SHADOW_WRITE : SHADOW_ATOMIC;
}

void emulator_access_shared(Emulator *e, int thread, const char *at, int32_t bytes, int32_t how) {
  ptrdiff_t offset = at - e->shared;
  if (offset < 0 || offset + bytes > e->launch->shared)
    emulator_fail(
        e, thread,
        "%s %d bytes at offset %lld of shared memory, but the launch gave the block %d bytes",
        how_word(how), bytes, (long long)offset, e->launch->shared);
  emulator_copy_check(e, thread, at, bytes);
  if (!e->checked) return;
  ShadowSelf *self = &e->in_shared;
  self->thread = (uint16_t)thread;
  ShadowFault fault = shadow_access(&e->shared_shadow, self, at, (size_t)bytes, shadow_how(how));
  if (fault == SHADOW_FINE) return;
  if (fault == SHADOW_UNWRITTEN)
    emulator_fail(
        e, thread,
        "%s %d bytes at offset %lld of shared memory that no thread of the block has written",
        how_word(how), bytes, (long long)offset);
  char where[EMULATOR_TEXT];
  snprintf(where, sizeof where, "offset %lld of shared memory", (long long)offset);
  fail_race(e, thread, fault, self, at, bytes, how, where);
}

static bool within(const Shadow *s, const char *at, int32_t bytes) {
  return s && at >= s->from && (size_t)(at - s->from) + (size_t)bytes <= s->bytes;
}

static Shadow *region_of(Emulator *e, const char *at, int32_t bytes, int32_t how) {
  for (int i = 0; i < REGIONS; i++)
    if (within(e->region[i], at, bytes)) return e->region[i];
  Shadow *s = e->memory->find(e->memory->self, at);
  if (!within(s, at, bytes)) {
    char text[2 * EMULATOR_TEXT];
    e->memory->explain(e->memory->self, at, text, sizeof text);
    emulator_fail(e, e->running, "%s %d bytes at %p: %s", how_word(how), bytes, (const void *)at,
                  text);
  }
  memmove(e->region + 1, e->region, (REGIONS - 1) * sizeof *e->region);
  return e->region[0] = s;
}

static void access_global(Emulator *e, const char *at, int32_t bytes, int32_t how) {
  Shadow *s = region_of(e, at, bytes, how);
  ShadowSelf *self = &e->in_global;
  uint32_t since = self->since;
  self->thread = (uint16_t)e->running;
  if (s->outside) self->since = 0;
  ShadowFault fault = shadow_access(s, self, at, (size_t)bytes, shadow_how(how));
  self->since = since;
  if (fault == SHADOW_FINE) return;
  char where[EMULATOR_TEXT];
  if (fault == SHADOW_UNWRITTEN) {
    e->memory->explain(e->memory->self, at, where, sizeof where);
    emulator_fail(e, e->running, "%s %d bytes at %p that nobody has written: %s", how_word(how),
                  bytes, (const void *)at, where);
  }
  snprintf(where, sizeof where, "byte %lld of the allocation of %llu bytes at %p",
           (long long)(at - s->from), (unsigned long long)s->bytes, (void *)s->from);
  fail_race(e, e->running, fault, self, at, bytes, how, where);
}

void emulator_access(GpuEmulator *g, const void *at, int32_t bytes, int32_t how, int32_t space) {
  Emulator *e = emulator_of(g);
  if (bytes <= 0 || bytes > 16 || (bytes & (bytes - 1)) != 0)
    emulator_fail(e, e->running, "%s %d bytes at once: a GPU knows 1, 2, 4, 8 and 16",
                  how_word(how), bytes);
  if (((uintptr_t)at & (uintptr_t)(bytes - 1)) != 0)
    emulator_fail(e, e->running, "%s %d bytes at %p, which is not aligned to as many",
                  how_word(how), bytes, at);
  if (space == GPU_SHARED)
    emulator_access_shared(e, e->running, at, bytes, how);
  else
    access_global(e, at, bytes, how);
}
