// Parses the statements that declare: dims, constants and tensors; data, train, mesh and layout.
#include "frontend/syntax/parse_internal.h"

// Adds a hint if the entry that could not be parsed is a statement of its own, on the line after a
// comma.
static void trailing_comma(Parser *p, const Ast *t, const Token *name) {
  if (t->nkids > 1 && name && name->newline)
    diag_hint(p->d, "the ',' at the end of line %u continues the statement", name[-1].line);
}

// Parses `NAME = EXPRESSION, ...`, the rest of a dim, const or mesh statement.
static Ast *parse_defines(Parser *p, const Token *keyword, AstKind kind) {
  Ast *t = ast_statement(p, kind, keyword);
  do {
    const Token *name = parser_new_name(p, "NAME = VALUE");
    if (!ast_add(p, t, parse_named(p, AST_DEFINE, name))) return trailing_comma(p, t, name), NULL;
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_end(p, t);
}

Ast *parse_dim(Parser *p, const Token *keyword) { return parse_defines(p, keyword, AST_DIM); }
Ast *parse_const(Parser *p, const Token *keyword) { return parse_defines(p, keyword, AST_CONST); }
Ast *parse_mesh(Parser *p, const Token *keyword) { return parse_defines(p, keyword, AST_MESH); }
// -- tensors ------------------------------------------------------------------------------------

bool parse_type(Parser *p, Ast **out) {
  *out = NULL;
  if (!parser_accept(p, TOKEN_COLON)) return true;
  const Token *name = parser_name(p, "a type");
  if (!name) return false;
  *out = ast_statement(p, AST_NAME, name);
  return true;
}

// Returns false after an error if the dims of a declaration are in parentheses: x(b, d).
static bool no_parentheses(Parser *p, const Token *name) {
  if (parser_at_end(p) || !parser_at(p, TOKEN_OPEN)) return true;
  parser_expected(p, "the dims in brackets");
  return diag_hint(p->d, "write %s[...]", name->text);
}

// Parses NAME[dims]: TYPE. Returns a node whose first kid is the type, or NULL.
static Ast *parse_declared(Parser *p, AstKind kind, const char *what) {
  const Token *name = parser_new_name(p, what);
  Ast *type, *t = name ? ast_statement(p, kind, name) : NULL;
  if (!t || !no_parentheses(p, name) || !parse_optional_dims(p, t) || !parse_type(p, &type))
    return NULL;
  ast_add(p, t, type);
  return ast_end(p, t);
}

Ast *parse_input(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_declared(p, AST_INPUT, "the name of the input");
}

// Parses the rest of a parameter or state: NAME[dims]: TYPE, then `= START` or `~ DISTRIBUTION`,
// then options.
static Ast *parse_stored(Parser *p, AstKind kind, const char *what) {
  Ast *t = parse_declared(p, kind, what);
  if (!t) return NULL;
  t->integer = parser_accept(p, TOKEN_TILDE);
  bool starts = t->integer || parser_accept(p, TOKEN_ASSIGN);
  if (!ast_add(p, t, starts ? parse_expr(p) : NULL) && starts) return NULL;
  while (parser_accept(p, TOKEN_COMMA))
    if (!parse_option_item(p, t)) return NULL;
  return ast_end(p, t);
}

Ast *parse_param(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_stored(p, AST_PARAM, "the name of the parameter");
}

Ast *parse_state(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_stored(p, AST_STATE, "the name of the state");
}
// -- data, train, layout ------------------------------------------------------------------------

Ast *parse_data(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "train, valid or test");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_DATA, name);
  if (!parse_word(p, "over", "say which dim the rows run over: data train over b { ... }"))
    return NULL;
  const Token *over = parser_name(p, "the dim that rows run over");
  if (!over) return NULL;
  ast_add_dim(p, t, over, false);
  return parse_entries(p, t) ? ast_end(p, t) : NULL;
}

Ast *parse_train(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_TRAIN, keyword);
  if (parser_at(p, TOKEN_BRACE)) {
    parser_expected(p, "the loss");
    return diag_hint(p->d, "name what is trained: train loss { ... }"), NULL;
  }
  return ast_add(p, t, parse_expr(p)) && parse_entries(p, t) ? ast_end(p, t) : NULL;
}

// Returns the token after the pattern that starts at the next token, such as `head.kernel` or
// `layer.*.wi`. Returns the next token itself if it starts no pattern.
static const Token *pattern_end(const Parser *p) {
  const Token *first = parser_peek(p), *last = first;
  while (last->kind == TOKEN_NAME || last->kind == TOKEN_STAR || last->kind == TOKEN_DOT ||
         last->kind == TOKEN_NUMBER) {
    last++;
    if (!last->adjacent) break;
  }
  return last;
}

// Moves past the tokens before `end` and returns their text as a NAME.
static Ast *parse_pattern(Parser *p, const Token *end) {
  const Token *first = parser_peek(p);
  Ast *t = ast_new(p, AST_NAME, token_pos(p, first));
  t->pos.len = end[-1].col + end[-1].len - first->col;
  t->text = intern_n(p->names, p->text + first->at, end[-1].at + end[-1].bytes - first->at);
  for (parser_take(p); parser_peek(p) != end; parser_take(p)) parser_peek(p)->glued = true;
  return t;
}

Ast *parse_scope(Parser *p, TokenKind kind) {
  const Token *end = pattern_end(p);
  if (parser_at_end(p) || end == parser_peek(p) || end->kind != kind) return NULL;
  Ast *t = parse_pattern(p, end);
  parser_take(p);
  return t;
}

Ast *parse_rule_dim(Parser *p, Ast *scope, bool soft, const char *form) {
  const Token *end = pattern_end(p);
  if (parser_at_end(p) || end == parser_peek(p)) return parser_expected(p, form), NULL;
  Ast *dim = parse_pattern(p, end), *t = ast_new(p, AST_RULE, dim->pos);
  t->text = dim->text;
  t->integer = soft;
  ast_add(p, t, scope);
  return t;
}

bool parse_rule_axis(Parser *p, Ast *t) {
  const Token *axis = parser_name(p, "an axis of the mesh, or none");
  if (axis) ast_add_dim(p, t, axis, false);
  return axis;
}

static Ast *parse_rule(Parser *p, Ast *scope) {
  bool soft = parser_at_word(p, "soft") && parser_ahead(p, 1)->kind == TOKEN_NAME;
  if (soft) parser_take(p);
  Ast *t = parse_rule_dim(p, scope, soft, "a rule: DIM -> AXIS");
  if (!t || !parser_expect(p, TOKEN_ARROW, "'->'")) return NULL;
  bool several = parser_at(p, TOKEN_OPEN) && !parser_at_end(p);
  bool good = several ? parse_list(p, t, parse_rule_axis, false) : parse_rule_axis(p, t);
  return good ? ast_end(p, t) : NULL;
}

Ast *parse_layout(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_LAYOUT, keyword), *scope = parse_scope(p, TOKEN_COLON);
  do {
    if (!ast_add(p, t, parse_rule(p, scope))) return NULL;
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_end(p, t);
}
