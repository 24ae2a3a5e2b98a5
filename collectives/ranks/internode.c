// Does the transfers (collectives/local/transfer.h) whose blocks are on several machines. The
// leaders, the first ranks of the machines, run this code; all call it together.
//
// A transfer is divided into pieces, and each piece has an owner: the machine of its source or,
// where several sources are combined, one of the machines with a destination. Pieces are collected
// into batches, the same ones on all machines. A batch takes two exchanges:
//
//   1. every machine sends its sources of a piece to the owner, which combines them in the order of
//      processors;
//   2. the owner sends the result to the machines with destinations.
//
// A machine does not add up its own sources before it sends them: that would change the order of
// the additions, and with it the bits of the result.
#include <stdlib.h>
#include <string.h>

#include "collectives/ranks/ranks_internal.h"

enum { BATCH_BYTES = 1 << 20, BATCH_PIECES = 256 };

// A piece: a range of the elements of a transfer, with the machine that combines its sources.
typedef struct TransferPiece {
  Transfer t; // its src_of and dst_of point into Internode.of, src and dst into Internode.address
  int64_t lo, hi; // the elements lo..hi-1 of the box of t, counted row-major
  int owner;      // number of the machine that combines the sources
} TransferPiece;

typedef struct MessageBuffer {
  char *at;
  int64_t n;    // bytes of the message
  int64_t room; // bytes allocated
  int64_t used; // bytes that take_bytes has given out
} MessageBuffer;

struct Internode {
  Ranks *ranks;
  const Mesh *mesh;
  int64_t processors;
  WalkRoom room;
  const Collective *what;
  TransferPiece *piece;
  int pieces;
  int64_t bytes; // bytes of the sources in the batch so far
  // for each piece `processors` entries for its sources, then as many for its destinations: the
  // processors in `of`, the addresses of their blocks in `address`
  int64_t *of;
  char **address;
  MessageBuffer *out, *in; // by machine: the messages to it and from it
  MessageBuffer sources, result;
  const char **source;   // addresses of the sources of the piece that is being combined
  bool *has_destination; // by machine: whether it has a destination of the current transfer
  bool failed;
};

void internode_free(Internode *f) {
  if (!f) return;
  for (int m = 0; f->out && f->in && m < f->ranks->machines; m++) {
    free(f->out[m].at);
    free(f->in[m].at);
  }
  free(f->sources.at);
  free(f->result.at);
  walk_room_free(&f->room);
  free(f->piece);
  free(f->of);
  free(f->address);
  free(f->out);
  free(f->in);
  free(f->source);
  free(f->has_destination);
  free(f);
}

Internode *internode_new(Ranks *r, const Mesh *mesh) {
  Internode *f = mem_zeroed(1, sizeof *f);
  f->ranks = r;
  f->mesh = mesh;
  f->processors = mesh_size(mesh);
  size_t n = (size_t)f->processors, machines = (size_t)r->machines;
  f->room = walk_room(f->processors, 1);
  f->source = mem_zeroed(n, sizeof *f->source);
  f->piece = mem_zeroed(BATCH_PIECES, sizeof *f->piece);
  f->of = mem_zeroed(n * 2 * BATCH_PIECES, sizeof *f->of);
  f->address = mem_zeroed(n * 2 * BATCH_PIECES, sizeof *f->address);
  f->out = mem_zeroed(machines, sizeof *f->out);
  f->in = mem_zeroed(machines, sizeof *f->in);
  f->has_destination = mem_zeroed(machines, sizeof *f->has_destination);
  return f;
}

bool internode_concerns(const Ranks *r, const Transfer *t) {
  int first = ranks_machine(r, t->src_of[0]);
  for (int64_t i = 0; i < t->nsrc; i++)
    if (ranks_machine(r, t->src_of[i]) != first) return true;
  for (int64_t i = 0; i < t->ndst; i++)
    if (ranks_machine(r, t->dst_of[i]) != first) return true;
  return false;
}

static void room_for(MessageBuffer *b, int64_t n) {
  b->n = n;
  b->used = 0;
  if (n <= b->room) return;
  free(b->at);
  b->at = mem_alloc((size_t)n);
  b->room = n;
}

static char *take_bytes(MessageBuffer *b, int64_t n) {
  char *at = b->at + b->used;
  b->used += n;
  return at;
}

// -- which bytes of a batch are sent ------------------------------------------------------------

static bool combines(const TransferPiece *p) { return p->t.nsrc > 1; }
static int64_t piece_bytes(const Internode *f, const TransferPiece *p) {
  return (p->hi - p->lo) * dtype_bytes(f->what->type);
}

