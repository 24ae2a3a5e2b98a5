// Opens a package: reads its description, chooses the build for this machine, and loads the
// programs with their machine code. Input: the files of a package. Output: a Package.
#include "ir/base/host.h"
#include "ir/program/pack.h"
#include "runtime/package/package_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Opening {
  Arena *arena;
  Diag *diag;
  Package *package;
  Ranks *ranks;
  json_t *root;
  bool gpu;  // the package is for GPUs
  bool look; // without code (package_look)
} Opening;

static bool broken(const Opening *o, const char *what) {
  return package_damaged(o->package->source, PACKAGE_FILE, what, o->diag);
}

static const char *text_of(const Opening *o, const json_t *x) {
  const char *text = json_string_value(x);
  return text ? arena_text(o->arena, text, strlen(text)) : NULL;
}

static const char *field(const Opening *o, const char *name) {
  return text_of(o, json_object_get(o->root, name));
}

// -- the build for this machine -----------------------------------------------------------------

// Returns the set of the types in a list, or all types if one is unknown.
static DtypeSet types_of(const json_t *list) {
  DtypeSet set = 0;
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *text = json_string_value(json_array_get(list, i));
    Dtype t;
    if (!text || !dtype_parse(text, &t)) return ALL_TYPES;
    set |= dtype_bit(t);
  }
  return set;
}

// Returns whether this machine runs a build. MESHC_CPU in the environment allows only one level.
static bool runs_here(const Opening *o, const json_t *build) {
  const char *cpu = json_string_value(json_object_get(build, "cpu")), *only = getenv("MESHC_CPU");
  const char *identity = json_string_value(json_object_get(build, "identity"));
  DtypeSet products = types_of(json_object_get(build, "products"));
  if (o->package->gpu) return package_gpu_fits(o->arena, o->package->gpu, build);
  if (!cpu || (only && *only && strcmp(only, cpu) != 0)) return false;
  bool fits = identity ? !strcmp(identity, host_identity(o->arena)) : host_has_level(cpu);
  return fits && (products & ~product_types(products)) == 0;
}

static const char *list_builds(const Opening *o, const json_t *builds) {
  const char *list = "", *last = "";
  for (size_t i = 0; i < json_array_size(builds); i++) {
    const json_t *build = json_array_get(builds, i);
    const char *name = json_string_value(json_object_get(build, o->gpu ? "gpu" : "cpu"));
    const char *one = arena_printf(o->arena, "%s%s", name ? name : "?",
                                   json_object_get(build, "identity") ? " (one model of CPU)" : "");
    // A level may have builds with and without products of a library, one after the other.
    if (strcmp(one, last) != 0)
      list = arena_printf(o->arena, "%s%s%s", list, *list ? ", " : "", one);
    last = one;
  }
  return *list ? list : "none";
}

static bool no_build(const Opening *o, const json_t *builds) {
  const char *only = getenv("MESHC_CPU"), *list = list_builds(o, builds);
  const GpuFacts *gpu = o->package->gpu ? gpu_facts(o->package->gpu) : NULL;
  if (gpu) {
    diag_error(o->diag, DIAG_UNAVAILABLE, (Pos){0},
               "%s has no code for this GPU, %s of compute capability %d.%d: it has %s",
               o->package->path, gpu->name, gpu->capability / 10, gpu->capability % 10, list);
    return diag_hint(
        o->diag,
        "compile for it: meshc compile MODEL --device cuda --gpu LEVEL -o DIR, with the "
        "last level up to sm_%d",
        gpu->capability);
  }
  diag_error(o->diag, DIAG_UNAVAILABLE, (Pos){0},
             "%s has no code for this processor, %s%s%s: it has %s", o->package->path, host_name(),
             only && *only ? ", with MESHC_CPU=" : "", only ? only : "", list);
  return diag_hint(o->diag, "compile for it: meshc compile MODEL --cpu x86-64-v2,x86-64-v3 -o DIR");
}

static const json_t *choose_build(const Opening *o) {
  const json_t *builds = json_object_get(o->root, "builds");
  for (size_t i = 0; i < json_array_size(builds); i++)
    if (runs_here(o, json_array_get(builds, i))) return json_array_get(builds, i);
  (void)no_build(o, builds);
  return NULL;
}

