// Tests replacing and removing files: the order of the system calls, a failure of each call, and
// the files that remain then.
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/base/disk.h"

static Arena *arena;
static char directory[] = "/tmp/test_ir_disk_XXXXXX";
static int folder;

static int set_up(void **state) {
  (void)state;
  arena = arena_new();
  if (!mkdtemp(directory)) return 1;
  folder = disk_folder(directory);
  return folder < 0;
}

static int tear_down(void **state) {
  (void)state;
  close(folder);
  arena_free(arena);
  return rmdir(directory); // each test removes its files
}

static const char *path_of(const char *name) {
  return arena_printf(arena, "%s/%s", directory, name);
}

static const char *content(const char *name) {
  char text[64];
  int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW);
  ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  return n < 0 ? NULL : arena_text(arena, text, (size_t)n);
}

static bool write_text(const char *name, const char *text) {
  return disk_write_file(path_of(name), text, strlen(text), false);
}

// -- the hook -----------------------------------------------------------------------------------

typedef struct Calls {
  char kinds[64]; // one letter for each call
  int n, fail;    // index of the call that fails; -1: none
} Calls;

static int note(void *context, const DiskCall *call, bool done) {
  static const char letter[] = {[DISK_MAKE] = 'm',     [DISK_OPEN] = 'o', [DISK_CREATE] = 'c',
                                [DISK_WRITE] = 'w',    [DISK_SYNC] = 's', [DISK_RENAME] = 'r',
                                [DISK_EXCHANGE] = 'e', [DISK_LINK] = 'l', [DISK_REMOVE] = 'x'};
  Calls *c = context;
  if (done) {
    c->kinds[c->n++] = letter[call->kind];
    return 0;
  }
  return c->fail-- == 0 ? ENOSPC : 0;
}

static bool watched(Calls *c, int fail, const char *name, const char *text) {
  *c = (Calls){.fail = fail};
  disk_watch(note, c);
  bool good = write_text(name, text);
  int error = errno;
  disk_watch(NULL, NULL);
  errno = error;
  return good;
}

static void a_file_is_replaced(void **state) {
  (void)state;
  Calls c;
  assert_true(watched(&c, -1, "a", "first"));
  assert_string_equal(c.kinds, "cwsrs");
  assert_true(watched(&c, -1, "a", "second"));
  assert_string_equal(content("a"), "second");
  for (int i = 0; i < 4; i++) { // all calls but the last, which syncs the folder
    assert_false(watched(&c, i, "a", "third"));
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(content("a"), "second");
    assert_null(content("a.partial"));
  }
  assert_false(watched(&c, 4, "a", "third"));
  assert_string_equal(content("a"), "third");
  assert_true(disk_remove(folder, "a"));
}

static void large_files_come_in_pieces(void **state) {
  (void)state;
  static char bytes[200000];
  DiskFile f;
  struct stat s;
  memset(bytes, 'x', sizeof bytes);
  assert_true(disk_begin(&f, path_of("large")));
  for (int i = 0; i < 3; i++) disk_put(&f, bytes, 100);
  disk_put(&f, bytes, sizeof bytes);
  disk_put(&f, bytes, 0);
  disk_put(&f, bytes, 65536);
  assert_true(disk_commit(&f));
  assert_int_equal(stat(path_of("large"), &s), 0);
  assert_int_equal(s.st_size, 300 + sizeof bytes + 65536);
  assert_true(disk_remove(folder, "large"));
}

static void names_that_cannot_be(void **state) {
  (void)state;
  char name[400];
  memset(name, 'n', sizeof name);
  name[300] = '\0';
  assert_false(write_text(name, "x"));
  assert_int_equal(errno, ENAMETOOLONG);
  name[254] = '\0';
  assert_false(write_text(name, "x"));
  assert_int_equal(errno, ENAMETOOLONG);
  assert_false(write_text("", "x"));
  assert_int_equal(errno, EISDIR);
  assert_false(disk_write_file("/tmp/test_ir_disk_none/x", "x", 1, false));
  assert_int_equal(errno, ENOENT);
}

// -- other writers ------------------------------------------------------------------------------

static void two_writers(void **state) {
  (void)state;
  DiskFile a, b;
  assert_true(disk_begin(&a, path_of("both")));
  assert_true(disk_begin(&b, path_of("both")));
  assert_string_equal(a.partial, "both.partial");
  assert_string_equal(b.partial, "both.1.partial");
  disk_put(&a, "a", 1);
  disk_put(&b, "b", 1);
  assert_true(disk_commit(&a));
  assert_true(disk_commit(&b));
  assert_string_equal(content("both"), "b");
  assert_true(disk_remove(folder, "both"));
}

static void what_a_dead_process_left(void **state) {
  (void)state;
  pid_t child = fork();
  if (child == 0) {
    DiskFile f;
    if (disk_begin(&f, path_of("left"))) disk_put(&f, "half", 4);
    _exit(0);
  }
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_string_equal(content("left.partial"), "");
  assert_true(write_text("left", "whole"));
  assert_null(content("left.partial"));
  assert_string_equal(content("left"), "whole");
  assert_true(disk_remove(folder, "left"));
}

