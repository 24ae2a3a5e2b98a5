// Parses the statements that declare: dims, constants and tensors; data, train, mesh and layout.
#include "frontend/syntax/parse_internal.h"

// Parses the `NAME = EXPRESSION, ...` of dim, const and mesh.
static Ast *parse_defines(Parser *p, const Token *keyword, AstKind kind) {
  Ast *t = ast_statement(p, kind, keyword);
  Kids kids = {0};
  do {
    const Token *name = parser_new_name(p, "NAME = VALUE");
    if (!name || !parser_expect(p, TOKEN_ASSIGN, "'='")) return NULL;
    Ast *define = ast_statement(p, AST_DEFINE, name);
    Kids one = {0};
    Ast *value = parse_expr(p);
    if (!value) return NULL;
    vec_push(p->a, one) = value;
    vec_push(p->a, kids) = ast_with_kids(p, define, &one);
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_with_kids(p, t, &kids);
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

static Ast *parse_declared(Parser *p, AstKind kind, const char *what, Ast **type) {
  const Token *name = parser_new_name(p, what);
  if (!name) return NULL;
  Ast *t = ast_statement(p, kind, name);
  return parse_optional_dims(p, t) && parse_type(p, type) ? t : NULL;
}

Ast *parse_input(Parser *p, const Token *keyword) {
  (void)keyword;
  Ast *type, *t = parse_declared(p, AST_INPUT, "the name of the input", &type);
  if (!t) return NULL;
  Kids kids = {0};
  vec_push(p->a, kids) = type;
  return ast_with_kids(p, t, &kids);
}

// Parses the rest of a parameter or state: NAME[dims]: TYPE, then `= START` or `~ DISTRIBUTION`,
// then options.
static Ast *parse_stored(Parser *p, AstKind kind, const char *what) {
  Ast *type, *start = NULL, *t = parse_declared(p, kind, what, &type);
  if (!t) return NULL;
  t->integer = parser_accept(p, TOKEN_TILDE);
  if (t->integer || parser_accept(p, TOKEN_ASSIGN)) {
    start = parse_expr(p);
    if (!start) return NULL;
  }
  Args args = {0};
  while (parser_accept(p, TOKEN_COMMA))
    if (!parse_option_item(p, &args)) return NULL;
  ast_set_args(t, &args);
  Kids kids = {0};
  vec_push(p->a, kids) = type;
  vec_push(p->a, kids) = start;
  return ast_with_kids(p, t, &kids);
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
  if (parser_at_end(p) || !parser_at_word(p, "over")) {
    parser_expected(p, "'over'");
    diag_hint(p->d, "say which dim the rows run over: data train over b { ... }");
    return NULL;
  }
  parser_take(p);
  const Token *over = parser_name(p, "the dim that rows run over");
  if (!over) return NULL;
  t->dims = arena_array(p->a, AstDim, 1);
  t->dims[0] = (AstDim){.name = over->text, .pos = token_pos(p, over)};
  t->ndims = 1;
  Kids kids = {0};
  return parse_entries(p, &kids) ? ast_with_kids(p, t, &kids) : NULL;
}

Ast *parse_train(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_TRAIN, keyword);
  Kids kids = {0};
  Ast *loss = parse_expr(p);
  if (!loss) return NULL;
  vec_push(p->a, kids) = loss;
  return parse_entries(p, &kids) ? ast_with_kids(p, t, &kids) : NULL;
}

const Token *pattern_end(const Parser *p) {
  const Token *first = parser_peek(p), *last = first;
  while (last->kind == TOKEN_NAME || last->kind == TOKEN_STAR || last->kind == TOKEN_DOT ||
         last->kind == TOKEN_NUMBER) {
    last++;
    if (!last->adjacent) break;
  }
  return last;
}

Ast *parse_pattern(Parser *p, const Token *end) {
  const Token *first = parser_peek(p);
  Ast *t = ast_new(p, AST_NAME, token_pos(p, first));
  t->pos.len = end[-1].col + end[-1].len - first->col;
  t->text = intern_n(p->names, p->text + first->at, end[-1].at + end[-1].bytes - first->at);
  for (parser_take(p); parser_peek(p) != end; parser_take(p)) parser_peek(p)->glued = true;
  return t;
}

// Parses a scope and its colon: `head.kernel:`, `layer.*.wi:`. Returns NULL if there is no colon.
static Ast *parse_scope(Parser *p) {
  const Token *end = pattern_end(p);
  if (parser_at_end(p) || end == parser_peek(p) || end->kind != TOKEN_COLON) return NULL;
  Ast *t = parse_pattern(p, end);
  parser_take(p);
  return t;
}

static bool parse_axes(Parser *p, Ast *t) {
  AstDims axes = {0};
  bool several = parser_accept(p, TOKEN_OPEN);
  p->open += several;
  do {
    const Token *axis = parser_name(p, "an axis of the mesh, or none");
    if (!axis) return false;
    vec_push(p->a, axes) = (AstDim){.name = axis->text, .pos = token_pos(p, axis)};
  } while (several && parser_accept(p, TOKEN_COMMA));
  t->dims = axes.at;
  t->ndims = axes.n;
  if (several && !parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open -= several;
  return true;
}

static Ast *parse_rule(Parser *p, Ast *scope) {
  bool soft = parser_at_word(p, "soft") && parser_ahead(p, 1)->kind == TOKEN_NAME;
  if (soft) parser_take(p);
  const Token *end = pattern_end(p);
  if (parser_at_end(p) || end == parser_peek(p))
    return parser_expected(p, "a rule: DIM -> AXIS"), NULL;
  Ast *dim = parse_pattern(p, end), *t = ast_new(p, AST_RULE, dim->pos);
  t->text = dim->text;
  t->integer = soft;
  if (!parser_expect(p, TOKEN_ARROW, "'->'") || !parse_axes(p, t)) return NULL;
  Kids kids = {0};
  vec_push(p->a, kids) = scope;
  return ast_with_kids(p, t, &kids);
}

Ast *parse_layout(Parser *p, const Token *keyword) {
  Ast *t = ast_statement(p, AST_LAYOUT, keyword), *scope = parse_scope(p);
  Kids kids = {0};
  do {
    Ast *rule = parse_rule(p, scope);
    if (!rule) return NULL;
    vec_push(p->a, kids) = rule;
  } while (parser_accept(p, TOKEN_COMMA));
  return ast_with_kids(p, t, &kids);
}
