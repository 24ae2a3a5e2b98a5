// Returns what the tables diag.def and meanings.def say of a diagnostic: code, exit code, hint,
// meaning and example.
#include "ir/base/diag.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

typedef struct DiagRow {
  const char *code;
  int exit;
  const char *hint;
} DiagRow;

static const DiagRow rows[DIAG_COUNT] = {
#define DIAG(id, code, exit, hint) {code, exit, hint},
#include "ir/base/diag.def"
#undef DIAG
};

static const struct {
  const char *text, *example;
} meanings[DIAG_COUNT] = {
#define MEANING(id, text, example) [DIAG_##id] = {text, example},
#include "ir/base/meanings.def"
#undef MEANING
};

const char *diag_code(DiagId id) { return id < DIAG_COUNT ? rows[id].code : NULL; }
const char *diag_default_hint(DiagId id) { return id < DIAG_COUNT ? rows[id].hint : NULL; }
int diag_exit_code(DiagId id) { return id < DIAG_COUNT ? rows[id].exit : 0; }
const char *diag_meaning(DiagId id) { return id < DIAG_COUNT ? meanings[id].text : NULL; }
const char *diag_example(DiagId id) { return id < DIAG_COUNT ? meanings[id].example : NULL; }

DiagId diag_of_code(const char *code) {
  int i = 0;
  while (i < DIAG_COUNT && strcasecmp(rows[i].code, code) != 0) i++;
  return (DiagId)i;
}

bool diag_is_code(const char *text) {
  if (!strchr("EeWw", text[0]) || strlen(text) != 5) return false;
  for (int i = 1; i < 5; i++)
    if (!isdigit((unsigned char)text[i])) return false;
  return true;
}
