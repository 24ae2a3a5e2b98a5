// The launcher of --np: starts ranks on this machine, waits for them, and reports a rank that was
// lost. It is the parent process of the ranks, so they do not outlive it, and it knows how each one
// ended. It is part of the program meshc only, not of the library.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"
#include "ir/base/stop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double GRACE = 2; // seconds that ranks get to end after another rank has failed
// How many seconds mpirun gets to start all ranks, and again to end after the last rank has ended.
static const double MPIRUN_SECONDS = 10;

typedef struct Launch {
  int count, running;
  pid_t *pid; // by rank: its process; 0 after its end
  Rendezvous *rendezvous;
  int rendezvous_fd;
  sigset_t before;
  int code, signal; // exit code of the run; the signal that ended it, or 0
  int lost, status; // the first rank that a signal ended, or -1; its status as waitpid returns it
  double ended;     // clock (seconds) when the first rank failed
} Launch;

static const int minded[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1};

sigset_t ranks_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < countof(minded); i++)
    if (!stop_ignored(minded[i])) sigaddset(&set, minded[i]);
  return set;
}

static _Noreturn void become_rank(const Launch *l, int rank, char **argv, pid_t parent) {
  char sign[64];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(EXIT_LOST);
  // In a process group of its own, the rank does not get the terminal's Ctrl-C signal itself. The
  // launcher forwards it.
  setpgid(0, 0);
  fcntl(l->rendezvous_fd, F_SETFD, 0);
  snprintf(sign, sizeof sign, "%d/%d/%d", rank, l->count, l->rendezvous_fd);
  setenv("MESHC_RANK", sign, 1);
  int nothing = rank > 0 ? open("/dev/null", O_RDONLY) : -1;
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  sigset_t mask = l->before;
  sigaddset(&mask, SIGUSR1); // SIGUSR1 stays blocked until ranks_join unblocks it
  sigprocmask(SIG_SETMASK, &mask, NULL);
  execv("/proc/self/exe", argv);
  fprintf(stderr, "meshc: error: cannot start a rank: %s\n", strerror(errno));
  _exit(1);
}

static bool start(Launch *l, char **argv) {
  pid_t parent = getpid();
  for (int i = 0; i < l->count; i++) {
    l->pid[i] = fork();
    if (l->pid[i] == 0) become_rank(l, i, argv, parent);
    if (l->pid[i] < 0) {
      l->pid[i] = 0;
      return false;
    }
    atomic_store(&l->rendezvous->rank[i].pid, (int)l->pid[i]);
    l->running++;
  }
  return true;
}

static void tell(const Launch *l, int signal) {
  for (int i = 0; i < l->count; i++)
    if (l->pid[i]) kill(l->pid[i], signal);
}

// Records in *l, and in the shared memory of the ranks, that a rank has ended with `status`. The
// caller does this before waitpid removes the process, so that other ranks that look for the
// process find its status.
static void note_end(Launch *l, int rank, int status) {
  l->pid[rank] = 0;
  l->running--;
  atomic_store(&l->rendezvous->rank[rank].status, 1 + status);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  if (l->code == EXIT_LOST && l->lost < 0 && ended_by_error(status))
    l->code = WEXITSTATUS(status); // this error is why other ranks ended with EXIT_LOST
  if (l->code == 0) {
    l->ended = clock_seconds();
    l->code = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_LOST;
    if (WIFSIGNALED(status) && WTERMSIG(status) == l->signal) l->code = 128 + l->signal;
  }
  if (WIFSIGNALED(status) && l->lost < 0 && clock_seconds() - l->ended < GRACE) {
    l->lost = rank;
    l->status = status;
  }
}

