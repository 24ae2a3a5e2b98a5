// Options and models of the library. Options set by calls are turned into a command line, which the
// driver parses. Output: a model handle, with the model loaded and built.
#include "frontend/library/library_internal.h"

#include <stdlib.h>
#include <string.h>

int meshc_abi_version(void) { return MESHC_ABI_VERSION; }
const char *meshc_version(void) { return MESHC_VERSION; }

// -- options ------------------------------------------------------------------------------------

struct meshc_options {
  size_t n;
  char **word; // the options as words of a command line: "--mesh=rows=2"
};

meshc_options *meshc_options_new(void) { return calloc(1, sizeof(meshc_options)); }

int meshc_options_set(meshc_options *o, const char *name, const char *value) {
  static const OptionId of_program[] = {OPTION_COMM, OPTION_QUIET, OPTION_VERBOSE};
  OptionId id;
  if (!o || !name || !option_of_models(name, &id)) return 2;
  for (size_t i = 0; i < countof(of_program); i++)
    if (id == of_program[i]) return 2;
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

// -- models -------------------------------------------------------------------------------------

typedef struct Opening {
  const char *path, *text; // `text` is NULL if the file at path is read
  size_t bytes;
  const meshc_options *options;
  meshc_model *model;
  bool good;
} Opening;

// Builds a command line with the words of o->options and parses it. The command is `train`, which
// takes all options of models. Returns false after an error.
static bool read_options(const Opening *o) {
  meshc_model *m = o->model;
  Arena *a = m->s.arena;
  size_t n = o->options ? o->options->n : 0;
  int argc = 0;
  char **argv = arena_array(a, char *, n + 6);
  argv[argc++] = arena_text(a, "meshc", 5);
  argv[argc++] = arena_text(a, "train", 5);
  argv[argc++] = arena_text(a, "--quiet", 7);
  for (size_t i = 0; i < n; i++)
    argv[argc++] = arena_text(a, o->options->word[i], strlen(o->options->word[i]));
  argv[argc++] = arena_text(a, "--", 2);
  argv[argc++] = arena_printf(a, "%s%s", strcmp(o->path, "-") ? "" : "./", o->path);
  m->s.opt = &m->options;
  return options_parse(&m->options, a, m->s.diag, argc, argv);
}

static void open_model(void *opening) {
  Opening *o = opening;
  Arena *a = arena_new();
  meshc_model *m = o->model = arena_new_of(a, meshc_model);
  m->s = (Session){.arena = a, .names = intern_new(a), .diag = diag_new(a), .inject.call = -1};
  m->s.keeps = true;
  if (o->text) {
    m->s.text = arena_text(a, o->text, o->bytes);
    m->s.text_bytes = o->bytes;
  }
  o->good = read_options(o) && session_load(&m->s);
  if (o->good) library_list_model(m);
}

static meshc_model *open_with(Opening *o, meshc_error **error) {
  Failure why;
  if (error) *error = NULL;
  if (!guard_run(open_model, o, &why)) {
    (void)library_failed(&why, error);
    return NULL;
  }
  meshc_model *m = o->model;
  if (!o->good && error) *error = library_errors(m->s.diag, 0, false);
  if (o->good && diag_count(m->s.diag)) m->warnings = library_errors(m->s.diag, 0, true);
  if (o->good) return m;
  arena_free(m->s.arena);
  return NULL;
}

meshc_model *meshc_open_file(const char *path, const meshc_options *options, meshc_error **error) {
  Opening o = {.path = path, .options = options};
  if (path) return open_with(&o, error);
  (void)library_refuse(DIAG_NO_MODEL, "the path of the model is NULL", NULL, error);
  return NULL;
}

meshc_model *meshc_open_text(const char *text, size_t size, const char *name,
                             const meshc_options *options, meshc_error **error) {
  Opening o = {.path = name ? name : "model", .text = text, .bytes = size, .options = options};
  if (text || !size) {
    if (!text) o.text = "";
    return open_with(&o, error);
  }
  (void)library_refuse(DIAG_NO_MODEL, "the text of the model is NULL", NULL, error);
  return NULL;
}

void meshc_close(meshc_model *m) {
  if (!m) return;
  meshc_error_free(m->warnings);
  if (library_stuck(m)) return; // threads of the model may still use its memory: nothing is freed
  saver_free(m->saver);
  library_run_free(&m->eval);
  program_run_free(&m->test);
  program_run_free(&m->train);
  for (meshc_program *p = m->programs, *before; p; p = before) {
    before = p->before;
    library_program_free(p);
  }
  session_close_device(&m->s);
  arena_free(m->s.arena);
}
