// Programs in the compile cache. Two runs of the same model differ only in their data: the passes
// between the selected graph and the program give the same again. So a run keeps its program, and a
// later one reads it.
//
// In: a Program and the key of its machine code. An entry is a file of the cache like those with
// code (cache.c), and listed, limited in size and removed together with them:
//
//   key of the machine code   predicted seconds of a step, f64   the program (ir/program/pack.h)
#include "codegen/codegen.h"
#include "codegen/cpu/cache_internal.h"
#include "compiler_hash.h" // made by the build from the sources of the passes
#include "ir/program/pack.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = HASH_BYTES + (int)sizeof(double) };

ProgramKey program_key(const char *question, size_t n, const CodeOptions *opt) {
  Hash h;
  ProgramKey key;
  Arena *a = arena_new();
  hash_start(&h);
  hash_text(&h, "program " COMPILER_HASH);
  hash_target(&h, a, opt);
  hash_add(&h, question, n);
  hash_end(&h, key.byte);
  arena_free(a);
  return key;
}

static const char *source_name(void *diag, uint32_t source) {
  return diag_source_name(diag, source);
}

void program_keep(const ProgramKey *key, const Program *p, double predicted, const Code *c,
                  const CodeOptions *opt, Diag *d) {
  size_t n;
  char *packed = pack_write(&pack_of_program, p, source_name, d, &n);
  Bytes entry = {mem_alloc(HEAD + n + 1), HEAD + n};
  memcpy(entry.at, code_key(c), HASH_BYTES);
  memcpy(entry.at + HASH_BYTES, &predicted, sizeof predicted);
  memcpy(entry.at + HEAD, packed, n);
  cache_write(opt->cache, key->byte, 1, &entry);
  free(entry.at);
  free(packed);
}

// Reads the program of an entry. Returns NULL if it is damaged.
static Program *read_program(Arena *a, Intern *names, const Bytes *entry, Diag *d) {
  char why[PACK_WHY];
  Program *p = arena_new_of(a, Program);
  bool good = entry->n >= HEAD &&
              pack_read(a, names, &pack_of_program, entry->at + HEAD, entry->n - HEAD, d, p, why);
  return good && program_sound(p, why) ? p : NULL;
}

Program *program_recall(Arena *a, Intern *names, const ProgramKey *key, const CodeOptions *opt,
                        Diag *d, double *predicted, Code **c) {
  Bytes *kept = NULL;
  uint32_t n = cache_read(opt->cache, key->byte, &kept);
  Program *p = n == 1 ? read_program(a, names, &kept[0], d) : NULL;
  if (p) memcpy(predicted, kept[0].at + HASH_BYTES, sizeof *predicted);
  *c = p ? code_recall(p, (const uint8_t *)kept[0].at, opt) : NULL;
  for (uint32_t i = 0; i < n; i++) free(kept[i].at);
  free(kept);
  return *c ? p : NULL;
}
