// The formatter (`fmt`): prints a model file with canonical spaces, indentation and line ends.
//
// It prints the tokens and the comments of the file in their order. Only white space changes, and
// `;` becomes a line end, so the tree stays the same. Line ends inside a statement are kept. The
// parser runs first: it finds errors, and marks the tokens that start a statement and those that
// have no space before them.
//
//   for i in 0..3 {     for i in 0..3 {
//   x=-x; y=f( x ) }      x = -x
//                         y = f(x)
//                       }
#include "frontend/syntax/parse_internal.h"

#include <string.h>

enum { INDENT = 2 };

typedef struct Printer {
  Arena *a;
  const char *source;
  const Tokens *tokens;
  bool *on_one_line; // index: token. True for both braces of a block that is on one line
  VEC(char) out;
  VEC(bool) block;  // one element for each open block: true if the block is on one line
  int brackets;     // number of open parentheses and brackets
  uint32_t comment; // index of the next comment to print
  bool opened;      // the last token printed was an opening brace
  bool broken;      // the last token was a `;` that became a line end
} Printer;

static const Token *token_at(const Printer *p, uint32_t i) { return &p->tokens->token.at[i]; }

static void put(Printer *p, const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) vec_push(p->a, p->out) = text[i];
}

static bool line_empty(const Printer *p) {
  return p->out.n == 0 || p->out.at[p->out.n - 1] == '\n';
}

static void start_line(Printer *p, bool blank, int level) {
  if (!line_empty(p)) put(p, "\n", 1);
  if (blank && p->out.n && !p->opened) put(p, "\n", 1);
  for (int i = 0; i < level * INDENT; i++) put(p, " ", 1);
}

// Finds the blocks that are on one line in the file; they stay on one line. A block is on one line
// if no line end and no comment is between its braces.
static void find_blocks(Printer *p) {
  uint32_t n = p->tokens->token.n, comment = 0, breaks = 0;
  uint32_t *before = arena_array(p->a, uint32_t, n);
  VEC(uint32_t) open = {0};
  p->on_one_line = arena_array(p->a, bool, n);
  for (uint32_t i = 0; i < n; i++) {
    breaks += token_at(p, i)->newline;
    for (; comment < p->tokens->comment.n && p->tokens->comment.at[comment].before <= i; comment++)
      breaks++;
    before[i] = breaks;
    if (token_at(p, i)->kind == TOKEN_BRACE) vec_push(p->a, open) = i;
    if (token_at(p, i)->kind != TOKEN_UNBRACE || !open.n) continue;
    uint32_t first = open.at[--open.n];
    p->on_one_line[first] = p->on_one_line[i] = before[first] == breaks;
  }
}

static bool ends_statement(const Token *t) {
  return t->kind == TOKEN_EOF || t->kind == TOKEN_UNBRACE || t->kind == TOKEN_SEMICOLON;
}

// Returns the indentation, in levels, of a line that token t starts, or of a comment before t.
static int level_of(const Printer *p, const Token *t, bool comment) {
  bool closes = t->kind == TOKEN_CLOSE || t->kind == TOKEN_UNBRACKET || t->kind == TOKEN_UNBRACE;
  bool goes_on = p->brackets == 0 && !t->starts && !ends_statement(t);
  return (int)p->block.n + p->brackets + goes_on - (closes && !comment);
}

static bool breaks_before(const Printer *p, uint32_t i) {
  const Token *t = token_at(p, i);
  if (line_empty(p) || t->newline || p->broken) return true;
  if (t->kind == TOKEN_UNBRACE) return !p->on_one_line[i];
  return i && token_at(p, i - 1)->kind == TOKEN_BRACE && !p->on_one_line[i - 1];
}

static void put_space(Printer *p, uint32_t i) {
  const Token *t = token_at(p, i);
  if (breaks_before(p, i))
    start_line(p, t->blank && t->kind != TOKEN_UNBRACE, level_of(p, t, false));
  else if (!t->glued && token_row[t->kind].before && i && token_row[token_at(p, i - 1)->kind].after)
    put(p, " ", 1);
}

static void count_brackets(Printer *p, uint32_t i) {
  TokenKind kind = (TokenKind)token_at(p, i)->kind;
  p->brackets += (kind == TOKEN_OPEN || kind == TOKEN_BRACKET) -
                 (kind == TOKEN_CLOSE || kind == TOKEN_UNBRACKET);
  if (kind == TOKEN_BRACE) vec_push(p->a, p->block) = p->on_one_line[i];
  if (kind == TOKEN_UNBRACE && p->block.n) p->block.n--;
}

// Returns true if token i is a `;` that is not printed. Inside a block on one line a `;` is
// printed, except before the closing brace. Elsewhere it becomes a line end.
static bool drops(const Printer *p, uint32_t i) {
  if (token_at(p, i)->kind != TOKEN_SEMICOLON) return false;
  return p->block.n == 0 || !p->block.at[p->block.n - 1] ||
         token_at(p, i + 1)->kind == TOKEN_UNBRACE;
}

// Returns the index of the first token from i on that is printed. That token, and not a dropped
// `;`, decides the indentation of a comment before it. So a second run of the formatter, which sees
// no such `;`, gives the same text.
static uint32_t kept(const Printer *p, uint32_t i) {
  while (drops(p, i)) i++;
  return i;
}

static void put_comments(Printer *p, uint32_t i) {
  for (; p->comment < p->tokens->comment.n && p->tokens->comment.at[p->comment].before <= i;
       p->comment++) {
    const Comment *c = &p->tokens->comment.at[p->comment];
    size_t n = c->bytes;
    while (n && (p->source[c->at + n - 1] == ' ' || p->source[c->at + n - 1] == '\t')) n--;
    // a comment also starts a line if the only token before it on its line is a dropped `;`
    if (c->own_line || line_empty(p))
      start_line(p, c->blank, level_of(p, token_at(p, kept(p, i)), true));
    else
      put(p, "  ", 2);
    put(p, p->source + c->at, n);
    put(p, "\n", 1);
    p->opened = p->broken = false;
  }
}

static void put_token(Printer *p, uint32_t i) {
  const Token *t = token_at(p, i);
  put_comments(p, i);
  if (t->kind == TOKEN_EOF) return;
  if (drops(p, i)) {
    p->broken |= token_at(p, i + 1)->kind != TOKEN_UNBRACE;
    return;
  }
  put_space(p, i);
  put(p, p->source + t->at, t->bytes);
  count_brackets(p, i);
  p->opened = t->kind == TOKEN_BRACE;
  p->broken = false;
}

char *ast_format(Arena *a, Intern *names, Diag *d, uint32_t source, const char *text, size_t n) {
  Tokens tokens;
  int errors = diag_errors(d);
  Parser parser = parser_new(a, names, d, source, text, n, &tokens);
  parse_file(&parser);
  if (diag_errors(d) > errors) return NULL;
  Printer p = {.a = a, .source = text, .tokens = &tokens};
  find_blocks(&p);
  for (uint32_t i = 0; i < tokens.token.n; i++) put_token(&p, i);
  if (!line_empty(&p)) put(&p, "\n", 1);
  put(&p, "", 1);
  return p.out.at;
}