static void reap(Launch *l) {
  for (int i = 0; i < l->count; i++) {
    siginfo_t info = {0};
    int status;
    if (!l->pid[i] || waitid(P_PID, (id_t)l->pid[i], &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
      continue;
    pid_t pid = l->pid[i];
    int known = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
    note_end(l, i, known);
    waitpid(pid, &status, 0);
  }
}

// Returns true if all ranks that have not ended are stopped, so that they cannot end by themselves.
static bool all_stopped(const Launch *l) {
  int status;
  for (int i = 0; i < l->count; i++)
    if (l->pid[i] && process_state((int)l->pid[i], &status) != PROCESS_STOPPED) return false;
  return true;
}

static void wait_for_all(Launch *l) {
  const struct timespec look = {0, 100000000};
  sigset_t set = ranks_signals();
  while (l->running > 0) {
    int got = sigtimedwait(&set, NULL, &look);
    if (got > 0 && got != SIGCHLD) {
      l->signal = got;
      tell(l, got);
    }
    reap(l);
    if (l->running && l->code != 0 && (clock_seconds() - l->ended > GRACE || all_stopped(l)))
      tell(l, SIGKILL);
  }
}

// Prints which rank was lost and how it ended, unless one of the other ranks has reported it.
static void say_lost(const Launch *l) {
  int none = 0;
  if (l->lost < 0 || !atomic_compare_exchange_strong(&l->rendezvous->reporter, &none, 1 + l->lost))
    return;
  RendezvousRank *b = &l->rendezvous->rank[l->lost];
  char sentence[SENTENCE], death[128], doing[128], number[32];
  snprintf(number, sizeof number, "rank %d", l->lost);
  snprintf(
      sentence, sizeof sentence, "%s %s %s", *b->name ? b->name : number,
      death_text(l->status, death, sizeof death),
      doing_text((unsigned)atomic_load(&b->doing), atomic_load(&b->line), doing, sizeof doing));
  ranks_report(sentence);
}

static void end_like(int number, const sigset_t *before) {
  signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, before, NULL);
  raise(number);
}

static int run(Launch *l, char **argv) {
  sigset_t set = ranks_signals();
  sigprocmask(SIG_BLOCK, &set, &l->before);
  l->rendezvous->nlocal = l->rendezvous->count = l->count;
  if (!start(l, argv)) {
    fprintf(stderr, "meshc: error: cannot start %d ranks: %s\n", l->count, strerror(errno));
    tell(l, SIGKILL);
    wait_for_all(l);
    return 1;
  }
  wait_for_all(l);
  if (l->signal && l->code == 128 + l->signal) end_like(l->signal, &l->before);
  say_lost(l);
  return l->code;
}

// -- starting the ranks by mpirun ---------------------------------------------------------------

// Turns this child process into mpirun. The process gets a process group of its own, because a
// terminal's Ctrl-C must reach only the launcher. Its standard input is /dev/null instead of the
// terminal, because a process outside the terminal's foreground group cannot read from the
// terminal.
static _Noreturn void become_mpirun(char **argv, const sigset_t *before) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  int nothing = isatty(STDIN_FILENO) ? open("/dev/null", O_RDONLY) : -1;
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, before, NULL);
  execvp(argv[0], argv);
  fprintf(stderr, "meshc: error: cannot start mpirun: %s\n", strerror(errno));
  _exit(2);
}

typedef struct Children {
  int n, dead, guards;
} Children;

static Children children_of(pid_t pid) {
  char path[64], name[32];
  int child, status;
  Children c = {0};
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
  FILE *f = fopen(path, "re");
  for (; f && fscanf(f, "%d", &child) == 1; c.n++) {
    c.dead += process_state(child, &status) == PROCESS_ENDED;
    snprintf(path, sizeof path, "/proc/%d/comm", child);
    FILE *comm = fopen(path, "re");
    c.guards += comm && fgets(name, sizeof name, comm) && strcmp(name, GUARD_NAME "\n") == 0;
    if (comm) fclose(comm);
  }
  if (f) fclose(f);
  return c;
}

