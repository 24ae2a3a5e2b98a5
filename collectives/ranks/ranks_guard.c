// Under mpirun: what stands between it and a rank. mpirun reports a process that a signal has ended
// with the signal's exit code, and ends the others at once; so a rank runs in a child of the
// process that mpirun knows, which sees how it ends, and the others take a moment to find out who
// was lost.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double START_SECONDS = 60; // beyond the deadline, for MPI to start

// What ended the rank, if nobody has said it.
static void say_ended(const Told *told, const char *text) {
  char sentence[SENTENCE], doing[128];
  snprintf(sentence, sizeof sentence, "%s %s %s", told->name, text,
           doing_text(told->doing, (int)told->line, doing, sizeof doing));
  if (ranks_claim()) ranks_say(sentence);
}

// Passes signals on until the rank has ended. Ends a rank that was stopped for longer than the
// others wait, and one that has not joined the run in time. *passed gets the last signal passed on.
static void guard(pid_t rank, const sigset_t *set, const Told *told, double deadline, int *passed) {
  const struct timespec look = {0, 200000000};
  siginfo_t info = {0};
  double stopped = 0, starting = 0, last = clock_seconds();
  while (waitid(P_PID, (id_t)rank, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
    int status, got = sigtimedwait(set, NULL, &look);
    if (got > 0 && got != SIGCHLD) kill(rank, *passed = got);
    double now = clock_seconds(),
           step = now - last < 1 ? now - last : 1; // a pause of this process does not count
    last = now;
    stopped = process_life((int)rank, &status) == LIFE_STOPPED ? stopped + step : 0;
    starting = atomic_load(&told->joined) ? 0 : starting + step;
    if (deadline <= 0) continue;
    bool late = starting > deadline + START_SECONDS;
    if (stopped <= deadline + 0.5 && !late) continue; // the machine's other ranks come first
    say_ended(told, late ? "does not reach the other ranks: it was"
                         : "has been stopped: it was last"); // not: was killed
    kill(rank, SIGKILL);
    return;
  }
}

static void nap(double seconds) {
  const struct timespec pause = {(time_t)seconds,
                                 (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&pause, NULL);
}

// The launcher has ended the run by a signal before the ranks had met, so no rank knows why: after
// the guard of the rank that was lost, if one was, has had the time to say it.
static _Noreturn void end_early(const Told *told, int signal) {
  char sentence[SENTENCE];
  nap(0.5);
  snprintf(sentence, sizeof sentence,
           "the MPI launcher has ended %s by signal %d (%s) before the ranks had met: it got this "
           "signal itself, or a "
           "process of the run was lost",
           told->name, signal, strsignal(signal));
  if (!atomic_load(&told->joined) && ranks_claim()) ranks_say(sentence);
  _exit(128 + signal);
}

static _Noreturn void end_guard(const Told *told, pid_t rank, int passed) {
  int status = 0;
  char death[128];
  siginfo_t info = {0};
  waitid(P_PID, (id_t)rank, &info, WEXITED | WNOWAIT);
  // Others that have met it see how it ended, and say so. Before the meeting nobody does, and
  // MPI_Init of the others fails now: it aborts the run with exit code 1 unless mpirun has heard of
  // this end first.
  if (info.si_code != CLD_EXITED && atomic_load(&told->joined)) nap(0.3);
  waitpid(rank, &status, 0);
  // Before the ranks have met, a rank that says why ends with a code of meshc. MPI ends it with
  // others, when it loses the launcher or another rank.
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code >= 0 && (atomic_load(&told->joined) || code == 0 || code == EXIT_LOST ||
                    code == EXIT_AGAIN || ended_by_error(status)))
    _exit(code);
  if (WTERMSIG(status) == passed) end_early(told, passed);
  say_ended(told, death_text(status, death, sizeof death));
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
    if (pid == 0) atomic_store(&(*told)->guarded, true);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return;
  }
  prctl(PR_SET_NAME, GUARD_NAME);
  int passed = 0;
  guard(pid, &set, *told, deadline, &passed);
  end_guard(*told, pid, passed);
}

// mpirun ends the others by SIGTERM as soon as one has died, a second before SIGKILL: time to say
// why.
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
    (void)board_watch(r, LLONG_MAX, i * 0.02, (Patience){0}, &missing);
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
  if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler != SIG_DFL ||
      pipe2(bell, O_CLOEXEC) != 0)
    return;
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
