// The guard of a rank under mpirun: a process between mpirun and the rank.
//
// When a signal has ended a process that mpirun knows, mpirun ends the others at once and reports
// the signal's exit code. So the rank runs in a child of that process, and the process becomes the
// guard: it waits for the end of the rank, gives the other ranks a moment to report which rank was
// lost, and then ends with an exit code of meshc.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double START_SECONDS = 60; // time for the start of MPI, beyond the deadline

// Prints what ended the rank that this guard (its parent process) watches. Does nothing if another
// process has reported the end of the run.
static void say_ended(const GuardInfo *guard_info, const char *text) {
  char sentence[SENTENCE], doing[128];
  snprintf(sentence, sizeof sentence, "%s %s %s", guard_info->name, text,
           doing_text(guard_info->doing, (int)guard_info->line, doing, sizeof doing));
  if (ranks_claim_by_launcher()) ranks_report(sentence);
}

// Forwards signals to the rank, a child process, until the rank has ended. *passed gets the last
// signal. Kills the rank if it has not joined the run in time, or was stopped for longer than
// `deadline` seconds. With a `deadline` of 0 it never kills the rank.
static void guard(pid_t rank, const sigset_t *set, const GuardInfo *guard_info, double deadline,
                  int *passed) {
  const struct timespec look = {0, 200000000};
  siginfo_t info = {0};
  double stopped = 0, starting = 0, last = clock_seconds();
  while (waitid(P_PID, (id_t)rank, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
    int status, got = sigtimedwait(set, NULL, &look);
    if (got > 0 && got != SIGCHLD) kill(rank, *passed = got);
    double now = clock_seconds(),
           step = now - last < 1 ? now - last : 1; // not longer: the guard may have been stopped
    last = now;
    stopped = process_state((int)rank, &status) == PROCESS_STOPPED ? stopped + step : 0;
    starting = atomic_load(&guard_info->joined) ? 0 : starting + step;
    if (deadline <= 0) continue;
    bool late = starting > deadline + START_SECONDS;
    // The guard waits half a second longer than the ranks, so that one of them reports this rank.
    if (stopped <= deadline + 0.5 && !late) continue;
    say_ended(guard_info,
              late ? "does not reach the other ranks: it was" : "has been stopped: it was last");
    kill(rank, SIGKILL);
    return;
  }
}

static void nap(double seconds) {
  const struct timespec pause = {(time_t)seconds,
                                 (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&pause, NULL);
}

// Ends the guard (parent process) of a rank that was ended by a signal of the MPI launcher. If the
// ranks had not met, no rank knows the reason. So this function waits a moment, in which the guard
// of a lost rank may report it. If none has, it reports the signal. mpirun kills the guard a second
// after the signal, and the rank may have taken 0.3 seconds of that to look for a lost one
// (`answer`): so the wait is short.
static _Noreturn void end_early(const GuardInfo *guard_info, int signal) {
  char sentence[SENTENCE];
  nap(0.2);
  snprintf(sentence, sizeof sentence,
           "the MPI launcher has ended %s by signal %d (%s) before the ranks had met: it got this "
           "signal itself, or a "
           "process of the run was lost",
           guard_info->name, signal, strsignal(signal));
  if (!atomic_load(&guard_info->joined) && ranks_claim_by_launcher()) ranks_report(sentence);
  _exit(128 + signal);
}

static _Noreturn void end_guard(const GuardInfo *guard_info, pid_t rank, int passed) {
  int status = 0;
  char death[128];
  siginfo_t info = {0};
  waitid(P_PID, (id_t)rank, &info, WEXITED | WNOWAIT);
  // Ranks that have met this one see how it ended and report it within 0.3 seconds. If they have
  // not met, none reports it, and MPI_Init of the others would soon abort the run with exit code 1;
  // so the guard ends at once.
  if (info.si_code != CLD_EXITED && atomic_load(&guard_info->joined)) nap(0.3);
  waitpid(rank, &status, 0);
  // A rank that has reported its error ends with an exit code of meshc, which the guard passes on.
  // Before the ranks have met, MPI may end the rank with exit codes of its own.
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code >= 0 && (atomic_load(&guard_info->joined) || code == 0 || code == EXIT_LOST ||
                    code == EXIT_INTERRUPTED || ended_by_error(status)))
    _exit(code);
  if (WIFSIGNALED(status) && WTERMSIG(status) == passed) end_early(guard_info, passed);
  say_ended(guard_info, death_text(status, death, sizeof death));
  _exit(EXIT_LOST);
}

void ranks_guard(GuardInfo **guard_info, double deadline) {
  *guard_info =
      mmap(NULL, sizeof **guard_info, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (*guard_info == MAP_FAILED) *guard_info = NULL;
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  if (*guard_info) snprintf((*guard_info)->name, RANK_NAME, "rank %s", rank ? rank : "?");
  sigset_t set = ranks_signals(), before;
  sigprocmask(SIG_BLOCK, &set, &before);
  pid_t parent = getpid(), pid = *guard_info ? fork() : -1;
  if (pid <= 0) { // 0: this is the child, the rank; below 0: fork failed, there is no guard
    if (pid == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pid == 0 && getppid() != parent) _exit(EXIT_LOST);
    if (pid == 0) setpgid(0, 0);
    if (pid == 0) atomic_store(&(*guard_info)->guarded, true);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return;
  }
  prctl(PR_SET_NAME, GUARD_NAME);
  int passed = 0;
  guard(pid, &set, *guard_info, deadline, &passed);
  end_guard(*guard_info, pid, passed);
}

// A pipe to which the handler of SIGTERM writes. When a rank has died, mpirun sends SIGTERM to the
// other ranks, and SIGKILL a second later. A thread that reads the pipe (`answer`) finds the lost
// rank and reports it.
static int bell[2];

static void ring(int signal) {
  int before = errno;
  char byte = (char)signal;
  if (write(bell[1], &byte, 1) < 0) errno = before;
  errno = before;
}

static void *answer(void *ranks) {
  enum { LOOKS = 15 }; // of 20 ms each
  Ranks *r = ranks;
  char byte;
  const struct timespec look = {0, 20000000};
  while (read(bell[0], &byte, 1) < 0 && errno == EINTR) continue;
  for (int i = 0, missing; i < LOOKS && !atomic_load(&r->rendezvous->failed); i++) {
    (void)rendezvous_check(r, LLONG_MAX, i * 0.02, (WaitLimit){0}, &missing);
    nanosleep(&look, NULL);
  }
  if (*r->error && ranks_claim_report(r))
    ranks_report(r->error);
  else if (atomic_load(&r->rendezvous->reporter) == 1 + r->rank)
    return NULL; // the main thread is about to report it, and then ends the rank
  if (atomic_load(&r->rendezvous->failed)) _exit(EXIT_LOST);
  signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  return NULL;
}

bool ranks_end_at_sigterm(void) {
  struct sigaction now;
  return sigaction(SIGTERM, NULL, &now) == 0 && now.sa_handler == ring;
}

void ranks_handle_signals(Ranks *r) {
  struct sigaction now;
  pthread_t thread;
  if (sigaction(SIGTERM, NULL, &now) != 0 || now.sa_handler != SIG_DFL ||
      pipe2(bell, O_CLOEXEC) != 0)
    return;
  if (!thread_without_signals(&thread, answer, r)) return;
  pthread_detach(thread);
  struct sigaction rung = {.sa_handler = ring, .sa_flags = SA_RESTART};
  r->handles_signals = sigaction(SIGTERM, &rung, NULL) == 0;
}
