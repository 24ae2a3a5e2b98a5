// Loads a model for a command: reads the model file and the options, builds the Model, and chooses
// and checks its layout. First step of every command on models; session_select.c and
// session_compile.c follow.
#include "frontend/driver/planner.h"
#include "ir/base/disk.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

// -- options ------------------------------------------------------------------------------------

static bool refuse_unavailable(const Session *s) {
  static const char *const comms[] = {"local", "mpi", "nccl"};
  bool good = session_check_device(s);
  int comm;
  good &= option_word(s->opt, OPTION_COMM, 3, comms, s->diag, &comm);
  if (good && comm == 2 && !(session_for_gpu(s) && s->ranks)) {
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_COMM)->pos,
               "--comm nccl is for several processes that have a GPU each");
    diag_hint(s->diag, "say --device cuda with --np N or under mpirun");
    good = false;
  }
  return good;
}

// Returns whether `--set path=...` replaces a text: a const whose value in the model file is a
// string, or a key of a block that takes a string, such as train.frozen.
static bool takes_text(const Ast *file, const char *path) {
  static const char *const keys[] = {"frozen", "parameters", "no_decay", "path", "key"};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < countof(keys); i++)
    if (!strcmp(dot + 1, keys[i])) return true;
  for (uint32_t i = 0; i < file->nkids; i++)
    for (uint32_t k = 0; file->kids[i]->kind == AST_CONST && k < file->kids[i]->nkids; k++) {
      const Ast *define = file->kids[i]->kids[k];
      if (!strcmp(define->text, path)) return define->kids[0]->kind == AST_STRING;
    }
  return false;
}

static Ast *text_value(Session *s, uint32_t source, const char *text) {
  Ast *value = arena_new_of(s->arena, Ast);
  uint32_t n = (uint32_t)strlen(text);
  value->kind = AST_STRING;
  value->text = intern(s->names, text);
  value->pos = value->end = (Pos){.source = source, .line = 1, .col = 1, .len = n ? n : 1};
  return value;
}

static bool parse_setting(Session *s, const OptionUse *use, Setting *out) {
  const char *equals = strchr(use->text, '=');
  if (!equals || equals == use->text)
    return diag_error(s->diag, DIAG_UNKNOWN_SET, use->pos, "--set takes NAME=VALUE, not '%s'",
                      use->text);
  size_t n = (size_t)(equals - use->text);
  int errors = diag_errors(s->diag);
  uint32_t source = diag_source(s->diag, arena_printf(s->arena, "--set %.*s", (int)n, use->text),
                                equals + 1, strlen(equals + 1));
  *out = (Setting){.path = intern_n(s->names, use->text, n), .pos = use->pos};
  if (equals[1] != '"' && takes_text(s->ast, out->path)) {
    out->value = text_value(s, source, equals + 1);
    return true;
  }
  out->value =
      ast_parse_expression(s->arena, s->names, s->diag, source, equals + 1, strlen(equals + 1));
  return diag_errors(s->diag) == errors;
}

static bool parse_settings(Session *s, ModelOptions *m) {
  uint32_t n = s->opt->use[OPTION_SET].n;
  bool good = true;
  m->setting = arena_array(s->arena, Setting, n + 1);
  m->nsettings = n;
  for (uint32_t i = 0; i < n; i++)
    good &= parse_setting(s, &s->opt->use[OPTION_SET].at[i], &m->setting[i]);
  return good;
}

bool session_tf32(const Session *s) {
  const char *precision = option_text(s->opt, OPTION_PRECISION);
  return precision && strcmp(precision, "tf32") == 0;
}

// Refuses --precision tf32 where products cannot round their factors, or where values are compared
// by the bounds of f32.
static bool tf32_possible(const Session *s) {
  if (!session_tf32(s)) return true;
  Pos pos = option_use(s->opt, OPTION_PRECISION)->pos;
  if (!session_for_gpu(s)) {
    diag_error(s->diag, DIAG_UNAVAILABLE, pos, "--precision tf32 needs --device cuda");
    return diag_hint(s->diag, "use --precision f32, or bf16 where the CPU has instructions for it");
  }
  if (!option_given(s->opt, OPTION_VERIFY)) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, pos, "--verify does not know the bounds of tf32");
  return diag_hint(s->diag, "verify the same program with --precision f32");
}

static bool read_precision(const Session *s, const char **out) {
  static const char *const types[] = {"f32", "bf16", "f16", "tf32"};
  int word;
  if (!option_given(s->opt, OPTION_PRECISION)) return true;
  if (!option_word(s->opt, OPTION_PRECISION, countof(types), types, s->diag, &word) ||
      !tf32_possible(s))
    return false;
  *out = session_tf32(s) ? "f32" : types[word];
  return true;
}

