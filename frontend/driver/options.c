// Parses the command line by the table options.def, and prints the help text from the same rows.
// Input: argv. Output: Options (options.h), which the session and the commands read.
#include "frontend/driver/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const CommandRow command_row[COMMAND_COUNT] = {
#define COMMAND(id, name, arguments, help, run, example, other)                                    \
  {name, arguments, help, {example, other}},
#include "frontend/driver/options.def"
#undef COMMAND
};

#define ON(id) (1u << COMMAND_##id)
#define MODELS                                                                                     \
  (ON(CHECK) | ON(RUN) | ON(TRAIN) | ON(EVAL) | ON(PREDICT) | ON(DATA) | ON(GENERATE) |            \
   ON(COMPILE) | ON(DUMP) | ON(EXPLAIN) | ON(BENCH) | ON(PLAN))
const OptionRow option_row[OPTION_COUNT] = {
#define OPTION(id, name, letter, argument, commands, help) {name, argument, help, letter, commands},
#include "frontend/driver/options.def"
#undef OPTION
};

bool option_shared(OptionId id) { return option_row[id].commands == MODELS; }
const char *option_name(OptionId id) { return option_row[id].name; }
bool option_of_models(const char *name, OptionId *out) {
  for (int i = 0; i < OPTION_COUNT; i++) {
    *out = (OptionId)i;
    if ((option_row[i].commands & MODELS) == MODELS && strcmp(option_row[i].name + 2, name) == 0)
      return true;
  }
  return false;
}

const char *command_name(CommandId id) { return command_row[id].name; }

// -- parsing ------------------------------------------------------------------------------------

// Names that options have in other programs, the commands to which a hint applies, and what is
// written here.
#define TRAINING                                                                                   \
  (ON(CHECK) | ON(TRAIN) | ON(COMPILE) | ON(DUMP) | ON(EXPLAIN) | ON(BENCH) | ON(PLAN))
static const struct {
  const char *name;
  uint32_t commands;
  const char *here;
} usual[] = {
    {"--epochs", TRAINING, "--set train.epochs=N"},
    {"--steps", TRAINING, "--set train.steps=N"},
    {"--lr", TRAINING, "--set train.optimizer.lr=X"},
    {"--learning-rate", TRAINING, "--set train.optimizer.lr=X"},
    {"--batch-size", MODELS, "--set b=N, if b is the dim of the batch"},
    {"--gpu", MODELS, "--device cuda"},
    {"--output", ON(RUN) | ON(PREDICT) | ON(EXPLAIN) | ON(TOKENIZE) | ON(COMPILE), "--out"},
    {"--output", ON(TRAIN), "--save-params FILE.safetensors, or --checkpoint-dir DIR"},
    {"--out", ON(TRAIN), "--save-params FILE.safetensors, or --checkpoint-dir DIR"},
    {"--save", ON(TRAIN), "--save-params FILE.safetensors, or --checkpoint-dir DIR"},
};

// Says what to write in place of an option that the command lacks.
static bool say_usual(Diag *d, const Options *o, const char *given) {
  bool sets = option_row[OPTION_SET].commands & 1u << o->command;
  for (size_t i = 0; i < countof(usual); i++)
    if (strcmp(given, usual[i].name) == 0 && (usual[i].commands & 1u << o->command))
      return diag_hint(d, "write %s", usual[i].here);
  return diag_hint(d, "see meshc %s --help%s", command_name(o->command),
                   sets ? "; keys of the model are changed with --set, as in --set train.epochs=3"
                        : "");
}

static bool unknown_option(Diag *d, const Options *o, const char *text, size_t n) {
  const char *names[OPTION_COUNT + 1];
  size_t known = 0;
  for (int i = 0; i < OPTION_COUNT; i++)
    if (option_row[i].help && (option_row[i].commands & 1u << o->command))
      names[known++] = option_row[i].name;
  names[known++] = "--help";
  const char *given = text;
  char start[64];
  if (n < sizeof start) {
    memcpy(start, text, n);
    start[n] = '\0';
    given = start;
  }
  diag_error(d, DIAG_UNKNOWN_OPTION, (Pos){0}, "unknown option '%s' for %s", given,
             command_name(o->command));
  if (text_nearest(given, names, known)) return diag_nearest(d, given, names, known);
  return say_usual(d, o, given);
}

// Finds the row of the option table that `text`, n bytes, names for a command, by its long or short
// form. Two rows may share a name if no command has both. If no row belongs to the command, finds
// the last row of that name, for the error message. Returns false if no row has the name.
static bool find_option(CommandId command, const char *text, size_t n, OptionId *out) {
  bool found = false;
  for (int i = 0; i < OPTION_COUNT; i++) {
    const OptionRow *row = &option_row[i];
    bool is_long = strlen(row->name) == n && memcmp(row->name, text, n) == 0;
    bool is_short = row->letter && n == 2 && text[0] == '-' && text[1] == row->letter;
    if (!is_long && !is_short) continue;
    *out = (OptionId)i;
    if (row->commands & 1u << command) return true;
    found = true;
  }
  return found;
}

