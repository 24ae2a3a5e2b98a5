// The program meshc-gen: writes manual pages, shell completion and syntax files from the tables of
// meshc.
//
//   meshc-gen DIR     writes DIR/man1/*.1, DIR/meshc.bash, DIR/_meshc, DIR/meshc.fish,
//                     DIR/mesh.vim, DIR/ftdetect.vim, DIR/package.json, DIR/mesh.tmLanguage.json
//
// Input: options.def (commands, options), token.def (keywords), builtin.def (functions), dtype.def
// (types). The build runs it, and the files are installed.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/driver/options.h"
#include "frontend/model/build_internal.h"

static const char *folder;

static FILE *begin(const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "w");
  if (f) return f;
  fprintf(stderr, "meshc-gen: cannot write %s: %s\n", path, strerror(errno));
  exit(1);
}

static void end(FILE *f) {
  bool bad = ferror(f);
  if (fclose(f) == 0 && !bad) return;
  fprintf(stderr, "meshc-gen: cannot write to %s: %s\n", folder, strerror(errno));
  exit(1);
}

// Writes text with a backslash before each character that occurs in `special`.
static void escaped(FILE *f, const char *text, const char *special) {
  for (; *text; text++) {
    if (strchr(special, *text)) fputc('\\', f);
    fputc(*text, f);
  }
}

static bool has(const OptionRow *o, CommandId c) { return o->commands >> c & 1; }

// Copies the words of an argument such as "train|eval|run" to `out`, separated by blanks. Returns
// false if the argument is not such a list.
static bool words_of(const OptionRow *o, char *out, size_t room) {
  if (!o->argument || !strchr(o->argument, '|') || strpbrk(o->argument, "[=.:,") ||
      strcspn(o->argument, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < strlen(o->argument))
    return false;
  snprintf(out, room, "%s", o->argument);
  for (char *c = out; *c; c++)
    if (*c == '|') *c = ' ';
  return true;
}

// -- manual pages -------------------------------------------------------------------------------

// Writes the text of a troff paragraph. Hyphens of options are kept, and no line is read as a
// request.
static void troff(FILE *f, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", f);
  for (; *text; text++) {
    if (*text == '\\')
      fputs("\\e", f);
    else if (*text == '-')
      fputs("\\-", f);
    else
      fputc(*text, f);
  }
}

static void troff_lines(FILE *f, const char *before, const char *text) {
  fputs(before, f);
  troff(f, text);
  fputc('\n', f);
}

static void man_option(FILE *f, const OptionRow *o) {
  fputs(".TP\n\\fB", f);
  if (o->letter) fprintf(f, "\\-%c\\fR, \\fB", o->letter);
  troff(f, o->name);
  fputs("\\fR", f);
  if (o->argument)
    fputs(o->argument[0] == '[' ? "\\fI" : " \\fI", f), troff(f, o->argument), fputs("\\fR", f);
  troff_lines(f, "\n", o->help);
}

// Writes the options of a command: with `shared` those that all commands on models have, else the
// others.
static void man_options(FILE *f, CommandId c, bool shared) {
  bool any = false;
  for (int i = 0; i < OPTION_COUNT; i++) {
    if (!has(&option_row[i], c) || option_shared((OptionId)i) != shared) continue;
    if (!any) fputs(shared ? ".SH OPTIONS OF ALL MODELS\n" : ".SH OPTIONS\n", f);
    any = true;
    man_option(f, &option_row[i]);
  }
}

static void man_examples(FILE *f, const CommandRow *c) {
  fputs(".SH EXAMPLES\n.nf\n", f);
  for (int i = 0; i < 2; i++)
    if (i == 0 || strcmp(c->example[0], c->example[1]) != 0)
      troff_lines(f, "meshc ", c->example[i]);
  fputs(".fi\n", f);
}

static void man_head(FILE *f, const char *title) {
  fprintf(f, ".TH %s 1 \"\" \"meshc %s\" \"meshc\"\n", title, MESHC_VERSION);
}

static void man_command(CommandId id) {
  const CommandRow *c = &command_row[id];
  char name[128];
  snprintf(name, sizeof name, "man1/meshc-%s.1", c->name);
  FILE *f = begin(name);
  snprintf(name, sizeof name, "MESHC-%s", c->name);
  man_head(f, name);
  fprintf(f, ".SH NAME\nmeshc\\-%s \\- ", c->name);
  troff_lines(f, "", c->help);
  fprintf(f, ".SH SYNOPSIS\n.B meshc %s\n.I ", c->name);
  troff_lines(f, "", c->arguments);
  fputs("[options]\n", f);
  man_options(f, id, false);
  man_options(f, id, true);
  man_examples(f, c);
  fputs(".SH SEE ALSO\n.BR meshc (1)\n", f);
  end(f);
}

static void man_program(void) {
  FILE *f = begin("man1/meshc.1");
  man_head(f, "MESHC");
  fputs(".SH NAME\nmeshc \\- compiler of tensor programs with named dims for a mesh of processors\n"
        ".SH SYNOPSIS\n.B meshc\n.I COMMAND MODEL\n[options]\n.SH COMMANDS\n",
        f);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    fprintf(f, ".TP\n\\fBmeshc\\-%s\\fR(1)", command_row[i].name);
    troff_lines(f, "\n", command_row[i].help);
  }
  man_options(f, COMMAND_CHECK, true);
  fputs(".SH EXIT STATUS\n0 success, 1 failure, 2 wrong use, 3 error in the model, 4 a number that "
        "is "
        "not finite, 5 data, 6 a lost rank, 7 memory or disk, 75 ended by a signal after a step.\n",
        f);
  end(f);
}

