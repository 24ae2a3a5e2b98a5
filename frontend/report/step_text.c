// Writes the instructions of a step as text and JSON, equal ones in one row:
//
//   product        x4      1.762 ms  16.9 %  forward  layer.*.attention.q  gpt.mesh:24
//       reads 640.0 KiB, writes 64.0 KiB, 25.2 MFLOP; limit operations
//       ends: a library product reads its operands from memory (layer.*.attention.score)
#include <stdio.h>
#include <string.h>

#include "frontend/report/step_facts.h"
#include "ir/base/hash.h"
#include "ir/base/stream.h"
#include "partition/explain/ledger.h"

enum { MOST_NAMES = 3 };

// -- equal instructions -------------------------------------------------------------------------

// Returns names with stars for numbers of rounds, each once.
static const char **starred(Arena *a, const char *const *name, uint32_t n, uint32_t *out) {
  const char **names = arena_array(a, const char *, n + 1);
  *out = 0;
  for (uint32_t i = 0; i < n; i++) {
    const char *one = name_with_stars(a, name[i]);
    bool before = false;
    for (uint32_t k = 0; k < *out && !before; k++) before = !strcmp(names[k], one);
    if (!before) names[(*out)++] = one;
  }
  return names;
}

static StepFact with_stars(Arena *a, const StepFact *x) {
  StepFact out = *x;
  StepEnd *end = arena_array(a, StepEnd, x->nends + 1);
  out.stored = starred(a, x->stored, x->nstored, &out.nstored);
  out.inside = starred(a, x->inside, x->ninside, &out.ninside);
  for (uint32_t i = 0; i < x->nends; i++) {
    end[i] = x->end[i];
    end[i].reader = starred(a, x->end[i].reader, x->end[i].n, &end[i].n);
  }
  out.end = end;
  return out;
}

// Returns a text that is equal for instructions of one row.
static const char *row_key(Arena *a, const StepFact *x) {
  const char *values = x->main ? x->main->op : "";
  for (uint32_t i = 0; i < x->nstored; i++) values = arena_printf(a, "%s %s", values, x->stored[i]);
  return arena_printf(a, "%s %s %u %u %s %s %lld %s %s", x->what, x->phase, x->pos.source,
                      x->pos.line, values, step_cost_text(a, x), (long long)x->runs, x->limit,
                      step_ends_text(a, x));
}

static void join(StepFact *row, const StepFact *x) {
  row->count++;
  row->predicted += x->predicted;
  if (x->measured >= 0) row->measured += x->measured;
}

StepFacts *step_rows(const StepFacts *f) {
  Arena *a = f->a;
  uint32_t slots = 2 * f->n + 1;
  const char **key = arena_array(a, const char *, slots);
  uint32_t *row = arena_array(a, uint32_t, slots), *first = arena_array(a, uint32_t, f->n + 1);
  StepFacts *out = arena_new_of(a, StepFacts);
  *out = *f;
  out->n = 0;
  out->at = arena_array(a, StepFact, f->n + 1);
  for (uint32_t i = 0; i < f->n; i++) {
    StepFact x = with_stars(a, &f->at[i]);
    const char *own = row_key(a, &x);
    uint32_t at = (uint32_t)(fnv_text(own) % slots);
    while (key[at] && strcmp(key[at], own)) at = (at + 1) % slots;
    if (key[at]) {
      join(&out->at[row[at]], &x);
    } else {
      key[at] = own;
      row[at] = out->n;
      first[out->n] = i;
      out->at[out->n++] = x;
    }
    f->at[i].alike = first[row[at]];
  }
  return out;
}

// -- one instruction ----------------------------------------------------------------------------

