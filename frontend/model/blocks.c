// Reads the parts of a model file that are not arithmetic: data blocks, the mesh line and layout
// rules; and applies --set to the entries of blocks.
//
// Input: the Ast of the file and the options. Output: Graph.spec.data, Model.mesh, Model.layout.
// Train blocks are read in train.c.
#include <string.h>

#include "frontend/model/blocks_internal.h"
#include "frontend/model/formal_internal.h"

// -- entries ------------------------------------------------------------------------------------

// Returns the part of `path` after `prefix` and a dot, or NULL if the path does not begin with
// them.
static const char *after_prefix(const char *path, const char *prefix) {
  size_t n = strlen(prefix);
  return !strncmp(path, prefix, n) && path[n] == '.' ? path + n + 1 : NULL;
}

// Returns a copy of `call` with argument `name` replaced or added; a bare name such as adam becomes
// the call adam(name = value).
static const Ast *with_argument(Build *b, const Ast *call, const char *name, const Setting *set) {
  Ast *copy = arena_copy(b->a, call, sizeof *call);
  copy->kind = AST_CALL;
  copy->has_parens = true;
  copy->args = arena_array(b->a, AstArg, call->nargs + 1);
  if (call->nargs) memcpy(copy->args, call->args, call->nargs * sizeof *call->args);
  uint32_t i = 0;
  while (i < copy->nargs && (!copy->args[i].name || strcmp(copy->args[i].name, name))) i++;
  copy->nargs += i == copy->nargs;
  copy->args[i] = (AstArg){.name = intern(b->names, name), .value = set->value, .pos = set->pos};
  return copy;
}

static void entry_add(Build *b, Entries *e, Entry one) {
  e->at[e->n] = one;
  map_put(b->a, &e->index, one.key, &e->at[e->n++]);
}

// Returns the path of a setting with its key, which has a dot, replaced by the nearest key of the
// block: train.optimizer.lr for train.optimzer.lr. NULL: none is near.
static const char *nearest_path(Build *b, const Entries *e, const char *path, const char *key) {
  const char **names = arena_array(b->a, const char *, e->n + 1), *dot = strchr(key, '.');
  for (uint32_t i = 0; i < e->n; i++) names[i] = e->at[i].key;
  const char *near = text_nearest(arena_text(b->a, key, (size_t)(dot - key)), names, e->n);
  return near ? arena_printf(b->a, "%.*s%s%s", (int)(key - path), path, near, dot) : NULL;
}

// Applies one --set to the entries. `key` is the path of the setting without the prefix of the
// block. "optimizer" replaces or adds an entry; "optimizer.lr" changes an argument of one.
static void apply(Build *b, Entries *e, Setting *set, const char *key) {
  const char *dot = strchr(key, '.');
  Entry *old = map_get(&e->index, intern_n(b->names, key, dot ? (size_t)(dot - key) : strlen(key)));
  if (dot && (!old || (old->value->kind != AST_CALL && old->value->kind != AST_NAME))) {
    // An entry without arguments, or none: check_settings reports the setting as unused.
    if (!old) set->near = nearest_path(b, e, set->path, key);
    return;
  }
  set->used = true;
  if (dot)
    old->value = with_argument(b, old->value, dot + 1, set);
  else if (old)
    old->value = set->value, old->pos = set->pos;
  else
    entry_add(b, e, (Entry){intern(b->names, key), set->value, set->pos});
}

Entries entries_read(Build *b, const Ast *s, uint32_t first, const char *prefix) {
  Entries e = {.at = arena_array(b->a, Entry, s->nkids + b->opt->nsettings)};
  for (uint32_t i = first; i < s->nkids; i++) {
    const Ast *kid = s->kids[i];
    const Entry *old = map_get(&e.index, kid->text);
    if (old) {
      diag_error(b->d, DIAG_DUPLICATE_NAME, kid->pos, "'%s' is given twice", kid->text);
      diag_note(b->d, old->pos, "first here");
      continue;
    }
    entry_add(b, &e, (Entry){kid->text, kid->kids[0], kid->pos});
  }
  entries_set(b, &e, prefix);
  return e;
}

