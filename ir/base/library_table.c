// Fills structs of pointers to functions of libraries (library_table.h): finds the file, first by
// the rules of dlopen, then in the folder of the CUDA toolkit.
#define _GNU_SOURCE // dlinfo
#include "ir/base/library_table.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/base/library.h"

static void *open_file(const LibrarySpec *spec, const char *path, char *why, size_t bytes) {
  void *library = library_open(path, RTLD_LAZY | RTLD_LOCAL, spec->room);
  const char *error = library ? NULL : dlerror();
  if (error) snprintf(why, bytes, "%s", error);
  return library;
}

// Opens a file of the CUDA toolkit, if it is there.
static void *open_in_toolkit(const LibrarySpec *spec, const char *name, char *why, size_t bytes) {
  const char *const home[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
  char path[512];
  for (size_t i = 0; i < countof(home); i++) {
    if (!home[i] || !*home[i]) continue;
    int n = snprintf(path, sizeof path, "%s/lib64/%s", home[i], name);
    if (n >= (int)sizeof path || access(path, R_OK) != 0) continue;
    void *library = open_file(spec, path, why, bytes);
    if (library) return library;
  }
  return NULL;
}

// Writes the addresses of the functions to `table`. Returns the name of one that is missing, or
// NULL.
static const char *find_functions(const LibrarySpec *spec, void *library, void *table) {
  for (size_t i = 0; i < spec->nfunctions; i++) {
    void *at = dlsym(library, spec->function[i].name);
    if (!at) return spec->function[i].name;
    // ISO C has no cast from object to function pointers
    memcpy((char *)table + spec->function[i].at, &at, sizeof at);
  }
  return NULL;
}

static void note_path(const char *name, LibraryFound *out) {
  struct link_map *map = NULL;
  bool known = dlinfo(out->library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0];
  snprintf(out->path, sizeof out->path, "%s", known ? map->l_name : name);
}

// Opens the library under one of its names. Returns false, with a reason in `why`, if there is no
// such file or it lacks a function.
static bool open_name(const LibrarySpec *spec, const char *name, void *table, LibraryFound *out,
                      char *why, size_t bytes) {
  void *library = open_file(spec, name, why, bytes);
  if (!library && spec->toolkit) library = open_in_toolkit(spec, name, why, bytes);
  if (!library) return false;
  const char *missing = find_functions(spec, library, table);
  if (missing) {
    snprintf(why, bytes, "%s lacks %s, so its version is too old or too new", name, missing);
    return false; // the file stays open: some libraries cannot be unloaded
  }
  out->library = library;
  note_path(name, out);
  return true;
}

void library_fill(const LibrarySpec *spec, void *table, LibraryFound *out) {
  char why[400] = "", other[400] = "";
  memset(out, 0, sizeof *out);
  for (int i = 0; spec->file[i]; i++)
    if (open_name(spec, spec->file[i], table, out, i ? other : why, sizeof why)) return;
  snprintf(out->why, sizeof out->why, "%s cannot be used (%s): %s; %s", spec->what, why,
           spec->brings, spec->without);
}

typedef struct Filling {
  const LibrarySpec *spec;
  void *table;
  LibraryFound *out;
} Filling;

static void fill(void *filling) {
  const Filling *f = filling;
  library_fill(f->spec, f->table, f->out);
}

const LibraryFound *library_fill_once(const LibrarySpec *spec, void *table, LibraryOnce *l) {
  Filling f = {spec, table, &l->found};
  guard_once(&l->once, fill, &f);
  return &l->found;
}
