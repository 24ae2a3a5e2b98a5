// The lexer: splits a whole model file into tokens. Comments are no tokens; they are kept in a list
// of their own, for `fmt`.
#ifndef FRONTEND_LEX_H
#define FRONTEND_LEX_H

#include "ir/base/diag.h"
#include "ir/base/intern.h"

typedef enum TokenKind {
#define TOKEN(id, text, precedence, before, after, continues) TOKEN_##id,
#include "frontend/syntax/token.def"
#undef TOKEN
  TOKEN_COUNT
} TokenKind;

typedef struct TokenRow {
  const char *text;
  int precedence;
  bool before, after, continues;
} TokenRow;
extern const TokenRow token_row[TOKEN_COUNT];

typedef struct Token {
  uint8_t kind;       // a TokenKind
  bool newline;       // a line end precedes the token
  bool blank;         // an empty line precedes the token
  bool adjacent;      // no white space or comment separates it from the previous token
  bool glued;         // `fmt` puts no space before the token
  bool starts;        // the token starts a statement or an entry, for the indentation of `fmt`
  uint32_t at, bytes; // offset in the source text and length, in bytes
  uint32_t line, col, len;
  const char *text; // interned: a name, a number as written, a string without escapes
} Token;

typedef struct Comment {
  uint32_t at, bytes;
  uint32_t before; // index in Tokens.token of the first token after the comment
  bool own_line;   // no token precedes the comment on its line
  bool blank;      // an empty line precedes the comment
} Comment;

typedef struct Tokens {
  VEC(Token) token; // the last token is EOF
  VEC(Comment) comment;
} Tokens;

// Splits n bytes of text into tokens, allocated from a. Errors go to d; bad characters become
// tokens BAD.
void lex(Tokens *out, Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
         size_t n);

#endif
