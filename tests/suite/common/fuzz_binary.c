// Mutations of binary files that keep their form (fuzz_files.h): integers of fixed and of variable
// length, texts packed by gzip, safetensors, messages of protocol buffers.
#include <string.h>
#include <zlib.h>

#include "tests/suite/common/fuzz_files.h"

// -- integers -----------------------------------------------------------------------------------

// Returns a number that is near x, or odd.
static uint64_t other_number(uint64_t x) {
  switch (fuzz_below(4)) {
  case 0: return fuzz_odd();
  case 1: return x + 1 + fuzz_below(3);
  case 2: return x - 1 - fuzz_below(3);
  default: return fuzz_below(2) ? x * 2 : fuzz_below(300);
  }
}

bool fuzz_words(FuzzText *t) {
  uint64_t x = 0;
  size_t n = (size_t)2 << fuzz_below(3);
  if (t->n < n) return false;
  size_t at = fuzz_below((uint32_t)(t->n / n)) * n;
  memcpy(&x, t->at + at, n); // the lowest byte first, as on every machine of the tests
  x = other_number(x);
  memcpy(t->at + at, &x, n);
  return true;
}

enum { VARINT = 10 }; // bytes at most

// Reads an integer of 7 bits a byte. Returns its length, or 0 if it has no end.
static size_t get_varint(const char *p, size_t n, uint64_t *x) {
  *x = 0;
  for (size_t i = 0; i < n && i < VARINT; i++) {
    *x |= (uint64_t)(p[i] & 0x7f) << (7 * i);
    if (!(p[i] & 0x80)) return i + 1;
  }
  return 0;
}

static void put_varint(FuzzText *t, uint64_t x) {
  char byte;
  for (; x >= 0x80; x >>= 7) {
    byte = (char)(x | 0x80);
    fuzz_put(t, &byte, 1);
  }
  byte = (char)x;
  fuzz_put(t, &byte, 1);
}

bool fuzz_pack(FuzzText *t) {
  static FuzzText out;
  uint64_t x;
  if (t->n < 9) return false;
  size_t at = 8 + fuzz_below((uint32_t)t->n - 8); // behind the number of the layout
  while (at > 8 && (t->at[at - 1] & 0x80)) at--;
  size_t n = get_varint(t->at + at, t->n - at, &x);
  if (!n) return false;
  out.n = 0;
  fuzz_put(&out, t->at, at);
  put_varint(&out, other_number(x));
  fuzz_put(&out, t->at + at + n, t->n - at - n);
  fuzz_copy(t, &out);
  return true;
}

// -- gzip ---------------------------------------------------------------------------------------

enum { GZIP_BITS = 15 + 16 };

static bool unpack(const FuzzText *t, FuzzText *out) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)t->at,
                .avail_in = (uInt)t->n,
                .next_out = (Bytef *)out->at,
                .avail_out = FUZZ_TEXT - 1};
  if (inflateInit2(&z, GZIP_BITS) != Z_OK) return false;
  bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END;
  out->n = z.total_out;
  out->at[out->n] = 0;
  inflateEnd(&z);
  return whole;
}

// Appends a member of a .gz file.
static bool pack(const char *text, size_t n, FuzzText *out) {
  z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                .avail_in = (uInt)n,
                .next_out = (Bytef *)out->at + out->n,
                .avail_out = (uInt)(FUZZ_TEXT - 1 - out->n)};
  int level = (int)fuzz_below(3) * 4 + 1;
  if (deflateInit2(&z, level, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) return false;
  bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
  out->n += z.total_out;
  out->at[out->n] = 0;
  deflateEnd(&z);
  return whole;
}

bool fuzz_csv_gz(FuzzText *t) {
  static FuzzText text;
  if (!unpack(t, &text) || !fuzz_csv(&text)) return false;
  size_t first = fuzz_below(4) ? text.n : fuzz_below((uint32_t)text.n + 1); // a second member
  t->n = 0;
  return pack(text.at, first, t) && (first == text.n || pack(text.at + first, text.n - first, t));
}

// -- safetensors --------------------------------------------------------------------------------

bool fuzz_safetensors(FuzzText *t) {
  static FuzzText head, out;
  uint64_t n;
  memcpy(&n, t->at, sizeof n);
  if (t->n < sizeof n || n > t->n - sizeof n) return false;
  head.n = 0;
  fuzz_put(&head, t->at + sizeof n, n);
  if (!fuzz_json(&head)) return false;
  uint64_t length = head.n;
  out.n = 0;
  fuzz_put(&out, (const char *)&length, sizeof length);
  fuzz_put(&out, head.at, head.n);
  fuzz_put(&out, t->at + sizeof n + n, t->n - sizeof n - n);
  fuzz_copy(t, &out);
  return true;
}

