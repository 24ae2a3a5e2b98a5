// Runs the threads of a launch as coroutines (emulator.h). Blocks run one after the other. The
// warps of a block run one after the other, too, each until all of its threads wait at a barrier or
// have ended; when all warps have run so far, they go on behind the barrier. A meeting is what the
// threads of a warp do together, such as a shuffle: they go on when the last one has come.
#define _GNU_SOURCE // MAP_NORESERVE, MADV_NOHUGEPAGE
#include "tests/standin/emulator_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ir/base/mem.h"
#include "tests/standin/fail.h"

// Each stack has a page before it that must not be touched. Their tops are moved apart by some
// cache lines: at equal distances from each other they would share few sets of the cache.
enum { STACK = 128 << 10, GUARD = 4096, SPREAD = 320, SPREADS = 48 };

// -- messages -----------------------------------------------------------------------------------

void emulator_print_block(const Emulator *e, int64_t b, char *text, size_t n) {
  int64_t x = e->launch->blocks_x;
  if (e->launch->blocks_y == 1)
    snprintf(text, n, "block %lld", (long long)b);
  else
    snprintf(text, n, "block (%lld, %lld)", (long long)(b % x), (long long)(b / x));
}

void emulator_fail(const Emulator *e, int thread, const char *format, ...) {
  char block[EMULATOR_TEXT], text[4 * EMULATOR_TEXT];
  emulator_print_block(e, e->block, block, sizeof block);
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  standin_fail("%s, %s, thread %d: %s", e->launch->name, block, thread, text);
}

bool emulator_running(const Emulator *e, char *text, size_t n) {
  if (!e->launch) return false;
  char block[EMULATOR_TEXT];
  emulator_print_block(e, e->block, block, sizeof block);
  snprintf(text, n, "%s, %s, thread %d", e->launch->name, block, e->running);
  return true;
}

// -- threads ------------------------------------------------------------------------------------

void emulator_leave(Emulator *e, State state, int32_t site) {
  Thread *t = &e->thread[e->running];
  t->state = state;
  t->site = site;
  coroutine_switch(&t->at, &e->scheduler);
}

static void on_barrier(GpuEmulator *g, int32_t site) {
  emulator_leave(emulator_of(g), AT_BARRIER, site);
}

// -- one block ----------------------------------------------------------------------------------

static const char *meeting_name(const Thread *t) {
  return t->kind == MEETING_MULTIPLY      ? "mma"
         : t->kind == MEETING_LOAD_MATRIX ? "ldmatrix"
         : t->kind == MEETING_BARRIER     ? "barrier of the warp"
                                          : "shuffle";
}

static void print_state(const Thread *t, int number, char *text, size_t n) {
  if (t->state == ENDED)
    snprintf(text, n, "thread %d has ended", number);
  else
    snprintf(text, n, "thread %d waits at the %s of site %d", number,
             t->state == AT_BARRIER ? "barrier" : meeting_name(t), t->site);
}

// Reports a thread that waits at a meeting although no thread of its warp can run.
static _Noreturn void fail_meeting(const Emulator *e, int thread) {
  int first = thread / GPU_WARP * GPU_WARP;
  for (int i = first; i < first + GPU_WARP; i++) {
    char other[EMULATOR_TEXT] = "the block has no such thread";
    if (i < e->launch->threads) print_state(&e->thread[i], i, other, sizeof other);
    if (i >= e->launch->threads || e->thread[i].state != AT_MEETING)
      emulator_fail(e, thread, "waits at the %s of site %d for thread %d of its warp, but %s",
                    meeting_name(&e->thread[thread]), e->thread[thread].site, i, other);
  }
  BUG("a full warp waits at a meeting");
}

