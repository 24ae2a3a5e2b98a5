// One run of the program: model file and options to a Model, a Model to a bound program.
#include "frontend/planner.h"
#include "ir/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const Pos nowhere = {0};

bool text_ends(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

// -- files ---------------------------------------------------------------------------------------

char *session_file(Session *s, const char *path, size_t *n) { return file_text(s->arena, path, n); }

// A file of that name, or a folder that is not ours, is found before anything is computed.
static bool folder_writable(Session *s, const char *path) {
  struct stat info;
  bool there = stat(path, &info) == 0;
  if (there && !S_ISDIR(info.st_mode)) errno = ENOTDIR;
  else if (there && access(path, W_OK | X_OK) == 0) return true;
  diag_error(s->diag, DIAG_FAILURE, nowhere, "cannot write to the folder %s: %s", path, strerror(errno));
  return false;
}

bool session_folder(Session *s, const char *path) {
  char *part = arena_text(s->arena, path, strlen(path));
  for (char *c = part + 1;; c++) {
    if (*c != '/' && *c != '\0') continue;
    char kept = *c;
    *c = '\0';
    if (!disk_make(AT_FDCWD, part, 0777) && errno != EEXIST) {
      diag_error(s->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, nowhere,
                 "cannot make the folder %s: %s", part, strerror(errno));
      return false;
    }
    if (!kept) return folder_writable(s, path);
    *c = kept;
  }
}

bool session_cannot_write(const Session *s, const char *path, Pos at) {
  diag_error(s->diag, disk_full(errno) ? DIAG_NO_DISK : DIAG_FAILURE, at, "cannot write %s: %s", path, strerror(errno));
  return false;
}

bool session_write(const Session *s, const char *path, const char *text, size_t n, bool fast, Pos at) {
  errno = ENOMEM;
  return (text && disk_write_file(path, text, n, fast)) || session_cannot_write(s, path, at);
}

static const char *folder_of(Session *s, const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? arena_text(s->arena, path, slash == path ? 1 : (size_t)(slash - path)) : ".";
}

// -- options -------------------------------------------------------------------------------------

// An option whose other words this version lacks.
static bool only_word(const Session *s, OptionId id, int n, const char *const *word,
                      const char *why) {
  int k;
  if (!option_word(s->opt, id, n, word, s->diag, &k)) return false;
  if (k == 0) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, id)->pos,
             "%s %s is not in this version of meshc: %s", option_name(id), word[k], why);
  return false;
}

static bool refuse_unavailable(const Session *s) {
  static const char *const devices[] = {"cpu", "cuda"}, *const comms[] = {"local", "mpi", "nccl"};
  bool good = only_word(s, OPTION_DEVICE, 2, devices, "programs run on the CPU");
  int comm;
  good &= option_word(s->opt, OPTION_COMM, 3, comms, s->diag, &comm);
  if (comm == 2) {
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_COMM)->pos,
               "--comm nccl is not in this version of meshc: programs run on the CPU");
    good = false;
  }
  return good;
}

// Whether what the setting replaces is a text: a const that is one in the file, or a key that takes one.
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
  if (!equals || equals == use->text) {
    diag_error(s->diag, DIAG_UNKNOWN_SET, use->pos, "--set takes NAME=VALUE, not '%s'", use->text);
    return false;
  }
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

static bool read_precision(const Session *s, const char **out) {
  static const char *const types[] = {"f32", "bf16", "f16"};
  int word;
  if (!option_given(s->opt, OPTION_PRECISION)) return true;
  bool good = option_word(s->opt, OPTION_PRECISION, 3, types, s->diag, &word);
  if (good) *out = types[word];
  return good;
}

// --exact: the same bits on every mesh. A sum that processors share has an order that depends on how many
// they are, and so has a library's product: every processor computes the whole, by generated kernels, whose order
// is that of one processor.
static bool is_exact(const Session *s) { return option_given(s->opt, OPTION_EXACT); }

// Pins would share sums again.
static bool exact_possible(const Session *s) {
  const Graph *g = s->model->graph;
  for (NodeId n = 1; is_exact(s) && n <= graph_count(g); n++) {
    if (graph_node(g, n)->op != OP_PIN) continue;
    diag_error(s->diag, DIAG_UNSUPPORTED, graph_node(g, n)->origin.pos,
               "--exact is refused: layout(...) splits a value whatever the mesh computes");
    diag_hint(s->diag, "remove the pin, or run without --exact");
    return false;
  }
  if (is_exact(s) && !option_given(s->opt, OPTION_QUIET) && session_first(s) && mesh_size(&s->model->mesh) > 1)
    fprintf(stderr, "meshc: --exact: each of the %lld processors holds and computes the whole; the layout is left aside\n",
            (long long)mesh_size(&s->model->mesh));
  return true;
}

