// Tests diagnostics: their text, the limit on their number, and suggestions of similar names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "ir/base/diag.h"

static char *printed(Diag *d, bool colour) {
  static char *text; // static: gcc 12 believes that the buffer is part of this frame
  size_t n;
  FILE *f = open_memstream(&text, &n);
  diag_print(d, f, colour);
  fclose(f);
  return text;
}

static void expect(Diag *d, const char *want) {
  char *text = printed(d, false);
  assert_string_equal(text, want);
  free(text);
}

typedef struct Fixture {
  Arena *a;
  Diag *d;
} Fixture;

static Fixture setup(void) {
  Arena *a = arena_new();
  return (Fixture){a, diag_new(a)};
}

static void error_with_caret_note_and_hint(void **state) {
  (void)state;
  Fixture f = setup();
  const char *text = "dim b = 4\nx = relu(zz)\r\nend";
  uint32_t s = diag_source(f.d, "m.mesh", text, strlen(text));
  diag_error(f.d, DIAG_UNKNOWN_NAME, (Pos){s, 2, 10, 2}, "unknown name %s", "zz");
  diag_note(f.d, (Pos){s, 1, 5, 1}, "near here");
  diag_nearest(f.d, "zz", (const char *[]){"other"}, 1);
  diag_warning(f.d, DIAG_AXIS_UNUSED, (Pos){s, 3, 4, 9}, "past the end");
  assert_int_equal(diag_errors(f.d), 1);
  assert_int_equal(diag_exit(f.d), 3);
  expect(f.d, "m.mesh:2:10: error: unknown name zz [E0201]\n"
              "  x = relu(zz)\n"
              "           ^~\n"
              "m.mesh:1:5: note: near here\n"
              "  dim b = 4\n"
              "      ^\n"
              "m.mesh:3:4: warning: past the end [W0501]\n"
              "  end\n"
              "     ^\n"
              "hint: drop the axis or give it a dim\n");
  expect(f.d, "");
  arena_free(f.a);
}

static void caret_stands_right_after_tabs_and_wide_bytes(void **state) {
  (void)state;
  Fixture f = setup();
  const char *text = "\tä\x01"
                     "b = c";
  uint32_t s = diag_source(f.d, "m.mesh", text, strlen(text));
  diag_error(f.d, DIAG_SYNTAX, (Pos){s, 1, 4, 1}, "tab\tand \x1b[31m");
  expect(f.d, "m.mesh:1:4: error: tab\\x09and \\x1b[31m [E0105]\n"
              "  \tä\\x01b = c\n"
              "  \t     ^\n");
  arena_free(f.a);
}

static void places_without_lines(void **state) {
  (void)state;
  Fixture f = setup();
  uint32_t s = diag_source(f.d, "data.csv", NULL, 0);
  diag_error(f.d, DIAG_FILE_MALFORMED, (Pos){s, 7, 3, 1}, "not a number");
  diag_error(f.d, DIAG_FILE_MALFORMED, (Pos){.source = s}, "too short");
  diag_error(f.d, DIAG_FAILURE, (Pos){0}, "failed");
  expect(f.d, "data.csv:7:3: error: not a number [E0702]\n"
              "data.csv: error: too short [E0702]\n"
              "meshc: error: failed [E0806]\n");
  assert_int_equal(diag_exit(f.d), 5);
  assert_string_equal(diag_source_name(f.d, s), "data.csv");
  assert_string_equal(diag_source_name(f.d, 99), "");
  arena_free(f.a);
}

static void a_source_has_one_number(void **state) {
  (void)state;
  Fixture f = setup();
  const char *text = "dim b = 4", *other = "dim b = 5";
  char again[] = "dim b = 4";
  uint32_t s = diag_source(f.d, "m.mesh", text, strlen(text));
  assert_int_equal(diag_source(f.d, "m.mesh", again, strlen(again)), s);
  assert_int_not_equal(diag_source(f.d, "m.mesh", other, strlen(other)), s);
  assert_int_not_equal(diag_source(f.d, "n.mesh", text, strlen(text)), s);
  uint32_t data = diag_source(f.d, "m.mesh", NULL, 0);
  assert_int_not_equal(data, s);
  assert_int_equal(diag_source(f.d, "m.mesh", NULL, 0), data);
  arena_free(f.a);
}

static void twenty_errors_are_kept(void **state) {
  (void)state;
  Fixture f = setup();
  for (int i = 0; i < 25; i++) {
    for (int again = 0; again < 2; again++) {
      diag_error(f.d, DIAG_FAILURE, (Pos){0}, "error %d", i);
      diag_hint(f.d, "hint %d", i);
    }
  }
  assert_int_equal(diag_errors(f.d),
                   30); // a repeat is recognised only if the first message was kept
  char *text = printed(f.d, false);
  assert_non_null(strstr(text, "error 19 [E0806]\nhint: hint 19\n10 more errors\n"));
  assert_null(strstr(text, "error 20"));
  free(text);
  arena_free(f.a);
}

