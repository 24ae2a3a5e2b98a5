// The processor on which this process runs, found without LLVM (host.h).
#include "ir/base/host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool has_v2(void) {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") &&
         __builtin_cpu_supports("popcnt");
}
static bool has_v3(void) {
  return has_v2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
static bool has_v4(void) {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512cd");
}

bool host_has_level(const char *level) {
  static const struct {
    const char *name;
    bool (*has)(void);
  } levels[] = {{"x86-64-v2", has_v2}, {"x86-64-v3", has_v3}, {"x86-64-v4", has_v4}};
  __builtin_cpu_init();
  for (size_t i = 0; i < countof(levels); i++)
    if (!strcmp(level, levels[i].name)) return levels[i].has();
  return false;
}

int host_bits(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 512;
  return __builtin_cpu_supports("avx") ? 256 : 128;
}

// Reads the processor's brand string by CPUID, up to the clock rate.
const char *host_name(void) {
  static union {
    unsigned word[13];
    char text[52];
  } name;
  for (unsigned i = 0; i < 3; i++) {
    unsigned *w = &name.word[4 * i];
    if (!__get_cpuid(0x80000002 + i, &w[0], &w[1], &w[2], &w[3])) return "x86-64";
  }
  char *clock = strstr(name.text, " @ "), *cpu = strstr(name.text, " CPU");
  if (clock) *clock = 0;
  if (cpu && cpu[4] == 0) *cpu = 0;
  return name.text + strspn(name.text, " ");
}

// Reads the processor's identity by CPUID: the signature, the feature words of leaves 1 and 7,
// extended features, and the registers that the system saves. Word ebx of leaf 1 differs between
// cores and is left out.
const char *host_identity(Arena *a) {
  unsigned v[4] = {0}, one[4] = {0}, seven[4] = {0}, sub[4] = {0}, ext[4] = {0}, low = 0, high = 0;
  __get_cpuid(0, &v[0], &v[1], &v[2], &v[3]);
  __get_cpuid(1, &one[0], &one[1], &one[2], &one[3]);
  __get_cpuid_count(7, 0, &seven[0], &seven[1], &seven[2], &seven[3]);
  __get_cpuid_count(7, 1, &sub[0], &sub[1], &sub[2], &sub[3]);
  __get_cpuid(0x80000001, &ext[0], &ext[1], &ext[2], &ext[3]);
  bool osxsave = one[2] >> 27 & 1;
  if (osxsave) __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return arena_printf(a, "x86-64 %x.%x.%x %x %x.%x %x.%x.%x %x %x.%x %x", v[1], v[3], v[2], one[0],
                      one[2], one[3], seven[1], seven[2], seven[3], sub[0], ext[2], ext[3], low);
}

#else

bool host_has_level(const char *level) {
  static const char arch[] =
#if defined(__aarch64__)
      "aarch64";
#else
      "";
#endif
  return *level && strcmp(level, arch) == 0;
}

int host_bits(void) { return 128; }

const char *host_name(void) {
  static struct utsname u;
  return uname(&u) == 0 ? u.machine : "unknown";
}

// Reads the processor's identity from the lines of /proc/cpuinfo about the first core. Lines that
// change from call to call or differ between cores are left out.
const char *host_identity(Arena *a) {
  struct utsname u;
  if (uname(&u) != 0) memset(&u, 0, sizeof u);
  const char *text = arena_printf(a, "%s", u.machine);
  FILE *f = mem_fopen("/proc/cpuinfo", "r");
  char line[4096];
  while (f && fgets(line, sizeof line, f) && line[0] != '\n')
    if (!strstr(line, "MHz") && !strstr(line, "BogoMIPS") && !strstr(line, "processor"))
      text = arena_printf(a, "%s %s", text, line);
  if (f) fclose(f);
  return text;
}
#endif
