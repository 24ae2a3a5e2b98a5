// What the files of this folder share: the rendezvous in shared memory, and Ranks, one rank's view
// of the run. The leader of a machine is its first rank.
#ifndef COLLECTIVES_RANKS_PRIVATE_H
#define COLLECTIVES_RANKS_PRIVATE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "collectives/local/transfer.h"
#include "collectives/ranks/ranks.h"
#include "collectives/ranks/transport.h"
#include "ir/base/abrupt.h"

enum { SENTENCE = 512, RANK_NAME = 160 }; // bytes of a reported error, bytes of a rank's name

// What one rank writes to the rendezvous, the shared memory of the ranks of its machine. A rank has
// two notes (messages on what it is about to do) and uses them in turn. So a fast rank can write
// the next note while others read the previous one.
typedef struct RendezvousRank {
  _Alignas(64) atomic_llong meetings; // number of meetings that this rank has arrived at
  atomic_int left;   // 1 + its exit code, written by the rank when it ends; 0 before
  atomic_int status; // 1 + its status from waitid, written by ranks_launch at its end; 0 before
  atomic_int pid;
  atomic_int guard;      // the process that guards this rank, or 0 (ranks_guard.c)
  atomic_uint heartbeat; // advances every HEARTBEAT_NANOSECONDS while the process runs
  atomic_uint advances;  // number of calls of ranks_advance
  atomic_int doing;      // RankNote.what of its last note
  atomic_int line;       // RankNote.line of its last note
  char name[RANK_NAME];
  RankNote note[2];
} RendezvousRank;
// The shared memory of the ranks of one machine, in which they meet and write their notes.
typedef struct Rendezvous {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) _Atomic(uint32_t) generation;
  atomic_uint sleepers;
  atomic_int reason_claimed;     // 1: a rank has begun to write why the run has failed
  atomic_int failed;             // exit code of a run that has failed; 0: it has not failed
  atomic_int reporter;           // 1 + the rank that prints why the run has failed; 0: none yet
  atomic_int waits_for_machines; // 1: the leader waits for messages of other machines
  int nlocal, count;             // number of ranks of this machine, and of the run
  // the ranks of this machine; the notes of all ranks follow them in memory (rendezvous_notes)
  RendezvousRank rank[];
} Rendezvous;

// The last heartbeat that a waiting rank has seen of another rank.
typedef struct HeartbeatSeen {
  unsigned heartbeat;
  double at; // seconds from the start of the wait until it came
} HeartbeatSeen;

typedef enum InjectKind {
  INJECT_NONE,
  INJECT_COUNT_WRONG,
  INJECT_KIND,
  INJECT_LINE,
  INJECT_SKIP,
  INJECT_KILL,
  INJECT_STOP,
  INJECT_COUNT
} InjectKind;

// What a rank under mpirun writes for its guard, the parent process that watches it
// (ranks_guard.c). Both processes share this memory.
typedef struct GuardInfo {
  char name[RANK_NAME];
  uint32_t doing, line;
  atomic_bool joined;  // the rank has met the other ranks
  atomic_bool guarded; // the parent process of the rank is its guard
} GuardInfo;

struct Ranks {
  const Transport *transport; // NULL: all ranks are on this machine
  int rank, count;            // number of this rank; number of ranks of the run
  int machine, machines;      // number of this machine; number of machines
  int *machine_of;            // by rank: its machine
  int *leader;                // by machine: its first rank
  int nlocal, index;          // number of ranks on this machine; index of this rank among them
  int *local_rank;            // by index of a rank on this machine: its number
  bool spin;                  // there is a core for every rank, so a waiting rank may spin
  bool bound;                 // the launcher has bound each rank to cores of its own
  double deadline;            // seconds that a rank waits in a meeting for the others; 0: no limit
  Rendezvous *rendezvous;
  size_t rendezvous_bytes;
  long long meetings;            // number of meetings at which this rank has arrived
  uint64_t notes;                // number of these that were meetings with notes
  HeartbeatSeen *heartbeat_seen; // by index of a rank on this machine
  struct Heartbeat *heartbeat;
  const RankNote **all; // by rank: its note in the last call of ranks_meet
  RankNote now;         // what this rank is about to do
  const Mesh *mesh;
  int64_t each;           // processors of each rank
  GuardInfo *guard_info;  // NULL: not under mpirun
  SharedSegment *passing; // buffer for ranks_broadcast_block, shared by the ranks of this machine
  InjectKind inject;      // the fault to inject, and the call of a collective at which to do it
  int64_t inject_call;
  bool handles_signals; // ranks_handle_signals has started its thread
  // mpirun seems to have ended the lost rank that `error` names (is_swept in rendezvous.c). It does
  // so to all ranks after any failure, so `error` may not name the cause, and this rank waits
  // before it reports.
  bool swept;
  char error[SENTENCE];
};

