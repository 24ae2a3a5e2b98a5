// Tests CRC-32C with the published values (RFC 3720, B.4), in one piece and in several.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "runtime/runtime_internal.h"

static void published(void **state) {
  (void)state;
  unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
  memset(ones, 0xff, sizeof ones);
  for (int i = 0; i < 32; i++) {
    up[i] = (unsigned char)i;
    down[i] = (unsigned char)(31 - i);
  }
  assert_int_equal(crc32c(0, zeros, 32), 0x8a9136aa);
  assert_int_equal(crc32c(0, ones, 32), 0x62a8ab43);
  assert_int_equal(crc32c(0, up, 32), 0x46dd794e);
  assert_int_equal(crc32c(0, down, 32), 0x113fdb5c);
  assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
}

static void in_pieces(void **state) {
  (void)state;
  char text[100];
  for (int i = 0; i < 100; i++) text[i] = (char)(i * 37);
  uint32_t whole = crc32c(0, text, sizeof text);
  for (size_t at = 0; at <= sizeof text; at++)
    assert_int_equal(crc32c(crc32c(0, text, at), text + at, sizeof text - at), whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(published), cmocka_unit_test(in_pieces)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
