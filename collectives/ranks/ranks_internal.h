// What the files of the ranks share among themselves: the board and this process's view of it.
#ifndef COLLECTIVES_RANKS_PRIVATE_H
#define COLLECTIVES_RANKS_PRIVATE_H

#include <signal.h>
#include <stdatomic.h>

#include "collectives/local/transfer.h"
#include "collectives/ranks/ranks.h"
#include "collectives/ranks/transport.h"
#include "ir/base/abrupt.h"

enum { SENTENCE = 512, RANK_NAME = 160, EXIT_LOST = 6, EXIT_MEMORY = 7, EXIT_INTERRUPTED = 75 };

// One rank on the board; notes in turn, so that a fast rank writes the next while others read the
// last.
typedef struct RendezvousRank {
  _Alignas(64) atomic_llong meetings; // at which it has arrived
  atomic_int left;                    // 1 + its exit code, written by itself
  atomic_int status;                  // 1 + what wait says of it, written by ranks_launch
  atomic_int pid;
  atomic_uint heartbeat; // advances while the process runs, every HEARTBEAT_NANOSECONDS
  atomic_int doing;      // NoteKind of its last note, and the line
  atomic_int line;
  char name[RANK_NAME];
  RankNote note[2];
} RendezvousRank;
typedef struct Rendezvous {
  _Alignas(64) atomic_uint arrived;
  _Alignas(64) _Atomic(uint32_t) generation;
  atomic_uint sleepers;
  atomic_int reason_claimed;     // somebody writes down why the run has failed
  atomic_int failed;             // exit code of the run, 0: none
  atomic_int reporter;           // 1 + the rank that prints what went wrong
  atomic_int waits_for_machines; // the leader waits for other machines
  int nlocal, count;
  RendezvousRank rank[]; // of this machine; behind them the notes of all, twice
} Rendezvous;

// What a waiting rank has heard of another one in this meeting.
typedef struct HeartbeatSeen {
  unsigned heartbeat;
  double at; // seconds of waiting at which the pulse last advanced
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

// What a rank under mpirun tells its guard.
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
  int *machine_of;   // of every rank
  int *leader;       // of every machine
  int nlocal, index; // ranks on this machine, own place among them
  int *local_rank;
  bool spin, bound;
  double deadline;
  Rendezvous *rendezvous;
  size_t rendezvous_bytes;
  long long meetings;            // done
  uint64_t notes;                // meetings with notes
  HeartbeatSeen *heartbeat_seen; // by rank of this machine
  struct Heartbeat *heartbeat;
  const RankNote **all; // of the last meeting with notes, by rank
  RankNote now;         // what this rank is about to do
  const Mesh *mesh;
  int64_t each;
  GuardInfo *guard_info;  // NULL: not under mpirun
  SharedSegment *passing; // of the machine, for ranks_broadcast_block
  InjectKind inject;      // what this rank is to do wrong, and when
  int64_t inject_call;
  bool swept; // `error` is what mpirun does once another machine has failed, perhaps
  char error[SENTENCE];
};

size_t rendezvous_bytes(int nlocal, int count);
RankNote *rendezvous_notes(const Rendezvous *b, int half); // of all ranks
// An anonymous file of that many bytes, -1; and the one that process pid has as fd, mapped, or
// NULL.
int shared_make(size_t bytes);
void *shared_map(int pid, int fd, size_t bytes);

// What the system says of a process.
typedef enum ProcessState { PROCESS_RUNS, PROCESS_STOPPED, PROCESS_ENDED } ProcessState;
ProcessState process_state(int pid, int *status); // *status: as of wait where it is known, else -1
// "was killed by signal 9 (Killed)", "has ended with exit code 1"
const char *death_text(int status, char *out, size_t room);
bool ended_by_error(int status); // and said so itself
// "at the all_reduce of line 12"
const char *doing_text(unsigned what, int line, char *out, size_t room);

// How long a wait may last. Patient: the seconds count from the last life sign of a rank that is
// missing, not from the start of the wait. seconds 0: no deadline.
typedef struct WaitLimit {
  double seconds;
  bool patient;
} WaitLimit;

// Meets the machine's ranks.
bool rendezvous_meet(Ranks *r, WaitLimit limit);
void rendezvous_end(Rendezvous *b, int code); // the run has failed; wakes all
// Looks after the ranks of this machine that have not come to meeting number `meeting`. False once
// one of them cannot come. *missing gets the index of one that is missing, -1: none. Only the
// waiting thread may pass a deadline.
bool rendezvous_check(Ranks *r, long long meeting, double waited, WaitLimit limit, int *missing);
// Starts and ends the thread that gives this rank's life signs. False: the system gave no thread.
bool heartbeat_start(Ranks *r);
void heartbeat_end(Ranks *r);
// Exchanges one message with each peer; the deadline is a little later than that of the machine's
// own ranks, so that the machine on which a rank was lost is the first to say so.
bool ranks_exchange(Ranks *r, int n, TransportPeer *peer, WaitLimit limit);
#define GUARD_NAME "meshc-guard"
// Goes on in a child: this process waits for it, so that mpirun sees an exit code and no signal. It
// ends a rank that has been stopped for longer than the deadline.
void ranks_guard(GuardInfo **guard_info, double deadline);
// From here on a signal by which mpirun ends the run finds out why.
void ranks_handle_signals(Ranks *r);
void ranks_report(const char *sentence);
// Under mpirun: true for the first process of the run on this machine that asks. It may say what
// ended the run.
bool ranks_claim_by_launcher(void);
sigset_t ranks_signals(void); // that end a run, and that of a child's end

// Runs what of a call concerns several machines; leaders only, all of them.
typedef struct Internode Internode;
Internode *internode_new(Ranks *r, const Mesh *mesh);
void internode_free(Internode *f);
bool internode_run(Internode *f, const CommCall *call);
// Machines that a transfer's blocks lie on.
bool internode_concerns(const Ranks *r, const Transfer *t);
static inline int ranks_machine(const Ranks *r, int64_t processor) {
  return r->machine_of[processor / r->each];
}

#endif
