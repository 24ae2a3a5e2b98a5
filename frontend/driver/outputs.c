// Refuses a run that would write over one of its own inputs: `predict --feed x=a.csv --out a.csv`,
// `compile m.mesh --emit asm -o m.mesh`. Files are the same if device and inode are, whatever their
// names. The check runs once the model is known, before anything is computed or written.
#include "frontend/driver/session.h"
#include "ir/base/disk.h"
#include "runtime/package/package.h"
#include "runtime/tokens/vocabulary.h"

#include <string.h>
#include <sys/stat.h>

// An option whose file is written, and the option whose file it may replace: parameters go on under
// their name, and a plan is made anew.
static const struct {
  OptionId id, replaces;
} written[] = {{OPTION_OUT, OPTION_COUNT},
               {OPTION_PACKAGE_OUT, OPTION_COUNT},
               {OPTION_SAVE_PARAMS, OPTION_PARAMS},
               {OPTION_PLAN_SAVE, OPTION_PLAN_AGAINST}};

static const OptionId read_by[] = {OPTION_FEED,    OPTION_PARAMS,       OPTION_MAP,
                                   OPTION_VOCAB,   OPTION_PROMPT_FILE,  OPTION_LAYOUT,
                                   OPTION_MACHINE, OPTION_PLAN_AGAINST, OPTION_CHECKPOINT};

typedef struct Written {
  const Session *s;
  const OptionUse *use;
  OptionId replaces;
} Written;

// Returns false after an error: `path` is the file that is to be written.
static bool differs(const Written *w, const char *path, const char *what) {
  if (!disk_same_file(w->use->text, path)) return true;
  diag_error(w->s->diag, DIAG_USAGE, w->use->pos, "%s is also read in this run, as %s",
             w->use->text, what);
  return diag_hint(w->s->diag, "name another file to write");
}

static bool differs_from_options(const Written *w) {
  Arena *a = w->s->arena;
  for (size_t i = 0; i < countof(read_by); i++)
    for (uint32_t k = 0; read_by[i] != w->replaces && k < w->s->opt->use[read_by[i]].n; k++) {
      const char *text = w->s->opt->use[read_by[i]].at[k].text, *equals = strchr(text, '=');
      bool named = read_by[i] == OPTION_FEED && equals; // NAME=FILE[:KEY]
      const char *path = named ? equals + 1 : text, *key = named ? strrchr(path, ':') : NULL;
      const char *name = option_name(read_by[i]);
      if (!differs(w, path, name) ||
          (key && !differs(w, arena_text(a, path, (size_t)(key - path)), name)))
        return false;
    }
  return true;
}

// All files of the vocabulary that --vocab names, or a folder that has one.
static bool differs_from_vocabulary(const Written *w) {
  const OptionUse *use = option_use(w->s->opt, OPTION_VOCAB);
  const char *path[VOCABULARY_FILES];
  const VocabularyKind *kind;
  int n = use ? vocabulary_paths(w->s->arena, use->text, &kind, path) : 0;
  for (int i = 0; i < n; i++)
    if (!differs(w, path[i], option_name(OPTION_VOCAB))) return false;
  return true;
}

// The files of a package have checksums: without one of them it is damaged.
static bool differs_from_package(const Written *w) {
  const Session *s = w->s;
  struct stat folder, package;
  const char *path = s->opt->argument.n ? s->opt->argument.at[0] : "";
  if (!package_is(path) || stat(path_folder(s->arena, w->use->text), &folder) != 0 ||
      stat(path, &package) != 0 || folder.st_dev != package.st_dev ||
      folder.st_ino != package.st_ino)
    return true;
  diag_error(s->diag, DIAG_USAGE, w->use->pos,
             "%s is also read in this run, as part of the package", w->use->text);
  return diag_hint(s->diag, "name another file to write");
}

// The model, what it imports, and the files that its data and parameters come from.
static bool differs_from_model(const Written *w) {
  const Session *s = w->s;
  const char *name;
  for (uint32_t i = 0; i < s->opt->argument.n; i++)
    if (!differs(w, s->opt->argument.at[i], i ? "an argument" : "the argument of the command"))
      return false;
  for (uint32_t i = 1; *(name = diag_source_name(s->diag, i)); i++)
    if (w->replaces == OPTION_COUNT && !differs(w, name, "a part of the model")) return false;
  return true;
}

static bool differs_at(const Written *w, const char *path, const char *what) {
  const char *folder = *path == '/' ? NULL : w->s->directory;
  return differs(w, folder ? arena_printf(w->s->arena, "%s/%s", folder, path) : path, what);
}

static bool differs_from_data(const Written *w) {
  const Graph *g = w->s->model ? w->s->model->graph : NULL;
  for (int k = 0; g && k < DATA_BLOCKS; k++)
    for (uint32_t i = 0; g->spec.data[k].present && i < g->spec.data[k].nfields; i++) {
      const DataSource *source = &g->spec.data[k].field[i].source;
      if ((source->path && !differs_at(w, source->path, "data")) ||
          (source->vocabulary && !differs_at(w, source->vocabulary, "a vocabulary")))
        return false;
    }
  for (uint32_t i = 0; g && i < g->decl.n; i++)
    if (g->decl.at[i].init.kind == INIT_FILE &&
        !differs_at(w, g->decl.at[i].init.path, "initial values"))
      return false;
  return true;
}

bool outputs_check(const Session *s) {
  for (size_t i = 0; i < countof(written); i++) {
    Written w = {.s = s, .use = option_use(s->opt, written[i].id), .replaces = written[i].replaces};
    if (!w.use || !disk_same_file(w.use->text, w.use->text)) continue; // it is no file so far
    if (!differs_from_package(&w) || !differs_from_options(&w) || !differs_from_vocabulary(&w) ||
        !differs_from_model(&w) || !differs_from_data(&w))
      return false;
  }
  return true;
}
