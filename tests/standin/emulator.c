// Runs the threads of a launch as coroutines (emulator.h). One block runs at a time: first each of
// its warps until all threads of the warp wait at a barrier or have ended, then all of them from
// the barrier on. Threads of a warp that wait at a shuffle go on when the last one has come.
#define _GNU_SOURCE // MAP_NORESERVE, MADV_NOHUGEPAGE
#include "tests/standin/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/mem.h"
#include "tests/standin/coroutine.h"
#include "tests/standin/fail.h"

// Each stack has a page before it that must not be touched. Their tops are moved apart by some
// cache lines: at equal distances from each other they would share few sets of the cache.
enum { STACK = 128 << 10, GUARD = 4096, SPREAD = 320, SPREADS = 48 };
enum { WARPS = EMULATOR_THREADS / GPU_WARP, TEXT = 400, REGIONS = 4 };

typedef enum State { READY, AT_BARRIER, AT_SHUFFLE, ENDED } State;

typedef struct Thread {
  Coroutine at;
  Emulator *emulator;
  State state;
  int32_t site;       // of the barrier or shuffle at which it waits
  int32_t kind, lane; // of the shuffle
  uint32_t value;     // what it gives to the shuffle, later what it gets
} Thread;

typedef struct BlockStart {
  uint32_t segment; // the first one of the block
  int64_t block;
} BlockStart;

struct Emulator {
  GpuEmulator device; // what functions get; first, so that its address is that of the emulator
  const EmulatorMemory *memory;
  uint32_t *next_segment;
  uint64_t random;
  char *stacks, *shared;
  int prepared; // threads that have a coroutine
  Thread thread[EMULATOR_THREADS];
  Coroutine scheduler;
  int arrived[WARPS]; // threads of each warp that wait at a shuffle
  Shadow shared_shadow;
  Shadow *region[REGIONS]; // where the last accesses were
  // the running launch
  const EmulatorLaunch *launch;
  int running; // the thread that runs
  int64_t block;
  uint32_t first_segment, block_segment, segment;
  BlockStart *start; // of the blocks run so far
  size_t nstarts, starts;
};

// -- messages -----------------------------------------------------------------------------------

static Emulator *emulator_of(GpuEmulator *g) { return (Emulator *)(void *)g; }

// Prints block b of the grid as "block 3", or as "block (3, 1)" where the grid has two dims.
static void print_block(const Emulator *e, int64_t b, char *text, size_t n) {
  int64_t x = e->launch->blocks_x;
  if (e->launch->blocks_y == 1)
    snprintf(text, n, "block %lld", (long long)b);
  else
    snprintf(text, n, "block (%lld, %lld)", (long long)(b % x), (long long)(b / x));
}

static _Noreturn void fail(const Emulator *e, int thread, const char *format, ...)
    PRINTF_LIKE(3, 4);
static _Noreturn void fail(const Emulator *e, int thread, const char *format, ...) {
  char block[TEXT], text[4 * TEXT];
  print_block(e, e->block, block, sizeof block);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  standin_fail("%s, %s, thread %d: %s", e->launch->name, block, thread, text);
}

bool emulator_running(const Emulator *e, char *text, size_t n) {
  if (!e->launch) return false;
  char block[TEXT];
  print_block(e, e->block, block, sizeof block);
  snprintf(text, n, "%s, %s, thread %d", e->launch->name, block, e->running);
  return true;
}

// -- accesses -----------------------------------------------------------------------------------

static const char *how_word(int32_t how) {
  return how == GPU_READ ? "reads" : how == GPU_WRITE ? "writes" : "changes atomically";
}

// Describes the earlier access of a race: "thread 5 wrote it and no barrier is between them".
static void explain_race(const Emulator *e, ShadowFault fault, const ShadowSelf *s, char *text,
                         size_t n) {
  const char *did = s->other_wrote ? "wrote" : "read";
  if (fault == SHADOW_RACE_OPERATIONS) {
    char name[TEXT];
    e->memory->operation(e->memory->self, s->other, name, sizeof name);
    snprintf(text, n,
             "%s %s it, and nothing orders the two: let a stream wait for an event of the "
             "other",
             name, did);
  } else if (fault == SHADOW_RACE_BLOCKS) {
    char block[TEXT] = "another block";
    size_t i = e->nstarts;
    while (i > 0 && e->start[i - 1].segment > s->other) i--;
    if (i > 0 && e->start[i - 1].block != e->block)
      print_block(e, e->start[i - 1].block, block, sizeof block);
    snprintf(text, n,
             "%s of the launch %s it, and blocks are not ordered: give each its own bytes, "
             "or use two launches",
             block, did);
  } else if (s->other_thread >= SHADOW_ATOMICS)
    snprintf(text, n, "%s, and no barrier is between them",
             s->other_wrote ? "atomic operations changed it" : "several threads read it");
  else
    snprintf(text, n, "thread %d %s it, and no barrier is between them", s->other_thread, did);
}

