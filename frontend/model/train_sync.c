// Reads the key `sync` of a train block: replicas of the model, each with its part of the batch.
//
//   sync = every(16, replicas = 4)   they train on their own and average their parameters every 16
//                                    steps (local SGD)
//   sync = stale(4, replicas = 4)    they send gradients to servers and get parameters from them,
//                                    without waiting for others, but none is more than 4 steps ahead
//                                    of the slowest: Downpour SGD (Dean et al., "Large scale
//                                    distributed deep networks", 2012) with bounded staleness (Ho et
//                                    al., "More effective distributed ML via a stale synchronous
//                                    parallel parameter server", 2013)
//
// With `stale` the model of one replica (Model.part) is a model of its own, with fewer rows. It
// runs on the processors that have equal coordinates on the axes over which the layout splits the
// batch.
#include <string.h>

#include "frontend/model/formal_internal.h"
#include "frontend/model/train_internal.h"

enum { MOST_AHEAD = 1000 };

static bool read_every(Build *b, const Ast *e, TrainSpec *t) {
  static const Formal formal[] = {V(steps), V(replicas), O(slots), END};
  const Ast *arg[MAX_FORMALS];
  int slots = 1;
  if (!call_bind(b, e, formal, arg) || !build_integer(b, arg[0], &t->sync) ||
      !build_integer(b, arg[1], &t->replicas) ||
      (arg[2] && !word_read(b, arg[2], "slots", "own", "average", &slots)))
    return false;
  t->sync_slots = slots == 2;
  if (t->sync >= 1 && t->replicas >= 2) return true;
  t->sync = 0;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                    "sync takes at least 1 step and at least 2 replicas");
}

static bool read_stale(Build *b, const Ast *e, TrainSpec *t) {
  static const Formal formal[] = {V(steps), V(replicas), END};
  const Ast *arg[MAX_FORMALS];
  int64_t steps;
  if (!call_bind(b, e, formal, arg) || !build_integer(b, arg[0], &steps) ||
      !build_integer(b, arg[1], &t->replicas))
    return false;
  if (steps < 0 || steps > MOST_AHEAD || t->replicas < 2)
    return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                      "stale takes 0 to %d steps and at least 2 replicas", MOST_AHEAD);
  t->ahead = steps + 1;
  return true;
}

bool sync_read(Build *b, const Entry *entry, void *train) {
  const Ast *e = entry->value;
  TrainSpec *t = train;
  bool every = e->kind == AST_CALL && !strcmp(e->text, "every");
  if (!every && (e->kind != AST_CALL || strcmp(e->text, "stale") != 0)) {
    diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
               "sync is every(steps, replicas = n) or stale(steps, replicas = n)");
    return diag_hint(b->d, "sync = every(16, replicas = 4), or stale(4, replicas = 4)");
  }
  t->sync_pos = entry->pos;
  if (!(every ? read_every : read_stale)(b, e, t))
    return diag_hint(b->d, every ? "sync = every(16, replicas = 4): they meet every 16 steps"
                                 : "sync = stale(4, replicas = 4): they are at most 4 steps apart");
  if (splits_batch(b, e, entry->key, t->replicas)) return true;
  t->sync = t->ahead = 0;
  return false;
}

void sync_check(Build *b, const TrainSpec *t) {
  const struct {
    bool given;
    const char *what, *hint;
  } others[] = {
      {b->g->spec.ntrain > 1, "several train blocks", "leave out sync, or train one loss"},
      {t->repeat > 1, "repeat", "leave out one of the two keys"},
      {t->accumulate > 1, "accumulate", "leave out accumulate: sync also splits the batch"},
      {t->average != 0, "average", "leave out one of the two keys"},
      {t->scaled, "precision = f16", "precision = bf16 or f32"},
      {t->ahead && t->on_nonfinite == NONFINITE_SKIP, "on_nonfinite = skip",
       "leave out on_nonfinite: no update is made of a step that is not finite"},
  };
  for (size_t i = 0; i < countof(others) && (t->sync || t->ahead); i++) {
    if (!others[i].given) continue;
    diag_error(b->d, DIAG_UNSUPPORTED, t->sync_pos, "sync%s does not go together with %s",
               t->ahead ? " = stale(...)" : "", others[i].what);
    diag_hint(b->d, "%s", others[i].hint);
    return;
  }
}

Axes sync_axes(const Model *m) {
  const Graph *g = m->graph;
  const char *batch = dim_get(g->dims, g->spec.data[DATA_TRAIN].over)->name;
  Axes all = {0};
  for (uint32_t i = 0; i < m->layout.n; i++) {
    const LayoutRule *r = &m->layout.rule[i];
    for (int k = 0; r->dim && !strcmp(r->dim, batch) && k < r->axes.n; k++)
      if (!axes_has(all, r->axes.at[k])) all.at[all.n++] = r->axes.at[k];
  }
  return all;
}

void sync_mesh(Model *replica) {
  Axes over = sync_axes(replica);
  for (int i = 0; i < over.n; i++) replica->mesh.axis[over.at[i]].size = 1;
}
