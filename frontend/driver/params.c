// Loads and saves parameter files, for --params and --save-params; --map translates their names.
// Input and output: the tensors of a bound program.
#include "frontend/driver/params_internal.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const step_name = "optimizer.step";

typedef struct Params {
  Session *s;
  const char *path; // path on the command line
  bool folder, partial;
  Pos pos;
  const char **name; // names of the arrays in the file, in its order, NULL-terminated
  ParamMap map;
  // With --params-partial: the names of parameters that the file lacks, and of arrays that the
  // model lacks, as text. NULL if there are none.
  const char *kept, *ignored;
  int64_t lacking,
      strange; // number of parameters that the file lacks, of names that the model lacks
} Params;

// A file of another model lacks most parameters, and has most names in vain: the first ones tell.
enum { MISMATCHES_SHOWN = 3 };

// Counts one more. Returns whether it is to be shown.
static bool is_shown(int64_t *count) { return ++*count <= MISMATCHES_SHOWN; }

static void say_more(const Params *p, DiagId id, int64_t count, const char *what) {
  int64_t more = count - MISMATCHES_SHOWN;
  if (more <= 0) return;
  diag_error(p->s->diag, id, p->pos, "%s %s %lld more", p->path, what, (long long)more);
  diag_hint(p->s->diag,
            "is it a file of this model? check MODEL --params FILE shows both side by side");
}

// -- the contents of a file ---------------------------------------------------------------------

static bool list_folder(Params *p) {
  DIR *folder = mem_opendir(p->path);
  VEC(const char *) names = {0};
  if (!folder)
    return diag_error(p->s->diag, DIAG_FILE_MISSING, p->pos, "cannot read the folder %s: %s",
                      p->path, strerror(errno));
  for (const struct dirent *entry; (entry = readdir(folder));)
    if (text_ends(entry->d_name, ".npy"))
      vec_push(p->s->arena, names) =
          arena_text(p->s->arena, entry->d_name, strlen(entry->d_name) - 4);
  closedir(folder);
  vec_push(p->s->arena, names) = NULL;
  p->name = names.at;
  return true;
}

// Reports an error if the file that --params names is a checkpoint, and names the option for
// checkpoints in the error. Returns false after the error.
static bool refuse_checkpoint(const Session *s, const OptionUse *use) {
  if (!checkpoint_exists(use->text)) return true;
  diag_error(s->diag, DIAG_USAGE, use->pos, "%s is a checkpoint, not a parameter file", use->text);
  if (s->opt->command == COMMAND_TRAIN)
    return diag_hint(s->diag, "--checkpoint-dir %s --resume goes on from it", use->text);
  return diag_hint(s->diag, "say --checkpoint %s, without --map and --params-partial", use->text);
}

static bool list_names(Params *p) {
  struct stat info;
  if (!refuse_checkpoint(p->s, option_use(p->s->opt, OPTION_PARAMS))) return false;
  p->folder = stat(p->path, &info) == 0 && S_ISDIR(info.st_mode);
  return p->folder ? list_folder(p)
                   : array_names(p->s->arena, p->path, &p->name, p->s->diag, p->pos);
}

static bool holds(const Params *p, const char *name) {
  for (const char **n = p->name; *n; n++)
    if (strcmp(*n, name) == 0) return true;
  return false;
}

static void list_up(Params *p, const char **list, const char *name) {
  *list = *list ? arena_printf(p->s->arena, "%s, %s", *list, name) : name;
}

// Returns whether a list, which ends in NULL, has a name.
static bool in_list(const char *const *list, const char *name) {
  while (*list && strcmp(*list, name) != 0) list++;
  return *list != NULL;
}

// Reports the arrays of the file whose names are no parameter or state of the model. They are
// errors, or with --params-partial are only listed in p->ignored. Returns false after errors.
static bool refuse_unknown(Params *p) {
  const Graph *g = p->s->model->graph;
  const char **known = arena_array(p->s->arena, const char *, g->decl.n + 1),
             **lacking = arena_array(p->s->arena, const char *, g->decl.n + 1);
  uint32_t n = 0, nlacking = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    if (g->decl.at[i].kind == DECL_INPUT) continue;
    known[n] = params_name(p->s, &p->map, g->decl.at[i].name);
    if (!in_list(p->name, known[n])) lacking[nlacking++] = known[n];
    n++;
  }
  known[n] = NULL;
  bool good = true;
  for (const char **name = p->name; *name; name++) {
    if (params_of_optimizer(*name) || params_of_data(*name) || in_list(known, *name)) continue;
    if (p->partial) {
      list_up(p, &p->ignored, *name);
      continue;
    }
    good = false;
    if (!is_shown(&p->strange)) continue;
    diag_error(p->s->diag, DIAG_PARAM_UNKNOWN, p->pos,
               "the model has no parameter or state '%s', which %s holds", *name, p->path);
    diag_nearest(p->s->diag, *name, lacking, nlacking);
  }
  say_more(p, DIAG_PARAM_UNKNOWN, p->strange, "holds, of such names,");
  return good;
}