static bool layout_is_auto(const Session *s) {
  const char *layout = option_text(s->opt, OPTION_LAYOUT);
  return layout && !is_exact(s) && strcmp(layout, "auto") == 0;
}

bool session_memory(const Session *s, double *out) {
  static const struct { const char *unit; double bytes; } units[] = {
      {"", 1}, {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
      {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"K", 0x1p10}, {"M", 0x1p20}, {"G", 0x1p30}, {"T", 0x1p40}};
  const OptionUse *use = option_use(s->opt, OPTION_MEMORY);
  *out = (double)s->machine.memory;
  if (!use) return true;
  char *end;
  double x = strtod(use->text, &end);
  for (size_t i = 0; end != use->text && x > 0 && x < 0x1p60 && i < countof(units); i++)
    if (!strcmp(end, units[i].unit)) {
      *out = fmin(x * units[i].bytes, 0x1p62);
      return true;
    }
  diag_error(s->diag, DIAG_USAGE, use->pos, "--memory takes a size of a processor's memory, not '%s'", use->text);
  diag_hint(s->diag, "write a number and a unit: --memory 8GiB");
  return false;
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
  m->no_layout = is_exact(s) || (layout && (strcmp(layout->text, "none") == 0 || layout_is_auto(s)));
  m->pins_name_axes = s->opt->command == COMMAND_PLAN;
  m->loaded = option_given(s->opt, OPTION_PARAMS) || option_given(s->opt, OPTION_CHECKPOINT) || option_given(s->opt, OPTION_RESUME);
  m->layout_may_go = mesh && !layout && m->pins_name_axes;
  if (mesh)
    m->mesh = ast_parse_mesh(s->arena, s->names, s->diag, mesh->pos.source, mesh->text,
                             strlen(mesh->text));
  if (layout && !m->no_layout)
    m->layout = ast_parse_layout(s->arena, s->names, s->diag, layout->pos.source, layout->text,
                                 strlen(layout->text));
  return diag_errors(s->diag) == errors;
}

static bool read_machine(Session *s) {
  s->machine = machine_default();
  const char *path = option_text(s->opt, OPTION_MACHINE);
  return !path || machine_read(&s->machine, s->diag, path);
}

// -- the model -----------------------------------------------------------------------------------

bool session_from_stdin(const Session *s) { return s->opt->argument.n > 0 && strcmp(s->opt->argument.at[0], "-") == 0; }

bool session_read(Session *s) {
  bool from_stdin = session_from_stdin(s);
  const char *path = from_stdin ? "<stdin>" : s->opt->argument.at[0];
  (void)mem_doing("reading the model", path);
  s->text = from_stdin ? stream_text(s->arena, stdin, &s->text_bytes) : session_file(s, path, &s->text_bytes);
  if (!s->text) {
    diag_error(s->diag, DIAG_NO_MODEL, nowhere, "cannot read the model %s: %s", path,
               strerror(errno));
    return false;
  }
  s->source = diag_source(s->diag, path, s->text, s->text_bytes);
  const char *data_dir = option_text(s->opt, OPTION_DATA_DIR);
  s->directory = data_dir ? data_dir : folder_of(s, path);
  return true;
}

// A schedule that counts epochs needs to know how many batches one has.
static bool count_epochs(Session *s) {
  Feed *f = data_open(s, s->model->graph, DATA_TRAIN, false);
  if (!f) return false;
  int64_t batches = feed_batches(f);
  feed_close(f);
  return train_resolve_epochs(s->model, batches);
}

bool session_load(Session *s) {
  laps_start(&s->laps, s->arena);
  if (!session_read(s) || !model_options(s, &s->options) || !read_machine(s)) return false;
  (void)mem_doing("building the model", s->opt->argument.at[0]);
  s->ast = ast_parse(s->arena, s->names, s->diag, s->source, s->text, s->text_bytes);
  if (!parse_settings(s, &s->options) || diag_errors(s->diag)) return false;
  laps_end(&s->laps, "parse", 0);
  s->model = model_build(s->arena, s->names, s->diag, s->ast, &s->options);
  if (s->model) laps_end(&s->laps, "build", graph_count(s->model->graph));
  // a model that is planned may have a mesh without rules
  bool no_rules = s->options.no_layout || (s->model && !s->model->layout.n && s->opt->command == COMMAND_PLAN);
  return s->model &&
         (no_rules || layout_check(s->model->graph, &s->model->layout, s->diag)) &&
         (!train_counts_epochs(s->model) || count_epochs(s)) &&
         (!layout_is_auto(s) || planner_choose(s)) && exact_possible(s) && session_agree(s);
}

typedef VEC(const char *) NameList;

// Names between commas, those inside parentheses aside.
static void split_names(const Session *s, const char *text, NameList *names) {
  int depth = 0;
  for (const char *from = text, *c = from;; c++) {
    depth += (*c == '(') - (*c == ')');
    if (*c && (*c != ',' || depth > 0)) continue;
    const char *end = c;
    while (from < end && *from == ' ') from++;
    while (end > from && end[-1] == ' ') end--;
    if (end > from) vec_push(s->arena, *names) = intern_n(s->names, from, (size_t)(end - from));
    if (!*c) break;
    from = c + 1;
  }
}

Fetch session_fetch(const Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_FETCH);
  Fetch f = {.loss = option_text(s->opt, OPTION_LOSS),
             .training = option_given(s->opt, OPTION_TRAINING)};
  if (f.loss) f.loss_pos = option_use(s->opt, OPTION_LOSS)->pos;
  NameList names = {0};
  if (!use) return f;
  f.pos = use->pos;
  for (uint32_t i = 0; i < s->opt->use[OPTION_FETCH].n; i++)
    split_names(s, s->opt->use[OPTION_FETCH].at[i].text, &names);
  f.name = (const char *const *)names.at;
  f.n = names.n;
  return f;
}

