// What a package that trains says about the model's data: its block data train, and how many steps
// the train block takes.
#include "frontend/driver/package_internal.h"
#include "frontend/driver/training.h"
#include "ir/program/pack.h"
#include "runtime/package/package.h"

#include <stdlib.h>
#include <string.h>

#define DATA_FILE "train.data"

// The name of a source of positions, without the folders of this machine.
static const char *source_name(void *context, uint32_t source) {
  const char *name = diag_source_name(((const Session *)context)->diag, source),
             *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

static bool put_block(Session *s, PackageWriter *w, const DataBlock *block) {
  size_t n;
  char *bytes = pack_write(&pack_of_data_block, block, source_name, s, &n);
  bool ok = package_put(w, DATA_FILE, bytes, n);
  free(bytes);
  return ok;
}

// Returns whether the length of the training or its learning rate depends on evaluations.
static bool evaluates(const ModelSpec *spec) {
  bool some = false;
  for (uint32_t i = 0; i < spec->ntrain; i++)
    some |= spec->train[i].stop_early || spec->train[i].schedule.kind == SCHEDULE_PLATEAU;
  return some;
}

bool package_data(Session *s, PackageWriter *w, const Graph *train, json_t **out) {
  const ModelSpec *spec = &s->model->graph->spec;
  const DataBlock *block = &spec->data[DATA_TRAIN];
  const TrainSpec *t = spec->train;
  *out = NULL;
  if (!block->present) return true;
  if (!put_block(s, w, block)) return false;
  uint32_t n;
  const char *const *shown = training_shown(s, train, &n);
  json_t *names = json_array();
  for (uint32_t i = 0; i < n; i++) json_array_append_new(names, json_text(shown[i]));
  *out = json_pack("{s:s, s:o, s:I, s:I, s:I, s:b, s:o}", "data", DATA_FILE, "rows",
                   json_text(data_over(s, DATA_TRAIN)), "steps", (json_int_t)t->steps, "epochs",
                   (json_int_t)(t->steps ? 0 : t->epochs), "log", (json_int_t)t->log, "skip",
                   t->on_nonfinite == NONFINITE_SKIP, "shown", names);
  if (evaluates(spec)) json_object_set_new(*out, "evaluates", json_true());
  if (training_has_output(train, select_skipped))
    json_object_set_new(*out, "skipped", json_string(select_skipped));
  return true;
}