void entries_set(Build *b, Entries *e, const char *prefix) {
  for (uint32_t i = 0; i < b->opt->nsettings; i++) {
    const char *key = after_prefix(b->opt->setting[i].path, prefix);
    if (key) apply(b, e, &b->opt->setting[i], key);
  }
}

// -- sources ------------------------------------------------------------------------------------

static bool set_path(Build *b, const Ast *e, DataSource *s) { return build_string(b, e, &s->path); }

static bool set_key(Build *b, const Ast *e, DataSource *s) {
  if (!build_string(b, e, &s->key)) return false;
  bool part = !strcmp(s->key, "images") || !strcmp(s->key, "labels");
  if (s->kind != SOURCE_CIFAR10 || part) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                    "cifar10 has \"images\" and \"labels\", not \"%s\"", s->key);
}

static bool set_skip(Build *b, const Ast *e, DataSource *s) {
  if (!build_integer(b, e, &s->skip)) return false;
  if (s->skip >= 0) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "skip must be a number of bytes, 0 or more");
}

static bool set_offset(Build *b, const Ast *e, DataSource *s) {
  if (!build_integer(b, e, &s->offset)) return false;
  if (s->offset == 0 || s->offset == 1) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                    "offset must be 0, or 1 to read the tokens that follow");
}
static bool set_scale(Build *b, const Ast *e, DataSource *s) {
  return build_number(b, e, &s->scale);
}

bool source_range(Build *b, const Ast *e, int64_t *first, int64_t *last) {
  bool good = e->kind == AST_RANGE && build_integer(b, e->kids[0], first) &&
              build_integer(b, e->kids[1], last);
  if (good && 0 <= *first && *first < *last) return true;
  if (e->kind != AST_RANGE || good)
    diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "expected a range of integers, like 0..4");
  return false;
}

static bool set_rows(Build *b, const Ast *e, DataSource *s) {
  return source_range(b, e, &s->row_first, &s->row_last);
}
static bool set_token(Build *b, const Ast *e, DataSource *s) {
  bool u16 = e->kind == AST_NAME && !strcmp(e->text, "u16");
  s->token_bytes = u16 ? 2 : 4;
  if (u16 || (e->kind == AST_NAME && !strcmp(e->text, "u32"))) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos, "the dtype of tokens must be u16 or u32");
}

static bool set_vocab(Build *b, const Ast *e, DataSource *s) {
  return build_string(b, e, &s->vocabulary);
}

static const Form synthetic_kinds[] = {
    {"normal", SYNTHETIC_NORMAL, (const Formal[]){END}},
    {"uniform", SYNTHETIC_UNIFORM, (const Formal[]){END}},
    {"integers", SYNTHETIC_INTEGERS, (const Formal[]){V(low), V(high), END}},
};

static bool set_synthetic(Build *b, const Ast *e, DataSource *s) {
  double v[2] = {0, 0};
  const Form *kind = form_of(e, countof(synthetic_kinds), synthetic_kinds);
  if (kind && !call_numbers(b, e, kind->formal, v)) return false;
  if (kind) s->synthetic = (SyntheticKind)kind->kind;
  s->low = v[0], s->high = v[1];
  if (kind && (s->synthetic != SYNTHETIC_INTEGERS || s->low < s->high)) return true;
  return diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
                    "expected synthetic data: normal, uniform or integers(low, high)");
}

static const SourceArgument source_arguments[] = {
    {"path", set_path},      {"key", set_key},   {"scale", set_scale},
    {"dtype", set_token},    {"skip", set_skip}, {"offset", set_offset},
    {"kind", set_synthetic}, {"rows", set_rows}, {"vocab", set_vocab},
};

