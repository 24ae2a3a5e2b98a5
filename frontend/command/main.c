// The program meshc: parses the options, runs one command and returns its exit code. Results go to
// standard output, everything else to standard error.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "frontend/driver/session.h"
#include "frontend/driver/signals.h"
#include "ir/base/guard.h"

typedef int RunCommand(Session *s);
static RunCommand *const run_command[COMMAND_COUNT] = {
#define COMMAND(id, name, arguments, help, run, example, other) run,
#include "frontend/driver/options.def"
#undef COMMAND
};

static bool colour(void) {
  const char *no = getenv("NO_COLOR");
  return (!no || !*no) && isatty(STDERR_FILENO);
}

enum { STACK_LEAST = 256 << 10 }; // bytes; a command has been seen to take 100 KiB

// Refuses a limit of the stack with which the process would end in a crash. A soft limit is raised,
// by starting the program again: threads take their stacks from the limit at the start. Returns
// false after an error.
static bool stack_suffices(Session *s, char **argv) {
  struct rlimit stack;
  if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur >= STACK_LEAST) return true;
  rlim_t now = stack.rlim_cur;
  stack.rlim_cur = stack.rlim_max < 4 * STACK_LEAST ? stack.rlim_max : 4 * STACK_LEAST;
  if (stack.rlim_cur >= STACK_LEAST && setrlimit(RLIMIT_STACK, &stack) == 0)
    execv("/proc/self/exe", argv);
  diag_error(s->diag, DIAG_NO_MEMORY, (Pos){0}, "the stack may have %s, and meshc needs %s",
             bytes_text(s->arena, (int64_t)now), bytes_text(s->arena, STACK_LEAST));
  return diag_hint(s->diag, "raise its limit: ulimit -s 1024");
}

static int run(Session *s, Options *options, int argc, char **argv) {
  if (argc < 2) {
    help_program(stderr);
    return 2;
  }
  s->opt = options;
  if (!stack_suffices(s, argv)) return diag_exit(s->diag);
  if (!options_parse(options, s->arena, s->diag, argc, argv)) return diag_exit(s->diag);
  if (options->help) {
    if (options->command == COMMAND_COUNT)
      help_program(stdout);
    else
      help_command(stdout, options->command);
    return 0;
  }
  int code;
  if (!session_ranks(s, argv, &code)) return code;
  code = run_command[options->command](s);
  return code ? code : diag_exit(s->diag);
}

int main(int argc, char **argv) {
  static Session s = {.inject = {.call = -1}, .stop_request = &stop_signal};
  process_own();
  out_of_memory_watch(&s);
  json_watch(argc, argv);
  s.arena = arena_new();
  s.names = intern_new(s.arena);
  s.diag = diag_new(s.arena);
  Options options;
  int code = run(&s, &options, argc, argv);
  bool speaks = session_speaks(&s, code), well = code == 0 || code == EXIT_INTERRUPTED;
  if (speaks) diag_print(s.diag, stderr, colour());
  out_of_memory_unwatch();
  session_close_device(&s);
  int left = session_leave(&s, code);
  if (speaks && (left == code || !well))
    // If session_leave changed the code of a successful run, another rank failed and prints its
    // object.
    json_end(&s);
  code = left;
  bool flushed = fflush(stdout) == 0; // an earlier write may have failed: its errno is gone
  if ((!flushed || ferror(stdout)) && code == 0) {
    fprintf(stderr, "meshc: error: cannot write to standard output%s%s\n", flushed ? "" : ": ",
            flushed ? ", the output is incomplete" : strerror(errno));
    code = 7;
  }
  arena_free(s.arena);
  return code;
}
