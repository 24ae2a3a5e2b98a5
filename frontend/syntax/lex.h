// Tokens of a model file, all at once, with the comments beside them (for fmt).
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
  uint8_t kind;        // a TokenKind
  bool newline, blank; // a line end, an empty line stands before it
  bool adjacent;       // nothing stands between it and the token before
  bool glued,
      starts; // set by the parser, for fmt: no space before it; it starts a statement or an entry
  uint32_t at, bytes; // in the source text
  uint32_t line, col, len;
  const char *text; // interned: a name, a number as written, a string with its escapes replaced
} Token;

typedef struct Comment {
  uint32_t at, bytes;
  uint32_t before; // index of the token that follows it
  bool own_line;   // nothing but the comment stands on its line
  bool blank;      // an empty line stands before it
} Comment;

typedef struct Tokens {
  VEC(Token) token; // the last one is EOF
  VEC(Comment) comment;
} Tokens;

// Splits text into tokens; errors go to d, bad characters are skipped. Never fails.
void lex(Tokens *out, Arena *a, Intern *names, Diag *d, uint32_t source, const char *text,
         size_t n);

#endif
