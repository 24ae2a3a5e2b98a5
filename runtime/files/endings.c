// Names of files with values: what the ending of a path says.
#include "runtime/runtime.h"

// Endings of files with values, and whether --out writes such files.
static const struct {
  const char *end;
  bool written;
} endings[] = {{".npz", true},   {".safetensors", true}, {".csv", true},  {".npy", false},
               {".json", false}, {".txt", false},        {".tsv", false}, {".h5", false},
               {".hdf5", false}, {".pt", false},         {".pkl", false}, {".parquet", false},
               {".xlsx", false}};

const char *values_ending(const char *path, bool *written) {
  for (size_t i = 0; i < countof(endings); i++) {
    if (!text_ends(path, endings[i].end)) continue;
    *written = endings[i].written;
    return endings[i].end;
  }
  return NULL;
}
