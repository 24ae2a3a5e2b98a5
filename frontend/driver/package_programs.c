// Selects the programs of a package: the graphs of --for, and whether they can run batches with
// fewer rows.
#include "frontend/driver/package_internal.h"

#include "frontend/driver/training.h"

// Returns the dim whose rows a batch has: that of the data blocks, else the first dim of the first
// input that has dims; 0: there is none.
static DimId rows_of(const Session *s) {
  const Graph *g = s->model->graph;
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (g->spec.data[k].present) return g->spec.data[k].over;
  for (uint32_t i = 0; i < g->decl.n; i++)
    if (g->decl.at[i].kind == DECL_INPUT && g->decl.at[i].rank) return g->decl.at[i].dims[0];
  return 0;
}

// Returns the names of --fetch, else all outputs of the model.
static Fetch fetched(const Session *s) {
  Fetch f = session_fetch(s);
  const Graph *g = s->model->graph;
  const char **names = arena_array(s->arena, const char *, g->name.n + 1);
  if (f.n) return f;
  for (uint32_t i = 0; i < g->name.n; i++)
    if (g->name.at[i].kind == NAME_OUTPUT) names[f.n++] = g->name.at[i].name;
  f.name = names;
  return f;
}

// Returns whether the program of `whole` can run a batch with fewer rows of dim `over`. A model
// that cannot be built with fewer rows is no error here.
static bool fits_fewer(Session *s, Fetch f, DimId over, const Graph *whole) {
  const Dim *dim = dim_get(s->model->graph->dims, over);
  if (dim->size < 2) return false;
  DiagMark mark = diag_mark(s->diag);
  Model *m = last_batch_model(s, dim->name, dim->size - 1, dim->size);
  const Graph *g = NULL;
  if (m) {
    f.rows = dim_find(m->graph->dims, dim->name);
    g = select_run(s->arena, m, &f);
  }
  bool fits = g && last_batch_fits(s->arena, whole, g, over);
  diag_rewind(s->diag, mark);
  return fits;
}

static bool add_predict(Session *s, PackagePlan *plan) {
  Fetch f = fetched(s);
  DimId over = rows_of(s);
  PackagePart *p = &plan->part[plan->nparts++];
  *p = (PackagePart){.name = "predict", .of.purpose = "eval"};
  if (!f.n) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "the model has no output to predict");
    return diag_hint(s->diag, "name values: --fetch NAME,...");
  }
  p->of.graph = select_run(s->arena, s->model, &f);
  if (!p->of.graph || !over) return p->of.graph != NULL;
  Fetch with_rows = f;
  with_rows.rows = over;
  const Graph *g = select_run(s->arena, s->model, &with_rows);
  p->any_rows = g && fits_fewer(s, f, over, g);
  if (p->any_rows) p->of.graph = g;
  p->of.over = dim_get(s->model->graph->dims, over)->name;
  return true;
}

static bool add_train(Session *s, PackagePlan *plan) {
  const TrainAsk ask = {0};
  PackagePart *p = &plan->part[plan->nparts++];
  *p = (PackagePart){.name = "train", .of.purpose = "train"};
  if (!s->model->graph->spec.ntrain)
    return diag_error(s->diag, DIAG_NO_TRAIN_BLOCK, option_use(s->opt, OPTION_PACKAGE_FOR)->pos,
                      "the model has no train block");
  if (!training_without_sync(s, "a package")) return false;
  p->of.graph = select_train_as(s->arena, s->model, NULL, &ask);
  return p->of.graph != NULL;
}

static bool add_evaluate(Session *s, PackagePlan *plan) {
  const Fetch f = session_evaluated(s);
  PackagePart *p = &plan->part[plan->nparts++];
  *p = (PackagePart){.name = "evaluate", .of.purpose = "run"};
  p->of.graph = select_run(s->arena, s->model, &f);
  return p->of.graph != NULL;
}

bool package_parts(Session *s, PackagePlan *plan) {
  if (plan->generates) return package_text_parts(s, plan);
  if (!plan->trains) return add_predict(s, plan);
  return add_train(s, plan) && (!fetched(s).n || add_predict(s, plan)) && add_evaluate(s, plan);
}
