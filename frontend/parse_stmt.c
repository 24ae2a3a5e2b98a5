// Statements. A keyword is one only at the start of a statement, and there only when no `=`, `,`,
// `[` or
// `.` follows (`state = tanh(x)` binds a value); a dotted name is one token and never a keyword.
//
// After an error parsing goes on behind the statement: at the next line, or behind the block that
// the statement opened, so that a bad head does not turn its body into errors.
#include "frontend/parse.h"

#include <string.h>

typedef Ast *ParseStatement(Parser *p, const Token *keyword);

// A statement named by `name`, or by its keyword where there is none.
static Ast *statement(Parser *p, AstKind kind, const Token *name) {
  Ast *t = ast_new(p, kind, token_pos(p, name));
  t->text = name->text;
  return t;
}

static Ast *with_kids(Parser *p, Ast *t, const Kids *kids) {
  ast_set_kids(t, kids);
  return ast_end(p, t);
}

// -- blocks
// -------------------------------------------------------------------------------------------

static Ast *parse_block(Parser *p) {
  if (parser_at_end(p) || !parser_at(p, TOKEN_BRACE)) {
    parser_expected(p, "'{'");
    diag_hint(p->d, "the '{' of a block stands on the line of its head");
    return NULL;
  }
  if (!parser_enter(p)) return NULL;
  const Token *brace = parser_take(p);
  Ast *t = ast_new(p, AST_BLOCK, token_pos(p, brace));
  Kids kids = {0};
  parse_statements(p, &kids);
  parser_leave(p);
  if (!parser_expect(p, TOKEN_UNBRACE, "'}'")) {
    diag_note(p->d, token_pos(p, brace), "the block opened here");
    return NULL;
  }
  return with_kids(p, t, &kids);
}

static Ast *parse_entry(Parser *p) {
  parser_start(p);
  const Token *name = parser_name(p, "an entry: NAME = VALUE");
  if (!name) return NULL;
  Ast *t = statement(p, AST_ENTRY, name);
  if (!parser_expect(p, TOKEN_ASSIGN, "'='")) return NULL;
  Kids kids = {0};
  Ast *value = parse_expr(p);
  if (!value) return NULL;
  vec_push(p->a, kids) = value;
  return with_kids(p, t, &kids);
}

// `{ NAME = VALUE, ... }`: entries separated by line ends or commas or both.
static bool parse_entries(Parser *p, Kids *kids) {
  if (!parser_expect(p, TOKEN_BRACE, "'{'")) return false;
  for (;;) {
    while (parser_at(p, TOKEN_COMMA) || parser_at(p, TOKEN_SEMICOLON)) parser_take(p);
    if (parser_accept(p, TOKEN_UNBRACE)) return true;
    Ast *entry = parse_entry(p);
    if (!entry) return false;
    vec_push(p->a, *kids) = entry;
    if (!parser_at(p, TOKEN_COMMA) && !parser_at_end(p))
      return parser_expected(p, "',' or the end of the line");
  }
}

// -- parts that several statements have
// ----------------------------------------------------------------

static bool parse_optional_dims(Parser *p, Ast *t) {
  if (parser_at_end(p) || !parser_at(p, TOKEN_BRACKET)) return true;
  parser_peek(p)->glued = true;
  return parse_dims(p, t);
}

static Ast *parse_target(Parser *p) {
  const Token *name = parser_name(p, "a name");
  if (!name) return NULL;
  Ast *t = statement(p, AST_TARGET, name);
  return parse_optional_dims(p, t) ? ast_end(p, t) : NULL;
}

// `(name = value, ...)` behind the head of a `for` or a `scan`, the parenthesis not yet taken.
static bool add_option(Parser *p, Args *args) {
  const Token *name = parser_name(p, "NAME = VALUE");
  if (!name || !parser_expect(p, TOKEN_ASSIGN, "'='")) return false;
  Ast *value = parse_expr(p);
  if (!value) return false;
  vec_push(p->a, *args) = (AstArg){.name = name->text, .value = value, .pos = token_pos(p, name)};
  return true;
}

static void set_args(Ast *t, const Args *args) {
  t->args = args->at;
  t->nargs = args->n;
}

// `NAME = EXPRESSION, ...` of dim, const and mesh.
static Ast *parse_defines(Parser *p, const Token *keyword, AstKind kind) {
  Ast *t = statement(p, kind, keyword);
  Kids kids = {0};
  do {
    const Token *name = parser_name(p, "NAME = VALUE");
    if (!name || !parser_expect(p, TOKEN_ASSIGN, "'='")) return NULL;
    Ast *define = statement(p, AST_DEFINE, name);
    Kids one = {0};
    Ast *value = parse_expr(p);
    if (!value) return NULL;
    vec_push(p->a, one) = value;
    vec_push(p->a, kids) = with_kids(p, define, &one);
  } while (parser_accept(p, TOKEN_COMMA));
  return with_kids(p, t, &kids);
}

