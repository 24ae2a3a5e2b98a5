// Files of other programs, which meshc does not read: a table of how they begin, and of what makes
// a file of them that it reads. Errors about a file that cannot be read end in this hint.
#include "runtime/runtime_internal.h"

#include <string.h>

#define TABLE_HINT "save the table as CSV, in UTF-8"
#define WEIGHTS_HINT                                                                               \
  "safetensors.torch.save_file(model.state_dict(), \"model.safetensors\") writes one that meshc "  \
  "reads"
#define PICKLE_HINT                                                                                \
  "it is a pickle of Python, which could run code: numpy.savez, or safetensors, writes arrays "    \
  "that "                                                                                          \
  "meshc reads"

enum { HEAD = 512 };

typedef struct Kind {
  const char *begin; // the first bytes of the file
  size_t n;
  const char *member; // of a zip archive: what the name of its first member ends in; else NULL
  const char *name;   // of a compressed file: the end of the names that meshc inflates; else NULL
  const char *hint;
} Kind;

#define BEGIN(text) text, sizeof(text) - 1
static const Kind kinds[] = {
    {BEGIN("PK\3\4"), "/data.pkl", NULL, "it is a file of torch.save: " WEIGHTS_HINT},
    {BEGIN("PK\3\4"), "[Content_Types].xml", NULL, "it is a spreadsheet: " TABLE_HINT},
    {BEGIN("PK\3\4"), "_rels/.rels", NULL, "it is a spreadsheet: " TABLE_HINT},
    {BEGIN("PK\3\4"), "mimetype", NULL, "it is a spreadsheet: " TABLE_HINT},
    {BEGIN("\xd0\xcf\x11\xe0"), NULL, NULL, "it is a spreadsheet: " TABLE_HINT},
    {BEGIN("\x80\2\x8a"), NULL, NULL, "it is a file of torch.save: " WEIGHTS_HINT},
    {BEGIN("\x80\2}"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x80\2c"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x80\3}"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x80\3c"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x80\4\x95"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x80\5\x95"), NULL, NULL, PICKLE_HINT},
    {BEGIN("\x89HDF\r\n\x1a\n"), NULL, NULL,
     "it is HDF5: write its arrays as .npz or .safetensors"},
    {BEGIN("PAR1"), NULL, NULL,
     "it is Parquet: pandas.read_parquet(FILE).to_csv(\"new.csv\", index=False) makes CSV of it"},
    {BEGIN("ARROW1"), NULL, NULL,
     "it is Arrow: pandas.read_feather(FILE).to_csv(\"new.csv\", index=False) makes CSV of it"},
    {BEGIN("GGUF"), NULL, NULL, "it is GGUF: take the weights as .safetensors"},
    {BEGIN("\x1f\x8b"), NULL, ".gz",
     "it is compressed by gzip: a file is inflated if its name "
     "ends in .gz"},
    {BEGIN("BZh"), NULL, NULL, "it is compressed: bunzip2 unpacks it"},
    {BEGIN("\xfd"
           "7zXZ"),
     NULL, NULL, "it is compressed: unxz unpacks it"},
    {BEGIN("\x28\xb5\x2f\xfd"), NULL, NULL, "it is compressed: unzstd unpacks it"},
};

static bool ends_in(const char *text, size_t n, const char *end) {
  size_t k = strlen(end);
  return n >= k && memcmp(text + n - k, end, k) == 0;
}

// Returns the name of the first member of a zip archive, and its length; NULL if it is cut off.
static const char *first_member(const unsigned char *head, size_t bytes, size_t *n) {
  enum { NAME_LENGTH = 26, NAME = 30 };
  if (bytes < NAME) return NULL;
  *n = head[NAME_LENGTH] | (size_t)head[NAME_LENGTH + 1] << 8;
  return NAME + *n <= bytes ? (const char *)head + NAME : NULL;
}

static bool is_kind(const Kind *k, const char *path, const unsigned char *head, size_t bytes) {
  size_t n = 0;
  if (bytes < k->n || memcmp(head, k->begin, k->n) != 0) return false;
  if (k->name) return !ends_in(path, strlen(path), k->name);
  const char *member = k->member ? first_member(head, bytes, &n) : NULL;
  return !k->member || (member && ends_in(member, n, k->member));
}

const char *foreign_hint(const Datafile *f) {
  unsigned char head[HEAD];
  char why[WHY];
  size_t bytes = f->size < HEAD ? (size_t)f->size : HEAD;
  if (!datafile_read(f, 0, (int64_t)bytes, head, why)) return NULL;
  for (size_t i = 0; i < countof(kinds); i++)
    if (is_kind(&kinds[i], f->path, head, bytes)) return kinds[i].hint;
  return NULL;
}
