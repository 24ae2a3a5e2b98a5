// Finds the parts of a language model: ids, time, logits, vocabulary; and selects its decoding form
// (decode.h). Input: a Model. Output: a LanguageModel, or the graph of a decoding run.
#include "frontend/step/decode_build_internal.h"
#include "frontend/step/select_internal.h"

#include <string.h>

static bool is_ids(const Decl *d) {
  return d->kind == DECL_INPUT && d->type == TYPE_I32 && (d->rank == 1 || d->rank == 2);
}

// Returns the dim that node n has and the ids do not, if n has all dims of the ids and only one
// more; else 0.
static DimId other_dim(const Decl *ids, const Node *n) {
  DimId other = 0;
  if (!dtype_is_float((Dtype)n->type) || n->region || n->dims->n != ids->rank + 1) return 0;
  for (int i = 0; i < n->dims->n; i++)
    if (!dim_in(n->dims->at[i], ids->rank, ids->dims)) other = n->dims->at[i];
  for (int i = 0; i < ids->rank; i++)
    if (!dims_has(n->dims, ids->dims[i])) return 0;
  return other;
}

// Returns the logits of a cross entropy that picks the label by its class: the WHERE of
// where(index[c] == label, logits - max, 0); else 0. *c gets the class dim.
static NodeId logits_of_pick(const Graph *g, const Node *n, DimId *c) {
  if (n->op != OP_WHERE || graph_node(g, n->args[0])->op != OP_EQ) return 0;
  const Node *hit = graph_node(g, n->args[0]), *shifted = graph_node(g, n->args[1]);
  for (int k = 0; k < 2 && shifted->op == OP_SUB; k++) {
    const Node *index = graph_node(g, hit->args[k]);
    *c = index->op == OP_INDEX ? index->attr->dims[0] : 0;
    if (*c && dims_has(graph_node(g, shifted->args[0])->dims, *c)) return shifted->args[0];
  }
  return 0;
}

static bool *needed_by(Arena *a, const Graph *g, NodeId root) {
  bool *need = arena_array(a, bool, graph_count(g) + 1);
  need[root] = root != 0;
  for (NodeId i = root; i > 0; i--)
    for (int k = 0; need[i] && k < graph_node(g, i)->nargs; k++)
      need[graph_node(g, i)->args[k]] = true;
  return need;
}

// Returns the first argument of the last cross entropy over ids in the loss, or 0.
static NodeId logits_of_loss(const Model *m, const Decl *ids) {
  const Graph *g = m->graph;
  const bool *need = needed_by(m->arena, g, m->loss_node);
  DimId c;
  for (NodeId i = m->loss_node; i > 0; i--) {
    NodeId x = need[i] ? logits_of_pick(g, graph_node(g, i), &c) : 0;
    if (x && other_dim(ids, graph_node(g, x)) == c) return x;
  }
  return 0;
}

// Returns the last name of a kind whose value has the dims of logits, or NULL.
static const Name *last_named(const Graph *g, const Decl *ids, NameKind kind) {
  const Name *last = NULL;
  for (uint32_t i = 0; i < g->name.n; i++) {
    const Name *n = &g->name.at[i];
    if (n->kind == kind && n->value && other_dim(ids, graph_node(g, n->value)) &&
        (!last || n->value > last->value))
      last = n;
  }
  return last;
}

// Sets out->value for the ids out->ids. Returns false, without an error, if there are no logits.
static bool find_logits(const Model *m, LanguageModel *out) {
  const Graph *g = m->graph;
  const Decl *ids = &g->decl.at[out->ids - 1];
  out->value = m->loss_node ? logits_of_loss(m, ids) : 0;
  const Name *name = last_named(g, ids, NAME_OUTPUT);
  if (!name) name = last_named(g, ids, NAME_VALUE);
  if (!out->value && name) out->value = name->value;
  return out->value != 0;
}

static bool named_logits(const Model *m, const char *logits, Pos at, LanguageModel *out) {
  const Name *name = graph_find_name(m->graph, logits);
  if (name && name->value) return out->value = name->value, true;
  const char **near = arena_array(m->arena, const char *, m->graph->name.n + 1);
  for (uint32_t i = 0; i < m->graph->name.n; i++) near[i] = m->graph->name.at[i].name;
  diag_error(m->diag, DIAG_UNKNOWN_FETCH, at, "the model has no value '%s'", logits);
  return diag_nearest(m->diag, logits, near, m->graph->name.n);
}

