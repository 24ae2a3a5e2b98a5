// How the program ends when an allocation fails, in whatever thread: the message, files that are
// half written removed, buffered output written, the other ranks told, exit code 7. Nothing here
// allocates.
#define _GNU_SOURCE // gettid
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "frontend/driver/session.h"
#include "ir/base/unfinished.h"

enum { SECONDS = 10 };

static Session *session;
static size_t asked_for;

// The one thread that ends the process; the others stop where they ask for that.
static void become_last(void) {
  static atomic_int last;
  int none = 0, own = (int)gettid();
  if (atomic_compare_exchange_strong(&last, &none, own) || none == own) return;
  for (;;) pause();
}

static void say(void) {
  if (!session->ranks || ranks_claim_report(session->ranks)) mem_say_exhausted(asked_for);
}

// What the files of a log hold already counts; no stream that fails matters any more.
static void flush(void) { (void)fflush(NULL); }

static void tell_ranks(void) {
  if (session->ranks) (void)ranks_leave(session->ranks, EXIT_MEMORY);
}

static void give_up(int number) {
  (void)number;
  _exit(EXIT_MEMORY);
}

// A step that fails for memory itself comes back here and goes on with the next one. A file system
// or a pipe that does not answer does not keep the process.
static void end(size_t bytes) {
  static void (*const steps[])(void) = {say, unfinished_clear, flush, tell_ranks};
  static size_t next;
  become_last();
  if (next == 0) {
    asked_for = bytes;
    signal(SIGALRM, give_up);
    alarm(SECONDS);
  }
  while (next < countof(steps)) steps[next++]();
  _exit(EXIT_MEMORY);
}

void out_of_memory_watch(Session *s) {
  session = s;
  mem_set_handler(end);
  json_set_alloc_funcs(mem_alloc, free);
}

void out_of_memory_unwatch(void) { become_last(); }