static Pos option_source(Diag *d, const char *name, const char *text) {
  uint32_t n = (uint32_t)strlen(text);
  return (Pos){.source = diag_source(d, name, text, n), .line = 1, .col = 1, .len = n ? n : 1};
}

// Parses the option at argv[*i] with its argument, which follows `=` or is the next word. Advances
// *i to the last word that belongs to the option. Returns false after an error.
static bool parse_option(Options *o, Arena *a, Diag *d, int argc, char **argv, int *i) {
  const char *text = argv[*i], *equals = text[1] == '-' ? strchr(text, '=') : NULL;
  size_t n = equals ? (size_t)(equals - text) : strlen(text);
  OptionId id;
  if (!find_option(o->command, text, n, &id)) return unknown_option(d, o, text, n);
  const OptionRow *row = &option_row[id];
  if (!(row->commands & 1u << o->command)) {
    diag_error(d, DIAG_USAGE, (Pos){0}, "%s is not an option of %s", row->name,
               command_name(o->command));
    return say_usual(d, o, row->name);
  }
  if (equals && !row->argument)
    return diag_error(d, DIAG_USAGE, (Pos){0}, "%s takes no argument", row->name);
  OptionUse use = {.text = equals ? equals + 1 : ""};
  // --resume[=N]: an optional argument follows only after `=`, because the next word may be a file
  bool two = id == OPTION_FROM, optional = row->argument && row->argument[0] == '[';
  if (row->argument && !optional && *i + !equals + two >= argc)
    return diag_error(d, DIAG_USAGE, (Pos){0}, "%s needs an argument: %s %s", row->name, row->name,
                      row->argument);
  if (row->argument && !equals && !optional) use.text = argv[++*i];
  if (two) use.second = argv[++*i];
  if (row->argument && (equals || !optional)) use.pos = option_source(d, row->name, use.text);
  vec_push(a, o->use[id]) = use;
  return true;
}

bool command_find(const char *name, Diag *d, CommandId *out) {
  const char *names[COMMAND_COUNT + 2] = {[COMMAND_COUNT] = "--help", "--version"};
  for (int i = 0; i < COMMAND_COUNT; i++) {
    names[i] = command_row[i].name;
    *out = (CommandId)i;
    if (strcmp(name, names[i]) == 0) return true;
  }
  diag_error(d, DIAG_USAGE, (Pos){0}, "unknown command '%s'", name);
  size_t n = strlen(name);
  if (n > 5 && strcmp(name + n - 5, ".mesh") == 0)
    return diag_hint(d, "name what to do first: meshc check %s, or meshc train %s", name, name);
  return diag_nearest(d, name, names, countof(names));
}

static bool asks_help(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
  return false;
}

// Returns the name of the switch after which argument `word` of argv stands; NULL if there is none.
static const char *switch_before(CommandId command, char **argv, const char *word) {
  OptionId id;
  int i = 2;
  while (argv[i] != word) i++;
  const char *before = argv[i - 1];
  bool found = before[0] == '-' && find_option(command, before, strlen(before), &id);
  return found && !option_row[id].argument ? option_row[id].name : NULL;
}

// Checks the number of arguments against those that the command takes: "MODEL [NAME]" means one or
// two, "[COMMAND]" none or one. Returns false after an error.
static bool count_arguments(const Options *o, Diag *d, char **argv) {
  const char *form = command_row[o->command].arguments;
  uint32_t most = *form ? 1 : 0, least = most && *form != '[';
  for (const char *c = form; *c; c++) most += *c == ' ';
  if (option_given(o, OPTION_FROM)) least = 0;
  if (o->argument.n >= least && o->argument.n <= most) return true;
  if (o->argument.n < least)
    diag_error(d, DIAG_USAGE, (Pos){0}, "%s needs a %s", command_name(o->command),
               strncmp(form, "MODEL", 5) == 0  ? "model file"
               : strncmp(form, "NAME", 4) == 0 ? "name"
                                               : "file");
  else
    diag_error(d, DIAG_USAGE, (Pos){0}, "%s does not take '%s'", command_name(o->command),
               o->argument.at[most]);
  const char *more = o->argument.n > most ? o->argument.at[most] : "";
  if (*more && option_given(o, OPTION_RESUME) && !more[strspn(more, "0123456789")])
    return diag_hint(d, "the step follows '=': --resume=%s", more);
  const char *taken_for = *more ? switch_before(o->command, argv, more) : NULL;
  if (taken_for) return diag_hint(d, "%s takes no argument", taken_for);
  return diag_hint(d, "see meshc %s --help", command_name(o->command));
}