// -- names in a file that is saved --------------------------------------------------------------

// The parameters of replicas are not saved: the file has their mean.
static bool is_saved(const ProgTensor *t) {
  return t->kind == TENSOR_PARAM || t->kind == TENSOR_STATE ||
         (t->kind == TENSOR_SLOT && !replica_slot(t->name));
}

static const char *saved_name(const Session *s, const ParamMap *map, const ProgTensor *t) {
  return t->kind == TENSOR_SLOT ? t->name : params_name(s, map, t->name);
}

// Checks that all saved tensors have different names in the file. --map may give two parameters one
// name: loading reads one array into both, but saving cannot write two arrays of one name. Returns
// false after an error.
static bool saved_apart(Session *s, const ParamMap *map, const Program *p) {
  const OptionUse *use = option_use(s->opt, OPTION_SAVE_PARAMS);
  const char **name = arena_array(s->arena, const char *, p->ntensors + 1);
  for (uint32_t i = 0; use && map->n && i < p->ntensors; i++) {
    if (!is_saved(&p->tensor[i])) continue;
    name[i] = saved_name(s, map, &p->tensor[i]);
    uint32_t k = 0;
    while (k < i && (!name[k] || strcmp(name[k], name[i]) != 0)) k++;
    if (k == i) continue;
    return diag_error(s->diag, DIAG_USAGE, use->pos,
                      "--map names both %s and %s %s, and one file cannot hold both",
                      p->tensor[k].name, p->tensor[i].name, name[i]);
  }
  return true;
}

// -- loading ------------------------------------------------------------------------------------

static Params params_given(Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_PARAMS);
  return (Params){.s = s, .path = array_file_of(s->arena, use->text), .pos = use->pos};
}

bool params_names(Session *s, const char ***name) {
  if (!option_given(s->opt, OPTION_PARAMS)) return false;
  Params p = params_given(s);
  if (!list_names(&p)) return false;
  *name = p.name;
  return true;
}

static bool read_named(const Params *p, const char *name, Array *out) {
  if (!p->folder) return array_map(out, p->path, name, p->s->diag, p->pos);
  return array_map(out, arena_printf(p->s->arena, "%s/%s.npy", p->path, name), NULL, p->s->diag,
                   p->pos);
}

bool params_array(Session *s, const char *name, Array *out) {
  Params p = params_given(s);
  struct stat info;
  p.folder = stat(p.path, &info) == 0 && S_ISDIR(info.st_mode);
  return read_named(&p, name, out);
}

// Adds a hint if the file has the declared sizes in another order, as a matrix [out, in] of PyTorch
// for one that is declared [in, out].
static void hint_order(const Params *p, const ProgTensor *t, const Array *x) {
  bool used[MAX_RANK] = {0};
  const char *dims = "";
  if (x->rank != t->rank) return;
  for (int i = 0; i < t->rank; i++) {
    int k = 0;
    while (k < t->rank && (used[k] || t->dim[t->declared[k]].whole != x->size[i])) k++;
    if (k == t->rank) return;
    used[k] = true;
    dims = arena_printf(p->s->arena, "%s%s%s", dims, i ? ", " : "", t->dim[t->declared[k]].name);
  }
  diag_hint(p->s->diag, "the file has these sizes in another order: declare it over [%s]", dims);
}

static bool check_sizes(const Params *p, const ProgTensor *t, const Array *x) {
  int64_t size[MAX_RANK];
  for (int i = 0; i < t->rank; i++) size[i] = t->dim[t->declared[i]].whole;
  if (sizes_fit(x->rank, x->size, t->rank, size)) return true;
  char got[256], want[256];
  diag_error(p->s->diag, DIAG_DATA_SHAPE, p->pos, "%s holds %s for %s, the model declares %s",
             p->path, sizes_text(x->rank, x->size, got, sizeof got), t->name,
             sizes_text(t->rank, size, want, sizeof want));
  if (t->pos.line) diag_note(p->s->diag, t->pos, "declared here");
  hint_order(p, t, x);
  return false;
}

bool values_averaged(const Session *s) {
  const ModelSpec *spec = &s->model->graph->spec;
  return spec->ntrain && spec->train[0].average != 0;
}

bool values_take_averages(const Session *s, const Program *p) {
  const char *word = option_text(s->opt, OPTION_AVERAGE);
  bool taken = word ? strcmp(word, "on") == 0 : strcmp(p->for_, "eval") == 0;
  return taken && values_averaged(s);
}

// Returns the name under which the file has tensor t. A program that takes the averages reads
// "average.NAME" for parameter NAME, if the file has such an array.
static const char *name_of(const Params *p, const Program *program, const ProgTensor *t) {
  if (t->kind == TENSOR_PARAM && values_take_averages(p->s, program)) {
    const char *name = arena_printf(p->s->arena, "average.%s", t->name);
    if (holds(p, name)) return name;
  }
  return saved_name(p->s, &p->map, t);
}