// -- programs -----------------------------------------------------------------------------------

static bool link_kernels(PackageProgram *p, char *why) {
  char name[64];
  for (uint32_t i = 0; i < p->program.nkernels; i++) {
    ProgKernel *k = &p->program.kernel[i];
    snprintf(name, sizeof name, "k%u", i);
    void *run = image_symbol(p->image, name);
    snprintf(name, sizeof name, "k%u_combine", i);
    void *combine = image_symbol(p->image, name);
    if (!run || (!combine && k->partial_bytes > 0))
      return why_not(why, "has no code for kernel %u", i);
    // ISO C does not convert data pointers to function pointers; POSIX has the same bytes for both
    memcpy(&k->run, &run, sizeof run);
    memcpy(&k->combine, &combine, sizeof combine);
  }
  return true;
}

static bool load_code(const Opening *o, PackageProgram *p, const char *file) {
  char why[WHY];
  size_t n;
  if (!p->program.nkernels) return true;
  const char *bytes = source_file(o->arena, o->package->source, file, &n, o->diag);
  if (!bytes) return false;
  p->image = image_load(bytes, n, why);
  if (p->image && link_kernels(p, why)) return true;
  return package_damaged(o->package->source, file,
                         arena_printf(o->arena, "cannot be loaded: %s", why), o->diag);
}

// -- names of classes ---------------------------------------------------------------------------

static ClassNames read_names(const Opening *o, const json_t *list) {
  const char **name = arena_array(o->arena, const char *, json_array_size(list) + 1);
  ClassNames out = {.name = name};
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *text = text_of(o, json_array_get(list, i));
    name[out.n++] = text ? text : "";
  }
  return out;
}

static void read_positions(const Opening *o, const json_t *positions, PackageClasses *c) {
  const char *dim;
  json_t *list;
  size_t n = json_object_size(positions);
  c->dim = arena_array(o->arena, const char *, n + 1);
  c->axis = arena_array(o->arena, ClassNames, n + 1);
  json_object_foreach((json_t *)(uintptr_t)positions, dim, list) {
    c->dim[c->ndims] = arena_text(o->arena, dim, strlen(dim));
    c->axis[c->ndims++] = read_names(o, list);
  }
}

static void read_classes(const Opening *o, const json_t *tensors, PackageProgram *p) {
  p->classes = arena_array(o->arena, PackageClasses, json_array_size(tensors) + 1);
  for (size_t i = 0; i < json_array_size(tensors); i++) {
    const json_t *t = json_array_get(tensors, i), *classes = json_object_get(t, "classes"),
                 *positions = json_object_get(t, "positions");
    const char *name = text_of(o, json_object_get(t, "name"));
    if (!name || (!classes && !positions)) continue;
    PackageClasses *c = &p->classes[p->nclasses++];
    *c = (PackageClasses){.output = name, .element = read_names(o, classes)};
    read_positions(o, positions, c);
  }
}

// Parameters get their values from the file of weights: nothing is drawn or read for them before.
static void no_initial_values(const Package *package, Program *p) {
  for (uint32_t i = 0; i < package->nvalues; i++) {
    int32_t t = program_tensor(p, package->value[i].kind, package->value[i].name);
    if (t >= 0) p->tensor[t].init = (Init){.kind = INIT_CONSTANT};
  }
}

static bool load_program(const Opening *o, const json_t *build, const json_t *entry) {
  Package *package = o->package;
  char why[PACK_WHY];
  size_t n;
  const char *name = text_of(o, json_object_get(entry, "name"));
  const json_t *files = name ? json_object_get(build, name) : NULL;
  const char *file = text_of(o, json_object_get(files, "program")),
             *code = text_of(o, json_object_get(files, "object"));
  if (!file || (!code && !o->gpu)) return broken(o, "has a broken entry of a program");
  PackageProgram *p = &package->program[package->nprograms++];
  p->name = name;
  p->any_rows = json_is_true(json_object_get(entry, "any_rows"));
  read_classes(o, json_object_get(entry, "tensors"), p);
  const char *bytes = source_file(o->arena, package->source, file, &n, o->diag);
  if (!bytes) return false;
  if (!pack_read(o->arena, NULL, &pack_of_program, bytes, n, o->diag, &p->program, why) ||
      !program_sound(&p->program, why))
    return package_damaged(package->source, file, why, o->diag);
  no_initial_values(package, &p->program);
  if (o->look) return true;
  return package->gpu ? package_gpu_load(o->arena, package, p, files, o->diag)
                      : load_code(o, p, code);
}

