// Programs in the compile cache: the key names all that a compile reads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "frontend/driver/program_reuse.h"
#include "tests/unit/record_gaps.h"

static void no_member_is_forgotten(void **state) {
  (void)state;
  look_for_gaps(&pack_of_question);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(no_member_is_forgotten)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
