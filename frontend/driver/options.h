// The command line: its parser and its help text, both made from the table options.def.
// Input: argv. Output: Options, with the position of each option's text for messages.
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

// A row of options.def, which describes a command. The parser of the command line uses the rows,
// and so does meshc_gen, for manual pages and shell completion.
typedef struct CommandRow {
  const char *name, *arguments, *help, *example[2];
} CommandRow;
typedef struct OptionRow {
  // `argument` is NULL for a switch. In brackets it may be left out, and is given only after `=`.
  const char *name, *argument, *help;
  char letter;       // letter of the short form, or 0
  uint32_t commands; // set of the commands that have the option: bits 1 << CommandId
} OptionRow;
extern const CommandRow command_row[COMMAND_COUNT];
extern const OptionRow option_row[OPTION_COUNT];
// Returns whether the option belongs to all commands that read a model, and to no other command.
bool option_shared(OptionId id);

// One use of an option. Its text is registered as a source under the option's name, so that an
// error inside it has a position: --layout:1:3 is line 1, column 3 of the text of --layout.
typedef struct OptionUse {
  const char *text;   // "" for a switch
  const char *second; // FILE of `--from STAGE FILE`, else NULL
  Pos pos;            // position of the whole text; zero for a switch
} OptionUse;

typedef struct Options {
  CommandId command;
  bool help;
  VEC(const char *) argument; // the words that are not options
  VEC(OptionUse) use[OPTION_COUNT];
} Options;

// Parses the command line argv (argc > 1) into *out, in memory of `a`. `--help` sets out->help and
// ends the parsing. Returns false after errors in d. Their exit code (diag_exit) is 2 for wrong use
// and 1 for a command or option of a later version.
MUST_USE bool options_parse(Options *out, Arena *a, Diag *d, int argc, char **argv);
// Returns the last use of an option on the command line, which overrides earlier uses. Returns NULL
// if the option is not given.
const OptionUse *option_use(const Options *o, OptionId id);
// Returns the text of the last use of an option, or NULL if the option is not given.
const char *option_text(const Options *o, OptionId id);
static inline bool option_given(const Options *o, OptionId id) { return o->use[id].n > 0; }
// Sets *out to the integer that an option gives, or to `otherwise` if the option is not given.
// Returns false after an error if the text is not an integer from `low` to `high`.
MUST_USE bool option_integer(const Options *o, OptionId id, int64_t otherwise, int64_t low,
                             int64_t high, Diag *d, int64_t *out);
// Sets *out to the index of the option's text among the n words, or to 0 if the option is not
// given. If the text is none of the words, reports an error that lists them and returns false.
MUST_USE bool option_word(const Options *o, OptionId id, int n, const char *const *word, Diag *d,
                          int *out);
// The output forms that --format selects.
typedef enum Form { FORM_TEXT, FORM_JSON, FORM_DOT, FORM_HTML } Form;
// Sets *out to the output form that --format names, or to FORM_TEXT without --format. Returns false
// after an error.
MUST_USE bool option_form(const Options *o, Diag *d, Form *out);
const char *option_name(OptionId id);
// Sets *out to the option `--NAME`, if some command that reads a model has it. Returns false if no
// such option has this name.
MUST_USE bool option_of_models(const char *name, OptionId *out);
const char *command_name(CommandId id);
// Sets *out to the command of this name. If there is none, reports an error and returns false.
MUST_USE bool command_find(const char *name, Diag *d, CommandId *out);
// help_program prints the help of the program to `out`, and help_command the help of one command.
void help_program(FILE *out);
void help_command(FILE *out, CommandId id);

#endif