// Called when no thread can run: all must wait at one barrier.
static void check_barrier(const Emulator *e) {
  int waits = -1;
  for (int i = 0; i < e->launch->threads; i++) {
    if (e->thread[i].state == AT_MEETING) fail_meeting(e, i);
    if (e->thread[i].state == AT_BARRIER) waits = i;
  }
  for (int i = 0; i < e->launch->threads && waits >= 0; i++) {
    if (e->thread[i].state == AT_BARRIER && e->thread[i].site == e->thread[waits].site) continue;
    char other[EMULATOR_TEXT];
    print_state(&e->thread[i], i, other, sizeof other);
    emulator_fail(
        e, waits,
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

void emulator_segment(Emulator *e, SegmentOf of) {
  if (*e->next_segment == UINT32_MAX) standin_fail("this process has run too many operations");
  ShadowSelf *g = &e->in_global;
  g->segment = (*e->next_segment)++;
  if (of == OF_BLOCK) g->block = g->segment;
  if (of <= OF_PART) g->part = g->segment;
  if (of <= OF_WARP) g->warp = g->segment;
  // No earlier block has accessed the shared memory of this one, or written to it.
  e->in_shared = (ShadowSelf){.safe = g->block,
                              .launch = g->block,
                              .block = g->block,
                              .part = g->part,
                              .warp = g->warp,
                              .segment = g->segment,
                              .since = g->block};
}

// Runs the threads of a warp, lane by lane from a random one on, until none is ready.
static void run_warp(Emulator *e, int first) {
  int n = e->launch->threads - first < GPU_WARP ? e->launch->threads - first : GPU_WARP;
  int from = (int)(random_next(e) % (uint64_t)n);
  emulator_segment(e, OF_WARP);
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

// Returns whether accesses to shared memory are checked (emulator.h) in block number `block`, which
// runs as the i-th of its launch.
static bool is_checked(const EmulatorLaunch *l, int64_t i, int64_t block) {
  int64_t x = block % l->blocks_x, y = block / l->blocks_x;
  bool corner = (x == 0 || x == l->blocks_x - 1) && (y == 0 || y == l->blocks_y - 1);
  return i < EMULATOR_CHECKED || corner;
}

static void begin_block(Emulator *e, int64_t block) {
  emulator_segment(e, OF_BLOCK);
  e->block = block;
  if (e->nstarts == e->starts) {
    e->starts = 2 * e->starts + 64;
    e->start = mem_grow(e->start, e->starts * sizeof *e->start);
  }
  e->start[e->nstarts++] = (BlockStart){e->in_global.segment, block};
  memset(e->shared, 0xff, (size_t)e->launch->shared);
  emulator_copy_reset(e);
}

static void run_block(Emulator *e, int64_t block) {
  begin_block(e, block);
  for (bool more = true; more; emulator_segment(e, OF_PART)) {
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
    emulator_leave(e, ENDED, 0);
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
  if (l->threads < 1 || l->threads > EMULATOR_THREADS || l->shared > EMULATOR_SHARED ||
      l->blocks_x < 1 || l->blocks_y < 1)
    BUG("a launch of %s that no GPU can run", l->name);
  prepare_threads(e, l->threads);
  e->launch = l;
  e->nstarts = 0;
  memset(e->region, 0, sizeof e->region);
  e->in_global = (ShadowSelf){
      .safe = l->safe, .launch = *e->next_segment, .since = l->written ? 1 : 0, .order = l->order};
  // Block number (from + i * step) mod n runs as the i-th: step has no divisor in common with n.
  int64_t n = l->blocks_x * l->blocks_y, step = 1 + (int64_t)(random_next(e) % (uint64_t)n);
  int64_t from = (int64_t)(random_next(e) % (uint64_t)n);
  while (common_divisor(n, step) != 1) step++;
  for (int64_t i = 0; i < n; i++, from = (from + step) % n) {
    e->checked = is_checked(l, i, from);
    run_block(e, from);
  }
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
  e->device = (GpuEmulator){.thread = on_thread,
                            .threads = on_threads,
                            .block_x = on_block_x,
                            .block_y = on_block_y,
                            .shared = on_shared,
                            .barrier = on_barrier,
                            .warp_barrier = emulator_warp_barrier,
                            .shuffle = emulator_shuffle,
                            .access = emulator_access,
                            .multiply = emulator_multiply,
                            .load_matrix = emulator_load_matrix,
                            .copy_begin = emulator_copy_begin,
                            .copy_commit = emulator_copy_commit,
                            .copy_wait = emulator_copy_wait};
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
  for (int i = 0; i < EMULATOR_THREADS; i++) free(e->thread[i].copy);
  free(e->start);
  free(e);
}