// Chooses which dim of the ids runs over rows: the batch dim of the data blocks, else the first of
// two.
static void find_time(const Model *m, const Decl *ids, LanguageModel *out) {
  out->rows = ids->rank == 2 ? ids->dims[0] : 0;
  for (int k = 0; k < DATA_BLOCKS; k++)
    if (m->graph->spec.data[k].present && ids->rank == 2 &&
        dim_in(m->graph->spec.data[k].over, 2, ids->dims))
      out->rows = m->graph->spec.data[k].over;
  out->time = ids->dims[0] == out->rows ? ids->dims[1] : ids->dims[0];
}

static bool refuse_logits(const Model *m, Pos at, NodeId value) {
  Pos where = value ? graph_node(m->graph, value)->origin->pos : (Pos){0};
  diag_error(m->diag, DIAG_NO_LOGITS, at.line ? at : where,
             "the model has no logits to generate from: a float value over the dims of i32 ids, "
             "[time] or [rows, time], and one dim more");
  return diag_hint(m->diag, "name the value: --logits NAME");
}

// Checks that the logits read one input only. Returns false after an error.
static bool reads_ids_only(const Model *m, const LanguageModel *lm) {
  const bool *need = needed_by(m->arena, m->graph, lm->value);
  for (NodeId i = 1; i <= lm->value; i++) {
    const Node *n = graph_node(m->graph, i);
    if (!need[i] || n->op != OP_INPUT || n->attr->decl == lm->ids) continue;
    const Decl *d = &m->graph->decl.at[n->attr->decl - 1];
    diag_error(m->diag, DIAG_UNSUPPORTED, d->pos,
               "the logits also read the input '%s': text is generated from ids alone", d->name);
    return diag_hint(m->diag, "compute it in the model: positions are index[%s]",
                     dim_get(m->graph->dims, lm->time)->name);
  }
  return true;
}

bool language_model_find(const Model *m, const char *logits, Pos at, LanguageModel *out) {
  const Graph *g = m->graph;
  *out = (LanguageModel){0};
  if (logits && !named_logits(m, logits, at, out)) return false;
  bool found = false;
  for (DeclId i = 1; i <= g->decl.n && !found; i++) {
    const Decl *ids = &g->decl.at[i - 1];
    if (!is_ids(ids)) continue;
    out->ids = i;
    found = logits ? other_dim(ids, graph_node(g, out->value)) != 0 : find_logits(m, out);
    found = found && ids->node && needed_by(m->arena, g, out->value)[ids->node];
  }
  if (!found) return refuse_logits(m, at, logits ? out->value : 0);
  const Decl *ids = &g->decl.at[out->ids - 1];
  out->vocab = other_dim(ids, graph_node(g, out->value));
  find_time(m, ids, out);
  const char *name = origin_subject(graph_node(g, out->value)->origin);
  out->logits = logits ? logits : name ? name : "logits";
  return reads_ids_only(m, out);
}

// -- the graph -----------------------------------------------------------------------------------

// Checks that no row of the logits depends on other rows. Returns false after an error.
static bool rows_apart(Arena *a, const Model *m, const Graph *g, DimId over) {
  if (!over) return true;
  RowFacts rows = rows_mark(a, g, over);
  for (NodeId i = 1; i <= graph_count(g); i++) {
    const Node *n = graph_node(g, i);
    bool first = rows.mixed[i];
    for (int k = 0; k < n->nargs; k++) first = first && !rows.mixed[n->args[k]];
    if (!first) continue;
    return diag_error(m->diag, DIAG_NOT_CAUSAL, n->origin->pos,
                      "'%s' mixes the rows of %s: the text of a prompt would depend on the other "
                      "prompts",
                      causal_name(g, i), dim_get(g->dims, over)->name);
  }
  return true;
}

Graph *select_decode(Arena *a, const Model *m, const LanguageModel *lm, const DecodeAsk *ask,
                     DecodeFacts *out) {
  Graph *whole = graph_like(m->arena, m->graph, STAGE_GRAD);
  SelectCopy c = {.m = m, .g = whole};
  const NodeId *map = select_into(&c, 1, &lm->value);
  select_output(whole, DECODE_LOGITS, map[lm->value], NULL);
  NodeId *kept;
  const Graph *g = graph_prune(a, whole, STAGE_GRAD, &kept);
  if (!rows_apart(a, m, g, lm->rows)) return NULL;
  return decode_graph(a, g, kept[map[lm->value]], lm, ask, m->diag, out);
}