size_t rendezvous_bytes(int nlocal, int count);
// Returns the array of the notes of all ranks, by rank. A note is what a rank says it is about to
// do. There are two such arrays, which meetings of the ranks use in turn; `half` (0 or 1) selects
// one.
RankNote *rendezvous_notes(const Rendezvous *b, int half);
// Creates an anonymous file of `bytes` in memory, for processes to share. Returns its descriptor,
// or -1 after an error.
int shared_make(size_t bytes);
// Maps the file that process `pid` has open as descriptor `fd`. Returns the address of the mapping,
// or NULL after an error.
void *shared_map(int pid, int fd, size_t bytes);

typedef enum ProcessState { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_ENDED } ProcessState;
// Returns the state of a process, such as running, stopped or ended, as /proc shows it. For a
// process that has ended, *status gets the status that waitpid would return, or -1 if that is not
// known.
ProcessState process_state(int pid, int *status);
// Writes to `out` how a process ended, such as "was killed by signal 9 (Killed)" or "has ended with
// exit code 1". `status` is the one that process_state gives. Returns `out`.
const char *death_text(int status, char *out, size_t room);
// Returns true if `status` (as waitpid gives it) is that of a rank that ended because of its own
// error and has printed that error.
bool ended_by_error(int status);
// Writes to `out` what a rank does, such as "at the all_reduce of line 12". `what` and `line` are
// from the note of the rank, in which it says what it is about to do. Returns `out`.
const char *doing_text(unsigned what, int line, char *out, size_t room);

// How long a rank waits for other ranks before the run fails.
typedef struct WaitLimit {
  double seconds; // 0: without limit
  bool patient;   // the seconds count from the last heartbeat of a missing rank, otherwise from the
                  // start of the wait
} WaitLimit;

// Waits until all ranks of this machine have called this function. Returns false once the run has
// failed.
bool rendezvous_meet(Ranks *r, WaitLimit limit);
// Makes the run fail with exit code `code`, and wakes all ranks of this machine that wait. If the
// run has failed before, the earlier exit code remains.
void rendezvous_end(Rendezvous *b, int code);
// Checks the ranks of this machine that have not arrived at meeting number `meeting`, for which
// this rank has waited `waited` seconds. Makes the run fail and returns false if one of them has
// ended or exceeds the limit; otherwise returns true. *missing gets the index of a rank that has
// not arrived, or -1 if all have. A thread that does not itself wait for the meeting passes a limit
// of 0 seconds, which means no limit.
bool rendezvous_check(Ranks *r, long long meeting, double waited, WaitLimit limit, int *missing);
// Starts a thread with a small stack in which all signals are blocked. Returns false if the system
// cannot start a thread.
bool thread_without_signals(pthread_t *thread, void *(*work)(void *), void *context);
// Starts the thread that sends this rank's heartbeats. Returns false if the system cannot start a
// thread.
bool heartbeat_start(Ranks *r);
// Ends the thread that sends this rank's heartbeats, if heartbeat_start has started it.
void heartbeat_end(Ranks *r);
// Exchanges one message with each of n peers, ranks on other machines. Waits INTERNODE_SECONDS
// longer than `limit`, so that the machine on which a rank was lost reports it first. Returns false
// once the run has failed.
bool ranks_exchange(Ranks *r, int n, TransportPeer *peer, WaitLimit limit);
#define GUARD_NAME "meshc-guard"
// Starts a child process, in which this function returns and the rank goes on. The calling process
// becomes the guard of the rank (ranks_guard.c). The guard turns a death of the rank by a signal
// into an exit code. It kills a rank that was stopped for longer than `deadline` seconds.
void ranks_guard(GuardInfo **guard_info, double deadline);
// Installs a handler for SIGTERM, the signal by which mpirun ends a run. After the signal, a thread
// finds out why the run ended and reports it.
void ranks_handle_signals(Ranks *r);
// Returns whether SIGTERM still wakes that thread, which ends the rank within half a second.
bool ranks_end_at_sigterm(void);
// Prints `reason`, which says what ended the run, if meshc owns this process (ir/base/guard.h).
void ranks_report(const char *reason);
// Returns true if this process may print what ended the run. Under mpirun, only the first process
// of the machine that calls it may.
bool ranks_claim_by_launcher(void);
// Returns the signals for which a launcher or guard (the parent process of ranks) waits: SIGCHLD,
// SIGUSR1 and the signals that end a run, without a SIGHUP that is ignored.
sigset_t ranks_signals(void);

// What the leader (first rank) of a machine needs for exchanging blocks with the leaders of the
// other machines (internode.c).
typedef struct Internode Internode;
Internode *internode_new(Ranks *r, const Mesh *mesh);
void internode_free(Internode *f);
// Does the transfers of a call whose blocks are on several machines. The leaders (first ranks) of
// all machines call it together. Returns false once the run has failed.
bool internode_run(Internode *f, const CommCall *call);
// Returns true if the blocks of transfer t, its sources and destinations, are on more than one
// machine.
bool internode_concerns(const Ranks *r, const Transfer *t);
// Returns the number of the machine that has a processor.
static inline int ranks_machine(const Ranks *r, int64_t processor) {
  return r->machine_of[processor / r->each];
}

#endif