static Ast *parse_dim(Parser *p, const Token *keyword) {
  return parse_defines(p, keyword, AST_DIM);
}
static Ast *parse_const(Parser *p, const Token *keyword) {
  return parse_defines(p, keyword, AST_CONST);
}
static Ast *parse_mesh(Parser *p, const Token *keyword) {
  return parse_defines(p, keyword, AST_MESH);
}

// -- tensors
// ------------------------------------------------------------------------------------------

// `: TYPE` as a NAME, NULL when there is none; false after an error.
static bool parse_type(Parser *p, Ast **out) {
  *out = NULL;
  if (!parser_accept(p, TOKEN_COLON)) return true;
  const Token *name = parser_name(p, "a type");
  if (!name) return false;
  *out = statement(p, AST_NAME, name);
  return true;
}

static Ast *parse_declared(Parser *p, AstKind kind, const char *what, Ast **type) {
  const Token *name = parser_name(p, what);
  if (!name) return NULL;
  Ast *t = statement(p, kind, name);
  return parse_optional_dims(p, t) && parse_type(p, type) ? t : NULL;
}

static Ast *parse_input(Parser *p, const Token *keyword) {
  (void)keyword;
  Ast *type, *t = parse_declared(p, AST_INPUT, "the name of the input", &type);
  if (!t) return NULL;
  Kids kids = {0};
  vec_push(p->a, kids) = type;
  return with_kids(p, t, &kids);
}

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
    if (!add_option(p, &args)) return NULL;
  set_args(t, &args);
  Kids kids = {0};
  vec_push(p->a, kids) = type;
  vec_push(p->a, kids) = start;
  return with_kids(p, t, &kids);
}

static Ast *parse_param(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_stored(p, AST_PARAM, "the name of the parameter");
}

static Ast *parse_state(Parser *p, const Token *keyword) {
  (void)keyword;
  return parse_stored(p, AST_STATE, "the name of the state");
}

// -- values
// -------------------------------------------------------------------------------------------

static bool parse_value(Parser *p, Kids *kids) {
  if (!parser_expect(p, TOKEN_ASSIGN, "'='")) return false;
  Ast *value = parse_expr(p);
  vec_push(p->a, *kids) = value;
  return value != NULL;
}

static Ast *parse_update(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "the name of a state");
  if (!name) return NULL;
  Ast *t = statement(p, AST_UPDATE, name);
  Kids kids = {0};
  return parse_optional_dims(p, t) && parse_value(p, &kids) ? with_kids(p, t, &kids) : NULL;
}

static Ast *parse_bind(Parser *p) {
  Kids kids = {0};
  const Token *first = parser_peek(p);
  do {
    Ast *target = parse_target(p);
    if (!target) return NULL;
    vec_push(p->a, kids) = target;
  } while (parser_accept(p, TOKEN_COMMA));
  return parse_value(p, &kids) ? with_kids(p, statement(p, AST_BIND, first), &kids) : NULL;
}

static Ast *parse_metric(Parser *p, const Token *keyword) {
  (void)keyword;
  Kids kids = {0};
  const Token *name = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return NULL;
  vec_push(p->a, kids) = target;
  Ast *t = statement(p, AST_METRIC, name);
  return parse_value(p, &kids) ? with_kids(p, t, &kids) : NULL;
}

static Ast *parse_output(Parser *p, const Token *keyword) {
  (void)keyword;
  Kids kids = {0};
  const Token *name = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return NULL;
  vec_push(p->a, kids) = target;
  Ast *t = statement(p, AST_OUTPUT, name);
  if (parser_at_end(p))
    vec_push(p->a, kids) = NULL;
  else if (!parse_value(p, &kids))
    return NULL;
  return with_kids(p, t, &kids);
}

static Ast *parse_yield(Parser *p, const Token *keyword) {
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
  const Token *name = parser_name(p, "a new name");
  if (!name) return NULL;
  Ast *t = statement(p, AST_YIELD, name);
  return parse_optional_dims(p, t) ? with_kids(p, t, &kids) : NULL;
}

static Ast *parse_return(Parser *p, const Token *keyword) {
  Ast *t = statement(p, AST_RETURN, keyword);
  Kids kids = {0};
  do {
    Ast *value = parse_expr(p);
    if (!value) return NULL;
    vec_push(p->a, kids) = value;
  } while (parser_accept(p, TOKEN_COMMA));
  return with_kids(p, t, &kids);
}

