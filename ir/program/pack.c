// Writes and reads records by the tables of their fields (pack.h).
#include "ir/program/pack.h"
#include "ir/base/hash.h"
#include "ir/base/map.h"
#include "ir/program/program.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// Context in which the counts and indices of fields have a meaning.
typedef struct Scope {
  const Program *program; // NULL: the root is another record
  const KernelLaunch *launch;
} Scope;

static void enter(Scope *s, const PackRecord *r, const void *at) {
  if (r == &pack_of_program) s->program = at;
  if (!strcmp(r->name, "KernelLaunch")) s->launch = at;
}

static int64_t load_int(const void *at, size_t bytes, bool is_signed) {
  uint64_t x = 0;
  memcpy(&x, at, bytes); // the host is little-endian, as all that meshc runs on
  unsigned unused = (unsigned)(64 - 8 * bytes);
  return is_signed ? (int64_t)(x << unused) >> unused : (int64_t)x;
}

static int64_t field_int(const PackField *f, const void *at) {
  return load_int(at, f->bytes, f->low < 0);
}

static int64_t list_length(const Scope *s, PackList of) {
  const Program *p = s->program;
  switch (of) {
  case OF_AXES: return p ? p->mesh.naxes : 0;
  case OF_AXIS_SETS: return p ? (int64_t)1 << p->mesh.naxes : 1;
  case OF_SLOTS: return p ? p->nslots : 0;
  case OF_TENSORS: return p ? p->ntensors : 0;
  case OF_KERNELS: return p ? p->nkernels : 0;
  case OF_INSTRS: return p ? p->ninstrs : 0;
  case OF_NONE: break;
  }
  return 0;
}

static int64_t elements_of(const ProgTensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i].whole < 0 || !size_mul(n, t->dim[i].whole, &n)) return -1;
  return n;
}

// Returns the number of elements of a field of the struct at `in`, or -1 if there is none.
static int64_t count_of(const Scope *s, const PackField *f, const char *in) {
  const ProgKernel *k = NULL;
  if (s->launch && s->program && s->launch->kernel < s->program->nkernels)
    k = &s->program->kernel[s->launch->kernel];
  if (f->place == PLACE_HERE) return f->n ? f->n : 1;
  if (f->place == PLACE_ROWS || f->count == COUNT_MEMBER)
    return load_int(in + f->count_at, f->count_bytes, false);
  switch (f->count) {
  case COUNT_ONE: return 1;
  case COUNT_DEPTH: return LOOP_DEPTH;
  case COUNT_PTRS: return k ? k->nptr : -1;
  case COUNT_SLOTS: return k ? k->nslot : -1;
  case COUNT_NUMS: return k ? k->nnum : -1;
  case COUNT_ELEMENTS: return elements_of((const ProgTensor *)(const void *)in);
  case COUNT_MEMBER: break;
  }
  return -1;
}

static const PackRecord *record_of(const PackField *f, const char *in) {
  if (f->kind == PACK_RECORD) return f->record;
  return f->choice[load_int(in + f->count_at, f->count_bytes, false)];
}

// -- the layout ---------------------------------------------------------------------------------

static void add_layout(uint64_t *h, const PackRecord *r, int depth) {
  enum { DEPTH = 12 };
  if (!r || depth > DEPTH) return;
  *h = *h * UINT64_C(0x100000001b3) ^ fnv_text(r->name);
  for (uint32_t i = 0; i < r->n; i++) {
    const PackField *f = &r->field[i];
    uint64_t mark = (uint64_t)f->kind | (uint64_t)f->place << 4 | (uint64_t)f->count << 8 |
                    (uint64_t)f->of << 12 | (uint64_t)f->n << 16;
    *h = *h * UINT64_C(0x100000001b3) ^ fnv_text(f->name) ^ mark;
    if (f->kind == PACK_RECORD) add_layout(h, f->record, depth + 1);
    for (int k = 0; f->kind == PACK_CHOICE && k <= f->high; k++)
      add_layout(h, f->choice[k], depth + 1);
  }
}

