// CRC-32C (Castagnoli, RFC 3720), eight bytes at a time by tables (Kounavis and Berry, 2005).
#include "runtime/runtime_internal.h"

#include <pthread.h>
#include <string.h>

enum { SLICES = 8 };
static uint32_t table[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(void) {
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t x = i;
    for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? UINT32_C(0x82f63b78) : 0);
    table[0][i] = x;
  }
  for (int s = 1; s < SLICES; s++)
    for (uint32_t i = 0; i < 256; i++)
      table[s][i] = table[s - 1][i] >> 8 ^ table[0][table[s - 1][i] & 255];
}

static uint32_t eight_bytes(uint32_t crc, const unsigned char *p) {
  uint32_t x = 0;
  for (int i = 0; i < 4; i++) x ^= table[7 - i][(p[i] ^ crc >> (8 * i)) & 255];
  for (int i = 4; i < SLICES; i++) x ^= table[7 - i][p[i]];
  return x;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  pthread_once(&once, make_table);
  crc = ~crc;
  for (; n >= SLICES; n -= SLICES, p += SLICES) crc = eight_bytes(crc, p);
  for (; n > 0; n--, p++) crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
  return ~crc;
}
