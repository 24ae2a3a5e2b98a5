// The command new: writes a commented model to start from, and the data that it reads.
//
// The texts are the files of examples/templates, which are embedded into the program. In them the
// word NAME stands for the name of the new model: "NAME.csv" becomes "flowers.csv".
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/driver/session.h"
#include "ir/base/disk.h"

typedef struct TemplateFile {
  const char *name, *text; // name: that of the template and the ending of the file
} TemplateFile;
static const TemplateFile template_files[] = {
#include "template_files.h"
};

static const char default_template[] = "mlp";
static const char placeholder[] = "NAME";

// Returns whether a file belongs to the template: its name is that of the template and an ending.
static bool is_of(const TemplateFile *f, const char *template) {
  size_t n = strlen(template);
  return strncmp(f->name, template, n) == 0 && f->name[n] == '.';
}

// Returns the names of all templates, separated by commas, in the arena.
static const char *template_names(Arena *a) {
  const char *list = "";
  for (size_t i = 0; i < countof(template_files); i++) {
    const char *name = template_files[i].name, *dot = strchr(name, '.');
    if (strcmp(dot, ".mesh") == 0)
      list = arena_printf(a, "%s%s%.*s", list, *list ? ", " : "", (int)(dot - name), name);
  }
  return list;
}

// Returns the template that the options ask for. Returns NULL after an error.
static const char *chosen_template(const Session *s) {
  const char *name = option_text(s->opt, OPTION_TEMPLATE);
  if (!name) return default_template;
  for (size_t i = 0; i < countof(template_files); i++)
    if (!strchr(name, '.') && is_of(&template_files[i], name)) return name;
  diag_error(s->diag, DIAG_USAGE, (Pos){0}, "there is no template '%s'",
             text_shown(s->arena, name));
  diag_hint(s->diag, "the templates are %s", template_names(s->arena));
  return NULL;
}

// Returns the path of the new model without its ending. The last part of the path, which the model
// and its comments quote, must be a plain word. Returns NULL after an error.
static const char *path_stem(const Session *s) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const char *given = s->opt->argument.at[0];
  size_t n = strlen(given);
  if (n > 5 && strcmp(given + n - 5, ".mesh") == 0) n -= 5;
  const char *stem = arena_text(s->arena, given, n), *slash = strrchr(stem, '/');
  const char *word = slash ? slash + 1 : stem;
  if (*word && *word != '-' && word[strspn(word, plain)] == 0) return stem;
  diag_error(s->diag, DIAG_USAGE, (Pos){0}, "'%s' is no name for a model",
             text_shown(s->arena, given));
  diag_hint(s->diag, "a name has letters, digits, _ and -, as in `meshc new flowers`");
  return NULL;
}

// Returns the text with the name of the model for every placeholder, in the arena.
static const char *with_name(Arena *a, const char *text, const char *name) {
  const char *out = "", *next;
  while ((next = strstr(text, placeholder))) {
    out = arena_printf(a, "%s%.*s%s", out, (int)(next - text), text, name);
    text = next + strlen(placeholder);
  }
  return arena_printf(a, "%s%s", out, text);
}

static const char *target_path(const Session *s, const TemplateFile *f, const char *stem) {
  return arena_printf(s->arena, "%s%s", stem, strchr(f->name, '.'));
}

// Returns false after an error: a file of the template exists already.
static bool all_free(const Session *s, const char *template, const char *stem) {
  struct stat info;
  for (size_t i = 0; i < countof(template_files); i++) {
    if (!is_of(&template_files[i], template)) continue;
    const char *path = target_path(s, &template_files[i], stem);
    if (lstat(path, &info) != 0) continue;
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "%s exists already", text_shown(s->arena, path));
    return diag_hint(s->diag, "choose another name, or remove the file: new replaces none");
  }
  return true;
}

typedef struct NewFile {
  const char *path;
  DiskFile disk;
} NewFile;

// Writes the n files completely or not at all. Returns false after an error.
static bool commit_all(const Session *s, NewFile *file, size_t n) {
  size_t done = 0;
  while (done < n && disk_commit(&file[done].disk)) done++;
  if (done == n) return true;
  session_cannot_write(s, file[done].path, (Pos){0});
  for (size_t i = done + 1; i < n; i++) disk_abandon(&file[i].disk);
  for (size_t i = 0; i <= done; i++) (void)unlink(file[i].path); // no such file was there before
  return false;
}

int cmd_new(Session *s) {
  const char *template = chosen_template(s), *stem = path_stem(s);
  if (!template || !stem || !all_free(s, template, stem)) return 0;
  const char *slash = strrchr(stem, '/'), *name = slash ? slash + 1 : stem;
  NewFile file[countof(template_files)];
  size_t n = 0;
  const char *said = ""; // made before the files are there: an allocation may fail
  for (size_t i = 0; i < countof(template_files); i++) {
    const TemplateFile *f = &template_files[i];
    if (!is_of(f, template)) continue;
    const char *text = with_name(s->arena, f->text, name);
    file[n].path = target_path(s, f, stem);
    if (!disk_begin(&file[n].disk, file[n].path)) {
      session_cannot_write(s, file[n].path, (Pos){0});
      while (n > 0) disk_abandon(&file[--n].disk);
      return 0;
    }
    disk_put(&file[n].disk, text, strlen(text));
    said = arena_printf(s->arena, "%swrote %s\n", said, text_shown(s->arena, file[n++].path));
  }
  said = arena_printf(s->arena, "%snext: meshc train %s.mesh\n", said, text_shown(s->arena, stem));
  if (commit_all(s, file, n)) fputs(said, stdout);
  return 0;
}
