// The stage sass of dump: the instructions of a GPU in its machine code. meshc assembles the PTX of
// the kernels, and a program of the CUDA toolkit prints the result. In: the text of stage ptx. Out:
// what that program prints.
#include "codegen/gpu/assemble.h"
#include "frontend/command/dump_internal.h"
#include "ir/base/stream.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef struct Disassembler {
  const char *program, *option;
} Disassembler;
static const Disassembler disassemblers[] = {{"nvdisasm", "-c"}, {"cuobjdump", "-sass"}};

static bool in_path(Arena *a, const char *program) {
  const char *path = getenv("PATH");
  while (path && *path) {
    size_t n = strcspn(path, ":");
    if (access(arena_printf(a, "%.*s/%s", (int)n, path, program), X_OK) == 0) return true;
    path += n + (path[n] == ':');
  }
  return false;
}

// Returns the first disassembler that is in PATH, or NULL after an error.
static const Disassembler *find_disassembler(Session *s) {
  for (size_t i = 0; i < countof(disassemblers); i++)
    if (in_path(s->arena, disassemblers[i].program)) return &disassemblers[i];
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_STAGE)->pos,
             "the stage sass needs nvdisasm or cuobjdump, and PATH has neither");
  diag_hint(s->diag, "both are in the bin folder of the CUDA toolkit; --stage ptx needs no tool");
  return NULL;
}

// Runs a disassembler on a file. Returns what it prints, errors included, or NULL if it cannot run
// or fails; *printed then has the text, or is NULL.
static char *run_disassembler(Session *s, const Disassembler *x, char *file, char **printed) {
  char *program = arena_printf(s->arena, "%s", x->program),
       *option = arena_printf(s->arena, "%s", x->option);
  char *argument[] = {program, option, file, NULL};
  int end[2], status = 1;
  pid_t pid;
  size_t n;
  posix_spawn_file_actions_t actions;
  *printed = NULL;
  if (pipe(end) != 0) return NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, end[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, end[1], STDERR_FILENO);
  posix_spawn_file_actions_addclose(&actions, end[0]);
  bool started = posix_spawnp(&pid, program, &actions, NULL, argument, environ) == 0;
  posix_spawn_file_actions_destroy(&actions);
  close(end[1]);
  FILE *out = fdopen(end[0], "r");
  if (started && out) *printed = stream_text(s->arena, out, &n);
  out ? (void)fclose(out) : (void)close(end[0]);
  if (started) waitpid(pid, &status, 0);
  return status == 0 ? *printed : NULL;
}

// Disassembles a cubin of n bytes. Returns NULL after an error.
static char *disassemble(Session *s, const Disassembler *x, const void *cubin, size_t n) {
  const char *folder = getenv("TMPDIR");
  char *file = arena_printf(s->arena, "%s/meshc-XXXXXX", folder && *folder ? folder : "/tmp");
  char *text = NULL, *printed = NULL;
  int to = mkstemp(file);
  if (to < 0) {
    session_cannot_write(s, file, option_use(s->opt, OPTION_STAGE)->pos);
    return NULL;
  }
  if (write(to, cubin, n) == (ssize_t)n) text = run_disassembler(s, x, file, &printed);
  close(to);
  unlink(file);
  if (!text)
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_STAGE)->pos,
               "%s fails on the machine code of the kernels: %.300s", x->program,
               printed ? printed : strerror(errno));
  return text;
}

char *sass_text(Session *s, const char *ptx, int capability) {
  const Disassembler *x = find_disassembler(s);
  size_t n;
  if (!x || !ptx) return NULL;
  void *cubin =
      assemble_ptx(ptx, "the kernels", arena_printf(s->arena, "sm_%d", capability), &n, s->diag);
  char *text = cubin ? disassemble(s, x, cubin, n) : NULL;
  free(cubin);
  return text;
}