static bool load_tensor(Params *p, Exec *e, const Program *program, const ProgTensor *t) {
  const char *name = name_of(p, program, t);
  if (!holds(p, name)) {
    if (t->kind != TENSOR_PARAM) return true;
    if (p->partial) {
      list_up(p, &p->kept, t->name);
      return true;
    }
    if (!is_shown(&p->lacking)) return false;
    diag_error(p->s->diag, DIAG_PARAM_MISSING, p->pos, "%s holds no value for the parameter %s",
               p->path, t->name);
    if (t->pos.line) diag_note(p->s->diag, t->pos, "declared here");
    return false;
  }
  Array x = {0};
  bool good = read_named(p, name, &x) && check_sizes(p, t, &x) &&
              array_fits(&x, t->type, t->name, p->s->diag, p->pos);
  if (good) exec_write(e, t->kind, t->name, x.type, x.data); // each processor copies its block
  array_free(&x);
  return good;
}

static bool load_step(const Params *p, int64_t *step) {
  if (!holds(p, step_name)) return true;
  Array x = {0};
  bool good = read_named(p, step_name, &x);
  if (good && x.elements > 0)
    *step = (int64_t)fmin(fmax(dtype_load(x.type, x.data), 0), INT32_MAX); // as it is saved
  array_free(&x);
  return good;
}

bool params_load(Session *s, Exec *e, const Program *p, bool slots, int64_t *step) {
  const OptionUse *use = option_use(s->opt, OPTION_PARAMS);
  ParamMap names;
  *step = 0;
  if (!params_map(s, &names) || !saved_apart(s, &names, p)) return false;
  if (!use) return true;
  Params all = params_given(s);
  all.map = names;
  all.partial = option_given(s->opt, OPTION_PARAMS_PARTIAL);
  if (!list_names(&all)) return false;
  bool good = refuse_unknown(&all);
  for (uint32_t i = 0; i < p->ntensors; i++) {
    TensorKind kind = p->tensor[i].kind;
    if (kind == TENSOR_PARAM || kind == TENSOR_STATE || (slots && kind == TENSOR_SLOT))
      good &= load_tensor(&all, e, p, &p->tensor[i]);
  }
  say_more(&all, DIAG_PARAM_MISSING, all.lacking, "holds no value for");
  if (slots) good &= load_step(&all, step);
  if (all.kept && session_remarks(s))
    fprintf(stderr, "meshc: parameters that keep their initial values: %s\n", all.kept);
  if (all.ignored && session_remarks(s))
    fprintf(stderr, "meshc: names in %s that the model lacks: %s\n", text_shown(s->arena, all.path),
            text_shown(s->arena, all.ignored));
  return good;
}

// -- saving -------------------------------------------------------------------------------------

bool params_check(Session *s) {
  const OptionUse *use = option_use(s->opt, OPTION_SAVE_PARAMS);
  ParamMap names;
  if (!params_map(s, &names)) return false;
  if (!use) return true;
  if (text_ends(use->text, ".npz") || text_ends(use->text, ".safetensors"))
    return folder_writable(path_folder(s->arena, use->text)) ||
           diag_error(s->diag, DIAG_FAILURE, use->pos, "cannot write %s: %s", use->text,
                      strerror(errno));
  diag_error(s->diag, DIAG_USAGE, use->pos, "--save-params writes .safetensors or .npz, not '%s'",
             use->text);
  return diag_hint(s->diag, "the ending says which: --save-params %s.safetensors", use->text);
}

static bool write_saved(Session *s, const OptionUse *use, uint32_t n, const NamedArray *named) {
  return text_ends(use->text, ".npz") ? npz_write(use->text, n, named, s->diag)
                                      : safetensors_write(use->text, n, named, s->diag);
}

bool params_save(Session *s, const Exec *e, const Program *p, int64_t step) {
  const OptionUse *use = option_use(s->opt, OPTION_SAVE_PARAMS);
  if (!use) return true;
  ParamMap names;
  NamedArray *named = arena_array(s->arena, NamedArray, p->ntensors + 1 + 2 * s->facts.n);
  uint32_t n = 0;
  bool good = params_map(s, &names);
  for (uint32_t i = 0; i < p->ntensors && good; i++) {
    const ProgTensor *t = &p->tensor[i];
    Result value;
    if (!is_saved(t)) continue;
    good = result_read(s, e, p, t->kind, t->name, &value);
    if (good) named[n++] = (NamedArray){.name = saved_name(s, &names, t), .array = value.array};
  }
  int32_t count = (int32_t)clamp64(step, 0, INT32_MAX);
  named[n] =
      (NamedArray){.name = step_name, .array = {.type = TYPE_I32, .elements = 1, .data = &count}};
  uint32_t all = n + (step > 0);
  all += facts_arrays(s, named + all);
  good = good && (!session_first(s) || write_saved(s, use, all, named));
  for (uint32_t i = 0; i < n; i++) array_free(&named[i].array);
  return good;
}
