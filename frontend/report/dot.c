// Writes DOT, the language of Graphviz: escapes the text of labels, and puts items into nested
// clusters that follow the dotted names of values.
#include "frontend/report/dot_internal.h"

#include <string.h>

enum { MOST_DEPTH = 12, INDENT = 2 };
static const char blanks[] = "                                ";

void dot_text(FILE *f, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') fputc('\\', f);
    fputc(c < 0x20 || c == 0x7f ? ' ' : c, f);
  }
}

const char *dot_path(Arena *a, const char *value, bool backward) {
  return backward ? arena_printf(a, "gradients.%s", value ? value : "") : value;
}

typedef struct Scope {
  const char *path; // the first `length` bytes are the name of the scope, such as "h.0"
  size_t length;
  // indices into Scopes.scope, 0 for none: the first and the last scope directly inside this one,
  // and the next scope with the same parent
  uint32_t first, last, next;
  VEC(uint32_t) item; // items directly inside the scope
} Scope;

typedef struct Scopes {
  Arena *a;
  FILE *f;
  DotItem *put;
  const void *context;
  VEC(Scope) scope; // scope 0 contains all others
} Scopes;

static uint32_t find_scope(Scopes *s, uint32_t parent, const char *path, size_t length) {
  for (uint32_t i = s->scope.at[parent].first; i; i = s->scope.at[i].next)
    if (s->scope.at[i].length == length && !strncmp(s->scope.at[i].path, path, length)) return i;
  uint32_t found = s->scope.n;
  vec_push(s->a, s->scope) = (Scope){.path = path, .length = length};
  Scope *p = &s->scope.at[parent];
  if (p->last)
    s->scope.at[p->last].next = found;
  else
    p->first = found;
  p->last = found;
  return found;
}

static void add_item(Scopes *s, uint32_t item, const char *path) {
  uint32_t scope = 0;
  int depth = 0;
  for (const char *dot = path ? strchr(path, '.') : NULL; dot && depth < MOST_DEPTH;
       dot = strchr(dot + 1, '.'), depth++)
    scope = find_scope(s, scope, path, (size_t)(dot - path));
  vec_push(s->a, s->scope.at[scope].item) = item;
}

// Writes scope number i (values whose dotted names begin alike) as a cluster: its items and the
// scopes inside it. The recursion is at most MOST_DEPTH deep.
static void put_scope(const Scopes *s, uint32_t i, int depth) {
  const Scope *scope = &s->scope.at[i];
  const char *outer = blanks + sizeof blanks - 1 - INDENT * depth, *inner = outer - INDENT;
  if (i) {
    fprintf(s->f, "%ssubgraph cluster_%u {\n%slabel=\"", outer, i, inner);
    for (size_t k = 0; k < scope->length; k++) dot_text(s->f, (const char[]){scope->path[k], '\0'});
    fprintf(s->f, "\"; style=rounded; color=\"#78909c\"\n");
  }
  for (uint32_t k = 0; k < scope->item.n; k++) s->put(s->f, s->context, scope->item.at[k], inner);
  for (uint32_t k = scope->first; k; k = s->scope.at[k].next) put_scope(s, k, depth + 1);
  if (i) fprintf(s->f, "%s}\n", outer);
}

void dot_scopes(FILE *f, uint32_t n, const char *const *path, DotItem *put, const void *context) {
  Scopes s = {.a = arena_new(), .f = f, .put = put, .context = context};
  vec_push(s.a, s.scope) = (Scope){.path = ""};
  for (uint32_t i = 0; i < n; i++) add_item(&s, i, path[i]);
  put_scope(&s, 0, 0);
  arena_free(s.a);
}
