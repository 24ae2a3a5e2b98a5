// --log-dir: writes the log of a training. Histograms of gradients come from a separate program,
// which shares the tensors of the training program and does not change them.
#include "frontend/report/log_directory.h"
#include "frontend/report/step_facts.h"

#include <stdlib.h>

// Returns the graph that computes grad(NAME) for each trained parameter NAME; NULL if there is none
// or after an error.
static const Graph *select_gradients(Session *s, const Graph *train) {
  const Graph *g = s->model->graph;
  const char **name = arena_array(s->arena, const char *, g->decl.n + 1);
  Fetch f = {.name = name};
  for (uint32_t i = 0; i < train->output.n; i++) {
    const Output *o = &train->output.at[i];
    const Decl *d = o->kind == OUT_UPDATE ? &train->decl.at[o->target - 1] : NULL;
    if (d && d->kind == DECL_PARAM && dtype_is_float(d->type) && graph_find_name(g, d->name))
      name[f.n++] = arena_printf(s->arena, "grad(%s)", d->name);
  }
  return f.n ? select_train(s->arena, s->model, &f) : NULL;
}

static bool make_gradients(Session *s, const Compilation *train, const TrainJob *job,
                           LogDirectory *w) {
  const Graph *g = select_gradients(s, train->selected);
  if (!g) return diag_errors(s->diag) == 0;
  if (!session_compile(s, g, "train", NULL, NULL, &w->made)) return false;
  w->gradients = session_exec(s, &w->made, job->train, NULL);
  return w->gradients != NULL;
}

bool log_directory_check(const Session *s) {
  if (!option_given(s->opt, OPTION_TRACE) || option_given(s->opt, OPTION_LOG_DIR)) return true;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_TRACE)->pos,
             "--trace needs --log-dir DIR, where trace.json is put");
  return false;
}

// Begins a trace, if there is to be one. Steps that are traced on a GPU run without graphs, and
// NCCL requires of ranks that all use a graph for a message or none does: so all ranks with a GPU
// trace the same steps, though only the first one writes its trace.
static void trace_begin(Session *s, TrainJob *job, LogDirectory *w) {
  if (!option_given(s->opt, OPTION_TRACE)) return;
  step_facts_note(step_facts(s, w->train, session_simulate(s, w->train), NULL, 1));
  w->traced = job->train;
  w->trace = job->trace = trace_new(exec_workers(job->train));
}

bool log_directory_begin(Session *s, const Compilation *train, TrainJob *job, LogDirectory *w) {
  *w = (LogDirectory){.folder = option_text(s->opt, OPTION_LOG_DIR), .train = train};
  if (!w->folder || !session_first(s)) {
    if (s->gpu) trace_begin(s, job, w);
    w->folder = NULL;
    return true;
  }
  if (!session_folder(s, w->folder)) return false;
  // With ranks there are no histograms: all processes would have to read each gradient together,
  // but only the first process has a log.
  if (!s->ranks && !job->stale && !make_gradients(s, train, job, w)) return false;
  LogOptions options = {.directory = w->folder, .start = job->start};
  void *graph = graph_def(s, train->collected, &options.graph_bytes);
  options.graph = graph;
  w->log = log_open(&options, s->diag);
  free(graph);
  trace_begin(s, job, w);
  job->log = w->log;
  job->gradients = w->gradients;
  return w->log != NULL;
}

bool log_directory_end(Session *s, LogDirectory *w) {
  bool good = log_close(w->log, s->diag);
  if (w->gradients) good = exec_check(w->gradients, s->diag) && good;
  if (w->log && good) good = report_write(s, w->folder, w->train);
  if (w->trace && w->folder && good)
    good = trace_write(w->trace, w->traced, arena_printf(s->arena, "%s/trace.json", w->folder),
                       s->diag);
  trace_free(w->trace);
  exec_free(w->gradients);
  compilation_free(&w->made);
  return good;
}
