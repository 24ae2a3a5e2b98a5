// Tests signals that ask to stop: the first one is recorded, also if it comes twice at once, and a
// later one ends the process.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/base.h"
#include "ir/base/stop.h"

// In a child process: sends itself the three signals, sleeping `pause` seconds before the last.
// Returns its status as waitpid gives it; its exit code is the recorded signal.
static int status_after(const int number[3], double pause) {
  pid_t child = fork();
  if (child == 0) {
    const struct timespec t = {(time_t)pause, (long)(1e9 * (pause - (double)(time_t)pause))};
    static const int caught[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    for (size_t i = 0; i < countof(caught); i++) assert_true(stop_catch(caught[i], NULL));
    raise(number[0]);
    raise(number[1]);
    nanosleep(&t, NULL);
    raise(number[2]);
    _exit(stop_signal);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

static void signals_at_once_are_one_request(void **state) {
  (void)state;
  const int terms[3] = {SIGTERM, SIGTERM, SIGTERM}, mixed[3] = {SIGTERM, SIGTERM, SIGINT};
  int status = status_after(terms, 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGTERM);
  status = status_after(mixed, 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGINT);
}

static void a_later_signal_ends_the_process(void **state) {
  (void)state;
  const int terms[3] = {SIGTERM, SIGTERM, SIGTERM}, mixed[3] = {SIGINT, SIGUSR1, SIGTERM};
  int status = status_after(terms, STOP_REPEAT + 0.1);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
  status = status_after(mixed, STOP_REPEAT + 0.1);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void sigusr1_never_ends_the_process(void **state) {
  (void)state;
  const int only[3] = {SIGUSR1, SIGUSR1, SIGUSR1}, first[3] = {SIGUSR1, SIGUSR1, SIGTERM};
  int status = status_after(only, STOP_REPEAT + 0.1);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGUSR1);
  status = status_after(first, STOP_REPEAT + 0.1);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGTERM);
}

static void a_hangup_is_a_request(void **state) {
  (void)state;
  const int once[3] = {SIGHUP, SIGHUP, SIGUSR1}, later[3] = {SIGHUP, SIGUSR1, SIGTERM};
  void (*before)(int) = signal(SIGHUP, SIG_DFL); // the tests may run under nohup
  int status = status_after(once, 0);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == SIGUSR1);
  status = status_after(later, STOP_REPEAT + 0.1);
  signal(SIGHUP, before);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void an_ignored_hangup_stays_ignored(void **state) {
  (void)state;
  const int hangups[3] = {SIGHUP, SIGHUP, SIGHUP};
  void (*before)(int) = signal(SIGHUP, SIG_IGN);
  int status = status_after(hangups, STOP_REPEAT + 0.1);
  signal(SIGHUP, before);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(signals_at_once_are_one_request),
      cmocka_unit_test(a_later_signal_ends_the_process),
      cmocka_unit_test(sigusr1_never_ends_the_process),
      cmocka_unit_test(a_hangup_is_a_request),
      cmocka_unit_test(an_ignored_hangup_stays_ignored),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
