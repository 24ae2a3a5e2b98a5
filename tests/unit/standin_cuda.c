// Tests the stand-in of libcuda: that programs which use CUDA well run, and that each kind of
// misuse ends the process with a message. Each case is a process of its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/gpu/cuda.h"
#include "tests/standin/child.h"
#include "tests/standin/fail.h"

// -- the library, and what most cases need ------------------------------------------------------

enum { N = 2048, BYTES = N * 4 };
static CudaApi api;
static char *image; // with the functions of tests/standin/kernels

static CudaContext context;
static CudaStream stream, other;
static CudaEvent event;
static CudaModule module;
static CudaFunction add_one;
static CudaAddress a, b, table; // table: pointers to b and a
static float *pinned;

// A call that has to succeed.
static void ok_at(CudaResult r, const char *call) {
  if (r == CUDA_OK) return;
  fprintf(stderr, "%s returns %d\n", call, (int)r);
  _exit(3);
}
#define OK(call) ok_at(api.call, #call)
static void expect_at(bool is, const char *what) {
  if (is) return;
  fprintf(stderr, "it is not so that %s\n", what);
  _exit(4);
}
#define EXPECT(condition) expect_at(condition, #condition)

static void open_library(void) {
  void *library = dlopen(STANDIN_CUDA, RTLD_NOW | RTLD_LOCAL);
  if (!library) ok_at(CUDA_NOT_FOUND, dlerror());
  static const struct {
    const char *name;
    size_t at;
  } functions[] = {
#define CUDA_FUNCTION(member, symbol, parameters) {#symbol, offsetof(CudaApi, member)},
#include "runtime/gpu/cuda.def"
  };
  for (size_t i = 0; i < countof(functions); i++) {
    void *at = dlsym(library, functions[i].name);
    if (!at) ok_at(CUDA_NOT_FOUND, functions[i].name);
    memcpy((char *)&api + functions[i].at, &at, sizeof at);
  }
}

static char *read_image(const char *path) {
  FILE *f = fopen(path, "rb");
  char *bytes = calloc(1, 1 << 20);
  if (!f || !bytes || fread(bytes, 1, 1 << 20, f) == 0) ok_at(CUDA_NOT_FOUND, path);
  fclose(f);
  return bytes;
}

static CudaFunction function(const char *name) {
  CudaFunction f;
  OK(ModuleGetFunction(&f, module, name));
  return f;
}

static void begin_context(void) {
  OK(Init(0));
  OK(DevicePrimaryCtxRetain(&context, 0));
  OK(CtxSetCurrent(context));
}

static void begin(void) {
  begin_context();
  OK(StreamCreate(&stream, CUDA_STREAM_NON_BLOCKING));
  OK(StreamCreate(&other, CUDA_STREAM_NON_BLOCKING));
  OK(EventCreate(&event, CUDA_EVENT_NO_TIMING));
  OK(ModuleLoadDataEx(&module, image, 0, NULL, NULL));
  add_one = function("add_one");
  OK(MemAlloc(&a, BYTES));
  OK(MemAlloc(&b, BYTES));
  OK(MemAlloc(&table, 16));
  OK(MemHostAlloc((void **)&pinned, BYTES, 0));
  CudaAddress pointers[] = {b, a};
  OK(MemcpyHtoD(table, pointers, sizeof pointers));
  for (int i = 0; i < N; i++) pinned[i] = (float)i;
  OK(MemcpyHtoD(a, pinned, BYTES));
}

static void end(void) {
  OK(CtxSynchronize());
  OK(StreamDestroy(stream));
  OK(StreamDestroy(other));
  OK(EventDestroy(event));
  OK(ModuleUnload(module));
  OK(MemFree(a));
  OK(MemFree(b));
  OK(MemFree(table));
  OK(MemFreeHost(pinned));
  OK(DevicePrimaryCtxRelease(0));
}

static CudaResult launch(CudaFunction f, unsigned blocks, unsigned threads, CudaStream in) {
  void *no_header = NULL;
  int32_t nsets = 1, flags = 0;
  void *argument[] = {&table, &no_header, &nsets, &flags};
  return api.LaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, in, argument, NULL);
}
static void run(CudaFunction f, CudaStream in) { ok_at(launch(f, N / 256, 256, in), "a launch"); }
static void order(CudaStream before, CudaStream after) {
  OK(EventRecord(event, before));
  OK(StreamWaitEvent(after, event, 0));
}

