// Writes the wire format of protocol buffers. A field is a tag (field number and kind), and then,
// by kind, a varint (an integer of variable length), 4 or 8 bytes, or a length and bytes.
#include "runtime/train/proto.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/mem.h"

enum { VARINT = 0, EIGHT = 1, LENGTH = 2, FOUR = 5 };

static void put(Proto *p, const void *bytes, size_t n) {
  if (p->n + n > p->room) {
    p->room = 2 * (p->n + n) + 64;
    p->at = mem_grow(p->at, p->room);
  }
  if (n > 0) memcpy(p->at + p->n, bytes, n);
  p->n += n;
}

static void put_varint(Proto *p, uint64_t x) {
  unsigned char bytes[10];
  size_t n = 0;
  for (; x >= 0x80; x >>= 7) bytes[n++] = (unsigned char)(x | 0x80);
  bytes[n++] = (unsigned char)x;
  put(p, bytes, n);
}

static void put_tag(Proto *p, int field, int kind) {
  put_varint(p, (uint64_t)field << 3 | (uint64_t)kind);
}

// Adds the low n bytes of `bits`, the lowest byte first on every machine.
static void put_little(Proto *p, uint64_t bits, int n) {
  unsigned char bytes[8];
  for (int i = 0; i < n; i++) bytes[i] = (unsigned char)(bits >> (8 * i));
  put(p, bytes, (size_t)n);
}

void proto_bytes(Proto *p, int field, const void *bytes, size_t n) {
  put_tag(p, field, LENGTH);
  put_varint(p, n);
  put(p, bytes, n);
}

void proto_text(Proto *p, int field, const char *text) {
  proto_bytes(p, field, text, strlen(text));
}

void proto_integer(Proto *p, int field, uint64_t x) {
  put_tag(p, field, VARINT);
  put_varint(p, x);
}

void proto_double(Proto *p, int field, double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  put_tag(p, field, EIGHT);
  put_little(p, bits, 8);
}

void proto_float(Proto *p, int field, float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  put_tag(p, field, FOUR);
  put_little(p, bits, 4);
}

void proto_message(Proto *p, int field, Proto *inner) {
  proto_bytes(p, field, inner->at, inner->n);
  inner->n = 0;
}

void proto_free(Proto *p) {
  free(p->at);
  *p = (Proto){0};
}