static Ast *parse_import(Parser *p, const Token *keyword) {
  (void)keyword;
  if (parser_at_end(p) || !parser_at(p, TOKEN_STRING))
    return parser_expected(p, "the file's name in quotes"), NULL;
  return ast_end(p, statement(p, AST_IMPORT, parser_take(p)));
}

// -- functions and repetition
// --------------------------------------------------------------------------

static bool parse_formal(Parser *p, Args *args) {
  const Token *name = parser_name(p, "the name of an argument");
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
  set_args(t, &args);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

static Ast *parse_fn(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "the name of the function");
  if (!name) return NULL;
  Ast *t = statement(p, AST_FN, name);
  if (!parse_optional_dims(p, t) || !parse_formals(p, t)) return NULL;
  Kids kids = {0};
  Ast *body = parser_accept(p, TOKEN_ASSIGN) ? parse_expr(p) : parse_block(p);
  if (!body) return NULL;
  vec_push(p->a, kids) = body;
  return with_kids(p, t, &kids);
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
    if (!add_option(p, &args)) return false;
  } while (parser_accept(p, TOKEN_COMMA));
  set_args(t, &args);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

static Ast *parse_for(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "the name of the loop");
  if (!name) return NULL;
  Ast *t = statement(p, AST_FOR, name);
  if (parser_at_end(p) || !parser_at_word(p, "in")) return parser_expected(p, "'in'"), NULL;
  parser_take(p);
  Kids kids = {0};
  if (!parse_range(p, &kids) || !parse_for_options(p, t)) return NULL;
  Ast *body = parse_block(p);
  if (!body) return NULL;
  vec_push(p->a, kids) = body;
  return with_kids(p, t, &kids);
}

// One item between the parentheses of a scan: `h[b, k] = START`, or the option `checkpoint = true`.
static bool parse_carry(Parser *p, Kids *kids, Args *options) {
  bool option = parser_at_word(p, "checkpoint") && parser_ahead(p, 1)->kind == TOKEN_ASSIGN;
  if (option) return add_option(p, options);
  Kids one = {0};
  const Token *first = parser_peek(p);
  Ast *target = parse_target(p);
  if (!target) return false;
  vec_push(p->a, one) = target;
  if (!parse_value(p, &one)) return false;
  vec_push(p->a, *kids) = with_kids(p, statement(p, AST_BIND, first), &one);
  return true;
}

