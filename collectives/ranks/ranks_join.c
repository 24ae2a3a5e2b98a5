// Joins the other ranks of a run. Ranks that ranks_launch has started inherit the rendezvous, the
// shared memory of the ranks of a machine. Ranks of an MPI launcher first tell one another on which
// machine they are, and the leader of each machine, its first rank, creates a rendezvous.
#define _GNU_SOURCE
#include "collectives/ranks/ranks_internal.h"
#include "ir/base/guard.h"
#include "ir/base/hash.h"
#include "ir/base/library.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MACHINE_NAME = 256, GREETING_SECONDS = 60 };
enum { MODULE_BYTES = 16 << 20 }; // the module and Open MPI 4.1 map 8 MiB

// A greeting, the first message that a rank sends to another rank.
typedef struct Hello {
  char machine[MACHINE_NAME];
  int pid, fd;
  uint64_t cores; // hash of the set of cores to which the launcher has bound the rank
} Hello;

bool ranks_started(void) {
  static const char *const sign[] = {"MESHC_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"};
  for (size_t i = 0; i < countof(sign); i++)
    if (getenv(sign[i])) return true;
  return false;
}

static void ranks_begin(Ranks *r) {
  size_t n = (size_t)r->count;
  r->machine_of = mem_zeroed(n, sizeof *r->machine_of);
  r->leader = mem_zeroed(n, sizeof *r->leader);
  r->local_rank = mem_zeroed(n, sizeof *r->local_rank);
  r->all = mem_zeroed(n, sizeof *r->all);
}

void ranks_free(Ranks *r) {
  if (!r) return;
  heartbeat_end(r);
  if (r->handles_signals) return; // the thread of ranks_handle_signals may still use *r
  segment_free(r->passing);
  if (r->rendezvous) munmap(r->rendezvous, r->rendezvous_bytes);
  free(r->machine_of);
  free(r->leader);
  free(r->local_rank);
  free(r->heartbeat_seen);
  free(r->all);
  free(r);
}

static bool no(char *why, size_t room, const char *text) {
  snprintf(why, room, "%s", text);
  return false;
}

// -- ranks that ranks_launch has started --------------------------------------------------------

static bool join_launched(Ranks *r, const char *sign, char *why, size_t room) {
  int fd;
  if (sscanf(sign, "%d/%d/%d", &r->rank, &r->count, &fd) != 3 || r->count < 1 || r->rank < 0 ||
      r->rank >= r->count)
    return no(why, room, "MESHC_RANK is meshc's own and says RANK/COUNT/FD");
  ranks_begin(r);
  r->machines = 1;
  r->nlocal = r->count;
  r->index = r->rank;
  for (int i = 0; i < r->count; i++) r->local_rank[i] = i;
  r->rendezvous_bytes = rendezvous_bytes(r->nlocal, r->count);
  r->rendezvous = shared_map(getpid(), fd, r->rendezvous_bytes);
  if (!r->rendezvous) return no(why, room, "the memory that the ranks share is not there");
  close(fd);
  return true;
}

// -- ranks that an MPI launcher has started -----------------------------------------------------

// Writes to `path` the path of the module meshc_mpi. The module is in the folder of the program or,
// when installed, in ../lib/meshc. Returns false if neither folder has it.
static bool find_module(char path[PATH_MAX + 64]) {
  static const char *const place[] = {"", "/../lib/meshc"};
  char self[PATH_MAX] = "";
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return false;
  const char *folder = dirname(self);
  for (size_t i = 0; i < countof(place); i++) {
    snprintf(path, PATH_MAX + 64, "%s%s/meshc_mpi.so", folder, place[i]);
    if (access(path, R_OK) == 0) return true;
  }
  return false;
}

bool ranks_over_mpi(void) {
  char path[PATH_MAX + 64];
  return find_module(path);
}

static void *open_module(char *why, size_t room) {
  char path[PATH_MAX + 64];
  if (!find_module(path)) {
    snprintf(why, room, "an MPI launcher has started this program, which was built without MPI");
    return NULL;
  }
  void *module = library_open(path, RTLD_NOW | RTLD_GLOBAL,
                              MODULE_BYTES); // global, because modules of MPI use its symbols
  if (!module) snprintf(why, room, "%s", dlerror());
  return module;
}

static const Transport *open_transport(char *why, size_t room) {
  void *module = open_module(why, room);
  if (!module) return NULL;
  void *symbol = dlsym(module, TRANSPORT_SYMBOL);
  TransportEntry *entry;
  memcpy(&entry, &symbol, sizeof entry);
  if (symbol) return entry();
  no(why, room, "the module meshc_mpi is not of this version");
  return NULL;
}

static void append_file(char *to, size_t room, const char *path, bool link) {
  size_t n = strlen(to);
  if (n + 1 >= room) return;
  if (link) {
    ssize_t got = readlink(path, to + n, room - n - 1);
    to[n + (got > 0 ? (size_t)got : 0)] = '\0';
    return;
  }
  FILE *f = mem_fopen(path, "re");
  if (f && !fgets(to + n, (int)(room - n), f)) to[n] = '\0';
  if (f) fclose(f);
}

// Writes a name of this machine to `out`. Ranks whose machines have equal names can map one
// another's memory. For tests, the variable MESHC_RANKS_A_MACHINE=N makes every N ranks a machine.
static void name_machine(int rank, char *out, size_t room) {
  const char *each = getenv("MESHC_RANKS_A_MACHINE");
  int n = each ? atoi(each) : 0;
  snprintf(out, room, "%d ", n > 0 ? rank / n : 0);
  append_file(out, room, "/proc/sys/kernel/random/boot_id", false);
  append_file(out, room, "/proc/self/ns/pid", true);
  append_file(out, room, "/proc/self/ns/net", true);
}

