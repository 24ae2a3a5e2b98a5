// Ranks: the processes of one run, on one machine or several. Each has one or several processors of
// the mesh.
//
// The ranks of one machine share memory: a rendezvous, where they meet and compare what they are
// about to do, and segments, in which the tensors of their processors are. The first rank of a
// machine is its leader: it alone exchanges messages with other machines, through a transport
// (transport.h).
//
// In a meeting every rank writes a note, waits for all others and reads theirs. The run fails if
// notes do not agree, if a rank has died, ended or been stopped, or if a deadline passes. Every
// later meeting then fails at once, and one rank has a message with the reason.
//
// Thread rule: one thread of a process, except where a function says otherwise.
#ifndef COLLECTIVES_RANKS_H
#define COLLECTIVES_RANKS_H

#include <stdatomic.h>

#include "collectives/local/comm.h"
#include "ir/base/diag.h"

typedef struct Ranks Ranks;

// What a rank is about to do, as its note to the other ranks says.
typedef enum NoteKind {
  NOTE_NONE,
  NOTE_START,
  NOTE_MODEL,
  NOTE_DEVICE,
  NOTE_COMPILE,
  NOTE_FILES,
  NOTE_MEMORY,
  NOTE_STEP,
  NOTE_UPDATES,
  NOTE_READ,
  NOTE_VERIFY,
  NOTE_SHARE,
  NOTE_END,
  NOTE_CALL, // NOTE_CALL + k: the rank is about to call a collective of CollKind k
} NoteKind;
enum { NOTE_DATA = 56 };
// A note: what a rank tells the other ranks when they meet before a collective or at another point.
// The fields from `what` to `elements` must be equal on all ranks, otherwise the run fails. The
// other fields may differ.
typedef struct RankNote {
  uint32_t what, line; // a NoteKind, and the line of the model of what the rank is about to do
  uint64_t sequence;
  int64_t size;     // of a collective: its bytes
  int64_t elements; // of a collective: elements of its first operand
  int64_t value, workers;
  char data[NOTE_DATA];
} RankNote;

// -- starting and ending ------------------------------------------------------------------------
// Returns true if this process is one of several ranks, started by ranks_launch or by an MPI
// launcher.
bool ranks_started(void);
// Returns true if the module meshc_mpi, which runs under mpirun need, is installed.
bool ranks_over_mpi(void);
// Starts `count` ranks (processes) of this program with the arguments argv on this machine, waits
// for them and returns the exit code of the run. With `mpi`, mpirun starts them. With `saves`, a
// signal makes the ranks write a checkpoint and end with EXIT_INTERRUPTED. Prints why a rank was
// lost, unless one of the ranks has printed it. Not for the library: this function blocks signals
// and may end the process by a signal.
int ranks_launch(int count, char **argv, bool mpi, bool saves);
// Joins the other ranks; a process calls it once. `deadline` is how many seconds a rank waits for
// the others in a meeting; 0 means without limit. Returns NULL after an error, with a message in
// `why`. If the message is empty, another rank was lost or has ended with an error, which has been
// reported, and *code is the exit code. Under mpirun, in a process that meshc owns
// (ir/base/guard.h), the rank continues in a child process.
Ranks *ranks_join(double deadline, char *why, size_t room, int *code);
// Ends this rank with exit code `code`. Waits for the other ranks to end if `code` is 0 or
// EXIT_INTERRUPTED. Returns the exit code of the run. If the run failed, one of the ranks prints
// the reason.
int ranks_leave(Ranks *r, int code);
void ranks_free(Ranks *r);
// Injects a fault, for tests. With the text "count@1:40", rank 1 writes a wrong element count to
// its note (what it tells the others) at call 40 of a collective. With `kind` or `line` in place of
// `count`, it writes a wrong kind or line. With `skip` it leaves the call out; with `kill` or
// `stop` it sends itself SIGKILL or SIGSTOP. Returns false if the text has another form.
bool ranks_inject(Ranks *r, const char *text);
// Returns true if this rank is to inject a fault into its notes, or leave a call out.
bool ranks_injects_note(const Ranks *r);
// Sends this rank the injected signal, if one of its calls first..first + n - 1 is to have it.
void ranks_signal(const Ranks *r, int64_t first, int64_t n);

int ranks_rank(const Ranks *r);
int ranks_count(const Ranks *r);
int ranks_local_count(const Ranks *r); // returns the number of ranks on this machine
int ranks_local_index(const Ranks *r); // returns the index of this rank among them
bool ranks_is_leader(const Ranks *r);  // returns true for the first rank of its machine
// Returns how many cores this rank may use, of the `all` cores that the process may use. The ranks
// of a machine share the cores, unless the launcher has bound each rank to cores of its own.
int ranks_cores(const Ranks *r, int all);
// Divides the n processors of the mesh among the `count` ranks. Rank i gets processors i * n /
// count to (i + 1) * n / count - 1. Error messages name the processors of a rank from now on.
// Returns false if `count` does not divide n. mesh must outlive r.
bool ranks_use_mesh(Ranks *r, const Mesh *mesh);
int64_t ranks_first_processor(const Ranks *r);          // first processor of this rank
int64_t ranks_processors(const Ranks *r);               // number of processors of each rank
bool ranks_is_local(const Ranks *r, int64_t processor); // true: the processor is on this machine
int64_t ranks_local_processors(const Ranks *r);         // number of processors on this machine

