// Splits a text into words before byte-level BPE splits them into pieces, as GPT-2 does (Radford et
// al., "Language Models are Unsupervised Multitask Learners", 2019). Its expression is
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// so that a word has the space before it, and the last of several blanks belongs to the next word.
// The classes of characters beyond ASCII are those of utf8proc, which is opened at run time. An
// invalid byte counts as a character that is no letter, digit or blank.
#include "runtime/tokens/vocabulary_internal.h"

#include <string.h>

#include "ir/base/library_table.h"

typedef enum CharClass { CLASS_LETTER, CLASS_NUMBER, CLASS_BLANK, CLASS_OTHER } CharClass;

static struct {
  int (*category)(int32_t code); // an enum, whose values are UTF8PROC_CATEGORY_...
} utf8proc;
enum { CATEGORY_LU = 1, CATEGORY_LO = 5, CATEGORY_ND = 9, CATEGORY_NO = 11 };

static const LibraryFunction functions[] = {{"utf8proc_category", 0}};
static const char *const files[] = {"libutf8proc.so.2", "libutf8proc.so.3", NULL};
static const LibrarySpec library = {
    .what = "utf8proc",
    .file = files,
    .brings = "install it (Debian: libutf8proc2)",
    .without = "vocabularies of SentencePiece need none",
    .room = 1 << 20,
    .function = functions,
    .nfunctions = countof(functions),
};
static LibraryOnce once;
bool split_words_open(Diag *d, Pos at) {
  const LibraryFound *found = library_fill_once(&library, &utf8proc, &once);
  return found->library || diag_error(d, DIAG_UNAVAILABLE, at, "%s", found->why);
}

// The characters with the property White_Space of Unicode.
static bool is_blank(int32_t c) {
  return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

static CharClass class_of(int32_t c) {
  if (c < 0) return CLASS_OTHER;
  if (is_blank(c)) return CLASS_BLANK;
  if (c < 128) {
    if ((c | 32) >= 'a' && (c | 32) <= 'z') return CLASS_LETTER;
    return c >= '0' && c <= '9' ? CLASS_NUMBER : CLASS_OTHER;
  }
  int category = utf8proc.category(c);
  if (category >= CATEGORY_LU && category <= CATEGORY_LO) return CLASS_LETTER;
  return category >= CATEGORY_ND && category <= CATEGORY_NO ? CLASS_NUMBER : CLASS_OTHER;
}

// Returns the bytes of the characters of class `of` at text[at..n). *last gets the place of the
// last of them.
static size_t run_of(CharClass of, const char *text, size_t n, size_t at, size_t *last) {
  size_t end = at;
  int32_t c;
  while (end < n) {
    size_t k = utf8_next(text + end, n - end, &c);
    if (class_of(c) != of) break;
    *last = end;
    end += k;
  }
  return end - at;
}

static size_t contraction(const char *text, size_t n) {
  static const char *const ends[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
  for (size_t i = 0; i < countof(ends); i++) {
    size_t k = strlen(ends[i]);
    if (k <= n && memcmp(text, ends[i], k) == 0) return k;
  }
  return 0;
}

size_t split_word(const char *text, size_t n) {
  size_t word = contraction(text, n), last = 0;
  if (word > 0) return word;
  int32_t c;
  size_t space = text[0] == ' ' && n > 1;
  (void)utf8_next(text + space, n - space, &c);
  if (class_of(c) != CLASS_BLANK) return space + run_of(class_of(c), text, n, space, &last);
  size_t blanks = run_of(CLASS_BLANK, text, n, 0, &last);
  return blanks == n || last == 0 ? blanks : last;
}
