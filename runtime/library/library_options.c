// The list of options of a model that is to be opened, as words of a command line.
#include "runtime/library/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int meshc_abi_version(void) { return MESHC_ABI_VERSION; }
const char *meshc_version(void) { return MESHC_VERSION; }

meshc_options *meshc_options_new(void) { return calloc(1, sizeof(meshc_options)); }

int meshc_options_set(meshc_options *o, const char *name, const char *value) {
  if (!o || !name || !library_has_option(name, value)) return 2;
  size_t n = strlen(name) + (value ? strlen(value) : 0) + 4;
  char **more = realloc(o->word, (o->n + 1) * sizeof *more);
  if (more) o->word = more;
  char *word = more ? malloc(n) : NULL;
  if (!word) return 7;
  snprintf(word, n, "--%s%s%s", name, value ? "=" : "", value ? value : "");
  o->word[o->n++] = word;
  return 0;
}

void meshc_options_free(meshc_options *o) {
  if (!o) return;
  for (size_t i = 0; i < o->n; i++) free(o->word[i]);
  free(o->word);
  free(o);
}
