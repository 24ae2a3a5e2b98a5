// Converts text to ids and back (token_codec.h). A kind of tokens is a row of the table `codecs`.
#include "runtime/generate/token_codec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const token_kinds[] = {"bytes", "ids"};

TokenCodec token_codec(const DataSource *source, int64_t vocab) {
  bool text = source && source->kind == SOURCE_TEXT;
  return (TokenCodec){.kind = text ? TOKEN_BYTES : TOKEN_NUMBERS, .vocab = vocab};
}

static bool outside(const TokenCodec *c, const char *what, long long id, Diag *d, Pos at) {
  diag_error(d, DIAG_INDEX_RANGE, at, "%s is %lld, and the vocabulary has ids 0 to %lld", what, id,
             (long long)c->vocab - 1);
  return false;
}

static bool encode_bytes(const TokenCodec *c, const char *text, size_t n, Diag *d, Pos at,
                         TokenList *out) {
  for (size_t i = 0; i < n; i++) {
    int32_t id = (unsigned char)text[i];
    if (id >= c->vocab) return outside(c, "a byte of the text", id, d, at);
    out->id[out->n++] = id;
  }
  return true;
}

static bool encode_numbers(const TokenCodec *c, const char *text, size_t n, Diag *d, Pos at,
                           TokenList *out) {
  for (const char *p = text, *end = text + n;;) {
    while (p < end && (isspace((unsigned char)*p) || *p == ',')) p++;
    if (p == end) return true;
    char *after;
    long long id = strtoll(p, &after, 10);
    if (after == p || after > end) {
      diag_error(d, DIAG_USAGE, at, "the model reads ids, and '%.12s' is no number", p);
      return diag_hint(d, "write ids with spaces between them, or say --tokens bytes");
    }
    if (id < 0 || id >= c->vocab) return outside(c, "an id of the text", id, d, at);
    out->id[out->n++] = (int32_t)id;
    p = after;
  }
}

static size_t decode_byte(int32_t id, bool first, char *out) {
  (void)first;
  *out = (char)id;
  return id < 256;
}

static size_t decode_number(int32_t id, bool first, char *out) {
  return (size_t)snprintf(out, TOKEN_MOST_TEXT, "%s%d", first ? "" : " ", id);
}

// By TokenKind. `encode` appends to out->id, which has room for an id a byte of the text.
static const struct {
  bool (*encode)(const TokenCodec *c, const char *text, size_t n, Diag *d, Pos at, TokenList *out);
  size_t (*decode)(int32_t id, bool first, char *out);
} codecs[] = {{encode_bytes, decode_byte}, {encode_numbers, decode_number}};

bool token_encode(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d, Pos at,
                  TokenList *out) {
  *out = (TokenList){.id = arena_array(a, int32_t, n + 1)};
  const char *copy = arena_text(a, text, n); // ends in a zero, for strtoll
  return codecs[c->kind].encode(c, copy, n, d, at, out);
}

size_t token_decode(const TokenCodec *c, int32_t id, bool first, char *out) {
  return codecs[c->kind].decode(id, first, out);
}
