// Trials of the local search (place_improve.c). A trial makes one move: it changes a node, lets the
// nodes that depend on it choose again, and keeps all changes if they save enough, else undoes
// them.
#include "partition/place/improve_internal.h"

// -- nodes that have yet to choose again ------------------------------------------------------------

// Adds u to the heap m->pending.
static void wait_for(Improve *m, NodeId u) {
  if (m->waits[u]) return;
  m->waits[u] = true;
  uint32_t i = m->npending++;
  for (; i > 0 && m->pending[(i - 1) / 2] > u; i = (i - 1) / 2)
    m->pending[i] = m->pending[(i - 1) / 2];
  m->pending[i] = u;
}

// Removes the node with the smallest id from the heap m->pending and returns it.
static NodeId take_first(Improve *m) {
  NodeId first = m->pending[0], last = m->pending[--m->npending];
  uint32_t i = 0;
  for (uint32_t k = 1; k < m->npending; i = k, k = 2 * i + 1) {
    if (k + 1 < m->npending && m->pending[k + 1] < m->pending[k]) k++;
    if (m->pending[k] >= last) break;
    m->pending[i] = m->pending[k];
  }
  m->pending[i] = last;
  m->waits[first] = false;
  return first;
}

static void forget_pending(Improve *m) {
  for (uint32_t i = 0; i < m->npending; i++) m->waits[m->pending[i]] = false;
  m->npending = 0;
}

void trial_wait_users(Improve *m, NodeId n) {
  for (const Read *r = reads_of(m->p, n); r->node; r++) wait_for(m, r->node);
}

// -- changes --------------------------------------------------------------------------------------

void trial_save(Improve *m, NodeId n) {
  vec_push(m->scratch, m->old) = (Change){n, state_of(m->p, n)};
  m->changes++;
}

bool trial_is_free(const Improve *m, NodeId u) {
  const Node *node = graph_node(m->g, u);
  return node->op != OP_CARRY && node->op != OP_PIN && node->op != OP_SCAN &&
         op_row((Op)node->op)->cls != SOURCE;
}

bool trial_is_shown(const Improve *m, NodeId n) {
  for (const Read *r = outputs_of(m->p, n); r->output; r++)
    if (m->g->output.at[r->output - 1].kind == OUT_VALUE) return true;
  return false;
}

// Calls `choose`, which chooses the shardings of n, and records the change. Sets *moved to whether
// the settled sharding has changed. Returns false, with n unchanged, if the trial must be undone.
static bool change_node(Improve *m, NodeId n, void choose(Placer *, NodeId), bool *moved) {
  Placer *p = m->p;
  State before = state_of(p, n);
  m->visits++;
  choose(p, n);
  State after = state_of(p, n);
  *moved = !sharding_equal(before.settled, after.settled);
  state_set(p, n, before);
  if (!*moved && sharding_equal(before.computed, after.computed)) return true;
  if (*moved && trial_is_shown(m, n)) return false;
  trial_save(m, n);
  state_set(p, n, after);
  return true;
}

bool trial_choose(Improve *m, NodeId n) {
  bool moved = false;
  if (trial_is_free(m, n) && !change_node(m, n, place_choose_again, &moved)) return false;
  if (moved) trial_wait_users(m, n);
  return true;
}

bool trial_spread(Improve *m) {
  while (m->npending > 0)
    if (!trial_choose(m, take_first(m))) return false;
  return true;
}

// Returns argument i of node n or, behind the arguments of a carry, its value in the next step. 0:
// there are no more.
static NodeId source_of(const Improve *m, NodeId n, int i) {
  const Node *node = graph_node(m->g, n);
  return i < node->nargs ? node->args[i] : i == node->nargs ? m->p->graph->next[n] : 0;
}

// Visits n unless nothing has changed since the last visit to it, which then would change nothing.
static bool pull_back(Improve *m, NodeId n) {
  bool moved;
  if (!trial_is_free(m, n) || trial_is_shown(m, n)) return true;
  if (m->pulled[n] == m->changes) {
    m->visits++;
    return true;
  }
  bool good = change_node(m, n, place_pull_back, &moved);
  m->pulled[n] = m->changes;
  return good;
}

// Lets every processor compute n if that sends less. The redundant work is weighed against what it
// saves (trial_is_worth).
static bool repeat(Improve *m, NodeId n) {
  bool moved;
  if (!m->repeating || !trial_is_free(m, n)) return true;
  m->visits++;
  return !place_can_repeat(m->p, n) || change_node(m, n, place_repeat, &moved);
}

// Lets all nodes follow the change that the move made: first those that depend on it, then those
// that all users now read in another sharding. Returns false if the trial must be undone.
static bool follow(Improve *m) {
  NodeId x;
  if (!trial_spread(m)) return false;
  for (uint32_t i = m->old.n; i > 0; i--)
    if (!pull_back(m, m->old.at[i - 1].n)) return false;
  for (uint32_t i = 0; i < m->old.n; i++)
    for (int a = 0; (x = source_of(m, m->old.at[i].n, a)) != 0; a++)
      if (!pull_back(m, x)) return false;
  for (uint32_t i = 0; i < m->old.n; i++)
    for (int a = 0; (x = source_of(m, m->old.at[i].n, a)) != 0; a++)
      if (!repeat(m, x)) return false;
  return true;
}

// -- what a trial saves -----------------------------------------------------------------------------

