// Compares the data files that the ranks have read. First they compare one number for all files. If
// it differs, they compare file by file, so that the message can name the file and the ranks.
// Input: the digests recorded by runtime/files/digest.c.
#include "frontend/driver/session.h"

#include <string.h>

enum { NAME = 28, MESSAGE = 400 };

// What a rank sends about one file: the fields of its FileDigest, and the start of its name.
typedef struct ToldFile {
  uint64_t key;
  int64_t size;
  uint32_t sum;
  char name[NAME];
} ToldFile;
_Static_assert(sizeof(ToldFile) <= NOTE_DATA, "a file fits a note");

// What a rank sends about all files that it has read: their number, and the sum of their hashes.
typedef struct ToldAll {
  uint64_t files, together;
} ToldAll;

typedef struct Compared {
  Session *s;
  int ranks;
  uint64_t most;  // largest number of files that a rank has read
  ToldFile *file; // files of all ranks, `most` entries for each
} Compared;

static ToldFile *told(const Compared *c, int rank) { return c->file + (uint64_t)rank * c->most; }

static ToldAll all_files(void) {
  const FileDigest *file;
  ToldAll t = {.files = digest_list(&file)};
  for (uint32_t i = 0; i < t.files; i++) {
    uint64_t one = file[i].key ^ ((uint64_t)file[i].size * 0x9e3779b97f4a7c15u) ^
                   ((uint64_t)file[i].sum << 17);
    // A sum of hashes, because ranks may read files in different orders. Each is mixed as in
    // splitmix64.
    t.together += (one ^ one >> 29) * 0xbf58476d1ce4e5b9u;
  }
  return t;
}

// Returns whether all ranks have read equal files. *most gets the largest number of files that any
// rank has read. *met is set to false if the run ended before all ranks had sent their sums. In
// that case the result is false, too.
static bool all_same(Session *s, uint64_t *most, bool *met) {
  const RankNote *const *all;
  RankNote mine = {.what = NOTE_FILES};
  ToldAll own = all_files(), other;
  bool same = true;
  memcpy(mine.data, &own, sizeof own);
  *most = 0;
  *met = ranks_meet(s->ranks, &mine, true, &all);
  for (int i = 0; *met && i < ranks_count(s->ranks); i++) {
    memcpy(&other, all[i]->data, sizeof other);
    same &= other.files == own.files && other.together == own.together;
    if (other.files > *most) *most = other.files;
  }
  return *met && same;
}

static bool tell_files(Compared *c) {
  const FileDigest *file;
  const RankNote *const *all;
  uint32_t n = digest_list(&file);
  for (uint64_t k = 0; k < c->most; k++) {
    RankNote mine = {.what = NOTE_FILES};
    ToldFile own = {0};
    if (k < n) own = (ToldFile){.key = file[k].key, .size = file[k].size, .sum = file[k].sum};
    if (k < n) snprintf(own.name, NAME, "%s", file[k].name);
    memcpy(mine.data, &own, sizeof own);
    if (!ranks_meet(c->s->ranks, &mine, true, &all)) return false;
    for (int i = 0; i < c->ranks; i++) memcpy(&told(c, i)[k], all[i]->data, sizeof own);
  }
  return true;
}

static const ToldFile *find(const Compared *c, int rank, uint64_t key) {
  for (uint64_t k = 0; k < c->most; k++)
    if (told(c, rank)[k].key == key && *told(c, rank)[k].name) return &told(c, rank)[k];
  return NULL;
}

static bool differs(const ToldFile *a, const ToldFile *b) {
  return a && b && (a->size != b->size || a->sum != b->sum);
}

// Ends the run with an error that names the ranks whose copy of file f differs from that of rank
// `first`. Always returns false.
static bool say_different(const Compared *c, int first, const ToldFile *f) {
  char ranks[MESSAGE] = "";
  const ToldFile *one = NULL;
  int n = 0;
  for (int i = first + 1; i < c->ranks; i++) {
    const ToldFile *other = find(c, i, f->key);
    if (!differs(f, other)) continue;
    if (!one) one = other;
    size_t used = strlen(ranks);
    if (used < MESSAGE - 32) snprintf(ranks + used, MESSAGE - used, "%s%d", n ? ", " : "", i);
    n++;
  }
  return ranks_fail(c->s->ranks,
                    "rank%s %s read another %s than rank %d: %lld byte%s with checksum %08x, and "
                    "%lld byte%s with checksum %08x",
                    plural(n), ranks, f->name, first, (long long)one->size, plural(one->size),
                    one->sum, (long long)f->size, plural(f->size), f->sum);
}

// Compares the files that several ranks have read, file by file. Files that only some ranks have
// read are allowed. Returns false after an error.
static bool compare(const Compared *c) {
  for (int first = 0; first < c->ranks; first++)
    for (uint64_t k = 0; k < c->most; k++) {
      const ToldFile *f = &told(c, first)[k];
      for (int i = first + 1; *f->name && i < c->ranks; i++)
        if (differs(f, find(c, i, f->key))) return say_different(c, first, f);
    }
  return true;
}

bool session_same_files(Session *s, bool last) {
  bool met;
  const char *how = option_text(s->opt, OPTION_CHECK_DATA);
  if (!s->ranks || (how && strcmp(how, "off") == 0)) return true;
  Compared c = {.s = s, .ranks = ranks_count(s->ranks)};
  if (last) digest_record(DIGEST_OFF);
  if (all_same(s, &c.most, &met)) return true;
  if (!met) return false;
  c.file = arena_array(s->arena, ToldFile, (uint64_t)c.ranks * c.most);
  return tell_files(&c) && compare(&c);
}
