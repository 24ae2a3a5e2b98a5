// Reads a model of SentencePiece (Kudo and Richardson, "SentencePiece: A simple and language
// independent subword tokenizer", 2018), a message ModelProto of protocol buffers:
//
//   1 pieces       repeated: 1 text, 2 score, 3 kind
//   2 trainer      3 algorithm (1 unigram, 2 BPE), 24 space behind the text, 35 byte fallback
//   3 normalizer   2 map of characters, 3 add a space, 4 remove spaces, 5 escape spaces
//
// Other fields are skipped.
#include "runtime/tokens/vocabulary_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// -- protocol buffers ----------------------------------------------------------------------------

// A part of a message that is still to be read. `bad`: it was malformed.
typedef struct Wire {
  const unsigned char *at, *end;
  bool bad;
} Wire;
// A field: a number, or n bytes.
typedef struct Field {
  uint64_t number, value; // the value of a number; 4 bytes of a float
  const char *bytes;
  size_t n;
} Field;
enum { WIRE_VARINT = 0, WIRE_8 = 1, WIRE_BYTES = 2, WIRE_4 = 5 };

static uint64_t wire_varint(Wire *w) {
  uint64_t x = 0;
  for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
    unsigned char b = *w->at++;
    x |= (uint64_t)(b & 0x7F) << shift;
    if (b < 0x80) return x;
  }
  w->bad = true;
  return 0;
}

static const unsigned char *wire_take(Wire *w, uint64_t n) {
  const unsigned char *p = w->at;
  if (n > (uint64_t)(w->end - w->at)) {
    w->bad = true;
    n = (uint64_t)(w->end - w->at);
  }
  w->at += n;
  return p;
}

// Reads the next field. Returns false at the end of the message, or if it is malformed.
static bool wire_next(Wire *w, Field *f) {
  *f = (Field){.bytes = ""};
  if (w->bad || w->at == w->end) return false;
  uint64_t tag = wire_varint(w);
  f->number = tag >> 3;
  switch (tag & 7) {
  case WIRE_VARINT: f->value = wire_varint(w); break;
  case WIRE_8: (void)wire_take(w, 8); break;
  case WIRE_BYTES:
    f->n = (size_t)wire_varint(w);
    f->bytes = (const char *)wire_take(w, f->n);
    break;
  case WIRE_4: {
    const unsigned char *b = wire_take(w, 4);
    if (!w->bad)
      f->value = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    break;
  }
  default: w->bad = true;
  }
  return !w->bad;
}

static Wire wire_of(const Field *f) {
  return (Wire){(const unsigned char *)f->bytes, (const unsigned char *)f->bytes + f->n, false};
}