static void long_lines_are_cut(void **state) {
  (void)state;
  Fixture f = setup();
  char line[1001];
  memset(line, 'a', 1000);
  line[1000] = 0;
  line[499] = 'b';
  uint32_t s = diag_source(f.d, "m.mesh", line, 1000);
  diag_error(f.d, DIAG_SYNTAX, (Pos){s, 1, 500, 400}, "long");
  char *text = printed(f.d, false);
  assert_true(strlen(text) < 500);
  char *excerpt = strchr(text, '\n') + 1, *caret = strchr(excerpt, '\n') + 1;
  ptrdiff_t letter = strchr(excerpt, 'b') - excerpt, mark = strchr(caret, '^') - caret;
  free(text);
  assert_int_equal(letter, mark);
  arena_free(f.a);
}

static void colour_only_when_asked(void **state) {
  (void)state;
  Fixture f = setup();
  diag_error(f.d, DIAG_FAILURE, (Pos){0}, "failed");
  char *text = printed(f.d, true);
  assert_non_null(strstr(text, "\033[1;31merror:\033[0m failed"));
  free(text);
  arena_free(f.a);
}

static void near_names(void **state) {
  (void)state;
  const char *names[] = {"hidden", "logits", "labels", "w"};
  assert_string_equal(text_nearest("hiden", names, 4), "hidden");
  assert_string_equal(text_nearest("lables", names, 4), "labels");
  assert_string_equal(text_nearest("Logits", names, 4), "logits");
  assert_null(text_nearest("v", names, 4));
  assert_null(text_nearest("momentum", names, 4));
  assert_null(text_nearest("", names, 4));
  assert_null(text_nearest("hidden", names, 0));
}

static void table_of_codes(void **state) {
  (void)state;
  assert_string_equal(diag_code(DIAG_SYNTAX), "E0105");
  assert_null(diag_default_hint(DIAG_SYNTAX));
  assert_null(diag_code(DIAG_COUNT));
  for (int i = 0; i < DIAG_COUNT; i++)
    for (int j = 0; j < i; j++) assert_string_not_equal(diag_code((DiagId)i), diag_code((DiagId)j));
}

// `meshc explain CODE` has a text for every code.
static void every_code_has_a_meaning(void **state) {
  (void)state;
  for (int i = 0; i < DIAG_COUNT; i++) {
    const char *code = diag_code((DiagId)i);
    if (!diag_meaning((DiagId)i) || !diag_example((DiagId)i))
      fail_msg("ir/base/meanings.def lacks %s", code);
    assert_true(diag_is_code(code));
    assert_int_equal(diag_of_code(code), i);
    assert_int_equal(diag_exit_code((DiagId)i) == 0, code[0] == 'W');
  }
  assert_int_equal(diag_of_code("w0501"), DIAG_AXIS_UNUSED);
  assert_int_equal(diag_of_code("E9999"), DIAG_COUNT);
  assert_false(diag_is_code("E05050"));
  assert_false(diag_is_code("model.mesh"));
  assert_false(diag_is_code(""));
}

// Hints of a program with other options than meshc: clauses that name one of meshc are left out.
static void hints_of_other_programs(void **state) {
  (void)state;
  static const char *const options[] = {"--params", "--feed", NULL};
  static const struct {
    const char *hint, *left; // NULL: nothing is left
  } cases[] = {
      {"check the parameters: --params FILE, or --checkpoint DIR",
       "check the parameters: --params FILE"},
      {"give it, or say --params-partial to keep initial values", "give it"},
      {"check the path; paths start at --data-dir; or say --feed x=FILE",
       "check the path; or say --feed x=FILE"},
      {"say --set b=1", NULL},
      {"compile the model with --set b=1", "compile the model with --set b=1"},
      {"use --device cpu, or another GPU", "another GPU"},
      {"a - b -- c", "a - b -- c"},
      {"see meshc --help", "see net --help"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Fixture f = setup();
    diag_program(f.d, "net", options);
    diag_error(f.d, DIAG_FAILURE, (Pos){0}, "failed");
    diag_hint(f.d, "%s", cases[i].hint);
    const char *hint = diag_entry(f.d, 0).hint;
    if (cases[i].left)
      assert_string_equal(hint, cases[i].left);
    else
      assert_null(hint);
    arena_free(f.a);
  }
  Fixture f = setup();
  diag_command(f.d, "train"); // meshc train
  diag_error(f.d, DIAG_USAGE, (Pos){0}, "wrong");
  assert_string_equal(diag_entry(f.d, 0).hint, "see meshc train --help");
  arena_free(f.a);
  f = setup();
  diag_program(f.d, NULL, options); // a library
  diag_error(f.d, DIAG_USAGE, (Pos){0}, "wrong");
  assert_null(diag_entry(f.d, 0).hint);
  arena_free(f.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_has_a_meaning),
      cmocka_unit_test(error_with_caret_note_and_hint),
      cmocka_unit_test(caret_stands_right_after_tabs_and_wide_bytes),
      cmocka_unit_test(places_without_lines),
      cmocka_unit_test(a_source_has_one_number),
      cmocka_unit_test(twenty_errors_are_kept),
      cmocka_unit_test(long_lines_are_cut),
      cmocka_unit_test(colour_only_when_asked),
      cmocka_unit_test(near_names),
      cmocka_unit_test(table_of_codes),
      cmocka_unit_test(hints_of_other_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
