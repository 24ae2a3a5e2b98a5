// A vocabulary: the pieces of text that the ids of a language model stand for, and the rules by
// which a text is split into pieces.
//
//   "the house"  ->  [the][ house]  ->  1169 2156
//
// Two kinds of files are read: byte-level BPE (vocab.json with merges.txt, as GPT-2 has them), and
// models of SentencePiece (tokenizer.model, unigram or BPE).
#ifndef RUNTIME_VOCABULARY_H
#define RUNTIME_VOCABULARY_H

#include "ir/base/diag.h"

typedef struct Vocabulary Vocabulary;

// A list of ids. A zeroed list is empty; the owner frees `id`.
typedef struct IdList {
  int64_t n, room;
  int32_t *id;
} IdList;
void id_list_push(IdList *out, int32_t id); // appends an id

// Opens the vocabulary at `path`: vocab.json (merges.txt is taken from the same folder) or
// encoder.json (vocab.bpe), a model of SentencePiece, or a folder with one of these. Returns NULL
// after an error in d at `at`. The caller frees the result with vocabulary_free.
Vocabulary *vocabulary_open(const char *path, Diag *d, Pos at);
void vocabulary_free(Vocabulary *v); // NULL is allowed

// A file of a vocabulary in memory; `path` is for messages.
typedef struct VocabularyFile {
  const char *path, *bytes;
  size_t n;
} VocabularyFile;
enum { VOCABULARY_FILES = 2 };
// The names under which the files of the vocabulary can be kept: those by kind, each with `n`
// files.
typedef struct VocabularyKind {
  int n;
  const char *name[VOCABULARY_FILES];
} VocabularyKind;
// Sets the paths of the files of the vocabulary at `path`, which may be a folder that has one, and
// *kind, the names for them. Returns their number.
int vocabulary_paths(Arena *a, const char *path, const VocabularyKind **kind,
                     const char *out[VOCABULARY_FILES]);
// Reads the files of the vocabulary at `path` to memory of the arena. *kind gets the names for
// them. Returns false after an error in d at `at`.
MUST_USE bool vocabulary_files(Arena *a, const char *path, Diag *d, Pos at,
                               VocabularyFile out[VOCABULARY_FILES], const VocabularyKind **kind);
// Returns the kind whose first file has this name, or NULL.
const VocabularyKind *vocabulary_kind(const char *name);
// Makes a vocabulary of such files, as vocabulary_open does.
Vocabulary *vocabulary_read(const VocabularyFile *file, const VocabularyKind *kind, Diag *d,
                            Pos at);

// Returns the number of ids, which are 0 to this number less one.
int32_t vocabulary_size(const Vocabulary *v);
// Returns the id that ends a text, <|endoftext|> or </s>, or -1 if there is none.
int32_t vocabulary_end(const Vocabulary *v);
// Appends the ids of text[0..n) to *out. Any bytes are a text; what the vocabulary has no piece for
// becomes its id of unknown text. Thread rule: any thread.
void vocabulary_encode(const Vocabulary *v, const char *text, size_t n, IdList *out);
// Returns the text of an id and sets *n to its bytes; `first`: it is the first of a text, which may
// have lost a space that encoding has put before it. The result belongs to v.
const char *vocabulary_text(const Vocabulary *v, int32_t id, bool first, size_t *n);

#endif
