// Converts text to the ids of a model and back. Which ids a model reads follows from the source of
// its ids in the data block: those of its vocabulary if it has one, else bytes for text(...), else
// numbers.
#ifndef RUNTIME_TOKEN_CODEC_H
#define RUNTIME_TOKEN_CODEC_H

#include "ir/base/diag.h"
#include "ir/program/spec.h"
#include "runtime/tokens/vocabulary.h"

typedef enum TokenKind {
  TOKEN_BYTES,   // an id is a byte of the text
  TOKEN_NUMBERS, // text is a list of ids: "12 7 431"
  TOKEN_PIECES   // an id is a piece of a vocabulary
} TokenKind;
extern const char *const token_kinds[]; // by TokenKind: its name for users

// Ids 0 to vocab-1.
typedef struct TokenCodec {
  TokenKind kind;
  int64_t vocab;
  int32_t end;                  // the id that ends a text, or -1
  const Vocabulary *vocabulary; // of TOKEN_PIECES; the caller keeps it
} TokenCodec;
typedef struct TokenList {
  int64_t n;
  int32_t *id; // in the arena of token_encode
} TokenList;

// Returns the codec for ids that come from this source; NULL: their source is not known. The ids
// are those of `vocabulary` unless that is NULL.
TokenCodec token_codec(const DataSource *source, const Vocabulary *vocabulary, int64_t vocab);
// Converts text[0..n) to ids. Returns false after an error in d at `at`: an id outside the
// vocabulary, or text that is no number.
MUST_USE bool token_encode(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d,
                           Pos at, TokenList *out);
// Returns the text of an id and sets *n to its bytes; first: it is the first of a text. `room` is
// where it is written if the codec does not have it.
enum { TOKEN_ROOM = 16 }; // bytes
const char *token_text(const TokenCodec *c, int32_t id, bool first, char room[TOKEN_ROOM],
                       size_t *n);

#endif
