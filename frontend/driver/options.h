// The command line: options by table (options.def), help generated from it.
#ifndef FRONTEND_OPTIONS_H
#define FRONTEND_OPTIONS_H

#include "ir/base/diag.h"

typedef enum CommandId {
#define COMMAND(id, name, arguments, help, run, example, other) COMMAND_##id,
#include "frontend/driver/options.def"
#undef COMMAND
  COMMAND_COUNT
} CommandId;

typedef enum OptionId {
#define OPTION(id, name, letter, argument, commands, help) OPTION_##id,
#include "frontend/driver/options.def"
#undef OPTION
  OPTION_COUNT
} OptionId;

// The rows of options.def, for the parser and for what is generated from them.
typedef struct CommandRow {
  const char *name, *arguments, *help, *example[2];
} CommandRow;
typedef struct OptionRow {
  const char *name, *argument, *help; // argument NULL: a switch; "[...]": only after `=`
  char letter;                        // of the short form, or 0
  uint32_t commands;                  // bit CommandId
} OptionRow;
extern const CommandRow command_row[COMMAND_COUNT];
extern const OptionRow option_row[OPTION_COUNT];
// Whether all commands that read a model have it, and no other.
bool option_shared(OptionId id);

// One use of an option. Its text is registered as a source under the option's name, so that errors
// inside it have a place: --layout:1:3.
typedef struct OptionUse {
  const char *text;   // "" for a switch
  const char *second; // of --from: FILE
  Pos pos;            // the whole text; nowhere for a switch
} OptionUse;

typedef struct Options {
  CommandId command;
  bool help;
  VEC(const char *) argument; // what is no option
  VEC(OptionUse) use[OPTION_COUNT];
} Options;

// argc > 1. False after errors in d (exit 2, or 1 for what this version lacks). `--help` stops at
// once.
MUST_USE bool options_parse(Options *out, Arena *a, Diag *d, int argc, char **argv);
// The last use of an option, or NULL.
const OptionUse *option_use(const Options *o, OptionId id);
const char *option_text(const Options *o, OptionId id); // its text or NULL
static inline bool option_given(const Options *o, OptionId id) { return o->use[id].n > 0; }
// The number that an option gives, `otherwise` without it. False after an error: no integer from
// low to high.
MUST_USE bool option_integer(const Options *o, OptionId id, int64_t otherwise, int64_t low,
                             int64_t high, Diag *d, int64_t *out);
// One of n words; false after an error that lists them. Without the option: word 0.
MUST_USE bool option_word(const Options *o, OptionId id, int n, const char *const *word, Diag *d,
                          int *out);
const char *option_name(OptionId id);
// The option of all commands that read a model whose long name is `--NAME`; false: none.
MUST_USE bool option_of_models(const char *name, OptionId *out);
const char *command_name(CommandId id);
// The command of that name; false after an error.
MUST_USE bool command_find(const char *name, Diag *d, CommandId *out);
// To `out`: the program's help, or a command's.
void help_program(FILE *out);
void help_command(FILE *out, CommandId id);

#endif
