// Converts text to ids and back (token_codec.h). A kind of tokens is a row of the table `codecs`.
#include "runtime/generate/token_codec.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *const token_kinds[] = {"bytes", "ids", "pieces"};

TokenCodec token_codec(const DataSource *source, const Vocabulary *vocabulary, int64_t vocab) {
  bool text = source && source->kind == SOURCE_TEXT;
  return (TokenCodec){.kind = vocabulary ? TOKEN_PIECES
                              : text     ? TOKEN_BYTES
                                         : TOKEN_NUMBERS,
                      .vocab = vocab,
                      .end = vocabulary ? vocabulary_end(vocabulary) : -1,
                      .vocabulary = vocabulary};
}

static bool outside(const TokenCodec *c, const char *what, long long id, Diag *d, Pos at) {
  diag_error(d, DIAG_INDEX_RANGE, at, "%s is %lld, and the vocabulary has ids 0 to %lld", what, id,
             (long long)c->vocab - 1);
  return false;
}

static bool encode_bytes(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d, Pos at,
                         TokenList *out) {
  out->id = arena_array(a, int32_t, n + 1);
  for (size_t i = 0; i < n; i++) {
    int32_t id = (unsigned char)text[i];
    if (id >= c->vocab) return outside(c, "a byte of the text", id, d, at);
    out->id[out->n++] = id;
  }
  return true;
}

static bool encode_numbers(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d,
                           Pos at, TokenList *out) {
  out->id = arena_array(a, int32_t, n + 1);
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

static bool encode_pieces(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d,
                          Pos at, TokenList *out) {
  IdList ids = {0};
  bool good = true;
  vocabulary_encode(c->vocabulary, text, n, &ids);
  for (int64_t i = 0; good && i < ids.n; i++)
    good = ids.id[i] < c->vocab || outside(c, "an id of the text", ids.id[i], d, at);
  *out = (TokenList){ids.n, arena_copy(a, ids.id, (size_t)ids.n * sizeof *ids.id)};
  free(ids.id);
  return good;
}

static const char *byte_text(const TokenCodec *c, int32_t id, bool first, char *room, size_t *n) {
  (void)c, (void)first;
  *room = (char)id;
  *n = id < 256;
  return room;
}

static const char *number_text(const TokenCodec *c, int32_t id, bool first, char *room, size_t *n) {
  (void)c;
  *n = (size_t)snprintf(room, TOKEN_ROOM, "%s%d", first ? "" : " ", id);
  return room;
}

static const char *piece_text(const TokenCodec *c, int32_t id, bool first, char *room, size_t *n) {
  (void)room;
  return vocabulary_text(c->vocabulary, id, first, n);
}

// By TokenKind.
static const struct {
  bool (*encode)(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d, Pos at,
                 TokenList *out);
  const char *(*text)(const TokenCodec *c, int32_t id, bool first, char *room, size_t *n);
} codecs[] = {
    {encode_bytes, byte_text}, {encode_numbers, number_text}, {encode_pieces, piece_text}};

bool token_encode(const TokenCodec *c, Arena *a, const char *text, size_t n, Diag *d, Pos at,
                  TokenList *out) {
  *out = (TokenList){0};
  const char *copy = arena_text(a, text, n); // ends in a zero, for strtoll
  return codecs[c->kind].encode(c, a, copy, n, d, at, out);
}

const char *token_text(const TokenCodec *c, int32_t id, bool first, char room[TOKEN_ROOM],
                       size_t *n) {
  return codecs[c->kind].text(c, id, first, room, n);
}
