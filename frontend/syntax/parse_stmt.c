// Parses statements. A word is a keyword only at the start of a statement, and only if no `=`, `,`,
// `[` or `.` follows: `state = tanh(x)` binds a value. A dotted name is one token and never a
// keyword.
//
// After an error, parsing resumes after the statement: at the next line, or after the block that
// the statement opened, so that an error in its head does not cause errors in its body.
#include "frontend/syntax/parse_internal.h"

#include <string.h>

Ast *ast_statement(Parser *p, AstKind kind, const Token *name) {
  Ast *t = ast_new(p, kind, token_pos(p, name));
  t->text = name->text;
  return t;
}

// -- blocks -------------------------------------------------------------------------------------

// Takes the `{` of a block and returns it, or gives an error and returns NULL.
static const Token *parse_brace(Parser *p) {
  if (!parser_at_end(p) && parser_at(p, TOKEN_BRACE)) return parser_take(p);
  parser_expected(p, "'{'");
  diag_hint(p->d, "put the '{' of a block on the line of its head");
  return NULL;
}

Ast *parse_block(Parser *p) {
  if (!parser_enter(p)) return NULL;
  const Token *brace = parse_brace(p);
  if (!brace) return NULL;
  Ast *t = ast_new(p, AST_BLOCK, token_pos(p, brace));
  parse_statements(p, t);
  parser_leave(p);
  if (!parser_expect(p, TOKEN_UNBRACE, "'}'")) {
    diag_note(p->d, token_pos(p, brace), "the block opened here");
    return NULL;
  }
  return ast_end(p, t);
}

bool parse_entries(Parser *p, Ast *t) {
  if (!parse_brace(p)) return false;
  for (;;) {
    while (parser_at(p, TOKEN_COMMA) || parser_at(p, TOKEN_SEMICOLON)) parser_take(p);
    if (parser_accept(p, TOKEN_UNBRACE)) return true;
    parser_start(p);
    const Token *name = parser_name(p, "an entry: NAME = VALUE");
    if (!ast_add(p, t, parse_named(p, AST_ENTRY, name))) return false;
    if (!parser_at(p, TOKEN_COMMA) && !parser_at_end(p))
      return parser_expected(p, "',' or the end of the line");
  }
}

// -- parts that several statements have ---------------------------------------------------------

bool parse_word(Parser *p, const char *word, const char *hint) {
  if (!parser_at_end(p) && parser_at_word(p, word)) return parser_take(p);
  parser_expected(p, arena_printf(p->a, "'%s'", word));
  if (hint) diag_hint(p->d, "%s", hint);
  return false;
}

bool parse_list(Parser *p, Ast *t, ParseItem *item, bool loose) {
  if (!parser_accept(p, TOKEN_OPEN)) return true;
  p->open++;
  while (!loose || !parser_at(p, TOKEN_CLOSE)) {
    if (!item(p, t)) return false;
    if (!parser_accept(p, TOKEN_COMMA)) break;
  }
  if (!parser_expect(p, TOKEN_CLOSE, "',' or ')'")) return false;
  p->open--;
  return true;
}

bool parse_optional_dims(Parser *p, Ast *t) {
  if (parser_at_end(p) || !parser_at(p, TOKEN_BRACKET)) return true;
  parser_peek(p)->glued = true;
  return parse_dims(p, t);
}

Ast *parse_target(Parser *p) {
  const Token *name = parser_name(p, "a name");
  if (!name) return NULL;
  Ast *t = ast_statement(p, AST_TARGET, name);
  if (!parse_optional_dims(p, t)) return NULL;
  Ast *type;
  if (!parse_type(p, &type)) return NULL;
  if (type) ast_add(p, t, type);
  // a bare dotted name is allowed: `output layer.0.y` names an existing value
  return type || parser_at_end(p) || parser_is_new(p, name) ? ast_end(p, t) : NULL;
}

bool parse_option_item(Parser *p, Ast *t) {
  const Token *name = parser_name(p, "NAME = VALUE");
  if (!name || !parser_expect(p, TOKEN_ASSIGN, "'='")) return false;
  Ast *value = parse_expr(p);
  if (!value) return false;
  ast_add_arg(p, t, (AstArg){.name = name->text, .value = value, .pos = token_pos(p, name)});
  return true;
}

bool parse_value(Parser *p, Ast *t) {
  if (parser_expect(p, TOKEN_ASSIGN, "'='")) return ast_add(p, t, parse_expr(p));
  const Token *op = parser_peek(p), *next = parser_ahead(p, 1);
  if (token_row[op->kind].continues && next->kind == TOKEN_ASSIGN && next->at == op->at + op->bytes)
    diag_hint(p->d, "write NAME = NAME %s ...", token_row[op->kind].text);
  return false;
}

Ast *parse_named(Parser *p, AstKind kind, const Token *name) {
  Ast *t = name ? ast_statement(p, kind, name) : NULL;
  return t && parse_value(p, t) ? ast_end(p, t) : NULL;
}

// -- the sequence of statements -----------------------------------------------------------------