static const Form sources[] = {
    {"csv", SOURCE_CSV,
     (const Formal[]){A(path), O(column), O(columns), O(header), O(rows), O(separator), O(decimal),
                      O(missing), O(classes), O(date), O(unit), O(since), END}},
    {"npy", SOURCE_NPY, (const Formal[]){A(path), O(rows), END}},
    {"npz", SOURCE_NPZ, (const Formal[]){A(path), A(key), O(rows), END}},
    {"safetensors", SOURCE_SAFETENSORS, (const Formal[]){A(path), A(key), O(rows), END}},
    {"idx", SOURCE_IDX, (const Formal[]){A(path), O(scale), O(rows), END}},
    {"cifar10", SOURCE_CIFAR10, (const Formal[]){A(path), A(key), O(scale), O(rows), END}},
    {"tokens", SOURCE_TOKENS,
     (const Formal[]){A(path), O(dtype), O(skip), O(offset), O(rows), O(vocab), END}},
    {"text", SOURCE_TEXT, (const Formal[]){A(path), O(offset), O(rows), O(vocab), END}},
    {"images", SOURCE_IMAGES,
     (const Formal[]){A(path), O(scale), O(rows), O(resize), O(crop), O(pad), O(flip),
                      O(flip_vertical), O(brightness), O(contrast), O(saturation), O(cutout),
                      O(draws), END}},
    {"labels", SOURCE_LABELS, (const Formal[]){A(path), O(classes), O(rows), END}},
    {"synthetic", SOURCE_SYNTHETIC, (const Formal[]){A(kind), END}},
};

static bool set_argument(Build *b, const char *name, const Ast *e, DataSource *s) {
  for (size_t i = 0; i < countof(source_arguments); i++)
    if (!strcmp(source_arguments[i].name, name)) return source_arguments[i].set(b, e, s);
  const SourceArgument *const more[] = {csv_arguments, image_arguments};
  for (size_t i = 0; i < countof(more); i++)
    for (const SourceArgument *a = more[i]; a->name; a++)
      if (!strcmp(a->name, name)) return a->set(b, e, s);
  BUG("no source argument %s", name);
}

static bool source_build(Build *b, const Ast *e, DataSource *out) {
  const Ast *arg[MAX_FORMALS];
  const Form *form = e->kind == AST_CALL ? form_of(e, countof(sources), sources) : NULL;
  if (!form) {
    form_unknown(b, e, countof(sources), sources, DIAG_BAD_BLOCK, "a source of data");
    return false;
  }
  *out = (DataSource){.kind = (SourceKind)form->kind,
                      .first = -1,
                      .last = -1,
                      .header = -1,
                      .scale = form->kind == SOURCE_IMAGES ? 0 : 1,
                      .classes = form->kind == SOURCE_LABELS ? CLASSES_AUTO : CLASSES_NONE,
                      .token_bytes = 2,
                      .pos = e->pos};
  if (!call_bind(b, e, form->formal, arg)) return false;
  for (int k = 0; form->formal[k].name; k++)
    if (arg[k] && !set_argument(b, form->formal[k].name, arg[k], out)) return false;
  if (out->kind == SOURCE_IMAGES) return images_check(b, out);
  // csv needs exactly one of `column` and `columns`, which are arg[1] and arg[2]
  if (out->kind != SOURCE_CSV) return true;
  if (!arg[1] != !arg[2]) return csv_check(b, out);
  return diag_error(b->d, DIAG_MISSING_KEY, e->pos, "csv needs either column or columns");
}

// -- data blocks --------------------------------------------------------------------------------

