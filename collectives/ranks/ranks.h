// Ranks: the processes of one run, on one machine or several; each has one or several processors of
// the mesh. Ranks of one machine share a board in memory, where they meet and compare what they are
// about to do, and windows, in which the tensors of their processors lie. The first rank of a
// machine leads it: it alone talks to other machines, through the transport.
//
// A meeting: every rank writes a note, waits for all others and reads theirs. Notes that do not
// agree, a rank that has died, ended or been stopped, and a deadline end the run: every meeting
// after it fails at once, and one rank has the sentence that says why.
#ifndef COLLECTIVES_RANKS_H
#define COLLECTIVES_RANKS_H

#include "collectives/local/comm.h"

typedef struct Ranks Ranks;

// What a rank is about to do. All but value, workers and data must be equal on all ranks.
typedef enum NoteKind {
  NOTE_NONE,
  NOTE_START,
  NOTE_MODEL,
  NOTE_COMPILE,
  NOTE_FILES,
  NOTE_MEMORY,
  NOTE_STEP,
  NOTE_READ,
  NOTE_VERIFY,
  NOTE_END,
  NOTE_CALL, // + CollKind
} NoteKind;
enum { NOTE_DATA = 48 };
typedef struct RankNote {
  uint32_t what, line;
  uint64_t sequence;
  int64_t size;     // of a call, bytes
  int64_t elements; // of its first operand
  int64_t value, workers;
  char data[NOTE_DATA];
} RankNote;

// -- starting and ending ------------------------------------------------------------------------
// True where this process is one of several ranks: ranks_launch or an MPI launcher has started it.
bool ranks_started(void);
bool ranks_over_mpi(void); // the module for runs under mpirun is there
// Starts `count` ranks of this program with these arguments on this machine, waits for them,
// returns the exit code of the run. What a rank that was lost has not said itself is said on
// standard error. With `mpi` mpirun starts them. `saves`: SIGUSR1 makes the ranks write a
// checkpoint and end with 75.
int ranks_launch(int count, char **argv, bool mpi, bool saves);
// Joins the other ranks. NULL with a sentence in why; "" where another rank was lost or has ended
// with an error: one of them has said so, and *code is the exit code of the run. `deadline`:
// seconds that a rank waits in a meeting for the others, 0: for ever. Once a process.
Ranks *ranks_join(double deadline, char *why, size_t room, int *code);
// Ends this rank with exit code `code`; waits for the others if all end well, with 0 or 75. Returns
// the code of the run. A sentence of its own about what ended the run is printed on standard error,
// by one rank.
int ranks_leave(Ranks *r, int code);
void ranks_free(Ranks *r);
// "count@1:40": rank 1 states a wrong count at its call 40, for tests of what such a rank leads to.
// So do kind, line; skip leaves the call out; kill and stop are signals to itself. False: not of
// that form.
bool ranks_inject(Ranks *r, const char *text);

int ranks_rank(const Ranks *r);
int ranks_count(const Ranks *r);
int ranks_local_count(const Ranks *r); // ranks on this machine
bool ranks_is_leader(const Ranks *r);  // the first on this machine
// Cores for this rank of `all` that it may use: they are dealt to the machine's ranks, unless the
// launcher has bound the ranks to cores of their own.
int ranks_cores(const Ranks *r, int all);
// From here on a rank has its processors of the mesh, mesh_size / count of them, and messages name
// them. False if that does not divide. mesh must outlive r.
bool ranks_use_mesh(Ranks *r, const Mesh *mesh);
int64_t ranks_first_processor(const Ranks *r);          // first processor of this rank
int64_t ranks_processors(const Ranks *r);               // processors a rank
bool ranks_is_local(const Ranks *r, int64_t processor); // it is on this machine
int64_t ranks_local_processors(const Ranks *r);         // processors on this machine

// -- meetings -----------------------------------------------------------------------------------
// Meets all ranks of the run; all[i] is the note of rank i, until the next meeting with notes;
// NULL: not wanted. With `patient` there is no deadline, only death ends it. False after the end of
// the run.
MUST_USE bool ranks_meet(Ranks *r, const RankNote *mine, bool patient, const RankNote *const **all);
// The same among the ranks of this machine, without notes.
MUST_USE bool ranks_meet_local(Ranks *r, bool patient);
// The run has failed for that reason; false.
bool ranks_fail(Ranks *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
const char *ranks_error(const Ranks *r); // the sentence, or "" where another rank has it
bool ranks_failed(const Ranks *r);
// "rank 2 (processor 2, rows=1 cols=0)"
const char *ranks_name(const Ranks *r, int rank, char *out, size_t room);
// Of the ranks one may print what went wrong: true for the first that asks.
bool ranks_claim_report(Ranks *r);

// -- memory -------------------------------------------------------------------------------------
// Memory of `bytes` for each processor of this rank, zeroed, which the machine's other ranks see:
// all ranks call it together. NULL after the end of the run, or where there is no memory.
typedef struct SharedSegment SharedSegment;
SharedSegment *ranks_segment(Ranks *r, int64_t bytes);
void segment_free(SharedSegment *w);
// Start of processor p's memory; NULL if it is on another machine.
char *segment_at(const SharedSegment *w, int64_t processor);

// The block of a processor, which stands at `block` in the memory of its machine, into `out` on all
// other machines (NULL: not wanted). All ranks call it together. False after the end of the run.
MUST_USE bool ranks_broadcast_block(Ranks *r, int64_t processor, const void *block, int64_t bytes,
                                    void *out);

// The communicator over the ranks; r and mesh must outlive it. In a call members are all processors
// of the mesh; the addresses of those on other machines are NULL. The result of worker 0 counts.
Comm *comm_ranks(Ranks *r, const Mesh *mesh, int workers);

#endif