// Returns whether --exact is given, which asks for the same bits on every mesh. The order of
// additions depends on the number of processors that share a sum, and on the block sizes of a BLAS
// call. So with --exact every processor computes whole tensors, with generated kernels, in the
// order of one processor.
static bool is_exact(const Session *s) { return option_given(s->opt, OPTION_EXACT); }

// Refuses --exact if the model has pins (layout(...) requests). A pin splits a value over
// processors, and with it the sums over the split dim. Returns false after an error.
static bool exact_possible(const Session *s) {
  const Graph *g = s->model->graph;
  for (NodeId n = 1; is_exact(s) && n <= graph_count(g); n++) {
    if (graph_node(g, n)->op != OP_PIN) continue;
    diag_error(s->diag, DIAG_UNSUPPORTED, graph_node(g, n)->origin->pos,
               "--exact is refused: it splits nothing, and layout(...) splits a value");
    return diag_hint(s->diag, "remove the pin, or run without --exact");
  }
  if (is_exact(s) && session_remarks(s) && mesh_size(&s->model->mesh) > 1)
    fprintf(stderr,
            "meshc: --exact: each of the %lld processors holds and computes everything; the layout "
            "is ignored\n",
            (long long)mesh_size(&s->model->mesh));
  return true;
}

static bool layout_is_auto(const Session *s) {
  const char *layout = option_text(s->opt, OPTION_LAYOUT);
  return layout && !is_exact(s) && strcmp(layout, "auto") == 0;
}

static bool model_options(Session *s, ModelOptions *m) {
  int errors = diag_errors(s->diag);
  int64_t seed, threads;
  const OptionUse *mesh = option_use(s->opt, OPTION_MESH),
                  *layout = option_use(s->opt, OPTION_LAYOUT);
  *m = (ModelOptions){.path = s->opt->argument.at[0],
                      .data_dir = option_text(s->opt, OPTION_DATA_DIR)};
  bool good = refuse_unavailable(s);
  good &= option_integer(s->opt, OPTION_SEED, 0, 0, INT64_MAX, s->diag, &seed);
  good &= option_integer(s->opt, OPTION_THREADS, 0, 1, 4096, s->diag, &threads);
  good &= read_precision(s, &m->precision);
  m->seed = (uint64_t)seed;
  if (!good) return false;
  m->no_layout =
      is_exact(s) || (layout && (strcmp(layout->text, "none") == 0 || layout_is_auto(s)));
  m->pins_name_axes = s->opt->command == COMMAND_PLAN;
  m->loaded = option_given(s->opt, OPTION_PARAMS) || option_given(s->opt, OPTION_CHECKPOINT) ||
              option_given(s->opt, OPTION_RESUME);
  m->layout_may_go = mesh && !layout && m->pins_name_axes;
  if (mesh)
    m->mesh = ast_parse_mesh(s->arena, s->names, s->diag, mesh->pos.source, mesh->text,
                             strlen(mesh->text));
  if (layout && !m->no_layout)
    m->layout = ast_parse_layout(s->arena, s->names, s->diag, layout->pos.source, layout->text,
                                 strlen(layout->text));
  return diag_errors(s->diag) == errors;
}

// Warns if the machine of --machine is not one on which the program is to run: its rates are then
// those of other code.
static void check_machine_kind(Session *s) {
  bool gpu = s->machine.gpu;
  if (gpu == session_for_gpu(s)) return;
  diag_warning(s->diag, DIAG_OTHER_DEVICE, option_use(s->opt, OPTION_MACHINE)->pos,
               "the machine is a %s, and the program is for a %s: its predicted time means little",
               gpu ? "GPU" : "CPU", gpu ? "CPU" : "GPU");
  diag_hint(s->diag, gpu ? "add --device cuda"
                         : "give the machine file of a GPU, such as --machine h100x8, or leave out "
                           "--device cuda");
}

bool session_read_machine(Session *s) {
  const char *path = option_text(s->opt, OPTION_MACHINE);
  s->machine = machine_default();
  if (!path) return session_device_machine(s), true;
  bool good = machine_named(&s->machine, path) || machine_read(&s->machine, s->diag, path);
  s->machine.tf32 = session_tf32(s);
  if (good) check_machine_kind(s);
  return good;
}

// -- the model ----------------------------------------------------------------------------------

// Returns false after an error: the file has the name of data or parameters.
static bool named_as_model(const Session *s, const char *path) {
  static const char *const others[] = {".csv",    ".tsv",         ".npy", ".npz",
                                       ".csv.gz", ".safetensors", ".png", ".jpg"};
  for (size_t i = 0; i < countof(others); i++) {
    if (!text_ends(path, others[i])) continue;
    diag_error(s->diag, DIAG_NO_MODEL, (Pos){0}, "%s is no model file", path);
    return diag_hint(s->diag,
                     "name the model first: meshc %s MODEL.mesh; data and parameters come "
                     "by options, such as --feed and --params",
                     command_name(s->opt->command));
  }
  return true;
}

