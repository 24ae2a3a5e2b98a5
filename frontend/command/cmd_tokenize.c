// The command tokenize: splits a text into the ids of a vocabulary, and prints them or writes them
// as a file that `tokens(...)` reads: two bytes an id, or four if the vocabulary has more than
// 65,536.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/driver/session.h"
#include "runtime/runtime.h"
#include "runtime/tokens/vocabulary.h"

// Returns the number of bytes of an id in files.
static size_t id_bytes(const Vocabulary *v) { return vocabulary_size(v) <= 1 << 16 ? 2 : 4; }

// Returns the ids as the bytes of a file, little-endian; the caller frees them.
static unsigned char *packed(const IdList *ids, size_t each) {
  unsigned char *out = mem_alloc((size_t)ids->n * each);
  for (int64_t i = 0; i < ids->n; i++)
    for (size_t k = 0; k < each; k++)
      out[(size_t)i * each + k] = (unsigned char)((uint32_t)ids->id[i] >> 8 * k);
  return out;
}

static void write_ids(Session *s, const IdList *ids, size_t each, int64_t text_bytes) {
  const char *path = option_text(s->opt, OPTION_OUT);
  unsigned char *bytes = packed(ids, each);
  bool out = strcmp(path, "-") == 0;
  if (out)
    (void)fwrite(bytes, each, (size_t)ids->n, stdout);
  else if (session_write(s, path, (const char *)bytes, (size_t)ids->n * each, false, (Pos){0}))
    printf("wrote %s: %lld ids of %s, %.2f bytes an id\n", text_shown(s->arena, path),
           (long long)ids->n, each == 2 ? "u16" : "u32",
           ids->n ? (double)text_bytes / (double)ids->n : 0.0);
  free(bytes);
}

static void print_ids(const IdList *ids) {
  for (int64_t i = 0; i < ids->n; i++) printf("%s%d", i ? " " : "", ids->id[i]);
  putchar('\n');
}

// Appends the id that ends a text, if that is asked for. Returns false after an error.
static bool put_end(const Session *s, const Vocabulary *v, IdList *ids) {
  if (!option_given(s->opt, OPTION_END)) return true;
  if (vocabulary_end(v) < 0) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "the vocabulary has no id that ends a text");
    return diag_hint(s->diag, "leave out --end; it stands for <|endoftext|> or </s>");
  }
  id_list_push(ids, vocabulary_end(v));
  return true;
}

// Returns the n bytes of the text in the arena, NULL after an error.
static const char *read_text(Session *s, size_t *n) {
  bool from_stdin = session_from_stdin(s);
  const char *path = from_stdin ? "<stdin>" : s->opt->argument.at[0];
  (void)mem_doing("reading the text", path);
  const char *text = from_stdin ? stream_text(s->arena, stdin, n) : file_text(s->arena, path, n);
  if (!text)
    diag_error(s->diag, DIAG_FILE_MISSING, (Pos){0}, "cannot read the text %s: %s",
               text_shown(s->arena, path), strerror(errno));
  return text;
}

// The file has ids and no head: an ending of files of arrays would mislead their readers.
static bool check_ending(const Session *s) {
  const char *path = option_text(s->opt, OPTION_OUT);
  bool written;
  const char *end = path ? values_ending(path, &written) : NULL;
  if (!end) return true;
  diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_OUT)->pos,
             "tokenize writes no %s files", end);
  return diag_hint(s->diag, "name a .bin file: it has the ids as numbers of 2 or 4 bytes, which "
                            "tokens(...) reads");
}

int cmd_tokenize(Session *s) {
  const char *path = option_text(s->opt, OPTION_VOCAB);
  if (!path) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "tokenize needs a vocabulary");
    diag_hint(s->diag, "say --vocab FILE: vocab.json or tokenizer.model");
    return 0;
  }
  IdList ids = {0};
  size_t n;
  const char *text = outputs_check(s) && check_ending(s) ? read_text(s, &n) : NULL;
  if (!text) return 0;
  Vocabulary *v = vocabulary_open(path, s->diag, (Pos){0});
  if (v) vocabulary_encode(v, text, n, &ids);
  if (v && put_end(s, v, &ids)) {
    if (option_given(s->opt, OPTION_OUT))
      write_ids(s, &ids, id_bytes(v), (int64_t)n);
    else
      print_ids(&ids);
  }
  vocabulary_free(v);
  free(ids.id);
  return 0;
}
