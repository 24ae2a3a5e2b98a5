// Identifies the host's processor for the compile cache, without LLVM: to start LLVM takes longer
// than to load code from the cache.
#include "codegen/cpu/host_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

int code_bits(const CodeOptions *opt) {
  static const int widths[] = {128, 256};
  const char *choice = getenv("MESHC_WIDTH");
  int bits = host_bits(), wanted = choice ? atoi(choice) : 0;
  if (opt->width) return opt->width;
  for (size_t i = 0; i < countof(widths); i++)
    if (wanted == widths[i] && wanted < bits) return wanted;
  return bits;
}

#if defined(__x86_64__)
#include <cpuid.h>

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
