// Carries out messages between devices whose memory is that of this process (message_run.h). Slots
// have no more bytes than their list says, and are filled with 0xff before.
#include "tests/suite/common/message_run.h"

#include <string.h>

#include "collectives/local/devices.h"
#include "collectives/local/transfer.h"

typedef struct World {
  Arena *a;
  int64_t devices;   // of the mesh
  MessageCall *list; // by device
} World;

// Lists the messages of a device. Sets *strays if one of them is received elsewhere than in a slot.
static MessageCall list_for(Arena *a, const MessagePart *part, const Mesh *m, const CommCall *call,
                            int64_t first, int64_t each, bool by_kernels, bool *strays) {
  int64_t bytes = message_call(a, part, m, call, first, each, by_kernels, NULL).staging;
  uintptr_t room = (uintptr_t)arena_alloc(a, (size_t)bytes + MEMORY_ALIGN);
  char *staging = (char *)(ceil_div((int64_t)room, MEMORY_ALIGN) * MEMORY_ALIGN);
  memset(staging, 0xff, (size_t)bytes);
  MessageCall out = message_call(a, part, m, call, first, each, by_kernels, staging);
  for (uint32_t i = 0; i < out.nmessages; i++) {
    const void *to = out.message[i].to;
    if (to && (uintptr_t)to - (uintptr_t)staging >= (uintptr_t)bytes) *strays = true;
  }
  return out;
}

static const char *run_all(const World *w, bool packs, RunSet *run, void *context) {
  for (int64_t i = 0; i < w->devices; i++) {
    const MessageCall *l = &w->list[i];
    uint32_t n = packs ? l->npacks : l->nunpacks;
    for (uint32_t k = 0; k < n; k++) {
      const char *wrong = run(context, packs ? &l->pack[k] : &l->unpack[k]);
      if (wrong) return wrong;
    }
  }
  return NULL;
}

// -- collectives --------------------------------------------------------------------------------

// Combines `count` elements from number `first` on of message i of all devices of a group.
static void combine(const World *w, const int64_t *peer, int64_t group, uint32_t i, int64_t first,
                    char *to) {
  const Message *m = &w->list[peer[0]].message[i];
  char **src = arena_array(w->a, char *, group);
  for (int64_t k = 0; k < group; k++) src[k] = (char *)(uintptr_t)w->list[peer[k]].message[i].from;
  Transfer t = {.nsrc = group, .ndst = 1, .src = src, .dst = &to};
  combine_of(m->type)(&t, first, 0, m->count, m->monoid);
}

// Returns what message i, a collective, gives device k.
static char *result_of(const World *w, const int64_t *peer, int64_t group, uint32_t i, int64_t k,
                       int64_t *bytes) {
  const Message *m = &w->list[peer[k]].message[i];
  int64_t size = m->count * dtype_bytes(m->type);
  *bytes = m->kind == MESSAGE_GATHER ? size * group : size;
  char *out = arena_alloc(w->a, (size_t)*bytes + 1);
  if (m->kind == MESSAGE_REDUCE) combine(w, peer, group, i, 0, out);
  if (m->kind == MESSAGE_REDUCE_SCATTER) combine(w, peer, group, i, k * m->count, out);
  for (int64_t j = 0; m->kind == MESSAGE_GATHER && j < group; j++)
    memcpy(out + j * size, w->list[peer[j]].message[i].from, (size_t)size);
  return out;
}

static const char *run_collective(const World *w, const int64_t *peer, int64_t group, uint32_t i) {
  const Message *first = &w->list[peer[0]].message[i];
  char **out = arena_array(w->a, char *, group);
  int64_t bytes = 0;
  for (int64_t k = 0; k < group; k++) {
    const MessageCall *l = &w->list[peer[k]];
    const Message *m = &l->message[i];
    if (i >= l->nmessages || m->kind != first->kind || m->count != first->count ||
        m->type != first->type || m->monoid != first->monoid)
      return "devices do not make the same call";
    out[k] = result_of(w, peer, group, i, k, &bytes);
  }
  for (int64_t k = 0; k < group; k++) memcpy(w->list[peer[k]].message[i].to, out[k], (size_t)bytes);
  return NULL;
}

// -- sends and receives -------------------------------------------------------------------------

// Returns message number `n` of a kind between a device and another one of its group; NULL if there
// are fewer.
static const Message *find(const MessageCall *l, MessageKind kind, int64_t peer, uint32_t n) {
  for (uint32_t i = 0; i < l->nmessages; i++)
    if (l->message[i].kind == kind && l->message[i].peer == peer && n-- == 0) return &l->message[i];
  return NULL;
}

static const char *run_pair(const World *w, const int64_t *peer, int64_t from, int64_t to) {
  const MessageCall *sender = &w->list[peer[from]], *receiver = &w->list[peer[to]];
  for (uint32_t n = 0;; n++) {
    const Message *s = find(sender, MESSAGE_SEND, to, n);
    const Message *r = find(receiver, MESSAGE_RECEIVE, from, n);
    if (!s && !r) return NULL;
    if (!s || !r || s->count != r->count || s->type != r->type)
      return "a message is not received as it is sent";
    memcpy(r->to, s->from, (size_t)(s->count * dtype_bytes(s->type)));
  }
}

static const char *run_group(const World *w, const int64_t *peer, int64_t group) {
  const MessageCall *first = &w->list[peer[0]];
  const char *wrong = NULL;
  for (uint32_t i = 0; i < first->nmessages && !wrong; i++)
    if (first->message[i].kind < MESSAGE_SEND) wrong = run_collective(w, peer, group, i);
  for (int64_t from = 0; from < group; from++)
    for (int64_t to = 0; to < group && !wrong; to++) wrong = run_pair(w, peer, from, to);
  return wrong;
}

const char *message_run(Arena *a, const MessagePart *part, const Mesh *m, int64_t each,
                        const CommCall *call, bool by_kernels, RunSet *run, void *context) {
  World w = {a, mesh_size(m) / each, arena_array(a, MessageCall, mesh_size(m))};
  int64_t *peer = arena_array(a, int64_t, w.devices);
  bool strays = false;
  for (int64_t i = 0; i < w.devices; i++)
    w.list[i] = list_for(a, part, m, call, i * each, each, by_kernels, &strays);
  if (strays && by_kernels) return "a message is received in a result";
  Axes axes = w.list[0].axes;
  int64_t group = axes_size(m, axes);
  const char *wrong = run_all(&w, true, run, context);
  for (int64_t i = 0; i < w.devices && !wrong; i++) {
    if (device_index(m, axes, each, i * each) != 0) continue;
    for (int64_t k = 0; k < group; k++) {
      int64_t r = axes_peer(m, axes, i * each, k);
      peer[device_index(m, axes, each, r)] = r / each;
    }
    wrong = run_group(&w, peer, devices_along(m, axes, each));
  }
  return wrong ? wrong : run_all(&w, false, run, context);
}
