// The state of the stand-in of libcuda, and how it runs operations (state.h): when they are
// enqueued, but ordered only by what the program orders.
#define _GNU_SOURCE // on_exit
#include "tests/standin/cuda/state.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/mem.h"
#include "tests/standin/cuda/host.h"

State state;
_Thread_local CudaContext current_context;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *call_name = "";
static pid_t process; // that called cuInit

const char *state_call(void) { return call_name; }

// How often each function of the library was called, by its name, which is a literal.
static struct {
  const char *name;
  long n;
} calls[128];

static void count_call(const char *name) {
  size_t i = 0;
  while (calls[i].name && strcmp(calls[i].name, name) != 0)
    if (++i == countof(calls)) standin_fail("too many functions are counted");
  calls[i].name = name;
  calls[i].n++;
}

// Writes a line "NAME COUNT" for each function to the file that MESHC_STANDIN_CALLS names. A % at
// its end becomes the id of the process.
static void write_calls(void) {
  const char *path = getenv("MESHC_STANDIN_CALLS");
  if (!path || !*path) return;
  size_t n = strlen(path);
  char own[4096];
  bool each = path[n - 1] == '%';
  snprintf(own, sizeof own, "%.*s%ld", (int)n - 1, path, (long)getpid());
  FILE *f = fopen(each ? own : path, "w");
  for (size_t i = 0; f && i < countof(calls) && calls[i].name; i++)
    fprintf(f, "%s %ld\n", calls[i].name, calls[i].n);
  if (f) fclose(f);
}

CudaResult state_enter(const char *call) {
  pthread_mutex_lock(&lock);
  call_name = call;
  count_call(call);
  if (!state.started) return CUDA_NOT_INITIALIZED;
  if (state.closed) memory_open(state.memory, true);
  return state.failure_told ? state.failed : CUDA_OK;
}

CudaResult state_leave(CudaResult r) {
  if (state.closed) memory_open(state.memory, false);
  pthread_mutex_unlock(&lock);
  return r;
}

// -- start and end ------------------------------------------------------------------------------

static long long setting(const char *name, long long usual) {
  const char *text = getenv(name);
  if (!text || !*text) return usual;
  char *end;
  long long value = strtoll(text, &end, 10);
  if (*end || value < 0) standin_fail("%s=%s is no number", name, text);
  return value;
}

// The page-locked memory that the running function has accessed so far. Each allocation counts as
// written as a whole.
static StandinAccess touched[8];
static int ntouched;

static Shadow *find_on_host(const char *at) {
  Shadow *s = host_find(at);
  if (!s) return NULL;
  for (int i = 0; i < ntouched; i++)
    if (touched[i].at == s->from) return s;
  if (host_is_polled(at)) return s;
  if (ntouched == (int)countof(touched)) standin_fail("a function accesses too many host memories");
  touched[ntouched++] = (StandinAccess){s->from, s->bytes, 1, 0, STANDIN_HOST | STANDIN_WRITES};
  return s;
}

static Shadow *find(void *self, const char *at) {
  (void)self;
  Allocation *a = memory_find(state.memory, at);
  if (!a) return find_on_host(at);
  if (a->freed) return NULL;
  clock_cover(&a->users, state.lane, state.number);
  return &a->shadow;
}
static void explain(void *self, const char *at, char *text, size_t n) {
  (void)self;
  if (host_find(at))
    snprintf(text, n, "that is memory of the host");
  else
    memory_explain(state.memory, at, text, n);
}
static void operation(void *self, uint32_t segment, char *text, size_t n) {
  (void)self;
  order_name(state.order, segment, text, n);
}
static const EmulatorMemory emulated = {NULL, find, explain, operation};

static void on_other_fault(const char *at) {
  char who[300], what[400];
  explain(NULL, at, what, sizeof what);
  if (emulator_running(state.emulator, who, sizeof who))
    standin_fail("%s: accesses %p without telling it, or its stack is too small: %s", who,
                 (const void *)at, what);
  if (memory_find(state.memory, at) && !memory_find(state.memory, at)->freed)
    standin_fail("the host accesses %p, which is memory of the GPU: %s", (const void *)at, what);
}

// Looks for what the process did not free. A process that ends with an error need not free.
static void at_exit(int status, void *unused) {
  (void)unused;
  if (getpid() != process) return; // a child that was forked
  char text[500];
  write_calls();
  if (status == 0 && !state.failed && !state.hangs) {
    memory_open(state.memory, true);
    memory_check_guards(state.memory);
    if (memory_leaks(state.memory, text, sizeof text) || host_leaks(text, sizeof text) ||
        handle_leaks(text, sizeof text))
      standin_fail("at the end of the process there are still: %s", text);
    if (state.users > 0)
      standin_fail(
          "at the end of the process the context was retained %ld times more than released",
          state.users);
  }
  emulator_free(state.emulator);
  handle_free_all();
  host_free_all();
  memory_free(state.memory);
  order_free(state.order);
  clock_free(&state.host);
}

void state_use_signal_stack(void) {
  static _Thread_local char stack[64 << 10];
  stack_t s = {.ss_sp = stack, .ss_size = sizeof stack}, before;
  if (sigaltstack(NULL, &before) == 0 && (before.ss_flags & SS_DISABLE)) sigaltstack(&s, NULL);
}