static const char *names_text(Arena *a, const char *const *name, uint32_t n) {
  const char *text = "";
  for (uint32_t i = 0; i < n && i < MOST_NAMES; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", name[i]);
  return n > MOST_NAMES ? arena_printf(a, "%s and %u more", text, n - MOST_NAMES) : text;
}

const char *step_values_text(Arena *a, const StepFact *x) {
  if (x->nstored) return names_text(a, x->stored, x->nstored);
  return x->main ? x->main->op : "no value of the model";
}

const char *step_cost_text(Arena *a, const StepFact *x) {
  const char *text = "moves nothing";
  if (x->sent)
    text = arena_printf(a, "sends %s", bytes_text(a, x->sent));
  else if (x->bytes)
    text = arena_printf(a, "reads %s, writes %s", bytes_text(a, x->bytes - x->written),
                        bytes_text(a, x->written));
  return x->flops ? arena_printf(a, "%s, %s", text, flops_text(a, (double)x->flops)) : text;
}

const char *step_ends_text(Arena *a, const StepFact *x) {
  const char *text = "";
  for (uint32_t i = 0; i < x->nends; i++) {
    const StepEnd *e = &x->end[i];
    text = arena_printf(a, "%s%s%s", text, i ? "; " : "", e->why);
    if (e->n) text = arena_printf(a, "%s (%s)", text, names_text(a, e->reader, e->n));
  }
  return text;
}

// -- the text -----------------------------------------------------------------------------------

static bool matches(const StepFact *x, const char *pattern) {
  for (uint32_t i = 0; i < x->nstored; i++)
    if (name_matches(pattern, x->stored[i])) return true;
  for (uint32_t i = 0; i < x->ninside; i++)
    if (name_matches(pattern, x->inside[i])) return true;
  return false;
}

static StepFacts *matching(const StepFacts *f, const char *pattern) {
  StepFacts *out = arena_new_of(f->a, StepFacts);
  *out = *f;
  out->n = 0;
  out->at = arena_array(f->a, StepFact, f->n + 1);
  for (uint32_t i = 0; i < f->n; i++)
    if (matches(&f->at[i], pattern)) out->at[out->n++] = f->at[i];
  return out;
}

static const char *place_of(const StepFacts *f, Pos pos) {
  const char *file = pos.source ? diag_source_name(f->diag, pos.source) : f->model;
  return pos.line ? arena_printf(f->a, "  %s:%u", file, pos.line) : "";
}

static void print_row(FILE *out, const StepFacts *f, const StepFact *x) {
  Arena *a = f->a;
  int64_t runs = x->runs * x->count;
  const char *ends = step_ends_text(a, x);
  fprintf(out, "%-14s %-6s %10s %5.1f %%  %-8s %s%s\n", x->what,
          runs > 1 ? arena_printf(a, "x%lld", (long long)runs) : "", seconds_text(a, x->predicted),
          f->seconds > 0 ? 100 * x->predicted / f->seconds : 0, x->phase, step_values_text(a, x),
          place_of(f, x->pos));
  fprintf(out, "    %s; limit %s", step_cost_text(a, x), x->limit);
  if (x->ninside) fprintf(out, "; inside: %s", names_text(a, x->inside, x->ninside));
  fprintf(out, "\n");
  if (*ends) fprintf(out, "    ends: %s\n", ends);
}

// Prints the predicted seconds by what limits them.
static void print_limits(FILE *out, const StepFacts *f) {
  static const Limit limits[] = {LIMIT_BYTES, LIMIT_OPERATIONS, LIMIT_LATENCY};
  fprintf(out, "limits:");
  for (size_t i = 0; i < countof(limits); i++) {
    double seconds = 0;
    for (uint32_t k = 0; k < f->n; k++)
      if (f->at[k].limit == limit_texts[limits[i]]) seconds += f->at[k].predicted;
    fprintf(out, "%s %s %s", i ? "," : "", limit_texts[limits[i]], seconds_text(f->a, seconds));
  }
  fprintf(out, "\n");
}

const char *step_facts_text(const StepFacts *f, const char *pattern, bool each) {
  const StepFacts *some = pattern ? matching(f, pattern) : f, *rows = each ? some : step_rows(some);
  if (!some->n) return NULL;
  TextStream s;
  FILE *out = stream_begin(&s);
  fprintf(out, "%u instruction%s in %u row%s; predicted step %s\n", some->n, plural(some->n),
          rows->n, plural(rows->n), seconds_text(f->a, f->seconds));
  for (uint32_t i = 0; i < rows->n; i++) print_row(out, f, &rows->at[i]);
  print_limits(out, some);
  return stream_end(&s, f->a);
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *names_json(const char *const *name, uint32_t n) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(out, json_text(name[i]));
  return out;
}

json_t *reason_json(Arena *a, const char *name, const char *why) {
  char *word = arena_printf(a, "%s", name);
  for (char *c = word; *c; c++)
    if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
  return json_pack("{s:s, s:s}", "reason", word, "why", why);
}

static json_t *ends_json(Arena *a, const StepFact *x) {
  json_t *out = json_array();
  for (uint32_t i = 0; i < x->nends; i++) {
    const StepEnd *e = &x->end[i];
    json_t *one = reason_json(a, e->name, e->why);
    json_object_set_new(one, "readers", names_json(e->reader, e->n));
    json_array_append_new(out, one);
  }
  return out;
}

static json_t *fact_json(Arena *a, const StepFact *x) {
  json_t *out = json_object();
  json_object_set_new(out, "kind", json_string(x->kind));
  if (x->kernel) json_object_set_new(out, "kernel", json_string(x->kernel));
  json_object_set_new(out, "value", json_text(x->name));
  if (x->pos.line) json_object_set_new(out, "line", json_integer(x->pos.line));
  if (x->main) json_object_set_new(out, "op", json_string(x->main->op));
  json_object_set_new(out, "bytes", json_integer(x->bytes));
  json_object_set_new(out, "flops", json_integer(x->flops));
  json_object_set_new(out, "phase", json_string(x->phase));
  json_object_set_new(out, "values", names_json(x->stored, x->nstored));
  json_object_set_new(out, "inside", names_json(x->inside, x->ninside));
  json_object_set_new(out, "written", json_integer(x->written));
  json_object_set_new(out, "sent", json_integer(x->sent));
  json_object_set_new(out, "runs", json_integer(x->runs));
  json_object_set_new(out, "predicted_seconds", json_real(x->predicted));
  if (x->measured >= 0) json_object_set_new(out, "measured_seconds", json_real(x->measured));
  json_object_set_new(out, "limit", json_string(x->limit));
  json_object_set_new(out, "ends", ends_json(a, x));
  json_object_set_new(out, "alike", json_integer(x->alike));
  return out;
}

json_t *step_facts_json(const StepFacts *f) {
  (void)step_rows(f); // sets StepFact.alike
  json_t *out = json_array();
  for (uint32_t i = 0; i < f->n; i++) json_array_append_new(out, fact_json(f->a, &f->at[i]));
  return out;
}
