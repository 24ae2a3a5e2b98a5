// The command compile: writes a package of a model, which runs without meshc (docs/package.md).
#include "frontend/driver/package_make.h"

int cmd_compile(Session *s) {
  PackageFacts f;
  if (!package_check(s) || !values_check(s) || !session_load(s) || !package_make(s, &f)) return 0;
  if (option_given(s->opt, OPTION_QUIET)) return 0;
  if (f.text)
    printf("%s: the %s of %s, for %s\n", f.path, f.text, f.programs, f.builds);
  else
    printf("%s: %s, for %s; %u value%s, %s\n", f.path, f.programs, f.builds, f.nvalues,
           plural(f.nvalues), bytes_text(s->arena, f.bytes));
  return 0;
}