bool options_parse(Options *out, Arena *a, Diag *d, int argc, char **argv) {
  *out = (Options){.command = COMMAND_COUNT, .help = asks_help(argc, argv)};
  if (argv[1][0] == '-' && out->help) return true;
  bool version = strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0;
  if (!command_find(version ? "version" : argv[1], d, &out->command)) return false;
  diag_command(d, command_name(out->command));
  bool good = true, plain = false;
  if (out->help) return true;
  for (int i = 2; i < argc; i++) {
    if (!plain && strcmp(argv[i], "--") == 0)
      plain = true;
    else if (!plain && argv[i][0] == '-' && argv[i][1])
      good &= parse_option(out, a, d, argc, argv, &i);
    else
      vec_push(a, out->argument) = argv[i];
  }
  return good && count_arguments(out, d, argv);
}

// -- values -------------------------------------------------------------------------------------

const OptionUse *option_use(const Options *o, OptionId id) {
  uint32_t n = o->use[id].n;
  return n ? &o->use[id].at[n - 1] : NULL;
}

const char *option_text(const Options *o, OptionId id) {
  const OptionUse *use = option_use(o, id);
  return use ? use->text : NULL;
}

bool option_integer(const Options *o, OptionId id, int64_t otherwise, int64_t low, int64_t high,
                    Diag *d, int64_t *out) {
  const OptionUse *use = option_use(o, id);
  *out = otherwise;
  if (!use) return true;
  char *end;
  errno = 0;
  *out = strtoll(use->text, &end, 10);
  if (*use->text && !*end && !errno && *out >= low && *out <= high) return true;
  return diag_error(d, DIAG_USAGE, use->pos, "%s takes an integer from %lld to %lld, not '%s'",
                    option_name(id), (long long)low, (long long)high, use->text);
}

bool option_word(const Options *o, OptionId id, int n, const char *const *word, Diag *d, int *out) {
  const OptionUse *use = option_use(o, id);
  for (*out = 0; use && *out < n && strcmp(word[*out], use->text) != 0;) ++*out;
  if (*out < n) return true;
  diag_error(d, DIAG_USAGE, use->pos, "%s takes %s, not '%s'", option_name(id),
             option_row[id].argument, use->text);
  return diag_nearest(d, use->text, word, (size_t)n) && false;
}

bool option_form(const Options *o, Diag *d, Form *out) {
  static const char *const words[] = {"text", "json", "dot", "html"};
  int word;
  if (!option_word(o, OPTION_FORMAT, countof(words), words, d, &word)) return false;
  *out = (Form)word;
  return true;
}

// -- help ---------------------------------------------------------------------------------------

static void print_option(FILE *out, const OptionRow *row) {
  char left[64], letter[8] = "";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(left, sizeof left, "%s%s%s%s", letter, row->name,
           row->argument && row->argument[0] != '[' ? " " : "", row->argument ? row->argument : "");
  fprintf(out, "  %-25s %s\n", left, row->help);
}

// Prints under `title` the options of the commands in `commands` (a set of bits, as in OptionRow).
// With `shared` prints those options that all commands on models have, without `shared` the others.
static void print_options(FILE *out, const char *title, uint32_t commands, bool shared) {
  bool first = true;
  for (int i = 0; i < OPTION_COUNT; i++) {
    const OptionRow *row = &option_row[i];
    if (!(row->commands & commands) || option_shared((OptionId)i) != shared) continue;
    if (first) fprintf(out, "%s\n", title);
    first = false;
    print_option(out, row);
  }
}

void help_program(FILE *out) {
  fprintf(out, "meshc compiles tensor programs with named dims for a mesh of processors.\n"
               "usage: meshc COMMAND MODEL [options]        meshc COMMAND --help\ncommands\n");
  for (int i = 0; i < COMMAND_COUNT; i++)
    fprintf(out, "  %-9s %s\n", command_row[i].name, command_row[i].help);
  print_options(out, "options of all commands that read a model", MODELS, true);
  fprintf(out, "examples\n  meshc %s\n  meshc %s\n", command_row[COMMAND_CHECK].example[0],
          command_row[COMMAND_TRAIN].example[0]);
}

void help_command(FILE *out, CommandId id) {
  const CommandRow *row = &command_row[id];
  fprintf(out, "meshc %s: %s\nusage: meshc %s%s%s [options]\n", row->name, row->help, row->name,
          *row->arguments ? " " : "", row->arguments);
  print_options(out, "options", 1u << id, false);
  print_options(out, "options of all commands that read a model", 1u << id, true);
  fprintf(out, "examples\n  meshc %s\n  meshc %s\n", row->example[0], row->example[1]);
}