uint64_t pack_layout(const PackRecord *root) {
  uint64_t h = 1;
  add_layout(&h, root, 0);
  return h;
}

// -- writing ------------------------------------------------------------------------------------

typedef struct Output {
  char *at;
  size_t n, room;
} Output;

typedef struct Writer {
  Scope scope;
  Arena *arena;
  Output out;
  Intern *names;
  NameMap numbers; // of the texts, and of their copies in `names`: their numbers in the list
  VEC(const char *) text;
  VEC(uint32_t) source;
} Writer;

static void put_bytes(Output *o, const void *bytes, size_t n) {
  if (o->n + n > o->room) o->at = mem_grow(o->at, o->room = 2 * (o->n + n) + 256);
  if (n) memcpy(o->at + o->n, bytes, n);
  o->n += n;
}

static void put_int(Output *o, int64_t v) {
  enum { LONGEST = 10 };
  uint64_t x = (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
  if (o->n + LONGEST > o->room) o->at = mem_grow(o->at, o->room = 2 * (o->n + LONGEST) + 256);
  for (; x > 127; x >>= 7) o->at[o->n++] = (char)((x & 127) | 128);
  o->at[o->n++] = (char)x;
}

// Returns the number of a text in the list, from 1.
static int64_t text_number(Writer *w, const char *text) {
  if (!text) return 0;
  uintptr_t known = (uintptr_t)map_get(&w->numbers, text);
  if (known) return (int64_t)known;
  const char *key = intern(w->names, text);
  known = (uintptr_t)map_get(&w->numbers, key);
  if (!known) {
    vec_push(w->arena, w->text) = key;
    map_put(w->arena, &w->numbers, key, (void *)(uintptr_t)(known = w->text.n));
  }
  map_put(w->arena, &w->numbers, text, (void *)known);
  return (int64_t)known;
}

// Returns the number of a source in the list, from 1.
static int64_t source_number(Writer *w, const Pos *p) {
  if (!p->source) return 0;
  for (uint32_t i = w->source.n; i-- > 0;)
    if (w->source.at[i] == p->source) return i + 1;
  vec_push(w->arena, w->source) = p->source;
  return w->source.n;
}

static void put_record(Writer *w, const PackRecord *r, const char *at);

static void put_element(Writer *w, const PackField *f, const char *in, const char *at) {
  const char *text;
  switch (f->kind) {
  case PACK_INT:
  case PACK_BOOL: put_int(&w->out, field_int(f, at)); break;
  case PACK_REAL: put_bytes(&w->out, at, sizeof(double)); break;
  case PACK_TEXT:
    memcpy(&text, at, sizeof text);
    put_int(&w->out, text_number(w, text));
    break;
  case PACK_POS: {
    Pos p;
    memcpy(&p, at, sizeof p);
    put_int(&w->out, source_number(w, &p));
    put_int(&w->out, p.line);
    put_int(&w->out, p.col);
    put_int(&w->out, p.len);
    break;
  }
  case PACK_RECORD:
  case PACK_CHOICE: put_record(w, record_of(f, in), at); break;
  case PACK_LEFT: break;
  }
}

static void put_field(Writer *w, const PackField *f, const char *in) {
  const char *at = in + f->at;
  if (f->kind == PACK_LEFT) return;
  if (f->place == PLACE_POINTER) {
    const void *target;
    memcpy(&target, at, sizeof target);
    at = target;
    put_int(&w->out, at != NULL);
    if (!at) return;
  }
  int64_t n = count_of(&w->scope, f, in);
  for (int64_t i = 0; i < n; i++) put_element(w, f, in, at + (size_t)i * f->bytes);
}

static void put_record(Writer *w, const PackRecord *r, const char *at) {
  if (!r) return;
  enter(&w->scope, r, at);
  for (uint32_t i = 0; i < r->n; i++) put_field(w, &r->field[i], at);
}

char *pack_write(const PackRecord *root, const void *from, const char *(*name_of)(void *, uint32_t),
                 void *context, size_t *n) {
  Writer w = {.arena = arena_new()};
  w.names = intern_new(w.arena);
  Output all = {0};
  uint64_t layout = pack_layout(root);
  put_record(&w, root, from);
  put_bytes(&all, &layout, sizeof layout);
  put_int(&all, w.text.n);
  for (uint32_t i = 0; i < w.text.n; i++) {
    put_int(&all, (int64_t)strlen(w.text.at[i]));
    put_bytes(&all, w.text.at[i], strlen(w.text.at[i]));
  }
  put_int(&all, w.source.n);
  for (uint32_t i = 0; i < w.source.n; i++) {
    const char *name = name_of(context, w.source.at[i]);
    put_int(&all, (int64_t)strlen(name));
    put_bytes(&all, name, strlen(name));
  }
  put_bytes(&all, w.out.at, w.out.n);
  free(w.out.at);
  arena_free(w.arena);
  *n = all.n;
  return all.at;
}

// -- reading ------------------------------------------------------------------------------------

typedef struct Reader {
  Scope scope;
  Arena *arena;
  Intern *names;
  const char *bytes;
  size_t n, at;
  uint32_t ntexts, nsources;
  const char **text;
  uint32_t *source;
  char *why;
} Reader;

static bool refuse(Reader *r, const char *format, ...) PRINTF_LIKE(2, 3);
static bool refuse(Reader *r, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  vsnprintf(r->why, PACK_WHY, format, ap);
  va_end(ap);
  return false;
}

static bool ends_early(Reader *r) { return refuse(r, "ends in the midst, after %zu bytes", r->n); }

static bool get_int(Reader *r, int64_t *v) {
  uint64_t x = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (r->at >= r->n) return ends_early(r);
    uint64_t byte = (unsigned char)r->bytes[r->at++];
    if (shift < 64) x |= (byte & 127) << shift;
    if (byte & 128) continue;
    *v = (int64_t)(x >> 1 ^ (~(x & 1) + 1));
    return true;
  }
  return refuse(r, "has an integer without end before byte %zu", r->at);
}

