// The parts of a checkpoint's manifest on which the writer and the reader must agree: names of
// fields, and the checksum at the end. Also the name of a checkpoint's folder.
#include "runtime/runtime_internal.h"
#include "runtime/train/checkpoint_folder_internal.h"

#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

const char *checkpoint_name(int64_t step, char out[STEP_NAME]) {
  snprintf(out, STEP_NAME, "step-%lld", (long long)step);
  return out;
}

// The integers of a TrainPosition and their names in the manifest: field `key` of the object `part`
// or, if that is NULL, of the manifest itself.
static const struct {
  const char *part, *key;
  size_t at;     // offset of the integer in TrainPosition
  bool optional; // the integer is 0 if a manifest does not have the field
} fields[] = {
    {NULL, "step", offsetof(TrainPosition, step), false},
    {NULL, "before", offsetof(TrainPosition, before), false},
    {NULL, "skipped", offsetof(TrainPosition, skipped), true},
    {NULL, "seed", offsetof(TrainPosition, seed), false},
    {"data", "epoch", offsetof(TrainPosition, epoch), false},
    {"data", "row", offsetof(TrainPosition, row), false},
    {"evaluation", "step", offsetof(TrainPosition, evaluated), false},
    {"evaluation", "worse", offsetof(TrainPosition, worse), false},
    {"evaluation", "best_step", offsetof(TrainPosition, best_step), false},
};

void position_put(json_t *manifest, const TrainPosition *n) {
  for (size_t i = 0; i < countof(fields); i++) {
    int64_t x;
    memcpy(&x, (const char *)n + fields[i].at, sizeof x);
    json_t *to = fields[i].part ? json_object_get(manifest, fields[i].part) : manifest;
    if (!to) json_object_set_new(manifest, fields[i].part, to = json_object());
    json_object_set_new(to, fields[i].key, json_integer(x));
  }
  json_object_set_new(json_object_get(manifest, "evaluation"), "best",
                      isfinite(n->best) ? json_real(n->best) : json_null());
}

const char *position_read(json_t *manifest, TrainPosition *out) {
  static const int64_t most = INT64_C(1) << 53; // largest value, so that no sum of two overflows
  static const char foreign[] = "is no manifest of this version of meshc";
  const json_t *best = json_object_get(json_object_get(manifest, "evaluation"), "best");
  const char *schema = json_string_value(json_object_get(manifest, "schema")), *wrong = NULL;
  if (!schema || strcmp(schema, CHECKPOINT_SCHEMA) != 0 || !best) return foreign;
  *out = (TrainPosition){.best = json_is_number(best) ? json_number_value(best) : (double)NAN};
  for (size_t i = 0; i < countof(fields); i++) {
    json_t *from = fields[i].part ? json_object_get(manifest, fields[i].part) : manifest;
    const json_t *field = json_object_get(from, fields[i].key);
    if (!field && fields[i].optional) continue;
    if (!json_is_integer(field)) return foreign;
    int64_t x = json_integer_value(field);
    memcpy((char *)out + fields[i].at, &x, sizeof x);
    bool count = fields[i].at != offsetof(TrainPosition, seed);
    if (count && (x < 0 || x > most)) wrong = "has a count that cannot be";
  }
  return wrong;
}

void manifest_end(const char *text, size_t n, char out[MANIFEST_END]) {
  snprintf(out, MANIFEST_END, " \"crc32c\": \"%08x\"\n}\n", crc32c(0, text, n));
}

bool manifest_holds(const char *text, size_t n) {
  char end[MANIFEST_END];
  size_t tail = sizeof end - 1;
  if (n < tail) return false;
  manifest_end(text, n - tail, end);
  return memcmp(text + n - tail, end, tail) == 0;
}