// -- meetings -----------------------------------------------------------------------------------
// Meets all ranks and gives them the note *mine. Sets *all, unless `all` is NULL: (*all)[i] is the
// note of rank i, valid until the next call of ranks_meet. With `patient` the deadline counts from
// the last heartbeat of a missing rank, otherwise from the start of the wait. Returns false once
// the run has failed.
MUST_USE bool ranks_meet(Ranks *r, const RankNote *mine, bool patient, const RankNote *const **all);
// Gives all ranks the bytes of each rank: `mine` has `bytes` bytes of this one. The result, which
// the caller frees, has those of all ranks, one after another; start[i] gets where those of rank i
// are in it, and start[ranks_count] where they end. All ranks call it together, for some KiB. The
// deadline counts from the last heartbeat of a missing rank. Returns NULL once the run has failed.
char *ranks_gather(Ranks *r, const void *mine, int64_t bytes, int64_t *start);
// Waits until all ranks of this machine have called this function; no notes are compared. With
// `patient` the deadline counts from the last heartbeat of a missing rank, otherwise from the start
// of the wait. Returns false once the run has failed.
MUST_USE bool ranks_meet_local(Ranks *r, bool patient);
// Looks at the other ranks of this machine while this rank waits for something else than a meeting,
// such as a device that exchanges blocks with theirs. `waited`: seconds so far; `what`: a phrase
// for what it waits for. Makes the run fail if a rank has ended, has been stopped for longer than
// the deadline, or if the deadline has passed for this rank. Returns false once the run has failed.
MUST_USE bool ranks_watch(Ranks *r, double waited, const char *what);
// Notes what this rank does until its next meeting, for messages. Nobody is waited for.
void ranks_do(Ranks *r, NoteKind what);
// Notes that this rank, or its device, has got on with its work.
void ranks_advance(Ranks *r);
// Returns a number that changes when a rank of this machine calls ranks_advance: then the time
// `waited` may count from there.
unsigned ranks_advances(const Ranks *r);
// Makes the run fail with the reason in `fmt`. If the run has failed before, keeps the earlier
// reason. Always returns false. Any thread may call it.
bool ranks_fail(Ranks *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
bool ranks_failed(const Ranks *r);
// Adds the error with which a rank ends after the run has failed. Always returns false.
bool ranks_lost(Diag *d);
// Writes the name of a rank, such as "rank 2 (processor 2, rows=1 cols=0)", to `out`. Returns
// `out`.
const char *ranks_name(const Ranks *r, int rank, char *out, size_t room);
// Returns true if this rank may print an error: it is the first rank that calls this function.
bool ranks_claim_report(Ranks *r);

// -- memory -------------------------------------------------------------------------------------
// Memory of the processors of a machine, which all its ranks map.
typedef struct SharedSegment SharedSegment;
// Returns a segment (memory that all ranks of the machine map) with `bytes` of zeroed memory for
// each processor of the machine. With `touch` each rank touches the pages of its processors. All
// ranks call it together. Returns NULL after the run has failed, or if there is not enough memory.
SharedSegment *ranks_segment(Ranks *r, int64_t bytes, bool touch);
void segment_free(SharedSegment *w);
// Returns the address of a processor's memory in a segment (memory that all ranks of a machine
// map). Returns NULL if the processor is on another machine.
char *segment_at(const SharedSegment *w, int64_t processor);

// Sleeps until *word, in memory that processes or threads share, is not `value`, word_wake is
// called, or some milliseconds have passed: the caller looks again.
void word_wait(atomic_uint *word, unsigned value);
// Wakes up to n threads of all processes that sleep in word_wait.
void word_wake(atomic_uint *word, int n);

// Sends the block of a processor to all ranks of the other machines. On the processor's machine
// `block` is the address of the block. On the others it is copied to `out`, unless that is NULL.
// All ranks call it together. Returns false once the run has failed.
MUST_USE bool ranks_broadcast_block(Ranks *r, int64_t processor, const void *block, int64_t bytes,
                                    void *out);

// Returns a communicator over the ranks of a run; r and mesh must outlive it. The caller frees it
// with comm_free. The members of a call are all processors of the mesh, with NULL as the address of
// blocks on other machines. Only worker 0 gets a valid result of comm_run.
Comm *comm_ranks(Ranks *r, const Mesh *mesh, int workers);

#endif
