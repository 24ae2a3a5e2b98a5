// Memory outside arenas: checked forms of malloc and related functions, streams into memory, and
// the handling of failed allocations.
#define _GNU_SOURCE // for fopencookie
#include "ir/base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/abrupt.h"
#include "ir/base/guard.h"

enum { SENTENCE = 1024, FIRST_TEXT = 512 };

static _Atomic(MemHandler *) exhausted_handler;
static _Atomic(const char *) process_what, process_name;
static _Thread_local MemTask task;

// -- the failure path ---------------------------------------------------------------------------

MemTask mem_doing(const char *what, const char *name) {
  static _Thread_local bool is_first;
  static atomic_flag taken = ATOMIC_FLAG_INIT;
  MemTask before = task;
  task = (MemTask){what, name};
  if (!is_first) is_first = !atomic_flag_test_and_set(&taken);
  if (is_first) {
    atomic_store(&process_name, name);
    atomic_store(&process_what, what);
  }
  return before;
}

void mem_doing_restore(MemTask before) { (void)mem_doing(before.what, before.name); }

void mem_set_handler(MemHandler *handler) { atomic_store(&exhausted_handler, handler); }

// Writes the message of a failed allocation to `out`: what the thread was doing, and how many bytes
// could not be allocated.
static void exhausted_text(size_t bytes, char *out, size_t room) {
  char size[64] = "";
  const char *what = task.what ? task.what : atomic_load(&process_what);
  const char *name = task.what ? task.name : atomic_load(&process_name);
  if (bytes)
    snprintf(size, sizeof size, ": %zu byte%s could not be allocated", bytes,
             plural((int64_t)bytes));
  snprintf(out, room, "out of memory%s%s%s%s%s", what ? " while " : "", what ? what : "",
           what && name ? " " : "", what && name ? name : "", size);
}

void mem_say_exhausted(size_t bytes) {
  char text[SENTENCE];
  exhausted_text(bytes, text, sizeof text);
  abrupt_say(DIAG_NO_MEMORY, text, diag_default_hint(DIAG_NO_MEMORY));
}

_Noreturn void mem_exhausted(size_t bytes) {
  Failure f = {0};
  exhausted_text(bytes, f.text, sizeof f.text);
  guard_fail(&f);
  MemHandler *handler = atomic_load(&exhausted_handler);
  if (handler) handler(bytes);
  mem_say_exhausted(bytes);
  _exit(EXIT_MEMORY);
}

void mem_check_errno(void) {
  if (errno == ENOMEM) mem_exhausted(0);
}

// -- allocation ---------------------------------------------------------------------------------

// Number of allocations up to the one that a test makes fail (mem_fail_at). 0 or less: no
// allocation fails on purpose.
static atomic_long countdown;

void mem_fail_at(long n) { atomic_store(&countdown, n); }

// Returns true if mem_fail_at, which tests call, makes this allocation fail.
static bool injected(void) {
  return atomic_load_explicit(&countdown, memory_order_relaxed) > 0 &&
         atomic_fetch_sub(&countdown, 1) == 1;
}

static void *checked(void *p, size_t bytes) {
  if (!p) mem_exhausted(bytes);
  return p;
}

void *mem_alloc(size_t bytes) {
  return checked(injected() ? NULL : malloc(bytes ? bytes : 1), bytes);
}

void *mem_zeroed(size_t n, size_t size) {
  void *p = injected() ? NULL : calloc(n ? n : 1, size ? size : 1);
  return checked(p, size && n > SIZE_MAX / size ? SIZE_MAX : n * size);
}

void *mem_grow(void *p, size_t bytes) {
  return checked(injected() ? NULL : realloc(p, bytes ? bytes : 1), bytes);
}

void *mem_aligned(size_t alignment, size_t bytes) {
  return checked(injected() ? NULL : aligned_alloc(alignment, bytes), bytes);
}

char *mem_text(const char *text) { return mem_text_n(text, strlen(text)); }

char *mem_text_n(const char *text, size_t n) {
  char *p = mem_alloc(n + 1);
  memcpy(p, text, n);
  p[n] = '\0';
  return p;
}

// -- the C library's own ------------------------------------------------------------------------

FILE *mem_fopen(const char *path, const char *mode) {
  FILE *f = fopen(path, mode);
  if (!f) mem_check_errno();
  return f;
}

DIR *mem_opendir(const char *path) {
  DIR *d = opendir(path);
  if (!d) mem_check_errno();
  return d;
}

typedef struct Stream {
  char *at, **text;
  size_t n, room, *length;
} Stream;

// Returns false if there is no memory.
static bool stream_reserve(Stream *s, size_t bytes) {
  size_t room = s->room;
  while (room < bytes) room *= 2;
  if (room == s->room) return true;
  char *at = injected() ? NULL : realloc(s->at, room);
  if (!at) return false;
  s->at = at;
  s->room = room;
  return true;
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t n) {
  Stream *s = cookie;
  // The lock of the stream is held here, so mem_stream_close reports that there is no memory.
  if (!stream_reserve(s, s->n + n + 1)) return -1;
  memcpy(s->at + s->n, bytes, n);
  s->n += n;
  return (ssize_t)n;
}

static int stream_end(void *cookie) {
  Stream *s = cookie;
  s->at[s->n] = '\0';
  *s->text = s->at;
  *s->length = s->n;
  free(s);
  return 0;
}

FILE *mem_stream(char **text, size_t *n) {
  Stream *s = mem_alloc(sizeof *s);
  *s = (Stream){.at = mem_alloc(FIRST_TEXT), .room = FIRST_TEXT, .text = text, .length = n};
  FILE *f =
      fopencookie(s, "w", (cookie_io_functions_t){.write = stream_write, .close = stream_end});
  if (!f) mem_exhausted(sizeof *f);
  return f;
}

void mem_stream_close(FILE *f) {
  bool failed = ferror(f);
  if (fclose(f) != 0 || failed) mem_exhausted(0); // fclose can fail only for lack of memory
}
