// Runs `judge` and `move`, which every program for a GPU has beside its kernels, on the emulator of
// GPU threads, and compares all that they write with what they are to do
// (tests/suite/common/judge.h): random faults, values of all types, infinities and NaN, steps that
// are halted, copies and fills of all lengths and alignments, inputs of several steps. Assembles
// both where an assembler is.
//
//   suite_gpu_judge [seed]   one case
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/assemble.h"
#include "codegen/gpu/gpu_internal.h"
#include "tests/suite/common/code.h"
#include "tests/suite/common/emulated.h"
#include "tests/suite/common/judge.h"

enum { CASES = 300, STATUSES = 600, VALUES = 40, SETS = 4, ROOM = 20000 };
static const int capabilities[] = {80, 90};

static uint64_t seed;
static int64_t below(int64_t n) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return (int64_t)(seed % (uint64_t)n);
}

// Memory that the functions may access.
typedef struct Memory {
  GpuHeader header[2];
  GpuVote vote; // behind the headers
  int64_t sign;
  GpuStatus status[STATUSES];
  _Alignas(16) char value[8 * VALUES];
  _Alignas(16) char slot[GPU_SLOTS][sizeof(GpuResult) + 8 * VALUES];
  _Alignas(16) char to[SETS][ROOM];
  _Alignas(16) char from[SETS][GPU_SLOTS * ROOM];
} Memory;
static Memory device, expected;
static EmulatedImage *image;
static struct {
  GpuJudging judging;
  GpuValue value[VALUES];
} record;
static char table[SETS * 200];

static bool same(const char *what) {
  if (memcmp(&device, &expected, sizeof device) == 0) return true;
  const char *a = (const char *)&device, *b = (const char *)&expected;
  size_t i = 0;
  while (a[i] == b[i]) i++;
  printf("  %s: byte %zu of the memory is %d, not %d\n", what, i, a[i], b[i]);
  return false;
}

static void random_header(void) {
  device.header[0] = (GpuHeader){.step = below(1000),
                                 .seed = (uint64_t)below(1 << 30),
                                 .repeat = below(3),
                                 .go = below(4) > 0,
                                 .sequence = below(100)};
  memset(&device.header[1], 0x55, sizeof device.header[1]);
  device.header[1].unused = 0;
}

// -- the judge ----------------------------------------------------------------------------------

static const uint64_t numbers[] = {0, 0x7f800000, 0xff800001, 0x7f7fffff, 0x3f800000};

static void random_value(int i) {
  static const int64_t sizes[] = {1, 2, 4, 8};
  static const uint64_t exponents[] = {0, 0x7c00, 0x7f800000, 0x7ff0000000000000};
  int size = (int)below(4);
  uint64_t bits = below(3) ? (uint64_t)below(INT64_MAX) : numbers[below(countof(numbers))];
  if (!below(6)) bits = exponents[size];
  memcpy(device.value + 8 * i, &bits, 8);
  record.value[i] = (GpuValue){.at = (uintptr_t)(device.value + 8 * i), .bytes = sizes[size]};
  if (below(2)) record.value[i].exponent = exponents[size];
}

static bool run_judge(void) {
  static const int64_t statuses[] = {0, 1, 31, 255, 256, 257, STATUSES};
  int64_t n = statuses[below(countof(statuses))], values = below(4) ? below(VALUES) : 0;
  // most launches do both; with several devices one looks, another one decides, and some give signs
  static const int32_t parts[] = {GPU_LOOKS | GPU_DECIDES, GPU_LOOKS, GPU_DECIDES,
                                  GPU_SIGNS | 31 << GPU_PHASE_BIT};
  int32_t flags = (below(2) ? GPU_COMMITS : 0) | parts[below(2) ? 0 : below(countof(parts))];
  random_header();
  device.vote = (GpuVote){.verdict = below(GPU_STEP_HALTED), .asked = below(2)};
  memset(device.status, 0, sizeof device.status);
  for (int64_t i = 0; n && below(2) && i < 3; i++) device.status[below(n)].first.code = 7;
  memset(device.slot, 0x55, sizeof device.slot);
  record.judging = (GpuJudging){.statuses = (uintptr_t)device.status,
                                .nstatuses = n,
                                .nvalues = values,
                                .sign = (uintptr_t)&device.sign};
  for (int i = 0; i < values; i++) random_value(i);
  for (int i = 0; i < GPU_SLOTS; i++) record.judging.slot[i] = (uintptr_t)device.slot[i];
  Memory before = device;
  GpuEntry e = gpu_judge_entry();
  judge_run(&record, device.header, flags);
  expected = device;
  device = before;
  emulated_launch(image, e.run, &record, 1, flags, device.header,
                  (EmulatedGrid){1, 1, e.threads, e.shared});
  return same("judge");
}

