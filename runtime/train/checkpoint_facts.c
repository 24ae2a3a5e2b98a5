// What the first run has found about sources of data (SourceFacts), in the manifest of a
// checkpoint:
//   "sources": [{"input": "x", "mean": [5.8, 3.1]}, {"input": "kind", "classes": ["elm", "oak"]}]
// The name of a class that is no UTF-8 is a list of its bytes.
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <jansson.h>
#include <string.h>

static json_t *name_json(const char *name) {
  json_t *text = json_string(name);
  if (text) return text;
  text = json_array();
  for (const char *c = name; *c; c++) json_array_append_new(text, json_integer((unsigned char)*c));
  return text;
}

void facts_put(json_t *manifest, uint32_t n, const SourceFacts *facts) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < n; i++) {
    json_t *one = json_object(), *mean = json_array(), *classes = json_array();
    for (uint32_t k = 0; k < facts[i].nmeans; k++)
      json_array_append_new(mean, json_real(facts[i].mean[k]));
    for (uint32_t k = 0; k < facts[i].nclasses; k++)
      json_array_append_new(classes, name_json(facts[i].class_name[k]));
    json_object_set_new(one, "input", json_string(facts[i].input));
    if (facts[i].nmeans) json_object_set(one, "mean", mean);
    if (facts[i].nclasses) json_object_set(one, "classes", classes);
    json_decref(mean);
    json_decref(classes);
    json_array_append_new(list, one);
  }
  if (n) json_object_set(manifest, "sources", list);
  json_decref(list);
}

static const char *name_of(Arena *a, json_t *x) {
  const char *text = json_string_value(x);
  if (text) return arena_text(a, text, strlen(text));
  size_t n = json_array_size(x);
  char *bytes = arena_array(a, char, n + 1);
  for (size_t i = 0; i < n; i++) bytes[i] = (char)json_integer_value(json_array_get(x, i));
  return bytes;
}

uint32_t facts_read(Arena *a, json_t *manifest, const SourceFacts **out) {
  json_t *list = json_object_get(manifest, "sources");
  size_t n = json_array_size(list);
  SourceFacts *facts = arena_array(a, SourceFacts, n + 1);
  for (size_t i = 0; i < n; i++) {
    json_t *one = json_array_get(list, i), *mean = json_object_get(one, "mean"),
           *classes = json_object_get(one, "classes");
    uint32_t nmeans = (uint32_t)json_array_size(mean),
             nclasses = (uint32_t)json_array_size(classes);
    double *value = arena_array(a, double, nmeans + 1);
    const char **name = arena_array(a, const char *, nclasses + 1);
    for (uint32_t k = 0; k < nmeans; k++) value[k] = json_number_value(json_array_get(mean, k));
    for (uint32_t k = 0; k < nclasses; k++) name[k] = name_of(a, json_array_get(classes, k));
    facts[i] =
        (SourceFacts){name_of(a, json_object_get(one, "input")), nmeans, nclasses, value, name};
  }
  *out = facts;
  return (uint32_t)n;
}
