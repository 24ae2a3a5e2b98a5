// Byte-level BPE, as GPT-2 has it: every byte is a piece, so that any text can be written.
//
// vocab.json maps pieces to ids. Their bytes are written as characters: printable ones of Latin-1
// as themselves, the others as those from U+0100 on. merges.txt has a line "LEFT RIGHT" for each
// merge, the first to be done first.
#include "runtime/tokens/vocabulary_internal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/hash.h"

// Merges by the ids of their parts, with open addressing.
struct BpeMerges {
  uint32_t mask;
  struct BpeMerge {
    int32_t left, right, id, rank; // id = -1: free
  } * at;
};

// -- characters that stand for bytes -------------------------------------------------------------

// Returns whether a byte is written as the character with its own code.
static bool is_plain(int b) { return (b > 32 && b < 127) || (b > 160 && b != 173); }

// Returns the byte for which a character stands, or -1.
static int byte_of(int32_t c) {
  if (c >= 0 && c < 256) return is_plain(c) ? c : -1;
  int b = 0;
  for (int32_t k = c - 256; b < 256; b++)
    if (!is_plain(b) && k-- == 0) break;
  return c >= 256 && b < 256 ? b : -1;
}

// Writes the bytes of a piece that is given as characters. Returns their number, or -1.
static int32_t bytes_of(const char *text, size_t n, char *out) {
  int32_t bytes = 0, c;
  for (size_t i = 0; i < n; bytes++) {
    i += utf8_next(text + i, n - i, &c);
    int b = byte_of(c);
    if (b < 0) return -1;
    out[bytes] = (char)b;
  }
  return bytes;
}

// -- vocab.json ----------------------------------------------------------------------------------

static bool add_piece(Vocabulary *v, const char *key, size_t n, int64_t id, char *why) {
  Piece *p = &v->piece[id];
  if (p->text) return why_not(why, "has two pieces of id %lld", (long long)id);
  char *text = arena_text(v->arena, key, n);
  p->n = bytes_of(key, n, text);
  // a piece such as <|endoftext|> may have other characters, as it stands for no text
  if (p->n < 0) p->n = (int32_t)n, memcpy(text, key, n);
  p->kind = PIECE_NORMAL;
  if (strcmp(key, "<|endoftext|>") == 0) p->kind = PIECE_CONTROL, v->end = (int32_t)id;
  p->text = text;
  p->shown = text;
  p->shown_n = p->kind == PIECE_CONTROL ? 0 : p->n;
  if (p->n == 1) v->byte[(unsigned char)*text] = (int32_t)id;
  return true;
}

static bool add_pieces(Vocabulary *v, const json_t *json, char *why) {
  const char *key;
  json_t *value;
  int64_t most = -1;
  if (!json_is_object(json)) return why_not(why, "is no JSON object of pieces and ids");
  json_object_foreach((json_t *)(uintptr_t)json, key, value) {
    int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id >= VOCABULARY_MOST)
      return why_not(why, "gives the piece '%.40s' no id from 0 to %d", key, VOCABULARY_MOST - 1);
    if (id > most) most = id;
  }
  // gaps between ids are rare, so a file of few pieces with a high id is damaged
  if (most >= 2 * (int64_t)json_object_size(json) + 1000)
    return why_not(why, "has %zu pieces, and ids up to %lld", json_object_size(json),
                   (long long)most);
  v->n = (int32_t)most + 1;
  v->piece = arena_array(v->arena, Piece, v->n);
  for (int32_t i = 0; i < v->n; i++) v->piece[i] = (Piece){.kind = PIECE_CONTROL, .shown = ""};
  json_object_foreach((json_t *)(uintptr_t)json, key, value) {
    if (!add_piece(v, key, strlen(key), json_integer_value(value), why)) return false;
  }
  for (int i = 0; i < 256; i++)
    if (v->byte[i] < 0) return why_not(why, "has no piece for the byte 0x%02X", i);
  return true;
}

static bool occurs(const Piece *p) { return p->kind == PIECE_NORMAL; }

static bool read_pieces(Vocabulary *v, const char *path, const char *text, size_t n, Diag *d,
                        Pos at) {
  char why[WHY];
  json_error_t e;
  json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
  bool ok =
      json ? add_pieces(v, json, why) : why_not(why, "is no JSON: line %d: %.80s", e.line, e.text);
  json_decref(json);
  if (!ok) return file_malformed(path, why, d, at);
  vocabulary_index(v, occurs, false);
  return true;
}

// -- merges.txt ----------------------------------------------------------------------------------

static struct BpeMerge *merge_entry(const struct BpeMerges *m, int32_t left, int32_t right) {
  uint64_t h = hash_word(hash_word(FNV_START, (uint64_t)left), (uint64_t)right);
  for (uint32_t i = (uint32_t)(h >> 20) & m->mask;; i = (i + 1) & m->mask) {
    struct BpeMerge *e = &m->at[i];
    if (e->id < 0 || (e->left == left && e->right == right)) return e;
  }
}

// Finds the piece of text[0..n), which is given as characters; bytes has room for n.
static int32_t piece_of(const Vocabulary *v, const char *text, size_t n, char *bytes, int32_t *k) {
  *k = bytes_of(text, n, bytes);
  return *k < 0 ? NO_PREFIX : vocabulary_find(v, bytes, (size_t)*k);
}

