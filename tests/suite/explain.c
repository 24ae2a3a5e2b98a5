// Runs `explain` on every model of examples and tests/models: under its own layout, with its first
// dim split, and the larger models under layouts that a user would write. It checks that
//   the JSON has every field, and its sums are those of `check`;
//   the page is well-formed, refers to no other file, and its drawings have no overlaps;
//   the DOT text is well-formed;
//   every form is the same in a second run;
//   names and paths cannot break out of the quoting of any form.
// Ends in `N passed, N failed, N skipped`.
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/arena.h"
#include "tests/suite/common/command.h"
#include "tests/suite/common/drawings.h"

static Arena *arena;
static int passed, failed, skipped;
static const char *meshc;

static bool fault(const char *run, const char *fmt, ...) PRINTF_LIKE(2, 3);
static bool fault(const char *run, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  printf("FAIL %s: ", run);
  vprintf(fmt, ap);
  printf("\n");
  va_end(ap);
  return false;
}

static void count(bool good) { *(good ? &passed : &failed) += 1; }

// -- pages: tags, attributes, no other addresses ------------------------------------------------

static bool is_void(const char *tag) { return !strcmp(tag, "meta") || !strcmp(tag, "input"); }

typedef struct Page {
  const char *run, *at;
  VEC(const char *) open;
} Page;

static const char *skip_to(Page *p, const char *end) {
  const char *found = strstr(p->at, end);
  p->at = found ? found + strlen(end) : p->at + strlen(p->at);
  return found;
}