static const struct {
  const char *word;
  ParseStatement *parse;
} keyword_row[] = {
#define KEYWORD(word, parse) {word, parse},
#include "frontend/syntax/token.def"
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

// Reports an error and returns true if the next token is most likely a misspelt keyword: a name
// with another name after it. Otherwise returns false.
static bool misspelt(Parser *p) {
  const Token *word = parser_peek(p), *next = parser_ahead(p, 1);
  if (word->kind != TOKEN_NAME || next->newline ||
      (next->kind != TOKEN_NAME && next->kind != TOKEN_STRING))
    return false;
  const char *words[countof(keyword_row)];
  for (size_t i = 0; i < countof(keyword_row); i++) words[i] = keyword_row[i].word;
  diag_error(p->d, DIAG_SYNTAX, token_pos(p, word), "'%s' does not start a statement", word->text);
  diag_nearest(p->d, word->text, words, countof(words));
  return true;
}

// Returns the text after the next token up to the end of its line, a brace or a colon; for `def
// f(x, y):` that is "f(x, y)". Returns NULL if the text is empty or longer than 60 bytes.
static const char *rest_of_line(const Parser *p) {
  const Token *first = parser_ahead(p, 1), *t = first;
  while (t->kind != TOKEN_EOF && !t->newline && t->kind != TOKEN_BRACE && t->kind != TOKEN_COLON)
    t++;
  if (t == first || first->newline) return NULL;
  uint32_t n = t[-1].at + t[-1].bytes - first->at;
  return n <= 60 ? arena_text(p->a, p->text + first->at, n) : NULL;
}

// Reports an error and returns true if the next token is a word that starts statements in other
// languages, such as `def`. Otherwise, or if the word is bound as the name of a value, returns
// false.
static bool foreign(Parser *p) {
  const Token *word = parser_peek(p), *next = parser_ahead(p, 1);
  bool binds =
      next->kind == TOKEN_ASSIGN || next->kind == TOKEN_COMMA || next->kind == TOKEN_BRACKET;
  if (binds || !habit_known(HABIT_STATEMENT, word->text)) return false;
  diag_error(p->d, DIAG_SYNTAX, token_pos(p, word), "'%s' does not start a statement", word->text);
  habit_hint(p->d, p->a, HABIT_STATEMENT, word->text, &(HabitNames){.t = rest_of_line(p)});
  return true;
}

static Ast *parse_statement(Parser *p) {
  ParseStatement *parse = keyword_here(p);
  if (parse) return parse(p, parser_take(p));
  if (parser_at(p, TOKEN_NAME) && foreign(p)) return NULL;
  if (parser_at(p, TOKEN_NAME)) return misspelt(p) ? NULL : parse_bind(p);
  bool comment = parser_at(p, TOKEN_SLASH);
  bool joins = token_row[parser_peek(p)->kind].continues && p->at;
  if (comment)
    comment = parser_ahead(p, 1)->kind == TOKEN_SLASH || parser_ahead(p, 1)->kind == TOKEN_STAR;
  parser_expected(p, "a statement");
  if (comment)
    diag_hint(p->d, "a comment starts with #");
  else if (joins)
    diag_hint(p->d, "put an operator that continues a line at the end of the line before");
  return NULL;
}

// Skips to the start of the next statement: after the block that the bad statement opened, also on
// the next line, or at a new line.
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
    bool line = t->newline && t->kind != TOKEN_BRACE;
    if (braces == 0 && (line || t->kind == TOKEN_SEMICOLON || t->kind == TOKEN_UNBRACE)) return;
    braces += t->kind == TOKEN_BRACE;
    braces -= t->kind == TOKEN_UNBRACE;
  }
}

// Reports that a statement goes on, with a hint for what other languages have there: `x if c else
// y`, or `lambda v: v`, whose first word reads as a name.
static void no_end(Parser *p) {
  const Token *here = parser_peek(p), *before = p->at ? here - 1 : here;
  HabitNames names = {.x = before->text, .y = here->text};
  parser_expected(p, "the end of the statement");
  const char *text = arena_text(p->a, p->text + here->at, here->bytes);
  if (before->text && habit_hint(p->d, p->a, HABIT_BEFORE, before->text, &names)) return;
  if (habit_hint(p->d, p->a, HABIT_REST, text, &names) || before->kind != TOKEN_NAME) return;
  if (here->kind == TOKEN_NAME || here->kind == TOKEN_NUMBER)
    diag_hint(p->d, "a call has parentheses, a product a star: %s(%s), %s * %s", before->text,
              here->text, before->text, here->text);
}

void parse_statements(Parser *p, Ast *out) {
  bool top = p->depth == 0;
  for (;;) {
    while (parser_accept(p, TOKEN_SEMICOLON)) {
    }
    if (parser_at(p, TOKEN_EOF) || (!top && parser_at(p, TOKEN_UNBRACE))) return;
    uint32_t start = p->at;
    parser_start(p);
    int depth = p->depth;
    Ast *t = parse_statement(p);
    if (t) ast_add(p, out, t);
    if (t && parser_at_end(p) && !(top && parser_at(p, TOKEN_UNBRACE))) continue;
    if (t) no_end(p);
    p->depth = depth;
    resume(p, start);
  }
}
