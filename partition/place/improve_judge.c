// Judges groups of moves of the local search (place_improve.c) by the whole placement: by what it
// sends after place_finish, whose effect the trials only estimate, and by its work.
#include "partition/place/improve_internal.h"

Placer improve_copy(const Placer *p) {
  uint32_t n = graph_count(p->g) + 1;
  Placer out = *p;
  out.crowds = NULL;
  out.result.computed = arena_copy(p->arena, p->result.computed, n * sizeof *p->result.computed);
  out.result.settled = arena_copy(p->arena, p->result.settled, n * sizeof *p->result.settled);
  out.inner = arena_copy(p->arena, p->inner, n * sizeof *p->inner);
  out.linear = arena_array(p->arena, uint8_t, (size_t)n * MAX_AXES);
  for (NodeId u = 1; u < n; u++)
    if (p->inner[u])
      out.inner[u] =
          arena_copy(p->arena, p->inner[u], (size_t)node_inner(graph_node(p->g, u)) * sizeof(Axes));
  return out;
}

void improve_release(const Placer *p) {
  arena_release(p->arena, p->result.computed);
  arena_release(p->arena, p->result.settled);
  arena_release(p->arena, p->linear);
  arena_release(p->arena, p->inner);
}

static void exchange(Placer *p, Placer *other) {
  Placer now = *p;
  *p = *other;
  *other = now;
}

double improve_find_sent(Improve *m, Placer *p) {
  Placer *now = m->p;
  double sum = 0;
  m->p = p;
  for (NodeId n = 1; n <= graph_count(m->g); n++) sum += (m->sent[n] = improve_cost(m, n)).bytes;
  m->p = now;
  return sum;
}

// Returns what all collectives send that lowering makes of placement p.
static Sent all_sent(Improve *m, Placer *p) {
  Placer *now = m->p;
  Sent sum = place_sent(p);
  m->p = p;
  for (NodeId n = 1; n <= graph_count(m->g); n++) {
    double halo = improve_halo(m, n);
    sum.bytes += halo;
    if (halo > 0) sum.latency += p->machine->latency;
  }
  m->p = now;
  return sum;
}

double improve_work(const Placer *p) {
  double sum = 0;
  for (NodeId n = 1; n <= graph_count(p->g); n++) sum += place_seconds(p, n);
  return sum;
}

static void undo_moves(Improve *m) {
  m->epoch++;
  for (uint32_t i = m->undo.n; i > 0; i--)
    state_set(m->p, m->undo.at[i - 1].n, m->undo.at[i - 1].state);
  for (uint32_t i = m->unforce.n; i > 0; i--)
    m->p->forced[m->unforce.at[i - 1].at] = m->unforce.at[i - 1].before;
}

// Returns whether placement `now` sends less than `best` and, after fine moves, takes less time. If
// they add redundant work, what it sends less must take much longer than the work that it adds.
static bool is_better(Improve *m, Placer *now, Placer *best) {
  Sent before = all_sent(m, best), after = all_sent(m, now);
  double saved = improve_seconds(m, before) - improve_seconds(m, after), work = improve_work(now);
  if (after.bytes >= before.bytes || (m->fine && saved <= 0)) return false;
  if (m->repeating && saved <= CERTAIN * (work - m->work)) return false;
  m->work = work;
  return true;
}

bool improve_end_group(Improve *m, Placer *best) {
  m->kept = 0;
  if (!m->undo.n) return false;
  Placer now = improve_copy(m->p);
  place_finish(&now);
  bool good = is_better(m, &now, best);
  if (good)
    exchange(best, &now);
  else
    undo_moves(m);
  if (good && m->repeating && !m->modest)
    m->modest = arena_copy(best->arena, &now, sizeof now);
  else
    improve_release(&now);
  improve_find_sent(m, best);
  m->undo.n = m->unforce.n = 0;
  m->changes++;
  return !good;
}

enum { END_VISITS = 16 }; // to end a group takes as long as so many visits to each node

void improve_judge(Improve *m) {
  if (!m->apart || !m->undo.n) return;
  improve_end_group(m, m->apart);
  m->visits += END_VISITS * (uint64_t)improve_nodes(m->p);
}
