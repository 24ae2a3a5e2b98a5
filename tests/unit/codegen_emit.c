// Tests machine code from emission to execution: loading, the compile cache, assembly texts, and
// code that the loader refuses.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"
#include "codegen/cpu/host_internal.h"
#include "ir/program/image.h"

enum { N = 100, MANY = 12 };

// A kernel y = x * num[0] that accumulates the sum of all y. Each of `extra` more additions makes
// it another kernel.
typedef struct Sample {
  Kernel k;
  KPtr ptr[3];
  KStmt stmt[16];
} Sample;

static int add_stmt(Sample *s, KStmt st) {
  st.slot = -1;
  s->stmt[s->k.nstmts] = st;
  return s->k.nstmts++;
}

static void sample_make(Sample *s, int extra) {
  memset(s, 0, sizeof *s);
  s->k = (Kernel){.name = "scale",
                  .why = "test",
                  .nouter = 1,
                  .vector = 0,
                  .rows = -1,
                  .block = 32,
                  .nphases = 1,
                  .nptr = 3,
                  .nnum = 1,
                  .ptr = s->ptr,
                  .stmt = s->stmt};
  s->k.loop[0] = (KLoop){.name = "i", .size = N, .slot = -1};
  for (int i = 0; i < 3; i++)
    s->ptr[i] = (KPtr){.type = TYPE_F32, .written = i > 0, .stride = {i < 2}};
  int num =
      add_stmt(s, (KStmt){.kind = K_NUM, .type = TYPE_F32, .arg = {NO_STMT, NO_STMT, NO_STMT}});
  int x = add_stmt(s, (KStmt){.kind = K_LOAD,
                              .type = TYPE_F32,
                              .level = LEVEL_OUTER,
                              .arg = {NO_STMT, NO_STMT, NO_STMT}});
  int y = add_stmt(s, (KStmt){.kind = K_OP,
                              .op = OP_MUL,
                              .type = TYPE_F32,
                              .level = LEVEL_OUTER,
                              .arg = {x, num, NO_STMT},
                              .index = -1});
  for (int i = 0; i < extra; i++)
    y = add_stmt(s, (KStmt){.kind = K_OP,
                            .op = OP_ADD,
                            .type = TYPE_F32,
                            .level = LEVEL_OUTER,
                            .arg = {y, x, NO_STMT},
                            .index = -1});
  add_stmt(s, (KStmt){.kind = K_STORE,
                      .type = TYPE_F32,
                      .level = LEVEL_OUTER,
                      .arg = {y, NO_STMT, NO_STMT},
                      .index = 1});
  add_stmt(s, (KStmt){.kind = K_ACCUM,
                      .op = OP_SUM,
                      .type = TYPE_F32,
                      .level = LEVEL_OUTER,
                      .arg = {y, NO_STMT, NO_STMT},
                      .index = 2});
}

typedef struct Fixture {
  Arena *arena;
  Diag *diag;
  Sample sample[MANY];
  Kernel *kernels[MANY];
  ProgKernel prog[MANY];
  Program program;
  char dir[64];
} Fixture;

static int setup(void **state) {
  Fixture *f = calloc(1, sizeof *f);
  f->arena = arena_new();
  f->diag = diag_new(f->arena);
  for (int i = 0; i < MANY; i++) {
    sample_make(&f->sample[i], i / 2);
    f->kernels[i] = &f->sample[i].k;
    f->prog[i] = (ProgKernel){.name = arena_printf(f->arena, "scale%d", i),
                              .partial_bytes = kernel_partial_bytes(f->kernels[i])};
  }
  f->program = (Program){.nkernels = MANY, .kernel = f->prog};
  strcpy(f->dir, "/tmp/meshc_cache_XXXXXX");
  if (!mkdtemp(f->dir)) return -1;
  *state = f;
  return 0;
}

static int count_files(const char *dir, char *last, size_t n) {
  DIR *d = opendir(dir);
  int files = 0;
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
      files++;
      if (last) snprintf(last, n, "%s/%s", dir, e->d_name);
    }
  if (d) closedir(d);
  return files;
}

static int teardown(void **state) {
  Fixture *f = *state;
  char path[400];
  while (count_files(f->dir, path, sizeof path) > 0 && unlink(path) == 0) continue;
  rmdir(f->dir);
  arena_free(f->arena);
  free(f);
  return 0;
}

