// The command inspect: lists the names, types and shapes in a parameter file, data file, checkpoint
// or package, or the images of a folder, as text or JSON.
#include "frontend/command/package_command.h"

#include <string.h>

static const char *shape_text(const Session *s, const ArrayInfo *x) {
  char text[MAX_RANK * 22];
  return arena_printf(s->arena, "%s", sizes_text(x->rank, x->size, text, sizeof text));
}

// -- text ---------------------------------------------------------------------------------------

static void print_arrays(const Session *s, const ArrayList *list) {
  int name = 0, type = 0, shape = 0;
  for (uint32_t i = 0; i < list->n; i++) {
    const ArrayInfo *x = &list->at[i];
    int n = (int)strlen(x->name), t = (int)strlen(x->type), k = (int)strlen(shape_text(s, x));
    name = n > name ? n : name;
    type = t > type ? t : type;
    shape = k > shape ? k : shape;
  }
  for (uint32_t i = 0; i < list->n; i++) {
    const ArrayInfo *x = &list->at[i];
    printf("  %-*s%s%-*s  %-*s  %10s%s\n", name, x->name, name ? "  " : "", type, x->type, shape,
           shape_text(s, x), bytes_text(s->arena, x->bytes),
           x->usable ? "" : "  (a type that meshc cannot read)");
  }
}

static void print_columns(const ArrayList *list) {
  for (uint32_t i = 0; i < list->ncolumns; i++) {
    const CsvColumn *c = &list->column[i];
    printf("  column %-3u %-20s", i, c->name ? c->name : "");
    if (c->numbers)
      printf("  %lld number%s, %g to %g", (long long)c->numbers, plural(c->numbers), c->low,
             c->high);
    if (c->others) printf("  %lld text%s", (long long)c->others, plural(c->others));
    if (c->missing) printf("  %lld missing", (long long)c->missing);
    printf("\n");
  }
}

static void print_folders(const Session *s, const ArrayList *list) {
  int width = 0;
  for (uint32_t i = 0; i < list->nfolders; i++) {
    int n = (int)strlen(list->folder[i].name);
    width = n > width ? n : width;
  }
  for (uint32_t i = 0; i < list->nfolders; i++) {
    const ImageFolder *f = &list->folder[i];
    printf("  %-*s  %6lld image%-1s  %10s\n", width, f->name, (long long)f->images,
           plural(f->images), bytes_text(s->arena, f->bytes));
  }
}

// Prints how many tokens the source `tokens` and how many images the source `cifar10` would read
// from the file, if its size is a multiple of theirs.
static void print_readings(const ArrayList *list) {
  enum { CIFAR_RECORD = 3073 };
  int64_t n = list->bytes;
  if (n % 2 == 0) printf("  as tokens of u16: %lld\n", (long long)(n / 2));
  if (n % 4 == 0) printf("  as tokens of u32: %lld\n", (long long)(n / 4));
  if (n && n % CIFAR_RECORD == 0)
    printf("  as images of CIFAR-10: %lld\n", (long long)(n / CIFAR_RECORD));
}

static void print_list(const Session *s, const char *path, const ArrayList *list) {
  printf("%s: %s, %s", path, list->format, bytes_text(s->arena, list->bytes));
  int64_t elements = 0;
  for (uint32_t i = 0; i < list->n; i++) elements += list->at[i].elements;
  if (list->ncolumns)
    printf(", %lld row%s, %u column%s, %s header", (long long)list->rows, plural(list->rows),
           list->ncolumns, plural(list->ncolumns), list->column[0].name ? "a" : "no");
  else if (list->nfolders)
    printf(", %lld image%s in %u folder%s", (long long)list->rows, plural(list->rows),
           list->nfolders, plural(list->nfolders));
  else if (strcmp(list->format, "text") == 0)
    printf(", %lld line%s", (long long)list->rows, plural(list->rows));
  else if (strcmp(list->format, "bytes") != 0)
    printf(", %u array%s, %lld number%s", list->n, plural(list->n), (long long)elements,
           plural(elements));
  printf("\n");
  print_arrays(s, list);
  print_columns(list);
  print_folders(s, list);
  if (strcmp(list->format, "bytes") == 0) print_readings(list);
  for (uint32_t i = 0; i < list->ntexts; i++)
    printf("  metadata %s: %s\n", list->text[i].key, list->text[i].value);
}

