// The option --against of `explain`: makes the session of the other step from the words of the
// option, and compares it with the step that is explained. Words that begin with `-` are options,
// which replace those of the command line. A first word that is no option is a layout if it has a
// `=`, `:` or `>` (b=rows, head.*/b:rows) or no dot; else it is a model file.
#include <string.h>

#include "frontend/report/compare.h"

enum { MOST_WORDS = 64 };

// Splits a text at blanks into at most MOST_WORDS words in arena `a`. Returns their number, or -1
// if there are more.
static int words_of(Arena *a, const char *text, char *word[MOST_WORDS]) {
  int n = 0;
  for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
    size_t length = strcspn(text, " ");
    if (n == MOST_WORDS) return -1;
    word[n++] = arena_text(a, text, length);
    text += length;
  }
  return n;
}

static bool is_model(const char *word) {
  return (strchr(word, '.') && !strpbrk(word, "=:>")) || !strcmp(word, "-");
}

// Writes the command line of the other step to argv: the options of `use`, and the model that it
// names or that of s. Returns its length, or -1 after an error.
static int command_line(const Session *s, const OptionUse *use, char *argv[MOST_WORDS + 4]) {
  static char program[] = "meshc", command[] = "explain", layout[] = "--layout";
  char *word[MOST_WORDS];
  int n = words_of(s->arena, use->text, word), argc = 0;
  if (n <= 0) {
    diag_error(s->diag, DIAG_USAGE, use->pos, "--against takes a layout, a model or options");
    diag_hint(s->diag, "write --against \"b=rows,h=cols\" or --against \"--mesh p=8\"");
    return -1;
  }
  argv[argc++] = program;
  argv[argc++] = command;
  if (word[0][0] != '-' && !is_model(word[0])) argv[argc++] = layout;
  for (int i = 0; i < n; i++) argv[argc++] = word[i];
  return argc;
}

// Sets *out to the options of the other step: those of s, replaced where --against gives them.
// Further uses of --set are added. Returns false after an error.
static bool other_options(const Session *s, Options *out) {
  const OptionUse *use = option_use(s->opt, OPTION_AGAINST);
  char *argv[MOST_WORDS + 4];
  Options given = {0};
  int argc = command_line(s, use, argv);
  const char *model = s->opt->argument.at[0];
  if (argc < 0) return false;
  argv[argc++] = arena_text(s->arena, model, strlen(model)); // counts if no other model is given
  if (!options_parse(&given, s->arena, s->diag, argc, argv)) return false;
  *out = *s->opt;
  out->argument = given.argument;
  for (int id = 0; id < OPTION_COUNT; id++) {
    if (!given.use[id].n) continue;
    if (id != OPTION_SET) out->use[id] = given.use[id];
    for (uint32_t i = 0; id == OPTION_SET && i < given.use[id].n; i++)
      vec_push(s->arena, out->use[id]) = given.use[id].at[i];
  }
  return true;
}

bool explain_against(Session *s, Explain *e) {
  Options *options = arena_new_of(s->arena, Options);
  Session *other = arena_new_of(s->arena, Session);
  Compilation *c = arena_new_of(s->arena, Compilation);
  Selected *of = arena_new_of(s->arena, Selected);
  if (!other_options(s, options)) return false;
  *other = (Session){.arena = s->arena,
                     .names = s->names,
                     .diag = s->diag,
                     .opt = options,
                     .trial = true,
                     .inject = s->inject};
  if (session_from_stdin(s) && session_from_stdin(other)) {
    other->text = s->text;
    other->text_bytes = s->text_bytes;
  }
  if (!session_load(other) || !session_make(other, "program", of, c)) return false;
  const Explain *sides[SIDES] = {e, explain_new(other, c, of, (WhatIfAsk){.depth = WHAT_IF_RULES})};
  if (!sides[1]) return false;
  e->against = compare_steps(s->arena, sides);
  return true;
}

void explain_two_machines(Session *s) {
  uint32_t n = s->opt->use[OPTION_MACHINE].n;
  if (n < 2 || option_given(s->opt, OPTION_AGAINST)) return;
  Options *one = arena_new_of(s->arena, Options);
  OptionUse other = s->opt->use[OPTION_MACHINE].at[n - 1];
  *one = *s->opt;
  one->use[OPTION_MACHINE].n = 1;
  other.text = arena_printf(s->arena, "%s %s", option_name(OPTION_MACHINE), other.text);
  vec_push(s->arena, one->use[OPTION_AGAINST]) = other;
  s->opt = one;
}
