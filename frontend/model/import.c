// Resolves imports: replaces `import` statements by the functions and dims of the imported files.
// This is the first step of model_build.
//
// Input: the Ast of a model file. Output: one Ast without imports.
//
//   # model.mesh                            # blocks.mesh
//   import "blocks.mesh"                    dim d = 4, k = d / 2
//   dim d = 8                               fn dense[in, out](x) { ... }
//
// becomes `dim d = 8, k = d / 2` and dense. If an importer, direct or indirect, declares a dim, its
// size is used. A file is read once, even if several files import it. Sizes may depend on dims of
// another file, so the result begins with all dims, each after those that its size depends on.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/model/build_internal.h"

enum { MAX_IMPORTS = 200 }; // nesting depth of imports

typedef struct File File;
struct File {
  const char *path; // relative to the model's folder, without . and ..
  const Ast *ast;
  Pos pos;   // position of the first import statement that names the file
  bool open; // the file, or one that it imports, is being read: an import of the file is then a
             // cycle
  VEC(File *) import; // the files that it imports
  NameMap over; // names of the dims that its direct and indirect importers declare: they override
                // its own
};

typedef struct Import {
  Arena *a;
  Intern *names;
  Diag *d;
  const char *folder; // folder of the model file with a slash at the end, or ""
  VEC(File *) file;   // in the order of reading: a file comes after the file that imports it first
  int depth;          // current nesting depth
} Import;

// -- paths --------------------------------------------------------------------------------------

// Returns `path`, which is relative to the folder of file `from`, relative to the model's folder
// and without `.` and `..`; NULL if it is absolute or outside the model's folder.
static const char *path_inside(Import *m, const char *from, const char *path) {
  const char *slash = strrchr(from, '/');
  char *all = arena_printf(m->a, "%.*s%s", slash ? (int)(slash - from + 1) : 0, from, path),
       *rest = all;
  VEC(const char *) part = {0};
  if (*path == '/') return NULL;
  for (char *word; (word = strtok_r(rest, "/", &rest));) {
    if (!strcmp(word, ".")) continue;
    if (strcmp(word, "..")) {
      vec_push(m->a, part) = word;
      continue;
    }
    if (!part.n) return NULL;
    part.n--;
  }
  const char *out = "";
  for (uint32_t i = 0; i < part.n; i++)
    out = arena_printf(m->a, "%s%s%s", out, i ? "/" : "", part.at[i]);
  return intern(m->names, out);
}

// -- reading ------------------------------------------------------------------------------------

// Returns true if an imported file may contain statement s.
static bool belongs(const Ast *s) {
  return s->kind == AST_FN || s->kind == AST_DIM || s->kind == AST_IMPORT;
}

static void check_statements(Import *m, const File *f) {
  for (uint32_t i = 0; i < f->ast->nkids; i++) {
    if (belongs(f->ast->kids[i])) continue;
    diag_error(m->d, DIAG_BAD_IMPORT, f->ast->kids[i]->pos,
               "an imported file may contain only functions, dims and imports");
    diag_note(m->d, f->pos, "imported here");
  }
}

static File *file_known(const Import *m, const char *path) {
  for (uint32_t i = 0; i < m->file.n; i++)
    if (!strcmp(m->file.at[i]->path, path)) return m->file.at[i];
  return NULL;
}

static File *file_read(Import *m, const Ast *import, const char *path) {
  const char *full = arena_printf(m->a, "%s%s", m->folder, path);
  size_t n;
  errno = 0;
  const char *text = model_text(m->a, full, &n);
  if (!text) {
    diag_error(m->d, DIAG_BAD_IMPORT, import->pos, "cannot read %s: %s", full, strerror(errno));
    return NULL;
  }
  File *f = arena_new_of(m->a, File);
  *f = (File){.path = path, .pos = import->pos};
  f->ast = ast_parse(m->a, m->names, m->d, diag_source(m->d, full, text, n), text, n);
  check_statements(m, f);
  vec_push(m->a, m->file) = f;
  return f;
}

static void read_imports(Import *m, File *f);

static void read_import(Import *m, File *f, const Ast *import) {
  const char *path = path_inside(m, f->path, import->text);
  if (!path) {
    diag_error(m->d, DIAG_BAD_IMPORT, import->pos, "'%s' is not below the folder of the model",
               import->text);
    diag_hint(
        m->d,
        "the path is relative to the importing file and must stay below the folder of the model");
    return;
  }
  File *to = file_known(m, path);
  if (to && to->open) {
    diag_error(m->d, DIAG_BAD_IMPORT, import->pos, "'%s' imports itself%s", import->text,
               to == f ? "" : " through other files");
    if (to->pos.line) diag_note(m->d, to->pos, "imported here");
    return;
  }
  bool first = !to;
  if (first && m->depth == MAX_IMPORTS)
    diag_error(m->d, DIAG_TOO_DEEP, import->pos, "more than %d files import one another",
               MAX_IMPORTS);
  else if (first)
    to = file_read(m, import, path);
  if (!to) return;
  vec_push(m->a, f->import) = to;
  if (first) read_imports(m, to);
}

