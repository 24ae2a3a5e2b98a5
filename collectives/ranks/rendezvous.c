// The rendezvous of the ranks of one machine: shared memory and a barrier over processes.
//
// The last rank to arrive at a meeting advances Rendezvous.generation, a futex on which the others
// sleep. Waiting ranks wake every 50 ms to check the missing ranks (rendezvous_check), because a
// process that has been killed or stopped cannot report that itself.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 2000, LOOK_NANOSECONDS = 50000000 };
// The most seconds that one interval between two checks of missing ranks adds to the time waited. A
// longer interval means that the whole run has been stopped and continued, as by Ctrl-Z.
static const double LOOK_MOST = 0.2;

// -- shared memory ------------------------------------------------------------------------------

static size_t ranks_bytes(int nlocal) {
  return sizeof(Rendezvous) + (size_t)nlocal * sizeof(RendezvousRank);
}

size_t rendezvous_bytes(int nlocal, int count) {
  return ranks_bytes(nlocal) + 2 * (size_t)count * sizeof(RankNote);
}

RankNote *rendezvous_notes(const Rendezvous *b, int half) {
  return (RankNote *)((uintptr_t)b + ranks_bytes(b->nlocal)) + (size_t)half * (size_t)b->count;
}

int shared_make(size_t bytes) {
  int fd = memfd_create("meshc", MFD_CLOEXEC);
  if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0) return fd;
  mem_check_errno();
  if (fd >= 0) close(fd);
  return -1;
}

void *shared_map(int pid, int fd, size_t bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  int own = open(path, O_RDWR | O_CLOEXEC);
  if (own < 0) return NULL;
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
  if (at == MAP_FAILED) mem_check_errno();
  close(own);
  return at == MAP_FAILED ? NULL : at;
}

// -- checking missing ranks ---------------------------------------------------------------------

ProcessState process_state(int pid, int *status) {
  char path[64], text[1024];
  *status = -1;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? PROCESS_ENDED
                           : PROCESS_RUNS; // an error such as EMFILE says nothing about it
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return PROCESS_ENDED;
  text[n] = '\0';
  const char *state = strrchr(text, ')'); // the last ')' ends the name, which may contain others
  if (!state || state[1] != ' ') return PROCESS_RUNS;
  if (state[2] == 'T' || state[2] == 't') return PROCESS_STOPPED;
  if (state[2] != 'Z' && state[2] != 'X') return PROCESS_RUNS;
  const char *last = strrchr(state, ' '); // the last field is exit_code (proc(5))
  if (last) *status = atoi(last);
  return PROCESS_ENDED;
}

const char *death_text(int status, char *out, size_t room) {
  if (status >= 0 && WIFSIGNALED(status))
    snprintf(out, room, "was killed by signal %d (%s)", WTERMSIG(status),
             strsignal(WTERMSIG(status)));
  else if (status >= 0 && WIFEXITED(status))
    snprintf(out, room, "has ended with exit code %d", WEXITSTATUS(status));
  else
    snprintf(out, room, "was killed or has ended");
  return out;
}

const char *doing_text(unsigned what, int line, char *out, size_t room) {
  static const char *const text[] = {
      [NOTE_NONE] = "before its start",
      [NOTE_START] = "at the start",
      [NOTE_MODEL] = "after reading the model",
      [NOTE_DEVICE] = "while opening the GPU",
      [NOTE_COMPILE] = "after compiling",
      [NOTE_FILES] = "where data files are compared",
      [NOTE_MEMORY] = "while taking memory",
      [NOTE_STEP] = "at the end of a step",
      [NOTE_UPDATES] = "in steps with asynchronous updates",
      [NOTE_READ] = "where results are put together",
      [NOTE_VERIFY] = "where --verify compares",
      [NOTE_SHARE] = "where facts about data are shared",
      [NOTE_END] = "at the end of the run",
  };
  if (what < NOTE_CALL)
    snprintf(out, room, "%s", text[what]);
  else
    snprintf(out, room, "at the %s of line %d", coll_text((CollKind)(what - NOTE_CALL)), line);
  return out;
}

