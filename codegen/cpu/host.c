// The processors for which code is generated, and the width of its vectors.
#include "codegen/cpu/host_internal.h"

#include <stdlib.h>
#include <string.h>

static const CodeLevel code_level_table[] = {
    {"x86-64-v2", "X86", "x86_64-unknown-linux-gnu", "x86-64-v2", 128, false, false},
    {"x86-64-v3", "X86", "x86_64-unknown-linux-gnu", "x86-64-v3", 256, true, true},
    {"x86-64-v4", "X86", "x86_64-unknown-linux-gnu", "x86-64-v4", 512, true, true},
    {"aarch64", "AArch64", "aarch64-unknown-linux-gnu", "generic", 128, true, true},
};
const char *const code_levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", NULL};

const CodeLevel *code_level(const char *name) {
  for (size_t i = 0; name && i < countof(code_level_table); i++)
    if (!strcmp(name, code_level_table[i].name)) return &code_level_table[i];
  return NULL;
}

bool code_level_is_here(const char *level) {
  const char *here =
#if defined(__x86_64__)
      "X86";
#elif defined(__aarch64__)
      "AArch64";
#else
      "";
#endif
  const CodeLevel *l = code_level(level);
  return l && !strcmp(l->registers, here);
}

int code_bits(const CodeOptions *opt) {
  static const int widths[] = {128, 256};
  const char *choice = getenv("MESHC_WIDTH");
  if (opt->level) return code_level(opt->level)->bits;
  int bits = host_bits(), wanted = choice ? atoi(choice) : 0;
  if (opt->width) return opt->width;
  for (size_t i = 0; i < countof(widths); i++)
    if (wanted == widths[i] && wanted < bits) return wanted;
  return bits;
}
