// Runs meshc from a suite, and lists the models of the repository.
#include "tests/suite/common/command.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/base/base.h"

const char *command_program(Arena *a) {
  const char *program = getenv("MESHC");
  if (!program) program = "build/release/meshc";
  char *real = realpath(program, NULL);
  const char *text = arena_printf(a, "'%s'", real ? real : program);
  free(real);
  return text;
}

char *command_output(Arena *a, const char *command, int *code) {
  FILE *p = popen(command, "r");
  VEC(char) text = {0};
  for (int c; p && (c = getc(p)) != EOF;) vec_push(a, text) = (char)c;
  vec_push(a, text) = '\0';
  int status = p ? pclose(p) : -1;
  *code = status < 0 ? -1 : status / 256;
  return text.at;
}

void models_each(void (*one)(const char *model)) {
  static const char *const folders[] = {"tests/models/*.mesh", "examples/*.mesh"};
  for (size_t i = 0; i < countof(folders); i++) {
    glob_t g;
    if (glob(folders[i], 0, NULL, &g) != 0) continue;
    for (size_t k = 0; k < g.gl_pathc; k++) one(g.gl_pathv[k]);
    globfree(&g);
  }
}