// Adds v to m->counted. For a fine move, and if v is a window, also adds the value that it reads,
// with which conversions of the window are counted.
static void count_value(Improve *m, NodeId v) {
  for (;; v = graph_node(m->g, v)->args[0]) {
    if (m->seen[v] != m->round) {
      m->seen[v] = m->round;
      vec_push(m->scratch, m->counted) = (Counted){.n = v, .changed = m->changed[v] == m->round};
    }
    if (!m->fine || graph_node(m->g, v)->op != OP_WINDOW) return;
  }
}

// Fills m->counted with the nodes that the trial changed and with their arguments; of a carry also
// with its value in the next step.
static void find_counted(Improve *m) {
  NodeId x;
  m->counted.n = 0;
  m->round++;
  for (uint32_t i = 0; i < m->old.n; i++) m->changed[m->old.at[i].n] = m->round;
  for (uint32_t i = 0; i < m->old.n; i++) {
    count_value(m, m->old.at[i].n);
    for (int a = 0; (x = source_of(m, m->old.at[i].n, a)) != 0; a++) count_value(m, x);
  }
}

// Returns the work of the nodes that the trial changed.
static Work work_of_changed(const Improve *m) {
  Work sum = {0};
  for (uint32_t i = 0; i < m->counted.n; i++) {
    NodeId n = m->counted.at[i].n;
    if (!m->counted.at[i].changed) continue;
    sum.flops += place_work(m->p, n);
    sum.seconds += place_seconds(m->p, n);
  }
  return sum;
}

// Fills in what the counted values sent before the trial, which is undone. Returns the work that
// the nodes which it changed did.
static Work find_before(Improve *m) {
  Work sum = {0};
  for (uint32_t i = 0; i < m->counted.n; i++) {
    Counted *c = &m->counted.at[i];
    const Base *b = known_base(m, c->n);
    c->before = b->sent;
    if (!c->changed) continue;
    sum.flops += b->work.flops;
    sum.seconds += b->work.seconds;
  }
  return sum;
}

// Exchanges the present shardings of the nodes that the trial changed with the recorded ones.
// `back`: goes from the last change to the first, which undoes two changes of one node correctly.
static void swap_shardings(Improve *m, bool back) {
  for (uint32_t k = 0; k < m->old.n; k++) {
    Change *c = &m->old.at[back ? m->old.n - 1 - k : k];
    State now = state_of(m->p, c->n);
    state_set(m->p, c->n, c->state);
    c->state = now;
  }
}

// A value is affected by the trial if its shardings changed or if it sends other bytes.
static bool is_affected(const Counted *c) {
  return c->changed || c->before.bytes != c->after.bytes || c->before.latency != c->after.latency;
}

Sent trial_saved(const Improve *m, uint32_t n, const Counted *of, bool fine) {
  Sent saved = {0};
  for (uint32_t i = 0; i < n; i++) {
    const Counted *c = &of[i];
    if (!is_affected(c)) continue;
    const Sent *sent = &m->sent[c->n],
               *now = fine && c->before.bytes < sent->bytes ? &c->before : sent;
    saved.bytes += now->bytes - c->after.bytes;
    saved.latency += now->latency - c->after.latency;
  }
  return saved;
}

bool trial_is_worth(const Improve *m, bool fine, Sent saved, Work work) {
  double seconds = improve_seconds(m, saved);
  if (!fine) return work.flops <= m->spare && saved.bytes > m->least;
  return saved.bytes > 0 && (m->repeating || saved.bytes <= m->call) &&
         seconds > (work.seconds > 0 ? CERTAIN * work.seconds : 0);
}

static void keep(Improve *m) {
  swap_shardings(m, false);
  for (uint32_t i = 0; i < m->old.n; i++) vec_push(m->scratch, m->undo) = m->old.at[i];
  for (uint32_t i = 0; i < m->counted.n; i++)
    if (is_affected(&m->counted.at[i])) m->sent[m->counted.at[i].n] = m->counted.at[i].after;
  m->epoch++;
}

bool trial_has_room(const Improve *m) { return m->visits < m->most; }

bool trial_begin(Improve *m, Move move) {
  m->tried = alike_of_move(m, move);
  if (!alike_is_due(m->tried)) return false;
  if (m->fine && !m->repeating && known_fails(m, move)) return false;
  m->move = move;
  m->began = m->visits;
  m->p->repeats = m->repeating && move_repeats(move);
  return true;
}

// Judges a trial that succeeded. Returns whether its changes are kept; else they are undone. Sets
// *work to the work that they add.
static bool judge(Improve *m, Work *work) {
  find_counted(m);
  *work = work_of_changed(m);
  for (uint32_t i = 0; i < m->counted.n; i++)
    m->counted.at[i].after = improve_cost(m, m->counted.at[i].n);
  swap_shardings(m, true);
  Work before = find_before(m);
  work->flops -= before.flops, work->seconds -= before.seconds;
  Sent saved = trial_saved(m, m->counted.n, m->counted.at, m->fine);
  bool kept = trial_is_worth(m, m->fine, saved, *work);
  if (kept && work->flops <= m->spare) m->spare -= work->flops;
  if (kept) keep(m);
  return kept;
}

bool trial_end(Improve *m, bool good) {
  bool kept = false;
  Work work = {0};
  m->counted.n = 0;
  good = good && follow(m) && m->old.n > 0;
  if (good)
    kept = judge(m, &work);
  else if (m->old.n > 0)
    swap_shardings(m, true);
  if (kept) m->tried->times = 0, m->kept++;
  forget_pending(m);
  m->old.n = 0;
  m->p->repeats = false;
  m->changes++;
  m->visits++;
  if (!kept) known_note_failed(m, good, work);
  return kept;
}
