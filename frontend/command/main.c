// The program meshc: parses the options, runs one command and returns its exit code. Results go to
// standard output, everything else to standard error.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
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

static int run(Session *s, Options *options, int argc, char **argv) {
  if (argc < 2) {
    help_program(stderr);
    return 2;
  }
  s->opt = options;
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
