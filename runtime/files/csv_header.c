// Decides whether the first row of a CSV file is a header. Only the file decides, and not what a
// source reads of it: all sources of a file must count its rows alike.
#include "runtime/files/csv_internal.h"

#include <string.h>
#include <strings.h>

bool csv_means_missing(const char *text, size_t n) {
  static const char *const words[] = {"NA",   "N/A",  "n/a",  "na", "NaN", "nan",
                                      "NULL", "null", "None", "?",  "-",   "#N/A"};
  if (n == 0) return true;
  for (size_t i = 0; i < countof(words); i++)
    if (strlen(words[i]) == n && memcmp(text, words[i], n) == 0) return true;
  return false;
}

// Returns true if a text begins like a number with any decimal sign, or like a date, or says
// infinity. Values that are not finite are refused, but with their line; a header would hide them.
static bool begins_like_number(const char *text) {
  text += strspn(text, "+-.,");
  return (*text >= '0' && *text <= '9') || !strcasecmp(text, "inf") ||
         !strcasecmp(text, "infinity");
}

static const char *field_of(const CsvHead *h, uint32_t row, uint32_t i) {
  const char *text = i < h->row[row].n ? h->row[row].field[i] : "";
  return csv_means_missing(text, strlen(text)) ? NULL : text;
}

// Returns true if column i has numbers below its first row, and nothing else.
static bool numbers_below(const CsvHead *h, uint32_t i) {
  bool any = false;
  for (uint32_t k = 1; k < h->n; k++) {
    const char *text = field_of(h, k, i);
    if (text && !begins_like_number(text)) return false;
    any |= text != NULL;
  }
  return any;
}

// A file of one line is a header if it has text in all columns.
bool csv_has_header(const CsvHead *h) {
  bool texts = h->row[0].n > 0;
  for (uint32_t i = 0; i < h->row[0].n; i++) {
    const char *text = field_of(h, 0, i);
    bool is_text = text && !begins_like_number(text);
    if (is_text && numbers_below(h, i)) return true;
    texts = texts && is_text;
  }
  return h->n == 1 && texts;
}
