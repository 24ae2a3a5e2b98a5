// Merges rows of the ledger that are equal in all rounds of a loop into lines, and shortens long
// lists of names.
//
//   all_reduce layer.0.x, all_reduce layer.1.x, ... layer.11.x       layer.0.x ... layer.11.x  12 times
//   all_reduce grad(bytes), grad(places), grad(norm.scale) ...       46 gradients: bytes, places, ...
//
// Buckets of gradients with one cause also form one line, even if their bytes differ.
#include "partition/explain/ledger_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 3, FIRST_NAMES = 2 };

static bool name_char(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

// Returns the length of the number at text[i] if the number is a component of a dotted name, such
// as 0 in "layer.0.x". Such a number is a round (iteration) of a `for`. Returns 0 if there is no
// such number at text[i].
static size_t round_length(const char *text, size_t i) {
  if (i == 0 || text[i - 1] != '.' || i == 1 || !name_char(text[i - 2])) return 0;
  size_t n = strspn(text + i, "0123456789");
  return n && text[i + n] == '.' ? n : 0;
}

const char *name_with_stars(Arena *a, const char *text) {
  char *out = arena_alloc(a, strlen(text) + 1), *to = out;
  for (size_t i = 0; text[i]; i++) {
    size_t n = round_length(text, i);
    *to++ = n ? '*' : text[i];
    if (n) i += n - 1;
  }
  return out;
}

// Returns the number of the first loop round that a text names, 3 for "layer.3.x", or -1 if the
// text names none.
static long first_round(const char *text) {
  for (size_t i = 0; text[i]; i++)
    if (round_length(text, i)) return strtol(text + i, NULL, 10);
  return -1;
}

static bool all_gradients(const LedgerRow *row) {
  for (uint32_t i = 0; i < row->nparts; i++)
    if (!row->part[i].gradient_of) return false;
  return true;
}

static bool is_bucket(const LedgerRow *row) { return row->nparts > 1 && all_gradients(row); }

static const char *row_key(Arena *a, const Ledger *l, const LedgerRow *row) {
  const CollFact *f = row->fact;
  const LedgerPart *p = &row->part[0];
  const char *why = f->why ? f->why : "";
  const char *same =
      arena_printf(a, "%d %s %lld %d %d\n%s", (int)f->kind, axes_text(a, l->graph->mesh, f->axes),
                   (long long)f->times, f->backward, row->cause, why);
  if (is_bucket(row)) return same;
  return name_with_stars(a, arena_printf(a, "%s\n%lld %u %s\n%s", same, (long long)f->bytes,
                                         f->pos.line, f->value, ledger_dims(a, l, &p->wants)));
}

// -- short names --------------------------------------------------------------------------------

// Returns the name of the tensor whose gradient the part (a value of a collective call) is. For a
// part that is no gradient, returns the name of the value.
static const char *bare_name(const LedgerPart *p) {
  return p->gradient_of ? p->gradient_of : p->value;
}

// Fills name[] with the names of the values that the collective call of a row moves, each name
// once. With `gradients` fills in the names of the tensors whose gradients are moved. Returns the
// number of names.
static uint32_t distinct(const LedgerRow *row, bool gradients, const char **name) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < row->nparts; i++) {
    const char *own = gradients ? bare_name(&row->part[i]) : row->part[i].value;
    uint32_t k = 0;
    while (k < n && strcmp(name[k], own) != 0) k++;
    if (k == n) name[n++] = own;
  }
  return n;
}

// Returns a text with the number of names and the first few of them: "46 gradients: bytes, places,
// ...".
static const char *first_names(Arena *a, uint32_t n, const char **name, bool gradients) {
  const char *text = "";
  for (uint32_t i = 0; i < FIRST_NAMES && i < n; i++)
    text = arena_printf(a, "%s%s, ", text, name[i]);
  return arena_printf(a, "%u %s: %s...", n, gradients ? "gradients" : "values", text);
}

static const char *short_names(Arena *a, const LedgerRow *row, bool *shortened) {
  const char **name = arena_array(a, const char *, row->nparts + 1);
  bool gradients = all_gradients(row);
  uint32_t n = distinct(row, gradients, name);
  *shortened = n > MOST_NAMES;
  return *shortened ? first_names(a, n, name, gradients) : row->fact->value;
}

// Returns the text LedgerLine.value for several buckets, which are collective calls that move
// several gradients each.
static const char *bucket_names(Arena *a, const Ledger *l, const LedgerLine *line) {
  VEC(const char *) name = {0};
  for (uint32_t i = 0; i < line->n; i++)
    for (uint32_t k = 0; k < l->row[line->row[i]].nparts; k++)
      vec_push(a, name) = bare_name(&l->row[line->row[i]].part[k]);
  return first_names(a, name.n, name.at, true);
}

// Returns the name of a value up to its first loop round: "layer.11" of "layer.11.attention.wq".
static const char *round_name(Arena *a, const LedgerPart *p) {
  const char *name = bare_name(p);
  for (size_t i = 0; name[i]; i++) {
    size_t n = round_length(name, i);
    if (n) return arena_text(a, name, i + n);
  }
  return name;
}

static void name_line(Arena *a, const Ledger *l, LedgerLine *line) {
  const LedgerRow *low = NULL, *high = NULL;
  if (line->n > 1 && is_bucket(&l->row[line->row[0]])) {
    line->value = bucket_names(a, l, line);
    line->shortened = true;
    return;
  }
  for (uint32_t i = 0; i < line->n; i++) {
    const LedgerRow *row = &l->row[line->row[i]];
    long round = first_round(row->fact->value);
    if (!low || round < first_round(low->fact->value)) low = row;
    if (!high || round > first_round(high->fact->value)) high = row;
  }
  line->value = short_names(a, low, &line->shortened);
  if (first_round(low->fact->value) == first_round(high->fact->value)) return;
  bool one = low->nparts == 1;
  line->value = arena_printf(a, one ? "%s ... %s" : "%s to %s", line->value,
                             one ? high->part[0].value : round_name(a, &high->part[0]));
}

void lines_find(Arena *a, Ledger *l) {
  Arena *scratch = arena_new();
  const char **key = arena_array(scratch, const char *, l->nrows + 1);
  l->line = arena_array(a, LedgerLine, l->nrows + 1);
  for (uint32_t i = 0; i < l->nrows; i++) {
    LedgerRow *row = &l->row[i];
    const char *own = row_key(scratch, l, row);
    uint32_t k = 0;
    while (k < l->nlines && strcmp(key[k], own) != 0) k++;
    if (k == l->nlines) {
      key[l->nlines++] = own;
      l->line[k].row = arena_array(a, uint32_t, l->nrows - i);
    }
    LedgerLine *line = &l->line[k];
    row->line = k;
    line->row[line->n++] = i;
    line->unequal |= row->fact->bytes != l->row[line->row[0]].fact->bytes;
    line->calls += row->fact->times;
    line->wire_bytes += row->fact->wire_bytes * row->fact->times;
    line->seconds += row->fact->seconds * (double)row->fact->times;
  }
  for (uint32_t k = 0; k < l->nlines; k++) name_line(a, l, &l->line[k]);
  arena_free(scratch);
}
