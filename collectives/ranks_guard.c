// Under mpirun: what stands between it and a rank. mpirun reports a process that a signal has ended with the signal's
// exit code, and ends the others at once; so a rank runs in a child of the process that mpirun knows, which sees how
// it ends, and the others take a moment to find out who was lost.
#define _GNU_SOURCE
#include "collectives/ranks_private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Passes signals on until the rank has ended. True if it had been stopped for longer than the others wait.
static bool guard(pid_t rank, const sigset_t *set, double deadline) {
  const struct timespec look = {0, 200000000};
  siginfo_t info = {0};
  double stopped = 0, last = clock_seconds();
  while (waitid(P_PID, (id_t)rank, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
    int status, got = sigtimedwait(set, NULL, &look);
    if (got > 0 && got != SIGCHLD) kill(rank, got);
    double now = clock_seconds(), passed = now - last < 1 ? now - last : 1; // a pause of this process does not count
    last = now;
    stopped = process_life((int)rank, &status) == LIFE_STOPPED ? stopped + passed : 0;
    if (deadline <= 0 || stopped <= deadline + 0.5) continue; // the machine's others come first
    kill(rank, SIGKILL);
    return true;
  }
  return false;
}

static _Noreturn void end_guard(const Told *told, pid_t rank, bool stopped) {
  const struct timespec pause = {0, 300000000};
  int status = 0;
  siginfo_t info = {0};
  waitid(P_PID, (id_t)rank, &info, WEXITED | WNOWAIT);
  if (info.si_code != CLD_EXITED) nanosleep(&pause, NULL); // the others see how it ended, and say so
  waitpid(rank, &status, 0);
  if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
  if (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT) _exit(128 + WTERMSIG(status));
  char sentence[SENTENCE], death[128], doing[128];
  snprintf(sentence, sizeof sentence, "%s %s %s", told->name,
           stopped ? "has been stopped" : death_text(status, death, sizeof death),
           doing_text(told->doing, (int)told->line, doing, sizeof doing));
  if (told->alone) ranks_say(sentence);
  _exit(EXIT_LOST);
}

void ranks_guard(Told **told, double deadline) {
  *told = mmap(NULL, sizeof **told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (*told == MAP_FAILED) *told = NULL;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (*told) snprintf((*told)->name, RANK_NAME, "rank %s", rank ? rank : "?");
  sigset_t set = ranks_signals(), before;
  sigprocmask(SIG_BLOCK, &set, &before);
  pid_t parent = getpid(), pid = *told ? fork() : -1;
  if (pid <= 0) { // the rank; or this process itself, unguarded
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid == 0 && getppid() != parent) _exit(EXIT_LOST);
    if (pid == 0) setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return;
  }
  bool stopped = guard(pid, &set, deadline);
  end_guard(*told, pid, stopped);
}

// mpirun ends the others by SIGTERM as soon as one has died, a second before SIGKILL: time to say why.
static int bell[2];

static void ring(int signal) {
  int before = errno;
  char byte = (char)signal;
  if (write(bell[1], &byte, 1) < 0) errno = before;
  errno = before;
}

static void *answer(void *ranks) {
  Ranks *r = ranks;
  char byte;
  const struct timespec look = {0, 20000000};
  while (read(bell[0], &byte, 1) < 0 && errno == EINTR) continue;
  for (int i = 0, missing; i < 20 && !atomic_load(&r->board->failed); i++) {
    (void)board_watch(r, LLONG_MAX, i * 0.02, 0, &missing);
    nanosleep(&look, NULL);
  }
  if (*r->error && ranks_speak(r)) ranks_say(r->error);
  if (atomic_load(&r->board->failed)) _exit(EXIT_LOST);
  signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  return NULL;
}

void ranks_mind_signals(Ranks *r) {
  struct sigaction now;
  pthread_t thread;
  if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler != SIG_DFL || pipe2(bell, O_CLOEXEC) != 0) return;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before); // the thread takes no signals
  bool started = pthread_create(&thread, NULL, answer, r) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!started) return;
  pthread_detach(thread);
  struct sigaction rung = {.sa_handler = ring, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &rung, NULL);
}
