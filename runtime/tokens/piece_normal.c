// Brings a text into the normal form of a SentencePiece model, in which its pieces are found:
//
//   " Hello   world"  ->  "_Hello_world", where _ is U+2581
//
// The model's map replaces characters and sequences of them, such as ligatures; the longest entry
// counts. It is a double array (Aoe, "An Efficient Digital Search Algorithm by Using a Double-Array
// Structure", 1989), in the form of Darts-clone.
#include "runtime/tokens/vocabulary_internal.h"

#include <stdlib.h>
#include <string.h>

// -- the map -------------------------------------------------------------------------------------

static uint32_t unit_label(uint32_t unit) { return unit & (UINT32_C(1) << 31 | 0xFF); }
static uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static bool unit_has_leaf(uint32_t unit) { return unit >> 8 & 1; }

// Finds the longest entry at the begin of text[0..n). Returns its bytes, 0 if there is none, and
// sets *value to the place of its replacement in map_text.
static size_t map_longest(const Vocabulary *v, const char *text, size_t n, uint32_t *value) {
  size_t longest = 0;
  if (!v->map) return 0;
  uint32_t at = unit_offset(v->map[0]);
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    at ^= c;
    if (at >= v->map_units || unit_label(v->map[at]) != c) break;
    uint32_t unit = v->map[at];
    at ^= unit_offset(unit);
    if (at >= v->map_units) break;
    if (!unit_has_leaf(unit)) continue;
    *value = v->map[at] & 0x7FFFFFFF;
    if (*value < v->map_bytes) longest = i + 1;
  }
  return longest;
}

size_t piece_defined(const Vocabulary *v, const char *text, size_t n) {
  size_t longest = 0;
  for (size_t k = 1; v->has_defined && k <= n; k++) {
    int32_t id = vocabulary_find(v, text, k);
    if (id == NO_PREFIX) break;
    if (id >= 0 && v->piece[id].kind == PIECE_DEFINED) longest = k;
  }
  return longest;
}

// Normalises what is at the begin of text[0..n), n > 0: a symbol of the user, an entry of the map,
// or a character. Returns its bytes; *out and *bytes get what replaces it.
static size_t next_normal(const Vocabulary *v, const char *text, size_t n, const char **out,
                          size_t *bytes) {
  uint32_t value = 0;
  int32_t code = 0;
  size_t k = piece_defined(v, text, n);
  *out = text;
  if (k == 0 && (k = map_longest(v, text, n, &value)) > 0) {
    *out = v->map_text + value;
    *bytes = strlen(*out); // map_text ends in a NUL
    return k;
  }
  if (k == 0) k = utf8_next(text, n, &code);
  *bytes = k;
  if (code < 0) *out = "\xEF\xBF\xBD", *bytes = 3; // U+FFFD for an invalid byte
  return k;
}

// -- spaces --------------------------------------------------------------------------------------

typedef struct Normal {
  const Vocabulary *v;
  char *text;
  size_t n, room;
} Normal;

static void put(Normal *t, const char *bytes, size_t n) {
  if (t->n + 3 * n > t->room) { // a space may become three bytes
    t->room = 2 * (t->n + 3 * n);
    t->text = mem_grow(t->text, t->room);
  }
  for (size_t i = 0; i < n; i++) {
    bool mark = bytes[i] == ' ' && t->v->escape;
    memcpy(t->text + t->n, mark ? "\xE2\x96\x81" : bytes + i, mark ? 3 : 1);
    t->n += mark ? 3 : 1;
  }
}

static bool ends_in_space(const Normal *t, size_t *n) {
  *n = t->v->escape ? 3 : 1;
  const char *space = t->v->escape ? "\xE2\x96\x81" : " ";
  return t->n >= *n && memcmp(t->text + t->n - *n, space, *n) == 0;
}

char *piece_normalize(const Vocabulary *v, const char *text, size_t n, size_t *bytes) {
  Normal t = {.v = v, .text = mem_alloc(64), .room = 64};
  const char *now;
  size_t k, i = 0;
  if (v->collapse) // spaces before the text
    for (; i < n; i += k) {
      k = next_normal(v, text + i, n - i, &now, bytes);
      if (*bytes != 1 || *now != ' ') break;
    }
  bool any = i < n, after_space = v->collapse;
  if (any && v->add_space && !v->space_last) put(&t, " ", 1);
  for (; i < n; i += k) {
    k = next_normal(v, text + i, n - i, &now, bytes);
    while (after_space && *bytes > 0 && *now == ' ') now++, --*bytes;
    if (*bytes == 0) continue;
    put(&t, now, *bytes);
    after_space = v->collapse && now[*bytes - 1] == ' ';
  }
  while (v->collapse && any && ends_in_space(&t, &k)) t.n -= k;
  if (any && v->add_space && v->space_last) put(&t, " ", 1);
  *bytes = t.n;
  return t.text;
}
