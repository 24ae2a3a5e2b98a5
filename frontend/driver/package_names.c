// Names of a model in C: an output may be called `class`, and an input `m`, as the handle is.
#include "frontend/driver/package_emit_internal.h"

#include <ctype.h>
#include <string.h>

// The words of C and C++, the macros that compilers define, and what else a header for both has.
static const char words[] =
    " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t "
    "char32_t "
    "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false float for friend goto if inline int int32_t linux long mutable namespace new "
    "noexcept not not_eq nullptr operator or or_eq private protected public register "
    "reinterpret_cast requires restrict return short signed size_t sizeof static static_assert "
    "static_cast struct switch template this thread_local throw true try typedef typeid typename "
    "typeof typeof_unqual uint16_t uint8_t union unix unsigned using virtual void volatile wchar_t "
    "while xor xor_eq NULL ";

static bool is_word(const char *name) {
  size_t n = strlen(name);
  for (const char *at = words; n && (at = strstr(at, name)); at++)
    if (at[-1] == ' ' && at[n] == ' ') return true;
  return false;
}

const char *c_name(Arena *a, const char *text) {
  char *name = arena_printf(a, "%s%s", isdigit((unsigned char)*text) ? "_" : "", text);
  for (char *c = name; *c; c++)
    if (!isalnum((unsigned char)*c)) *c = '_';
  return is_word(name) ? arena_printf(a, "%s_", name) : name;
}

// Returns whether `name` is that of the handle, or of a parameter that has one already.
static bool is_taken(const Program *p, const char *const *names, const char *name) {
  bool taken = strcmp(name, "m") == 0;
  for (uint32_t t = 0; t < p->ntensors && !taken; t++)
    taken = names[t] && strcmp(names[t], name) == 0;
  return taken;
}

const char *const *c_names(Arena *a, const Program *p) {
  static const TensorKind kinds[] = {TENSOR_INPUT, TENSOR_OUTPUT};
  const char **names = arena_array(a, const char *, p->ntensors + 1);
  for (size_t k = 0; k < countof(kinds); k++)
    for (uint32_t t = 0; t < p->ntensors; t++) {
      if (p->tensor[t].kind != kinds[k]) continue;
      const char *name = c_name(a, p->tensor[t].name);
      while (is_taken(p, names, name)) name = arena_printf(a, "%s_", name);
      names[t] = name;
    }
  return names;
}
