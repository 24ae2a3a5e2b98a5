// Splits a text into the pieces of a BPE model of SentencePiece: neighbours are merged if their sum
// is a piece, the one with the highest score first. A merged piece that is unused is split again
// into the two that were merged.
#include "runtime/tokens/vocabulary_internal.h"

#include <stdlib.h>

// An unused piece, and the bytes of its left part where it was last merged.
typedef struct Unused {
  int32_t id;
  size_t left;
} Unused;
typedef struct Context {
  const Vocabulary *v;
  int64_t n, room;
  Unused *unused;
} Context;

static size_t *unused_left(Context *c, int32_t id) {
  for (int64_t i = 0; i < c->n; i++)
    if (c->unused[i].id == id) return &c->unused[i].left;
  return NULL;
}

static void note_unused(Context *c, int32_t id, size_t left) {
  size_t *known = unused_left(c, id);
  if (known) {
    *known = left;
    return;
  }
  if (c->n == c->room) {
    c->room = c->room ? 2 * c->room : 16;
    c->unused = mem_grow(c->unused, (size_t)c->room * sizeof *c->unused);
  }
  c->unused[c->n++] = (Unused){id, left};
}

static Merge by_score(void *context, const char *text, const Part *left, const Part *right) {
  Context *c = context;
  int32_t id = vocabulary_find(c->v, text + left->at, left->n + right->n);
  if (id < 0) return (Merge){-1, 0};
  if (c->v->piece[id].kind == PIECE_UNUSED) note_unused(c, id, left->n);
  return (Merge){id, -(double)c->v->piece[id].score};
}

// Splits the text into characters and symbols of the user. Returns the number of parts.
static int64_t first_parts(const Vocabulary *v, const char *text, size_t n, Part *part) {
  int64_t count = 0;
  for (size_t i = 0; i < n; i += part[count++].n) {
    int32_t code;
    size_t k = piece_defined(v, text + i, n - i);
    part[count] = (Part){.at = i, .n = k ? k : utf8_next(text + i, n - i, &code), .frozen = k > 0};
  }
  return count;
}

// Appends the ids of a part. Returns whether the last of them stands for unknown text.
static bool put_part(Context *c, const char *text, size_t n, bool follows, IdList *out) {
  int32_t id = vocabulary_find(c->v, text, n);
  size_t *left = id >= 0 && c->v->piece[id].kind == PIECE_UNUSED ? unused_left(c, id) : NULL;
  if (left) {
    size_t k = *left;
    follows = put_part(c, text, k, follows, out);
    return put_part(c, text + k, n - k, follows, out);
  }
  if (id < 0)
    piece_unknown(c->v, text, n, follows, out);
  else
    id_list_push(out, id);
  return id < 0;
}

void piece_bpe(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  Part *part = mem_alloc((n + 1) * sizeof *part);
  Context c = {.v = v};
  int64_t count = first_parts(v, text, n, part);
  parts_merge(text, part, count, by_score, &c);
  bool follows = false;
  for (int64_t i = 0; i < count; i++)
    if (part[i].n > 0) follows = put_part(&c, text + part[i].at, part[i].n, follows, out);
  free(c.unused);
  free(part);
}
