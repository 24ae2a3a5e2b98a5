// Ends the program when an allocation fails in any thread: prints the message, removes unfinished
// files, flushes buffered output, tells the other ranks, and exits with code 7. No function of this
// file may allocate. Called through the handler of ir/base/mem.h.
#define _GNU_SOURCE // gettid
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "frontend/driver/session.h"
#include "ir/base/unfinished.h"

enum { SECONDS = 10 };

static Session *session;
static size_t asked_for;

// Returns in the first thread that calls this function; that thread ends the process. Every other
// thread waits here until the process has ended.
static void become_last(void) {
  static atomic_int last;
  int none = 0, own = (int)gettid();
  if (atomic_compare_exchange_strong(&last, &none, own) || none == own) return;
  for (;;) pause();
}

static void say(void) {
  if (!session->ranks || ranks_claim_report(session->ranks)) mem_say_exhausted(asked_for);
}

// Flushes all streams, so that log files keep what was written. Errors are ignored: the process
// ends anyway.
static void flush(void) { (void)fflush(NULL); }

static void tell_ranks(void) {
  if (session->ranks) (void)ranks_leave(session->ranks, EXIT_MEMORY);
}

static void give_up(int number) {
  (void)number;
  _exit(EXIT_MEMORY);
}

// Runs the steps that end the process after memory ran out. If memory runs out in a step, this
// function is called again and continues with the following step, because `next` is static. The
// alarm ends the process if a file system or a pipe does not respond.
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
