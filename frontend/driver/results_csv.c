// Writes results as CSV, for `--out FILE.csv`: a line for each row, and a column for each element
// of a row. Classes are written by their names. Rows of images begin with the name of the file.
//   species,probs.setosa,probs.virginica
//   setosa,0.9,0.1
#include "frontend/driver/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Writes a text as a field, in quotes if it needs them.
static void put_text(FILE *f, const char *text) {
  if (!strpbrk(text, ",;\t\"\r\n") && *text && *text != ' ' && text[strlen(text) - 1] != ' ') {
    fputs(text, f);
    return;
  }
  fputc('"', f);
  for (const char *c = text; *c; c++) {
    if (*c == '"') fputc('"', f);
    fputc(*c, f);
  }
  fputc('"', f);
}

static int64_t columns_of(const Result *r) {
  int64_t n = 1;
  for (int i = 1; i < r->array.rank; i++) n *= r->array.size[i];
  return n;
}

// Returns the head of column k of a result: its name, and the place along each dim but the first.
static const char *head_of(Session *s, const Result *r, int64_t k) {
  const char *text = "";
  for (int i = r->array.rank; i-- > 1; k /= r->array.size[i]) {
    int64_t at = k % r->array.size[i];
    text = r->axis && r->axis[i].n ? arena_printf(s->arena, ".%s%s", r->axis[i].name[at], text)
                                   : arena_printf(s->arena, ".%lld%s", (long long)at, text);
  }
  return arena_printf(s->arena, "%s%s", r->name, text);
}

static void put_element(FILE *f, const Result *r, int64_t i) {
  const Array *x = &r->array;
  double value = dtype_load(x->type, (const char *)x->data + i * dtype_bytes(x->type));
  const char *name = class_name(&r->element, value);
  if (name)
    put_text(f, name);
  else if (!isfinite(value))
    fputs(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf", f);
  else if (dtype_is_float(x->type))
    fprintf(f, "%.*g", x->type == TYPE_F64 ? 17 : 9, value);
  else
    fprintf(f, "%.0f", value);
}

static bool check_rows(Session *s, uint32_t n, const Result *r) {
  for (uint32_t i = 0; i < n; i++) {
    if (r[i].array.rank && r[i].array.size[0] == r[0].array.size[0] &&
        strcmp(r[i].dim[0], r[0].dim[0]) == 0)
      continue;
    diag_error(s->diag, DIAG_USAGE, option_use(s->opt, OPTION_OUT)->pos,
               "a .csv has a line for each row, and %s",
               r[i].array.rank ? arena_printf(s->arena, "%s does not run over %s first", r[i].name,
                                              r[0].array.rank ? r[0].dim[0] : "rows")
                               : arena_printf(s->arena, "%s is a single number", r[i].name));
    return diag_hint(s->diag, "name values with --fetch, or write a file: --out results.npz");
  }
  return true;
}

bool results_write_csv(Session *s, const char *path, uint32_t n, const Result *r) {
  char *text;
  size_t bytes;
  if (!check_rows(s, n, r)) return false;
  const ClassNames *files = n && r[0].files ? &r[0].axis[0] : NULL;
  FILE *f = mem_stream(&text, &bytes);
  if (files) fputs("file,", f);
  for (uint32_t i = 0; i < n; i++)
    for (int64_t k = 0; k < columns_of(&r[i]); k++) {
      if (i || k) fputc(',', f);
      put_text(f, head_of(s, &r[i], k));
    }
  for (int64_t row = 0; n && row < r[0].array.size[0]; row++) {
    fputc('\n', f);
    if (files) {
      put_text(f, files->name[row]);
      fputc(',', f);
    }
    for (uint32_t i = 0; i < n; i++)
      for (int64_t k = 0; k < columns_of(&r[i]); k++) {
        if (i || k) fputc(',', f);
        put_element(f, &r[i], row * columns_of(&r[i]) + k);
      }
  }
  fputc('\n', f);
  mem_stream_close(f);
  bool good = session_write(s, path, text, bytes, false, option_use(s->opt, OPTION_OUT)->pos);
  free(text);
  return good;
}