static bool say_folder(Session *s, const char *path) {
  const char *command = command_name(s->opt->command);
  if (access(arena_printf(s->arena, "%s/package.json", path), R_OK) == 0) {
    diag_error(s->diag, DIAG_NO_MODEL, (Pos){0}, "%s is a package, and %s takes a model", path,
               command);
    return diag_hint(s->diag, "name the model of which it was compiled; a package is for predict, "
                              "run, train and generate");
  }
  diag_error(s->diag, DIAG_NO_MODEL, (Pos){0}, "cannot read the model %s: %s", path,
             strerror(EISDIR));
  return diag_hint(s->diag, "name a file; a folder is a package if it has package.json");
}

// Returns "rank 1 ", to begin a message about what other ranks may have, or "".
static const char *rank_text(const Session *s) {
  if (!s->ranks || ranks_count(s->ranks) < 2) return "";
  return arena_printf(s->arena, "rank %d ", ranks_rank(s->ranks));
}

static const char *folder_now(Arena *a) {
  char path[4096];
  return getcwd(path, sizeof path) ? arena_text(a, path, strlen(path)) : "unknown";
}

bool session_read(Session *s) {
  bool from_stdin = session_from_stdin(s);
  const char *path = from_stdin ? "<stdin>" : s->opt->argument.at[0];
  if (!from_stdin && !s->text && !named_as_model(s, path)) return false;
  (void)mem_doing("reading the model", path);
  if (!s->text)
    s->text = from_stdin ? model_stream(s->arena, stdin, &s->text_bytes)
                         : model_text(s->arena, path, &s->text_bytes);
  if (!s->text) {
    int why = errno;
    if (why == EISDIR) return say_folder(s, path);
    diag_error(s->diag, DIAG_NO_MODEL, (Pos){0}, "%scannot read the model %s: %s", rank_text(s),
               path, strerror(why));
    if (s->ranks && ranks_count(s->ranks) > 1 && *path != '/')
      return diag_hint(s->diag, "its folder is %s", folder_now(s->arena));
    if (why == ENOENT && access(arena_printf(s->arena, "%s.mesh", path), R_OK) == 0)
      return diag_hint(s->diag, "did you mean %s.mesh?", path);
    return why == EFBIG &&
           diag_hint(s->diag, "a model has at most %d MiB; is this one?", (int)(MODEL_BYTES >> 20));
  }
  s->source = diag_source(s->diag, path, s->text, s->text_bytes);
  const char *data_dir = option_text(s->opt, OPTION_DATA_DIR);
  s->directory = data_dir ? data_dir : path_folder(s->arena, path);
  return true;
}

// Opens the training data to count the batches of an epoch, for schedules that are given in epochs.
// Returns false after an error.
static bool count_epochs(Session *s) {
  Feed *f = data_open(s, s->model->graph, DATA_TRAIN, false);
  if (!f) return false;
  int64_t batches = feed_batches(f);
  feed_close(f);
  return train_resolve_epochs(s->model, batches);
}

// Text is generated without the training data.
static bool counts_epochs(const Session *s) {
  return s->opt->command != COMMAND_GENERATE && train_counts_epochs(s->model);
}

// Opens the device before the search for a layout, which needs its figures. Ranks do without: each
// searches by itself and must find the same layout, whatever GPU it has.
static bool device_for_planner(Session *s) {
  return s->ranks || s->keeps || !session_runs_steps(s) || session_open_device(s);
}

// Chooses the layout for --layout auto, and with it the number of micro-batches.
static bool choose_layout(Session *s) {
  const Model *before = s->model;
  return device_for_planner(s) && planner_choose(s) &&
         (s->model == before || !counts_epochs(s) || count_epochs(s));
}

bool session_load(Session *s) {
  timings_start(&s->timings, s->arena);
  if (!session_read(s) || !model_options(s, &s->options) || !session_read_machine(s)) return false;
  (void)mem_doing("building the model", s->opt->argument.at[0]);
  s->ast = ast_parse(s->arena, s->names, s->diag, s->source, s->text, s->text_bytes);
  if (!parse_settings(s, &s->options) || diag_errors(s->diag)) return false;
  timings_end(&s->timings, "parse", 0);
  s->model = model_build(s->arena, s->names, s->diag, s->ast, &s->options);
  if (s->model) timings_end(&s->timings, "build", graph_count(s->model->graph));
  // The command plan accepts a mesh without layout rules, because it searches the rules.
  bool no_rules =
      s->options.no_layout || (s->model && !s->model->layout.n && s->opt->command == COMMAND_PLAN);
  return s->model && classes_listed_fit(s) && outputs_check(s) &&
         (no_rules || layout_check(s->model->graph, &s->model->layout, s->diag)) &&
         (!counts_epochs(s) || count_epochs(s)) && (!layout_is_auto(s) || choose_layout(s)) &&
         exact_possible(s) && session_agree(s) &&
         (s->keeps || !session_runs_steps(s) || session_open_device(s));
}
