// `explain --json`: writes all facts of the ledger and of the values as JSON (schema
// meshc.explain/2).
#include "frontend/report/compare.h"
#include "frontend/report/step_facts.h"

#include <string.h>

static json_t *text_or_null(const char *text) {
  return text && *text ? json_text(text) : json_null();
}

json_t *place_json(const Explain *e, Pos pos) {
  if (!pos.line) return json_null();
  return json_pack("{s:s, s:i, s:i}", "file",
                   pos.source ? diag_source_name(e->session->diag, pos.source)
                              : e->session->opt->argument.at[0],
                   "line", (int)pos.line, "column", (int)pos.col);
}

static json_t *terms_json(const Explain *e, Axes terms, Monoid monoid) {
  if (!terms.n) return json_null();
  return json_pack("{s:s, s:o}", "monoid", monoid_text(monoid), "axes",
                   axes_json(&e->session->model->mesh, terms));
}

// -- the ledger ---------------------------------------------------------------------------------

static json_t *side_json(const Explain *e, const LedgerSide *s) {
  const DimTable *t = e->ledger->graph->dims;
  json_t *dims = json_array();
  for (int i = 0; i < s->dims.n; i++) {
    const Dim *d = dim_get(t, s->dims.at[i]), *whole = dim_get(t, d->whole);
    json_array_append_new(dims, json_pack("{s:s, s:I, s:I, s:o}", "dim", whole->name, "size",
                                          (json_int_t)whole->size, "block", (json_int_t)d->size,
                                          "axes", axes_json(&e->session->model->mesh, d->axes)));
  }
  json_t *out =
      json_pack("{s:s, s:o, s:o}", "sharding", ledger_sharding(e->session->arena, e->ledger, s),
                "partial", terms_json(e, s->partial, s->monoid), "dims", dims);
  json_object_set_new(out, "rule", s->rule >= 0 ? json_integer(s->rule) : json_null());
  json_object_set_new(out, "why", text_or_null(s->why));
  return out;
}

static json_t *part_json(const Explain *e, const LedgerPart *p) {
  const Graph *g = e->ledger->placement->graph;
  json_t *out = json_pack("{s:s, s:I, s:o}", "value", p->value, "bytes", (json_int_t)p->bytes,
                          "user", text_or_null(p->user));
  const Origin *o = p->reader ? graph_node(g, p->reader)->origin : NULL;
  json_object_set_new(out, "user_value", text_or_null(o ? o->value : NULL));
  json_object_set_new(out, "user_place", o ? place_json(e, o->pos) : json_null());
  json_object_set_new(out, "has", side_json(e, &p->has));
  json_object_set_new(out, "requested", side_json(e, &p->wants));
  return out;
}

// Returns why a call has no more parts.
static json_t *bucket_end_json(Arena *a, const CollFact *f) {
  json_t *out = reason_json(a, bucket_end_name(f->end), bucket_end_text(f->end));
  json_object_set_new(out, "next", text_or_null(f->end_next));
  return out;
}

// Adds facts of the ledger to `out`, the JSON object that collectives_json made for a collective:
// its time, its place in the model, the values that it moves, the layout rule that causes it, and
// what would remove it.
static void add_row(const Explain *e, json_t *out, const LedgerRow *row) {
  json_t *parts = json_array();
  for (uint32_t i = 0; i < row->nparts; i++)
    json_array_append_new(parts, part_json(e, &row->part[i]));
  json_object_set_new(out, "predicted_seconds", json_real(row->fact->seconds));
  json_object_set_new(out, "place", place_json(e, row->fact->pos));
  json_object_set_new(out, "parts", parts);
  int nrules = (int)e->ledger->nrules;
  bool rule = row->cause >= 0 && row->cause < nrules, pin = row->cause >= nrules;
  json_object_set_new(out, "rule", rule ? json_integer(row->cause) : json_null());
  json_object_set_new(out, "pin", pin ? json_integer(row->cause - nrules) : json_null());
  json_object_set_new(out, "remedy", json_text(ledger_remedy(e->session->arena, e->ledger, row)));
  json_object_set_new(out, "ledger_line", json_integer(row->line));
  json_object_set_new(out, "ends", bucket_end_json(e->session->arena, row->fact));
}

static json_t *lines_json(const Ledger *l) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < l->nlines; i++) {
    const LedgerLine *line = &l->line[i];
    json_t *rows = json_array();
    for (uint32_t k = 0; k < line->n; k++) json_array_append_new(rows, json_integer(line->row[k]));
    json_array_append_new(out, json_pack("{s:s, s:o, s:I, s:I, s:f}", "value", line->value,
                                         "collectives", rows, "calls", (json_int_t)line->calls,
                                         "wire_bytes", (json_int_t)line->wire_bytes,
                                         "predicted_seconds", line->seconds));
  }
  return out;
}

