// The commands that compile nothing: stages, ops, fmt, help, version.
#include "frontend/driver/session.h"
#include "ir/base/disk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool wants_json(const Session *s) { return option_given(s->opt, OPTION_JSON); }

// -- stages, ops --------------------------------------------------------------------------------

// Ends a command that prints a list: hands `list` to json_finish as the member `name`, or frees it
// without --json. Returns the exit code.
static int end_list(const Session *s, const char *schema, const char *name, json_t *list) {
  if (wants_json(s)) return json_finish(json_pack("{s:s, s:o}", "schema", schema, name, list));
  json_decref(list);
  return 0;
}

int cmd_stages(Session *s) {
  json_t *list = json_array();
  for (int i = 0; i < stage_name_count; i++) {
    const StageName *stage = &stage_names[i];
    if (!wants_json(s)) printf("%-12s %s\n", stage->name, stage->holds);
    json_array_append_new(list,
                          json_pack("{s:s, s:s}", "name", stage->name, "holds", stage->holds));
  }
  return end_list(s, "meshc.stages/1", "stages", list);
}

// Indexed by OpClass, the class of an operation: the name of the class, and which dims may be
// split.
static const struct {
  const char *name, *split;
} class_row[] = {
    [SOURCE] = {"source", "any dim, as the layout says"},
    [POINTWISE] = {"pointwise", "any dim, without communication"},
    [REDUCE] =
        {"reduce",
         "any dim; a reduced one leaves partial results, which are reduced where it is cheapest"},
    [CONTRACT] =
        {"contract",
         "any dim; a summed one leaves partial sums, which are reduced where it is cheapest"},
    [MOVE] = {"move", "any dim; the split follows the elements"},
    [GATHER] = {"lookup",
                "any dim; over the looked-up one each processor contributes the rows that it has"},
    [WINDOW] = {"window",
                "any dim; where windows reach over a border the neighbour's elements are fetched"},
    [ORDERED] = {"ordered", "any dim; along the ordered one sums, maxima and the first k are "
                            "combined, else it is gathered"},
    [MATRIX] = {"matrix", "any dim but rows and columns, which are gathered"},
    [REGION] = {"loop", "any dim but the loop's own"},
    [COLLECTIVE] = {"collective", "placed by meshc, between processors"},
};
// Indexed by the column `linear` of ops.def: in which arguments an operation takes partial sums.
static const char *const linear_text[] = {
    [LINEAR_NO] = "no",
    [LINEAR_ALL] = "if all arguments are",
    [LINEAR_FIRST] = "in the first argument",
    [LINEAR_ONE] = "in any one argument",
    [LINEAR_BRANCH] = "if both branches are",
};

int cmd_ops(Session *s) {
  json_t *list = json_array();
  if (!wants_json(s))
    printf("%-15s %-10s %-22s %s\n", "operation", "class", "passes partial sums",
           "may be split over");
  for (int op = 0; op < OP_COUNT; op++) {
    const OpRow *row = op_row((Op)op);
    if (!wants_json(s))
      printf("%-15s %-10s %-22s %s\n", row->text, class_row[row->cls].name,
             linear_text[row->linear], class_row[row->cls].split);
    json_array_append_new(list,
                          json_pack("{s:s, s:i, s:s, s:s, s:s}", "name", row->text, "arguments",
                                    row->nargs, "class", class_row[row->cls].name, "partial_sums",
                                    linear_text[row->linear], "split", class_row[row->cls].split));
  }
  return end_list(s, "meshc.ops/1", "ops", list);
}

// -- fmt ----------------------------------------------------------------------------------------

// Replaces the model file by `text` and keeps its permissions. If path is a symbolic link, the file
// that it points to is replaced. Returns false after an error.
static bool replace_file(Session *s, const char *path, const char *text) {
  struct stat info;
  char *target = realpath(path, NULL);
  if (!target) mem_check_errno();
  const char *to = target ? arena_text(s->arena, target, strlen(target)) : path;
  free(target);
  DiskFile f;
  bool good = stat(to, &info) == 0 && access(to, W_OK) == 0 && disk_begin(&f, to);
  if (good) {
    disk_put(&f, text, strlen(text));
    if (fchmod(f.fd, info.st_mode & 07777) != 0) f.error = errno;
    good = disk_commit(&f);
  }
  return good || session_cannot_write(s, path, (Pos){0});
}

// Refuses `fmt --write -`, which has no file to change. Returns false after an error.
static bool has_file(const Session *s) {
  if (!session_from_stdin(s) || !option_given(s->opt, OPTION_WRITE)) return true;
  diag_error(s->diag, DIAG_USAGE, (Pos){0},
             "--write changes a model file, and the model comes from standard input");
  return diag_hint(s->diag, "leave out --write: the result is printed");
}

int cmd_fmt(Session *s) {
  if (!has_file(s) || !session_read(s)) return 0;
  const char *text = ast_format(s->arena, s->names, s->diag, s->source, s->text, s->text_bytes);
  if (!text) return 0;
  if (!option_given(s->opt, OPTION_WRITE))
    fputs(text, stdout);
  else if (strcmp(text, s->text) != 0)
    (void)replace_file(s, s->opt->argument.at[0], text);
  return 0;
}

// -- help ---------------------------------------------------------------------------------------

int cmd_help(Session *s) {
  CommandId command;
  if (s->opt->argument.n == 0)
    help_program(stdout);
  else if (command_find(s->opt->argument.at[0], s->diag, &command))
    help_command(stdout, command);
  return 0;
}

// -- version ------------------------------------------------------------------------------------

int cmd_version(Session *s) {
  if (!wants_json(s)) {
    printf("meshc %s (%s)\n", MESHC_VERSION, code_version());
    return 0;
  }
  return json_finish(json_pack("{s:s, s:s, s:s}", "schema", "meshc.version/1", "version",
                               MESHC_VERSION, "compiler", code_version()));
}