// -- compiling -----------------------------------------------------------------------------------

const char *cache_folder(Session *s) {
  if (option_given(s->opt, OPTION_NO_CACHE)) return NULL;
  const char *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (base && *base == '/') return arena_printf(s->arena, "%s/meshc", base);
  return home && *home == '/' ? arena_printf(s->arena, "%s/.cache/meshc", home) : NULL;
}

// --memory and the `memory` of a machine file hold before anything runs. A command that runs nothing warns about the
// machine file's: it may describe a machine for which the model is still being cut.
static bool memory_suffices(const Session *s, const Compilation *c, bool runs) {
  double most;
  bool budget = option_given(s->opt, OPTION_MEMORY);
  if (!(budget || s->machine.states_memory) || !c->compiled || s->trial) return true;
  if (!session_memory(s, &most)) return false;
  int64_t needed = program_bytes(c->compiled->program);
  if ((double)needed <= most) return true;
  const char *text = arena_printf(s->arena, "the program for %s needs %s a processor, %s %s", c->compiled->program->for_,
                                  bytes_text(s->arena, needed), budget ? "--memory allows" : "a processor of the machine file has",
                                  bytes_text(s->arena, (int64_t)most));
  Pos at = option_use(s->opt, budget ? OPTION_MEMORY : OPTION_MACHINE)->pos;
  if (budget || runs) diag_error(s->diag, DIAG_NO_MEMORY, at, "%s", text);
  else diag_warning(s->diag, DIAG_OVER_MEMORY, at, "%s", text);
  diag_hint(s->diag, "--memory %lld suffices; else split more dims, use a larger mesh, or a smaller batch", (long long)needed);
  return !(budget || runs);
}

static bool read_pipeline(Session *s, const char *purpose, const char *over, bool runs, PipelineOptions *out) {
  int64_t opt;
  double memory;
  if (!option_integer(s->opt, OPTION_OPT, 2, 0, 3, s->diag, &opt) || !session_memory(s, &memory)) return false;
  bool blas = runs && blas_open(&s->blas);
  *out = (PipelineOptions){
      .codegen = {.fuse = !option_given(s->opt, OPTION_NO_FUSE) && !s->unfused,
                  .products = (blas || !runs) && !is_exact(s),
                  .for_ = purpose,
                  .over = over,
                  .overlap = s->machine.overlap > 0,
                  .keep = strcmp(purpose, "train") == 0 ||
                          (strcmp(purpose, "run") == 0 && option_given(s->opt, OPTION_SAVE_PARAMS))},
      .code = {.opt = (int)opt, .cache = cache_folder(s)},
      .machine = &s->machine,
      .memory = (int64_t)memory,
      .machine_code = runs,
  };
  return true;
}