// -- protocol buffers ---------------------------------------------------------------------------

enum { FIXED64 = 1, LENGTH = 2, FIXED32 = 5, MOST_FIELDS = 4096 };
// A field of a message: its tag at `at`, then its length if it has one, then its content.
typedef struct Field {
  size_t at, content, end;
  uint64_t tag;
} Field;
typedef struct Message {
  const char *bytes;
  uint32_t n;
  Field field[MOST_FIELDS];
} Message;

static size_t content_length(const char *p, size_t n, uint64_t tag, size_t *head) {
  uint64_t x;
  *head = 0;
  switch (tag & 7) {
  case 0: return get_varint(p, n, &x);
  case FIXED64: return 8;
  case FIXED32: return 4;
  case LENGTH: *head = get_varint(p, n, &x); return *head && x < FUZZ_TEXT ? (size_t)x : n + 1;
  default: return n + 1;
  }
}

// Lists the fields. Returns false if the bytes are no message.
static bool list_fields(const char *bytes, size_t n, Message *m) {
  m->bytes = bytes;
  m->n = 0;
  for (size_t at = 0; at < n;) {
    Field f = {.at = at};
    size_t head, tag = get_varint(bytes + at, n - at, &f.tag);
    if (!tag || m->n == MOST_FIELDS) return false;
    size_t length = content_length(bytes + at + tag, n - at - tag, f.tag, &head);
    f.content = at + tag + head;
    f.end = f.content + length;
    if (f.end > n || f.end == at + tag) return false;
    m->field[m->n++] = f;
    at = f.end;
  }
  return m->n > 0;
}

static void put_content(FuzzText *out, uint64_t tag, const char *bytes, size_t n) {
  put_varint(out, tag);
  if ((tag & 7) == LENGTH) put_varint(out, n);
  fuzz_put(out, bytes, n);
}

// Puts a field with another content: one more byte, one less, or another number.
static void put_changed(FuzzText *out, const char *bytes, const Field *f) {
  static FuzzText content;
  uint64_t x;
  content.n = 0;
  fuzz_put(&content, bytes + f->content, f->end - f->content);
  if ((f->tag & 7) == 0) {
    (void)get_varint(content.at, content.n, &x);
    content.n = 0;
    put_varint(&content, other_number(x));
  } else if ((f->tag & 7) == LENGTH) {
    fuzz_bytes(&content);
  } else {
    (void)fuzz_words(&content);
  }
  put_content(out, f->tag, content.at, content.n);
}

static void put_field(FuzzText *out, const Message *m, const Field *f) {
  fuzz_put(out, m->bytes + f->at, f->end - f->at);
}

// Puts field f, changed. A field that is a message itself is mostly changed inside.
static void put_mutated(FuzzText *out, const Message *m, const Field *f, int depth) {
  static Message inner;
  static FuzzText content;
  const Field *other = &m->field[fuzz_below(m->n)];
  const char *bytes = m->bytes + f->content;
  size_t n = f->end - f->content;
  if (depth == 0 && (f->tag & 7) == LENGTH && fuzz_below(4) && list_fields(bytes, n, &inner)) {
    content.n = 0;
    uint32_t at = fuzz_below(inner.n);
    for (uint32_t i = 0; i < inner.n; i++)
      if (i == at)
        put_mutated(&content, &inner, &inner.field[i], 1);
      else
        put_field(&content, &inner, &inner.field[i]);
    put_content(out, f->tag, content.at, content.n);
    return;
  }
  switch (fuzz_below(6)) {
  case 0: break; // dropped
  case 1: put_field(out, m, f), put_field(out, m, f); break;
  case 2: put_field(out, m, other); break;
  case 3: put_content(out, fuzz_below(400), bytes, n); break; // another number or kind of field
  default: put_changed(out, m->bytes, f); break;
  }
}

bool fuzz_proto(FuzzText *t) {
  static Message m;
  static FuzzText out;
  if (!list_fields(t->at, t->n, &m)) return false;
  uint32_t at = fuzz_below(m.n);
  out.n = 0;
  for (uint32_t i = 0; i < m.n; i++)
    if (i == at)
      put_mutated(&out, &m, &m.field[i], 0);
    else
      put_field(&out, &m, &m.field[i]);
  fuzz_copy(t, &out);
  return true;
}
