// Parses the statements that compute: values, functions, loops and scans.
#include "frontend/syntax/parse_internal.h"

#include <string.h>

// -- values -------------------------------------------------------------------------------------
Ast *parse_update(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "the name of a state");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_UPDATE, name);
  Kids kids = {0};
  return parse_optional_dims(p, t) && parse_value(p, &kids) ? ast_with_kids(p, t, &kids) : NULL;
}

Ast *parse_bind(Parser *p) {
  Kids kids = {0};
  const Token *first = parser_peek(p);
  do {
    Ast *target = parse_target(p);
    if (!target) return NULL;
    vec_push(p->a, kids) = target;
  } while (parser_accept(p, TOKEN_COMMA));
  return parse_value(p, &kids) ? ast_with_kids(p, ast_statement(p, AST_BIND, first), &kids) : NULL;
}

Ast *parse_metric(Parser *p, const Token *keyword) {
  (void)keyword;
  Kids kids = {0};
  const Token *name = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return NULL;
  vec_push(p->a, kids) = target;
  Ast *t = ast_statement(p, AST_METRIC, name);
  return parse_value(p, &kids) ? ast_with_kids(p, t, &kids) : NULL;
}

Ast *parse_output(Parser *p, const Token *keyword) {
  (void)keyword;
  Kids kids = {0};
  const Token *name = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return NULL;
  vec_push(p->a, kids) = target;
  Ast *t = ast_statement(p, AST_OUTPUT, name);
  if (parser_at_end(p))
    vec_push(p->a, kids) = NULL;
  else if (!parse_value(p, &kids))
    return NULL;
  return ast_with_kids(p, t, &kids);
}

Ast *parse_yield(Parser *p, const Token *keyword) {
  (void)keyword;
  Kids kids = {0};
  Ast *value = parse_expr(p);
  if (!value) return NULL;
  vec_push(p->a, kids) = value;
  if (parser_at_end(p) || !parser_at_word(p, "as")) {
    parser_expected(p, "'as'");
    diag_hint(p->d, "yield h as hs collects h under the name hs");
    return NULL;
  }
  parser_take(p);
  const Token *name = parser_new_name(p, "a new name");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_YIELD, name);
  return parse_optional_dims(p, t) ? ast_with_kids(p, t, &kids) : NULL;
}

Ast *parse_return(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_RETURN, keyword);
  Kids kids = {0};
  do {
    Ast *value = parse_expr(p);
    if (!value) return NULL;
    vec_push(p->a, kids) = value;
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_with_kids(p, t, &kids);
}

Ast *parse_import(Parser *p, const Token *keyword) {
  (void)keyword;
  if (parser_at_end(p) || !parser_at(p, TOKEN_STRING))
    return parser_expected(p, "the file's name in quotes"), NULL;
  return ast_end(p, ast_statement(p, AST_IMPORT, parser_take(p)));
}
// -- functions and repetition -------------------------------------------------------------------

static bool parse_formal(Parser *p, Args *args) {
  const Token *name = parser_new_name(p, "the name of an argument");
  if (!name) return false;
  AstArg arg = {.name = name->text, .pos = token_pos(p, name)};
  if (parser_accept(p, TOKEN_ASSIGN) && !(arg.value = parse_expr(p))) return false;
  vec_push(p->a, *args) = arg;
  return true;
}

static bool parse_formals(Parser *p, Ast *t) {
  parser_peek(p)->glued |= parser_at(p, TOKEN_OPEN);
  if (!parser_accept(p, TOKEN_OPEN)) return true;
  Args args = {0};
  p->open++;
  t->has_parens = true;
  while (!parser_at(p, TOKEN_CLOSE)) {
    if (!parse_formal(p, &args)) return false;
    if (!parser_accept(p, TOKEN_COMMA)) break;
  }
  ast_set_args(t, &args);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

Ast *parse_fn(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_new_name(p, "the name of the function");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_FN, name);
  if (!parse_optional_dims(p, t) || !parse_formals(p, t)) return NULL;
  Kids kids = {0};
  Ast *body = parser_accept(p, TOKEN_ASSIGN) ? parse_expr(p) : parse_block(p);
  if (!body) return NULL;
  vec_push(p->a, kids) = body;
  return ast_with_kids(p, t, &kids);
}

static bool parse_range(Parser *p, Kids *kids) {
  p->for_head = true;
  Ast *range = parse_expr(p);
  p->for_head = false;
  if (!range) return false;
  vec_push(p->a, *kids) = range;
  if (range->kind == AST_RANGE) return true;
  diag_error(p->d, DIAG_SYNTAX, range->pos, "a for loop runs over a range");
  diag_hint(p->d, "write for i in 0..12 { ... }");
  return false;
}

static bool parse_for_options(Parser *p, Ast *t) {
  if (!parser_accept(p, TOKEN_OPEN)) return true;
  Args args = {0};
  p->open++;
  do {
    if (!parse_option_item(p, &args)) return false;
  } while (parser_accept(p, TOKEN_COMMA));
  ast_set_args(t, &args);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

Ast *parse_for(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_new_name(p, "the name of the loop");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_FOR, name);
  if (parser_at_end(p) || !parser_at_word(p, "in")) return parser_expected(p, "'in'"), NULL;
  parser_take(p);
  Kids kids = {0};
  if (!parse_range(p, &kids) || !parse_for_options(p, t)) return NULL;
  Ast *body = parse_block(p);
  if (!body) return NULL;
  vec_push(p->a, kids) = body;
  return ast_with_kids(p, t, &kids);
}

// Parses one item between the parentheses of a scan: a carry `h[b, k] = START`, or the option
// `checkpoint = true`.
static bool parse_carry(Parser *p, Kids *kids, Args *options) {
  bool option = parser_at_word(p, "checkpoint") && parser_ahead(p, 1)->kind == TOKEN_ASSIGN;
  if (option) return parse_option_item(p, options);
  Kids one = {0};
  const Token *first = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return false;
  vec_push(p->a, one) = target;
  if (!parse_value(p, &one)) return false;
  vec_push(p->a, *kids) = ast_with_kids(p, ast_statement(p, AST_BIND, first), &one);
  return true;
}

static bool parse_carries(Parser *p, Ast *t, Kids *kids) {
  if (!parser_accept(p, TOKEN_OPEN)) return true;
  Args options = {0};
  p->open++;
  do {
    if (!parse_carry(p, kids, &options)) return false;
  } while (parser_accept(p, TOKEN_COMMA));
  ast_set_args(t, &options);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

Ast *parse_scan(Parser *p, const Token *keyword) {
  (void)keyword;
  bool reverse = parser_at_word(p, "reverse") && parser_ahead(p, 1)->kind == TOKEN_NAME;
  if (reverse) parser_take(p);
  const Token *name = parser_name(p, "the dim to scan");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_SCAN, name);
  t->integer = reverse;
  Kids kids = {0};
  vec_push(p->a, kids) = NULL;
  if (!parse_carries(p, t, &kids)) return NULL;
  kids.at[0] = parse_block(p);
  return kids.at[0] ? ast_with_kids(p, t, &kids) : NULL;
}
