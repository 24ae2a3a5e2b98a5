// Models that are compiled from a text: their options are a command line, which the driver parses.
// Output: a model handle, with the model loaded and built.
#include "frontend/library/library_internal.h"

#include <string.h>

// -- options ------------------------------------------------------------------------------------

bool library_has_option(const char *name, const char *value) {
  static const OptionId of_program[] = {OPTION_COMM, OPTION_QUIET, OPTION_VERBOSE};
  OptionId id;
  if (!option_of_models(name, &id)) return false;
  if (!value && option_row[id].argument) return false; // it would take the next word as its value
  for (size_t i = 0; i < countof(of_program); i++)
    if (id == of_program[i]) return false;
  return true;
}

void library_option(CompiledModel *m, OptionId id, const char *text) {
  if (!text) {
    m->options.use[id].n--;
    return;
  }
  uint32_t n = (uint32_t)strlen(text);
  OptionUse use = {.text = text};
  use.pos = (Pos){.source = diag_source(m->s.diag, option_name(id), text, n)};
  vec_push(m->s.arena, m->options.use[id]) = use;
}

// -- the kind -----------------------------------------------------------------------------------

static void close_model(meshc_model *model) {
  CompiledModel *m = library_model_of(model);
  saver_free(m->saver);
  generation_free(&m->generation);
  vocabulary_free(m->vocabulary);
  library_run_free(&m->eval);
  program_run_free(&m->test);
  program_run_free(&m->train);
  for (meshc_program *p = model->programs, *before; p; p = before) {
    before = p->before;
    library_program_free(p);
    compilation_free(&library_program_of(p)->made);
  }
  session_close_device(&m->s);
}

static bool is_stuck(const meshc_model *model) {
  const CompiledModel *m = (const CompiledModel *)(const void *)model;
  bool stuck = exec_is_stuck(m->train.exec) || exec_is_stuck(m->train.sync.exec) ||
               exec_is_stuck(m->test.exec) || exec_is_stuck(m->eval.exec) ||
               exec_is_stuck(m->eval.last.exec) || exec_is_stuck(m->test.last.exec) ||
               exec_is_stuck(m->generation.step.exec) || exec_is_stuck(m->generation.chunk.exec);
  for (const meshc_program *p = model->programs; p; p = p->before) stuck |= exec_is_stuck(p->exec);
  return stuck;
}

static bool hides(const meshc_model *m, const char *output) {
  (void)m;
  return select_reserved(output);
}

static const char *dim_name(const meshc_model *m, const char *dim) {
  return result_dim(&((const CompiledModel *)(const void *)m)->s, dim);
}

static bool is_micro(const meshc_model *m, const char *dim) {
  return result_is_micro(&((const CompiledModel *)(const void *)m)->s, dim);
}

static const LibraryKind compiled = {
    .close = close_model,
    .stuck = is_stuck,
    .store = library_store,
    .compile = library_compile,
    .train = library_train,
    .evaluate = library_evaluate,
    .load = library_load,
    .save = library_save,
    .text = library_text,
    .json = library_json,
    .hides = hides,
    .dim_name = dim_name,
    .is_micro = is_micro,
};

// -- models -------------------------------------------------------------------------------------

// Builds a command line with the words of o->options and parses it. The command is `train`, which
// takes all options of models. Returns false after an error.
static bool read_options(const Opening *o) {
  CompiledModel *m = library_model_of(o->model);
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

// Hints name the options of models, and no others of the program.
static void tell_options(CompiledModel *m) {
  const char **names = arena_array(m->s.arena, const char *, OPTION_COUNT + 1);
  size_t n = 0;
  for (int id = 0; id < OPTION_COUNT; id++)
    if (library_has_option(option_name((OptionId)id) + 2, ""))
      names[n++] = option_name((OptionId)id);
  names[n] = NULL;
  diag_program(m->s.diag, NULL, names);
}

static bool open_model(Opening *o) {
  Arena *a = arena_new();
  CompiledModel *m = arena_new_of(a, CompiledModel);
  m->s = (Session){.arena = a, .names = intern_new(a), .diag = diag_new(a), .inject.call = -1};
  m->base = (meshc_model){.kind = &compiled, .arena = a, .diag = m->s.diag};
  m->s.keeps = true;
  tell_options(m);
  o->model = &m->base;
  if (o->text) {
    m->s.text = arena_text(a, o->text, o->bytes);
    m->s.text_bytes = o->bytes;
  }
  if (!read_options(o) || !session_load(&m->s)) return false;
  library_list_model(m);
  return true;
}

meshc_model *meshc_open_file(const char *path, const meshc_options *options, meshc_error **error) {
  Opening o = {.open = open_model, .path = path, .options = options};
  if (path) return library_open_model(&o, error);
  (void)library_refuse(DIAG_NO_MODEL, "the path of the model is NULL", NULL, error);
  return NULL;
}

meshc_model *meshc_open_text(const char *text, size_t size, const char *name,
                             const meshc_options *options, meshc_error **error) {
  Opening o = {.open = open_model,
               .path = name ? name : "model",
               .text = text,
               .bytes = size,
               .options = options};
  if (text || !size) {
    if (!text) o.text = "";
    return library_open_model(&o, error);
  }
  (void)library_refuse(DIAG_NO_MODEL, "the text of the model is NULL", NULL, error);
  return NULL;
}
