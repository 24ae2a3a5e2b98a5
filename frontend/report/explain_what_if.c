// Writes the what-ifs of `explain` as JSON and on the page: rules and pins with the step without
// them, and changed layouts that were compiled.
#include "frontend/report/explain.h"

static json_t *over_json(const Foreseen *f) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < f->nover; i++)
    json_array_append_new(out, json_pack("{s:o, s:I, s:I}", "axes",
                                         axes_json(f->choice.mesh, f->over[i].axes), "calls",
                                         (json_int_t)f->over[i].calls, "wire_bytes",
                                         (json_int_t)f->over[i].bytes));
  return out;
}

json_t *what_if_json(const Explain *e, const WhatIf *x) {
  const Foreseen *f = &x->step, *now = &e->what_if->now;
  if (!x->known) return json_null();
  json_t *out = json_object();
  json_object_set_new(
      out, "layout",
      json_text(layout_option(e->session->arena, f->choice.mesh, &f->choice.layout)));
  json_object_set_new(out, "calls", json_integer(f->calls));
  json_object_set_new(out, "wire_bytes", json_integer(f->bytes));
  json_object_set_new(out, "over", over_json(f));
  json_object_set_new(out, "flops", json_integer(f->work.flops));
  json_object_set_new(out, "parameter_bytes", json_integer(f->kept));
  json_object_set_new(out, "peak", json_integer(f->peak));
  json_object_set_new(out, "step_seconds", json_real(f->time->seconds));
  json_object_set_new(out, "predicted", simulation_json(f->time));
  json_object_set_new(out, "advised", json_boolean(!what_if_worse(now, f)));
  json_object_set_new(out, "helps", json_boolean(what_if_helps(now, f)));
  return out;
}

json_t *pins_json(const Explain *e) {
  json_t *out = json_array();
  const Ledger *l = e->ledger;
  for (uint32_t i = 0; i < l->npins; i++) {
    const LedgerRule *r = &l->rule[l->nrules + i];
    json_t *one = json_pack("{s:s, s:o, s:I, s:I}", "text", r->text, "place",
                            place_json(e, e->what_if->pin[i].pos), "calls", (json_int_t)r->calls,
                            "wire_bytes", (json_int_t)r->wire_bytes);
    json_object_set_new(one, "without", what_if_json(e, &e->what_if->without[l->nrules + i]));
    json_array_append_new(out, one);
  }
  return out;
}

json_t *tried_json(const Explain *e) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < e->what_if->ntried; i++) {
    const WhatIf *x = &e->what_if->tried[i];
    json_t *one = what_if_json(e, x);
    json_object_set_new(one, "kind", json_string(x->kind));
    json_object_set_new(one, "text", json_text(x->text));
    json_array_append_new(out, one);
  }
  return out;
}

// -- the page -----------------------------------------------------------------------------------

// Writes the cells of a changed step: calls, bytes sent, time, flops, peak, and whether it is
// advised.
static void put_step(FILE *f, const Explain *e, const WhatIf *x) {
  Arena *a = e->session->arena;
  const Foreseen *now = &e->what_if->now, *step = &x->step;
  if (!x->known || what_if_equal(now, step)) {
    fprintf(f, "<td colspan=\"6\">%s</td></tr>\n", x->known ? "nothing changes" : "not valid");
    return;
  }
  html_number(f, (double)step->calls, arena_printf(a, "%lld", (long long)step->calls));
  html_number(f, (double)step->bytes, bytes_text(a, step->bytes));
  html_number(f, step->time->seconds, seconds_text(a, step->time->seconds));
  html_number(f, (double)step->work.flops, flops_text(a, (double)step->work.flops));
  html_number(f, (double)step->peak, bytes_text(a, step->peak));
  html_in(f, "<td>",
          what_if_helps(now, step)   ? "helps"
          : what_if_worse(now, step) ? "not advised"
                                     : "no help",
          "</td></tr>\n");
}

static void put_rules(FILE *f, const Explain *e) {
  const Ledger *l = e->ledger;
  fprintf(f, "<p>The collectives that each rule and each layout(...) causes, and the step without "
             "it.</p>\n");
  html_table(f, "", "rule|place|calls|sent|without it: calls|sent|step|flops|peak|");
  for (uint32_t i = 0; i < l->nrules + l->npins; i++) {
    const LedgerRule *r = &l->rule[i];
    html_in(f, "<tr><td>", r->text, "</td>");
    html_in(f, "<td>", r->place, "</td>");
    html_number(f, (double)r->calls, arena_printf(e->session->arena, "%lld", (long long)r->calls));
    html_number(f, (double)r->wire_bytes, bytes_text(e->session->arena, r->wire_bytes));
    put_step(f, e, &e->what_if->without[i]);
  }
  html_table_end(f);
}

static void put_tried(FILE *f, const Explain *e) {
  const WhatIfs *w = e->what_if;
  if (!w->ntried) return;
  fprintf(f,
          "<h3>What if</h3>\n<p>Layouts that differ in a rule or two. Of %u, these %u cost least "
          "by estimate; they were compiled.</p>\n",
          w->estimated, w->ntried);
  html_table(f, " class=\"sort\"", "change|layout|calls|sent|step|flops|peak|");
  for (uint32_t i = 0; i < w->ntried; i++) {
    const SearchChoice *c = &w->tried[i].step.choice;
    html_in(f, "<tr><td>", w->tried[i].text, "</td>");
    html_in(f, "<td>", layout_option(e->session->arena, c->mesh, &c->layout), "</td>");
    put_step(f, e, &w->tried[i]);
  }
  html_table_end(f);
}

void html_what_ifs(FILE *f, const Explain *e) {
  fprintf(f, "<h2>Layout</h2>\n");
  if (e->ledger->nrules + e->ledger->npins)
    put_rules(f, e);
  else
    fprintf(f, "<p>No rules: every processor holds everything.</p>\n");
  put_tried(f, e);
  html_alike(f, e);
}