static json_t *totals_json(const Explain *e) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < e->ledger->ntotals; i++) {
    const LedgerTotal *t = &e->ledger->total[i];
    json_array_append_new(out, json_pack("{s:o, s:I, s:I, s:I, s:f}", "axes",
                                         axes_json(&e->session->model->mesh, t->axes), "group",
                                         (json_int_t)t->group, "calls", (json_int_t)t->calls,
                                         "wire_bytes", (json_int_t)t->wire_bytes,
                                         "predicted_seconds", t->seconds));
  }
  return out;
}

static json_t *rule_json(const Explain *e, const LedgerRule *r) {
  static const char *const scope[] = {"all", "optimizer", "parameters", "gradients", "tensor"};
  const LayoutRule *rule = r->rule;
  json_t *out =
      json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:b, s:o}", "text", r->text, "scope",
                scope[rule->scope], "pattern", text_or_null(rule->pattern), "dim",
                text_or_null(rule->dim), "axes", axes_json(&e->session->model->mesh, rule->axes),
                "soft", rule->soft, "none", rule->none, "place", place_json(e, rule->pos));
  json_object_set_new(out, "calls", json_integer(r->calls));
  json_object_set_new(out, "wire_bytes", json_integer(r->wire_bytes));
  json_object_set_new(out, "without", what_if_json(e, &e->what_if->without[r - e->ledger->rule]));
  return out;
}

// -- values -------------------------------------------------------------------------------------

static json_t *value_dims(const Explain *e, const ExplainedValue *v) {
  json_t *out = json_array();
  for (int k = 0; k < v->ndims; k++) {
    const ValueDim *d = &v->dim[k];
    json_t *one =
        json_pack("{s:s, s:I, s:I, s:o}", "dim", d->name, "size", (json_int_t)d->size, "block",
                  (json_int_t)d->block, "axes", axes_json(&e->session->model->mesh, d->axes));
    json_object_set_new(one, "rule", d->rule >= 0 ? json_integer(d->rule) : json_null());
    json_object_set_new(one, "why", text_or_null(d->why));
    json_array_append_new(out, one);
  }
  return out;
}

static json_t *indices(const uint32_t *at, uint32_t n) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(out, json_integer(at[i]));
  return out;
}

static json_t *value_json(const Explain *e, const ExplainedValue *v) {
  const Mesh *m = &e->session->model->mesh;
  json_t *out =
      json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:s}", "name", v->name, "kind",
                value_kinds[v->kind], "dtype", dtype_text(v->type), "place", place_json(e, v->pos),
                "computed", v->computed, "sharding", v->seen, "because", v->why);
  json_object_set_new(out, "dims", value_dims(e, v));
  json_object_set_new(out, "partial", terms_json(e, v->partial, v->monoid));
  json_object_set_new(out, "same_along", axes_json(m, v->same));
  json_object_set_new(out, "bytes", json_integer(v->bytes));
  json_object_set_new(out, "bytes_per_processor", json_integer(v->block_bytes));
  json_object_set_new(out, "collectives", indices(v->row, v->nrows));
  json_object_set_new(out, "wire_bytes", json_integer(v->wire_bytes));
  json_object_set_new(out, "backward_uses", json_integer(v->kept_for));
  json_object_set_new(out, "memory", text_or_null(v->memory));
  return out;
}

static json_t *uses_json(const Explain *e, const ExplainedValue *v) {
  uint32_t n;
  ValueUse *use = explained_uses(e->session->arena, e->ledger, v, &n);
  json_t *out = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const Graph *g = e->ledger->placement->graph;
    json_t *one = json_pack("{s:s, s:o, s:s, s:s, s:b, s:i}", "user", use[i].user, "value",
                            text_or_null(use[i].of), "phase",
                            use[i].backward ? "backward" : "forward", "requested", use[i].wants,
                            "converts", use[i].converts, "times", (int)use[i].times);
    json_object_set_new(one, "place",
                        use[i].node ? place_json(e, graph_node(g, use[i].node)->origin->pos)
                                    : json_null());
    json_array_append_new(out, one);
  }
  return out;
}

static json_t *named_json(const Explain *e, int index) {
  const ExplainedValue *v = &e->values->at[index];
  json_t *out = value_json(e, v), *slots = json_array();
  for (uint32_t i = 0; i < v->nslots; i++)
    json_array_append_new(slots, value_json(e, &e->values->at[v->slot[i]]));
  json_object_set_new(out, "uses", uses_json(e, v));
  json_object_set_new(out, "gradient",
                      v->gradient >= 0 ? value_json(e, &e->values->at[v->gradient]) : json_null());
  json_object_set_new(out, "optimizer", slots);
  return out;
}