// Returns the input that an entry of a data block names; NULL after an error.
static const Decl *input_find(Build *b, const Entry *e, const DataBlock *block) {
  VEC(const char *) near = {0};
  bool option = e->pos.source != block->pos.source; // the entry comes from --set
  DeclId id = graph_find_decl(b->g, e->key);
  if (id && b->g->decl.at[id - 1].kind == DECL_INPUT) return &b->g->decl.at[id - 1];
  diag_error(b->d, option ? DIAG_UNKNOWN_SET : DIAG_UNKNOWN_NAME, e->pos,
             "the model has no input '%s'", e->key);
  for (uint32_t i = 0; i < b->g->decl.n && diag_kept(b->d); i++)
    if (b->g->decl.at[i].kind == DECL_INPUT) vec_push(b->a, near) = b->g->decl.at[i].name;
  vec_push(b->a, near) = "shuffle";
  vec_push(b->a, near) = "seed";
  diag_nearest(b->d, e->key, near.at, near.n);
  return NULL;
}

// Reads the entry `input = SOURCE` into a field of the data block. Reports an error if the input
// lacks the batch dim of the block.
static void field_build(Build *b, const Entry *e, DataBlock *block) {
  DataField field = {.input = e->key, .pos = e->pos};
  const Decl *d = input_find(b, e, block);
  bool runs = false;
  for (int i = 0; d && i < d->rank; i++) runs |= d->dims[i] == block->over;
  if (!d || !source_build(b, e->value, &field.source)) return;
  if (!runs && block->over) {
    diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
               "input '%s' has no dim '%s', which is the dim of the rows", e->key,
               dim_get(b->g->dims, block->over)->name);
    return;
  }
  if (block != &b->g->spec.data[DATA_TRAIN] && images_drawn(&field.source)) {
    diag_error(b->d, DIAG_BAD_BLOCK, e->pos,
               "only data train changes images at random, so that evaluations are exact");
    diag_hint(b->d, "leave out crop = random, pad, flip, colours and cutout here");
    return;
  }
  block->field[block->nfields++] = field;
}

// Reads one entry of a data block: shuffle, seed, or an input. If an input is called shuffle or
// seed, the entry means that input.
static void entry_build(Build *b, const Entry *e, DataBlock *block) {
  int64_t seed;
  bool taken = graph_find_decl(b->g, e->key) != 0;
  if (!taken && !strcmp(e->key, "shuffle")) {
    if (!build_bool(b, e->value, &block->shuffle)) block->shuffle = false;
  } else if (!taken && !strcmp(e->key, "seed")) {
    if (build_integer(b, e->value, &seed)) block->seed = (uint64_t)seed;
  } else {
    field_build(b, e, block);
  }
}

static void block_build(Build *b, const Ast *s) {
  for (BlockKind k = 0; k < DATA_BLOCKS; k++) {
    DataBlock *block = &b->g->spec.data[k];
    if (strcmp(block_text(k), s->text)) continue;
    if (block->present) {
      diag_error(b->d, DIAG_BAD_BLOCK, s->pos, "there are two data blocks '%s'", s->text);
      diag_note(b->d, block->pos, "first here");
      return;
    }
    Entries e = entries_read(b, s, 0, arena_printf(b->a, "data.%s", s->text));
    *block = (DataBlock){.present = true, .pos = s->pos, .shuffle = k == DATA_TRAIN};
    block->over = dim_lookup(b, s->dims[0].name, s->dims[0].pos);
    block->field = arena_array(b->g->arena, DataField, e.n);
    for (uint32_t i = 0; i < e.n; i++) entry_build(b, &e.at[i], block);
    return;
  }
  diag_error(b->d, DIAG_BAD_BLOCK, s->pos, "data blocks are train, valid and test, not '%s'",
             s->text);
  habit_hint(b->d, b->a, HABIT_BLOCK, s->text, &(HabitNames){0});
}

void data_build(Build *b, const Ast *file) {
  for (uint32_t i = 0; i < file->nkids; i++)
    if (file->kids[i]->kind == AST_DATA) block_build(b, file->kids[i]);
}

// -- mesh ---------------------------------------------------------------------------------------

