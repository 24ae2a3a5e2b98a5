// Handles of the stand-in of libcuda (handle.h).
#include "tests/standin/cuda/handle.h"

#include <stdio.h>
#include <stdlib.h>

#include "ir/base/mem.h"
#include "tests/standin/fail.h"

static const char *const kind_name[] = {
    "context", "stream", "event", "graph", "instantiated graph", "module", "function"};
static Handle *all, *dead; // dead: destroyed, kept so that their use is found
static uint32_t numbers[countof(kind_name)];

void *handle_new(HandleKind kind, size_t bytes, void (*release)(void *handle)) {
  Handle *h = mem_zeroed(1, bytes);
  *h = (Handle){
      .kind = kind, .number = ++numbers[kind - HANDLE_CONTEXT], .release = release, .next = all};
  return all = h;
}

void handle_check(const void *handle, HandleKind kind, const char *call) {
  const Handle *h = handle;
  const char *name = kind_name[kind - HANDLE_CONTEXT];
  if (!h || h->kind != kind) standin_fail("%s gets %p, which is no %s", call, handle, name);
  if (h->destroyed) standin_fail("%s gets %s %u, which is destroyed", call, name, h->number);
}

void handle_destroy(void *handle) {
  Handle *h = handle;
  Handle **at = &all;
  if (h->release) h->release(h);
  h->destroyed = true;
  while (*at != h) at = &(*at)->next;
  *at = h->next;
  h->next = dead;
  dead = h;
}

void handle_each(HandleKind kind, void (*each)(void *handle, void *argument), void *argument) {
  for (Handle *h = all, *next; h; h = next) {
    next = h->next; // `each` may destroy h
    if (h->kind == kind) each(h, argument);
  }
}

uint32_t handle_leaks(char *text, size_t n) {
  uint32_t leaks = 0;
  size_t used = 0;
  if (n) text[0] = 0;
  for (const Handle *h = all; h; h = h->next) {
    // contexts are counted by their users, functions end with their module
    if (h->kind == HANDLE_CONTEXT || h->kind == HANDLE_FUNCTION) continue;
    if (leaks++ < 5 && used < n)
      used += (size_t)snprintf(text + used, n - used, "%s%s %u", leaks > 1 ? ", " : "",
                               kind_name[h->kind - HANDLE_CONTEXT], h->number);
  }
  return leaks;
}

static void free_list(Handle *h) {
  while (h) {
    Handle *next = h->next;
    if (!h->destroyed && h->release) h->release(h);
    free(h);
    h = next;
  }
}

void handle_free_all(void) {
  free_list(all);
  free_list(dead);
  all = dead = NULL;
}
