// Collects the facts of one compile for `meshc check`. The compile ends with the memory plan and
// makes no machine code. See check.h.
#include "frontend/driver/check.h"
#include "frontend/driver/asynchronous.h"

#include <string.h>

// Checks the evaluation that runs during training, so that its errors appear before the training
// starts. The graph that it selects is discarded. Returns false after an error.
static bool check_evaluation(Session *s) {
  const DataBlock *data = s->model->graph->spec.data;
  uint32_t n;
  EvalMetric *metric;
  if (!data[DATA_VALID].present && !data[DATA_TEST].present) return true;
  return select_eval(s->arena, s->model, &n, &metric) != NULL;
}

static bool stale_compile(Session *s, SyncFacts *out) {
  const Graph *g = stale_server(s);
  out->ahead = s->model->graph->spec.train[0].ahead;
  out->replicas = s->model->graph->spec.train[0].replicas;
  if (!g || !session_compile(s, g, "sync", NULL, "program", &out->made) ||
      !stale_servers_apart(s, &out->made))
    return false;
  Axes over = sync_axes(s->model);
  const Program *p = out->made.compiled->program;
  for (int64_t k = 0; k < axes_size(&s->model->mesh, over); k++) {
    int64_t pushed = stale_pushed(p, over, k), pulled = stale_pulled(p, over, k);
    if (pushed > out->pushed) out->pushed = pushed;
    if (pulled > out->pulled) out->pulled = pulled;
  }
  return true;
}

bool sync_compile(Session *s, const Selected *of, SyncFacts *out) {
  *out = (SyncFacts){0};
  if (strcmp(of->purpose, "train") == 0 && stale_given(s)) return stale_compile(s, out);
  const Graph *g = strcmp(of->purpose, "train") == 0 ? select_sync(s->arena, of->graph) : NULL;
  if (!g) return true;
  out->every = g->spec.train[0].sync;
  out->replicas = g->spec.train[0].replicas;
  return session_compile(s, g, "sync", NULL, "program", &out->made);
}

const char *sync_text(const Session *s, const SyncFacts *f) {
  int64_t bytes = f->made.facts->wire_bytes, apart = f->ahead - 1;
  if (f->ahead)
    return arena_printf(s->arena,
                        "%lld replicas, at most %lld step%s apart: each sends %s of gradients and "
                        "gets %s of parameters a step, for an update in %s",
                        (long long)f->replicas, (long long)apart, plural(apart),
                        bytes_text(s->arena, f->pushed), bytes_text(s->arena, f->pulled),
                        seconds_text(s->arena, session_simulate(s, &f->made)->seconds));
  return arena_printf(s->arena,
                      "%lld replicas, joined every %lld step%s: %s sent, which is %s a step, in %s",
                      (long long)f->replicas, (long long)f->every, plural(f->every),
                      bytes_text(s->arena, bytes), bytes_text(s->arena, ceil_div(bytes, f->every)),
                      seconds_text(s->arena, session_simulate(s, &f->made)->seconds));
}

bool check_compile(Session *s, CheckFacts *out) {
  if (!session_select(s, &out->of)) return false;
  const Selected *of = &out->of;
  out->purpose = of->purpose;
  if (strcmp(of->purpose, "train") == 0 && !check_evaluation(s)) return false;
  if (!session_compile(s, of->graph, of->purpose, of->over, "program", &out->made)) return false;
  if (stale_given(s)) s->beside = program_bytes(out->made.compiled->program);
  bool good = sync_compile(s, of, &out->sync);
  s->beside = 0;
  if (!good) return false;
  if (out->sync.ahead) { // the servers run on the same processors
    const PartitionFacts *server = &out->sync.made.partition;
    out->made.partition.optimizer_bytes = server->optimizer_bytes;
    out->made.partition.parameter_bytes += server->parameter_bytes;
  }
  return params_table(s, &out->params);
}

int64_t check_peak(const CheckFacts *c) {
  const Program *server = c->sync.ahead ? c->sync.made.compiled->program : NULL;
  return program_bytes(c->made.compiled->program) + (server ? program_bytes(server) : 0);
}

static json_t *dims_json(const Graph *g) {
  json_t *out = json_object();
  for (DimId d = 1; d <= dim_count(g->dims); d++)
    if (dim_get(g->dims, d)->whole == d && !dim_get(g->dims, d)->local)
      json_object_set_new(out, dim_get(g->dims, d)->name, json_integer(dim_get(g->dims, d)->size));
  return out;
}

static json_t *sync_json(Session *s, const SyncFacts *sync) {
  const CollFacts *f = sync->made.facts;
  json_t *out = json_object();
  if (sync->ahead) {
    json_object_set_new(out, "stale", json_integer(sync->ahead - 1));
    json_object_set_new(out, "replicas", json_integer(sync->replicas));
    json_object_set_new(out, "pushed_bytes", json_integer(sync->pushed));
    json_object_set_new(out, "pulled_bytes", json_integer(sync->pulled));
    json_object_set_new(out, "predicted_seconds",
                        json_real(session_simulate(s, &sync->made)->seconds));
    return out;
  }
  json_object_set_new(out, "every", json_integer(sync->every));
  json_object_set_new(out, "replicas", json_integer(sync->replicas));
  json_object_set_new(out, "collectives", collectives_json(s, f));
  json_object_set_new(out, "wire_bytes", json_integer(f->wire_bytes));
  json_object_set_new(out, "wire_bytes_a_step",
                      json_real((double)f->wire_bytes / (double)sync->every));
  json_object_set_new(out, "predicted_seconds",
                      json_real(session_simulate(s, &sync->made)->seconds));
  return out;
}

json_t *check_json(Session *s, const CheckFacts *check) {
  BitsFacts bits;
  if (!bits_find(s, &check->of, &check->made, &bits)) return NULL;
  const Compilation *c = &check->made;
  const PartitionFacts *f = &c->partition;
  const Simulation *predicted = session_simulate(s, c);
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.check/1"));
  json_object_set_new(out, "model", json_text(s->opt->argument.at[0]));
  json_object_set_new(out, "for", json_text(check->purpose));
  json_object_set_new(out, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(out, "layout", layout_json(s));
  json_object_set_new(out, "dims", dims_json(s->model->graph));
  json_object_set_new(out, "parameters", json_integer(parameter_count(s->model->graph)));
  json_object_set_new(out, "collectives", collectives_json(s, c->facts));
  json_object_set_new(out, "wire_bytes", json_integer(c->facts->wire_bytes));
  if (check->sync.replicas) json_object_set_new(out, "sync", sync_json(s, &check->sync));
  json_object_set_new(out, "flops", json_integer(f->flops));
  json_object_set_new(out, "flops_again", json_integer(f->flops_rematerialised));
  json_object_set_new(out, "flops_whole", json_integer(f->flops_whole));
  json_object_set_new(out, "redundant_flops", json_real(f->redundant_flops));
  json_object_set_new(out, "idle_flops", json_real(f->idle_flops));
  json_object_set_new(out, "padding", json_real(f->padding));
  program_json(out, c);
  json_object_set_new(json_object_get(out, "memory"), "peak", json_integer(check_peak(check)));
  json_object_set_new(out, "predicted_seconds", json_real(predicted->seconds));
  json_object_set_new(out, "predicted", simulation_json(predicted));
  json_object_set_new(out, "bits", bits_json(s, &bits));
  if (check->params.path) json_object_set_new(out, "params", params_table_json(s, &check->params));
  return out;
}