// Reads name="value". The value must be quoted and must not be an address.
static bool read_attribute(Page *p) {
  p->at += strspn(p->at, " ");
  size_t n = strspn(p->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-");
  if (!n || strncmp(p->at + n, "=\"", 2) != 0)
    return fault(p->run, "an attribute that is not name=\"value\" at %.60s", p->at);
  const char *name = p->at;
  p->at += n + 2;
  size_t length = strcspn(p->at, "\"<");
  if (p->at[length] != '"') return fault(p->run, "an attribute without end at %.60s", name);
  bool address = (n == 4 && !strncmp(name, "href", 4)) || (n == 3 && !strncmp(name, "src", 3));
  if (address && *p->at != '#') return fault(p->run, "an address outside the page: %.60s", name);
  if (n > 2 && !strncmp(name, "on", 2))
    return fault(p->run, "a handler in an attribute: %.60s", name);
  p->at += length + 1;
  return true;
}

static bool read_tag(Page *p) {
  const char *start = p->at++;
  bool end = *p->at == '/';
  p->at += end;
  size_t n = 0;
  while (isalnum((unsigned char)p->at[n])) n++;
  if (!n) return fault(p->run, "a tag without a name at %.60s", start);
  const char *tag = arena_text(arena, p->at, n);
  p->at += n;
  while (*p->at && *p->at != '>' && *p->at != '/')
    if (!read_attribute(p)) return false;
  bool closed = *p->at == '/';
  if (!skip_to(p, ">")) return fault(p->run, "a tag without end at %.60s", start);
  if (end) {
    if (!p->open.n || strcmp(p->open.at[p->open.n - 1], tag) != 0)
      return fault(p->run, "</%s> within <%s>", tag, p->open.n ? p->open.at[p->open.n - 1] : "");
    p->open.n--;
    return true;
  }
  if (closed || is_void(tag)) return true;
  if (!strcmp(tag, "script") || !strcmp(tag, "style"))
    return skip_to(p, !strcmp(tag, "script") ? "</script>" : "</style>") ||
           fault(p->run, "a %s without end", tag);
  vec_push(arena, p->open) = tag;
  return true;
}

static bool page_holds(const char *run, const char *text) {
  Page p = {.run = run, .at = text};
  if (strstr(text, "http:") || strstr(text, "https:") || strstr(text, "@import") ||
      strstr(text, "url("))
    return fault(run, "the page wants something from elsewhere");
  if (strncmp(text, "<!DOCTYPE html>", 15) != 0) return fault(run, "no document type");
  p.at += 15;
  while (*p.at) {
    p.at += strcspn(p.at, "<&");
    if (*p.at == '&' && strncmp(p.at, "&lt;", 4) && strncmp(p.at, "&gt;", 4) &&
        strncmp(p.at, "&amp;", 5) && strncmp(p.at, "&quot;", 6) && strncmp(p.at, "&#39;", 5))
      return fault(run, "a bare & at %.60s", p.at);
    if (*p.at == '&') p.at++;
    if (*p.at == '<' && !read_tag(&p)) return false;
  }
  return !p.open.n || fault(run, "<%s> without end", p.open.at[p.open.n - 1]);
}

// Checks every drawing of a page: boxes do not overlap, and edges cross no box except their ends. A
// page must have at least one drawing with a box.
static bool page_drawn(const char *run, const char *text) {
  uint32_t boxes = 0, edges = 0;
  const char *wrong = drawings_fault(arena, text, &boxes, &edges);
  if (wrong) return fault(run, "%s", wrong);
  return boxes || fault(run, "no drawing");
}

// Checks that the page's facts for its script are JSON and list as many values as the page has
// rows.
static bool page_facts(const char *run, const char *text) {
  if (!page_drawn(run, text)) return false;
  const char *from = strstr(text, "id=\"facts\">"), *end = from ? strstr(from, "</script>") : NULL;
  if (!end) return fault(run, "no facts for the script");
  from += strlen("id=\"facts\">");
  json_t *facts = json_loadb(from, (size_t)(end - from), 0, NULL);
  size_t rows = 0, values = json_array_size(json_object_get(facts, "values"));
  for (const char *at = text; (at = strstr(at, "<tr class=\"value\"")); at++) rows++;
  bool good = facts != NULL;
  json_decref(facts);
  return good ? rows == values ||
                    fault(run, "%zu values in the table, %zu for the script", rows, values)
              : fault(run, "the facts are no JSON");
}

// -- DOT: quotes in pairs, braces in pairs, edges between boxes that exist ----------------------

static bool dot_holds(const char *run, const char *text) {
  int depth = 0, boxes = 0;
  bool quoted = false;
  for (const char *at = text; *at; at++) {
    if (quoted && *at == '\\' && at[1]) {
      at++;
      continue;
    }
    if (*at == '"') quoted = !quoted;
    if (quoted && *at == '\n') return fault(run, "a line ends within quotes");
    if (!quoted) depth += (*at == '{') - (*at == '}');
  }
  if (quoted || depth) return fault(run, "quotes or braces are not in pairs");
  for (const char *line = text; (line = strchr(line, '\n')); line++) {
    int from, to;
    const char *word = line + 1 + strspn(line + 1, " ");
    if (sscanf(word, "v%d -> v%d", &from, &to) == 2 && (from >= boxes || to >= boxes))
      return fault(run, "an edge to a box that is not there: %.40s", word);
    if (sscanf(word, "v%d [", &from) == 1 &&
        strncmp(word + strspn(word, "v0123456789"), " [label", 7) == 0)
      boxes++;
  }
  return !strncmp(text, "digraph \"", 9) || fault(run, "no digraph");
}

// -- JSON ---------------------------------------------------------------------------------------

typedef struct Field {
  const char *name;
  json_type type;
} Field;
static const Field top[] = {{"schema", JSON_STRING},
                            {"model", JSON_STRING},
                            {"for", JSON_STRING},
                            {"mesh", JSON_OBJECT},
                            {"layout", JSON_OBJECT},
                            {"rules", JSON_ARRAY},
                            {"collectives", JSON_ARRAY},
                            {"lines", JSON_ARRAY},
                            {"totals", JSON_ARRAY},
                            {"calls", JSON_INTEGER},
                            {"wire_bytes", JSON_INTEGER},
                            {"predicted_seconds", JSON_REAL},
                            {"step_seconds", JSON_REAL},
                            {"predicted", JSON_OBJECT},
                            {"flops", JSON_INTEGER},
                            {"flops_whole", JSON_INTEGER},
                            {"redundant_flops", JSON_REAL},
                            {"padding", JSON_REAL},
                            {"kernels", JSON_INTEGER},
                            {"memory", JSON_OBJECT},
                            {"memory_over_step", JSON_OBJECT},
                            {"values", JSON_ARRAY},
                            {"text", JSON_STRING}};
static const Field of_rule[] = {{"text", JSON_STRING},        {"scope", JSON_STRING},
                                {"axes", JSON_ARRAY},         {"calls", JSON_INTEGER},
                                {"wire_bytes", JSON_INTEGER}, {"without", JSON_OBJECT}};
static const Field of_call[] = {{"kind", JSON_STRING},        {"axes", JSON_ARRAY},
                                {"bytes", JSON_INTEGER},      {"wire_bytes", JSON_INTEGER},
                                {"times", JSON_INTEGER},      {"value", JSON_STRING},
                                {"why", JSON_STRING},         {"predicted_seconds", JSON_REAL},
                                {"parts", JSON_ARRAY},        {"remedy", JSON_STRING},
                                {"ledger_line", JSON_INTEGER}};
static const Field of_part[] = {{"value", JSON_STRING},
                                {"bytes", JSON_INTEGER},
                                {"user", JSON_STRING},
                                {"has", JSON_OBJECT},
                                {"requested", JSON_OBJECT}};
static const Field of_side[] = {{"sharding", JSON_STRING}, {"dims", JSON_ARRAY}};
static const Field of_total[] = {{"axes", JSON_ARRAY},
                                 {"group", JSON_INTEGER},
                                 {"calls", JSON_INTEGER},
                                 {"wire_bytes", JSON_INTEGER},
                                 {"predicted_seconds", JSON_REAL}};
static const Field of_value[] = {
    {"name", JSON_STRING},      {"kind", JSON_STRING},     {"dtype", JSON_STRING},
    {"computed", JSON_STRING},  {"sharding", JSON_STRING}, {"because", JSON_STRING},
    {"dims", JSON_ARRAY},       {"bytes", JSON_INTEGER},   {"bytes_per_processor", JSON_INTEGER},
    {"collectives", JSON_ARRAY}};
static const Field of_dim[] = {
    {"dim", JSON_STRING}, {"size", JSON_INTEGER}, {"block", JSON_INTEGER}, {"axes", JSON_ARRAY}};

static bool has_fields(const char *run, const json_t *object, const char *what, size_t n,
                       const Field *field) {
  for (size_t i = 0; i < n; i++) {
    const json_t *x = json_object_get(object, field[i].name);
    if (x && json_typeof(x) == field[i].type) continue;
    return fault(run, "%s: the field %s is %s", what, field[i].name,
                 x ? "of another type" : "missing");
  }
  return true;
}
#define FIELDS(run, object, what, fields) has_fields(run, object, what, countof(fields), fields)

static int64_t number(const json_t *object, const char *name) {
  return (int64_t)json_integer_value(json_object_get(object, name));
}
static json_t *list(const json_t *object, const char *name) {
  return json_object_get(object, name);
}

static bool all_have(const char *run, const json_t *array, const char *what, size_t n,
                     const Field *field) {
  size_t i;
  json_t *one;
  json_array_foreach((json_t *)(uintptr_t)array, i,
                     one) if (!has_fields(run, one, what, n, field)) return false;
  return true;
}

static bool call_holds(const char *run, const json_t *call) {
  size_t i;
  json_t *part;
  int64_t bytes = 0;
  if (!FIELDS(run, call, "a collective", of_call)) return false;
  json_array_foreach(list(call, "parts"), i, part) {
    const json_t *has = list(part, "has"), *wants = list(part, "requested");
    if (!FIELDS(run, part, "a part", of_part) || !FIELDS(run, has, "a side", of_side) ||
        !FIELDS(run, wants, "a side", of_side))
      return false;
    if (!all_have(run, list(has, "dims"), "a dim", countof(of_dim), of_dim)) return false;
    bytes += number(part, "bytes");
  }
  // The bytes of a part, and those of a call, are of the processor that sends most of it. In
  // permutes this may be another one for each part.
  bool permutes =
      !strcmp(json_string_value(list(call, "kind")), "permute") && bytes > number(call, "bytes");
  return i > 0 && (permutes || bytes == number(call, "bytes") ||
                   fault(run, "%s: parts of %lld bytes in a call of %lld",
                         json_string_value(list(call, "value")), (long long)bytes,
                         (long long)number(call, "bytes")));
}

// Returns the sum of one field over a list, each entry multiplied by its field `times` (NULL: 1).
static int64_t sum_of(const json_t *array, const char *field, const char *times) {
  size_t i;
  json_t *one;
  int64_t sum = 0;
  json_array_foreach((json_t *)(uintptr_t)array, i, one) sum +=
      number(one, field) * (times ? number(one, times) : 1);
  return sum;
}

static bool same(const char *run, const char *what, int64_t got, int64_t want) {
  return got == want || fault(run, "%s: %lld, not %lld", what, (long long)got, (long long)want);
}

static bool memory_holds(const char *run, const json_t *facts) {
  const json_t *over = list(facts, "memory_over_step"), *live = list(over, "live");
  int64_t most = 0;
  size_t i;
  json_t *one;
  json_array_foreach((json_t *)(uintptr_t)live, i, one) if (json_integer_value(one) > most) most =
      json_integer_value(one);
  return same(run, "bytes of groups at the peak",
              sum_of(list(over, "groups_at_peak"), "bytes", NULL),
              sum_of(list(over, "alive_at_peak"), "bytes", NULL)) &&
         same(run, "bytes alive at the peak", sum_of(list(over, "alive_at_peak"), "bytes", NULL),
              most) &&
         (most + number(over, "persistent") <= number(list(facts, "memory"), "peak") ||
          fault(run, "more lives than the peak"));
}

static bool facts_hold(const char *run, const json_t *facts, const json_t *checked) {
  if (!FIELDS(run, facts, "explain", top)) return false;
  if (strcmp(json_string_value(list(facts, "schema")), "meshc.explain/2") != 0)
    return fault(run, "another schema");
  size_t i;
  json_t *one;
  int64_t wire = number(checked, "wire_bytes");
  bool good = all_have(run, list(facts, "rules"), "a rule", countof(of_rule), of_rule) &&
              all_have(run, list(facts, "totals"), "a total", countof(of_total), of_total) &&
              all_have(run, list(facts, "values"), "a value", countof(of_value), of_value);
  json_array_foreach(list(facts, "collectives"), i, one) good = good && call_holds(run, one);
  json_array_foreach(list(facts, "values"), i, one) good =
      good && all_have(run, list(one, "dims"), "a dim", countof(of_dim), of_dim);
  return good && same(run, "wire_bytes", number(facts, "wire_bytes"), wire) &&
         same(run, "totals", sum_of(list(facts, "totals"), "wire_bytes", NULL), wire) &&
         same(run, "lines", sum_of(list(facts, "lines"), "wire_bytes", NULL), wire) &&
         same(run, "calls", sum_of(list(facts, "collectives"), "wire_bytes", "times"), wire) &&
         same(run, "collectives", (int64_t)json_array_size(list(facts, "collectives")),
              (int64_t)json_array_size(list(checked, "collectives"))) &&
         same(run, "flops", number(facts, "flops"), number(checked, "flops")) &&
         same(run, "peak", number(list(facts, "memory"), "peak"),
              number(list(checked, "memory"), "peak")) &&
         memory_holds(run, facts);
}

// -- models -------------------------------------------------------------------------------------

static json_t *json_of(const char *run) {
  int code;
  char *text = command_output(arena, arena_printf(arena, "%s %s 2>/dev/null", meshc, run), &code),
       *object = strchr(text, '{');
  return code == 0 && object ? json_loads(object, 0, NULL) : NULL;
}

static char *form_of(const char *what, const char *form, int *code) {
  return command_output(
      arena, arena_printf(arena, "%s explain %s --format %s 2>/dev/null", meshc, what, form), code);
}

typedef bool Holds(const char *run, const char *text);

// Checks that one form of the output is valid and that a second run gives the same text. Returns
// it.
static const char *try_form(const char *what, const char *form, Holds *holds, Holds *more) {
  int code, again;
  const char *run = arena_printf(arena, "explain %s --format %s", what, form);
  char *text = form_of(what, form, &code), *other = form_of(what, form, &again);
  if (code || again)
    fault(run, "exit %d", code);
  else if (strcmp(text, other) != 0)
    fault(run, "not the same twice");
  count(!code && !again && !strcmp(text, other) && holds(run, text) && (!more || more(run, text)));
  return text;
}

static bool try_json(const char *what) {
  const char *run = arena_printf(arena, "explain %s", what);
  json_t *checked = json_of(arena_printf(arena, "check %s --json", what)),
         *facts = checked ? json_of(arena_printf(arena, "explain %s --json", what)) : NULL;
  if (!checked)
    skipped++; // explain has nothing to show for a model that check refuses
  else
    count(facts ? facts_hold(run, facts, checked) : fault(run, "no JSON"));
  bool good = facts != NULL;
  json_decref(checked);
  json_decref(facts);
  return good;
}

// Returns the page, or NULL if there is none.
static const char *try_all(const char *what) {
  if (!try_json(what)) return NULL;
  const char *page = try_form(what, "html", page_holds, page_facts);
  (void)try_form(what, "dot", dot_holds, NULL);
  return page;
}

static const char *first_dim(const char *model) {
  json_t *facts = json_of(arena_printf(arena, "check %s --layout none --json", model));
  const char *dim = facts ? json_object_iter_key(json_object_iter(list(facts, "dims"))) : NULL;
  if (dim) dim = arena_printf(arena, "%s", dim);
  json_decref(facts);
  return dim;
}

// What the kernels of a page move in bytes, what fusion saves, and what those kernels move that
// have several operations but save nothing.
typedef struct KernelBytes {
  double moved, saved, vain;
} KernelBytes;

static KernelBytes kernel_bytes(const char *page) {
  KernelBytes all = {0};
  for (const char *row = page; (row = strstr(row, "<tr id=\"kernel")); row++) {
    const char *at = row, *end = strstr(row, "</tr>");
    double number[4] = {0};
    for (int i = 0; i < 4 && (at = strstr(at, " data-n=\"")) && at < end; i++)
      number[i] = strtod(at += strlen(" data-n=\""), NULL);
    const char *kind = strstr(row, "<td>kernel</td>");
    if (!kind || kind > end) continue;
    all.moved += number[2];
    all.saved += number[3];
    if (number[1] > 1 && number[3] <= 0) all.vain += number[2];
  }
  return all;
}

// Checks that the bytes saved by fusion are the bytes that the step moves more without fusion. A
// kernel that rematerialises a value which another kernel stores may move more than its separate
// operations would: its saving is 0, not negative. So the sum may be too large by what such kernels
// move, and by nothing if there are none.
static void try_saved(const char *model, const char *page) {
  int code;
  const char *other = form_of(arena_printf(arena, "%s --no-fuse", model), "html", &code);
  KernelBytes fused = kernel_bytes(page), apart = kernel_bytes(other);
  if (code) return;
  double more = fused.moved + fused.saved - apart.moved, rounding = 1e-6 * apart.moved;
  count((apart.saved <= 0 && more >= -rounding && more <= fused.vain + rounding) ||
        fault(model, "kernels move %.0f bytes and save %.0f, without fusion they move %.0f",
              fused.moved, fused.saved, apart.moved));
}

static void try_model(const char *model) {
  ArenaMark mark = arena_mark(arena);
  const char *dim = first_dim(model);
  const char *page = try_all(model);
  if (page) try_saved(model, page);
  if (dim) (void)try_all(arena_printf(arena, "%s --mesh p=2 --layout %s=p", model, dim));
  arena_reset(arena, mark);
}

// -- limits and hostile names -------------------------------------------------------------------

static void try_large(void) {
  static const char *const runs[] = {
      "examples/gpt2.mesh --mesh rows=2,cols=2 --layout b=rows,heads=cols,ff=cols,vocab=cols",
      "examples/gpt.mesh --set depth=12 --mesh rows=2,cols=2 --layout "
      "b=rows,heads=cols,ff=cols,vocab=cols,soft/t=cols,optimizer/all=rows"};
  enum { MOST_BYTES = 1500000, MOST_LINES = 72, MOST_COLUMNS = 280 };
  for (size_t i = 0; i < countof(runs); i++) {
    int code;
    size_t bytes = strlen(form_of(runs[i], "html", &code));
    count((code == 0 && bytes < MOST_BYTES) ||
          fault(runs[i], "a page of %zu bytes, exit %d", bytes, code));
    const char *text = form_of(runs[i], "text", &code), *line = text;
    size_t lines = 0, longest = 0;
    for (; *line; lines++) {
      size_t n = strcspn(line, "\n");
      if (n > longest) longest = n;
      line += n + (line[n] == '\n');
    }
    count((lines <= MOST_LINES && longest <= MOST_COLUMNS) ||
          fault(runs[i], "%zu lines of up to %zu characters", lines, longest));
  }
}

// Checks that the clusters of DOT are nested as scopes are: "h.0" within "h".
static bool dot_nested(const char *run, const char *text) {
  enum { MOST_DEPTH = 32 };
  const char *label[MOST_DEPTH + 1] = {NULL};
  int depth = 0, deepest = 0;
  for (const char *line = text; (line = strchr(line, '\n')); line++) {
    const char *word = line + 1 + strspn(line + 1, " ");
    if (!strncmp(word, "subgraph ", 9) && depth < MOST_DEPTH) label[++depth] = NULL;
    if (!strncmp(word, "label=\"", 7) && depth)
      label[depth] = arena_text(arena, word + 7, strcspn(word + 7, "\""));
    if (*word == '}' && depth) depth--;
    if (depth > deepest) deepest = depth;
    const char *inner = depth > 1 ? label[depth] : NULL,
               *outer = depth > 1 ? label[depth - 1] : NULL;
    if (inner && *inner != '#' &&
        (strncmp(inner, outer, strlen(outer)) != 0 || inner[strlen(outer)] != '.'))
      return fault(run, "the cluster %s is within %s", inner, outer);
  }
  return deepest >= 2 || fault(run, "clusters are nested %d deep", deepest);
}

// Checks that Graphviz, where it is installed, accepts the text.
static void try_graphviz(const char *command) {
  int code;
  (void)command_output(arena, "command -v dot", &code);
  if (code) {
    skipped++;
    return;
  }
  const char *text = command_output(
      arena, arena_printf(arena, "%s %s | timeout 60 dot -Tsvg 2>&1", meshc, command), &code);
  count((!code && strstr(text, "</svg>")) || fault(command, "dot: exit %d, %.200s", code, text));
}

static void try_dot(void) {
  static const char *const runs[] = {"explain examples/gpt2.mesh --format dot",
                                     "dump examples/gpt2.mesh --stage lower --format dot",
                                     "dump examples/gpt2.mesh --stage fuse --format dot",
                                     "dump examples/gpt.mesh --stage fuse --format dot"};
  for (size_t i = 0; i < countof(runs); i++) {
    int code;
    const char *text =
        command_output(arena, arena_printf(arena, "%s %s 2>/dev/null", meshc, runs[i]), &code);
    count((!code || fault(runs[i], "exit %d", code)) && dot_holds(runs[i], text) &&
          dot_nested(runs[i], text));
  }
  try_graphviz(runs[0]);
  try_graphviz("dump examples/mlp.mesh --stage fuse --format dot");
}

// Tries a folder whose name contains the quotes and brackets of HTML, DOT and JSON.
static void try_hostile(void) {
  static const char model[] = "dim b = 4, h = 6\ninput x[b]\nparam w[b, h]\ny[h] = sum[b](x * "
                              "w)\noutput z = relu(y)\nmesh p = 2\nlayout b -> p\n";
  const char *folder = arena_printf(arena, "/tmp/meshc-explain-%ld", (long)getpid());
  const char *path =
      arena_printf(arena, "%s/\"><script>alert(1)<%%script>'\\\"];x -> y[\".mesh", folder);
  FILE *f = mkdir(folder, 0700) == 0 ? fopen(path, "w") : NULL;
  bool good = f && fputs(model, f) >= 0;
  if (f) good &= fclose(f) == 0;
  const char *quoted =
      arena_printf(arena, "%s/'\"><script>alert(1)<%%script>'\"'\"'\\\"];x -> y[\".mesh'", folder);
  int code;
  char *html = form_of(quoted, "html", &code);
  bool tags = strstr(html, "<script>alert") != NULL;
  count(good && !code && !tags && page_holds("a hostile path", html) &&
                page_facts("a hostile path", html)
            ? true
            : fault("a hostile path", "exit %d%s", code, tags ? ", a tag" : ""));
  char *dot = form_of(quoted, "dot", &code);
  count(!code && dot_holds("a hostile path, dot", dot) &&
        (!strstr(dot, "\n  x -> y") || fault("dot", "an edge from a path")));
  json_t *facts = json_of(arena_printf(arena, "explain %s --json", quoted));
  count((facts && !strcmp(json_string_value(list(facts, "model")), path)) ||
        fault("a hostile path, JSON", "not its path"));
  json_decref(facts);
  unlink(path);
  rmdir(folder);
}

int main(void) {
  arena = arena_new();
  meshc = command_program(arena);
  models_each(try_model);
  try_large();
  try_dot();
  try_hostile();
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  arena_free(arena);
  return failed != 0;
}