static void start(void) {
  state.devices = (long)setting("MESHC_STANDIN_DEVICES", 1);
  state.capability = (long)setting("MESHC_STANDIN_CAPABILITY", 90);
  state.fail_launch = (long)setting("MESHC_STANDIN_FAIL_LAUNCH", 0);
  state.hang_launch = (long)setting("MESHC_STANDIN_HANG_LAUNCH", 0);
  state.lost_wait = (long)setting("MESHC_STANDIN_LOST_WAIT", 0);
  state.slow = (double)setting("MESHC_STANDIN_SLOW", 0);
  state.closed = setting("MESHC_STANDIN_CLOSED", 0) != 0;
  state.written = setting("MESHC_STANDIN_WRITTEN", 0) != 0;
  state.memory = memory_new((size_t)setting("MESHC_STANDIN_MEMORY", (long long)1 << 34));
  state.order = order_new();
  state.random = (uint64_t)setting("MESHC_STANDIN_SEED", 1);
  state.emulator = emulator_new(&emulated, order_next_segment(state.order), state.random);
  host_other_fault = on_other_fault;
  host_begin();
  process = getpid();
  on_exit(at_exit, NULL);
  state.started = true;
}

CudaResult cuInit(unsigned flags) {
  pthread_mutex_lock(&lock);
  if (flags != 0) END(CUDA_BAD_VALUE);
  if (!state.started) start();
  END(state.devices == 0 ? CUDA_NO_DEVICE : CUDA_OK);
}

uint32_t state_random(void) {
  state.random = state.random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state.random >> 33);
}

// -- operations ---------------------------------------------------------------------------------

static void *copy_of(const void *from, size_t bytes) {
  void *to = mem_alloc(bytes);
  if (bytes) memcpy(to, from, bytes);
  return to;
}

Work work_new(const char *name, const StandinAccess *access, int n, void (*run)(void *),
              const void *argument, size_t bytes) {
  Work w = {.run = run,
            .argument = copy_of(argument, bytes),
            .bytes = bytes,
            .access = copy_of(access, (size_t)n * sizeof *access),
            .naccess = n};
  snprintf(w.name, sizeof w.name, "%s", name);
  return w;
}

Work work_copy(const Work *w) {
  Work to = work_new(w->name, w->access, w->naccess, w->run, w->argument, w->bytes);
  to.launches = w->launches;
  return to;
}

void work_free(Work *w) {
  free(w->argument);
  free(w->access);
}

static _Noreturn void fail_place(const Work *w, const StandinAccess *a) {
  char text[400];
  explain(NULL, a->at, text, sizeof text);
  standin_fail("%s %s %llu bytes at %p: %s", w->name,
               a->flags & STANDIN_WRITES ? "writes" : "reads", (unsigned long long)a->bytes, a->at,
               text);
}

static void check_row(const Work *w, const StandinAccess *a, Shadow *s, const char *at) {
  if (at + a->bytes > s->from + s->bytes) fail_place(w, a);
  ShadowFault f = shadow_access(s, &state.self, at, a->bytes,
                                a->flags & STANDIN_WRITES ? SHADOW_WRITE : SHADOW_READ);
  if (f == SHADOW_FINE) return;
  char other[200], where[400];
  order_name(state.order, state.self.other, other, sizeof other);
  explain(NULL, state.self.at, where, sizeof where);
  standin_fail(
      "%s %s memory at %p that %s %s, and nothing orders the two: let a stream wait for an "
      "event of the other (%s)",
      w->name, a->flags & STANDIN_WRITES ? "writes" : "reads", (const void *)state.self.at, other,
      state.self.other_wrote ? "writes" : "reads", where);
}

static void check_access(const Work *w, const StandinAccess *a) {
  if (a->bytes == 0 || a->rows == 0) return;
  Shadow *s = find(NULL, a->at);
  if (!s) s = host_find(a->at);
  if (!s && (a->flags & STANDIN_HOST) && !memory_find(state.memory, a->at)) return;
  if (!s) fail_place(w, a);
  for (size_t row = 0; row < a->rows; row++)
    check_row(w, a, s, (const char *)a->at + row * a->stride);
}

void meshc_standin_hang(void) {
  state.hangs = true;
  state.hung_lane = state.lane;
  state.hung = state.number;
}

void meshc_standin_resume(void) {
  pthread_mutex_lock(&lock);
  state.hangs = false;
  pthread_mutex_unlock(&lock);
}

// Whether the operation is to do nothing, as a failure or a hang is injected.
static bool is_stopped(const Work *w) {
  if (w->launches && !state.failed && !state.hangs) {
    state.launches++;
    if (state.launches == state.fail_launch) state.failed = CUDA_ILLEGAL_ADDRESS;
    if (state.launches == state.hang_launch) meshc_standin_hang();
  }
  return state.failed || state.hangs;
}

void work_run(const Work *w, uint32_t lane, const Clock *behind) {
  state.lane = lane;
  state.number = order_begin(state.order, lane, behind, w->name, &state.self);
  if (is_stopped(w)) return;
  for (int i = 0; i < w->naccess; i++) check_access(w, &w->access[i]);
  ntouched = 0;
  host_lift(w->launches ? NULL : w->access, w->naccess);
  w->run(w->argument);
  if (w->launches && state.slow > 0) host_hold();
  if (w->launches)
    host_guard(touched, ntouched, lane, state.number, w->name);
  else
    host_guard(w->access, w->naccess, lane, state.number, w->name);
}

static bool is_hung(const Clock *c) {
  return state.hangs && (!c || clock_covers(c, state.hung_lane, state.hung));
}

static void cover_all(Clock *c) {
  for (uint32_t lane = 0; lane < order_lanes(state.order); lane++)
    clock_cover(c, lane, order_lane_length(state.order, lane));
}

CudaResult state_wait(const Clock *c) {
  if (is_hung(c)) {
    pthread_mutex_unlock(&lock);
    for (;;) pause();
  }
  if (c)
    clock_join(&state.host, c);
  else
    cover_all(&state.host);
  host_waited(&state.host);
  order_forget(state.order, &state.host);
  memory_check_guards(state.memory);
  state.failure_told = state.failed != 0;
  return state.failed;
}