// Returns a list of all values whose names match e->pattern.
static json_t *matches_json(const Explain *e) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < e->values->n; i++)
    if (name_matches(e->pattern, e->values->at[i].name))
      json_array_append_new(out, named_json(e, (int)i));
  return out;
}

// -- the JSON object ----------------------------------------------------------------------------

static json_t *rules_json(const Explain *e) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < e->ledger->nrules; i++)
    json_array_append_new(out, rule_json(e, &e->ledger->rule[i]));
  return out;
}

static json_t *values_json(const Explain *e) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < e->values->n; i++)
    json_array_append_new(out, value_json(e, &e->values->at[i]));
  return out;
}

// Adds what is explained: the model, and the values that the command names.
static void put_subject(json_t *out, const Explain *e, int value) {
  json_object_set_new(out, "schema", json_string("meshc.explain/2"));
  json_object_set_new(out, "model", json_text(e->session->opt->argument.at[0]));
  json_object_set_new(out, "for", json_text(e->purpose));
  if (e->pattern) json_object_set_new(out, "matches", matches_json(e));
  if (value >= 0) json_object_set_new(out, "name", json_text(e->values->at[value].name));
  if (value >= 0) json_object_set_new(out, "value", named_json(e, value));
}

// Adds what decides about the step, and what would be gained by other rules.
static void put_causes(json_t *out, const Explain *e) {
  const Session *s = e->session;
  json_object_set_new(out, "mesh", mesh_json(&s->model->mesh));
  json_object_set_new(out, "layout", layout_json(s));
  json_object_set_new(out, "rules", rules_json(e));
  json_object_set_new(out, "pins", pins_json(e));
  json_object_set_new(out, "tried", tried_json(e));
}

// Adds what processors compute or keep alike, and which are idle.
static void put_waste(json_t *out, const Explain *e) {
  const Ledger *l = e->ledger;
  json_object_set_new(out, "idle", idle_json(e));
  json_object_set_new(out, "computed_alike", alike_json(e, &l->work, "flops"));
  json_object_set_new(out, "computed_of_partial_sums", alike_json(e, &l->of_sums, "flops"));
  json_object_set_new(out, "kept_alike", alike_json(e, &l->copies, "bytes"));
}

// Adds the collectives of the step and their sums. list: what collectives_json made for each.
static void put_collectives(json_t *out, const Explain *e, json_t *list) {
  const Ledger *l = e->ledger;
  json_object_set_new(out, "collectives", list);
  json_object_set_new(out, "lines", lines_json(l));
  json_object_set_new(out, "totals", totals_json(e));
  json_object_set_new(out, "calls", json_integer(l->calls));
  json_object_set_new(out, "wire_bytes", json_integer(l->wire_bytes));
  json_object_set_new(out, "predicted_seconds", json_real(l->seconds));
}

// Adds the time of the step and the work in it.
static void put_work(json_t *out, const Explain *e) {
  const PartitionFacts *p = &e->ledger->partition;
  json_object_set_new(out, "step_seconds", json_real(e->step->seconds));
  json_object_set_new(out, "predicted", simulation_json(e->step));
  json_object_set_new(out, "flops", json_integer(p->flops));
  json_object_set_new(out, "flops_whole", json_integer(p->flops_whole));
  json_object_set_new(out, "redundant_flops", json_real(p->redundant_flops));
  json_object_set_new(out, "idle_flops", json_real(p->idle_flops));
  json_object_set_new(out, "padding", json_real(p->padding));
}

// Returns what explain prints without --json.
static const char *whole_text(const Explain *e, int value) {
  Arena *a = e->session->arena;
  return e->pattern  ? explained_pattern_text(a, e->ledger, e->values, e->pattern)
         : value < 0 ? ledger_text(a, e->ledger, false)
                     : explained_text(a, e->ledger, e->values, value);
}

json_t *explain_json(const Explain *e, json_t *list, int value) {
  json_t *out = json_object();
  for (uint32_t i = 0; i < e->ledger->nrows; i++)
    add_row(e, json_array_get(list, i), &e->ledger->row[i]);
  put_subject(out, e, value);
  put_causes(out, e);
  put_waste(out, e);
  put_collectives(out, e, list);
  put_work(out, e);
  program_json(out, e->made);
  json_object_set_new(out, "memory_over_step", explain_memory_json(e));
  json_object_set_new(out, "values", values_json(e));
  if (e->against) json_object_set_new(out, "against", compare_json(e->against));
  json_object_set_new(out, "text", json_text(whole_text(e, value)));
  return out;
}
