// Parses expressions: precedence climbing for binary operators, recursive descent for the rest.
//
//   range      a .. b                        loosest
//   or, and, not, comparisons (not chained), + -, * / %
//   unary -
//   ^          right-associative, its exponent may have a sign: -x ^ 2 is -(x^2), 2 ^ -3 is valid
//   primary    number, string, name, f[dims](args), (expression), (list)
//
// A loop builds a chain of operators, nested to the left, so the length of a chain has no limit.
// All other nesting counts towards the limit.
#include "frontend/syntax/parse_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PRECEDENCE_NOT = 3, PRECEDENCE_COMPARE = 4 };

static Ast *parse_binary(Parser *p, int min);

// Returns the node of operator `op`; `left` is NULL for a unary operator. If `right` is NULL, an
// error has been reported and the result is NULL.
static Ast *operation(Parser *p, const Token *op, Ast *left, Ast *right) {
  if (!right) return NULL;
  AstKind kind = op->kind == TOKEN_RANGE ? AST_RANGE : left ? AST_BINARY : AST_UNARY;
  Ast *t = ast_new(p, kind, token_pos(p, op));
  t->text = token_row[op->kind].text;
  if (left) ast_add(p, t, left);
  ast_add(p, t, right);
  return ast_end(p, t);
}

// -- brackets and parentheses -------------------------------------------------------------------

// Moves past the closing bracket. If it is missing, reports an error with a note at the opening
// bracket and returns false.
static bool expect_close(Parser *p, const Token *open, TokenKind kind) {
  if (parser_accept(p, kind)) {
    p->open--;
    return true;
  }
  parser_expected(p, kind == TOKEN_CLOSE ? "',' or ')'" : "',' or ']'");
  return diag_note(p->d, token_pos(p, open), "opened here");
}

// Adds a hint if the user indexes as in other languages: x[0], x[1:]. The hint contains the number
// in the brackets, as the index or as the start of a slice.
static void index_hint(Parser *p, const Ast *t) {
  bool range = false;
  const char *number = NULL;
  for (const Token *at = parser_peek(p);
       at->kind != TOKEN_UNBRACKET && at->kind != TOKEN_EOF && !at->newline; at++) {
    if (at->kind == TOKEN_NUMBER && !number)
      number = range && at[-1].kind == TOKEN_COLON ? "0" : at->text;
    if (at->kind == TOKEN_NUMBER && at[-1].kind == TOKEN_MINUS)
      number = arena_printf(p->a, "-%s", at->text);
    range |= at->kind == TOKEN_COLON;
  }
  bool declares =
      t->kind == AST_INPUT || t->kind == AST_PARAM || t->kind == AST_STATE || t->kind == AST_TARGET;
  bool index = parser_at(p, TOKEN_NUMBER) || parser_at(p, TOKEN_MINUS) || range;
  HabitNames names = {.x = t->text, .y = number ? number : "0"};
  if (index && t->text)
    habit_hint(p->d, p->a, HABIT_INDEX, declares ? "declared" : range ? "range" : "number", &names);
}

bool parse_dims(Parser *p, Ast *t) {
  const Token *open = parser_take(p);
  p->open++;
  t->has_brackets = true;
  if (parser_at_word(p, "all") &&
      strcmp(parser_ahead(p, 1)->kind == TOKEN_NAME ? parser_ahead(p, 1)->text : "", "but") == 0) {
    parser_take(p);
    parser_take(p);
    t->all_but = true;
  }
  // an arrow before the first item, as in stack[-> n](x, y)
  bool arrow = parser_accept(p, TOKEN_ARROW);
  do {
    const Token *name = parser_name(p, "the name of a dim");
    if (!name) {
      index_hint(p, t);
      return false;
    }
    ast_add_dim(p, t, name, arrow);
  } while ((arrow = parser_accept(p, TOKEN_ARROW)) || parser_accept(p, TOKEN_COMMA));
  return expect_close(p, open, TOKEN_UNBRACKET);
}