// -- JSON ---------------------------------------------------------------------------------------

static json_t *array_json(const ArrayInfo *x) {
  json_t *out = json_object();
  json_object_set_new(out, "name", json_text(x->name));
  json_object_set_new(out, "type", json_text(x->type));
  json_object_set_new(out, "shape", shape_json(x->rank, x->size));
  json_object_set_new(out, "bytes", json_integer(x->bytes));
  json_object_set_new(out, "readable", json_boolean(x->usable));
  return out;
}

static json_t *column_json(const CsvColumn *c) {
  json_t *out = json_object();
  if (c->name) json_object_set_new(out, "name", json_text(c->name));
  json_object_set_new(out, "numbers", json_integer(c->numbers));
  json_object_set_new(out, "texts", json_integer(c->others));
  json_object_set_new(out, "missing", json_integer(c->missing));
  if (c->numbers) {
    json_object_set_new(out, "low", json_real(c->low));
    json_object_set_new(out, "high", json_real(c->high));
  }
  return out;
}

static json_t *folder_json(const ImageFolder *f) {
  json_t *out = json_object();
  json_object_set_new(out, "name", json_text(f->name));
  json_object_set_new(out, "images", json_integer(f->images));
  json_object_set_new(out, "bytes", json_integer(f->bytes));
  return out;
}

static int print_json(const char *path, const ArrayList *list) {
  json_t *out = json_object(), *arrays = json_array(), *columns = json_array(),
         *folders = json_array(), *metadata = json_object();
  for (uint32_t i = 0; i < list->n; i++) json_array_append_new(arrays, array_json(&list->at[i]));
  for (uint32_t i = 0; i < list->ncolumns; i++)
    json_array_append_new(columns, column_json(&list->column[i]));
  for (uint32_t i = 0; i < list->nfolders; i++)
    json_array_append_new(folders, folder_json(&list->folder[i]));
  for (uint32_t i = 0; i < list->ntexts; i++)
    json_object_set_new(metadata, list->text[i].key, json_text(list->text[i].value));
  json_object_set_new(out, "schema", json_string("meshc.inspect/1"));
  json_object_set_new(out, "file", json_text(path));
  json_object_set_new(out, "format", json_text(list->format));
  json_object_set_new(out, "bytes", json_integer(list->bytes));
  json_object_set_new(out, "arrays", arrays);
  if (list->ncolumns || list->nfolders || strcmp(list->format, "text") == 0)
    json_object_set_new(out, "rows", json_integer(list->rows));
  if (list->ncolumns) json_object_set(out, "columns", columns);
  if (list->nfolders) json_object_set(out, "folders", folders);
  if (list->ntexts) json_object_set(out, "metadata", metadata);
  json_decref(columns);
  json_decref(folders);
  json_decref(metadata);
  return json_finish(out);
}

// -- checkpoints --------------------------------------------------------------------------------

// Lists the tensors of a checkpoint as arrays, and other facts of its manifest as metadata. Returns
// false after an error.
static bool list_checkpoint(Session *s, const char *path, ArrayList *out) {
  Arena *a = s->arena;
  const Checkpoint *c = checkpoint_open(a, path, s->diag, (Pos){0});
  if (!c) return false;
  *out = (ArrayList){.format = "checkpoint", .bytes = c->bytes, .n = c->ntensors};
  out->at = arena_array(a, ArrayInfo, c->ntensors + 1);
  for (uint32_t i = 0; i < c->ntensors; i++) {
    const CheckpointTensor *t = &c->tensor[i];
    out->at[i] = (ArrayInfo){.name = t->name,
                             .type = dtype_text(t->type),
                             .usable = true,
                             .rank = t->rank,
                             .elements = t->elements,
                             .bytes = t->elements * dtype_bytes(t->type)};
    memcpy(out->at[i].size, t->size, sizeof t->size);
  }
  const TrainPosition *n = &c->note;
  const ArrayText text[] = {
      {"path", c->path},
      {"model", c->model},
      {"mesh", c->mesh},
      {"step", arena_printf(a, "%lld", (long long)n->step)},
      {"seed", arena_printf(a, "%llu", (unsigned long long)n->seed)},
      {"data", arena_printf(a, "epoch %lld, row %lld", (long long)n->epoch, (long long)n->row)},
      {"shards", arena_printf(a, "%u", c->nshards)},
      {"meshc", c->version}};
  out->ntexts = countof(text);
  out->text = arena_array(a, ArrayText, countof(text));
  memcpy(out->text, text, sizeof text);
  return true;
}

