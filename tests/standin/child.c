// Runs code in a child process (child.h).
#include "tests/standin/child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/standin/fail.h"

static void read_all(int from, char *text, size_t n) {
  size_t used = 0;
  for (ssize_t got = 1; got > 0;) {
    char rest[256];
    got = read(from, used + 1 < n ? text + used : rest, used + 1 < n ? n - 1 - used : sizeof rest);
    if (got > 0 && used + 1 < n) used += (size_t)got;
  }
  text[used] = 0;
}

int child_run(void (*code)(void *), void *argument, char *text, size_t n) {
  int ends[2], status = 0;
  fflush(NULL);
  if (pipe(ends) != 0) BUG("no pipe");
  pid_t child = fork();
  if (child < 0) BUG("no child process");
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    code(argument);
    exit(0); // the stand-in of libcuda looks for leaks now
  }
  close(ends[1]);
  read_all(ends[0], text, n);
  close(ends[0]);
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int child_fails(void (*code)(void *), void *argument, const char *const *words, size_t nwords) {
  char text[2000];
  int end = child_run(code, argument, text, sizeof text), ok = end == STANDIN_EXIT;
  for (size_t i = 0; i < nwords; i++)
    if (words[i] && !strstr(text, words[i])) ok = 0;
  if (!ok) {
    printf("exit code %d, message: %s\nwanted exit code %d and:", end, text, STANDIN_EXIT);
    for (size_t i = 0; i < nwords; i++)
      if (words[i]) printf(" [%s]", words[i]);
    printf("\n");
  }
  return ok;
}
