// Checks that a layer of a deep model sends as many bytes as one of a shallow model. For each row
// of tests/partitioners/layers.txt, `check --json` gives the bytes that one processor sends in a
// step of the model with 2, 4, 8, 16 and 32 layers. From one depth to the next they must grow by
// the same amount for each layer, except for TOLERANCE.
//
//   suite_layers [ROW]     ROW: only rows whose name contains it
//
// Ends in `N passed, N failed, N skipped`.
#include <string.h>

#include "tests/suite/common/table.h"

static const double TOLERANCE = 0.02;
static const int depths[] = {2, 4, 8, 16, 32};

// Returns the bytes that one processor sends in a step, or -1 after a message.
static int64_t sent_at(Arena *a, const TableRow *r, int depth) {
  json_t *facts =
      table_facts(a, arena_printf(a, "%s depth=%d", r->field[1], depth), r->field[2], r->field[3]);
  int64_t sent = facts ? table_number(facts, "wire_bytes") : -1;
  json_decref(facts);
  if (sent > 0) return sent;
  printf("FAIL %s: check gave no facts at depth %d\n", r->field[0], depth);
  return -1;
}

static bool grows_evenly(Arena *a, const TableRow *r) {
  double least = 0, most = 0;
  int64_t last = sent_at(a, r, depths[0]);
  for (size_t i = 1; i < countof(depths) && last >= 0; i++) {
    int64_t now = sent_at(a, r, depths[i]);
    if (now < 0) return false;
    double layer = (double)(now - last) / (depths[i] - depths[i - 1]);
    if (i == 1 || layer < least) least = layer;
    if (i == 1 || layer > most) most = layer;
    last = now;
  }
  if (last < 0) return false;
  if (most <= (1 + TOLERANCE) * least) return true;
  printf("FAIL %s: a layer sends %.0f bytes at one depth and %.0f at another\n", r->field[0], least,
         most);
  return false;
}

int main(int argc, char **argv) {
  int passed = 0, failed = 0, skipped = 0;
  Arena *a = arena_new();
  TableRows rows = table_read(a, "tests/partitioners/layers.txt", 4);
  for (uint32_t i = 0; i < rows.n; i++) {
    if (argc > 1 && !strstr(rows.at[i].field[0], argv[1]))
      skipped++;
    else if (grows_evenly(a, &rows.at[i]))
      passed++;
    else
      failed++;
  }
  if (!rows.n) printf("FAIL no rows\n"), failed++;
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  arena_free(a);
  return failed > 0;
}
