// one_json CODE: standard input is one JSON object and nothing else, of any form with the CODE
// "any"; with a CODE other than "-" its only diagnostic is an error of that code. Exit code 0 or 1,
// with what is wrong on standard error.
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int wrong(const char *what) {
  fprintf(stderr, "%s\n", what);
  return 1;
}

int main(int argc, char **argv) {
  json_error_t error;
  json_t *object = json_loadf(stdin, 0, &error); // refuses what follows the object
  if (!object) return wrong(error.text);
  if (argc > 1 && strcmp(argv[1], "any") == 0) return 0;
  const char *code = argc > 1 ? argv[1] : "-",
             *schema = json_string_value(json_object_get(object, "schema"));
  const json_t *list = json_object_get(object, "diagnostics");
  if (!schema || !list) return wrong("no schema or diagnostics");
  if (strcmp(code, "-") == 0) return 0;
  const json_t *only = json_array_get(list, 0);
  const char *got = json_string_value(json_object_get(only, "code"));
  if (strcmp(schema, "meshc.diagnostics/1") != 0 || json_array_size(list) != 1)
    return wrong("not one diagnostic alone");
  if (!got || strcmp(got, code) != 0) return wrong(got ? got : "no code");
  return json_string_value(json_object_get(only, "message")) ? 0 : wrong("no message");
}
