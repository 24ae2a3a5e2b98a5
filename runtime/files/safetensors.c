// The safetensors format: a number N in 8 bytes, N bytes of JSON, then the tensors without gaps.
//
//   {"__metadata__": {...}, "w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}}
//
// Everything that the format forbids is an error: overlaps, gaps, trailing bytes, duplicate keys.
// Tensors may be spread over several files, called shards. Then an index file
// NAME.safetensors.index.json has an object weight_map with the shard of each tensor.
#include "runtime/runtime_internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MAX = 100000000, SHOWN = 60 };

// Returns the number of bits of an element of type `name`, for types of the safetensors format that
// meshc does not support. Returns 0 if the format has no such type.
static int other_bits(const char *name) {
  static const struct {
    const char *name;
    int bits;
  } other[] = {{"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
               {"F8_E5M2", 8},     {"F8_E4M3", 8},     {"F8_E8M0", 8},
               {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"C64", 64}};
  for (size_t i = 0; i < countof(other); i++)
    if (strcmp(other[i].name, name) == 0) return other[i].bits;
  return 0;
}

typedef struct TensorEntry {
  const char *name, *type;
  ArrayPlace place;
  int64_t begin, end;
  bool usable; // meshc can read the element type
} TensorEntry;

typedef struct Header {
  json_t *json;
  int64_t data; // offset in the file at which the tensors begin
  size_t n;
  TensorEntry *entry;
} Header;

static void header_free(Header *h) {
  json_decref(h->json);
  free(h->entry);
}

static bool read_json(const Datafile *f, Header *h, char *why) {
  unsigned char b[8];
  if (f->size < 8)
    return why_not(why, "has %lld bytes, too few for a safetensors file", (long long)f->size);
  if (!datafile_read(f, 0, 8, b, why)) return false;
  uint64_t n = 0;
  for (int i = 7; i >= 0; i--) n = n << 8 | b[i];
  if (n > HEADER_MAX || (int64_t)n > f->size - 8)
    return why_not(why, "claims a header of %llu bytes in a file of %lld", (unsigned long long)n,
                   (long long)f->size);
  char *text = mem_alloc(n + 1);
  json_error_t e;
  bool ok = datafile_read(f, 8, (int64_t)n, text, why);
  if (ok && (n == 0 || text[0] != '{'))
    ok = why_not(why, "has a header that does not begin with '{'");
  if (ok) {
    h->json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (!h->json)
      ok = why_not(why, "has a broken header at byte %d: %.120s", 8 + e.position, e.text);
  }
  free(text);
  h->data = 8 + (int64_t)n;
  return ok;
}

static bool check_metadata(json_t *m, char *why) {
  const char *key;
  json_t *value;
  if (!json_is_object(m)) return why_not(why, "has a __metadata__ that is not an object");
  json_object_foreach(m, key, value) if (!json_is_string(value)) return why_not(
      why, "has a __metadata__ entry that is not a text");
  return true;
}

static bool read_shape(json_t *shape, TensorEntry *e, char *why) {
  if (!json_is_array(shape)) return why_not(why, "has no shape for '%.*s'", SHOWN, e->name);
  if (json_array_size(shape) > MAX_RANK)
    return why_not(why, "has more than %d axes in '%.*s'", MAX_RANK, SHOWN, e->name);
  e->place.rank = (int)json_array_size(shape);
  for (int i = 0; i < e->place.rank; i++) {
    json_t *n = json_array_get(shape, (size_t)i);
    if (!json_is_integer(n) || json_integer_value(n) < 0)
      return why_not(why, "has a bad shape for '%.*s'", SHOWN, e->name);
    e->place.size[i] = json_integer_value(n);
  }
  return place_count(&e->place) ||
         why_not(why, "claims more than 2^40 elements for '%.*s'", SHOWN, e->name);
}

static bool read_entry(const Datafile *f, const Header *h, json_t *v, TensorEntry *e, char *why) {
  const char *type = json_string_value(json_object_get(v, "dtype"));
  json_t *offsets = json_object_get(v, "data_offsets");
  if (!type || json_object_size(v) != 3 || json_array_size(offsets) != 2)
    return why_not(why, "has a broken entry for '%.*s'", SHOWN, e->name);
  if (!read_shape(json_object_get(v, "shape"), e, why)) return false;
  int bits = other_bits(type);
  e->type = type;
  const RawNames *known = raw_of_safetensors(type);
  if (known) {
    e->place.raw = known->raw;
    e->usable = true;
    bits = 8 * known->raw.bytes;
  }
  if (bits == 0)
    return why_not(why, "has elements of unknown type %.20s in '%.*s'", type, SHOWN, e->name);
  json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (!json_is_integer(begin) || !json_is_integer(end))
    return why_not(why, "has bad offsets for '%.*s'", SHOWN, e->name);
  e->begin = json_integer_value(begin);
  e->end = json_integer_value(end);
  if (e->begin < 0 || e->end < e->begin || e->end > f->size - h->data)
    return why_not(why, "has '%.*s' outside the file: bytes %lld to %lld of its %lld", SHOWN,
                   e->name, (long long)(h->data + clamp64(e->begin, INT64_MIN / 2, INT64_MAX / 2)),
                   (long long)(h->data + clamp64(e->end, INT64_MIN / 2, INT64_MAX / 2)),
                   (long long)f->size);
  if (e->end - e->begin > INT64_C(1) << 50 || (e->end - e->begin) * 8 != e->place.elements * bits)
    return why_not(why, "has %lld bytes at byte %lld for '%.*s' and not those of its shape",
                   (long long)(e->end - e->begin), (long long)(h->data + e->begin), SHOWN, e->name);
  e->place.offset = h->data + e->begin;
  return true;
}

static int by_offset(const void *a, const void *b) {
  const TensorEntry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static bool check_layout(const Datafile *f, const Header *h, char *why) {
  int64_t at = 0;
  for (size_t i = 0; i < h->n; i++) {
    const TensorEntry *e = &h->entry[i];
    if (e->begin != at)
      return why_not(why, "has %s before '%.*s' at byte %lld",
                     e->begin < at ? "an overlap" : "a hole", SHOWN, e->name,
                     (long long)(h->data + e->begin));
    at = e->end;
  }
  return at == f->size - h->data ||
         why_not(why, "has %lld bytes that belong to no tensor, from byte %lld",
                 (long long)(f->size - h->data - at), (long long)(h->data + at));
}

static bool header_read(const Datafile *f, Header *h, char *why) {
  *h = (Header){0};
  const char *key;
  json_t *value;
  bool ok = read_json(f, h, why);
  if (ok) h->entry = mem_zeroed(json_object_size(h->json) + 1, sizeof *h->entry);
  if (ok) json_object_foreach(h->json, key, value) {
      if (!ok) break;
      if (strcmp(key, "__metadata__") == 0) {
        ok = check_metadata(value, why);
        continue;
      }
      TensorEntry *e = &h->entry[h->n++];
      e->name = key;
      ok = read_entry(f, h, value, e, why);
    }
  if (ok && h->n) qsort(h->entry, h->n, sizeof *h->entry, by_offset);
  if (ok && check_layout(f, h, why)) return true;
  header_free(h);
  return false;
}

bool safetensors_find(const Datafile *f, const char *key, ArrayPlace *out, char *why) {
  Header h;
  if (!header_read(f, &h, why)) return false;
  bool ok = false;
  why_not(why, "has no tensor '%.*s'", SHOWN, key);
  for (size_t i = 0; i < h.n; i++) {
    if (strcmp(h.entry[i].name, key) != 0) continue;
    *out = h.entry[i].place;
    ok = h.entry[i].usable ||
         why_not(why, "holds '%.*s' in an element type that cannot be read", SHOWN, key);
  }
  header_free(&h);
  return ok;
}

bool safetensors_names(Arena *a, const Datafile *f, const char ***out, char *why) {
  Header h;
  if (!header_read(f, &h, why)) return false;
  const char **names = arena_array(a, const char *, h.n + 1);
  for (size_t i = 0; i < h.n; i++)
    names[i] = arena_text(a, h.entry[i].name, strlen(h.entry[i].name));
  *out = names;
  header_free(&h);
  return true;
}

static void list_metadata(Arena *a, json_t *m, ArrayList *out) {
  const char *key;
  json_t *value;
  out->text = arena_array(a, ArrayText, json_object_size(m) + 1);
  json_object_foreach(m, key, value) {
    const char *text = json_string_value(value);
    out->text[out->ntexts++] =
        (ArrayText){arena_text(a, key, strlen(key)), arena_text(a, text, strlen(text))};
  }
}

bool safetensors_list(Arena *a, const Datafile *f, ArrayList *out, char *why) {
  Header h;
  if (!header_read(f, &h, why)) return false;
  out->at = arena_array(a, ArrayInfo, h.n + 1);
  for (size_t i = 0; i < h.n; i++) {
    const TensorEntry *e = &h.entry[i];
    ArrayInfo *x = &out->at[out->n++];
    *x = (ArrayInfo){.name = arena_text(a, e->name, strlen(e->name)),
                     .type = e->usable ? raw_names(e->place.raw)->text
                                       : arena_text(a, e->type, strlen(e->type)),
                     .usable = e->usable,
                     .rank = e->place.rank,
                     .elements = e->place.elements,
                     .bytes = e->end - e->begin};
    memcpy(x->size, e->place.size, sizeof x->size);
  }
  list_metadata(a, json_object_get(h.json, "__metadata__"), out);
  header_free(&h);
  return true;
}

// -- sets of shards -----------------------------------------------------------------------------

static json_t *load_map(const char *path, json_t **root, char *why) {
  json_error_t e;
  *root = json_load_file(path, JSON_REJECT_DUPLICATES, &e);
  if (!*root) {
    why_not(why, "is no JSON: line %d: %.120s", e.line, e.text);
    return NULL;
  }
  json_t *map = json_object_get(*root, "weight_map");
  if (!json_is_object(map)) why_not(why, "has no weight_map");
  return json_is_object(map) ? map : NULL;
}

char *safetensors_shard(const char *index_path, const char *key, char *why) {
  json_t *root, *map = load_map(index_path, &root, why);
  const char *file = json_string_value(json_object_get(map, key));
  char *out = NULL;
  if (map && !file) {
    why_not(why, "has no tensor '%.*s'", SHOWN, key);
  } else if (file && (strchr(file, '/') || strcmp(file, "..") == 0)) {
    why_not(why, "names a shard outside its directory");
  } else if (file) {
    const char *slash = strrchr(index_path, '/');
    char *directory = slash ? mem_text_n(index_path, (size_t)(slash - index_path)) : NULL;
    out = path_under(slash == index_path ? "/" : directory, file);
    free(directory);
  }
  json_decref(root);
  return out;
}

bool safetensors_index_names(Arena *a, const char *path, const char ***out, char *why) {
  json_t *root, *map = load_map(path, &root, why), *value;
  const char *key;
  VEC(const char *) names = {0};
  if (map)
    json_object_foreach(map, key, value) vec_push(a, names) = arena_text(a, key, strlen(key));
  vec_push(a, names) = NULL;
  *out = names.at;
  json_decref(root);
  return map != NULL;
}
