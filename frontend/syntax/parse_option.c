// Parses the command-line form of a mesh and a layout:
//
//   rows=2,cols=4                                 or   rows:2;cols:4
//   b=rows+cols,optimizer/all=rows,soft/t=cols    or   b:rows+cols;...
//
// A scope, or `soft`, comes before a slash. The resulting tree equals that of the mesh or layout
// statement in a file.
#include "frontend/syntax/parse_internal.h"

#include <string.h>

// Adds a hint that shows the whole option with `=` in place of arrows: `b -> rows, h->cols` becomes
// b=rows,h=cols.
static void arrow_hint(Parser *p) {
  VEC(char) text = {0};
  for (const Token *t = p->token; t->kind != TOKEN_EOF; t++) {
    const char *from = t->kind == TOKEN_ARROW ? "=" : arena_text(p->a, p->text + t->at, t->bytes);
    while (*from) vec_push(p->a, text) = *from++;
  }
  vec_push(p->a, text) = '\0';
  diag_hint(p->d, "on the command line '=' stands for '->': --layout %s", text.at);
}

static bool separates(const Parser *p) {
  return parser_at(p, TOKEN_COMMA) || parser_at(p, TOKEN_SEMICOLON);
}

static bool parse_equals(Parser *p) {
  if (parser_at(p, TOKEN_ASSIGN) || parser_at(p, TOKEN_COLON)) return parser_take(p);
  parser_expected(p, "'='");
  if (parser_at(p, TOKEN_ARROW)) arrow_hint(p);
  return false;
}

static Ast *parse_axis(Parser *p) {
  const Token *name = parser_name(p, "AXIS=SIZE");
  if (!name || !parse_equals(p)) return NULL;
  Ast *t = ast_statement(p, AST_DEFINE, name);
  return ast_add(p, t, parse_expr(p)) ? ast_end(p, t) : NULL;
}

static Ast *parse_rule(Parser *p) {
  Ast *scope = NULL, *part;
  bool soft = false;
  while ((part = parse_scope(p, TOKEN_SLASH))) {
    bool is_soft = strcmp(part->text, "soft") == 0;
    soft |= is_soft;
    if (!is_soft) scope = part;
  }
  Ast *t = parse_rule_dim(p, scope, soft, "a rule: DIM=AXIS");
  if (!t) return NULL;
  if (!parse_equals(p)) {
    if (parser_at(p, TOKEN_EOF) || separates(p))
      diag_hint(p->d, "a rule is DIM=AXIS; two axes of a dim are joined by +: b=rows+cols");
    return NULL;
  }
  do {
    if (!parse_rule_axis(p, t)) return NULL;
  } while (parser_accept(p, TOKEN_PLUS));
  return ast_end(p, t);
}

static Ast *parse_items(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                        size_t n, AstKind kind, Ast *(*item)(Parser *)) {
  Tokens tokens;
  Parser p = parser_new(a, names, d, source, text, n, &tokens);
  p.open = 1; // line ends do not end the option
  Ast *t = ast_new(&p, kind, token_pos(&p, parser_peek(&p)));
  while (!parser_at(&p, TOKEN_EOF)) {
    Ast *one = item(&p);
    if (one) ast_add(&p, t, one);
    if (!one || !separates(&p)) break;
    parser_take(&p);
  }
  if (!parser_at(&p, TOKEN_EOF) && !diag_errors(d)) {
    parser_expected(&p, "',' or the end");
    if (parser_at(&p, TOKEN_STAR)) diag_hint(d, "two axes are joined by +: b=rows+cols");
  }
  return ast_end(&p, t);
}

// If a mesh consists of sizes only, such as "2x2", reports an error with the mesh in the correct
// form, with axis names, and returns true.
static bool only_sizes(Arena *a, Diag *d, uint32_t source, const char *text, size_t n) {
  static const char *const axes[] = {"rows", "cols", "depth"};
  const char *named = "";
  uint32_t count = 0;
  if (!n || strspn(text, "0123456789xX*, ") < n) return false;
  for (const char *c = text + strcspn(text, "0123456789"); *c && count < countof(axes); count++) {
    size_t digits = strspn(c, "0123456789");
    named = arena_printf(a, "%s%s%s=%.*s", named, count ? "," : "", axes[count], (int)digits, c);
    c += digits;
    c += strcspn(c, "0123456789");
  }
  diag_error(d, DIAG_BAD_MESH, (Pos){.source = source, .line = 1, .col = 1, .len = (uint32_t)n},
             "the axes of a mesh have names");
  diag_hint(d, "write --mesh %s", named);
  return true;
}

Ast *ast_parse_mesh(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n) {
  if (only_sizes(a, d, source, text, n)) return NULL;
  return parse_items(a, names, d, source, text, n, AST_MESH, parse_axis);
}

Ast *ast_parse_layout(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                      size_t n) {
  return parse_items(a, names, d, source, text, n, AST_LAYOUT, parse_rule);
}
