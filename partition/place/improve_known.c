// Remembers what trials of the local search (place_improve.c) have found, until a move is kept or
// undone: the placement is the same until then, and so is what a trial finds. Results do not depend
// on this.
//
//   costs   of nodes before a trial
//   moves   that are not kept: the search tries most of them once more as fine moves, which differ
//           only in how they are judged
#include "partition/place/improve_internal.h"

const Base *known_base(Improve *m, NodeId n) {
  Base *b = &m->base[n];
  if (b->epoch == m->epoch) return b;
  *b = (Base){m->epoch, improve_cost(m, n), {place_work(m->p, n), place_seconds(m->p, n)}};
  return b;
}

static bool same_move(Move x, Move y) {
  return x.kind == y.kind && x.axis == y.axis && x.slot == y.slot;
}

enum { LISTED = 1 << 14, LISTED_A_NODE = 2 }; // values of all failed moves together, at most

// Returns whether the move will be tried as a fine one that counts the same values: it counts those
// behind windows, too.
static bool is_listed(const Improve *m) {
  if (m->fine || (m->move.kind != MOVE_GATHER && m->move.kind != MOVE_SLOT)) return false;
  for (uint32_t i = 0; i < m->counted.n; i++)
    if (graph_node(m->g, m->counted.at[i].n)->op == OP_WINDOW) return false;
  return m->listed.n + m->counted.n <= LISTED + LISTED_A_NODE * (uint64_t)graph_count(m->g);
}

void known_note_failed(Improve *m, bool good, Work work) {
  if (!is_listed(m)) return;
  Failed f = {m->move,     m->epoch,    m->failed_of[m->move.n], m->visits - m->began, good, work,
              m->listed.n, m->counted.n};
  for (uint32_t i = 0; i < m->counted.n; i++) vec_push(m->scratch, m->listed) = m->counted.at[i];
  vec_push(m->scratch, m->failed) = f;
  m->failed_of[m->move.n] = m->failed.n - 1;
}

bool known_fails(Improve *m, Move move) {
  for (uint32_t i = m->failed_of[move.n]; i; i = m->failed.at[i].next) {
    const Failed *f = &m->failed.at[i];
    if (f->epoch != m->epoch || !same_move(f->move, move)) continue;
    if (f->good &&
        trial_is_worth(m, true, trial_saved(m, f->n, m->listed.at + f->first, true), f->work))
      return false;
    m->visits += f->visits;
    return true;
  }
  return false;
}