// Returns true if the process of a rank has ended, and sets *status to how it ended. ranks_launch
// may write that status a little after the end. So a process without a status counts as ended only
// after a wait of 0.2 seconds.
static bool is_over(RendezvousRank *b, double waited, int *status) {
  ProcessState life = process_state(atomic_load(&b->pid), status);
  int known = atomic_load(&b->status);
  if (known > 0) *status = known - 1;
  return known > 0 || (life == PROCESS_ENDED && (*status >= 0 || waited > 0.2));
}

// Exit code 1 does not count as an error of the rank itself, because MPI also ends processes with
// it. EXIT_LOST does not count either: a rank that ends with it has only noticed that another rank
// was lost.
bool ended_by_error(int status) {
  int code = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return (code >= 2 && code < EXIT_LOST) || code == EXIT_MEMORY;
}

// Returns true if mpirun seems to have ended a rank: by SIGTERM, or a second later by killing the
// guard, at whose death the rank gets SIGKILL (ranks_guard.c). The guard of a rank that is killed
// alone still runs. On one machine all ranks get SIGTERM together. A rank that ends at it does not
// live until mpirun kills guards: if it sees a killed guard, somebody else killed that, which is
// the reason why the run ends.
static bool is_swept(const Ranks *r, RendezvousRank *b, int status) {
  int signal = status >= 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0, how;
  int guard = atomic_load(&b->guard);
  if (signal != SIGKILL || (r->machines == 1 && ranks_end_at_sigterm())) return signal == SIGTERM;
  return guard && process_state(guard, &how) == PROCESS_ENDED;
}

static bool say_lost(Ranks *r, int i, int status) {
  RendezvousRank *b = &r->rendezvous->rank[i];
  char name[RANK_NAME], death[128], there[128], here[128];
  if (ended_by_error(status)) {
    rendezvous_end(r->rendezvous, WEXITSTATUS(status));
    return false;
  }
  r->swept = r->guard_info && is_swept(r, b, status);
  return ranks_fail(
      r, "%s %s %s; rank %d waited for it %s", ranks_name(r, r->local_rank[i], name, sizeof name),
      death_text(status, death, sizeof death),
      doing_text((unsigned)atomic_load(&b->doing), atomic_load(&b->line), there, sizeof there),
      r->rank, doing_text(r->now.what, (int)r->now.line, here, sizeof here));
}

static bool say_late(Ranks *r, int i, WaitLimit limit) {
  RendezvousRank *b = &r->rendezvous->rank[i];
  char name[RANK_NAME], there[128], here[128];
  int status;
  ProcessState life = process_state(atomic_load(&b->pid), &status);
  return ranks_fail(
      r, "%s %s: it was last %s, and rank %d waited for it %g second%s %s",
      ranks_name(r, r->local_rank[i], name, sizeof name),
      life == PROCESS_STOPPED ? "has been stopped"
      : limit.patient         ? "gives no sign of life"
                              : "does not come",
      doing_text((unsigned)atomic_load(&b->doing), atomic_load(&b->line), there, sizeof there),
      r->rank, limit.seconds, limit.seconds == 1 ? "" : "s",
      doing_text(r->now.what, (int)r->now.line, here, sizeof here));
}

// Returns for how many seconds rank i has been silent. They count from the moment at which this
// rank last saw its heartbeat counter change. If the counter has not changed during this wait, they
// count from the start of the wait. `waited` is the seconds since that start.
static double silence(Ranks *r, int i, double waited) {
  HeartbeatSeen *h = &r->heartbeat_seen[i];
  unsigned heartbeat = atomic_load(&r->rendezvous->rank[i].heartbeat);
  if (heartbeat != h->heartbeat || h->at > waited) *h = (HeartbeatSeen){heartbeat, waited};
  return waited - h->at;
}

static bool is_late(Ranks *r, int i, double waited, WaitLimit limit) {
  if (limit.seconds <= 0) return false;
  return (limit.patient ? silence(r, i, waited) : waited) > limit.seconds;
}

bool rendezvous_check(Ranks *r, long long meeting, double waited, WaitLimit limit, int *missing) {
  Rendezvous *b = r->rendezvous;
  int late = -1;
  *missing = -1;
  if (atomic_load(&b->failed)) return false;
  for (int i = 0; i < r->nlocal; i++) {
    RendezvousRank *other = &b->rank[i];
    int status, left = atomic_load(&other->left);
    if (atomic_load(&other->meetings) >= meeting) continue;
    if (left) return say_lost(r, i, (left - 1) << 8);
    if (atomic_load(&other->pid) && is_over(other, waited, &status)) return say_lost(r, i, status);
    if (*missing < 0 || (i > 0 && *missing == 0))
      *missing = i; // the leader (0) only if no other rank is missing: it may wait for machines
    bool excused = i == 0 && atomic_load(&b->waits_for_machines);
    if (late <= 0 && !excused && is_late(r, i, waited, limit)) late = i;
  }
  return late < 0 || say_late(r, late, limit);
}