static bool parse_argument(Parser *p, bool arrow, AstArg *out) {
  *out = (AstArg){.arrow = arrow, .pos = token_pos(p, parser_peek(p))};
  if (parser_at(p, TOKEN_NAME) && parser_ahead(p, 1)->kind == TOKEN_ASSIGN) {
    out->name = parser_take(p)->text;
    parser_take(p);
  }
  out->value = parse_expr(p);
  if (!out->value) return false;
  if (out->name || !parser_accept(p, TOKEN_COLON)) return true;
  out->key = out->value;
  out->value = parse_expr(p);
  return out->value != NULL;
}

// Parses arguments up to the closing parenthesis. *comma is true if there is a comma after the last
// one.
static bool parse_arguments(Parser *p, Ast *t, bool *comma) {
  const Token *open = parser_take(p);
  p->open++;
  *comma = false;
  for (bool arrow = false; arrow || !parser_at(p, TOKEN_CLOSE);) {
    AstArg arg;
    if (!parse_argument(p, arrow, &arg)) return false;
    ast_add_arg(p, t, arg);
    *comma = parser_accept(p, TOKEN_COMMA);
    arrow = !*comma && parser_accept(p, TOKEN_ARROW);
    if (!*comma && !arrow) break;
  }
  return expect_close(p, open, TOKEN_CLOSE);
}

// Parses parentheses: `(x)` is x itself, anything else between parentheses is a list.
static Ast *parse_parentheses(Parser *p) {
  Ast *list = ast_new(p, AST_LIST, token_pos(p, parser_peek(p)));
  bool comma;
  if (!parse_arguments(p, list, &comma)) return NULL;
  const AstArg *first = list->args;
  if (list->nargs == 0) {
    diag_error(p->d, DIAG_SYNTAX, list->pos, "these parentheses are empty");
    return NULL;
  }
  if (list->nargs == 1 && !comma && !first->name && !first->key && !first->arrow) {
    first->value->has_parens |= first->value->kind != AST_CALL;
    return first->value;
  }
  list->has_parens = true;
  return ast_end(p, list);
}

// Returns true if the parenthesis starts the options of a loop and is not a call:
//   for i in 0..depth (checkpoint = true) {
static bool options_follow(const Parser *p) {
  return p->for_head && p->open == 0 && parser_ahead(p, 1)->kind == TOKEN_NAME &&
         parser_ahead(p, 2)->kind == TOKEN_ASSIGN;
}

// Returns true if the next token is a bracket of that kind and belongs to the name before it,
// because no line end separates the two.
static bool opens_here(const Parser *p, TokenKind kind) {
  return parser_at(p, kind) && !(parser_peek(p)->newline && p->open == 0);
}

static Ast *parse_name(Parser *p) {
  const Token *name = parser_take(p);
  Ast *t = ast_new(p, AST_NAME, token_pos(p, name));
  t->text = name->text;
  if (opens_here(p, TOKEN_BRACKET)) {
    parser_peek(p)->glued = true;
    t->kind = AST_CALL;
    if (!parse_dims(p, t)) return NULL;
  }
  if (opens_here(p, TOKEN_OPEN) && !options_follow(p)) {
    parser_peek(p)->glued = true;
    t->kind = AST_CALL;
    t->has_parens = true;
    bool comma;
    if (!parse_arguments(p, t, &comma)) return NULL;
  }
  return ast_end(p, t);
}

// -- numbers and other primaries ----------------------------------------------------------------

static Ast *parse_number(Parser *p) {
  const Token *number = parser_take(p);
  Ast *t = ast_new(p, AST_NUMBER, token_pos(p, number));
  t->text = number->text;
  char *plain = arena_text(p->a, number->text, strlen(number->text)), *to = plain;
  for (const char *c = number->text; *c; c++)
    if (*c != '_') *to++ = *c;
  *to = '\0';
  t->number = strtod(plain, NULL);
  t->integer = strspn(plain, "0123456789") == strlen(plain);
  if (isinf(t->number) && plain[0] != 'i')
    diag_error(p->d, DIAG_BAD_NUMBER, t->pos, "'%.60s' is too large for a number", t->text);
  return t;
}

