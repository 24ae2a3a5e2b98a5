#include "tests/suite/common/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *suite_cache(void) {
  static char path[1024];
  const char *base = getenv("XDG_CACHE_HOME");
  if (!base || (size_t)snprintf(path, sizeof path, "%s/meshc", base) >= sizeof path) return NULL;
  return path;
}

// Returns the text of SUITE_FLAGS from `flag` on, or NULL.
static const char *flag_given(const char *flag) {
  const char *flags = getenv("SUITE_FLAGS");
  return flags ? strstr(flags, flag) : NULL;
}

bool suite_fuses(bool usual) { return usual && !flag_given("--no-fuse"); }

int suite_opt(int usual) {
  const char *given = flag_given("--opt ");
  return given ? atoi(given + strlen("--opt ")) : usual;
}

const char *suite_opt_option(int usual) {
  static char text[16];
  snprintf(text, sizeof text, "--opt=%d", suite_opt(usual));
  return text;
}

const char *suite_without(void) { return getenv("SUITE_WITHOUT"); }

bool suite_varied(void) { return getenv("SUITE_FLAGS") || getenv("MESHC_WIDTH"); }

bool suite_partial(void) { return getenv("SUITE_PART") != NULL; }

bool suite_takes(void) {
  static int next;
  int which, shares;
  const char *part = getenv("SUITE_PART");
  if (!part) return true;
  if (sscanf(part, "%d/%d", &which, &shares) != 2 || shares < 1) {
    fprintf(stderr, "SUITE_PART is '%s', expected K/N\n", part);
    exit(2);
  }
  return next++ % shares == which % shares;
}