static float float_of(uint64_t value) {
  uint32_t bits = (uint32_t)value;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// -- pieces --------------------------------------------------------------------------------------

static const char space_mark[] = "\xE2\x96\x81"; // U+2581, a space in pieces

// Returns the text of a piece as it is printed: spaces for their marks.
static void show_piece(Vocabulary *v, Piece *p) {
  char *out = arena_alloc(v->arena, (size_t)p->n + 1);
  p->shown = out;
  for (int32_t i = 0; i < p->n;) {
    bool space = p->n - i >= 3 && memcmp(p->text + i, space_mark, 3) == 0;
    out[p->shown_n++] = space ? ' ' : p->text[i];
    i += space ? 3 : 1;
  }
}

// Reads a piece such as <0x0A>, two hexadecimal digits and nothing else. Returns false if it is
// none.
static bool byte_piece(const Piece *p, unsigned *byte) {
  char digits[3] = {0};
  if (p->n != 6 || memcmp(p->text, "<0x", 3) != 0 || p->text[5] != '>') return false;
  memcpy(digits, p->text + 3, 2);
  *byte = (unsigned)strtoul(digits, NULL, 16);
  return isxdigit((unsigned char)digits[0]) && isxdigit((unsigned char)digits[1]);
}

// Sets what ids of this kind stand for. Returns false with a reason in `why`.
static bool known_kind(Vocabulary *v, Piece *p, int32_t id, char *why) {
  unsigned byte;
  switch (p->kind) {
  case PIECE_NORMAL:
  case PIECE_DEFINED:
  case PIECE_UNUSED: show_piece(v, p); break;
  case PIECE_UNKNOWN:
    v->unknown = id;
    p->shown = " \xE2\x81\x87 ";
    p->shown_n = 5;
    break;
  case PIECE_CONTROL:
    p->shown = "";
    if (strcmp(p->text, "</s>") == 0) v->end = id;
    break;
  case PIECE_BYTE:
    if (!byte_piece(p, &byte))
      return why_not(why, "has the piece '%.20s' of a byte that is none",
                     text_shown(v->arena, p->text));
    p->shown = arena_text(v->arena, &(char){(char)byte}, 1);
    p->shown_n = 1;
    v->byte[byte] = id;
    break;
  default: return why_not(why, "has a piece of the kind %d", (int)p->kind);
  }
  return true;
}

static bool read_piece(Vocabulary *v, const Field *message, int32_t id, char *why) {
  Piece *p = &v->piece[id];
  Field f;
  Wire w = wire_of(message);
  *p = (Piece){.text = "", .shown = "", .kind = PIECE_NORMAL};
  while (wire_next(&w, &f)) {
    if (f.number == 1) p->text = arena_text(v->arena, f.bytes, f.n), p->n = (int32_t)f.n;
    if (f.number == 2) p->score = float_of(f.value);
    if (f.number == 3) p->kind = (PieceKind)f.value;
  }
  if (w.bad || p->n == 0 || !(p->score - p->score == 0))
    return why_not(why, "has a malformed piece of id %d", id);
  return known_kind(v, p, id, why);
}

static bool in_texts(const Piece *p) {
  return p->kind == PIECE_NORMAL || p->kind == PIECE_DEFINED || p->kind == PIECE_UNUSED;
}

// Returns whether a piece has a space after other text.
static bool reaches_across(const Piece *p) {
  for (int32_t i = 1; i + 3 <= p->n; i++)
    if (memcmp(p->text + i, space_mark, 3) == 0 &&
        (i < 3 || memcmp(p->text + i - 3, space_mark, 3) != 0))
      return true;
  return false;
}

static bool finish_pieces(Vocabulary *v, bool unigram, char *why) {
  bool first = true;
  v->spans = v->escape;
  if (v->n == 0) return why_not(why, "has no pieces");
  if (v->unknown < 0) return why_not(why, "has no piece for unknown text");
  for (int32_t i = 0; i < v->n; i++) {
    const Piece *p = &v->piece[i];
    v->has_defined |= p->kind == PIECE_DEFINED;
    if (in_texts(p) && reaches_across(p)) v->spans = false;
    if (p->kind != PIECE_NORMAL) continue;
    v->least = first || p->score < v->least ? p->score : v->least;
    v->most = first || p->score > v->most ? p->score : v->most;
    first = false;
  }
  for (int i = 0; v->byte_fallback && i < 256; i++)
    if (v->byte[i] < 0) return why_not(why, "has no piece for the byte 0x%02X", i);
  vocabulary_index(v, in_texts, unigram || v->has_defined);
  return true;
}

// -- the model -----------------------------------------------------------------------------------

static bool read_map(Vocabulary *v, const Field *f, char *why) {
  if (f->n == 0) return true;
  Wire w = wire_of(f);
  const unsigned char *b = wire_take(&w, 4);
  uint32_t bytes =
      w.bad ? 0 : b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
  const unsigned char *units = wire_take(&w, bytes);
  if (w.bad || bytes == 0 || bytes % 4 != 0 || w.at == w.end || w.end[-1] != 0)
    return why_not(why, "has a malformed map of characters");
  // copies are aligned; the file has the byte order of x86-64
  v->map = arena_copy(v->arena, units, bytes);
  v->map_units = bytes / 4;
  v->map_bytes = (size_t)(w.end - w.at);
  v->map_text = arena_copy(v->arena, w.at, v->map_bytes);
  return true;
}

static bool read_normalizer(Vocabulary *v, const Field *message, char *why) {
  Field f;
  Wire w = wire_of(message);
  while (wire_next(&w, &f)) {
    if (f.number == 2 && !read_map(v, &f, why)) return false;
    if (f.number == 3) v->add_space = f.value != 0;
    if (f.number == 4) v->collapse = f.value != 0;
    if (f.number == 5) v->escape = f.value != 0;
  }
  return !w.bad || why_not(why, "has a malformed normalizer");
}

static bool read_trainer(Vocabulary *v, const Field *message, uint64_t *algorithm, char *why) {
  Field f;
  Wire w = wire_of(message);
  while (wire_next(&w, &f)) {
    if (f.number == 3) *algorithm = f.value;
    if (f.number == 24) v->space_last = f.value != 0;
    if (f.number == 35) v->byte_fallback = f.value != 0;
  }
  return !w.bad || why_not(why, "has a malformed description of its training");
}

static int64_t count_pieces(Wire w) {
  int64_t n = 0;
  for (Field f; wire_next(&w, &f);) n += f.number == 1;
  return n;
}

// Long texts are split into pieces in spans of this many bytes or more, to bound the memory.
enum { SPAN = 1 << 16 };

// Returns the end of the span that begins at `from`: before a space after other text, which no
// piece reaches across; or the end of the text.
static size_t span_end(const Vocabulary *v, const char *text, size_t n, size_t from) {
  for (size_t i = from + SPAN; v->spans && i + 3 < n; i++)
    if (memcmp(text + i, space_mark, 3) == 0 && memcmp(text + i - 3, space_mark, 3) != 0) return i;
  return n;
}

static void encode(const Vocabulary *v, const char *text, size_t n, IdList *out,
                   void (*split)(const Vocabulary *, const char *, size_t, IdList *)) {
  size_t bytes;
  char *normal = piece_normalize(v, text, n, &bytes);
  for (size_t i = 0, end; i < bytes; i = end) {
    end = span_end(v, normal, bytes, i);
    split(v, normal + i, end - i, out);
  }
  free(normal);
}
static void encode_unigram(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  encode(v, text, n, out, piece_unigram);
}
static void encode_bpe(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  encode(v, text, n, out, piece_bpe);
}

static bool read_model(Vocabulary *v, Wire w, char *why) {
  int64_t most = count_pieces(w);
  uint64_t algorithm = 1;
  bool ok = most < VOCABULARY_MOST || why_not(why, "has %lld pieces", (long long)most);
  if (!ok) return false;
  v->add_space = v->collapse = v->escape = true;
  v->piece = arena_array(v->arena, Piece, most + 1);
  for (Field f; ok && wire_next(&w, &f);) {
    if (f.number == 1) ok = read_piece(v, &f, v->n++, why);
    if (f.number == 2) ok = read_trainer(v, &f, &algorithm, why);
    if (f.number == 3) ok = read_normalizer(v, &f, why);
  }
  if (ok && w.bad) ok = why_not(why, "is no model of SentencePiece, or is cut off");
  if (ok && (algorithm < 1 || algorithm > 2))
    ok = why_not(why, "splits texts into words or characters; unigram and BPE are read");
  v->encode = algorithm == 1 ? encode_unigram : encode_bpe;
  v->space_first = v->add_space && !v->space_last;
  return ok && finish_pieces(v, algorithm == 1, why);
}

bool sentencepiece_open(Vocabulary *v, const VocabularyFile *file, Diag *d, Pos at) {
  char why[WHY];
  const unsigned char *bytes = (const unsigned char *)file->bytes;
  bool ok = read_model(v, (Wire){bytes, bytes + file->n, false}, why);
  return ok || file_malformed(file->path, why, d, at);
}

void piece_unknown(const Vocabulary *v, const char *text, size_t n, bool follows, IdList *out) {
  if (!v->byte_fallback) {
    if (!follows) id_list_push(out, v->unknown);
    return;
  }
  for (size_t i = 0; i < n; i++) id_list_push(out, v->byte[(unsigned char)text[i]]);
}