// Reports that an expression is missing, with a hint at what the user may have meant. Returns NULL.
static Ast *no_expression(Parser *p) {
  TokenKind before = p->at ? (TokenKind)p->token[p->at - 1].kind : TOKEN_EOF;
  parser_expected(p, "an expression");
  if (before == TOKEN_STAR && parser_at(p, TOKEN_STAR))
    diag_hint(p->d, "write x ^ 2 for a power");
  else if (before == TOKEN_SLASH && parser_at(p, TOKEN_SLASH))
    diag_hint(p->d, "write floor_div(a, b)");
  else if (parser_at(p, TOKEN_PLUS))
    diag_hint(p->d, "a plus sign needs two operands");
  else if (parser_at(p, TOKEN_NOT))
    diag_hint(p->d, "put it in parentheses: (not x)");
  else if (parser_at(p, TOKEN_BRACKET))
    diag_hint(p->d, "write constants over a dim as values[c](1, 2, 3)");
  return NULL;
}

static Ast *parse_string(Parser *p) {
  Ast *t = ast_new(p, AST_STRING, token_pos(p, parser_peek(p)));
  t->text = parser_take(p)->text;
  return ast_end(p, t);
}

static Ast *parse_primary(Parser *p) {
  if (parser_at_end(p)) return no_expression(p);
  if (parser_at(p, TOKEN_NUMBER)) return parse_number(p);
  if (parser_at(p, TOKEN_NAME)) return parse_name(p);
  if (parser_at(p, TOKEN_OPEN)) return parse_parentheses(p);
  if (parser_at(p, TOKEN_STRING)) return parse_string(p);
  return no_expression(p);
}

// -- operators ----------------------------------------------------------------------------------

static Ast *parse_unary(Parser *p);

static Ast *parse_power(Parser *p) {
  Ast *base = parse_primary(p);
  if (!base || !parser_at(p, TOKEN_CARET) || parser_at_end(p)) return base;
  const Token *op = parser_take(p);
  return operation(p, op, base, parse_unary(p));
}

static Ast *parse_minus(Parser *p) {
  const Token *op = parser_take(p);
  parser_peek(p)->glued = true;
  return operation(p, op, NULL, parse_unary(p));
}

static Ast *parse_not(Parser *p) {
  const Token *op = parser_take(p);
  return operation(p, op, NULL, parse_binary(p, PRECEDENCE_NOT));
}

static Ast *parse_unary(Parser *p) {
  if (!parser_enter(p)) return NULL;
  Ast *t = parser_at(p, TOKEN_MINUS) ? parse_minus(p) : parse_power(p);
  parser_leave(p);
  return t;
}

static Ast *parse_operand(Parser *p, int min) {
  if (!parser_at(p, TOKEN_NOT) || min > PRECEDENCE_NOT) return parse_unary(p);
  if (!parser_enter(p)) return NULL;
  Ast *t = parse_not(p);
  parser_leave(p);
  return t;
}

static bool chained(Parser *p, const Token *op) {
  return diag_error(p->d, DIAG_CHAINED_COMPARISON, token_pos(p, op),
                    "comparisons cannot be chained");
}

// Precedence climbing: parses operators of precedence `min` and above. Each turn of the loop makes
// the tree so far the left operand of the next operator.
static Ast *parse_binary(Parser *p, int min) {
  Ast *left = parse_operand(p, min);
  bool compared = false;
  while (left && !parser_at_end(p)) {
    const Token *op = parser_peek(p);
    int precedence = token_row[op->kind].precedence;
    if (!precedence || precedence < min) break;
    if (precedence == PRECEDENCE_COMPARE && compared && !chained(p, op)) return NULL;
    compared = precedence == PRECEDENCE_COMPARE;
    parser_take(p);
    left = operation(p, op, left, parse_binary(p, precedence + 1));
  }
  return left;
}

Ast *parse_expr(Parser *p) {
  if (!parser_enter(p)) return NULL;
  Ast *t = parse_binary(p, 1);
  if (t && parser_at(p, TOKEN_RANGE) && !parser_at_end(p)) {
    const Token *op = parser_take(p);
    t = operation(p, op, t, parse_binary(p, 1));
  }
  parser_leave(p);
  return t;
}