// What was planned by the graph is what the program's collectives say.
static bool planned_alike(const Compilation *c, Diag *d) {
  ProgramCount part[2], facts = {0};
  if (!c->compiled || !c->facts) return true;
  program_count(c->compiled->program, 0, -1, part);
  program_count_add(&part[0], &part[1]);
  for (uint32_t i = 0; i < c->facts->n; i++) {
    const CollFact *f = &c->facts->fact[i];
    facts.calls[f->kind] += f->times;
    facts.bytes[f->kind] += f->times * f->bytes;
    facts.wire_bytes[f->kind] += f->times * f->wire_bytes;
  }
  for (int k = 0; k < COLL_COUNT; k++) {
    int64_t calls = part[0].calls[k], bytes = part[0].bytes[k];
    if (calls == facts.calls[k] && bytes == facts.bytes[k] && part[0].wire_bytes[k] == facts.wire_bytes[k])
      continue;
    diag_error(d, DIAG_FAILURE, (Pos){0}, "%s for %s: the program has %lld calls of %lld bytes, %lld of %lld bytes were planned",
               coll_text((CollKind)k), c->compiled->program->for_, (long long)calls, (long long)bytes,
               (long long)facts.calls[k], (long long)facts.bytes[k]);
    diag_hint(d, "this is a fault of meshc: please report it with the model and the options");
    return false;
  }
  return true;
}

bool session_compile(Session *s, const Graph *g, const char *purpose, const char *over,
                     const char *last, Compilation *out) {
  PipelineOptions options;
  bool runs = last == NULL;
  if (!read_pipeline(s, purpose, over, runs, &options)) return false;
  options.laps = &s->laps;
  double start = clock_seconds();
  bool cached = options.code.cache != NULL;
  if (runs && !session_before_compile(s, cached)) return false;
  if (!pipeline_run(s->arena, g, &options, last, s->diag, out)) return false;
  if (runs && !session_after_compile(s, cached, out->compiled->program)) return false;
  if (runs && option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr, "meshc: compiled for %s in %.3f s: %u instructions, %u kernels; %s, %s\n",
            purpose, clock_seconds() - start, out->compiled->program->ninstrs,
            out->compiled->program->nkernels, code_cpu(), s->blas ? s->blas : "no BLAS");
  if (option_given(s->opt, OPTION_VERBOSE)) laps_print(stderr, &s->laps);
  laps_start(&s->laps, s->arena);
  return planned_alike(out, s->diag) && memory_suffices(s, out, runs);
}

bool session_compile_alone(Session *s, Arena *a, const Graph *g, const char *purpose, const char *over, Compilation *out) {
  PipelineOptions options;
  return read_pipeline(s, purpose, over, true, &options) && pipeline_run(a, g, &options, NULL, s->diag, out);
}

static bool exec_options(Session *s, ExecOptions *out) {
  int64_t threads;
  if (!option_integer(s->opt, OPTION_THREADS, 0, 1, 4096, s->diag, &threads)) return false;
  *out = (ExecOptions){.threads = (int)threads, .seed = s->model->graph->spec.seed, .directory = s->directory};
  return true;
}

Exec *session_exec_alone(Session *s, const Compilation *c) {
  ExecOptions options;
  if (!exec_options(s, &options)) return NULL;
  if (s->spoil.kernel) options.spoil = &s->spoil; // a wrong kernel is wrong wherever it runs
  return exec_new(c->compiled->program, &options, s->diag);
}

Exec *session_exec(Session *s, const Compilation *c, const Exec *share, const char *watch) {
  ExecOptions options;
  if (!exec_options(s, &options)) return NULL;
  options.ranks = s->ranks;
  options.share = share;
  options.watch = watch;
  options.spoil = &s->spoil;
  options.probe = s->probe;
  options.profile = option_given(s->opt, OPTION_JSON) || s->opt->command == COMMAND_BENCH || s->opt->command == COMMAND_DOCTOR;
  Exec *e = exec_new(c->compiled->program, &options, s->diag);
  if (e && s->opt->command == COMMAND_BENCH) exec_profile_switch(e, false); // until the steps are timed
  if (e && option_given(s->opt, OPTION_VERBOSE) && session_first(s))
    fprintf(stderr, "meshc: %lld processors on %d threads, %s each\n",
            (long long)mesh_size(&s->model->mesh), exec_workers(e),
            bytes_text(s->arena, exec_bytes(e)));
  return e;
}
