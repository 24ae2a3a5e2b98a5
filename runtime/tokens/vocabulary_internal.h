// What the files of the vocabularies share: pieces of text and how they are found, and the merging
// of neighbours.
#ifndef RUNTIME_VOCABULARY_INTERNAL_H
#define RUNTIME_VOCABULARY_INTERNAL_H

#include "runtime/runtime_internal.h"
#include "runtime/tokens/vocabulary.h"

enum { VOCABULARY_MOST = 1 << 24 }; // most ids

// -- vocabulary.c: pieces ------------------------------------------------------------------------

typedef enum PieceKind { // the numbers of SentencePiece's enum Type
  PIECE_NORMAL = 1,
  PIECE_UNKNOWN = 2, // stands for text that has no piece
  PIECE_CONTROL = 3, // stands for no text: the begin or end of one
  PIECE_DEFINED = 4, // a symbol of the user: wherever it occurs in a text it is one piece
  PIECE_UNUSED = 5,  // a result of merges that is split again
  PIECE_BYTE = 6,    // a single byte
} PieceKind;
typedef struct Piece {
  const char *text, *shown; // as texts are compared with it, and as it is printed; in the arena
  int32_t n, shown_n;       // their bytes
  PieceKind kind;
  float score; // of SentencePiece; the better pieces have the higher scores
} Piece;

// Ids by the text of their pieces, with open addressing. Of a prefix of a piece that is no piece
// the id is -1.
typedef struct PieceTable {
  uint32_t mask;
  struct PieceEntry {
    const char *text; // NULL: free
    int32_t n, id;
  } * entry;
} PieceTable;
enum { NO_PIECE = -1, NO_PREFIX = -2 };

// What follows when two neighbours in a text are merged: the pair with the least priority is merged
// first, of equal ones the left one. The id is that of the merged piece, -1: they are not merged.
typedef struct Merge {
  int32_t id;
  double priority;
} Merge;
// A part of a text while neighbours are merged. Parts that were merged into others have n = 0.
typedef struct Part {
  size_t at, n;        // bytes of the text
  int32_t id;          // of its piece, or -1
  int64_t left, right; // neighbours, or -1
  bool frozen;         // is merged with none
} Part;
// Returns what two neighbours of a text are merged to; `context` is that of parts_merge.
typedef Merge MergeRule(void *context, const char *text, const Part *left, const Part *right);

struct Vocabulary {
  Arena *arena;
  int32_t n;
  Piece *piece;     // by id
  PieceTable table; // of the pieces that occur in texts
  int32_t unknown, end;
  int32_t byte[256]; // ids of single bytes, or -1
  void (*encode)(const Vocabulary *v, const char *text, size_t n, IdList *out);
  // Whether the first piece of a text begins with a space that encoding has added.
  bool space_first;
  // Byte-level BPE: the merges, by the ids of both parts.
  struct BpeMerges *merges;
  // SentencePiece.
  bool byte_fallback;       // unknown text becomes bytes
  bool add_space, collapse; // a space before a text; spaces at its ends and double ones go
  bool space_last;          // the added space is behind the text
  bool escape;              // spaces are U+2581 in pieces
  float least, most;        // scores of normal pieces
  const uint32_t *map;      // a double array of what normalisation replaces, or NULL
  size_t map_units;
  const char *map_text; // the replacements, each with a final NUL
  size_t map_bytes;
  bool has_defined; // there are symbols of the user
  bool spans;       // no piece has a space after other text, so a text may be split before spaces
};

// Makes the table from the pieces for which `wanted` returns true; with `prefixes` it also finds
// prefixes of pieces. Of two equal pieces the first counts.
void vocabulary_index(Vocabulary *v, bool (*wanted)(const Piece *p), bool prefixes);
// Returns the id of a piece, NO_PIECE for a prefix of one, NO_PREFIX for any other text.
int32_t vocabulary_find(const Vocabulary *v, const char *text, size_t n);
// Returns the bytes of the UTF-8 character at the begin of text[0..n), n > 0; an invalid byte is
// one character of one byte. Sets *code to its code point, -1 if it is invalid.
size_t utf8_next(const char *text, size_t n, int32_t *code);

// -- merge.c -------------------------------------------------------------------------------------
// Merges the n parts of a text by a rule until no two neighbours are left that it merges. The parts
// are neighbours in order; merged ones remain at the left one's place.
void parts_merge(const char *text, Part *part, int64_t n, MergeRule *rule, void *context);

// -- byte_bpe.c, split_words.c -------------------------------------------------------------------
// Read a vocabulary of byte-level BPE. Return false after an error in d.
MUST_USE bool byte_bpe_open(Vocabulary *v, const VocabularyFile *pieces,
                            const VocabularyFile *merges, Diag *d, Pos at);
// Opens the library that knows classes of characters. Returns false after an error in d.
MUST_USE bool split_words_open(Diag *d, Pos at);
// Returns the bytes of the word at the begin of text[0..n), n > 0: a piece never reaches beyond a
// word.
size_t split_word(const char *text, size_t n);

// -- sentencepiece.c, piece_normal.c, piece_unigram.c, piece_bpe.c -----------------------------
// Reads a model of SentencePiece. Returns false after an error in d.
MUST_USE bool sentencepiece_open(Vocabulary *v, const VocabularyFile *file, Diag *d, Pos at);
// Returns the normal form of a text and sets *bytes; the caller frees it.
char *piece_normalize(const Vocabulary *v, const char *text, size_t n, size_t *bytes);
// Returns the bytes of the longest symbol of the user at the begin of a text, 0 if there is none.
size_t piece_defined(const Vocabulary *v, const char *text, size_t n);
// Append the ids of a text in normal form.
void piece_unigram(const Vocabulary *v, const char *text, size_t n, IdList *out);
void piece_bpe(const Vocabulary *v, const char *text, size_t n, IdList *out);
// Appends what stands for a text that is no piece: its bytes, or the id of unknown text unless that
// was appended last (`follows`).
void piece_unknown(const Vocabulary *v, const char *text, size_t n, bool follows, IdList *out);

#endif