// Reads a number of elements, each of which takes at least a byte.
static bool get_count(Reader *r, int64_t *v) {
  if (!get_int(r, v)) return false;
  if (*v >= 0 && (uint64_t)*v <= r->n - r->at) return true;
  return refuse(r, "claims %lld elements before byte %zu of %zu", (long long)*v, r->at, r->n);
}

static bool get_text(Reader *r, const char **out) {
  int64_t n;
  if (!get_count(r, &n)) return false;
  const char *text = r->bytes + r->at;
  *out = r->names ? intern_n(r->names, text, (size_t)n) : arena_text(r->arena, text, (size_t)n);
  r->at += (size_t)n;
  return true;
}

static bool get_lists(Reader *r, Diag *d) {
  int64_t n;
  if (!get_count(r, &n)) return false;
  r->ntexts = (uint32_t)n;
  r->text = arena_array(r->arena, const char *, n + 1);
  for (uint32_t i = 0; i < r->ntexts; i++)
    if (!get_text(r, &r->text[i])) return false;
  if (!get_count(r, &n)) return false;
  r->nsources = (uint32_t)n;
  r->source = arena_array(r->arena, uint32_t, n + 1);
  for (uint32_t i = 0; i < r->nsources; i++) {
    const char *name;
    if (!get_text(r, &name)) return false;
    r->source[i] = diag_find_source(d, name);
    if (!r->source[i]) r->source[i] = diag_source(d, name, NULL, 0);
  }
  return true;
}

static bool get_number(Reader *r, const PackField *f, char *to) {
  int64_t v, high = f->of ? list_length(&r->scope, f->of) + f->high : f->high;
  if (!get_int(r, &v)) return false;
  if (v < f->low || v > high)
    return refuse(r, "has %lld as %s, not %lld to %lld", (long long)v, f->name, (long long)f->low,
                  (long long)high);
  memcpy(to, &v, f->bytes);
  return true;
}