static void read_imports(Import *m, File *f) {
  f->open = true;
  m->depth++;
  for (uint32_t i = 0; i < f->ast->nkids; i++)
    if (f->ast->kids[i]->kind == AST_IMPORT) read_import(m, f, f->ast->kids[i]);
  m->depth--;
  f->open = false;
}

// -- dims that importers override ---------------------------------------------------------------

// Adds the dims that `from` or an importer of it declares to `to->over`: they override dims of
// these names in `to`. Returns true if `to->over` has grown.
static bool hand_down(Import *m, const File *from, File *to) {
  uint32_t before = to->over.n;
  for (uint32_t i = 0; i < from->over.cap; i++)
    if (from->over.key[i]) map_put(m->a, &to->over, from->over.key[i], m);
  for (uint32_t i = 0; i < from->ast->nkids; i++) {
    const Ast *s = from->ast->kids[i];
    for (uint32_t k = 0; s->kind == AST_DIM && k < s->nkids; k++)
      map_put(m->a, &to->over, s->kids[k]->text, m);
  }
  return to->over.n != before;
}

// Propagates overridden dims from importers to imported files. Several files may import one file,
// so this is repeated until nothing changes.
static void hand_down_all(Import *m) {
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 0; i < m->file.n; i++) {
      File *f = m->file.at[i];
      for (uint32_t k = 0; k < f->import.n; k++) changed |= hand_down(m, f, f->import.at[k]);
    }
  }
}

// -- merging all files into one -----------------------------------------------------------------

typedef VEC(Ast *) Defines;

// Returns true if the expression e, the size of dim `self`, names a dim other than `self` in
// all[from..], the dims that are not sorted yet.
static bool waits(Import *m, const Ast *e, const Defines *all, uint32_t from, const Ast *self) {
  VEC(const Ast *) todo = {0};
  vec_push(m->a, todo) = e;
  while (todo.n) {
    e = todo.at[--todo.n];
    for (uint32_t i = from; e->kind == AST_NAME && i < all->n; i++)
      if (all->at[i] != self && all->at[i]->text == e->text) return true;
    for (uint32_t i = 0; i < e->nkids; i++) vec_push(m->a, todo) = e->kids[i];
    for (uint32_t i = 0; i < e->nargs; i++) vec_push(m->a, todo) = e->args[i].value;
  }
  return false;
}

// Sorts the dims so that each follows the dims that its size depends on. Dims that depend on each
// other in a circle are left in place; dims.c reports them.
static void sort_dims(Import *m, Defines *all) {
  for (uint32_t done = 0; done < all->n;) {
    uint32_t next = done;
    while (next < all->n && waits(m, all->at[next]->kids[0], all, done, all->at[next])) next++;
    if (next == all->n) return;
    Ast *define = all->at[next];
    memmove(&all->at[done + 1], &all->at[done], (next - done) * sizeof(Ast *));
    all->at[done++] = define;
  }
}

// Returns one Ast with the sorted dims and the other statements of all files, without imports and
// without overridden dims.
static const Ast *merge(Import *m) {
  Ast *all = arena_new_of(m->a, Ast), *dims = arena_new_of(m->a, Ast);
  *all = *m->file.at[0]->ast;
  VEC(Ast *) kids = {0};
  Defines define = {0};
  vec_push(m->a, kids) = dims;
  for (uint32_t i = 0; i < m->file.n; i++) {
    const File *f = m->file.at[i];
    for (uint32_t k = 0; k < f->ast->nkids; k++) {
      Ast *s = f->ast->kids[k];
      if (s->kind != AST_DIM && s->kind != AST_IMPORT) vec_push(m->a, kids) = s;
      for (uint32_t j = 0; s->kind == AST_DIM && j < s->nkids; j++)
        if (!map_get(&f->over, s->kids[j]->text)) vec_push(m->a, define) = s->kids[j];
    }
  }
  sort_dims(m, &define);
  *dims = (Ast){
      .kind = AST_DIM, .pos = all->pos, .end = all->pos, .nkids = define.n, .kids = define.at};
  all->kids = kids.at;
  all->nkids = kids.n;
  return all;
}

const Ast *imports_resolve(Arena *a, Intern *names, Diag *d, const Ast *file, const char *path) {
  bool any = false;
  for (uint32_t i = 0; i < file->nkids; i++) any |= file->kids[i]->kind == AST_IMPORT;
  if (!any) return file;
  int errors = diag_errors(d);
  const char *slash = path ? strrchr(path, '/') : NULL;
  Import m = {.a = a, .names = names, .d = d};
  m.folder = slash ? arena_text(a, path, (size_t)(slash - path + 1)) : "";
  File *first = arena_new_of(a, File);
  *first = (File){.path = path ? intern(names, slash ? slash + 1 : path) : "", .ast = file};
  vec_push(a, m.file) = first;
  read_imports(&m, first);
  hand_down_all(&m);
  return diag_errors(d) == errors ? merge(&m) : NULL;
}
