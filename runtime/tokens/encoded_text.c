// Encodes texts, and lets users of the same files share the ids (encoded_text.h): a list of the
// encoded texts of this process that have users.
#include "runtime/tokens/encoded_text.h"

#include "runtime/runtime_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct EncodedText {
  EncodedText *next;
  char *path, *vocabulary;
  struct stat of, of_vocabulary; // the files when they were read
  IdList ids;
  int users;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; // for `first`, `next` and `users`
static EncodedText *first;

static bool is_unchanged(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

// Finds the same text among the encoded ones, and counts a user. Returns NULL if there is none.
static EncodedText *find_shared(const EncodedText *like) {
  pthread_mutex_lock(&gate);
  EncodedText *e = first;
  while (e && !(strcmp(e->path, like->path) == 0 && strcmp(e->vocabulary, like->vocabulary) == 0 &&
                is_unchanged(&e->of, &like->of) &&
                is_unchanged(&e->of_vocabulary, &like->of_vocabulary)))
    e = e->next;
  if (e) e->users++;
  pthread_mutex_unlock(&gate);
  return e;
}

static bool encode(EncodedText *e, Diag *d, Pos at) {
  Datafile f;
  char why[WHY];
  Vocabulary *v = vocabulary_open(e->vocabulary, d, at);
  bool ok = v && datafile_open(&f, e->path, d, at);
  if (ok) {
    char *text = datafile_whole(&f, INT64_MAX - 1, why);
    if (text)
      vocabulary_encode(v, text, (size_t)f.size, &e->ids);
    else
      ok = file_malformed(e->path, why, d, at);
    free(text);
    datafile_close(&f);
  }
  vocabulary_free(v);
  return ok;
}

static void destroy(EncodedText *e) {
  free(e->ids.id);
  free(e->path);
  free(e->vocabulary);
  free(e);
}

EncodedText *encoded_text_open(const char *path, const char *vocabulary, Diag *d, Pos at) {
  EncodedText *e = mem_zeroed(1, sizeof *e), *shared = NULL;
  e->path = mem_text(path);
  e->vocabulary = mem_text(vocabulary);
  // files that are missing are reported when they are opened
  if (stat(path, &e->of) == 0 && stat(vocabulary, &e->of_vocabulary) == 0) shared = find_shared(e);
  if (shared || !encode(e, d, at)) {
    destroy(e);
    return shared;
  }
  pthread_mutex_lock(&gate);
  e->users = 1;
  e->next = first;
  first = e;
  pthread_mutex_unlock(&gate);
  return e;
}

void encoded_text_close(EncodedText *e) {
  if (!e) return;
  pthread_mutex_lock(&gate);
  bool last = --e->users == 0;
  for (EncodedText **link = &first; last && *link; link = &(*link)->next)
    if (*link == e) {
      *link = e->next;
      break;
    }
  pthread_mutex_unlock(&gate);
  if (last) destroy(e);
}

const IdList *encoded_text_ids(const EncodedText *e) { return &e->ids; }