static void assert_runs(Fixture *f) {
  for (int i = 0; i < MANY; i++) {
    float x[N], y[N], sum = 0, want = 0;
    for (int j = 0; j < N; j++) x[j] = (float)(j % 8);
    char partial[4 * 64] __attribute__((aligned(64)));
    void *ptr[3] = {x, y, &sum};
    double num = 3;
    KernelCall call = {.ptr = ptr, .num = &num, .partial = partial};
    for (int c = 0; c < 4; c++) {
      call.partial = partial + c * f->prog[i].partial_bytes;
      f->prog[i].run(&call, c, c + 1);
    }
    call.partial = partial;
    f->prog[i].combine(&call, 4);
    for (int j = 0; j < N; j++) {
      float expect = (float)(j % 8 * (3 + i / 2));
      assert_true(y[j] == expect);
      want += expect;
    }
    assert_true(sum == want);
  }
}

static Code *load(Fixture *f, const char *cache) {
  CodeOptions o = {.opt = 2, .cache = cache};
  for (int i = 0; i < MANY; i++) f->prog[i].run = NULL;
  Code *c = code_load(&f->program, f->kernels, &o, f->diag);
  if (!c) diag_print(f->diag, stderr, false);
  return c;
}

static void loads_and_runs(void **state) {
  Fixture *f = *state;
  Code *c = load(f, NULL);
  assert_non_null(c);
  assert_runs(f);
  code_free(c);
}

static void memory_is_never_writable_code(void **state) {
  Fixture *f = *state;
  Code *c = load(f, NULL);
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  while (maps && fgets(line, sizeof line, maps)) assert_null(strstr(line, "rwx"));
  if (maps) fclose(maps);
  code_free(c);
}

// The KiB of LLVM's code that are in the memory of this process, from /proc.
static int resident_library(void) {
  FILE *maps = fopen("/proc/self/smaps", "r");
  char line[512];
  int all = 0, kib;
  bool code = false;
  while (maps && fgets(line, sizeof line, maps)) {
    if (strstr(line, " r-xp ") || strstr(line, " rw-p ") || strstr(line, " r--p "))
      code = strstr(line, " r-xp ") && strstr(line, "libLLVM");
    if (code && sscanf(line, "Rss: %d kB", &kib) == 1) all += kib;
  }
  if (maps) fclose(maps);
  return all;
}

static void the_library_leaves_memory(void **state) {
  Fixture *f = *state;
  Code *c = load(f, NULL);
  assert_true(resident_library() < 8 << 10);
  assert_runs(f);
  code_free(c);
}

static void a_process_that_compiles_often_keeps_the_library(void **state) {
  enum { OFTEN = 9 };
  Fixture *f = *state;
  for (int i = 0; i < OFTEN; i++) code_free(load(f, NULL));
  assert_true(resident_library() > 8 << 10);
}

static void cache_is_used(void **state) {
  Fixture *f = *state;
  char path[400];
  code_free(load(f, f->dir));
  assert_int_equal(count_files(f->dir, path, sizeof path), 1);
  struct stat first, again;
  assert_int_equal(stat(path, &first), 0);
  assert_int_equal(first.st_mode & 0777, 0600);
  Code *c = load(f, f->dir);
  assert_runs(f);
  assert_int_equal(stat(path, &again), 0);
  assert_int_equal(
      first.st_ino,
      again.st_ino); // the second run took the file from the cache and did not write it
  code_free(c);
}

static void corrupt_entries_are_compiled_again(void **state) {
  Fixture *f = *state;
  char path[400];
  code_free(load(f, f->dir));
  count_files(f->dir, path, sizeof path);
  for (long at = 20; at < 4000; at += 977) {
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    int old = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(old ^ 1, file);
    fclose(file);
    Code *c = load(f, f->dir);
    assert_non_null(c);
    assert_runs(f);
    code_free(c);
  }
  assert_int_equal(truncate(path, 100), 0);
  Code *c = load(f, f->dir);
  assert_runs(f);
  code_free(c);
}

static void foreign_files_are_not_trusted(void **state) {
  Fixture *f = *state;
  uint8_t key[HASH_BYTES] = {1};
  char object[] = "object";
  Bytes in = {object, sizeof object}, *out;
  char path[400];
  cache_write(f->dir, key, 1, &in);
  assert_int_equal(cache_read(f->dir, key, &out), 1);
  assert_string_equal(out[0].at, "object");
  free(out[0].at);
  free(out);
  count_files(f->dir, path, sizeof path);
  assert_int_equal(chmod(path, 0666), 0);
  assert_int_equal(cache_read(f->dir, key, &out), 0);
  assert_int_equal(chmod(path, 0600), 0);
  assert_int_equal(chmod(f->dir, 0777), 0);
  assert_int_equal(cache_read(f->dir, key, &out), 0);
}

