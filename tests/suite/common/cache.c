#include "tests/suite/common/cache.h"

#include <stdio.h>
#include <stdlib.h>

const char *suite_cache(void) {
  static char path[1024];
  const char *base = getenv("XDG_CACHE_HOME");
  if (!base || (size_t)snprintf(path, sizeof path, "%s/meshc", base) >= sizeof path) return NULL;
  return path;
}
