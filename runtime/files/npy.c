// The .npy format, versions 1 to 3: magic 0x93 "NUMPY", version, the length of a Python dict that
// gives type, order and shape, then the bytes.
//
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
#include "runtime/runtime_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool place_count(ArrayPlace *p) {
  int64_t n = 1;
  bool empty = false;
  for (int i = 0; i < p->rank; i++) {
    if (p->size[i] < 0) return false;
    if (p->size[i] == 0)
      empty = true;
    else if (!size_mul(n, p->size[i], &n) || n > (int64_t)1 << 40)
      return false;
  }
  p->elements = empty ? 0 : n;
  return true;
}

// -- the dict text ------------------------------------------------------------------------------

typedef struct HeaderScan {
  const char *at, *end;
} HeaderScan;

static void skip_space(HeaderScan *s) {
  while (s->at < s->end && strchr(" \t\r\n", *s->at) && *s->at) s->at++;
}
static bool take(HeaderScan *s, char c) {
  skip_space(s);
  if (s->at == s->end || *s->at != c) return false;
  s->at++;
  return true;
}
static bool take_word(HeaderScan *s, const char *word) {
  size_t n = strlen(word);
  skip_space(s);
  if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0) return false;
  s->at += n;
  return true;
}
static bool take_string(HeaderScan *s, char *out, size_t room) {
  skip_space(s);
  if (s->at == s->end || (*s->at != '\'' && *s->at != '"')) return false;
  char quote = *s->at++;
  size_t n = 0;
  while (s->at < s->end && *s->at != quote && n + 1 < room) out[n++] = *s->at++;
  out[n] = 0;
  return take(s, quote);
}
static bool take_number(HeaderScan *s, int64_t *out) {
  skip_space(s);
  int64_t x = 0;
  const char *start = s->at;
  for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++)
    if (!size_mul(x, 10, &x) || !size_add(x, *s->at - '0', &x)) return false;
  bool any = s->at > start;
  if (s->at < s->end && *s->at == 'L') s->at++; // skips the suffix of long integers of Python 2
  *out = x;
  return any;
}

static bool parse_type(const char *text, Raw *out, char *why) {
  const char *p = text;
  char order = *p == '<' || *p == '>' || *p == '=' || *p == '|' ? *p++ : '<';
  char kind = *p ? *p++ : '?';
  char *end;
  long bytes = strtol(p, &end, 10);
  if (kind == 'O')
    return why_not(
        why, "holds Python objects, which are pickles and could run code; save it as numbers");
  bool known =
      *end == 0 && end > p &&
      ((kind == 'f' && (bytes == 2 || bytes == 4 || bytes == 8)) || (kind == 'b' && bytes == 1) ||
       ((kind == 'i' || kind == 'u') && (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8)));
  if (!known)
    return why_not(why, "holds elements of type '%.20s', not numbers that can be used", text);
  *out = (Raw){kind == 'b' ? '?' : kind, (uint8_t)bytes, order == '>'};
  return true;
}

static bool parse_shape(HeaderScan *s, ArrayPlace *out, char *why) {
  if (!take(s, '(')) return why_not(why, "has a broken header: no shape");
  out->rank = 0;
  while (!take(s, ')')) {
    int64_t n;
    if (out->rank == MAX_RANK) return why_not(why, "has more than %d axes", MAX_RANK);
    if (!take_number(s, &n)) return why_not(why, "has a broken header: bad shape");
    out->size[out->rank++] = n;
    if (take(s, ',')) continue;
    if (!take(s, ')')) return why_not(why, "has a broken header: bad shape");
    break;
  }
  if (!place_count(out)) return why_not(why, "claims more than 2^40 elements");
  return true;
}

