// Tests the assembler of PTX (codegen/gpu/assemble.c), where nvJitLink is installed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codegen/gpu/assemble.h"
#include "ir/base/arena.h"

static const char good[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                           ".visible .entry twice(.param .u64 p) {\n"
                           "  .reg .b64 %a;\n  .reg .f32 %x;\n"
                           "  ld.param.u64 %a, [p];\n  ld.global.f32 %x, [%a];\n"
                           "  add.f32 %x, %x, %x;\n  st.global.f32 [%a], %x;\n  ret;\n}\n";
static const char bad[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry wrong() {\n  frobnicate.f32 %x;\n}\n";

// Returns the text of the errors in d, in a file of its own.
static char *errors(Diag *d) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  diag_print(d, f, false);
  fclose(f);
  return text;
}

static void assembles(void **state) {
  (void)state;
  static const char *const gpu[] = {"sm_80", "sm_90", "sm_90a"};
  if (!assembler_open(NULL)->library) skip();
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  for (size_t i = 0; i < countof(gpu); i++) {
    size_t bytes = 0;
    assert_true(assembler_knows(gpu[i]));
    char *code = assemble_ptx(good, "twice", gpu[i], &bytes, d);
    assert_non_null(code);
    assert_true(bytes > 64 && memcmp(code, "\177ELF", 4) == 0);
    free(code);
  }
  assert_false(assembler_knows("sm_1"));
  assert_int_equal(diag_errors(d), 0);
  arena_free(a);
}

// Assembles a text that has an error, for a GPU; the message must have all the words.
static void expect_error(const char *ptx, const char *gpu, const char *const words[2]) {
  Arena *a = arena_new();
  Diag *d = diag_new(a);
  size_t bytes;
  assert_null(assemble_ptx(ptx, "kernel k7", gpu, &bytes, d));
  char *text = errors(d);
  for (int i = 0; i < 2; i++)
    if (!strstr(text, words[i])) fail_msg("no '%s' in: %s", words[i], text);
  free(text);
  arena_free(a);
}

static void says_what_is_wrong(void **state) {
  (void)state;
  if (!assembler_open(NULL)->library) skip();
  expect_error(bad, "sm_80", (const char *[]){"kernel k7", "frobnicate"});
  expect_error(good, "sm_1", (const char *[]){"does not assemble", "sm_1"});
}

static void has_a_version(void **state) {
  (void)state;
  int version = -1;
  bool there = assembler_open(&version)->library;
  assert_true(there ? version >= 12000 : version == 0);
  assert_true(there || strstr(assembler_open(NULL)->why, "libnvJitLink.so.13"));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(assembles),
                                     cmocka_unit_test(says_what_is_wrong),
                                     cmocka_unit_test(has_a_version)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