static void axis_build(Build *b, const Ast *define) {
  Mesh *m = &b->model->mesh;
  int64_t size, all;
  if (!dims_integer(b, define->kids[0], &size)) return;
  if (mesh_axis(m, define->text) >= 0)
    diag_error(b->d, DIAG_BAD_MESH, define->pos, "axis '%s' is named twice", define->text);
  else if (m->naxes == MAX_AXES)
    diag_error(b->d, DIAG_BAD_MESH, define->pos, "a mesh has at most %d axes", MAX_AXES);
  else if (size < 1 || !size_mul(mesh_size(m), size, &all) || all > 65536)
    diag_error(b->d, DIAG_BAD_MESH, define->pos,
               "axis '%s' cannot have size %lld: a mesh has 1 to 65536 processors", define->text,
               (long long)size);
  else
    m->axis[m->naxes++] = (MeshAxis){.name = define->text, .size = size, .pos = define->pos};
}

void mesh_build(Build *b, const Ast *file) {
  const Ast *mesh = b->opt->mesh;
  const Ast *first = NULL;
  for (uint32_t i = 0; i < file->nkids; i++) {
    const Ast *s = file->kids[i];
    if (s->kind != AST_MESH) continue;
    if (first) {
      diag_error(b->d, DIAG_BAD_MESH, s->pos, "there are two mesh lines");
      diag_note(b->d, first->pos, "first here");
    } else {
      first = s;
    }
  }
  if (!mesh) mesh = first;
  if (!mesh) return;
  b->model->mesh.pos = mesh->pos;
  for (uint32_t i = 0; i < mesh->nkids; i++) axis_build(b, mesh->kids[i]);
  b->mesh_broken = b->model->mesh.naxes < (int)mesh->nkids;
}

// -- layout -------------------------------------------------------------------------------------

bool axis_unknown(Build *b, const char *name, Pos pos) {
  const Mesh *m = &b->model->mesh;
  const char *near[MAX_AXES];
  for (int i = 0; i < m->naxes; i++) near[i] = m->axis[i].name;
  if (b->mesh_broken) return false;
  diag_error(b->d, DIAG_UNKNOWN_AXIS, pos, "the mesh has no axis '%s'", name);
  if (!m->naxes)
    return diag_hint(b->d, "there is no mesh: add --mesh %s=2, or the line mesh %s = 2", name,
                     name);
  diag_nearest(b->d, name, near, m->naxes);
  return diag_note(b->d, m->pos, "the mesh is declared here");
}

// Adds the axis that `item` names to rule r. Returns false after an error.
static bool rule_axis(Build *b, const AstDim *item, LayoutRule *r) {
  int axis = mesh_axis(&b->model->mesh, item->name);
  if (axis < 0) {
    axis_unknown(b, item->name, item->pos);
    if (b->opt->mesh && !b->opt->layout && !b->mesh_broken)
      diag_hint(b->d, "the layout of the file is for another mesh: add --layout none, --layout "
                      "auto, or rules for this mesh");
    else if (r->dim && mesh_axis(&b->model->mesh, r->dim) >= 0)
      diag_hint(b->d, "the dim comes first: %s%s%s", item->name, b->opt->layout ? "=" : " -> ",
                r->dim);
    return false;
  }
  if (axes_has(r->axes, axis))
    return diag_error(b->d, DIAG_BAD_LAYOUT, item->pos, "axis '%s' occurs twice in one rule",
                      item->name);
  r->axes.at[r->axes.n++] = (uint8_t)axis;
  return true;
}