// -- completion ---------------------------------------------------------------------------------

static void bash_options(FILE *f, CommandId c) {
  fprintf(f, "    %s) options=\"--help", command_row[c].name);
  for (int i = 0; i < OPTION_COUNT; i++)
    if (has(&option_row[i], c)) fprintf(f, " %s", option_row[i].name);
  fputs("\" ;;\n", f);
}

static void bash(void) {
  FILE *f = begin("meshc.bash");
  char words[256];
  fputs("# bash completion of meshc\n_meshc() {\n"
        "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options=\n"
        "  if [ \"$COMP_CWORD\" = 1 ]; then\n    COMPREPLY=($(compgen -W \"",
        f);
  for (int i = 0; i < COMMAND_COUNT; i++) fprintf(f, "%s ", command_row[i].name);
  fputs("--help --version\" -- \"$current\"))\n    return\n  fi\n  case $before in\n", f);
  for (int i = 0; i < OPTION_COUNT; i++)
    if (words_of(&option_row[i], words, sizeof words))
      fprintf(f, "    %s) COMPREPLY=($(compgen -W \"%s\" -- \"$current\")); return ;;\n",
              option_row[i].name, words);
  fputs("  esac\n  case ${COMP_WORDS[1]} in\n", f);
  for (int i = 0; i < COMMAND_COUNT; i++) bash_options(f, (CommandId)i);
  fputs("  esac\n  case $current in\n    -*) COMPREPLY=($(compgen -W \"$options\" -- "
        "\"$current\")) ;;\n"
        "    *) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n  esac\n}\n"
        "complete -o filenames -F _meshc meshc\n",
        f);
  end(f);
}

static void zsh_option(FILE *f, const OptionRow *o) {
  char words[256];
  bool optional = o->argument && o->argument[0] == '[';
  fprintf(f, " \\\n        '%s%s[", o->name, !o->argument ? "" : optional ? "=-" : "=");
  for (const char *c = o->help; *c; c++) {
    if (strchr("[]\\", *c)) fputc('\\', f);
    fputs(*c == '\'' ? "'\\''" : (const char[]){*c, '\0'}, f);
  }
  fputc(']', f);
  if (words_of(o, words, sizeof words))
    fprintf(f, ":word:(%s)", words);
  else if (o->argument)
    fputs(":value:_files", f);
  fputc('\'', f);
}

