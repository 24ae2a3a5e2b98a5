// The files of a source: one, or those that match the stars of a path.
#ifndef RUNTIME_FILE_LIST_H
#define RUNTIME_FILE_LIST_H

#include "ir/base/diag.h"

typedef struct FileList {
  uint32_t n;
  char **path; // in the order of their names
} FileList;
// Lists the file of that name or, if the path has stars of the shell, the files that match. Returns
// false after an error in d at `at`: none matches. The caller calls file_list_free.
MUST_USE bool file_list_find(FileList *out, const char *path, Diag *d, Pos at);
void file_list_free(FileList *l);

#endif
