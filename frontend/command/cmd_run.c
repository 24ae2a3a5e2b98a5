// The command run: runs the graph once on one feed, or --steps training steps, and prints the
// fetched values or writes them to files.
#include "frontend/command/package_command.h"
#include "frontend/driver/training.h"
#include "frontend/driver/unfused.h"
#include "frontend/verify/verify.h"

typedef struct Run {
  Session *s;
  Fetch fetch;
  int64_t steps; // number of training steps; 0: the graph is run once, without training
  FedList feeds;
  ProgramRun run;
  int64_t before; // number of training steps before this run, from the loaded optimizer state
  Verified verified;
  uint32_t nresults;
  Result *result;
} Run;

static Graph *select_graph(Run *r) {
  Session *s = r->s;
  if (!r->steps) return select_run(s->arena, s->model, &r->fetch);
  if (!training_without_sync(s, "run --steps")) return NULL;
  if (s->model->graph->spec.ntrain) return select_train(s->arena, s->model, &r->fetch);
  diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, option_use(s->opt, OPTION_STEPS)->pos,
             "--steps trains, and the model has no train block");
  return NULL;
}

static bool computes_something(const Run *r) {
  for (uint32_t i = 0; i < r->run.graph->output.n; i++)
    if (r->run.graph->output.at[i].kind == OUT_VALUE) return true;
  diag_error(r->s->diag, DIAG_USAGE, (Pos){0},
             "nothing to compute: the model has no output, metric or loss");
  return diag_hint(r->s->diag, "name values: --fetch NAME,...");
}

static bool prepare(Run *r) {
  Session *s = r->s;
  r->fetch = session_fetch(s);
  if (!option_integer(s->opt, OPTION_STEPS, 0, 1, INT64_MAX, s->diag, &r->steps)) return false;
  r->run.graph = select_graph(r);
  if (!r->run.graph || !computes_something(r)) return false;
  if (!feeds_read(s, 0, &r->feeds) || !feeds_cover(s, r->run.graph, &r->feeds)) return false;
  return program_open(s, r->steps ? "train" : "run", NULL, NULL, &r->run) &&
         values_load(s, r->run.exec, r->run.made.compiled->program, r->steps > 0, &r->before) &&
         session_same_files(s, true);
}

static bool execute(Run *r) {
  VerifyJob verify = {.graph = r->run.graph,
                      .made = &r->run.made,
                      .exec = r->run.exec,
                      .purpose = r->steps ? "train" : "run",
                      .rows = -1,
                      .step = r->before,
                      .commit = r->steps > 0};
  feeds_write(r->s, r->run.exec, r->run.made.compiled->program, &r->feeds);
  if (!verify_step(r->s, &verify, &r->verified)) return false;
  int64_t n = r->steps ? r->steps : 1;
  for (int64_t i = 0; i < n; i++) {
    StepResult result = exec_step(r->run.exec, r->before + i, r->steps > 0);
    if (result == STEP_OK) continue;
    exec_fault(r->run.exec, r->s->diag);
    return false;
  }
  return exec_check(r->run.exec, r->s->diag);
}

// Reads one fetched value. After training steps it is, for a parameter or state, the value after
// the last step.
static bool read_one(Run *r, const char *name, Result *out) {
  const Program *p = r->run.made.compiled->program;
  static const TensorKind kept[] = {TENSOR_PARAM, TENSOR_STATE};
  for (size_t i = 0; r->steps && i < countof(kept); i++)
    if (program_tensor(p, kept[i], name) >= 0)
      return result_read(r->s, r->run.exec, p, kept[i], name, out);
  return result_read(r->s, r->run.exec, p, TENSOR_OUTPUT, name, out);
}

static bool read_results(Run *r) {
  r->result = arena_array(r->s->arena, Result, r->run.graph->output.n + 1);
  for (uint32_t i = 0; i < r->run.graph->output.n; i++) {
    const Output *o = &r->run.graph->output.at[i];
    if (o->kind != OUT_VALUE || select_reserved(o->name)) continue;
    if (!read_one(r, o->name, &r->result[r->nresults])) return false;
    result_classes(r->s, r->run.graph, &r->result[r->nresults]);
    r->nresults++;
  }
  return true;
}

static json_t *counts_json(const Run *r) {
  const CommCount *c = exec_counts(r->run.exec);
  json_t *out = json_object();
  for (int k = 0; c && k < COLL_COUNT; k++) {
    if (!c->calls[k]) continue;
    json_t *one = json_object();
    json_object_set_new(one, "calls", json_integer(c->calls[k]));
    json_object_set_new(one, "bytes", json_integer(c->bytes[k]));
    json_object_set_new(one, "wire_bytes", json_integer(c->wire_bytes[k]));
    json_object_set_new(one, "seconds", json_real(c->seconds[k]));
    json_object_set_new(out, coll_text((CollKind)k), one);
  }
  return out;
}

static void print_json(const Run *r) {
  json_t *out = json_object();
  json_object_set_new(out, "schema", json_string("meshc.run/1"));
  json_object_set_new(out, "model", json_text(r->s->opt->argument.at[0]));
  json_object_set_new(out, "values", results_json(r->nresults, r->result));
  json_t *list = collectives_json(r->s, r->run.made.facts);
  collectives_measured(r->s, list, &r->run.made, r->run.exec, r->steps ? r->steps : 1);
  json_object_set_new(out, "collectives", list);
  json_object_set_new(out, "measured", counts_json(r));
  json_object_set_new(out, "allocated", json_integer(exec_bytes(r->run.exec)));
  verified_json(out, &r->verified);
  json_finish(out);
}

// With --check finite, runs the graph again with one kernel for each operation, and sets *found to
// the first value that is not finite. All ranks call it together, before the first one has looked
// at the results. After training steps the parameters are others than before, and nothing is found.
// Returns false after an error.
static bool locate(Run *r, NotFinite *found) {
  *found = (NotFinite){0};
  if (!option_given(r->s->opt, OPTION_CHECK) || r->steps) return true;
  Unfused u;
  bool good = unfused_open(r->s, r->run.graph, "run", r->run.exec, &u);
  if (good) {
    feeds_write(r->s, u.exec, u.made.compiled->program, &r->feeds);
    good = exec_find_not_finite(u.exec, r->before, found);
  }
  unfused_free(&u);
  return good;
}

static bool finish(Run *r) {
  const Program *p = r->run.made.compiled->program;
  NotFinite found;
  if (!locate(r, &found)) return false;
  if (!session_first(r->s)) return params_save(r->s, r->run.exec, p, r->before + r->steps);
  bool good = results_finite(r->s, r->nresults, r->result);
  if (!good && found.found) unfused_note(r->s, &found, r->s->diag);
  good &= results_write(r->s, r->nresults, r->result);
  good &= params_save(r->s, r->run.exec, p, r->before + r->steps);
  if (good && option_given(r->s->opt, OPTION_JSON)) print_json(r);
  return good;
}

int cmd_run(Session *s) {
  if (package_given(s)) return package_command(s);
  Run r = {.s = s};
  if (values_check(s) && results_check(s) && params_check(s) && session_load(s) && prepare(&r) &&
      execute(&r) && read_results(&r))
    (void)finish(&r);
  for (uint32_t i = 0; i < r.nresults; i++) array_free(&r.result[i].array);
  feeds_free(&r.feeds);
  program_run_free(&r.run);
  return 0;
}
