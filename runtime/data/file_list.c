// Lists the files that match a path with stars (file_list.h).
#include "runtime/data/file_list.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

bool file_list_find(FileList *out, const char *path, Diag *d, Pos at) {
  glob_t g = {0};
  int found = strpbrk(path, "*?[") ? glob(path, 0, NULL, &g) : GLOB_NOMATCH;
  if (found == GLOB_NOSPACE) mem_exhausted(0);
  *out = (FileList){.path = mem_zeroed(g.gl_pathc + 1, sizeof *out->path)};
  for (size_t i = 0; found == 0 && i < g.gl_pathc; i++)
    out->path[out->n++] = mem_text(g.gl_pathv[i]);
  if (found == 0) globfree(&g);
  if (out->n) return true;
  if (!strpbrk(path, "*?")) { // a name may have a bracket
    out->path[out->n++] = mem_text(path);
    return true;
  }
  diag_error(d, DIAG_FILE_MISSING, at, "no file matches %s", path);
  return false;
}

void file_list_free(FileList *l) {
  for (uint32_t i = 0; i < l->n; i++) free(l->path[i]);
  free(l->path);
  *l = (FileList){0};
}