// -- the barrier --------------------------------------------------------------------------------

static void wake_all(Rendezvous *b) {
  syscall(SYS_futex, &b->generation, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void rendezvous_end(Rendezvous *b, int code) {
  int none = 0;
  atomic_compare_exchange_strong(&b->failed, &none, code);
  wake_all(b);
}

static bool sleep_watching(Ranks *r, uint32_t generation, WaitLimit limit) {
  Rendezvous *b = r->rendezvous;
  const struct timespec look = {0, LOOK_NANOSECONDS};
  for (int i = 0; i < r->nlocal; i++)
    r->heartbeat_seen[i] = (HeartbeatSeen){atomic_load(&b->rank[i].heartbeat), 0};
  double waited = 0, last = clock_seconds(), now;
  bool good = true;
  int missing;
  atomic_fetch_add(&b->sleepers, 1);
  while (good && atomic_load(&b->generation) == generation) {
    long slept = syscall(SYS_futex, &b->generation, FUTEX_WAIT, generation, &look, NULL, 0);
    if (atomic_load(&b->generation) != generation) break;
    now = clock_seconds();
    waited += now - last < LOOK_MOST ? now - last : LOOK_MOST;
    last = now;
    if (atomic_load(&b->failed)) good = false;
    if (good && slept != 0) good = rendezvous_check(r, r->meetings, waited, limit, &missing);
  }
  atomic_fetch_sub(&b->sleepers, 1);
  return good;
}

bool rendezvous_meet(Ranks *r, WaitLimit limit) {
  Rendezvous *b = r->rendezvous;
  if (atomic_load(&b->failed)) return false;
  uint32_t generation = atomic_load(&b->generation);
  // The number of meetings is stored after `arrived` is advanced. So a rank that is stopped between
  // the two counts as missing.
  atomic_llong *noted = &b->rank[r->index].meetings;
  r->meetings++;
  if ((int)atomic_fetch_add(&b->arrived, 1) + 1 == r->nlocal) {
    atomic_store(&b->arrived, 0);
    atomic_store(&b->generation, generation + 1);
    atomic_store(noted, r->meetings);
    if (atomic_load(&b->sleepers) > 0) wake_all(b);
    return true;
  }
  atomic_store(noted, r->meetings);
  for (int i = 0; r->spin && i < SPINS; i++) {
    if (atomic_load_explicit(&b->generation, memory_order_acquire) != generation) return true;
    spin_pause();
  }
  return sleep_watching(r, generation, limit);
}

// -- failure of a run ---------------------------------------------------------------------------

bool ranks_fail(Ranks *r, const char *fmt, ...) {
  int none = 0;
  if (atomic_load(&r->rendezvous->failed) ||
      !atomic_compare_exchange_strong(&r->rendezvous->reason_claimed, &none, 1))
    return false;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(r->error, sizeof r->error, fmt, ap);
  va_end(ap);
  rendezvous_end(r->rendezvous, EXIT_LOST);
  return false;
}

bool ranks_lost(Diag *d) {
  diag_error(d, DIAG_PEER_LOST, (Pos){0}, "another rank has ended the run");
  return false;
}

const char *ranks_name(const Ranks *r, int rank, char *out, size_t room) {
  if (!r->mesh) {
    snprintf(out, room, "rank %d", rank);
    return out;
  }
  char at[MAX_AXES * 32];
  long long first = rank * r->each, last = first + r->each - 1;
  const char *between = r->mesh->naxes ? ", " : "";
  mesh_coordinates(r->mesh, first, " ", at, sizeof at);
  if (r->each == 1)
    snprintf(out, room, "rank %d (processor %lld%s%s)", rank, first, between, at);
  else
    snprintf(out, room, "rank %d (processors %lld to %lld%s%s)", rank, first, last, between, at);
  return out;
}