static bool parse_carries(Parser *p, Ast *t, Kids *kids) {
  if (!parser_accept(p, TOKEN_OPEN)) return true;
  Args options = {0};
  p->open++;
  do {
    if (!parse_carry(p, kids, &options)) return false;
  } while (parser_accept(p, TOKEN_COMMA));
  set_args(t, &options);
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

static Ast *parse_scan(Parser *p, const Token *keyword) {
  (void)keyword;
  bool reverse = parser_at_word(p, "reverse") && parser_ahead(p, 1)->kind == TOKEN_NAME;
  if (reverse) parser_take(p);
  const Token *name = parser_name(p, "the dim to scan");
  if (!name) return NULL;
  Ast *t = statement(p, AST_SCAN, name);
  t->integer = reverse;
  Kids kids = {0};
  vec_push(p->a, kids) = NULL;
  if (!parse_carries(p, t, &kids)) return NULL;
  kids.at[0] = parse_block(p);
  return kids.at[0] ? with_kids(p, t, &kids) : NULL;
}

// -- data, train, layout
// --------------------------------------------------------------------------------

static Ast *parse_data(Parser *p, const Token *keyword) {
  (void)keyword;
  const Token *name = parser_name(p, "train, valid or test");
  if (!name) return NULL;
  Ast *t = statement(p, AST_DATA, name);
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
  return parse_entries(p, &kids) ? with_kids(p, t, &kids) : NULL;
}

static Ast *parse_train(Parser *p, const Token *keyword) {
  Ast *t = statement(p, AST_TRAIN, keyword);
  Kids kids = {0};
  Ast *loss = parse_expr(p);
  if (!loss) return NULL;
  vec_push(p->a, kids) = loss;
  return parse_entries(p, &kids) ? with_kids(p, t, &kids) : NULL;
}

// `head.kernel:`, `layer.*.wi:`: a pattern is not cut into tokens as the rest is, so it is read
// from the text. NULL when no colon follows.
static Ast *parse_scope(Parser *p) {
  const Token *first = parser_peek(p), *last = first;
  if (parser_at_end(p)) return NULL;
  while (last->kind == TOKEN_NAME || last->kind == TOKEN_STAR || last->kind == TOKEN_DOT ||
         last->kind == TOKEN_NUMBER) {
    last++;
    if (!last->adjacent) break;
  }
  if (last == first || last->kind != TOKEN_COLON) return NULL;
  Ast *t = ast_new(p, AST_NAME, token_pos(p, first));
  t->pos.len = last[-1].col + last[-1].len - first->col;
  t->text = intern_n(p->names, p->text + first->at, last[-1].at + last[-1].bytes - first->at);
  for (parser_take(p); parser_peek(p) != last; parser_take(p)) parser_peek(p)->glued = true;
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
  const Token *dim = parser_name(p, "a rule: DIM -> AXIS");
  if (!dim) return NULL;
  Ast *t = statement(p, AST_RULE, dim);
  t->integer = soft;
  if (!parser_expect(p, TOKEN_ARROW, "'->'") || !parse_axes(p, t)) return NULL;
  Kids kids = {0};
  vec_push(p->a, kids) = scope;
  return with_kids(p, t, &kids);
}

static Ast *parse_layout(Parser *p, const Token *keyword) {
  Ast *t = statement(p, AST_LAYOUT, keyword), *scope = parse_scope(p);
  Kids kids = {0};
  do {
    Ast *rule = parse_rule(p, scope);
    if (!rule) return NULL;
    vec_push(p->a, kids) = rule;
  } while (parser_accept(p, TOKEN_COMMA));
  return with_kids(p, t, &kids);
}

// -- the sequence of statements
// -----------------------------------------------------------------------

static const struct {
  const char *word;
  ParseStatement *parse;
} keyword_row[] = {
#define KEYWORD(word, parse) {word, parse},
#include "frontend/token.def"
#undef KEYWORD
};

static ParseStatement *keyword_here(const Parser *p) {
  TokenKind next = (TokenKind)parser_ahead(p, 1)->kind;
  if (next == TOKEN_ASSIGN || next == TOKEN_COMMA || next == TOKEN_BRACKET || next == TOKEN_DOT)
    return NULL;
  for (size_t i = 0; i < countof(keyword_row); i++)
    if (parser_at_word(p, keyword_row[i].word)) return keyword_row[i].parse;
  return NULL;
}

// A name followed by a name is most likely a keyword with a slip in it.
static bool misspelt(Parser *p) {
  const Token *word = parser_peek(p), *next = parser_ahead(p, 1);
  if (word->kind != TOKEN_NAME || next->newline ||
      (next->kind != TOKEN_NAME && next->kind != TOKEN_STRING))
    return false;
  const char *words[countof(keyword_row)];
  for (size_t i = 0; i < countof(keyword_row); i++) words[i] = keyword_row[i].word;
  diag_error(p->d, DIAG_SYNTAX, token_pos(p, word), "'%s' starts no statement", word->text);
  diag_nearest(p->d, word->text, words, countof(words));
  return true;
}

static Ast *parse_statement(Parser *p) {
  ParseStatement *parse = keyword_here(p);
  if (parse) return parse(p, parser_take(p));
  if (parser_at(p, TOKEN_NAME)) return misspelt(p) ? NULL : parse_bind(p);
  bool joins = token_row[parser_peek(p)->kind].continues && p->at;
  parser_expected(p, "a statement");
  if (joins) diag_hint(p->d, "an operator that goes on stands at the end of the line before");
  return NULL;
}

// Skips to where the next statement starts: behind the block that the bad one opened, or to a new
// line.
static void resume(Parser *p, uint32_t start) {
  int braces = 0;
  if (p->at == start) parser_take(p);
  for (uint32_t i = start; i < p->at; i++) {
    braces += p->token[i].kind == TOKEN_BRACE;
    if (p->token[i].kind == TOKEN_UNBRACE && braces) braces--;
  }
  p->open = 0;
  for (; !parser_at(p, TOKEN_EOF); parser_take(p)) {
    const Token *t = parser_peek(p);
    if (braces == 0 && (t->newline || t->kind == TOKEN_SEMICOLON || t->kind == TOKEN_UNBRACE))
      return;
    braces += t->kind == TOKEN_BRACE;
    braces -= t->kind == TOKEN_UNBRACE;
  }
}

void parse_statements(Parser *p, Kids *out) {
  bool top = p->depth == 0;
  for (;;) {
    while (parser_accept(p, TOKEN_SEMICOLON)) {
    }
    if (parser_at(p, TOKEN_EOF) || (!top && parser_at(p, TOKEN_UNBRACE))) return;
    uint32_t start = p->at;
    parser_start(p);
    int depth = p->depth;
    Ast *t = parse_statement(p);
    if (t) vec_push(p->a, *out) = t;
    if (t && parser_at_end(p) && !(top && parser_at(p, TOKEN_UNBRACE))) continue;
    if (t) parser_expected(p, "the end of the statement");
    p->depth = depth;
    resume(p, start);
  }
}
