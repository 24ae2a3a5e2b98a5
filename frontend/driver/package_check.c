// Checks the options of `meshc compile` that say what is written and where, before the model is
// read.
#include "frontend/driver/package_internal.h"

#include <string.h>

static const char *const kinds[] = {"package", "exe", "obj", "shared", "llvm", "asm"};

const char *package_emit_word(PackageEmit kind) { return kinds[kind]; }

bool package_emit_kind(const Session *s, int *kind) {
  return option_word(s->opt, OPTION_EMIT, countof(kinds), kinds, s->diag, kind);
}

// Returns false after an error: --emit writes a file, and -o is empty or that of a folder.
static bool names_file(const Session *s, int kind) {
  const OptionUse *use = option_use(s->opt, OPTION_PACKAGE_OUT);
  size_t n = strlen(use->text);
  if (n && (kind == EMIT_PACKAGE || use->text[n - 1] != '/')) return true;
  diag_error(s->diag, DIAG_USAGE, use->pos, "compile --emit %s writes a %s, and '%s' names none",
             kinds[kind], kind == EMIT_PACKAGE ? "folder" : "file", use->text);
  return diag_hint(s->diag, "name it: -o NAME");
}

// The ending of a file, and the kind of --emit that writes such files.
static const struct {
  const char *text;
  int kind;
} endings[] = {{".o", EMIT_OBJ},
               {".so", EMIT_SHARED},
               {".ll", EMIT_LLVM},
               {".s", EMIT_ASM},
               {".ptx", EMIT_ASM}};

// What --emit writes: "a folder", "a file that ends in .so".
static const char *written(Arena *a, int kind) {
  for (size_t i = 0; i < countof(endings); i++)
    if (endings[i].kind == kind) return arena_printf(a, "a file that ends in %s", endings[i].text);
  return kind == EMIT_EXE ? "an executable" : "a folder";
}

// Returns false after an error: -o ends as files of another kind do, for which a build would take
// it.
static bool ends_as_kind(const Session *s, int kind) {
  const OptionUse *use = option_use(s->opt, OPTION_PACKAGE_OUT);
  size_t i = 0;
  while (i < countof(endings) && !text_ends(use->text, endings[i].text)) i++;
  if (i == countof(endings) || endings[i].kind == kind) return true;
  diag_error(s->diag, DIAG_USAGE, use->pos, "--emit %s writes %s, and '%s' ends in %s", kinds[kind],
             written(s->arena, kind), use->text, endings[i].text);
  return diag_hint(s->diag, "change the ending, or write --emit %s", kinds[endings[i].kind]);
}

bool package_check(Session *s) {
  if (!option_given(s->opt, OPTION_PACKAGE_OUT)) {
    diag_error(s->diag, DIAG_USAGE, (Pos){0}, "compile writes a folder or file: name it");
    return diag_hint(s->diag, "meshc compile %s -o DIR", s->opt->argument.at[0]);
  }
  int kind;
  if (!package_emit_kind(s, &kind) || !names_file(s, kind) || !ends_as_kind(s, kind)) return false;
  if (!session_for_gpu(s) || kind != EMIT_LLVM) return true;
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_EMIT)->pos,
             "--emit llvm is for CPUs");
  return diag_hint(s->diag, "--emit asm writes PTX");
}