static void hash_is_sha256(void **state) {
  (void)state;
  static const uint8_t abc[HASH_BYTES] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea,
                                          0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
                                          0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c,
                                          0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
  uint8_t out[HASH_BYTES], parts[HASH_BYTES];
  char text[200];
  Hash h;
  hash_start(&h);
  hash_add(&h, "abc", 3);
  hash_end(&h, out);
  assert_memory_equal(out, abc, sizeof out);
  memset(text, 'x', sizeof text);
  for (size_t n = 50; n < sizeof text;
       n++) { // texts of every length, hashed in one piece and in two, test the padding
    hash_start(&h);
    hash_add(&h, text, n);
    hash_end(&h, out);
    hash_start(&h);
    hash_add(&h, text, 37);
    hash_add(&h, text, n - 37);
    hash_end(&h, parts);
    assert_memory_equal(out, parts, sizeof out);
  }
}

static void texts(void **state) {
  Fixture *f = *state;
  CodeOptions o = {.opt = 2, .width = 256};
  char *ir = code_text(f->arena, &f->program, f->kernels, &o, false, f->diag);
  assert_non_null(strstr(ir, "define void @scale0("));
  assert_non_null(strstr(ir, "@scale0_combine("));
  assert_non_null(strstr(ir, "<8 x float>"));
  assert_non_null(
      strstr(code_text(f->arena, &f->program, f->kernels, &o, true, f->diag), "scale0:"));
}

// Lanes behind the last element hold anything, such as the infinity of a division by 0. They do not
// send a cosine into the slow reduction of large arguments.
static void empty_lanes_are_no_large_arguments(void **state) {
  Fixture *f = *state;
  CodeOptions o = {.opt = 2, .width = 256};
  KStmt *product = &f->sample[0].stmt[2];
  product->op = OP_COS;
  product->arg[1] = NO_STMT;
  f->program.nkernels = 1;
  char *ir = code_text(f->arena, &f->program, f->kernels, &o, false, f->diag);
  assert_non_null(strstr(ir, "@llvm.vector.reduce.or"));
  assert_non_null(strstr(ir, "and <8 x i1>"));
}

static void loader_refuses(void **state) {
  (void)state;
  char why[200], bytes[256] = "\177ELF";
  assert_null(image_load(bytes, 10, why));
  assert_null(image_load(bytes, sizeof bytes, why));
  assert_true(strlen(why) > 0);
}

static void names(void **state) {
  (void)state;
  Arena *a = arena_new();
  assert_non_null(strstr(code_version(), "LLVM 19"));
  assert_non_null(strstr(code_cpu(), " bit"));
  assert_string_equal(host_identity(a), host_identity(a));
  arena_free(a);
}

// MESHC_WIDTH narrows vectors; a width that an option sets comes first.
static void widths_are_chosen(void **state) {
  (void)state;
  static const CodeOptions usual, narrow = {.width = 256};
  unsetenv("MESHC_WIDTH");
  assert_int_equal(code_bits(&usual), host_bits());
  setenv("MESHC_WIDTH", "128", 1);
  assert_int_equal(code_bits(&usual), 128);
  assert_int_equal(code_bits(&narrow), 256);
  setenv("MESHC_WIDTH", "100", 1);
  assert_int_equal(code_bits(&usual), host_bits());
  unsetenv("MESHC_WIDTH");
}

int main(void) {
  if (!code_available()) {
    printf("skipped: no LLVM in this build\n");
    return 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(loads_and_runs, setup, teardown),
      cmocka_unit_test_setup_teardown(memory_is_never_writable_code, setup, teardown),
      cmocka_unit_test_setup_teardown(the_library_leaves_memory, setup, teardown),
      cmocka_unit_test_setup_teardown(cache_is_used, setup, teardown),
      cmocka_unit_test_setup_teardown(corrupt_entries_are_compiled_again, setup, teardown),
      cmocka_unit_test_setup_teardown(foreign_files_are_not_trusted, setup, teardown),
      cmocka_unit_test_setup_teardown(empty_lanes_are_no_large_arguments, setup, teardown),
      cmocka_unit_test_setup_teardown(texts, setup, teardown),
      cmocka_unit_test_setup_teardown(a_process_that_compiles_often_keeps_the_library, setup,
                                      teardown),
      cmocka_unit_test(widths_are_chosen),
      cmocka_unit_test(hash_is_sha256),
      cmocka_unit_test(loader_refuses),
      cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
