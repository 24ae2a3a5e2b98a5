// Opens the programs of a training with asynchronous updates. See asynchronous.h.
#include "frontend/driver/asynchronous.h"

#include <string.h>

bool stale_given(const Session *s) {
  const ModelSpec *spec = &s->model->graph->spec;
  return spec->ntrain && spec->train[0].ahead;
}

static const TrainSpec *train_of(const Session *s) { return &s->model->graph->spec.train[0]; }

// -- what does not fit --------------------------------------------------------------------------

static bool refuse(const Session *s, Pos pos, const char *what, const char *hint) {
  diag_error(s->diag, DIAG_UNSUPPORTED, pos, "sync = stale(...) does not go together with %s",
             what);
  return diag_hint(s->diag, "%s", hint);
}

static bool options_fit(const Session *s) {
  static const struct {
    OptionId option;
    const char *what, *hint;
  } others[] = {
      {OPTION_VERIFY, "--verify", "verify the step without the key sync"},
      {OPTION_TRACE, "--trace", "trace the step without the key sync"},
  };
  const char *layout = option_text(s->opt, OPTION_LAYOUT);
  if (s->opt->command == COMMAND_PLAN || (layout && !strcmp(layout, "auto")))
    return refuse(s, train_of(s)->sync_pos, "a search for a layout", "search without the key sync");
  if (session_for_gpu(s))
    return refuse(s, train_of(s)->sync_pos, "--device cuda",
                  "leave out --device cuda, or the key sync");
  for (size_t i = 0; i < countof(others); i++)
    if (option_given(s->opt, others[i].option))
      return refuse(s, option_use(s->opt, others[i].option)->pos, others[i].what, others[i].hint);
  return true;
}

// Checks that no rule splits another dim than that of the batch over one of the axes `over`.
static bool rules_fit(const Session *s, Axes over) {
  const Model *m = s->model;
  const char *batch = data_over(s, DATA_TRAIN);
  for (uint32_t i = 0; i < m->layout.n; i++) {
    const LayoutRule *r = &m->layout.rule[i];
    bool batch_rule = r->dim && !strcmp(r->dim, batch);
    for (int k = 0; k < r->axes.n && !batch_rule; k++) {
      if (!axes_has(over, r->axes.at[k])) continue;
      diag_error(s->diag, DIAG_UNSUPPORTED, r->pos,
                 "sync = stale(...) has replicas of the model along the axis '%s', and this rule "
                 "splits something else over it",
                 m->mesh.axis[r->axes.at[k]].name);
      return diag_hint(s->diag, "use another axis for one of them");
    }
  }
  return true;
}

// Checks that every rank has whole groups of processors.
static bool ranks_fit(const Session *s, Axes over) {
  const Mesh *m = &s->model->mesh;
  int64_t each = s->ranks ? ranks_processors(s->ranks) : 0;
  for (int64_t r = 0; each && r < mesh_size(m); r++)
    for (int64_t k = 0; k < mesh_size(m); k++) {
      if (axes_rank(m, over, r) != axes_rank(m, over, k) || r / each == k / each) continue;
      diag_error(s->diag, DIAG_UNSUPPORTED, train_of(s)->sync_pos,
                 "sync = stale(...) needs the processors of a replica in one rank, and processors "
                 "%lld and %lld are in two",
                 (long long)r, (long long)k);
      return diag_hint(s->diag,
                       "use fewer ranks, or a mesh whose first axes are those of the batch");
    }
  // groups of a rank, which has whole ones: those from that of its first processor on
  int64_t own = each / (mesh_size(m) / axes_size(m, over));
  for (int64_t r = 0; each && r < mesh_size(m); r++) {
    int64_t at = axes_rank(m, over, r) - axes_rank(m, over, r / each * each);
    if (at >= 0 && at < own) continue;
    diag_error(s->diag, DIAG_UNSUPPORTED, train_of(s)->pos,
               "sync = stale(...) needs neighbouring parts of the batch in a rank");
    return diag_hint(s->diag, "split the batch over the axes in the order of the mesh");
  }
  if (!each || ranks_local_count(s->ranks) == ranks_count(s->ranks)) return true;
  return refuse(s, train_of(s)->sync_pos, "ranks on several machines",
                "run all ranks on one machine, or use sync = every(...)");
}

bool stale_allowed(Session *s) {
  if (!stale_given(s)) return true;
  Axes over = sync_axes(s->model);
  int64_t groups = axes_size(&s->model->mesh, over), replicas = train_of(s)->replicas;
  if (!options_fit(s) || !rules_fit(s, over) || !ranks_fit(s, over)) return false;
  if (replicas % groups == 0) return true;
  diag_error(s->diag, DIAG_UNSUPPORTED, train_of(s)->sync_pos,
             "the layout splits the batch %lld ways, and that does not divide the %lld replicas of "
             "sync",
             (long long)groups, (long long)replicas);
  return diag_hint(s->diag, "use a multiple of %lld replicas, or smaller axes", (long long)groups);
}

