#include "tests/suite/common/registers.h"

#include <stdio.h>
#include <string.h>

enum { NAME = 40, LINE = 500, UNIT = 8 }; // UNIT: threads get registers in units of so many
static const char *const capability_text[CAPABILITIES] = {"8.0", "9.0"};
static const char head[] =
    "# Registers of a thread of the kernels of the examples, for compute capability 8.0 and 9.0, "
    "and\n# bytes of shared memory of a block. Written by: build/release/suite_gpu_assemble "
    "bless\n";

// What a kernel needs.
typedef struct Figures {
  char name[NAME];
  int registers[CAPABILITIES]; // 0: not known
  int shared;
  const char *what; // example and plan
} Figures;

typedef VEC(Figures) FiguresList;

struct Registers {
  Arena *arena;
  const char *path, *versions;
  char made_with[LINE];    // the versions of the file; empty: there is no file
  FiguresList before, now; // those of the file, and those of this run
};

static Figures *find(const FiguresList *list, const char *name) {
  for (uint32_t i = 0; i < list->n; i++)
    if (!strcmp(list->at[i].name, name)) return &list->at[i];
  return NULL;
}

// -- the file -----------------------------------------------------------------------------------

// Reads a line "NAME REGISTERS REGISTERS SHARED WHAT".
static void read_line(Registers *r, const char *line) {
  Figures f = {0};
  int used = 0;
  if (sscanf(line, "%39s %d %d %d %n", f.name, &f.registers[0], &f.registers[1], &f.shared,
             &used) != 4)
    return;
  f.what = arena_text(r->arena, line + used, strcspn(line + used, "\n"));
  vec_push(r->arena, r->before) = f;
}

Registers *registers_read(Arena *a, const char *path, const char *versions) {
  Registers *r = arena_new_of(a, Registers);
  *r = (Registers){.arena = a, .path = path, .versions = versions};
  char line[LINE];
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f)) {
    if (!strncmp(line, "with ", 5))
      snprintf(r->made_with, sizeof r->made_with, "%.*s", (int)strcspn(line + 5, "\n"), line + 5);
    else if (line[0] != '#')
      read_line(r, line);
  }
  if (f) fclose(f);
  return r;
}

bool registers_write(const Registers *r) {
  FILE *f = fopen(r->path, "we");
  if (!f) return false;
  fprintf(f, "%swith %s\n", head, r->versions);
  for (uint32_t i = 0; i < r->now.n; i++) {
    const Figures *k = &r->now.at[i];
    fprintf(f, "%s %d %d %d %s\n", k->name, k->registers[0], k->registers[1], k->shared, k->what);
  }
  return fclose(f) == 0;
}

// -- what is noted ------------------------------------------------------------------------------

void registers_plans(Registers *r, const char *ptx, const char *example) {
  char line[LINE];
  FILE *f = fopen(ptx, "re");
  while (f && fgets(line, sizeof line, f) && !strncmp(line, "// ", 3)) {
    Figures k = {0};
    int used = 0;
    const char *shared = strrchr(line, ';');
    if (sscanf(line, "// %39[^:]: %n", k.name, &used) != 1 || !used || !shared) continue;
    if (sscanf(shared, "; %d bytes", &k.shared) != 1 || find(&r->now, k.name)) continue;
    k.what = arena_printf(r->arena, "%s: %.*s", example, (int)(shared - line) - used, line + used);
    vec_push(r->arena, r->now) = k;
  }
  if (f) fclose(f);
}

void registers_note(Registers *r, const char *name, int capability, int registers) {
  Figures *k = find(&r->now, name);
  if (k) k->registers[capability] = registers;
}

// -- comparison ---------------------------------------------------------------------------------

// Returns the units in which registers are given to a thread.
static int units(int registers) { return (registers + UNIT - 1) / UNIT; }

// Prints what is worse than before. Returns whether anything is.
static bool is_worse(const Figures *was, const Figures *k) {
  bool worse = k->shared > was->shared;
  if (worse)
    printf("FAIL %s (%s): %d bytes of shared memory, were %d\n", k->name, k->what, k->shared,
           was->shared);
  for (int i = 0; i < CAPABILITIES; i++) {
    if (!k->registers[i] || !was->registers[i] ||
        units(k->registers[i]) <= units(was->registers[i]))
      continue;
    printf("FAIL %s (%s): %d registers for compute capability %s, were %d\n", k->name, k->what,
           k->registers[i], capability_text[i], was->registers[i]);
    worse = true;
  }
  return worse;
}

static bool is_same(const Figures *was, const Figures *k) {
  for (int i = 0; i < CAPABILITIES; i++)
    if (k->registers[i] && k->registers[i] != was->registers[i]) return false;
  return k->shared == was->shared;
}

RegistersResult registers_compare(const Registers *r) {
  RegistersResult out = {.compared = !strcmp(r->versions, r->made_with)};
  for (uint32_t i = 0; i < r->now.n && out.compared; i++) {
    const Figures *k = &r->now.at[i], *was = find(&r->before, k->name);
    *(!was               ? &out.more
      : is_worse(was, k) ? &out.worse
      : !is_same(was, k) ? &out.better
                         : &out.same) += 1;
  }
  return out;
}
