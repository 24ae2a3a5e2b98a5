// Converts text to the ids of a model and back. Which ids a model reads follows from the source of
// its ids in the data block: bytes for text(...), numbers otherwise.
#ifndef RUNTIME_TOKEN_CODEC_H
#define RUNTIME_TOKEN_CODEC_H

#include "ir/base/diag.h"
#include "ir/program/spec.h"

typedef enum TokenKind {
  TOKEN_BYTES,  // an id is a byte of the text
  TOKEN_NUMBERS // text is a list of ids: "12 7 431"
} TokenKind;
extern const char *const token_kinds[]; // by TokenKind: its name for users

// Ids 0 to vocab-1.
typedef struct TokenCodec {
  TokenKind kind;
  int64_t vocab;
} TokenCodec;
typedef struct TokenList {
  int64_t n;
  int32_t *id; // in the arena of token_encode
} TokenList;

// Returns the codec for ids that come from this source; NULL: their source is not known.
TokenCodec token_codec(const DataSource *source, int64_t vocab);
// Converts text[0..n) to ids. Returns false after an error in d at `at`: an id outside the
// vocabulary, or text that is no number.
MUST_USE bool token_encode(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d,
                           Pos at, TokenList *out);
// Writes the text of an id to out and returns its length; first: it is the first of a text.
enum { TOKEN_MOST_TEXT = 256 }; // bytes that out has
size_t token_decode(const TokenCodec *c, int32_t id, bool first, char *out);

#endif
