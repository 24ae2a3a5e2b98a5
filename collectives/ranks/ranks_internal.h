// Shared by the files of this folder: the rendezvous in shared memory, and a process's view of it.
#ifndef COLLECTIVES_RANKS_PRIVATE_H
#define COLLECTIVES_RANKS_PRIVATE_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "collectives/local/transfer.h"
#include "collectives/ranks/ranks.h"
#include "collectives/ranks/transport.h"
#include "ir/base/abrupt.h"

enum { SENTENCE = 512, RANK_NAME = 160 }; // bytes

// What one rank writes to the rendezvous. There are two notes, used in turn, so that a fast rank
// can write the next one while others read the last.
typedef struct RendezvousRank {
  _Alignas(64) atomic_llong meetings; // number of meetings that this rank has arrived at
  atomic_int left;                    // 1 + its exit code, written by itself
  atomic_int status;                  // 1 + its status as of wait, written by ranks_launch
  atomic_int pid;
  atomic_uint heartbeat; // advances while the process runs, every HEARTBEAT_NANOSECONDS
  atomic_int doing;      // RankNote.what of its last note
  atomic_int line;       // line of the model in that note
  char name[RANK_NAME];
  RankNote note[2];
} RendezvousRank;
typedef struct Rendezvous {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) _Atomic(uint32_t) generation;
  atomic_uint sleepers;
  atomic_int reason_claimed;     // a rank writes the reason why the run has failed
  atomic_int failed;             // exit code of the run, 0: none
  atomic_int reporter;           // 1 + the rank that prints what went wrong
  atomic_int waits_for_machines; // the leader waits for other machines
  int nlocal, count;
  RendezvousRank rank[]; // of this machine. Behind them: the notes of all ranks (rendezvous_notes)
} Rendezvous;

// The last heartbeat that a waiting rank has seen of another one.
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

// What a rank under mpirun writes for its guard, in memory that both share.
typedef struct GuardInfo {
  char name[RANK_NAME];
  uint32_t doing, line;
  atomic_bool joined;  // it has met the other ranks
  atomic_bool guarded; // its parent is the guard
} GuardInfo;

struct Ranks {
  const Transport *transport; // NULL: all ranks are on this machine
  int rank, count;
  int machine, machines;
  int *machine_of;   // by rank: its machine
  int *leader;       // by machine: its first rank
  int nlocal, index; // ranks on this machine, own place among them
  int *local_rank;
  bool spin, bound;
  double deadline;
  Rendezvous *rendezvous;
  size_t rendezvous_bytes;
  long long meetings;            // done
  uint64_t notes;                // meetings with notes
  HeartbeatSeen *heartbeat_seen; // by place of a rank on this machine
  struct Heartbeat *heartbeat;
  const RankNote **all; // by rank: its note in the last call of ranks_meet
  RankNote now;         // what this rank is about to do
  const Mesh *mesh;
  int64_t each;
  GuardInfo *guard_info;  // NULL: not under mpirun
  SharedSegment *passing; // memory of the machine for messages of ranks_broadcast_block
  InjectKind inject;      // what this rank is to do wrong, and when
  int64_t inject_call;
  bool handles_signals; // ranks_handle_signals has started its thread
  // the missing rank was ended by SIGTERM, which mpirun sends to all ranks after any failure:
  // `error` may not name the first cause, so ranks that know it report first
  bool swept;
  char error[SENTENCE];
};

size_t rendezvous_bytes(int nlocal, int count);
// Returns the notes of all ranks, by rank. Meetings use two sets of notes in turn: `half` is 0
// or 1.
RankNote *rendezvous_notes(const Rendezvous *b, int half);
// shared_make creates an anonymous file of that many bytes: its descriptor, or -1. shared_map maps
// the file that process pid has as fd: its address, or NULL.
int shared_make(size_t bytes);
void *shared_map(int pid, int fd, size_t bytes);

// The state of a process, by /proc.
typedef enum ProcessState { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_ENDED } ProcessState;
ProcessState process_state(int pid, int *status); // *status: as of wait, -1: not known
// Writes how a process ended, such as "was killed by signal 9 (Killed)" or "has ended with exit
// code 1", to `out`. Returns it.
const char *death_text(int status, char *out, size_t room);
// Returns true if a process ended with an error that it has printed.
bool ended_by_error(int status);
// Writes what a rank does, such as "at the all_reduce of line 12", to `out`. Returns it.
const char *doing_text(unsigned what, int line, char *out, size_t room);

// How long a wait may last; 0 seconds: without limit. Patient: the seconds count from the last
// heartbeat of a missing rank, not from the start of the wait.
typedef struct WaitLimit {
  double seconds;
  bool patient;
} WaitLimit;

// Waits until all ranks of the machine have arrived. False once the run has failed.
bool rendezvous_meet(Ranks *r, WaitLimit limit);
void rendezvous_end(Rendezvous *b, int code); // the run has failed; wakes all
// Checks the ranks of this machine that have not arrived at meeting number `meeting`. Returns
// false, and makes the run fail, if one of them cannot come. *missing gets the index of one of
// them, or -1 if all are there. `limit` is for the thread that waits at the meeting; another thread
// calls it with a limit of 0 seconds.
bool rendezvous_check(Ranks *r, long long meeting, double waited, WaitLimit limit, int *missing);
// Starts a thread with a small stack in which all signals are blocked. False: there is no thread to
// be had.
bool thread_without_signals(pthread_t *thread, void *(*work)(void *), void *context);
// Starts and ends the thread that sends this rank's heartbeats. False: there is no thread to be
// had.
bool heartbeat_start(Ranks *r);
void heartbeat_end(Ranks *r);
// Exchanges one message with each peer. The limit is extended a little, so that the machine on
// which a rank was lost reports it first.
bool ranks_exchange(Ranks *r, int n, TransportPeer *peer, WaitLimit limit);
#define GUARD_NAME "meshc-guard"
// Continues in a child process. This process becomes its guard: mpirun then sees an exit code where
// the rank was killed by a signal, and a rank that has been stopped for longer than the deadline is
// ended.
void ranks_guard(GuardInfo **guard_info, double deadline);
// Installs a SIGTERM handler: when mpirun ends the run, a thread looks for the reason.
void ranks_handle_signals(Ranks *r);
// Prints what ended the run, in a process that meshc owns.
void ranks_report(const char *reason);
// Returns true if this process may print what ended the run. Under mpirun, that is the first
// process of the machine that calls it.
bool ranks_claim_by_launcher(void);
// Returns the signals that end a run, and SIGCHLD.
sigset_t ranks_signals(void);

// Does the transfers of a call that concern several machines. All leaders call it together.
typedef struct Internode Internode;
Internode *internode_new(Ranks *r, const Mesh *mesh);
void internode_free(Internode *f);
bool internode_run(Internode *f, const CommCall *call);
// Returns true if the blocks of a transfer are on more than one machine.
bool internode_concerns(const Ranks *r, const Transfer *t);
static inline int ranks_machine(const Ranks *r, int64_t processor) {
  return r->machine_of[processor / r->each];
}

#endif
