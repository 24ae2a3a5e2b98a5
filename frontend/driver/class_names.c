// Names of classes in results. The classes of an input (classes = ... of its CSV file) are the
// positions along a dim where the model uses the input as an index into the dim:
//   cross_entropy[class](logits, species), one_hot[-> class](species), take[class](w, species)
// or compares it with one:
//   argmax[class](logits) == species, index[class] == species
// A result that is argmax[class](...), or the input itself, then consists of names, and the axis
// `class` of any result has them too.
#include "frontend/driver/session.h"

#include <string.h>

// Returns the node whose value `id` has, behind casts, checks of its range, and the choice of a
// part, such as a micro-batch.
static NodeId behind(const Graph *g, NodeId id) {
  for (;;) {
    const Node *n = graph_node(g, id);
    bool part = n->op == OP_WINDOW && n->attr->nto == 0;
    if (n->op != OP_CAST && n->op != OP_BOUND && n->op != OP_RENAME && !part) return id;
    id = n->args[0];
  }
}

// Returns the input that node `id` is, or NULL.
static const char *input_at(const Graph *g, NodeId id) {
  const Node *n = graph_node(g, behind(g, id));
  return n->op == OP_INPUT ? g->decl.at[n->attr->decl - 1].name : NULL;
}

// Returns the dim whose positions node `id` has as its values: argmax[d](...) or index[d]. Else 0.
static DimId positions_at(const Graph *g, NodeId id) {
  const Node *n = graph_node(g, behind(g, id));
  if (n->op == OP_ARGMAX && n->attr->ndims == 1) return n->attr->dims[0];
  return n->op == OP_INDEX && n->dims->n == 1 ? n->dims->at[0] : 0;
}

static const DataSource *source_of(const Session *s, const char *input) {
  const DataBlock *b = s->model->graph->spec.data;
  for (int k = 0; k < DATA_BLOCKS; k++)
    for (uint32_t i = 0; b[k].present && i < b[k].nfields; i++)
      if (b[k].field[i].source.classes && strcmp(b[k].field[i].input, input) == 0)
        return &b[k].field[i].source;
  return NULL;
}

static ClassNames listed_names(Session *s, const char *list) {
  VEC(const char *) name = {0};
  for (const char *end; (end = strchr(list, '\n')); list = end + 1)
    vec_push(s->arena, name) = arena_text(s->arena, list, (size_t)(end - list));
  return (ClassNames){name.n, name.at};
}

static ClassNames known_names(const Session *s, const char *input) {
  for (uint32_t i = 0; i < s->facts.n; i++)
    if (strcmp(s->facts.at[i].input, input) == 0)
      return (ClassNames){s->facts.at[i].nclasses, s->facts.at[i].class_name};
  return (ClassNames){0};
}

ClassNames input_classes(Session *s, const char *input) {
  const DataSource *source = source_of(s, input);
  if (!source) return (ClassNames){0};
  if (source->classes == CLASSES_LISTED) return listed_names(s, source->class_list);
  facts_read_saved(s);
  ClassNames known = known_names(s, input);
  if (!known.n) facts_seek_classes(s, input);
  return known.n ? known : known_names(s, input);
}

// Checks that a dim of which `input` is an index has a position for each of n classes. Returns
// false after an error.
static bool fit(Session *s, const Graph *g, const char *input, uint32_t n, Pos at) {
  for (NodeId id = 1; id <= graph_count(g); id++) {
    const Node *x = graph_node(g, id);
    if (x->op != OP_BOUND || x->attr->ndims != 1) continue;
    const char *of = input_at(g, x->args[0]);
    const Dim *d = dim_get(g->dims, x->attr->dims[0]);
    if (!of || strcmp(of, input) != 0 || d->size >= (int64_t)n) continue;
    diag_error(s->diag, DIAG_DATA_SHAPE, at,
               "%s has %u classes and is an index of dim '%s', whose size is %lld", input, n,
               d->name, (long long)d->size);
    return diag_hint(s->diag, "make the dim as large: %s = %u, or --set %s=%u", d->name, n, d->name,
                     n);
  }
  return true;
}

bool classes_fit(Session *s, const Graph *g, const char *input, Pos at) {
  return fit(s, g, input, input_classes(s, input).n, at);
}

bool classes_listed_fit(Session *s) {
  const Graph *g = s->model->graph;
  bool good = true;
  for (int k = 0; k < DATA_BLOCKS; k++)
    for (uint32_t i = 0; g->spec.data[k].present && i < g->spec.data[k].nfields; i++) {
      const DataField *f = &g->spec.data[k].field[i];
      if (f->source.classes == CLASSES_LISTED)
        good &= fit(s, g, f->input, listed_names(s, f->source.class_list).n, f->pos);
    }
  return good;
}

// Returns the input that the node uses as an index into the dim `name`, or compares with one.
static const char *indexes(const Graph *g, const Node *n, const char *name) {
  if (n->op == OP_BOUND && n->attr->ndims == 1)
    return strcmp(dim_get(g->dims, n->attr->dims[0])->name, name) == 0 ? input_at(g, n->args[0])
                                                                       : NULL;
  for (int i = 0; n->op == OP_EQ && i < 2; i++) {
    DimId d = positions_at(g, n->args[i]);
    if (d && strcmp(dim_get(g->dims, d)->name, name) == 0) return input_at(g, n->args[1 - i]);
  }
  return NULL;
}

static ClassNames names_of_dim(Session *s, const char *name) {
  const Graph *g = s->model->graph;
  for (NodeId id = 1; id <= graph_count(g); id++) {
    const char *input = indexes(g, graph_node(g, id), name);
    ClassNames names = input ? input_classes(s, input) : (ClassNames){0};
    if (names.n) return names;
  }
  return (ClassNames){0};
}

void result_classes(Session *s, const Graph *g, Result *r) {
  r->axis = arena_array(s->arena, ClassNames, r->array.rank + 1);
  for (int i = 0; i < r->array.rank; i++) {
    ClassNames names = names_of_dim(s, r->dim[i]);
    if (names.n == r->array.size[i]) r->axis[i] = names;
  }
  for (uint32_t i = 0; i < g->output.n && !dtype_is_float(r->array.type); i++) {
    const Output *o = &g->output.at[i];
    if (o->kind != OUT_VALUE || strcmp(o->name, r->name) != 0) continue;
    DimId d = positions_at(g, o->value);
    const char *input = input_at(g, o->value);
    r->element = d       ? names_of_dim(s, dim_get(g->dims, d)->name)
                 : input ? input_classes(s, input)
                         : (ClassNames){0};
  }
}