static bool parse_dict(HeaderScan s, ArrayPlace *out, char *why) {
  enum { DESCR = 1, ORDER = 2, SHAPE = 4 };
  int seen = 0;
  char key[32], type[64];
  if (!take(&s, '{')) return why_not(why, "has a broken header: no dict");
  while (!take(&s, '}')) {
    int now = 0;
    if (!take_string(&s, key, sizeof key) || !take(&s, ':'))
      return why_not(why, "has a broken header: bad key");
    if (strcmp(key, "descr") == 0) {
      now = DESCR;
      if (!take_string(&s, type, sizeof type))
        return why_not(why, "holds records, not a plain array of numbers");
      if (!parse_type(type, &out->raw, why)) return false;
    } else if (strcmp(key, "fortran_order") == 0) {
      now = ORDER;
      out->fortran = take_word(&s, "True");
      if (!out->fortran && !take_word(&s, "False"))
        return why_not(why, "has a broken header: bad order");
    } else if (strcmp(key, "shape") == 0) {
      now = SHAPE;
      if (!parse_shape(&s, out, why)) return false;
    }
    if (now == 0 || (seen & now)) return why_not(why, "has a broken header: key '%s'", key);
    seen |= now;
    if (!take(&s, ',') && !take(&s, '}'))
      return why_not(why, "has a broken header: no end");
    else if (s.at[-1] == '}')
      break;
  }
  return seen == (DESCR | ORDER | SHAPE) || why_not(why, "has a broken header: a key is missing");
}

// -- headers and files --------------------------------------------------------------------------

bool npy_header(const unsigned char *b, int64_t n, ArrayPlace *out, char *why) {
  *out = (ArrayPlace){0};
  if (n < 10 || memcmp(b, "\x93NUMPY", 6) != 0)
    return why_not(why, "does not begin as a .npy file");
  int version = b[6];
  if (version < 1 || version > 3)
    return why_not(why, "is of .npy version %d, known are 1 to 3", version);
  int64_t start = version == 1 ? 10 : 12;
  if (n < start) return why_not(why, "ends inside its header");
  uint32_t length = b[8] | (uint32_t)b[9] << 8;
  if (version > 1) length |= (uint32_t)b[10] << 16 | (uint32_t)b[11] << 24;
  if (length > NPY_HEADER_MAX - 12) return why_not(why, "claims a header of %u bytes", length);
  if (start + length > n) return why_not(why, "ends inside its header");
  out->offset = start + length;
  const char *text = (const char *)b + start;
  return parse_dict((HeaderScan){text, text + length}, out, why);
}

bool npy_find(const Datafile *f, ArrayPlace *out, char *why) {
  int64_t n = f->size < NPY_HEADER_MAX ? f->size : NPY_HEADER_MAX;
  unsigned char *b = mem_alloc((size_t)n + 1);
  bool ok = datafile_read(f, 0, n, b, why) && npy_header(b, n, out, why);
  free(b);
  if (!ok) return false;
  int64_t end = out->offset + out->elements * out->raw.bytes;
  if (end != f->size)
    return why_not(why, "has %lld bytes, its header asks for %lld", (long long)f->size,
                   (long long)end);
  return true;
}

size_t npy_header_text(const Array *x, Dtype type, char *out, size_t room) {
  Raw r = raw_of(type);
  char shape[MAX_RANK * 24] = "";
  size_t n = 0;
  for (int i = 0; i < x->rank; i++)
    n += (size_t)snprintf(shape + n, sizeof shape - n, "%lld%s", (long long)x->size[i],
                          i + 1 < x->rank ? ", "
                          : x->rank == 1  ? ","
                                          : "");
  int used =
      snprintf(out + 10, room - 10, "{'descr': '%c%c%d', 'fortran_order': False, 'shape': (%s), }",
               r.bytes == 1 ? '|' : '<', r.kind == '?' ? 'b' : r.kind, r.bytes, shape);
  size_t total = (10 + (size_t)used + 1 + 63) / 64 * 64;
  if (total > room) BUG("npy header of %zu bytes", total);
  memset(out + 10 + used, ' ', total - 10 - (size_t)used);
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)((total - 10) & 0xff);
  out[9] = (char)((total - 10) >> 8);
  out[total - 1] = '\n';
  return total;
}
