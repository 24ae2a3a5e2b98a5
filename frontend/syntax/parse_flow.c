// Parses the statements that compute: values, functions, loops and scans.
#include "frontend/syntax/parse_internal.h"

#include <string.h>

// -- values -------------------------------------------------------------------------------------
Ast *parse_update(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "the name of a state");
  Ast *t = name ? ast_statement(p, AST_UPDATE, name) : NULL;
  return t && parse_optional_dims(p, t) && parse_value(p, t) ? ast_end(p, t) : NULL;
}

Ast *parse_bind(Parser *p) {
  Ast *t = ast_statement(p, AST_BIND, parser_peek(p));
  do {
    if (!ast_add(p, t, parse_target(p))) return NULL;
  } while (parser_accept(p, TOKEN_COMMA));
  return parse_value(p, t) ? ast_end(p, t) : NULL;
}

// Parses TARGET = EXPRESSION. With `may_end` the expression may be missing; the second kid of the
// node is then NULL.
static Ast *parse_assigned(Parser *p, AstKind kind, bool may_end) {
  Ast *t = ast_statement(p, kind, parser_peek(p));
  if (!ast_add(p, t, parse_target(p))) return NULL;
  if (may_end && parser_at_end(p))
    ast_add(p, t, NULL);
  else if (!parse_value(p, t))
    return NULL;
  return ast_end(p, t);
}

Ast *parse_metric(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_assigned(p, AST_METRIC, false);
}

Ast *parse_output(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_assigned(p, AST_OUTPUT, true);
}

Ast *parse_yield(Parser *p, const Token *keyword) {
  (void)keyword;
  Ast *value = parse_expr(p);
  if (!value || !parse_word(p, "as", "yield h as hs collects h under the name hs")) return NULL;
  const Token *name = parser_new_name(p, "a new name");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_YIELD, name);
  ast_add(p, t, value);
  return parse_optional_dims(p, t) ? ast_end(p, t) : NULL;
}

Ast *parse_return(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_RETURN, keyword);
  do {
    if (!ast_add(p, t, parse_expr(p))) return NULL;
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_end(p, t);
}

static Ast *no_import(Parser *p) {
  parser_expected(p, "the file's name in quotes");
  diag_hint(p->d, "built-in functions need no import; import \"file.mesh\" reads the functions of "
                  "another model file");
  return NULL;
}

Ast *parse_import(Parser *p, const Token *keyword) {
  (void)keyword;
  if (parser_at_end(p) || !parser_at(p, TOKEN_STRING)) return no_import(p);
  return ast_end(p, ast_statement(p, AST_IMPORT, parser_take(p)));
}
// -- functions and repetition -------------------------------------------------------------------

static bool parse_formal(Parser *p, Ast *t) {
  const Token *name = parser_new_name(p, "the name of an argument");
  if (!name) return false;
  AstArg arg = {.name = name->text, .pos = token_pos(p, name)};
  if (parser_accept(p, TOKEN_ASSIGN) && !(arg.value = parse_expr(p))) return false;
  ast_add_arg(p, t, arg);
  return true;
}

Ast *parse_fn(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_new_name(p, "the name of the function");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_FN, name);
  if (!parse_optional_dims(p, t)) return NULL;
  parser_peek(p)->glued |= parser_at(p, TOKEN_OPEN);
  t->has_parens = parser_at(p, TOKEN_OPEN) && !parser_at_end(p);
  if (!parse_list(p, t, parse_formal, true)) return NULL;
  Ast *body = parser_accept(p, TOKEN_ASSIGN) ? parse_expr(p) : parse_block(p);
  return ast_add(p, t, body) ? ast_end(p, t) : NULL;
}

// Returns a LIST of the one item `only`, which is in parentheses: `for n in (64)`.
static Ast *list_of_one(Parser *p, Ast *only) {
  Ast *list = ast_new(p, AST_LIST, only->pos);
  list->has_parens = true;
  ast_add_arg(p, list, (AstArg){.value = only, .pos = only->pos});
  return ast_end(p, list);
}

// Parses what a `for` runs over: a range, or a list in parentheses.
static Ast *parse_rounds(Parser *p) {
  p->for_head = true;
  Ast *over = parse_expr(p);
  p->for_head = false;
  if (!over || over->kind == AST_RANGE || over->kind == AST_LIST) return over;
  if (over->has_parens && over->kind != AST_CALL) return list_of_one(p, over);
  diag_error(p->d, DIAG_SYNTAX, over->pos, "a for loop runs over a range or a list");
  diag_hint(p->d, "write for i in 0..12 { ... } or for n in (64, 128) { ... }");
  return NULL;
}

Ast *parse_for(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_new_name(p, "the name of the loop");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_FOR, name);
  while (parser_accept(p, TOKEN_COMMA)) {
    if (!(name = parser_new_name(p, "another name of the loop"))) return NULL;
    ast_add_dim(p, t, name, false);
  }
  bool head = parse_word(p, "in", NULL) && ast_add(p, t, parse_rounds(p)) &&
              parse_list(p, t, parse_option_item, false);
  return head && ast_add(p, t, parse_block(p)) ? ast_end(p, t) : NULL;
}

// Parses what follows `else`: a block or another `if`.
static Ast *parse_else(Parser *p) {
  if (parser_at_end(p) || !parser_at_word(p, "if")) return parse_block(p);
  if (!parser_enter(p)) return NULL;
  Ast *t = parse_if(p, parser_take(p));
  parser_leave(p);
  return t;
}

Ast *parse_if(Parser *p, const Token *keyword) {
  Ast *t = ast_new(p, AST_IF, token_pos(p, keyword));
  if (!ast_add(p, t, parse_expr(p)) || !ast_add(p, t, parse_block(p))) return NULL;
  if (!parser_at_end(p) && parser_at_word(p, "else")) {
    parser_take(p);
    if (!ast_add(p, t, parse_else(p))) return NULL;
  }
  return ast_end(p, t);
}

// Parses one item between the parentheses of a scan: a carry `h[b, k] = START`, or the option
// `checkpoint = true`.
static bool parse_carry(Parser *p, Ast *t) {
  bool option = parser_at_word(p, "checkpoint") && parser_ahead(p, 1)->kind == TOKEN_ASSIGN;
  return option ? parse_option_item(p, t) : ast_add(p, t, parse_assigned(p, AST_BIND, false));
}

// Parses `while CONDITION` if it follows the carries of a scan.
static bool parse_while(Parser *p, Ast *t) {
  if (parser_at_end(p) || !parser_at_word(p, "while")) return true;
  const Token *word = parser_take(p);
  AstArg arg = {.name = word->text, .pos = token_pos(p, word), .value = parse_expr(p)};
  if (arg.value) ast_add_arg(p, t, arg);
  return arg.value != NULL;
}

Ast *parse_scan(Parser *p, const Token *keyword) {
  (void)keyword;
  bool reverse = parser_at_word(p, "reverse") && parser_ahead(p, 1)->kind == TOKEN_NAME;
  if (reverse) parser_take(p);
  const Token *name = parser_name(p, "the dim to scan");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_SCAN, name);
  t->integer = reverse;
  ast_add(p, t, NULL); // kids[0] is for the body, which comes after the carries in the text
  if (!parse_list(p, t, parse_carry, false) || !parse_while(p, t)) return NULL;
  t->kids[0] = parse_block(p);
  return t->kids[0] ? ast_end(p, t) : NULL;
}