// Replaces all texts of the list by forms without control characters, for a terminal.
static void show_texts(const Session *s, ArrayList *list) {
  for (uint32_t i = 0; i < list->n; i++) {
    list->at[i].name = text_shown(s->arena, list->at[i].name);
    list->at[i].type = text_shown(s->arena, list->at[i].type);
  }
  for (uint32_t i = 0; i < list->ncolumns; i++)
    if (list->column[i].name) list->column[i].name = text_shown(s->arena, list->column[i].name);
  for (uint32_t i = 0; i < list->nfolders; i++)
    list->folder[i].name = text_shown(s->arena, list->folder[i].name);
  for (uint32_t i = 0; i < list->ntexts; i++)
    list->text[i] = (ArrayText){text_shown(s->arena, list->text[i].key),
                                text_shown(s->arena, list->text[i].value)};
}

// -- packages -----------------------------------------------------------------------------------

// Returns the tensor that has the value in one of the programs, or NULL.
static const ProgTensor *tensor_of(const Package *p, const PackageValue *v) {
  for (uint32_t i = 0; i < p->nprograms; i++) {
    const Program *program = &p->program[i].program;
    int32_t t = program_tensor(program, v->kind, v->name);
    if (t >= 0) return &program->tensor[t];
  }
  return NULL;
}

static ArrayInfo value_info(const Package *p, const PackageValue *v) {
  const ProgTensor *t = tensor_of(p, v);
  ArrayInfo x = {.name = v->name,
                 .type = dtype_text(v->type),
                 .usable = true,
                 .rank = t ? t->rank : 1,
                 .elements = v->bytes / dtype_bytes(v->type),
                 .bytes = v->bytes};
  x.size[0] = x.elements;
  for (int i = 0; t && i < t->rank; i++) x.size[i] = t->dim[t->declared[i]].whole;
  return x;
}

// Lists the values of a package as arrays, and what else it says about itself as metadata.
static void list_package(Arena *a, const Package *p, const char *format, ArrayList *out) {
  const char *programs = "";
  out->format = format;
  out->at = arena_array(a, ArrayInfo, p->nvalues + 1);
  for (uint32_t i = 0; i < p->nvalues; i++) {
    out->at[out->n++] = value_info(p, &p->value[i]);
    out->bytes += p->value[i].bytes;
  }
  for (uint32_t i = 0; i < p->nprograms; i++)
    programs = arena_printf(a, "%s%s%s", programs, i ? ", " : "", p->program[i].name);
  const ArrayText text[] = {{"model", p->model},
                            {"programs", programs},
                            {"builds", p->build},
                            {"mesh", mesh_text(a, &p->program[0].program.mesh)},
                            {"step", arena_printf(a, "%lld", (long long)p->steps)},
                            {"meshc", p->version ? p->version : ""}};
  out->ntexts = countof(text);
  out->text = arena_array(a, ArrayText, countof(text));
  memcpy(out->text, text, sizeof text);
}

// Lists what is in a file or folder. Returns false after an error.
static bool list_content(Session *s, const char *path, ArrayList *out) {
  size_t n = 0;
  *out = (ArrayList){0};
  if (checkpoint_exists(path)) return list_checkpoint(s, path, out);
  const char *packed = package_given(s) ? NULL : package_in_file(s->arena, path, &n);
  if (!packed && !package_given(s)) return array_list(s->arena, path, out, s->diag, (Pos){0});
  const Package *p = package_look(s->arena, path, packed, n, s->diag);
  if (p) list_package(s->arena, p, packed ? "executable" : "package", out);
  return p != NULL;
}

int cmd_inspect(Session *s) {
  const char *path = s->opt->argument.at[0];
  ArrayList list;
  if (!list_content(s, path, &list)) return 0;
  if (option_given(s->opt, OPTION_JSON)) return print_json(path, &list);
  show_texts(s, &list);
  print_list(s, text_shown(s->arena, path), &list);
  return 0;
}