// Sets the build whose programs are loaded: the one for this machine, or the first.
static const json_t *find_build(const Opening *o) {
  const json_t *builds = json_object_get(o->root, "builds");
  if (!o->look) {
    const json_t *build = choose_build(o);
    if (build) o->package->build = text_of(o, json_object_get(build, o->gpu ? "gpu" : "cpu"));
    return build;
  }
  if (!json_array_size(builds)) (void)broken(o, "names no build");
  o->package->build = list_builds(o, builds);
  return json_array_get(builds, 0);
}

static bool load_programs(const Opening *o) {
  const json_t *programs = json_object_get(o->root, "programs");
  if (o->gpu && !o->look && !package_gpu_open(o->arena, o->package, o->root, o->ranks, o->diag))
    return false;
  const json_t *build = find_build(o);
  if (!build) return false;
  o->package->program = arena_array(o->arena, PackageProgram, json_array_size(programs) + 1);
  for (size_t i = 0; i < json_array_size(programs); i++)
    if (!load_program(o, build, json_array_get(programs, i))) return false;
  return o->package->nprograms || broken(o, "names no program");
}

// -- values -------------------------------------------------------------------------------------

static bool read_value(const Opening *o, const char *name, const json_t *entry, PackageValue *v) {
  const char *kind, *type;
  json_int_t at, bytes;
  json_error_t e;
  size_t k = 0;
  if (json_unpack_ex((json_t *)(uintptr_t)entry, &e, 0, "{s:s, s:s, s:I, s:I}", "kind", &kind,
                     "type", &type, "at", &at, "bytes", &bytes) != 0)
    return false;
  *v = (PackageValue){.name = arena_text(o->arena, name, strlen(name)), .at = at, .bytes = bytes};
  while (k < VALUE_KINDS && strcmp(package_kinds[k].name, kind)) k++;
  if (k < VALUE_KINDS) v->kind = package_kinds[k].kind;
  return k < VALUE_KINDS && dtype_parse(type, &v->type) && at >= 0 && bytes >= 0;
}