// -- copies -------------------------------------------------------------------------------------

// Writes the record of a copy whose first block is `first`. Returns its blocks.
static int64_t random_move(int set, int64_t first) {
  static const int64_t lengths[] = {0, 1, 15, 16, 17, 1023, 1024, 1025, 5000, ROOM - 32};
  int64_t bytes = lengths[below(countof(lengths))], unit = bytes % 16 == 0 && below(4) ? 16 : 1;
  int64_t stride = below(2) ? ROOM : 0, slot[MOVE_SLOTS] = {unit == 16, stride};
  char *to = device.to[set] + (unit == 16 ? 0 : below(16)),
       *from = device.from[set] + (unit == 16 ? 0 : below(16));
  uint64_t pointer[MOVE_POINTERS] = {(uintptr_t)to, below(4) || stride ? (uintptr_t)from : 0};
  GpuRecord head = {.first_block = first, .to = bytes / unit, .grain = MOVE_GRAIN};
  char *at = table + set * gpu_record_bytes(MOVE_POINTERS, MOVE_SLOTS, 0);
  memcpy(at, &head, sizeof head);
  memcpy(at + gpu_ptr_at(0), pointer, sizeof pointer);
  memcpy(at + gpu_slot_at(MOVE_POINTERS, 0), slot, sizeof slot);
  return ceil_div(bytes / unit, MOVE_GRAIN);
}

static bool run_move(void) {
  int64_t blocks = 0;
  int32_t flags = below(2) ? GPU_IF_GO : 0;
  random_header();
  for (size_t i = 0; i < sizeof device.from; i++) ((char *)device.from)[i] = (char)below(256);
  for (int i = 0; i < SETS; i++) blocks += random_move(i, blocks);
  memset(device.to, 0x55, sizeof device.to);
  Memory before = device;
  GpuEntry e = gpu_move_entry();
  move_run(table, device.header, SETS, flags);
  expected = device;
  device = before;
  emulated_launch(image, e.run, table, SETS, flags, device.header,
                  (EmulatedGrid){blocks, 1, e.threads, e.shared});
  return same("move");
}

// -- assembling ---------------------------------------------------------------------------------

static void assemble(Arena *a, Diag *d, int *passed, int *failed, int *skipped) {
  for (size_t i = 0; i < countof(capabilities); i++) {
    const char *gpu = arena_printf(a, "sm_%d", capabilities[i]);
    const GpuCodeOptions opt = {
        .target = GPU_PTX, .capability = capabilities[i], .opt = suite_opt(2)};
    const GpuModule m = {.judges = true, .opt = &opt};
    Bytes ptx = {0};
    size_t bytes;
    if (!assembler_knows(gpu)) {
      ++*skipped;
      continue;
    }
    bool good = gpu_compile_list(&m, LLVM_ASSEMBLY, &ptx, d);
    void *code = good ? assemble_ptx(ptx.at, "judge", gpu, &bytes, d) : NULL;
    if (!code) printf("FAIL %s\n", gpu), diag_print(d, stdout, false);
    *(code ? passed : failed) += 1;
    free(code);
    free(ptx.at);
  }
}

int main(int argc, char **argv) {
  uint64_t only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
  int passed = 0, failed = 0, skipped = 0;
  if (!code_available()) {
    printf("0 passed, 0 failed, %zu skipped\n", CASES + countof(capabilities));
    return 0;
  }
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  const Program none = {.for_ = "run"};
  GpuCodeOptions opt = {
      .target = GPU_EMULATED, .capability = 80, .opt = suite_opt(1), .cache = suite_cache()};
  GpuCode *code = gpu_code_load(&none, NULL, &opt, d);
  if (!code) {
    diag_print(d, stdout, false);
    return 1;
  }
  image = emulated_load(code);
  emulated_allow(&device, sizeof device);
  for (uint64_t i = only ? only : 1; i <= (only ? only : CASES); i++) {
    seed = i * 0x9e3779b97f4a7c15u;
    for (int k = 0; k < 10; k++) (void)below(2);
    bool good = i % 2 ? run_judge() : run_move();
    if (!good) printf("FAIL %llu\n", (unsigned long long)i);
    *(good ? &passed : &failed) += 1;
  }
  if (!only) assemble(a, d, &passed, &failed, &skipped);
  emulated_forget(0);
  emulated_free(image);
  gpu_code_free(code);
  arena_free(a);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