static int64_t sources_on(const Internode *f, const TransferPiece *p, int machine) {
  int64_t n = 0;
  for (int64_t i = 0; combines(p) && i < p->t.nsrc; i++)
    n += ranks_machine(f->ranks, p->t.src_of[i]) == machine;
  return n;
}

static bool wanted_on(const Internode *f, const TransferPiece *p, int machine) {
  for (int64_t i = 0; i < p->t.ndst; i++)
    if (ranks_machine(f->ranks, p->t.dst_of[i]) == machine) return true;
  return false;
}

// Returns the bytes that machine `from` sends to machine `to` for a batch of transfers. With
// `results` the bytes are those of the second exchange, which sends results; otherwise those of the
// first, which sends sources.
static int64_t sent(const Internode *f, int from, int to, bool results) {
  int64_t n = 0;
  for (int i = 0; i < f->pieces; i++) {
    const TransferPiece *p = &f->piece[i];
    if (results)
      n += p->owner == from && wanted_on(f, p, to) ? piece_bytes(f, p) : 0;
    else
      n += p->owner == to ? sources_on(f, p, from) * piece_bytes(f, p) : 0;
  }
  return n;
}

static void make_buffers(Internode *f, bool results) {
  int own = f->ranks->machine;
  for (int m = 0; m < f->ranks->machines; m++) {
    if (m == own) continue;
    room_for(&f->out[m], sent(f, own, m, results));
    room_for(&f->in[m], sent(f, m, own, results));
  }
}

static bool exchange(Internode *f) {
  Ranks *r = f->ranks;
  TransportPeer *peer = mem_zeroed((size_t)r->machines, sizeof *peer);
  int n = 0;
  for (int m = 0; m < r->machines; m++) {
    if (m == r->machine || (f->out[m].n == 0 && f->in[m].n == 0)) continue;
    peer[n++] = (TransportPeer){r->leader[m], f->out[m].at, f->out[m].n, f->in[m].at, f->in[m].n};
    f->in[m].used = 0;
  }
  bool good = n == 0 || ranks_exchange(r, n, peer, (WaitLimit){.seconds = r->deadline});
  free(peer);
  return good;
}

// -- the two exchanges of a batch ---------------------------------------------------------------

static void copy_source(const Internode *f, const TransferPiece *p, int64_t i, char *to) {
  transfer_copy(&p->t, f->what, p->lo, p->hi, true, p->t.src[i], to);
}

static bool send_sources(Internode *f) {
  int own = f->ranks->machine;
  make_buffers(f, false);
  for (int k = 0; k < f->pieces; k++) {
    const TransferPiece *p = &f->piece[k];
    for (int64_t i = 0; combines(p) && p->owner != own && i < p->t.nsrc; i++)
      if (ranks_machine(f->ranks, p->t.src_of[i]) == own)
        copy_source(f, p, i, take_bytes(&f->out[p->owner], piece_bytes(f, p)));
  }
  return exchange(f);
}

// Combines the sources of piece p (a range of elements of a transfer), whose owner is this machine.
// Writes the result to `to`.
static void make_result(Internode *f, const TransferPiece *p, char *to) {
  int own = f->ranks->machine;
  int64_t bytes = piece_bytes(f, p);
  if (!combines(p)) {
    copy_source(f, p, 0, to);
    return;
  }
  f->sources.used = 0;
  for (int64_t i = 0; i < p->t.nsrc; i++) {
    int machine = ranks_machine(f->ranks, p->t.src_of[i]);
    char *at = take_bytes(machine == own ? &f->sources : &f->in[machine], bytes);
    if (machine == own) copy_source(f, p, i, at);
    f->source[i] = at;
  }
  Transfer one = {
      .nsrc = p->t.nsrc, .ndst = 1, .src = (char *const *)(uintptr_t)f->source, .dst = &to};
  combine_of(f->what->type)(&one, 0, 0, p->hi - p->lo, f->what->monoid);
}

static void make_results(Internode *f) {
  int own = f->ranks->machine;
  int64_t all = 0, most = 0;
  for (int k = 0; k < f->pieces; k++) {
    const TransferPiece *p = &f->piece[k];
    if (p->owner != own) continue;
    all += piece_bytes(f, p);
    if (piece_bytes(f, p) * p->t.nsrc > most) most = piece_bytes(f, p) * p->t.nsrc;
  }
  room_for(&f->result, all);
  room_for(&f->sources, most);
  for (int k = 0; k < f->pieces; k++)
    if (f->piece[k].owner == own)
      make_result(f, &f->piece[k], take_bytes(&f->result, piece_bytes(f, &f->piece[k])));
}

