// The local search over groups of nodes: its moves (place_improve.c), and the estimated bytes of a
// value (improve_cost.c). A move changes the shardings of several nodes. A trial makes a move and
// then keeps or undoes it.
#ifndef PARTITION_IMPROVE_H
#define PARTITION_IMPROVE_H

#include "partition/sharding/sharding_internal.h"

typedef struct Change {
  NodeId n;
  State state; // shardings before the change; while the trial is undone, those after it
} Change;

// What one value sends before and after a trial (a move that the search then keeps or undoes).
typedef struct Counted {
  NodeId n;
  Sent before, after;
  bool changed; // the trial has changed the shardings of n
} Counted;

// Work of nodes: flops of contractions, and seconds of all of them.
typedef struct Work {
  double flops, seconds;
} Work;

// What a node costs while no trial changes anything.
typedef struct Base {
  uint32_t epoch; // of Improve; other figures are out of date
  Sent sent;
  Work work;
} Base;

// Entry `at` of Placer.forced, before a move changed it.
typedef struct Force {
  uint32_t at;
  uint8_t before;
} Force;

typedef enum MoveKind {
  MOVE_SETTLE,
  MOVE_SLOT,
  MOVE_GATHER,
  MOVE_REPEAT,
  MOVE_CARRY,
  MOVE_LOOP
} MoveKind;
// A move changes node n: `axis` is to split its dim `slot`, or a dim that it sums, or nothing (-1).
typedef struct Move {
  MoveKind kind;
  NodeId n;
  int axis, slot;
} Move;

// How often a move, or one like it, has come up since one of them was last kept.
typedef struct Tried {
  uint64_t key; // hash of the move
  uint32_t times;
} Tried;

// Returns whether the move is one that lets every processor compute what one of them computed
// before.
static inline bool move_repeats(Move m) { return m.slot < 0 && m.kind != MOVE_GATHER; }

// A move that was tried and not kept, and what its trial found.
typedef struct Failed {
  Move move;
  uint32_t epoch, next; // next: index of another failed move of the node, 0: none
  uint64_t visits;      // that the trial took
  bool good;            // the move could be made
  Work work;            // that it adds
  uint32_t first, n;    // entries of Improve.listed: what values send before and after it
} Failed;

typedef struct Improve {
  Placer *p;
  const Graph *g;
  Arena *scratch;
  double weight[MAX_AXES]; // [axis] weight of a byte sent over the axis: higher on slow links
  VEC(Change) old;         // what the current trial has changed
  VEC(Change) undo;        // what kept trials have changed since the last group ended
  VEC(Force) unforce;      // Placer.forced before they changed it
  NodeId *pending;         // heap, smallest id first: nodes that the trial has yet to change
  uint32_t npending;
  bool *waits;           // [node] it is in `pending`
  uint8_t *partial;      // [node] bits of axes over which the node could be partial if no sum were
                         // reduced before it
  uint32_t *seen, round; // [node] `round` if find_counted has listed it in this trial
  uint32_t *changed;     // [node] `round` if this trial has changed it
  uint64_t *pulled, changes; // [node] the number of changes so far when it was pulled back last
  uint32_t epoch;            // number of times that placement p has changed for good
  Base *base;                // [node]
  VEC(Failed) failed;
  VEC(Counted) listed;   // of all failed moves
  uint32_t *failed_of;   // [node] index of the last failed move of the node, 0: none
  Move move;             // of the current trial
  uint64_t began;        // `visits` when it began
  Sent *sent;            // [node] what its value sends after the moves kept so far
  double call;           // bytes that a link transfers during the latency of one call
  double least;          // weighted bytes that a move must save to be kept
  double spare;          // flops that moves may still add
  bool fine;             // the present moves are fine ones (place_improve.c)
  bool repeating;        // they may add redundant work and save many bytes, too
  Placer *apart;         // moves are judged one by one: the best placement; else NULL
  Placer *modest;        // the best placement before moves that may add redundant work were kept
  double work;           // seconds that the nodes of the best placement take
  uint32_t kept;         // trials kept since the last group ended
  VEC(Counted) counted;  // what find_counted lists
  uint64_t visits, most; // number of nodes that all trials have visited, and its limit
  uint64_t *alike;       // [node] hash, equal for alike nodes
  Tried *table;          // [ntable] moves that have come up, at the last bits of their hashes
  uint32_t ntable;       // a power of two
  Tried *tried;          // of the current trial
} Improve;

// How users read a value over one axis: replicated, or split along dims (bits of `splits`).
// `shown`: an output of the model returns the value in its settled sharding.
typedef struct Needs {
  bool any, replicated, shown;
  uint32_t splits;
} Needs;

typedef struct Reads {
  Needs axis[MAX_AXES];
  double halo[MAX_RANK]; // elements that windows read beyond the block, as a share of it
} Reads;