static void zsh(void) {
  FILE *f = begin("_meshc");
  fputs("#compdef meshc\n_meshc() {\n  if (( CURRENT == 2 )); then\n    local -a commands=(\n", f);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    fprintf(f, "      '%s:", command_row[i].name);
    for (const char *c = command_row[i].help; *c; c++)
      fputs(*c == '\'' ? "'\\''" : *c == ':' ? "\\:" : (const char[]){*c, '\0'}, f);
    fputs("'\n", f);
  }
  fputs("    )\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n"
        "  shift words\n  (( CURRENT-- ))\n  case $command in\n",
        f);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    fprintf(f, "    %s)\n      _arguments '*:file:_files' '--help[help]'", command_row[i].name);
    for (int k = 0; k < OPTION_COUNT; k++)
      if (has(&option_row[k], (CommandId)i)) zsh_option(f, &option_row[k]);
    fputs(" ;;\n", f);
  }
  fputs("  esac\n}\n_meshc \"$@\"\n", f);
  end(f);
}

static void fish_text(FILE *f, const char *text) {
  fputc('\'', f);
  escaped(f, text, "\\'");
  fputc('\'', f);
}

static void fish(void) {
  FILE *f = begin("meshc.fish");
  char words[256];
  fputs("# fish completion of meshc\n", f);
  for (int i = 0; i < COMMAND_COUNT; i++) {
    fprintf(f, "complete -c meshc -n __fish_use_subcommand -a %s -d ", command_row[i].name);
    fish_text(f, command_row[i].help);
    fputc('\n', f);
  }
  for (int i = 0; i < OPTION_COUNT; i++) {
    const OptionRow *o = &option_row[i];
    fputs("complete -c meshc -n '__fish_seen_subcommand_from", f);
    for (int c = 0; c < COMMAND_COUNT; c++)
      if (has(o, (CommandId)c)) fprintf(f, " %s", command_row[c].name);
    fprintf(f, "' -l %s", o->name + 2);
    if (o->letter) fprintf(f, " -s %c", o->letter);
    if (words_of(o, words, sizeof words))
      fprintf(f, " -x -a '%s'", words);
    else if (o->argument && o->argument[0] != '[')
      fputs(" -r", f);
    fputs(" -d ", f);
    fish_text(f, o->help);
    fputc('\n', f);
  }
  end(f);
}

// -- syntax -------------------------------------------------------------------------------------

static const char *const keywords[] = {
#define KEYWORD(text, parse) text,
#include "frontend/syntax/token.def"
#undef KEYWORD
    "else", "while", // after a branch of an `if`, after the carries of a scan
};
static const char *const operators[] = {"or", "and", "not"}; // tokens of token.def that are words

static void put_keywords(FILE *f, const char *between) {
  for (size_t i = 0; i < countof(keywords); i++) fprintf(f, "%s%s", i ? between : "", keywords[i]);
}
static void put_operators(FILE *f, const char *between) {
  for (size_t i = 0; i < countof(operators); i++)
    fprintf(f, "%s%s", i ? between : "", operators[i]);
}
static void put_functions(FILE *f, const char *between) {
  for (const Builtin *b = builtins; b->name; b++)
    fprintf(f, "%s%s", b == builtins ? "" : between, b->name);
}
// Writes the names of the types that models can use, separated by `between`.
static void put_types(FILE *f, const char *between) {
  const char *before = "";
  for (int t = 0; t < TYPE_COUNT; t++) {
    if (t == TYPE_I64 || t == TYPE_U64) continue;
    fprintf(f, "%s%s", before, dtype_text((Dtype)t));
    before = between;
  }
}

