// The lexer: splits model text into tokens, in one pass over its characters. It is the first step
// of the compiler; the parser (parse.c) and the formatter (format.c) read its result.
//
// Line ends are not tokens: each token records whether there is a line end before it. The parser
// knows which brackets are open and decides whether the line end ends a statement. A dotted name is
// one token, including numbers (layer.0.attention.wq), so `state.m` never starts with a keyword.
#include "frontend/syntax/lex.h"

#include <string.h>

const TokenRow token_row[TOKEN_COUNT] = {
#define TOKEN(id, text, precedence, before, after, continues)                                      \
  {text, precedence, before, after, continues},
#include "frontend/syntax/token.def"
#undef TOKEN
};

enum { MAX_SOURCE = 1 << 28 };
// The result of decode for bytes that are not a UTF-8 character.
static const uint32_t BAD = UINT32_MAX;

typedef struct Lexer {
  Arena *a;
  Intern *names;
  Diag *d;
  uint32_t source;
  const char *text;
  uint32_t n, at, line, col;
  bool newline, blank;   // there is a line end, or an empty line, before the next token
  bool empty;            // there is no token on this line yet
  uint32_t previous_end; // offset of the end of the previous token
  Tokens *out;
} Lexer;

static Pos place(const Lexer *x, uint32_t line, uint32_t col, uint32_t len) {
  return (Pos){.source = x->source, .line = line, .col = col, .len = len};
}

static Pos here(const Lexer *x) { return place(x, x->line, x->col, 1); }

static unsigned char byte_at(const Lexer *x, uint32_t i) {
  return i < x->n ? (unsigned char)x->text[i] : 0;
}

