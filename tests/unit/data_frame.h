// What the tests of data files share: a folder that is removed at the end, an arena and diagnostics
// for each test, files in the folder, and messages. Each includes it once.
#ifndef TESTS_UNIT_DATA_FRAME_H
#define TESTS_UNIT_DATA_FRAME_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "runtime/runtime.h"

static char directory[] = "/tmp/meshc_data_XXXXXX";
static Arena *arena;
static Diag *diag;

static int set_up(void **state) {
  (void)state;
  return mkdtemp(directory) ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", directory);
  return system(command);
}
static int begin(void **state) {
  (void)state;
  arena = arena_new();
  diag = diag_new(arena);
  return 0;
}
static int end(void **state) {
  (void)state;
  arena_free(arena);
  return 0;
}
static void again(void) { // forgets earlier messages
  end(NULL);
  begin(NULL);
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static inline const char *path_of(const char *name) {
  return arena_printf(arena, "%s/%s", directory, name);
}

static inline void put_at(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}
// Write a file of the folder, as it is or compressed.
static inline void put(const char *name, const void *bytes, size_t n) {
  put_at(path_of(name), bytes, n);
}
static inline void put_gzip(const char *name, const void *bytes, size_t n) {
  gzFile f = gzopen(path_of(name), "wb");
  assert_int_equal(gzwrite(f, bytes, (unsigned)n), (int)n);
  gzclose(f);
}
static inline void put_text(const char *name, const char *text) { put(name, text, strlen(text)); }

// Returns all messages as text.
static inline const char *said(void) {
  char *text;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  diag_print(diag, f, false);
  fclose(f);
  const char *kept = arena_text(arena, text, n);
  free(text);
  return kept;
}
// Expects a message with `part`, whose exit code is that of bad data.
static inline void expect_said(const char *part) {
  const char *text = said();
  if (!strstr(text, part)) fail_msg("'%s' is not in: %s", part, text);
  assert_int_equal(diag_exit(diag), 5);
}

#endif