// Waits for mpirun and returns its status as waitpid gives it. *got gets the last signal that this
// process received, or 0.
//
// Signals are forwarded to mpirun. With `saves`, the first one is replaced by SIGUSR1, which asks
// the ranks for a checkpoint: after the others, mpirun would kill the ranks a second later.
// More signals within STOP_REPEAT seconds are the same request. SIGUSR1 is sent once every rank has
// a guard, which forwards it.
//
// mpirun is killed if it runs for MPIRUN_SECONDS after the end of all ranks: Open MPI 4.1 may hang
// in PMIx_server_finalize if a rank was killed while it connected.
static int wait_for_mpirun(pid_t pid, int count, bool saves, int *got) {
  sigset_t set = ranks_signals();
  int status = 0;
  const struct timespec look = {0, 100000000};
  double began = clock_seconds(), last_running = began, asked = 0;
  bool asked_to_save = false;
  *got = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    int now = sigtimedwait(&set, NULL, &look);
    Children c = children_of(pid);
    if (c.n == 0 || c.dead < c.n) last_running = clock_seconds();
    if (clock_seconds() - last_running > MPIRUN_SECONDS) kill(pid, SIGKILL);
    // guards on other machines are not seen here, so the wait for all guards is limited
    if (asked_to_save && (c.guards == count || clock_seconds() - began > MPIRUN_SECONDS)) {
      kill(pid, SIGUSR1);
      asked_to_save = false;
    }
    if (now <= 0 || now == SIGCHLD) continue;
    if (saves && *got == 0) {
      asked_to_save = true;
      asked = clock_seconds();
    } else if (clock_seconds() - asked > STOP_REPEAT) {
      kill(pid, now);
    }
    *got = now;
  }
  return status;
}

// Starts `count` ranks by mpirun, waits for mpirun to end, and returns the exit code of the run.
// The option -q keeps mpirun from reporting a lost rank, because meshc does.
static int run_mpirun(int count, char **argv, bool saves) {
  int n = 0, i = 0, got;
  char number[16];
  while (argv[n]) n++;
  char **all = mem_zeroed((size_t)n + 8, sizeof *all);
  snprintf(number, sizeof number, "%d", count);
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
  static char mpirun[] = "mpirun", quiet[] = "-q", over[] = "--oversubscribe", np[] = "-np",
              self[] = "/proc/self/exe";
  char path[4096];
  ssize_t length = readlink(self, path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  char *const begin[] = {mpirun, quiet, over, np, number, length > 0 ? path : argv[0]};
  for (; i < (int)countof(begin); i++) all[i] = begin[i];
  for (int k = 1; k < n; k++) all[i++] = argv[k];
  sigset_t set = ranks_signals(), before;
  sigprocmask(SIG_BLOCK, &set, &before);
  pid_t pid = fork();
  if (pid == 0) become_mpirun(all, &before);
  free(all);
  if (pid < 0) return 1;
  int status = wait_for_mpirun(pid, count, saves, &got),
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  // After a signal, mpirun ends with 1, or with more than 128 if the signal came during its start.
  if (got && (code == 1 || code > 128)) end_like(got, &before);
  return code > 128 ? EXIT_LOST : code;
}

int ranks_launch(int count, char **argv, bool mpi, bool saves) {
  if (mpi) return run_mpirun(count, argv, saves);
  size_t bytes = rendezvous_bytes(count, count);
  Launch l = {.count = count, .lost = -1, .rendezvous_fd = shared_make(bytes)};
  l.pid = mem_zeroed((size_t)count, sizeof *l.pid);
  l.rendezvous = l.rendezvous_fd >= 0 ? shared_map(getpid(), l.rendezvous_fd, bytes) : NULL;
  if (!l.rendezvous) mem_exhausted(bytes);
  int code = run(&l, argv);
  munmap(l.rendezvous, bytes);
  close(l.rendezvous_fd);
  free(l.pid);
  return code;
}