static bool is_digit(unsigned char c) { return c >= '0' && c <= '9'; }
static bool is_letter(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_word(unsigned char c) { return is_letter(c) || is_digit(c); }

// Returns the character at byte i, and its length in *bytes. Returns BAD, with length 1, if the
// bytes are not valid UTF-8. Overlong forms, surrogates and values above 10FFFF are not valid (RFC
// 3629).
static uint32_t decode(const Lexer *x, uint32_t i, uint32_t *bytes) {
  unsigned char c = byte_at(x, i);
  *bytes = 1;
  if (c < 0x80) return c;
  uint32_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
  if (c < 0xC2 || c > 0xF4 || i + more >= x->n) return BAD;
  uint32_t value = c & (0x3Fu >> more);
  for (uint32_t k = 1; k <= more; k++) {
    unsigned char next = byte_at(x, i + k);
    if ((next & 0xC0) != 0x80) return BAD;
    value = value << 6 | (next & 0x3F);
  }
  static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
  if (value < least[more] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) return BAD;
  *bytes = more + 1;
  return value;
}

// Moves past one character and returns it. Reports an error if it is not valid UTF-8 or is NUL.
static uint32_t advance(Lexer *x) {
  uint32_t bytes, c = decode(x, x->at, &bytes);
  if (c == BAD)
    diag_error(x->d, DIAG_BAD_UTF8, here(x), "this byte (0x%02x) is not UTF-8", byte_at(x, x->at));
  if (c == 0) diag_error(x->d, DIAG_BAD_CHARACTER, here(x), "the text contains a NUL byte");
  x->at += bytes;
  x->col++;
  return c;
}

static void end_line(Lexer *x) {
  x->at++;
  x->line++;
  x->col = 1;
  x->blank |= x->empty;
  x->empty = x->newline = true;
}

static bool at_line_end(const Lexer *x) {
  return byte_at(x, x->at) == '\n' || (byte_at(x, x->at) == '\r' && byte_at(x, x->at + 1) == '\n');
}

static Token *push(Lexer *x, TokenKind kind, uint32_t at, uint32_t col) {
  Token *t = &vec_push(x->a, x->out->token);
  *t = (Token){.kind = (uint8_t)kind, .newline = x->newline, .blank = x->blank, .at = at};
  t->bytes = x->at - at;
  t->line = x->line;
  t->col = col;
  t->len = x->col - col;
  t->adjacent = at == x->previous_end && x->out->token.n > 1;
  x->previous_end = x->at;
  x->newline = x->blank = x->empty = false;
  return t;
}

static void lex_comment(Lexer *x) {
  uint32_t at = x->at;
  while (x->at < x->n && !at_line_end(x)) advance(x);
  Comment *c = &vec_push(x->a, x->out->comment);
  *c = (Comment){.at = at, .bytes = x->at - at, .before = x->out->token.n};
  c->own_line = x->newline || x->out->token.n == 0;
  c->blank = x->blank;
  x->blank = x->empty = false;
}

// Returns true if the next character is a letter of another alphabet than a to z, or a mark on one.
static bool at_foreign_letter(const Lexer *x) {
  static const struct {
    uint32_t first, last;
  } letters[] = {{0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1FFF}, {0x2C00, 0x2DFF}, {0x3040, 0xD7FF}};
  uint32_t bytes, c = decode(x, x->at, &bytes);
  for (size_t i = 0; i < countof(letters); i++)
    if (c >= letters[i].first && c <= letters[i].last) return true;
  return false;
}

// Moves past a word. Returns true if all its letters may be in a name.
static bool take_word(Lexer *x) {
  bool good = true;
  for (;;) {
    if (is_word(byte_at(x, x->at))) {
      x->at++;
      x->col++;
    } else if (at_foreign_letter(x)) {
      advance(x);
      good = false;
    } else {
      return good;
    }
  }
}

static void lex_name(Lexer *x) {
  uint32_t at = x->at, col = x->col;
  bool good = take_word(x);
  while (byte_at(x, x->at) == '.' && is_word(byte_at(x, x->at + 1))) {
    x->at++;
    x->col++;
    good &= take_word(x);
  }
  const char *text = intern_n(x->names, x->text + at, x->at - at);
  TokenKind kind = strcmp(text, "or") == 0    ? TOKEN_OR
                   : strcmp(text, "and") == 0 ? TOKEN_AND
                   : strcmp(text, "not") == 0 ? TOKEN_NOT
                   : strcmp(text, "inf") == 0 ? TOKEN_NUMBER
                                              : TOKEN_NAME;
  if (!good)
    diag_error(x->d, DIAG_BAD_CHARACTER, place(x, x->line, col, x->col - col),
               "'%.60s' is not a name: it has a letter other than a to z", text);
  if (!good) diag_hint(x->d, "names have the letters a to z and A to Z, digits and _");
  push(x, kind, at, col)->text = text;
}

// Moves past digits with single underscores between them. Returns false if an underscore is
// anywhere else.
static bool take_digits(Lexer *x) {
  bool good = is_digit(byte_at(x, x->at));
  while (is_digit(byte_at(x, x->at)) || byte_at(x, x->at) == '_') {
    if (byte_at(x, x->at) == '_' && !is_digit(byte_at(x, x->at + 1))) good = false;
    x->at++;
  }
  return good;
}

static bool exponent_follows(const Lexer *x) {
  unsigned char e = byte_at(x, x->at), sign = byte_at(x, x->at + 1);
  if (e != 'e' && e != 'E') return false;
  return is_digit(sign) || ((sign == '+' || sign == '-') && is_digit(byte_at(x, x->at + 2)));
}

// Adds a number to the tokens. If letters follow the number directly, the error marks them too.
static void lex_number(Lexer *x) {
  uint32_t at = x->at, col = x->col;
  bool good = take_digits(x);
  if (byte_at(x, x->at) == '.' && is_digit(byte_at(x, x->at + 1))) {
    x->at++;
    good &= take_digits(x);
  }
  if (exponent_follows(x)) {
    x->at += is_digit(byte_at(x, x->at + 1)) ? 1 : 2;
    good &= take_digits(x);
  }
  while (is_word(byte_at(x, x->at))) {
    good = false;
    x->at++;
  }
  x->col += x->at - at;
  const char *text = intern_n(x->names, x->text + at, x->at - at);
  if (!good)
    diag_error(x->d, DIAG_BAD_NUMBER, place(x, x->line, col, x->col - col),
               "'%.60s' is not a number", text);
  push(x, TOKEN_NUMBER, at, col)->text = text;
}

static char escape(unsigned char c) {
  return c == 'n' ? '\n' : c == 't' ? '\t' : c == '"' || c == '\\' ? (char)c : '\0';
}

// Adds a string to the tokens and replaces its escapes. A string must end on the line where it
// starts.
static void lex_string(Lexer *x) {
  uint32_t at = x->at, col = x->col;
  advance(x);
  VEC(char) text = {0};
  while (x->at < x->n && byte_at(x, x->at) != '"' && !at_line_end(x)) {
    uint32_t from = x->at;
    if (byte_at(x, from) == '\\') {
      char plain = escape(byte_at(x, from + 1));
      if (!plain) diag_error(x->d, DIAG_BAD_STRING, here(x), "unknown escape in a string");
      advance(x);
      if (!plain) continue;
      advance(x);
      vec_push(x->a, text) = plain;
      continue;
    }
    uint32_t c = advance(x);
    for (uint32_t i = from; c != 0 && c != BAD && i < x->at; i++) vec_push(x->a, text) = x->text[i];
  }
  if (byte_at(x, x->at) == '"') {
    advance(x);
  } else {
    diag_error(x->d, DIAG_BAD_STRING, place(x, x->line, col, 1),
               "this string does not end on its line");
  }
  push(x, TOKEN_STRING, at, col)->text = intern_n(x->names, text.n ? text.at : "", text.n);
}

// Hints for characters that the language does not have but that look like ones it has.
static const struct {
  uint32_t c;
  const char *hint;
} lookalike[] = {
    {0x2212, "write - for minus"},
    {0x2013, "write - for minus"},
    {0x2014, "write - for minus"},
    {0x201C, "strings are written \"...\""},
    {0x201D, "strings are written \"...\""},
    {'\'', "strings are written \"...\""},
    {0x00D7, "write * for times"},
    {0x00B7, "write * for times"},
    {0x2192, "write -> for an arrow"},
    {0x00A0, "this is a no-break space: write a plain one"},
    {'&', "write and"},
    {'|', "write or"},
    {'!', "write not"},
    {'@', "a matrix product is sum[d](x * w)"},
    {0x00B2, "write x ^ 2 for a power"},
    {0x00B3, "write x ^ 3 for a power"},
    {'?', "a choice is where(condition, a, b)"},
};

static void say_bad_character(Lexer *x) {
  Pos pos = here(x);
  uint32_t at = x->at, c = advance(x);
  if (c == 0 || c == BAD) return;
  if (c < 0x20 || c == 0x7F)
    diag_error(x->d, DIAG_BAD_CHARACTER, pos, "the text contains a control character (0x%02x)", c);
  else
    diag_error(x->d, DIAG_BAD_CHARACTER, pos, "'%.*s' has no meaning here", (int)(x->at - at),
               x->text + at);
  for (size_t i = 0; i < countof(lookalike); i++)
    if (lookalike[i].c == c) diag_hint(x->d, "%s", lookalike[i].hint);
}

// Adds a character that has no meaning to the tokens, with the same characters after it: && is one.
static void bad_character(Lexer *x) {
  uint32_t at = x->at, col = x->col;
  say_bad_character(x);
  uint32_t n = x->at - at;
  while (x->at + n <= x->n && memcmp(x->text + at, x->text + x->at, n) == 0) {
    x->at += n;
    x->col++;
  }
  push(x, TOKEN_BAD, at, col);
}

// Adds an operator or a bracket to the tokens: the longest row of the token table that matches the
// next characters.
static void lex_operator(Lexer *x) {
  TokenKind best = TOKEN_EOF;
  uint32_t length = 0;
  for (int k = TOKEN_OPEN; k < TOKEN_COUNT; k++) {
    uint32_t n = (uint32_t)strlen(token_row[k].text);
    if (is_letter((unsigned char)token_row[k].text[0]) || n <= length || n > x->n - x->at) continue;
    if (memcmp(x->text + x->at, token_row[k].text, n) != 0) continue;
    best = (TokenKind)k;
    length = n;
  }
  if (!length) {
    bad_character(x);
    return;
  }
  uint32_t at = x->at, col = x->col;
  x->at += length;
  x->col += length;
  if (best == TOKEN_DOT && is_digit(byte_at(x, x->at)) && !(at > 0 && x->text[at - 1] == '*')) {
    diag_error(x->d, DIAG_BAD_NUMBER, place(x, x->line, col, 1), "a number starts with a digit");
    diag_hint(x->d, "write 0.5");
  }
  push(x, best, at, col);
}

static void lex_one(Lexer *x) {
  unsigned char c = byte_at(x, x->at);
  if (at_line_end(x)) {
    if (c == '\r') x->at++;
    end_line(x);
  } else if (c == ' ' || c == '\t') {
    advance(x);
  } else if (c == '#') {
    lex_comment(x);
  } else if (is_letter(c) || at_foreign_letter(x)) {
    lex_name(x);
  } else if (is_digit(c)) {
    lex_number(x);
  } else if (c == '"') {
    lex_string(x);
  } else {
    lex_operator(x);
  }
}

void lex(Tokens *out, Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
         size_t n) {
  *out = (Tokens){0};
  Lexer x = {.a = a,
             .names = names,
             .d = d,
             .source = source,
             .text = text,
             .line = 1,
             .col = 1,
             .empty = true,
             .out = out};
  if (n > MAX_SOURCE) {
    diag_error(d, DIAG_SYNTAX, (Pos){.source = source, .line = 1, .col = 1, .len = 1},
               "the file has %zu bytes; a model file has at most %d", n, MAX_SOURCE);
    n = 0;
  }
  if (n >= 2 && (memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0)) {
    diag_error(d, DIAG_BAD_UTF8, place(&x, 1, 1, 1), "the file is UTF-16, not UTF-8");
    n = 0; // one message, not one for each byte
  }
  x.n = (uint32_t)n;
  // some editors write a byte order mark first; the lexer skips it
  bool mark = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
  if (mark) x.at = 3;
  while (x.at < x.n) lex_one(&x);
  push(&x, TOKEN_EOF, x.at, x.col)->newline = true;
}