static void put_result(const Internode *f, const TransferPiece *p, const char *from) {
  for (int64_t i = 0; i < p->t.ndst; i++)
    if (ranks_is_local(f->ranks, p->t.dst_of[i]))
      transfer_copy(&p->t, f->what, p->lo, p->hi, false, from, p->t.dst[i]);
}

static bool send_results(Internode *f) {
  int own = f->ranks->machine;
  make_buffers(f, true);
  f->result.used = 0;
  for (int k = 0; k < f->pieces; k++) {
    const TransferPiece *p = &f->piece[k];
    if (p->owner != own) continue;
    int64_t bytes = piece_bytes(f, p);
    const char *result = take_bytes(&f->result, bytes);
    for (int m = 0; m < f->ranks->machines; m++)
      if (m != own && wanted_on(f, p, m))
        memcpy(take_bytes(&f->out[m], bytes), result, (size_t)bytes);
    // a result that is a copy of one source on this machine was copied by comm_ranks.c already
    if (combines(p)) put_result(f, p, result);
  }
  if (!exchange(f)) return false;
  for (int k = 0; k < f->pieces; k++) {
    const TransferPiece *p = &f->piece[k];
    if (p->owner != own && wanted_on(f, p, own))
      put_result(f, p, take_bytes(&f->in[p->owner], piece_bytes(f, p)));
  }
  return true;
}

static void run_batch(Internode *f) {
  f->failed = f->failed || !send_sources(f);
  if (!f->failed) make_results(f);
  f->failed = f->failed || !send_results(f);
  f->pieces = 0;
  f->bytes = 0;
}

// -- dividing transfers into pieces -------------------------------------------------------------

static void add_piece(Internode *f, const Transfer *t, int64_t lo, int64_t hi, int owner) {
  int64_t *of = f->of + f->pieces * 2 * f->processors;
  char **address = f->address + f->pieces * 2 * f->processors;
  TransferPiece *p = &f->piece[f->pieces++];
  *p = (TransferPiece){*t, lo, hi, owner};
  size_t nsrc = (size_t)t->nsrc, ndst = (size_t)t->ndst;
  p->t.src_of = memcpy(of, t->src_of, nsrc * sizeof *of);
  p->t.dst_of = memcpy(of + f->processors, t->dst_of, ndst * sizeof *of);
  p->t.src = memcpy(address, t->src, nsrc * sizeof *address);
  p->t.dst = memcpy(address + f->processors, t->dst, ndst * sizeof *address);
  f->bytes += (hi - lo) * dtype_bytes(f->what->type) * t->nsrc;
  if (f->pieces == BATCH_PIECES || f->bytes >= BATCH_BYTES) run_batch(f);
}

// The callback of a walk over the transfers of a call: adds the pieces (ranges of elements) of t to
// the batch. It adds also pieces in which this machine has no part, so the batches of all machines
// are equal.
static void add_transfer(const TransferWalk *w, const Transfer *t, int64_t elements, int64_t job) {
  Internode *f = w->context;
  Ranks *r = f->ranks;
  (void)job;
  if (f->failed || !internode_concerns(r, t)) return;
  int64_t most = BATCH_BYTES / (dtype_bytes(f->what->type) * t->nsrc), owners = 0;
  memset(f->has_destination, 0, sizeof *f->has_destination * (size_t)r->machines);
  for (int64_t i = 0; i < t->ndst; i++) f->has_destination[ranks_machine(r, t->dst_of[i])] = true;
  for (int m = 0; m < r->machines; m++) owners += f->has_destination[m];
  if (t->nsrc == 1) owners = 1;
  int64_t length = clamp64(ceil_div(elements, owners), 1, most / owners > 1 ? most / owners : 1);
  int owner = t->nsrc > 1 ? -1 : ranks_machine(r, t->src_of[0]);
  for (int64_t lo = 0; lo < elements; lo += length) {
    if (t->nsrc > 1) // the machines with destinations become owners in turn
      do owner = (owner + 1) % r->machines;
      while (!f->has_destination[owner]);
    add_piece(f, t, lo, lo + length < elements ? lo + length : elements, owner);
  }
}

bool internode_run(Internode *f, const CommCall *call) {
  f->what = call->what;
  f->failed = false;
  TransferWalk walk = walk_begin(&f->room, 0, f->mesh, call, 0, 1);
  walk.take = add_transfer;
  walk.context = f;
  transfers_walk(&walk);
  if (f->pieces) run_batch(f);
  return !f->failed;
}