static int by_place(const void *a, const void *b) {
  const PackageValue *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static bool read_values(const Opening *o) {
  Package *p = o->package;
  const char *name;
  json_t *values = json_object_get(o->root, "values"), *entry;
  p->value = arena_array(o->arena, PackageValue, json_object_size(values) + 1);
  json_object_foreach(
      values, name,
      entry) if (!read_value(o, name, entry,
                             &p->value
                                  [p->nvalues++])) return broken(o,
                                                                 "has a broken entry of a value");
  qsort(p->value, p->nvalues, sizeof *p->value, by_place);
  return true;
}

bool package_load(const Package *p, const Program *program, Exec *e, Diag *d) {
  SourceStream in;
  bool ok = true;
  if (!p->nvalues) return true;
  if (!source_start(&in, p->source, PACKAGE_WEIGHTS, d)) return false;
  for (uint32_t i = 0; ok && i < p->nvalues; i++) {
    const PackageValue *v = &p->value[i];
    int32_t t = program_tensor(program, v->kind, v->name);
    int64_t elements = 1;
    for (int k = 0; t >= 0 && k < program->tensor[t].rank; k++)
      elements *= program->tensor[t].dim[k].whole;
    if (t >= 0 && elements * dtype_bytes(v->type) != v->bytes) {
      ok = package_damaged(p->source, PACKAGE_WEIGHTS, "has a value of another size", d);
      break;
    }
    if (t < 0) continue; // another program has it
    char *room = mem_alloc((size_t)v->bytes + 1);
    ok = source_skip(&in, v->at - in.at, d) && source_next(&in, v->bytes, room, d);
    if (ok) exec_write(e, v->kind, v->name, v->type, room);
    free(room);
  }
  ok = ok && source_finish(&in, d);
  source_stop(&in);
  return ok;
}

// -- opening ------------------------------------------------------------------------------------

static void read_facts(const Opening *o) {
  Package *p = o->package;
  const json_t *hidden = json_object_get(o->root, "hidden");
  p->model = field(o, "model");
  p->version = field(o, "meshc");
  p->watch = field(o, "watch");
  p->micro = field(o, "micro");
  p->seed = (uint64_t)json_integer_value(json_object_get(o->root, "seed"));
  p->steps = clamp64(json_integer_value(json_object_get(o->root, "steps")), 0, INT32_MAX);
  p->hidden = arena_array(o->arena, const char *, json_array_size(hidden) + 1);
  for (size_t i = 0; i < json_array_size(hidden); i++) {
    const char *name = text_of(o, json_array_get(hidden, i));
    if (name) p->hidden[p->nhidden++] = name;
  }
}

static bool read_training(const Opening *o) {
  const json_t *training = json_object_get(o->root, "training");
  if (!training) return true;
  o->package->training = package_train_read(o->arena, training);
  return o->package->training || broken(o, "has a broken entry of its training");
}

static bool read_text(const Opening *o) {
  const json_t *text = json_object_get(o->root, "text");
  if (!text) return true;
  o->package->text = package_text_read(o->arena, text);
  return o->package->text || broken(o, "has a broken entry of generated text");
}

static Package *open_source(Arena *a, PackageSource source, Ranks *ranks, bool look, Diag *d) {
  Package *p = arena_new_of(a, Package);
  p->source = arena_copy(a, &source, sizeof source);
  p->path = source.path;
  p->diag = d;
  const char *text;
  size_t n;
  Opening o = {.arena = a, .diag = d, .package = p, .ranks = ranks, .look = look};
  o.root = source_describe(a, p->source, &text, &n, d);
  if (!o.root) return NULL;
  const char *device = json_string_value(json_object_get(o.root, "device"));
  o.gpu = device && !strcmp(device, "cuda");
  read_facts(&o);
  bool ok = p->model ? read_text(&o) && read_training(&o) && read_values(&o) && load_programs(&o)
                     : broken(&o, "names no model");
  json_decref(o.root);
  if (ok) return p;
  package_close(p);
  return NULL;
}

Package *package_open(Arena *a, const char *path, Ranks *ranks, Diag *d) {
  if (package_is(path))
    return open_source(a, (PackageSource){.path = arena_text(a, path, strlen(path))}, ranks, false,
                       d);
  diag_error(d, DIAG_FILE_MISSING, (Pos){0}, "%s is no package: it has no " PACKAGE_FILE, path);
  diag_hint(d, "meshc compile MODEL -o DIR makes a package");
  return NULL;
}

static Package *open_packed(Arena *a, const char *path, const char *bytes, size_t n, bool look,
                            Diag *d) {
  const PackageSource source = {.path = path, .memory = bytes, .bytes = (int64_t)n};
  return open_source(a, source, NULL, look, d);
}

Package *package_open_packed(Arena *a, const char *path, const char *bytes, size_t n, Diag *d) {
  return open_packed(a, path, bytes, n, false, d);
}

Package *package_look(Arena *a, const char *path, const char *bytes, size_t n, Diag *d) {
  return open_packed(a, path, bytes, n, true, d);
}

void package_close(Package *p) {
  for (uint32_t i = 0; p && i < p->nprograms; i++) {
    image_free(p->program[i].image);
    gpu_program_free(p->program[i].on_gpu);
    p->program[i].image = NULL;
    p->program[i].on_gpu = NULL;
  }
  if (!p) return;
  gpu_close(p->gpu, !diag_errors(p->diag));
  p->gpu = NULL;
}

bool package_is_micro(const Package *p, const char *dim) {
  return p->micro && !strcmp(p->micro, dim);
}

bool package_is_of_text(const PackageProgram *p) {
  static const char *const names[] = {PACKAGE_GENERATE, PACKAGE_PROMPT, PACKAGE_GENERATE_ROWS,
                                      PACKAGE_PROMPT_ROWS};
  for (size_t i = 0; i < countof(names); i++)
    if (!strcmp(p->name, names[i])) return true;
  return false;
}

PackageProgram *package_program(const Package *p, const char *name) {
  for (uint32_t i = 0; i < p->nprograms; i++)
    if (!strcmp(p->program[i].name, name)) return &p->program[i];
  return NULL;
}