static _Noreturn void fail_race(const Emulator *e, ShadowFault fault, const ShadowSelf *s,
                                const char *at, int32_t bytes, int32_t how, const char *where) {
  char text[3 * TEXT];
  explain_race(e, fault, s, text, sizeof text);
  fail(e, e->running, "%s %d bytes at %p (%s), but %s", how_word(how), bytes, (const void *)at,
       where, text);
}

static ShadowHow shadow_how(int32_t how) {
  return how == GPU_READ ? SHADOW_READ : how == GPU_WRITE ? SHADOW_WRITE : SHADOW_ATOMIC;
}

static void access_shared(Emulator *e, const char *at, int32_t bytes, int32_t how) {
  ptrdiff_t offset = at - e->shared;
  if (offset < 0 || offset + bytes > e->launch->shared)
    fail(e, e->running,
         "%s %d bytes at offset %lld of shared memory, but the launch gave the block %d bytes",
         how_word(how), bytes, (long long)offset, e->launch->shared);
  if (how != GPU_WRITE && shadow_unwritten(&e->shared_shadow, e->block_segment, at, (size_t)bytes))
    fail(e, e->running,
         "%s %d bytes at offset %lld of shared memory that no thread of the block has written",
         how_word(how), bytes, (long long)offset);
  ShadowSelf self = {.safe = e->block_segment,
                     .launch = e->block_segment,
                     .block = e->block_segment,
                     .segment = e->segment,
                     .thread = (uint16_t)e->running};
  ShadowFault fault = shadow_access(&e->shared_shadow, &self, at, (size_t)bytes, shadow_how(how));
  if (fault == SHADOW_FINE) return;
  char where[TEXT];
  snprintf(where, sizeof where, "offset %lld of shared memory", (long long)offset);
  fail_race(e, fault, &self, at, bytes, how, where);
}

static bool within(const Shadow *s, const char *at, int32_t bytes) {
  return s && at >= s->from && (size_t)(at - s->from) + (size_t)bytes <= s->bytes;
}

static Shadow *region_of(Emulator *e, const char *at, int32_t bytes, int32_t how) {
  for (int i = 0; i < REGIONS; i++)
    if (within(e->region[i], at, bytes)) return e->region[i];
  Shadow *s = e->memory->find(e->memory->self, at);
  if (!within(s, at, bytes)) {
    char text[2 * TEXT];
    e->memory->explain(e->memory->self, at, text, sizeof text);
    fail(e, e->running, "%s %d bytes at %p: %s", how_word(how), bytes, (const void *)at, text);
  }
  memmove(e->region + 1, e->region, (REGIONS - 1) * sizeof *e->region);
  return e->region[0] = s;
}

static void access_global(Emulator *e, const char *at, int32_t bytes, int32_t how) {
  Shadow *s = region_of(e, at, bytes, how);
  ShadowSelf self = {.safe = e->launch->safe,
                     .launch = e->first_segment,
                     .block = e->block_segment,
                     .segment = e->segment,
                     .thread = (uint16_t)e->running,
                     .order = e->launch->order};
  ShadowFault fault = shadow_access(s, &self, at, (size_t)bytes, shadow_how(how));
  if (fault == SHADOW_FINE) return;
  char where[TEXT];
  snprintf(where, sizeof where, "byte %lld of the allocation of %llu bytes at %p",
           (long long)(at - s->from), (unsigned long long)s->bytes, (void *)s->from);
  fail_race(e, fault, &self, at, bytes, how, where);
}

static void on_access(GpuEmulator *g, const void *at, int32_t bytes, int32_t how, int32_t space) {
  Emulator *e = emulator_of(g);
  if (bytes <= 0 || bytes > 16 || (bytes & (bytes - 1)) != 0)
    fail(e, e->running, "%s %d bytes at once: a GPU knows 1, 2, 4, 8 and 16", how_word(how), bytes);
  if (((uintptr_t)at & (uintptr_t)(bytes - 1)) != 0)
    fail(e, e->running, "%s %d bytes at %p, which is not aligned to as many", how_word(how), bytes,
         at);
  (space == GPU_SHARED ? access_shared : access_global)(e, at, bytes, how);
}

// -- barriers and shuffles ----------------------------------------------------------------------

static void leave(Emulator *e, Thread *t, State state, int32_t site) {
  t->state = state;
  t->site = site;
  coroutine_switch(&t->at, &e->scheduler);
}

static void on_barrier(GpuEmulator *g, int32_t site) {
  Emulator *e = emulator_of(g);
  leave(e, &e->thread[e->running], AT_BARRIER, site);
}