static bool add_merge(Vocabulary *v, const char *line, size_t n, int32_t rank, char *bytes,
                      char *why) {
  const char *space = memchr(line, ' ', n);
  size_t k = space ? (size_t)(space - line) : n;
  int32_t a = 0, b = 0;
  int32_t left = piece_of(v, line, k, bytes, &a);
  int32_t right = space ? piece_of(v, space + 1, n - k - 1, bytes + (a > 0 ? a : 0), &b) : -1;
  int32_t id = left < 0 || right < 0 ? -1 : vocabulary_find(v, bytes, (size_t)(a + b));
  if (id < 0)
    return why_not(why, "merges '%.60s', and these are not two pieces and their sum",
                   text_shown(v->arena, arena_text(v->arena, line, n < 60 ? n : 60)));
  struct BpeMerge *e = merge_entry(v->merges, left, right);
  if (e->id < 0) *e = (struct BpeMerge){left, right, id, rank};
  return true;
}

static bool read_merges(Vocabulary *v, const char *path, const char *text, size_t n, Diag *d,
                        Pos at) {
  char why[WHY] = "";
  uint32_t size = 16, rank = 0;
  for (size_t i = 0, lines = 0; i < n; i++)
    if (text[i] == '\n' && 2 * ++lines >= size) size *= 2;
  size *= 2; // a line may have no end
  v->merges = arena_new_of(v->arena, struct BpeMerges);
  *v->merges = (struct BpeMerges){size - 1, arena_array(v->arena, struct BpeMerge, size)};
  for (uint32_t i = 0; i < size; i++) v->merges->at[i].id = -1;
  char *bytes = mem_alloc(n + 1);
  bool ok = true;
  long long line = 0;
  for (const char *p = text, *end = text + n; ok && p < end;) {
    const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
    size_t k = (size_t)(stop - p) - (stop > p && stop[-1] == '\r');
    line++;
    bool comment = line == 1 && k > 0 && *p == '#';
    if (k > 0 && !comment) ok = add_merge(v, p, k, (int32_t)rank++, bytes, why);
    p = newline ? newline + 1 : end;
  }
  free(bytes);
  if (ok) return true;
  char place[WHY];
  why_not(place, "line %lld: it %.200s", line, why);
  return file_malformed(path, place, d, at);
}

// -- encoding ------------------------------------------------------------------------------------

static Merge by_rank(void *context, const char *text, const Part *left, const Part *right) {
  (void)text;
  const struct BpeMerge *e = merge_entry(context, left->id, right->id);
  return (Merge){e->id, e->rank};
}

// Words that were encoded before: most words of a text are among a few thousand. A word replaces
// another one in its place.
enum { MEMO_WORDS = 1 << 14, MEMO_BYTES = 24, MEMO_IDS = 8 };
typedef struct Memo {
  unsigned char n, nids;
  char word[MEMO_BYTES];
  int32_t id[MEMO_IDS];
} Memo;
typedef struct Encoder {
  const Vocabulary *v;
  Memo *memo; // MEMO_WORDS words
  Part *part;
  size_t room; // parts in `part`
} Encoder;

static void encode_word(Encoder *e, const char *word, size_t n, IdList *out) {
  if (n > e->room) {
    e->room = 2 * n;
    e->part = mem_grow(e->part, e->room * sizeof *e->part);
  }
  for (size_t i = 0; i < n; i++)
    e->part[i] = (Part){.at = i, .n = 1, .id = e->v->byte[(unsigned char)word[i]]};
  parts_merge(word, e->part, (int64_t)n, by_rank, e->v->merges);
  for (size_t i = 0; i < n; i++)
    if (e->part[i].n > 0) id_list_push(out, e->part[i].id);
}

static void encode_known(Encoder *e, const char *word, size_t n, IdList *out) {
  Memo *m = &e->memo[(hash_bytes(FNV_START, word, n) >> 13) % MEMO_WORDS];
  if (m->n != n || memcmp(m->word, word, n) != 0) {
    int64_t from = out->n;
    encode_word(e, word, n, out);
    if (out->n - from > MEMO_IDS) return;
    *m = (Memo){.n = (unsigned char)n, .nids = (unsigned char)(out->n - from)};
    memcpy(m->word, word, n);
    memcpy(m->id, out->id + from, m->nids * sizeof *m->id);
    return;
  }
  for (int i = 0; i < m->nids; i++) id_list_push(out, m->id[i]);
}

static void encode(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  Encoder e = {.v = v, .memo = mem_zeroed(MEMO_WORDS, sizeof(Memo))};
  for (size_t i = 0; i < n;) {
    size_t k = split_word(text + i, n - i);
    (k <= MEMO_BYTES ? encode_known : encode_word)(&e, text + i, k, out);
    i += k;
  }
  free(e.part);
  free(e.memo);
}

bool byte_bpe_open(Vocabulary *v, const VocabularyFile *pieces, const VocabularyFile *merges,
                   Diag *d, Pos at) {
  v->encode = encode;
  return split_words_open(d, at) && read_pieces(v, pieces->path, pieces->bytes, pieces->n, d, at) &&
         read_merges(v, merges->path, merges->bytes, merges->n, d, at);
}
