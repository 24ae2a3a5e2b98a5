// The measured machine file in the cache folder. `doctor --measure` keeps a copy of what it writes
// there, and `bench` predicts with it. Its first line says which processor, number of cores and
// version of meshc it is for. A second file, gpu.txt, has the figures of a GPU; its first line
// names the GPU and the version.
#include "frontend/driver/session.h"

#include "ir/base/disk.h"

#include <stdio.h>
#include <string.h>

const char *machine_title(const Session *s, int64_t cores) {
  if (s->gpu)
    return arena_printf(s->arena, "# measured by meshc %s doctor --measure --device cuda: %s\n",
                        MESHC_VERSION, gpu_facts(s->gpu)->name);
  return arena_printf(s->arena, "# measured by meshc %s doctor --measure: %s, %lld core%s%s\n",
                      MESHC_VERSION, code_cpu(), (long long)cores, plural(cores),
                      s->ranks ? ", processors in processes of their own" : "");
}

static const char *kept_path(Session *s) {
  const char *folder = cache_folder(s);
  return folder ? arena_printf(s->arena, "%s/%s", folder, s->gpu ? "gpu.txt" : "machine.txt")
                : NULL;
}

void machine_keep(Session *s, const char *text) {
  const char *path = kept_path(s);
  // Without the copy, bench predicts with the built-in figures.
  bool kept = path && !s->ranks && disk_write_file(path, text, strlen(text), true);
  (void)kept;
}

const char *machine_kept(Session *s, int64_t cores, Machine *out) {
  // The kept figures of a GPU are those of all processors on it; ranks have a GPU each.
  if (s->gpu && s->ranks) return NULL;
  const char *path = kept_path(s), *title = machine_title(s, cores);
  char line[256] = "";
  FILE *f = path ? mem_fopen(path, "re") : NULL;
  bool same = f && fgets(line, sizeof line, f) && strcmp(line, title) == 0;
  if (f) fclose(f);
  Machine m = machine_default();
  if (!same || !machine_read(&m, diag_new(s->arena), path)) return NULL;
  m.tf32 = s->machine.tf32;
  *out = m;
  return path;
}