// Returns the lane from which lane `self` takes its value.
static int source_lane(const Emulator *e, const Thread *t, int self) {
  int from = t->kind == GPU_SHUFFLE_XOR    ? self ^ t->lane
             : t->kind == GPU_SHUFFLE_DOWN ? self + t->lane
                                           : t->lane;
  if (t->kind == GPU_SHUFFLE_DOWN && t->lane >= 0) return from < GPU_WARP ? from : self;
  if (from < 0 || from >= GPU_WARP)
    fail(e, (int)(t - e->thread), "the shuffle of site %d takes the value of thread %d of the warp",
         t->site, from);
  return from;
}

// Gives all threads of a warp, which wait at a shuffle, their values.
static void exchange(Emulator *e, Thread *warp) {
  uint32_t given[GPU_WARP];
  for (int i = 0; i < GPU_WARP; i++) {
    given[i] = warp[i].value;
    if (warp[i].site != warp->site || warp[i].kind != warp->kind)
      fail(e, (int)(warp - e->thread) + i,
           "comes to the shuffle of site %d while thread %d of its warp comes to that of site %d: "
           "a condition before them differs within the warp",
           warp[i].site, (int)(warp - e->thread), warp->site);
  }
  for (int i = 0; i < GPU_WARP; i++) {
    warp[i].value = given[source_lane(e, &warp[i], i)];
    warp[i].state = READY;
  }
}

static uint32_t on_shuffle(GpuEmulator *g, int32_t kind, uint32_t value, int32_t lane,
                           int32_t site) {
  Emulator *e = emulator_of(g);
  Thread *t = &e->thread[e->running];
  int warp = e->running / GPU_WARP;
  t->kind = kind;
  t->lane = lane;
  t->value = value;
  if (++e->arrived[warp] == GPU_WARP) {
    e->arrived[warp] = 0;
    t->site = site;
    exchange(e, &e->thread[warp * GPU_WARP]);
  } else
    leave(e, t, AT_SHUFFLE, site);
  return t->value;
}

// -- one block ----------------------------------------------------------------------------------

static void print_state(const Thread *t, int number, char *text, size_t n) {
  if (t->state == ENDED)
    snprintf(text, n, "thread %d has ended", number);
  else
    snprintf(text, n, "thread %d waits at the %s of site %d", number,
             t->state == AT_BARRIER ? "barrier" : "shuffle", t->site);
}

// Reports a thread that waits at a shuffle although no thread of its warp can run.
static _Noreturn void fail_shuffle(const Emulator *e, int thread) {
  int first = thread / GPU_WARP * GPU_WARP;
  for (int i = first; i < first + GPU_WARP; i++) {
    char other[TEXT] = "the block has no such thread";
    if (i < e->launch->threads) print_state(&e->thread[i], i, other, sizeof other);
    if (i >= e->launch->threads || e->thread[i].state != AT_SHUFFLE)
      fail(e, thread, "waits at the shuffle of site %d for thread %d of its warp, but %s",
           e->thread[thread].site, i, other);
  }
  BUG("a full warp waits at a shuffle");
}

// Called when no thread can run: all must wait at one barrier.
static void check_barrier(const Emulator *e) {
  int waits = -1;
  for (int i = 0; i < e->launch->threads; i++) {
    if (e->thread[i].state == AT_SHUFFLE) fail_shuffle(e, i);
    if (e->thread[i].state == AT_BARRIER) waits = i;
  }
  for (int i = 0; i < e->launch->threads && waits >= 0; i++) {
    if (e->thread[i].state == AT_BARRIER && e->thread[i].site == e->thread[waits].site) continue;
    char other[TEXT];
    print_state(&e->thread[i], i, other, sizeof other);
    fail(e, waits,
         "waits at the barrier of site %d for all threads of the block, but %s: a condition before "
         "the barrier differs within the block",
         e->thread[waits].site, other);
  }
}

