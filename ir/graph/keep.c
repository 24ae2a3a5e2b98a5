// Keeps what nodes point to: dims, attributes and origins. Most nodes of a graph equal others in
// these, and share them. Also compares and hashes attributes, and hashes graphs.
//
//   %7 = add(%1, %2) and %8 = mul(%1, %2) of a line of the model have one Dims, Attr and Origin
#include "ir/graph/keep_internal.h"

#include "ir/base/hash.h"

#include <string.h>

static const Dims no_dims;
static const Attr no_attr;
static const Origin no_origin;
const Node node_none = {.dims = &no_dims, .attr = &no_attr, .origin = &no_origin};

static bool same_bytes(const void *a, const void *b, size_t n) {
  return n == 0 || memcmp(a, b, n) == 0;
}

// -- attributes -----------------------------------------------------------------------------------

enum { ATTR_WORDS = 19 };

// Writes all fields of t except its lists as words, so that equal attributes have equal words. The
// axes are packed into one word.
static void attr_words(const Attr *t, uint64_t out[ATTR_WORDS]) {
  const Affine *f = &t->affine;
  uint64_t axes = 0, num[2];
  for (int i = 0; i < t->axes.n; i++) axes = axes << 8 | t->axes.at[i];
  memcpy(num, t->num, sizeof num);
  const uint64_t word[ATTR_WORDS] = {t->type,
                                     t->decl,
                                     t->monoid,
                                     t->ndims,
                                     t->nto,
                                     (uint64_t)t->ndata,
                                     t->key,
                                     t->carry,
                                     t->tag,
                                     t->flags,
                                     t->region,
                                     (uint64_t)f->out,
                                     (uint64_t)f->tap,
                                     (uint64_t)f->offset,
                                     (uint64_t)f->divisor,
                                     t->axes.n,
                                     axes,
                                     num[0],
                                     num[1]};
  memcpy(out, word, sizeof word);
}

bool attr_equal(const Attr *a, const Attr *b) {
  if (a == b) return true;
  uint64_t x[ATTR_WORDS], y[ATTR_WORDS];
  attr_words(a, x);
  attr_words(b, y);
  return same_bytes(x, y, sizeof x) && same_bytes(a->dims, b->dims, a->ndims * sizeof *a->dims) &&
         same_bytes(a->to, b->to, a->nto * sizeof *a->to) &&
         same_bytes(a->data, b->data, (size_t)a->ndata * sizeof *a->data);
}

static uint32_t attr_hash(const Attr *t) {
  uint64_t word[ATTR_WORDS], h;
  attr_words(t, word);
  h = hash_lanes(FNV_START, word, ATTR_WORDS);
  for (int i = 0; i < t->ndims; i++) h = hash_word(h, t->dims[i]);
  for (int i = 0; i < t->nto; i++) h = hash_word(h, t->to[i]);
  h = hash_bytes(h, t->data, (size_t)t->ndata * sizeof *t->data);
  return (uint32_t)(h ^ h >> 32);
}

void node_set_attr(Node *n, const Attr *attr) {
  n->attr = attr;
  n->attr_hash = attr_hash(attr);
}

// -- keeping --------------------------------------------------------------------------------------

// Returns lasting attributes that equal *t.
static const Attr *keep_attr(Arena *a, Kept *k, const Attr *t, uint32_t hash) {
  const Attr **kept = &k->attr[hash % KEPT];
  if (*kept && attr_equal(*kept, t)) return *kept;
  Attr *copy = arena_copy(a, t, sizeof *t);
  size_t bytes = (size_t)t->ndata * sizeof *t->data;
  copy->dims = t->ndims ? arena_copy(a, t->dims, t->ndims * sizeof *t->dims) : NULL;
  copy->to = t->nto ? arena_copy(a, t->to, t->nto * sizeof *t->to) : NULL;
  copy->data = bytes ? arena_copy(a, t->data, bytes) : NULL;
  return *kept = copy;
}

// Returns lasting dims that equal *s.
static const Dims *keep_dims(Arena *a, Kept *k, const Dims *s) {
  uint64_t h = s->n;
  for (int i = 0; i < s->n; i++) h = hash_word(h, s->at[i]);
  const Dims **kept = &k->dims[h % KEPT];
  if (*kept && dims_equal(*kept, s)) return *kept;
  return *kept = arena_copy(a, s, sizeof *s);
}

static bool origin_equal(const Origin *a, const Origin *b) {
  return same_bytes(&a->pos, &b->pos, sizeof a->pos) && a->value == b->value && a->why == b->why &&
         a->gradient_of == b->gradient_of && a->composite == b->composite &&
         a->backward == b->backward && a->of == b->of && a->reader == b->reader;
}

const Origin *keep_origin(Arena *a, Kept *k, const Origin *o) {
  const Origin **kept = &k->origin;
  if (*kept && origin_equal(*kept, o)) return *kept;
  return *kept = arena_copy(a, o, sizeof *o);
}

void keep_seen(Kept *k, const Node *n) {
  k->attr[n->attr_hash % KEPT] = n->attr;
  k->origin = n->origin;
}

void keep(Arena *a, Kept *k, Node *n) {
  n->dims = keep_dims(a, k, n->dims);
  n->attr = keep_attr(a, k, n->attr, n->attr_hash);
  n->origin = keep_origin(a, k, n->origin);
}

// -- graphs ---------------------------------------------------------------------------------------

static uint64_t hash_dims(uint64_t h, const DimTable *t, int n, const DimId *list) {
  for (int i = 0; i < n; i++) {
    const Dim *d = dim_get(t, list[i]);
    h = hash_word(hash_word(h, fnv_text(d->name)), (uint64_t)d->size);
  }
  return h;
}

uint64_t graph_hash(const Graph *g) {
  uint64_t word[ATTR_WORDS], h = FNV_START;
  for (int k = 0; k < g->mesh->naxes; k++)
    h = hash_word(hash_word(h, fnv_text(g->mesh->axis[k].name)), (uint64_t)g->mesh->axis[k].size);
  for (NodeId n = 1; n <= graph_count(g); n++) {
    const Node *x = graph_node(g, n);
    const Attr *t = x->attr;
    attr_words(t, word);
    h = hash_word(hash_word(hash_word(h, x->op), x->type), x->instance);
    h = hash_bytes(h, word, sizeof word);
    h = hash_bytes(h, x->args, x->nargs * sizeof *x->args);
    h = hash_bytes(h, t->data, (size_t)t->ndata * sizeof *t->data);
    h = hash_dims(h, g->dims, x->dims->n, x->dims->at);
    h = hash_dims(hash_dims(h, g->dims, t->ndims, t->dims), g->dims, t->nto, t->to);
    h = hash_word(hash_word(h, x->origin->of), x->origin->reader);
  }
  for (uint32_t i = 0; i < g->output.n; i++)
    h = hash_word(hash_word(h, g->output.at[i].value), g->output.at[i].target);
  return h;
}
