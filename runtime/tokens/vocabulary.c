// Opens vocabularies, and finds their pieces (vocabulary.h).
#include "runtime/tokens/vocabulary_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/hash.h"

// -- files ---------------------------------------------------------------------------------------

// The kinds of vocabularies by the names of their files: pieces, merges. Files of another name are
// models of SentencePiece.
static const VocabularyKind kinds[] = {{1, {"tokenizer.model"}},
                                       {2, {"vocab.json", "merges.txt"}},
                                       {2, {"encoder.json", "vocab.bpe"}}};

enum { MOST_BYTES = 1 << 30 }; // of a file

static bool ends_in(const char *path, const char *end) {
  size_t n = strlen(path), k = strlen(end);
  return n >= k && strcmp(path + n - k, end) == 0;
}

// Returns the file to read for a path: of a folder the file of a vocabulary in it.
static const char *file_of(Arena *a, const char *path) {
  for (size_t i = 0; i < countof(kinds); i++) {
    const char *file = arena_printf(a, "%s/%s", path, kinds[i].name[0]);
    if (access(file, F_OK) == 0) return file;
  }
  return path;
}

const VocabularyKind *vocabulary_kind(const char *name) {
  for (size_t i = 0; i < countof(kinds); i++)
    if (strcmp(name, kinds[i].name[0]) == 0) return &kinds[i];
  return NULL;
}

static bool read_file(Arena *a, const char *path, Diag *d, Pos at, VocabularyFile *out) {
  Datafile f;
  char why[WHY];
  if (!datafile_open(&f, path, d, at)) return false;
  char *text = datafile_whole(&f, MOST_BYTES, why);
  *out = (VocabularyFile){path, NULL, (size_t)f.size};
  datafile_close(&f);
  if (!text) return file_malformed(path, why, d, at);
  out->bytes = arena_copy(a, text, out->n + 1);
  free(text);
  return true;
}

int vocabulary_paths(Arena *a, const char *path, const VocabularyKind **kind,
                     const char *out[VOCABULARY_FILES]) {
  out[0] = file_of(a, path);
  *kind = &kinds[0];
  for (size_t i = 0; i < countof(kinds); i++)
    if (ends_in(out[0], kinds[i].name[0])) *kind = &kinds[i];
  int stem = (int)(strlen(out[0]) - strlen((*kind)->name[0]));
  for (int i = 1; i < (*kind)->n; i++)
    out[i] = arena_printf(a, "%.*s%s", stem, out[0], (*kind)->name[i]);
  return (*kind)->n;
}

static bool say_no_vocabulary(const char *path, Diag *d, Pos at) {
  diag_error(d, DIAG_FILE_MALFORMED, at, "%s is no vocabulary that meshc reads", path);
  return diag_hint(d, "it reads vocab.json with merges.txt beside it, and tokenizer.model of "
                      "SentencePiece; of a tokenizer.json with BPE of bytes, "
                      "tokenizers.Tokenizer.from_file(FILE).model.save(DIR) writes the first two");
}

