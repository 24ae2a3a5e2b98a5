// The parser: makes a tree (Ast) from tokens, by recursive descent with a limit on nesting.
// frontend/model builds the graph from the tree.
//
// parse_expr.c parses expressions, parse_stmt.c statements. This file has the functions that both
// need, and the entry points of ast.h.
#include "frontend/syntax/parse_internal.h"

#include <string.h>

Token *parser_peek(const Parser *p) { return &p->token[p->at]; }

Token *parser_ahead(const Parser *p, uint32_t n) {
  Token *t = &p->token[p->at];
  while (n-- && t->kind != TOKEN_EOF) t++;
  return t;
}

void parser_start(Parser *p) {
  p->start = p->at;
  parser_peek(p)->starts = true;
}

Token *parser_take(Parser *p) {
  Token *t = parser_peek(p);
  if (t->kind != TOKEN_EOF) p->at++;
  return t;
}

bool parser_at(const Parser *p, TokenKind kind) { return parser_peek(p)->kind == kind; }

bool parser_at_word(const Parser *p, const char *word) {
  const Token *t = parser_peek(p);
  return t->kind == TOKEN_NAME && strcmp(t->text, word) == 0;
}

// Returns true if a line end before the next token ends the current statement.
static bool line_ended(const Parser *p) {
  return parser_peek(p)->newline && p->open == 0 && p->at != p->start &&
         !token_row[p->token[p->at - 1].kind].continues;
}

bool parser_at_end(const Parser *p) {
  const Token *t = parser_peek(p);
  return t->kind == TOKEN_EOF || t->kind == TOKEN_SEMICOLON || t->kind == TOKEN_UNBRACE ||
         line_ended(p);
}

bool parser_accept(Parser *p, TokenKind kind) {
  bool ends = kind == TOKEN_SEMICOLON || kind == TOKEN_UNBRACE;
  if (!parser_at(p, kind) || (!ends && line_ended(p))) return false;
  parser_take(p);
  return true;
}

Pos token_pos(const Parser *p, const Token *t) {
  return (Pos){.source = p->source, .line = t->line, .col = t->col, .len = t->len ? t->len : 1};
}

// Returns the position right after the previous token, on the line of that token.
static Pos behind(const Parser *p) {
  const Token *t = &p->token[p->at ? p->at - 1 : 0];
  return (Pos){.source = p->source, .line = t->line, .col = t->col + t->len, .len = 1};
}

bool parser_expected(Parser *p, const char *what) {
  const Token *t = parser_peek(p);
  if (t->kind == TOKEN_BAD) return diag_close(p->d); // the lexer has reported it
  if (line_ended(p))
    diag_error(p->d, DIAG_SYNTAX, behind(p), "expected %s, found the end of the line", what);
  else if (t->kind == TOKEN_EOF)
    diag_error(p->d, DIAG_SYNTAX, behind(p), "expected %s, found the end of the text", what);
  else
    diag_error(p->d, DIAG_SYNTAX, token_pos(p, t), "expected %s, found '%.*s'", what,
               t->bytes > 40 ? 40 : (int)t->bytes, p->text + t->at);
  return false;
}

bool parser_expect(Parser *p, TokenKind kind, const char *what) {
  return parser_accept(p, kind) || parser_expected(p, what);
}

bool parser_is_new(Parser *p, const Token *t) {
  if (!strchr(t->text, '.')) return true;
  diag_error(p->d, DIAG_SYNTAX, token_pos(p, t), "'%s' cannot be a new name: it has a dot",
             t->text);
  return diag_hint(p->d, "full names come from the scopes of calls and loops");
}

const Token *parser_new_name(Parser *p, const char *what) {
  const Token *t = parser_name(p, what);
  return t && parser_is_new(p, t) ? t : NULL;
}

const Token *parser_name(Parser *p, const char *what) {
  if (parser_at(p, TOKEN_NAME) && !parser_at_end(p)) return parser_take(p);
  parser_expected(p, what);
  return NULL;
}

bool parser_enter(Parser *p) {
  if (p->depth < MAX_DEPTH) {
    p->depth++;
    return true;
  }
  return diag_error(p->d, DIAG_TOO_DEEP, token_pos(p, parser_peek(p)), "more than %d nested levels",
                    MAX_DEPTH);
}

void parser_leave(Parser *p) { p->depth--; }

Ast *ast_new(Parser *p, AstKind kind, Pos pos) {
  Ast *t = arena_new_of(p->a, Ast);
  t->kind = kind;
  t->pos = t->end = pos;
  return t;
}

// Returns list `at`, which has n items of `item` bytes, with room for one more. The list is full if
// n is 0 or a power of two; then it is copied to one of twice the size.
static void *grown(Arena *a, void *at, uint32_t n, size_t item) {
  if (n & (n - 1)) return at;
  void *more = arena_alloc(a, item * (n ? 2 * (size_t)n : 1));
  if (n) memcpy(more, at, item * n);
  return more;
}

bool ast_add(Parser *p, Ast *t, Ast *kid) {
  t->kids = grown(p->a, t->kids, t->nkids, sizeof *t->kids);
  t->kids[t->nkids++] = kid;
  return kid != NULL;
}

void ast_add_arg(Parser *p, Ast *t, AstArg arg) {
  t->args = grown(p->a, t->args, t->nargs, sizeof *t->args);
  t->args[t->nargs++] = arg;
}

void ast_add_dim(Parser *p, Ast *t, const Token *name, bool arrow) {
  t->dims = grown(p->a, t->dims, t->ndims, sizeof *t->dims);
  t->dims[t->ndims++] = (AstDim){.name = name->text, .arrow = arrow, .pos = token_pos(p, name)};
}

Ast *ast_end(Parser *p, Ast *t) {
  const Token *last = &p->token[p->at ? p->at - 1 : 0];
  t->end = token_pos(p, last);
  t->end.col += t->end.len - 1;
  t->end.len = 1;
  return t;
}

Parser parser_new(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n,
                  Tokens *tokens) {
  lex(tokens, a, names, d, source, text, n);
  return (Parser){
      .a = a, .names = names, .d = d, .source = source, .text = text, .token = tokens->token.at};
}

Ast *parse_file(Parser *p) {
  Ast *file = ast_new(p, AST_FILE, (Pos){.source = p->source, .line = 1, .col = 1, .len = 1});
  parse_statements(p, file);
  return ast_end(p, file);
}

Ast *ast_parse(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n) {
  Tokens tokens;
  Parser p = parser_new(a, names, d, source, text, n, &tokens);
  return parse_file(&p);
}

Ast *ast_parse_expression(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
                          size_t n) {
  Tokens tokens;
  Parser p = parser_new(a, names, d, source, text, n, &tokens);
  p.open = 1; // line ends do not end the expression
  Ast *t = parse_expr(&p);
  if (t && !parser_at(&p, TOKEN_EOF)) parser_expected(&p, "the end of the value");
  return t ? t : ast_new(&p, AST_LIST, token_pos(&p, parser_peek(&p)));
}
