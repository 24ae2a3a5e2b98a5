// What libmeshc_run has in place of the compiler: the functions of include/meshc.h that need it are
// refused.
#include "runtime/library/library.h"

#include <string.h>

bool library_has_option(const char *name, const char *value) {
  if (!value) return false; // no option of packages is a switch
  return strcmp(name, "threads") == 0 || strcmp(name, "data-dir") == 0;
}

static meshc_model *refuse(meshc_error **error) {
  (void)library_refuse(DIAG_UNAVAILABLE, "libmeshc_run has no compiler",
                       "make a package with meshc compile and open it with meshc_open_package, or "
                       "link libmeshc",
                       error);
  return NULL;
}

meshc_model *meshc_open_file(const char *path, const meshc_options *options, meshc_error **error) {
  (void)path, (void)options;
  return refuse(error);
}

meshc_model *meshc_open_text(const char *text, size_t size, const char *name,
                             const meshc_options *options, meshc_error **error) {
  (void)text, (void)size, (void)name, (void)options;
  return refuse(error);
}