// -- the graphs ---------------------------------------------------------------------------------

const Graph *stale_replica(Session *s) {
  const TrainAsk ask = {.finite = option_given(s->opt, OPTION_CHECK)};
  return stale_allowed(s) ? select_train_as(s->arena, s->model, NULL, &ask) : NULL;
}

// Returns the layout of the model with rules that split parameters over the axes of the batch; with
// `pushed` also the gradients that servers get.
static Layout server_layout(const Session *s, bool pushed) {
  const Model *m = s->model;
  Layout out = {.rule = arena_array(s->arena, LayoutRule, m->layout.n + 2)};
  LayoutRule more = {.scope = LAYOUT_PARAMETERS, .axes = sync_axes(m), .pos = train_of(s)->pos};
  more.dim_pos = more.axis_pos = more.pos;
  for (uint32_t i = 0; i < m->layout.n; i++) out.rule[out.n++] = m->layout.rule[i];
  if (!more.axes.n) return out;
  out.rule[out.n++] = more;
  more.scope = LAYOUT_TENSOR;
  more.pattern = intern(s->names, STALE_PUSH "*");
  if (pushed) out.rule[out.n++] = more;
  return out;
}

const Graph *stale_server(Session *s) {
  Graph *g = select_server(s->arena, s->model);
  if (g) g->layout = server_layout(s, true);
  return g;
}

bool stale_servers_apart(Session *s, const Compilation *c) {
  if (c->facts->n == 0) return true;
  const CollFact *f = &c->facts->fact[0];
  diag_error(s->diag, DIAG_UNSUPPORTED, train_of(s)->optimizer.pos,
             "sync = stale(...) has a shard of each parameter on each server, and the update of %s "
             "needs more than the shard: %s",
             f->value ? f->value : "a parameter", f->why ? f->why : coll_text(f->kind));
  return diag_hint(s->diag, "take an optimizer without norms and matrices, such as adam or sgd");
}

// -- the programs -------------------------------------------------------------------------------

// Binds the program of the replicas once for each group of this process.
static bool bind_workers(Session *s, ProgramRun *p, const char *watched, StaleJob *stale) {
  const Mesh *m = &s->model->mesh;
  int64_t first = s->ranks ? ranks_first_processor(s->ranks) : 0,
          own = s->ranks ? ranks_processors(s->ranks) : mesh_size(m);
  stale->own = own / (mesh_size(m) / stale->groups);
  stale->first = axes_rank(m, stale->over, first);
  for (int64_t r = first; r < first + own; r++) {
    int64_t group = axes_rank(m, stale->over, r);
    if (group < stale->first) stale->first = group;
  }
  p->stale.worker = arena_array(s->arena, Exec *, stale->own + 1);
  stale->worker = p->stale.worker;
  for (; p->stale.n < stale->own; p->stale.n++) {
    Exec *e = session_exec_part(s, &p->stale.made, stale->own, watched);
    if (!e) return false;
    p->stale.worker[p->stale.n] = e;
  }
  return true;
}

bool stale_open_programs(Session *s, ProgramRun *p, TrainJob *job) {
  StaleJob *stale = arena_new_of(s->arena, StaleJob);
  Session other = *s; // its programs share no tensors with those of s
  p->stale.graph = stale_replica(s);
  if (!p->stale.graph) return false;
  p->feed = data_open(s, s->model->graph, DATA_TRAIN, false);
  other.stores = NULL;
  if (!p->feed || !session_compile(&other, p->stale.graph, "train", NULL, NULL, &p->stale.made))
    return false;
  p->graph = stale_server(s);
  s->beside = program_bytes(p->stale.made.compiled->program);
  s->model->layout = s->model->graph->layout = server_layout(s, false);
  s->apart = true;
  if (!p->graph || !session_compile(s, p->graph, "train", NULL, NULL, &p->made) ||
      !stale_servers_apart(s, &p->made))
    return false;
  s->beside = 0;
  other = *s;
  other.alone = true;
  p->exec = session_exec(&other, &p->made, NULL, NULL);
  bool several =
      program_tensor(p->stale.made.compiled->program, TENSOR_OUTPUT, select_watched) >= 0;
  stale->replicas = train_of(s)->replicas;
  stale->ahead = train_of(s)->ahead;
  stale->over = sync_axes(s->model);
  stale->groups = axes_size(&s->model->mesh, stale->over);
  stale->shown = arena_array(s->arena, double, p->stale.graph->output.n + 1);
  job->stale = stale;
  return p->exec && bind_workers(s, p, several ? select_watched : s->model->loss, stale);
}