static bool in_time(void *began) { return clock_seconds() - *(double *)began < GREETING_SECONDS; }

// Exchanges greetings (first messages) with every other rank: sends *mine, and writes the greeting
// of rank i to all[i]. Returns false after an error of the transport.
static bool greet(const Ranks *r, const Hello *mine, Hello *all) {
  TransportPeer *peer = mem_zeroed((size_t)r->count, sizeof *peer);
  double began = clock_seconds();
  int n = 0;
  for (int i = 0; i < r->count; i++)
    if (i != r->rank) peer[n++] = (TransportPeer){i, mine, sizeof *mine, &all[i], sizeof *all};
  all[r->rank] = *mine;
  bool good = r->transport->exchange(n, peer, in_time, &began);
  free(peer);
  return good;
}

// Numbers the machines in the order of their first ranks, from the greetings (first messages) of
// all ranks.
static void find_machines(Ranks *r, const Hello *all) {
  for (int i = 0; i < r->count; i++) {
    int first = 0;
    while (strcmp(all[first].machine, all[i].machine) != 0) first++;
    if (first == i) r->leader[r->machines] = i;
    r->machine_of[i] = first == i ? r->machines++ : r->machine_of[first];
  }
  r->machine = r->machine_of[r->rank];
  for (int i = 0; i < r->count; i++) {
    if (r->machine_of[i] != r->machine) continue;
    if (i == r->rank) r->index = r->nlocal;
    r->local_rank[r->nlocal++] = i;
    r->bound = r->bound || all[i].cores != all[r->rank].cores;
  }
}

static bool share_rendezvous(Ranks *r, Hello *mine, Hello *all) {
  r->rendezvous_bytes = rendezvous_bytes(r->nlocal, r->count);
  int leader = r->leader[r->machine];
  if (leader == r->rank) mine->fd = shared_make(r->rendezvous_bytes);
  if (leader == r->rank && mine->fd >= 0)
    r->rendezvous = shared_map(mine->pid, mine->fd, r->rendezvous_bytes);
  if (r->rendezvous) {
    r->rendezvous->nlocal = r->nlocal;
    r->rendezvous->count = r->count;
  }
  if (!greet(r, mine, all)) return false;
  if (leader != r->rank)
    r->rendezvous = shared_map(all[leader].pid, all[leader].fd, r->rendezvous_bytes);
  // this second exchange of greetings is a barrier, after which all ranks have mapped the memory
  return greet(r, mine, all) && r->rendezvous;
}

static bool join_mpi(Ranks *r, char *why, size_t room) {
  if (process_owned()) ranks_guard(&r->guard_info, r->deadline);
  r->transport = open_transport(why, room);
  if (!r->transport || !r->transport->start(&r->rank, &r->count, why, room)) return false;
  Hello mine = {.pid = getpid(), .fd = -1}, *all = mem_zeroed((size_t)r->count, sizeof *all);
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  mine.cores = fnv_bytes(FNV_START, &set, sizeof set);
  name_machine(r->rank, mine.machine, sizeof mine.machine);
  ranks_begin(r);
  bool good = greet(r, &mine, all);
  if (good) find_machines(r, all);
  good = good && share_rendezvous(r, &mine, all);
  if (mine.fd >= 0) close(mine.fd);
  free(all);
  if (!good) return no(why, room, "the ranks do not reach one another, or may not share memory");
  if (process_owned()) ranks_handle_signals(r);
  return true;
}

// Unblocks SIGUSR1, by which the launcher asks a rank for a checkpoint. ranks_launch starts ranks
// with the signal blocked, because it would end a rank that has no handler for it yet.
static void unblock_save_signal(void) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

// Tells the other ranks of this machine who this process is, and decides how it waits for them.
static void enter_rendezvous(Ranks *r) {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  r->spin = r->bound || CPU_COUNT(&set) >= r->nlocal;
  bool guarded = r->guard_info && atomic_load(&r->guard_info->guarded);
  atomic_store(&r->rendezvous->rank[r->index].guard, guarded ? getppid() : 0);
  atomic_store(&r->rendezvous->rank[r->index].pid, getpid());
}

// Starts the thread that watches the other ranks. Ends all of them if there is no memory for it.
static void watch_others(Ranks *r) {
  r->heartbeat_seen = mem_zeroed((size_t)r->nlocal, sizeof *r->heartbeat_seen);
  if (heartbeat_start(r)) return;
  rendezvous_end(r->rendezvous, EXIT_MEMORY);
  (void)mem_doing("starting the thread that watches the other ranks", NULL);
  mem_exhausted(0);
}

Ranks *ranks_join(double deadline, char *why, size_t room, int *code) {
  const char *launched = getenv("MESHC_RANK");
  if (launched) unblock_save_signal();
  Ranks *r = mem_zeroed(1, sizeof *r);
  r->deadline = deadline;
  if (launched ? !join_launched(r, launched, why, room) : !join_mpi(r, why, room)) {
    ranks_free(r);
    return NULL;
  }
  enter_rendezvous(r);
  watch_others(r);
  RankNote start = {.what = NOTE_START};
  if (ranks_meet(r, &start, false, NULL)) {
    if (r->guard_info) atomic_store(&r->guard_info->joined, true);
    return r;
  }
  if (*r->error && ranks_claim_report(r)) ranks_report(r->error);
  *why = '\0';
  *code = atomic_load(&r->rendezvous->failed);
  ranks_free(r);
  return NULL;
}