// -- what must work -----------------------------------------------------------------------------

static void steps(void) {
  for (int step = 0; step < 3; step++) {
    for (int i = 0; i < N; i++) pinned[i] = (float)(i + step);
    OK(MemcpyHtoDAsync(a, pinned, BYTES, stream));
    run(add_one, stream);
    OK(MemcpyDtoHAsync(pinned, b, BYTES, stream));
    OK(StreamSynchronize(stream));
    for (int i = 0; i < N; i++) EXPECT(pinned[i] == (float)(i + step + 1));
  }
}
static void streams(void) {
  run(add_one, stream);
  order(stream, other);
  OK(MemcpyDtoDAsync(a, b, BYTES, other));
  order(other, stream);
  run(add_one, stream);
  OK(MemcpyDtoHAsync(pinned, b, BYTES, stream));
  OK(EventRecord(event, stream));
  EXPECT(api.EventQuery(event) == CUDA_NOT_READY);
  OK(EventSynchronize(event));
  EXPECT(pinned[7] == 9);
}
// Reads of two streams need no order; a write behind both does.
static void readers(void) {
  run(add_one, stream);
  OK(MemcpyDtoHAsync(pinned, a, BYTES, other));
  order(other, stream);
  OK(MemsetD8Async(a, 0, BYTES, stream));
}
static CudaGraphExec capture_diamond(bool joined) {
  CudaGraph graph;
  CudaGraphExec exec;
  OK(StreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  run(add_one, stream);
  order(stream, other);
  OK(MemsetD8Async(a, 0, BYTES, joined ? other : stream));
  OK(MemcpyDtoHAsync(pinned, b, BYTES, stream));
  if (!joined) OK(MemcpyDtoDAsync(b, a, BYTES, other));
  order(other, stream);
  OK(MemcpyDtoDAsync(a, b, BYTES, stream));
  OK(StreamEndCapture(stream, &graph));
  OK(GraphInstantiate(&exec, graph, 0));
  OK(GraphDestroy(graph));
  return exec;
}
static void graphs(void) {
  CudaGraphExec exec = capture_diamond(true);
  for (int i = 0; i < 3; i++) {
    OK(GraphLaunch(exec, stream));
    OK(StreamSynchronize(stream));
    EXPECT(pinned[5] == 6 + i);
  }
  OK(GraphExecDestroy(exec));
}
static void unjoined_capture(void) {
  CudaGraph graph;
  OK(StreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  run(add_one, stream);
  order(stream, other);
  OK(MemsetD8Async(a, 0, BYTES, other));
  EXPECT(api.StreamEndCapture(stream, &graph) == CUDA_CAPTURE_UNJOINED);
}
static void disturbed_capture(void) {
  CudaGraph graph;
  CudaAddress at;
  OK(StreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  EXPECT(api.MemAlloc(&at, 4) == CUDA_CAPTURE_UNSUPPORTED);
  EXPECT(api.StreamEndCapture(stream, &graph) == CUDA_CAPTURE_INVALID);
  OK(StreamBeginCapture(stream, CUDA_CAPTURE_GLOBAL));
  EXPECT(api.StreamSynchronize(stream) == CUDA_CAPTURE_UNSUPPORTED);
  EXPECT(api.StreamEndCapture(stream, &graph) == CUDA_CAPTURE_INVALID);
}
// Other bytes of a page to which a copy is under way may be used.
static void neighbours(void) {
  OK(MemcpyDtoHAsync(pinned + 8, a, 32, stream));
  for (int i = 0; i < 8; i++) pinned[i] = (float)(100 + i);
  EXPECT(pinned[7] == 107 && pinned[16] == 16);
  OK(StreamSynchronize(stream));
  EXPECT(pinned[7] == 107 && pinned[8] == 0 && pinned[15] == 7);
}
static void registered(void) {
  static _Alignas(4096) float own[N];
  OK(MemHostRegister(own, sizeof own, CUDA_REGISTER_PORTABLE));
  EXPECT(api.MemHostRegister(own + 8, 8, 0) == CUDA_ALREADY_REGISTERED);
  OK(MemcpyDtoHAsync(own, a, BYTES, stream));
  OK(StreamSynchronize(stream));
  EXPECT(own[N - 1] == N - 1);
  OK(MemHostUnregister(own));
}
// A copy to memory that is not page-locked has ended when the call returns; new memory is NaN.
static void pageable(void) {
  static uint32_t own[N];
  CudaAddress fresh;
  OK(MemAlloc(&fresh, BYTES));
  OK(MemcpyDtoHAsync(own, fresh, BYTES, stream));
  EXPECT(own[0] == UINT32_MAX && own[N - 1] == UINT32_MAX);
  OK(MemFree(fresh));
}
// A large memory that is cleared and used little costs little.
static void clears(void) {
  CudaAddress large;
  size_t bytes = (size_t)1 << 30;
  OK(MemAlloc(&large, bytes));
  OK(MemsetD8Async(large, 0, bytes, stream));
  OK(MemsetD8Async(large + 100, 3, 5000, stream));
  OK(MemsetD8Async(large + 200, 0, 4500, stream));
  OK(MemcpyDtoHAsync(pinned, large, BYTES, stream));
  OK(StreamSynchronize(stream));
  const unsigned char *got = (const unsigned char *)pinned;
  for (int i = 0; i < BYTES; i++) {
    bool filled = (i >= 100 && i < 200) || (i >= 4700 && i < 5100);
    EXPECT(got[i] == (filled ? 3 : 0));
  }
  OK(MemFree(large));
}
static void default_stream(void) {
  CudaStream blocking;
  OK(StreamCreate(&blocking, 0));
  run(add_one, blocking);
  OK(MemcpyDtoH(pinned, b, BYTES));
  OK(StreamDestroy(blocking));
  EXPECT(pinned[3] == 4);
}
static void results(void) {
  const char *name;
  int value;
  size_t left, total;
  CudaAddress at;
  CudaFunction none;
  OK(GetErrorName(CUDA_ILLEGAL_ADDRESS, &name));
  EXPECT(strcmp(name, "CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
  OK(DeviceGetAttribute(&value, CUDA_DEVICE_CAPABILITY_MAJOR, 0));
  EXPECT(value == 8);
  OK(MemGetInfo(&left, &total));
  EXPECT(total == 1 << 20 && left == total - 2 * BYTES - 16);
  EXPECT(api.MemAlloc(&at, 1 << 20) == CUDA_NO_MEMORY);
  EXPECT(api.ModuleGetFunction(&none, module, "absent") == CUDA_NOT_FOUND);
  EXPECT(launch(add_one, 1, 1025, stream) == CUDA_BAD_VALUE);
  OK(FuncSetAttribute(add_one, CUDA_KERNEL_DYNAMIC_SHARED_BYTES, 100 << 10));
  EXPECT(api.DeviceGet(&value, 2) == CUDA_BAD_DEVICE);
}
// The second launch fails: a later call says so, and so do all calls after that.
static void injected_failure(void) {
  run(add_one, stream);
  OK(StreamSynchronize(stream));
  run(add_one, stream);
  EXPECT(api.StreamSynchronize(stream) == CUDA_ILLEGAL_ADDRESS);
  EXPECT(api.MemFree(a) == CUDA_ILLEGAL_ADDRESS);
  _exit(0);
}
// The first launch never ends: its stream and event are never ready, others are.
static void injected_hang(void) {
  run(add_one, stream);
  OK(EventRecord(event, stream));
  for (int i = 0; i < 5; i++) EXPECT(api.EventQuery(event) == CUDA_NOT_READY);
  EXPECT(api.StreamQuery(stream) == CUDA_NOT_READY);
  EXPECT(api.StreamQuery(other) == CUDA_OK);
  _exit(0);
}
static void injected_hang_waits(void) {
  alarm(1);
  run(add_one, stream);
  api.StreamSynchronize(stream);
}

// -- what must be found -------------------------------------------------------------------------

// A function may write page-locked memory, which the host reads when it has waited.
static void writes_host(void) {
  CudaAddress pointers[] = {(CudaAddress)(uintptr_t)pinned, a};
  OK(MemcpyHtoD(table, pointers, sizeof pointers));
  for (int i = 0; i < 2; i++) {
    run(add_one, stream);
    OK(StreamSynchronize(stream));
    EXPECT(pinned[3] == 4);
  }
}

static void unordered_copies(void) {
  OK(MemcpyDtoDAsync(b, a, BYTES, stream));
  OK(MemcpyDtoDAsync(b, a, BYTES, other));
}
static void unordered_kernels(void) {
  run(add_one, stream);
  run(add_one, other);
}
static void unordered_kernel_and_copy(void) {
  run(add_one, stream);
  OK(MemcpyHtoDAsync(a, pinned, BYTES, other));
}
static void event_too_early(void) {
  order(stream, other);
  run(add_one, stream);
  OK(MemcpyDtoDAsync(a, b, BYTES, other));
}
// The second of two unordered readers hides the first one from the shadow memory, not from us.
static void hidden_reader(void) {
  OK(MemcpyDtoHAsync(pinned, a, BYTES, stream));
  OK(MemcpyDtoDAsync(b, a, BYTES, other));
  OK(MemsetD8Async(a, 0, BYTES, other));
}
static void unordered_nodes(void) { OK(GraphLaunch(capture_diamond(false), stream)); }
static void unordered_launches(void) {
  CudaGraphExec exec = capture_diamond(true);
  OK(GraphLaunch(exec, stream));
  run(add_one, other);
}
static void host_reads_early(void) {
  OK(MemcpyDtoHAsync(pinned + 3, a, 4, stream));
  if (pinned[3] == 5) _exit(5);
}
static void host_reads_early_graph(void) {
  OK(GraphLaunch(capture_diamond(true), stream));
  if (pinned[N - 1] == 5) _exit(5);
}
static void host_writes_source(void) {
  OK(MemcpyHtoDAsync(a, pinned, BYTES, stream));
  pinned[9] = 5;
  OK(StreamSynchronize(stream));
}
static void frees_pinned_early(void) {
  OK(MemcpyHtoDAsync(a, pinned, BYTES, stream));
  OK(MemFreeHost(pinned));
}
static void copies_freed(void) {
  OK(MemFree(a));
  OK(MemcpyDtoDAsync(b, a, BYTES, stream));
}
static void launches_freed(void) {
  OK(MemFree(a));
  run(add_one, stream);
}
static void frees_early(void) {
  run(add_one, stream);
  OK(MemFree(a));
}
static void frees_twice(void) {
  OK(MemFree(a));
  OK(MemFree(a));
}
static void frees_middle(void) { OK(MemFree(a + 256)); }
static void copies_too_much(void) { OK(MemcpyDtoDAsync(b, a, BYTES + 4, stream)); }
static void fills_before(void) { OK(MemsetD8Async(a - 4, 0, 4, stream)); }
// Lets add_one read one memory and write another.
static void set_pointers(const void *to, const void *from) {
  CudaAddress pointers[] = {(CudaAddress)(uintptr_t)to, (CudaAddress)(uintptr_t)from};
  OK(MemcpyHtoD(table, pointers, sizeof pointers));
}
static void reads_host(void) {
  static float plain[N];
  set_pointers(pinned, plain);
  run(add_one, stream);
}
static void host_reads_kernel_early(void) {
  set_pointers(pinned, (const void *)(uintptr_t)a);
  run(add_one, stream);
  if (pinned[7] == 5) _exit(5);
}
static void host_writes_unordered(void) {
  set_pointers(pinned, (const void *)(uintptr_t)a);
  run(add_one, stream);
  run(add_one, other);
}
static void reads_beyond(void) { ok_at(launch(add_one, N / 256 + 1, 256, stream), "a launch"); }
static void writes_untold(void) {
  run(function("untold"), stream);
  OK(StreamSynchronize(stream));
}
static void faults(void) { run(function("wild"), stream); }
static void fills_stack(void) { run(function("deep_stack"), stream); }
static void reads_device(void) {
  if (*(float *)(uintptr_t)a == 5) _exit(5);
}
static void reads_unwritten(void) {
  OK(MemFree(a));
  OK(MemAlloc(&a, BYTES));
  CudaAddress pointers[] = {b, a};
  OK(MemcpyHtoD(table, pointers, sizeof pointers));
  run(add_one, stream);
}
static void copies_overlap(void) { OK(MemcpyDtoDAsync(a + 512, a, 1024, stream)); }
static void leaks_memory(void) {
  CudaAddress at;
  OK(MemAlloc(&at, 100));
}
static void leaks_pinned(void) {
  void *at;
  OK(MemHostAlloc(&at, 100, 0));
}
static void leaks_stream(void) {
  CudaStream s;
  OK(StreamCreate(&s, 0));
}
static void leaks_graph(void) { capture_diamond(true); }
static void leaks_context(void) { OK(DevicePrimaryCtxRetain(&context, 0)); }
static void uses_destroyed_stream(void) {
  OK(StreamDestroy(other));
  OK(MemsetD8Async(a, 0, 4, other));
}
static void uses_destroyed_event(void) {
  OK(EventDestroy(event));
  OK(EventRecord(event, stream));
}
static void uses_destroyed_graph(void) {
  CudaGraphExec exec = capture_diamond(true);
  OK(GraphExecDestroy(exec));
  OK(GraphLaunch(exec, stream));
}
static void uses_unloaded_code(void) {
  OK(ModuleUnload(module));
  run(add_one, stream);
}
static void uses_wrong_handle(void) { OK(StreamSynchronize((CudaStream)(void *)event)); }
static void waits_for_old_capture(void) {
  capture_diamond(true);
  OK(StreamWaitEvent(stream, event, 0));
}
static void loads_ptx(void) {
  CudaModule m;
  OK(ModuleLoadDataEx(&m, ".version 8.0\n.target sm_80", 0, NULL, NULL));
}

// -- running the cases --------------------------------------------------------------------------

typedef struct Case {
  const char *name;
  void (*code)(void);
  const char *variable, *value; // of the environment
  bool ends;                    // `end` runs behind the code
  const char *words[2];         // of the message
} Case;

static void run_case(void *argument) {
  const Case *c = argument;
  if (c->variable) setenv(c->variable, c->value, 1);
  setenv("MESHC_STANDIN_CAPABILITY", "80", 1);
  begin();
  c->code();
  if (c->ends) end();
}

#define GOOD(code) #code, code, NULL, NULL, true
static const Case good[] = {
    {GOOD(steps), {NULL}},
    {GOOD(streams), {NULL}},
    {GOOD(readers), {NULL}},
    {GOOD(graphs), {NULL}},
    {GOOD(unjoined_capture), {NULL}},
    {GOOD(disturbed_capture), {NULL}},
    {GOOD(neighbours), {NULL}},
    {GOOD(registered), {NULL}},
    {GOOD(pageable), {NULL}},
    {GOOD(clears), {NULL}},
    {GOOD(default_stream), {NULL}},
    {GOOD(writes_host), {NULL}},
    {"written", streams, "MESHC_STANDIN_WRITTEN", "1", true, {NULL}},
    {"closed", streams, "MESHC_STANDIN_CLOSED", "1", true, {NULL}},
    {"results", results, "MESHC_STANDIN_MEMORY", "1048576", true, {NULL}},
    {"injected_failure", injected_failure, "MESHC_STANDIN_FAIL_LAUNCH", "2", false, {NULL}},
    {"injected_hang", injected_hang, "MESHC_STANDIN_HANG_LAUNCH", "1", false, {NULL}},
};

#define WRONG(code) #code, code, NULL, NULL, false
#define LEAK(code) #code, code, NULL, NULL, true
static const Case wrong[] = {
    {WRONG(unordered_copies), {"nothing orders the two", "cuMemcpyDtoDAsync of 8192 bytes"}},
    {WRONG(unordered_kernels), {"launch of add_one", "nothing orders the two"}},
    {WRONG(unordered_kernel_and_copy), {"launch of add_one", "nothing orders the two"}},
    {WRONG(event_too_early), {"launch of add_one", "nothing orders the two"}},
    {WRONG(hidden_reader), {"cuMemcpyDtoHAsync of 8192 bytes", "nothing orders the two"}},
    {WRONG(unordered_nodes), {"nothing orders the two", NULL}},
    {WRONG(unordered_launches), {"nothing orders the two", "add_one, block"}},
    {WRONG(host_reads_early), {"the host accesses byte 0 of the 4 bytes", "cuMemcpyDtoHAsync"}},
    {WRONG(host_reads_early_graph), {"the host accesses byte 8188", "cuMemcpyDtoHAsync"}},
    {WRONG(host_writes_source), {"the host changed", "cuMemcpyHtoDAsync"}},
    {WRONG(frees_pinned_early), {"cuMemFreeHost ends memory", "has not waited"}},
    {WRONG(copies_freed), {"of 8192 bytes reads", "which is freed"}},
    {WRONG(launches_freed), {"add_one, block", "which is freed"}},
    {WRONG(frees_early), {"cuMemFree frees allocation 1", "has not waited for"}},
    {WRONG(frees_twice), {"a second time", NULL}},
    {WRONG(frees_middle), {"begins no allocation", "byte 256 of allocation 1"}},
    {WRONG(copies_too_much), {"reads 8196 bytes", "allocation 1 of 8192 bytes"}},
    {WRONG(fills_before), {"writes 4 bytes", "4 bytes before allocation 1"}},
    {WRONG(reads_host), {"add_one, block", NULL}},
    {WRONG(host_reads_kernel_early), {"the host accesses byte 28", "launch of add_one"}},
    {WRONG(host_writes_unordered), {"launch of add_one", "nothing orders the two"}},
    {WRONG(reads_beyond), {"add_one, block 8", "bytes behind the end of allocation"}},
    {WRONG(writes_untold), {"something wrote before allocation 2", NULL}},
    {WRONG(faults), {"wild, block", "without telling it"}},
    {WRONG(fills_stack), {"deep_stack, block", "its stack is too small"}},
    {"reads_device",
     reads_device,
     "MESHC_STANDIN_CLOSED",
     "1",
     false,
     {"the host accesses", "byte 0 of allocation 1"}},
    {"reads_unwritten",
     reads_unwritten,
     "MESHC_STANDIN_WRITTEN",
     "1",
     false,
     {"add_one, block", "that nobody has written"}},
    {WRONG(copies_overlap), {"the two overlap", NULL}},
    {LEAK(leaks_memory), {"at the end of the process", "allocation 4 of 100 bytes"}},
    {LEAK(leaks_pinned), {"at the end of the process", "page-locked memory"}},
    {LEAK(leaks_stream), {"at the end of the process", "stream 3"}},
    {LEAK(leaks_graph), {"at the end of the process", "instantiated graph 1"}},
    {LEAK(leaks_context), {"at the end of the process", "retained 1 times"}},
    {WRONG(uses_destroyed_stream), {"stream 2, which is destroyed", NULL}},
    {WRONG(uses_destroyed_event), {"cuEventRecord gets event 1, which is destroyed", NULL}},
    {WRONG(uses_destroyed_graph), {"instantiated graph 1, which is destroyed", NULL}},
    {WRONG(uses_unloaded_code), {"function 1, which is destroyed", NULL}},
    {WRONG(uses_wrong_handle), {"which is no stream", NULL}},
    {WRONG(waits_for_old_capture), {"in a capture that has ended", NULL}},
    {WRONG(loads_ptx), {"not PTX", NULL}},
};

static void test_good(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(good); i++) {
    Case c = good[i];
    char text[1000];
    int code = child_run(run_case, &c, text, sizeof text);
    if (code != 0) fail_msg("%s: exit code %d, %s", c.name, code, text);
  }
}

static void test_wrong(void **state) {
  (void)state;
  for (size_t i = 0; i < countof(wrong); i++) {
    Case c = wrong[i];
    if (!child_fails(run_case, &c, c.words, countof(c.words))) fail_msg("%s is not found", c.name);
  }
}

static void test_hang(void **state) {
  (void)state;
  Case c = {
      "injected_hang_waits", injected_hang_waits, "MESHC_STANDIN_HANG_LAUNCH", "1", false, {0}};
  char text[100];
  assert_int_equal(child_run(run_case, &c, text, sizeof text), -14); // SIGALRM
}

int main(void) {
  open_library();
  image = read_image(STANDIN_KERNELS);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_good),
      cmocka_unit_test(test_wrong),
      cmocka_unit_test(test_hang),
  };
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(image);
  return failed;
}
