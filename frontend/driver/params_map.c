// Translates names between a model and its parameter files, by the file of --map.
//
// Each line has a pattern for names in the model and one for names in the file:
// `layer.{i}.wq = h.{i}.attn.q.weight`. {i} is a hole: in the model's name it matches any text
// without a dot, and in the file's name it stands for the text that it matched.
#include "frontend/driver/params_internal.h"

#include <errno.h>
#include <string.h>

enum { MAX_HOLES = 8 };
typedef struct Hole {
  const char *name, *text;
  size_t name_bytes, bytes;
} Hole;

// Returns the pattern with each {i} replaced by the text that the hole of that name matched. A hole
// is a {NAME} in a pattern of --map. Returns NULL if a name is not among the n holes.
static const char *fill(Arena *a, const char *pattern, int n, const Hole *hole) {
  VEC(char) out = {0};
  for (const char *c = pattern; *c;) {
    const char *end = *c == '{' ? strchr(c, '}') : NULL;
    if (!end) {
      vec_push(a, out) = *c++;
      continue;
    }
    int k = 0;
    while (k < n && !(hole[k].name_bytes == (size_t)(end - c - 1) &&
                      memcmp(hole[k].name, c + 1, hole[k].name_bytes) == 0))
      k++;
    if (k == n) return NULL;
    for (size_t i = 0; i < hole[k].bytes; i++) vec_push(a, out) = hole[k].text[i];
    c = end + 1;
  }
  vec_push(a, out) = '\0';
  return out.at;
}

// Returns whether the pattern matches `name`, and stores the text that each hole (a {NAME} in the
// pattern) matches. A hole matches all characters up to the next dot.
static bool match(const char *pattern, const char *name, Hole *hole, int *n) {
  for (*n = 0; *pattern;) {
    const char *end = *pattern == '{' ? strchr(pattern, '}') : NULL;
    if (!end) {
      if (*pattern++ != *name++) return false;
      continue;
    }
    size_t bytes = strcspn(name, ".");
    if (*n == MAX_HOLES || bytes == 0) return false;
    hole[(*n)++] = (Hole){.name = pattern + 1,
                          .name_bytes = (size_t)(end - pattern - 1),
                          .text = name,
                          .bytes = bytes};
    name += bytes;
    pattern = end + 1;
  }
  return *name == '\0';
}

const char *params_name(const Session *s, const ParamMap *m, const char *name) {
  for (uint32_t i = 0; i < m->n; i++) {
    Hole hole[MAX_HOLES];
    int n;
    if (!match(m->at[i].model, name, hole, &n)) continue;
    const char *other = fill(s->arena, m->at[i].file, n, hole);
    if (other) return other;
  }
  return name;
}

static const char *trimmed(Arena *a, const char *from, const char *end) {
  while (from < end && (*from == ' ' || *from == '\t')) from++;
  while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
  return arena_text(a, from, (size_t)(end - from));
}

static bool has_hole(const char *pattern, const char *hole, size_t n) {
  for (const char *c = pattern; (c = strchr(c, '{')); c++)
    if (strncmp(c, hole, n) == 0) return true;
  return false;
}

// Checks that every hole such as {i} in the pattern for the file also occurs in the pattern for the
// model. Returns false after an error.
static bool holes_known(Session *s, const MapLine *line, Pos pos) {
  for (const char *c = line->file; (c = strchr(c, '{')); c++) {
    size_t n = strcspn(c, "}") + 1;
    if (c[n - 1] == '}' && has_hole(line->model, c, n)) continue;
    return diag_error(s->diag, DIAG_FILE_MALFORMED, pos, "%.*s does not occur on the left side",
                      (int)n, c);
  }
  return true;
}

// Warns about a line whose left side is the name of no parameter or state of the model. Names of
// the optimizer's state are those of a training step, which may not be known yet.
static void warn_unmatched(Session *s, const MapLine *line, Pos pos) {
  const Graph *g = s->model ? s->model->graph : NULL;
  if (!g || params_of_optimizer(line->model)) return;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    Hole hole[MAX_HOLES];
    int n;
    const Decl *d = &g->decl.at[i];
    if ((d->kind == DECL_PARAM || d->kind == DECL_STATE) && match(line->model, d->name, hole, &n))
      return;
  }
  diag_warning(s->diag, DIAG_MAP_UNUSED, pos, "no parameter or state of the model is named %s",
               line->model);
}

static bool read_map_line(Session *s, ParamMap *m, uint32_t source, uint32_t line, const char *text,
                          const char *end) {
  const char *comment = memchr(text, '#', (size_t)(end - text));
  if (comment) end = comment;
  const char *equals = memchr(text, '=', (size_t)(end - text));
  if (!*trimmed(s->arena, text, end)) return true;
  Pos pos = {.source = source, .line = line, .col = 1, .len = 1};
  if (!equals || !*trimmed(s->arena, text, equals) || !*trimmed(s->arena, equals + 1, end))
    return diag_error(s->diag, DIAG_FILE_MALFORMED, pos, "expected a line NAME = NAME IN THE FILE");
  MapLine *new = &vec_push(s->arena, *m);
  *new = (MapLine){trimmed(s->arena, text, equals), trimmed(s->arena, equals + 1, end)};
  if (!holes_known(s, new, pos)) return false;
  warn_unmatched(s, new, pos);
  return true;
}

bool params_map(Session *s, ParamMap *out) {
  *out = (ParamMap){0};
  const OptionUse *use = option_use(s->opt, OPTION_MAP);
  if (!use) return true;
  size_t n;
  const char *text = file_text(s->arena, use->text, &n);
  if (!text)
    return diag_error(s->diag, DIAG_FILE_MISSING, use->pos, "cannot read %s: %s", use->text,
                      strerror(errno));
  digest_text(use->text, text, n);
  uint32_t source = diag_source(s->diag, use->text, text, n), line = 1;
  bool good = true;
  for (const char *at = text; at < text + n; line++) {
    const char *end = memchr(at, '\n', (size_t)(text + n - at));
    if (!end) end = text + n;
    good &= read_map_line(s, out, source, line, at, end);
    at = end + 1;
  }
  return good;
}