static void vim(void) {
  FILE *f = begin("mesh.vim");
  fputs("\" Syntax of model files of meshc\nif exists('b:current_syntax')\n  finish\nendif\n"
        "syntax keyword meshStatement ",
        f);
  put_keywords(f, " ");
  fputs("\nsyntax keyword meshOperator ", f);
  put_operators(f, " ");
  fputs("\nsyntax keyword meshType ", f);
  put_types(f, " ");
  // a function name without a bracket after it is an ordinary name
  fputs("\nsyntax match meshFunction '\\<\\(", f);
  put_functions(f, "\\|");
  fputs("\\)\\ze\\s*[(\\[]'\n"
        "syntax match meshNumber "
        "'\\<[0-9][0-9_]*\\(\\.[0-9]\\+\\)\\?\\([eE][-+]\\?[0-9]\\+\\)\\?\\>'\n"
        "syntax region meshString start='\"' skip='\\\\.' end='\"' oneline\n"
        "syntax match meshComment '#.*$'\n"
        "highlight default link meshStatement Statement\nhighlight default link meshOperator "
        "Operator\n"
        "highlight default link meshType Type\nhighlight default link meshFunction Function\n"
        "highlight default link meshNumber Number\nhighlight default link meshString String\n"
        "highlight default link meshComment Comment\nlet b:current_syntax = 'mesh'\n",
        f);
  end(f);
  f = begin("ftdetect.vim");
  fputs("autocmd BufRead,BufNewFile *.mesh setfiletype mesh\n", f);
  end(f);
}

static void pattern(FILE *f, const char *scope, void (*put)(FILE *f, const char *between),
                    const char *after) {
  fprintf(f, "    { \"name\": \"%s.mesh\", \"match\": \"\\\\b(", scope);
  put(f, "|");
  fprintf(f, ")\\\\b%s\" },\n", after);
}

static void vscode(void) {
  FILE *f = begin("mesh.tmLanguage.json");
  fputs(
      "{\n  \"name\": \"meshc\",\n  \"scopeName\": \"source.mesh\",\n  \"fileTypes\": [\"mesh\"],\n"
      "  \"patterns\": [\n"
      "    { \"name\": \"comment.line.number-sign.mesh\", \"match\": \"#.*$\" },\n"
      "    { \"name\": \"string.quoted.double.mesh\", \"begin\": \"\\\"\", \"end\": \"\\\"|$\",\n"
      "      \"patterns\": [{ \"name\": \"constant.character.escape.mesh\", \"match\": "
      "\"\\\\\\\\.\" }] },\n",
      f);
  pattern(f, "keyword.control", put_keywords, "");
  pattern(f, "keyword.operator.word", put_operators, "");
  pattern(f, "storage.type", put_types, "");
  pattern(f, "support.function", put_functions, "(?=\\\\s*[(\\\\[])");
  fputs("    { \"name\": \"constant.numeric.mesh\", \"match\": "
        "\"\\\\b[0-9][0-9_]*(\\\\.[0-9]+)?([eE][-+]?[0-9]+)?\\\\b\" }\n  ]\n}\n",
        f);
  end(f);
  f = begin("package.json");
  fprintf(
      f,
      "{\n  \"name\": \"meshc\",\n  \"displayName\": \"meshc models\",\n  \"version\": \"%s\",\n"
      "  \"publisher\": \"meshc\",\n  \"engines\": { \"vscode\": \"^1.60.0\" },\n"
      "  \"contributes\": {\n    \"languages\": [{ \"id\": \"mesh\", \"aliases\": [\"meshc\"], "
      "\"extensions\": [\".mesh\"] }],\n    \"grammars\": [{ \"language\": \"mesh\", "
      "\"scopeName\": \"source.mesh\", \"path\": \"./mesh.tmLanguage.json\" }]\n  }\n}\n",
      MESHC_VERSION);
  end(f);
}

int main(int argc, char **argv) {
  char man[4096];
  if (argc != 2) {
    fprintf(stderr, "usage: meshc-gen DIR\n");
    return 2;
  }
  folder = argv[1];
  snprintf(man, sizeof man, "%s/man1", folder);
  if ((mkdir(folder, 0777) != 0 && errno != EEXIST) || (mkdir(man, 0777) != 0 && errno != EEXIST)) {
    fprintf(stderr, "meshc-gen: cannot make %s: %s\n", man, strerror(errno));
    return 1;
  }
  man_program();
  for (int i = 0; i < COMMAND_COUNT; i++) man_command((CommandId)i);
  bash();
  zsh();
  fish();
  vim();
  vscode();
  return 0;
}