// Fills *r with the ways in which the users and outputs of n read it.
void improve_needs(const Improve *m, NodeId n, Reads *r);
// Returns whether n is partial over the axis, or is an addition of partial values and so may become
// partial (place_reduce.c).
bool improve_is_partial(const Improve *m, NodeId n, int axis);
// Fills m->partial, the axes over which each node could be partial, from the current placement.
void improve_partial(Improve *m);
// Returns what one processor sends for value n. In a loop each conversion adds m->call bytes in
// every step, instead of the latency of its call.
Sent improve_cost(const Improve *m, NodeId n);
// Returns the part of improve_cost that is due to halos: elements beyond the own block that windows
// read.
double improve_halo(const Improve *m, NodeId n);

// Redundant work is estimated node by node, without caches and the time of exp and the like. So it
// must be this many times cheaper than what it saves.
enum { CERTAIN = 4 };

// Returns the number of nodes that are placed. It is the same without marks of `checkpoint`.
static inline uint32_t improve_nodes(const Placer *p) {
  return graph_count(p->g) - p->graph->nmarks;
}

// Returns the seconds that it takes to send so much.
static inline double improve_seconds(const Improve *m, Sent s) {
  return s.bytes / m->p->machine->bandwidth + s.latency;
}

// -- trials (improve_trial.c) --------------------------------------------------------------------
// trial_begin, one change by trial_save or trial_choose, trial_end.

// Begins a trial. Returns false if moves like this one failed and it is not due; nothing begins.
bool trial_begin(Improve *m, Move move);
// Records the shardings of n, which the caller then changes.
void trial_save(Improve *m, NodeId n);
// Adds the users of n to those that will choose again.
void trial_wait_users(Improve *m, NodeId n);
// Chooses the shardings of n again and, if its settled sharding changed, lets its users wait.
// Returns false if the trial must be undone.
bool trial_choose(Improve *m, NodeId n);
// Chooses the shardings of all waiting nodes again, in graph order. Returns false if the trial must
// be undone.
bool trial_spread(Improve *m);
// Ends a trial: lets all nodes follow the change. Keeps all changes if they save more than m->least
// bytes and add at most m->spare flops, else undoes them; m->fine has another rule. `good`: the
// move itself succeeded. Returns whether the changes were kept.
bool trial_end(Improve *m, bool good);
// Returns what a trial saves, summed over those of n counted values that it affects. Both m->sent
// and `before` are estimates of what a value sends now: the first after place_finish, the second
// without it, as `after` is. The lower of the two counts for a fine move.
Sent trial_saved(const Improve *m, uint32_t n, const Counted *of, bool fine);
// Returns whether a trial that saves `saved` and adds `work` is to be kept. A fine move must save
// bytes, though no more than a call is worth unless it may add redundant work (the other moves have
// tried the rest), and more time than the calls that it adds take. Work that it adds must take much
// less time than it saves.
bool trial_is_worth(const Improve *m, bool fine, Sent saved, Work work);
// Returns whether the trials may still visit nodes.
bool trial_has_room(const Improve *m);
// Returns whether the search may change the shardings of u.
bool trial_is_free(const Improve *m, NodeId u);
// Returns whether an OUT_VALUE output returns n. The sharding of n must then not change.
bool trial_is_shown(const Improve *m, NodeId n);

// -- judgements (improve_judge.c) ----------------------------------------------------------------
// Returns a copy of p whose shardings can be changed without changing those of p.
Placer improve_copy(const Placer *p);
// Gives back the large tables of a placer that is not taken.
void improve_release(const Placer *p);
// Sets m->sent, and returns the weighted bytes that all values of p send.
double improve_find_sent(Improve *m, Placer *p);
// Returns the seconds that all nodes take.
double improve_work(const Placer *p);
// Ends a group of moves. If they are better together than `best`, the best placement so far, makes
// them the best one, else undoes them. What they send is counted after place_finish, whose effect
// the trials only estimate. Returns whether moves were undone.
bool improve_end_group(Improve *m, Placer *best);
// Called after each attempt of a move: if moves are judged one by one and one was kept, judges it
// by the whole placement.
void improve_judge(Improve *m);

// -- moves of carries (improve_carry.c) ----------------------------------------------------------
// Tries to split the carries of loops over the axis along other dims, or along none.
void improve_carries(Improve *m, int axis);

// -- what is known of trials before (improve_known.c) ---------------------------------------------
// Returns what node n costs as it is placed. No change of a trial may be in place.
const Base *known_base(Improve *m, NodeId n);
// Notes that the current trial was not kept, if the move will be tried as a fine one. good: the
// move could be made, and adds `work`.
void known_note_failed(Improve *m, bool good, Work work);
// Returns whether the fine move is known to fail. If so, counts the visits that its trial took.
bool known_fails(Improve *m, Move move);

// -- moves like those that failed (improve_alike.c) ----------------------------------------------
// Fills m->alike and makes m->table.
void alike_find(Improve *m);
// Forgets which moves failed.
void alike_forget(Improve *m);
// Returns what is known about the move and those like it.
Tried *alike_of_move(Improve *m, Move move);
// Counts that the move has come up. Returns whether it is to be tried: the first, second, fourth,
// eighth ... time.
bool alike_is_due(Tried *t);

#endif