static bool get_place(Reader *r, Pos *p) {
  int64_t part[4];
  for (int i = 0; i < 4; i++)
    if (!get_int(r, &part[i])) return false;
  for (int i = 1; i < 4; i++)
    if (part[i] < 0 || part[i] > UINT32_MAX) return refuse(r, "has a line that no file has");
  if (part[0] < 0 || part[0] > r->nsources) return refuse(r, "has a place in no file");
  *p = (Pos){part[0] ? r->source[part[0] - 1] : 0, (uint32_t)part[1], (uint32_t)part[2],
             (uint32_t)part[3]};
  return true;
}

static bool get_record(Reader *r, const PackRecord *record, char *to);

static bool get_element(Reader *r, const PackField *f, const char *in, char *to) {
  int64_t i;
  switch (f->kind) {
  case PACK_INT:
  case PACK_BOOL: return get_number(r, f, to);
  case PACK_REAL:
    if (r->n - r->at < sizeof(double)) return ends_early(r);
    memcpy(to, r->bytes + r->at, sizeof(double));
    r->at += sizeof(double);
    return true;
  case PACK_TEXT:
    if (!get_int(r, &i)) return false;
    if (i < 0 || i > r->ntexts) return refuse(r, "has no text %lld", (long long)i);
    if (i) memcpy(to, &r->text[i - 1], f->bytes);
    return true;
  case PACK_POS: {
    Pos p;
    if (!get_place(r, &p)) return false;
    memcpy(to, &p, sizeof p);
    return true;
  }
  case PACK_RECORD:
  case PACK_CHOICE: return get_record(r, record_of(f, in), to);
  case PACK_LEFT: break;
  }
  return true;
}

// Sets *to to the address of the elements at a pointer, or to NULL.
static bool get_pointer(Reader *r, const PackField *f, const char *in, char **to) {
  int64_t given, n = count_of(&r->scope, f, in);
  *to = NULL;
  if (!get_int(r, &given)) return false;
  if (!given) return f->n || n <= 0 || f->count == COUNT_ONE || refuse(r, "has no %s", f->name);
  if (given != 1) return refuse(r, "has a broken pointer as %s", f->name);
  if (n < 0 || (uint64_t)n > r->n - r->at)
    return refuse(r, "claims %lld elements of %s", (long long)n, f->name);
  *to = arena_alloc(r->arena, (size_t)(n + 1) * f->bytes);
  return true;
}

static bool get_field(Reader *r, const PackField *f, char *in) {
  char *at = in + f->at;
  if (f->kind == PACK_LEFT) return true;
  if (f->place == PLACE_POINTER) {
    char *elements;
    if (!get_pointer(r, f, in, &elements)) return false;
    memcpy(at, &elements, sizeof elements);
    if (!elements) return true;
    at = elements;
  }
  int64_t n = count_of(&r->scope, f, in);
  for (int64_t i = 0; i < n; i++)
    if (!get_element(r, f, in, at + (size_t)i * f->bytes)) return false;
  return true;
}

static bool get_record(Reader *r, const PackRecord *record, char *to) {
  if (!record) return true;
  enter(&r->scope, record, to);
  for (uint32_t i = 0; i < record->n; i++)
    if (!get_field(r, &record->field[i], to)) return false;
  return true;
}

bool pack_read(Arena *a, Intern *names, const PackRecord *root, const char *bytes, size_t n,
               Diag *d, void *to, char *why) {
  Reader r = {.arena = a, .names = names, .bytes = bytes, .n = n, .why = why};
  uint64_t layout;
  if (n < sizeof layout) return ends_early(&r);
  memcpy(&layout, bytes, sizeof layout);
  r.at = sizeof layout;
  if (layout != pack_layout(root)) return refuse(&r, "is of another version of meshc");
  memset(to, 0, root->bytes);
  if (!get_lists(&r, d) || !get_record(&r, root, to)) return false;
  return r.at == n || refuse(&r, "has %zu bytes too many", n - r.at);
}