// Returns whether the path is that of the merges of a vocabulary, or of a folder without one.
static bool is_other(const char *path) {
  struct stat s;
  for (size_t i = 0; i < countof(kinds); i++)
    if (kinds[i].n == 2 && ends_in(path, kinds[i].name[1])) return true;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool vocabulary_files(Arena *a, const char *path, Diag *d, Pos at,
                      VocabularyFile out[VOCABULARY_FILES], const VocabularyKind **kind) {
  const char *file[VOCABULARY_FILES];
  int n = vocabulary_paths(a, path, kind, file);
  if (n == 1 && (ends_in(file[0], ".json") || is_other(file[0])))
    return say_no_vocabulary(file[0], d, at);
  for (int i = 0; i < n; i++)
    if (!read_file(a, file[i], d, at, &out[i])) return false;
  return true;
}

Vocabulary *vocabulary_read(const VocabularyFile *file, const VocabularyKind *kind, Diag *d,
                            Pos at) {
  Arena *a = arena_new();
  Vocabulary *v = arena_new_of(a, Vocabulary);
  *v = (Vocabulary){.arena = a, .unknown = -1, .end = -1};
  for (int i = 0; i < 256; i++) v->byte[i] = -1;
  if (kind->n == 2 ? byte_bpe_open(v, &file[0], &file[1], d, at)
                   : sentencepiece_open(v, &file[0], d, at))
    return v;
  arena_free(a);
  return NULL;
}

Vocabulary *vocabulary_open(const char *path, Diag *d, Pos at) {
  Arena *a = arena_new();
  VocabularyFile file[VOCABULARY_FILES];
  const VocabularyKind *kind;
  bool read = vocabulary_files(a, path, d, at, file, &kind);
  Vocabulary *v = read ? vocabulary_read(file, kind, d, at) : NULL;
  arena_free(a);
  return v;
}

void vocabulary_free(Vocabulary *v) {
  if (v) arena_free(v->arena);
}

// -- pieces --------------------------------------------------------------------------------------

static struct PieceEntry *entry_of(const PieceTable *t, const char *text, size_t n) {
  uint32_t i = (uint32_t)hash_bytes(FNV_START, text, n);
  for (i = (i ^ i >> 15) & t->mask;; i = (i + 1) & t->mask) {
    struct PieceEntry *e = &t->entry[i];
    if (!e->text || ((size_t)e->n == n && memcmp(e->text, text, n) == 0)) return e;
  }
}

static void table_put(PieceTable *t, const char *text, int32_t n, int32_t id) {
  struct PieceEntry *e = entry_of(t, text, (size_t)n);
  if (!e->text) *e = (struct PieceEntry){text, n, id};
  if (e->id == NO_PIECE) e->id = id;
}

void vocabulary_index(Vocabulary *v, bool (*wanted)(const Piece *p), bool prefixes) {
  size_t rows = 1;
  for (int32_t i = 0; i < v->n; i++)
    if (wanted(&v->piece[i])) rows += prefixes ? (size_t)v->piece[i].n : 1;
  uint32_t size = 16;
  while (size < 2 * rows) size *= 2;
  v->table = (PieceTable){size - 1, arena_array(v->arena, struct PieceEntry, size)};
  for (int32_t i = 0; i < v->n; i++) {
    const Piece *p = &v->piece[i];
    if (!wanted(p)) continue;
    table_put(&v->table, p->text, p->n, i);
    for (int32_t n = 1; prefixes && n < p->n; n++) table_put(&v->table, p->text, n, NO_PIECE);
  }
}

int32_t vocabulary_find(const Vocabulary *v, const char *text, size_t n) {
  const struct PieceEntry *e = entry_of(&v->table, text, n);
  return e->text ? e->id : NO_PREFIX;
}

void id_list_push(IdList *out, int32_t id) {
  if (out->n == out->room) {
    out->room = out->room ? 2 * out->room : 64;
    out->id = mem_grow(out->id, (size_t)out->room * sizeof *out->id);
  }
  out->id[out->n++] = id;
}

size_t utf8_next(const char *text, size_t n, int32_t *code) {
  const unsigned char *b = (const unsigned char *)text;
  static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  size_t k = b[0] < 0x80   ? 1
             : b[0] < 0xC0 ? 0
             : b[0] < 0xE0 ? 2
             : b[0] < 0xF0 ? 3
             : b[0] < 0xF8 ? 4
                           : 0;
  int32_t c = k == 1 ? b[0] : b[0] & (0x7F >> k);
  for (size_t i = 1; i < k; i++) {
    if (i >= n || (b[i] & 0xC0) != 0x80)
      k = 0;
    else
      c = c << 6 | (b[i] & 0x3F);
  }
  bool valid = k > 0 && c >= least[k] && c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
  *code = valid ? c : -1;
  return valid ? k : 1;
}

// -- use -----------------------------------------------------------------------------------------

int32_t vocabulary_size(const Vocabulary *v) { return v->n; }
int32_t vocabulary_end(const Vocabulary *v) { return v->end; }

void vocabulary_encode(const Vocabulary *v, const char *text, size_t n, IdList *out) {
  v->encode(v, text, n, out);
}

const char *vocabulary_text(const Vocabulary *v, int32_t id, bool first, size_t *n) {
  *n = 0;
  if (id < 0 || id >= v->n) return "";
  const Piece *p = &v->piece[id];
  bool space = first && v->space_first && p->shown_n > 0 && p->shown[0] == ' ';
  *n = (size_t)(p->shown_n - space);
  return p->shown + space;
}
