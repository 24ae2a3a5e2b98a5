// Writes messages of protocol buffers, as far as TensorBoard's files need them. A message is
// written to a buffer that grows. A nested message is written to another buffer, whose bytes are
// then added to the outer message.
#ifndef RUNTIME_PROTO_H
#define RUNTIME_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Proto {
  char *at; // the bytes written, malloc'd; proto_free frees them
  size_t n, room;
} Proto;
void proto_free(Proto *p);
void proto_bytes(Proto *p, int field, const void *bytes, size_t n);
void proto_text(Proto *p, int field, const char *text);
void proto_integer(Proto *p, int field, uint64_t x);
void proto_double(Proto *p, int field, double x);
void proto_float(Proto *p, int field, float x);
// Adds a nested message, the bytes of `inner`, and empties `inner`.
void proto_message(Proto *p, int field, Proto *inner);

#endif