// Reads the scope of a rule, as in `layout SCOPE: h -> cols`: optimizer, parameters, gradients, or
// a pattern of tensor names. If `scope` is NULL, the rule applies to all tensors. Returns false
// after an error.
static bool rule_scope(Build *b, const Ast *scope, LayoutRule *r) {
  static const struct {
    const char *name;
    LayoutScope scope;
  } scopes[] = {{"optimizer", LAYOUT_OPTIMIZER},
                {"parameters", LAYOUT_PARAMETERS},
                {"gradients", LAYOUT_GRADIENTS}};
  if (!scope) return true;
  r->scope = LAYOUT_TENSOR;
  r->pattern = scope->text;
  for (size_t i = 0; i < countof(scopes); i++)
    if (!strcmp(scopes[i].name, scope->text)) r->scope = scopes[i].scope, r->pattern = NULL;
  if (r->soft && r->scope != LAYOUT_TENSOR)
    return diag_error(b->d, DIAG_BAD_LAYOUT, scope->pos, "a soft rule applies to values, not to %s",
                      scope->text);
  return true;
}

static bool rule_build(Build *b, const Ast *s, LayoutRule *r) {
  const Ast *scope = s->nkids ? s->kids[0] : NULL;
  bool all = !strcmp(s->text, "all");
  *r = (LayoutRule){.soft = s->integer,
                    .dim = all ? NULL : s->text,
                    .pos = scope ? scope->pos : s->pos,
                    .dim_pos = s->pos};
  if (s->ndims == 0) return false;
  r->axis_pos = s->dims[0].pos;
  r->none = s->ndims == 1 && !strcmp(s->dims[0].name, "none");
  if (!rule_scope(b, scope, r)) return false;
  if (all && r->soft)
    return diag_error(b->d, DIAG_BAD_LAYOUT, s->pos,
                      "a soft rule needs the name of a dim, not all");
  for (uint32_t i = 0; i < s->ndims && !r->none; i++)
    if (!rule_axis(b, &s->dims[i], r)) return false;
  return true;
}

static void rules_add(Build *b, const Ast *layout) {
  Layout *l = &b->model->layout;
  for (uint32_t i = 0; i < layout->nkids; i++)
    l->n += rule_build(b, layout->kids[i], &l->rule[l->n]);
}

// Returns true if a layout rule of the file names an axis that the mesh does not have. With
// ModelOptions.layout_may_go the layout of such a file is ignored.
static bool lacks_axis(const Build *b, const Ast *file) {
  for (uint32_t i = 0; i < file->nkids; i++)
    for (uint32_t k = 0; file->kids[i]->kind == AST_LAYOUT && k < file->kids[i]->nkids; k++) {
      const Ast *rule = file->kids[i]->kids[k];
      for (uint32_t n = 0; n < rule->ndims; n++)
        if (strcmp(rule->dims[n].name, "none") &&
            mesh_axis(&b->model->mesh, rule->dims[n].name) < 0)
          return true;
    }
  return false;
}

enum { MAX_RULES = 4096 };

void layout_build(Build *b, const Ast *file) {
  if (b->opt->no_layout || (b->opt->layout_may_go && lacks_axis(b, file))) return;
  uint32_t n = b->opt->layout ? b->opt->layout->nkids : 0;
  // position of the layout statement that exceeds MAX_RULES rules, for the error message
  Pos last = b->opt->layout ? b->opt->layout->pos : (Pos){0};
  for (uint32_t i = 0; i < file->nkids && !b->opt->layout; i++) {
    if (file->kids[i]->kind != AST_LAYOUT) continue;
    if (n <= MAX_RULES) last = file->kids[i]->pos;
    n += file->kids[i]->nkids;
  }
  if (n > MAX_RULES) {
    diag_error(b->d, DIAG_BAD_LAYOUT, last, "the layout has %u rules, and at most %d are allowed",
               n, MAX_RULES);
    diag_hint(b->d, "one rule with a pattern covers many tensors: layout layer.*.w: h -> cols");
    return;
  }
  b->model->layout.rule = arena_array(b->a, LayoutRule, n + 1);
  if (b->opt->layout) rules_add(b, b->opt->layout);
  for (uint32_t i = 0; i < file->nkids && !b->opt->layout; i++)
    if (file->kids[i]->kind == AST_LAYOUT) rules_add(b, file->kids[i]);
}