static uint64_t random_next(Emulator *e) { // splitmix64
  uint64_t z = e->random += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Runs the threads of a warp, lane by lane from a random one on, until none is ready.
static void run_warp(Emulator *e, int first) {
  int n = e->launch->threads - first < GPU_WARP ? e->launch->threads - first : GPU_WARP;
  int from = (int)(random_next(e) % (uint64_t)n);
  for (bool ran = true; ran;) {
    ran = false;
    for (int i = 0; i < n; i++) {
      int lane = from + i < n ? from + i : from + i - n;
      Thread *t = &e->thread[first + lane];
      if (t->state != READY) continue;
      e->running = first + lane;
      coroutine_switch(&e->scheduler, &t->at);
      ran = true;
    }
  }
}

// Runs all warps, in a random order, up to the next barrier. Returns whether a thread waits there.
static bool run_to_barrier(Emulator *e) {
  int warp[WARPS], n = (e->launch->threads + GPU_WARP - 1) / GPU_WARP;
  for (int i = 0; i < n; i++) {
    int j = (int)(random_next(e) % (uint64_t)(i + 1));
    warp[i] = warp[j];
    warp[j] = i;
  }
  for (int i = 0; i < n; i++) run_warp(e, warp[i] * GPU_WARP);
  check_barrier(e);
  return e->thread[0].state == AT_BARRIER;
}

static void begin_segment(Emulator *e) {
  if (*e->next_segment == UINT32_MAX) standin_fail("this process has run too many operations");
  e->segment = (*e->next_segment)++;
}

static void begin_block(Emulator *e, int64_t block) {
  begin_segment(e);
  e->block = block;
  e->block_segment = e->segment;
  if (e->nstarts == e->starts) {
    e->starts = 2 * e->starts + 64;
    e->start = mem_grow(e->start, e->starts * sizeof *e->start);
  }
  e->start[e->nstarts++] = (BlockStart){e->segment, block};
  memset(e->shared, 0xff, (size_t)e->launch->shared);
}

static void run_block(Emulator *e, int64_t block) {
  begin_block(e, block);
  for (bool more = true; more; begin_segment(e)) {
    for (int i = 0; i < e->launch->threads; i++) e->thread[i].state = READY;
    more = run_to_barrier(e);
  }
}

// -- launches -----------------------------------------------------------------------------------

// The body of all coroutines: one round for each block in which the thread takes part.
static void run_thread(void *argument) {
  Thread *t = argument;
  Emulator *e = t->emulator;
  for (;;) {
    const EmulatorLaunch *l = e->launch;
    l->function(l->table, l->header, l->nsets, l->flags, &e->device);
    leave(e, t, ENDED, 0);
  }
}

static void prepare_threads(Emulator *e, int threads) {
  for (; e->prepared < threads; e->prepared++) {
    Thread *t = &e->thread[e->prepared];
    char *stack = e->stacks + (size_t)e->prepared * (STACK + GUARD);
    mprotect(stack, GUARD, PROT_NONE);
    t->emulator = e;
    size_t spread = (size_t)(e->prepared % SPREADS * SPREAD);
    coroutine_prepare(&t->at, stack + GUARD, STACK - spread, run_thread, t);
  }
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

void emulator_run(Emulator *e, const EmulatorLaunch *l) {
  prepare_threads(e, l->threads);
  e->launch = l;
  e->nstarts = 0;
  memset(e->region, 0, sizeof e->region);
  e->first_segment = *e->next_segment;
  // Block number (from + i * step) mod n runs as the i-th: step has no divisor in common with n.
  int64_t n = l->blocks_x * l->blocks_y, step = 1 + (int64_t)(random_next(e) % (uint64_t)n);
  int64_t from = (int64_t)(random_next(e) % (uint64_t)n);
  while (common_divisor(n, step) != 1) step++;
  for (int64_t i = 0; i < n; i++, from = (from + step) % n) run_block(e, from);
  e->launch = NULL;
}

static int32_t on_thread(GpuEmulator *g) { return emulator_of(g)->running; }
static int32_t on_threads(GpuEmulator *g) { return emulator_of(g)->launch->threads; }
static int32_t on_block_x(GpuEmulator *g) {
  Emulator *e = emulator_of(g);
  return (int32_t)(e->block % e->launch->blocks_x);
}
static int32_t on_block_y(GpuEmulator *g) {
  Emulator *e = emulator_of(g);
  return (int32_t)(e->block / e->launch->blocks_x);
}
static char *on_shared(GpuEmulator *g) { return emulator_of(g)->shared; }

static char *map(size_t bytes) {
  void *at =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) mem_exhausted(bytes);
  madvise(at, bytes, MADV_NOHUGEPAGE);
  return at;
}

Emulator *emulator_new(const EmulatorMemory *memory, uint32_t *next_segment, uint64_t seed) {
  Emulator *e = mem_zeroed(1, sizeof *e);
  e->device = (GpuEmulator){on_thread, on_threads, on_block_x, on_block_y,
                            on_shared, on_barrier, on_shuffle, on_access};
  e->memory = memory;
  e->next_segment = next_segment;
  e->random = seed;
  e->stacks = map((size_t)EMULATOR_THREADS * (STACK + GUARD));
  e->shared = map(EMULATOR_SHARED);
  shadow_begin(&e->shared_shadow, e->shared, EMULATOR_SHARED, false);
  return e;
}

void emulator_free(Emulator *e) {
  if (!e) return;
  munmap(e->stacks, (size_t)EMULATOR_THREADS * (STACK + GUARD));
  munmap(e->shared, EMULATOR_SHARED);
  shadow_end(&e->shared_shadow);
  free(e->start);
  free(e);
}