static void a_lock_is_held_by_one(void **state) {
  (void)state;
  char owner[64];
  int first = disk_lock(folder, ".lock", "first", owner, sizeof owner);
  assert_true(first >= 0);
  assert_int_equal(disk_lock(folder, ".lock", "second", owner, sizeof owner), -1);
  assert_int_equal(errno, EWOULDBLOCK);
  assert_string_equal(owner, "first");
  close(first);
  int second = disk_lock(folder, ".lock", "2", owner, sizeof owner);
  assert_true(second >= 0);
  assert_string_equal(content(".lock"), "2");
  close(second);
  assert_true(disk_remove(folder, ".lock"));
}

// -- links --------------------------------------------------------------------------------------

static bool any(const char *name) { return name[0] != '.'; }

static void links_are_not_followed(void **state) {
  (void)state;
  assert_true(disk_make(folder, "victim", 0777) && write_text("victim/file", "precious"));
  assert_true(disk_link(folder, "link", "victim") && disk_link(folder, "to_file", "victim/file"));
  assert_false(disk_remove_folder(folder, "link", any));
  assert_false(disk_is_folder(folder, "link"));
  assert_int_equal(disk_subfolder(folder, "link"), -1);
  assert_int_equal(disk_open_file(folder, "to_file", false), -1);
  assert_true(write_text("to_file", "new"));
  assert_true(disk_is_file(folder, "to_file"));
  assert_string_equal(content("victim/file"), "precious");
  assert_true(disk_make(folder, "own", 0777) && disk_link(folder, "own/link", "../victim/file") &&
              write_text("own/.other", ""));
  assert_false(disk_remove_folder(folder, "own", any));
  assert_true(disk_remove(folder, "own/.other") && disk_remove_folder(folder, "own", any));
  assert_string_equal(content("victim/file"), "precious");
  assert_true(disk_remove(folder, "to_file") && disk_remove(folder, "link") &&
              disk_remove_folder(folder, "victim", any));
}

// -- folders that replace others ----------------------------------------------------------------

static bool only_parts(const char *name) { return strcmp(name, "part") == 0; }

static void folders_of_several_writers(void **state) {
  (void)state;
  char first[DISK_NAME], second[DISK_NAME], third[DISK_NAME];
  int one = disk_make_partial(folder, "x", only_parts, first),
      two = disk_make_partial(folder, "x", only_parts, second);
  assert_true(one >= 0 && two >= 0);
  assert_string_equal(first, "x.partial");
  assert_string_equal(second, "x.1.partial");
  assert_int_equal(disk_lock_folder(folder, first), -1);
  assert_int_equal(errno, EWOULDBLOCK);
  close(one); // its process is dead
  assert_true(write_text("x.partial/part", "a part"));
  one = disk_make_partial(folder, "x", only_parts, third);
  assert_string_equal(third, "x.partial");
  assert_null(content("x.partial/part"));
  // the second one replaces the first one
  assert_true(write_text("x.partial/part", "1") && write_text("x.1.partial/part", "2"));
  assert_true(disk_rename(folder, third, "x") && disk_exchange(folder, second, "x"));
  assert_string_equal(content("x/part"), "2");
  assert_string_equal(content("x.1.partial/part"), "1");
  close(one), close(two);
  assert_false(disk_exchange(folder, "x", "nowhere"));
  assert_int_equal(errno, ENOENT);
  assert_true(disk_remove_folder(folder, second, any) && disk_remove_folder(folder, "x", any));
}

static void a_partial_folder_of_others_is_kept(void **state) {
  (void)state;
  char name[DISK_NAME];
  assert_true(disk_make(folder, "x.partial", 0777) && write_text("x.partial/notes", "mine"));
  int fd = disk_make_partial(folder, "x", only_parts, name);
  assert_string_equal(name, "x.1.partial");
  assert_string_equal(content("x.partial/notes"), "mine");
  close(fd);
  assert_true(disk_remove_folder(folder, name, any) &&
              disk_remove_folder(folder, "x.partial", any));
}

static void what_cannot_be_replaced_is_written(void **state) {
  (void)state;
  assert_false(disk_write_file("/dev/full", "x", 1, false));
  assert_int_equal(errno, ENOSPC);
  assert_true(disk_write_file("/dev/null", "x", 1, false));
  int fd = openat(folder, "target", O_RDWR | O_CREAT | O_EXCL, 0666);
  assert_true(fd >= 0 &&
              disk_write_file(arena_printf(arena, "/proc/self/fd/%d", fd), "text", 4, false));
  close(fd);
  assert_string_equal(content("target"), "text");
  assert_true(disk_remove(folder, "target"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_replaced),
      cmocka_unit_test(large_files_come_in_pieces),
      cmocka_unit_test(names_that_cannot_be),
      cmocka_unit_test(two_writers),
      cmocka_unit_test(what_a_dead_process_left),
      cmocka_unit_test(a_lock_is_held_by_one),
      cmocka_unit_test(links_are_not_followed),
      cmocka_unit_test(folders_of_several_writers),
      cmocka_unit_test(a_partial_folder_of_others_is_kept),
      cmocka_unit_test(what_cannot_be_replaced_is_written),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
