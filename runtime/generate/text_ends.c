// Where generated texts end, and which part of them can be shown (texts.h).
#include "runtime/generate/texts_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t id_text(const Texts *x, const GeneratedText *t, int64_t i, const char **text,
                      char room[TOKEN_ROOM]) {
  size_t n;
  *text = token_text(&x->codec, t->id[i], i == 0, room, &n);
  return n;
}

// -- stops -----------------------------------------------------------------------------------------

// The end of a text: its last generated ids, as text.
typedef struct Tail {
  char *text;
  size_t n, last; // bytes of all, and of the last id
} Tail;

// Returns at least `bytes` bytes of the end of t, or all that were generated, and those of the last
// id. The caller frees its text.
static Tail tail_of(const Texts *x, const GeneratedText *t, size_t bytes) {
  Tail out = {0};
  const char *text;
  char room[TOKEN_ROOM];
  int64_t from = t->n;
  for (; from > t->prompt && (out.n < bytes + out.last || from == t->n); from--) {
    size_t n = id_text(x, t, from - 1, &text, room);
    if (from == t->n) out.last = n;
    out.n += n;
  }
  out.text = mem_alloc(out.n + 1);
  for (size_t at = 0; from < t->n; from++) {
    size_t n = id_text(x, t, from, &text, room);
    memcpy(out.text + at, text, n);
    at += n;
  }
  return out;
}

static size_t longest_stop(const Texts *x) {
  size_t n = 0;
  for (uint32_t i = 0; i < x->nstops; i++)
    if (x->stop[i].n > n) n = x->stop[i].n;
  return n;
}

// Returns the bytes from the first stop in the tail that the last id completes to the end; 0 if it
// completes none. A piece of a vocabulary may go on behind the stop.
static size_t bytes_from_stop(const Texts *x, const Tail *tail) {
  size_t most = 0;
  for (uint32_t i = 0; i < x->nstops; i++) {
    const StopText *stop = &x->stop[i];
    size_t first = x->codec.kind == TOKEN_PIECES ? tail->n - tail->last + 1 : tail->n;
    for (size_t end = first > stop->n ? first : stop->n; end <= tail->n; end++)
      if (memcmp(tail->text + end - stop->n, stop->text, stop->n) == 0 &&
          tail->n - end + stop->n > most)
        most = tail->n - end + stop->n;
  }
  return most;
}

// Ends the text before a stop, which is the last `bytes` bytes of it.
static void drop_stop(const Texts *x, GeneratedText *t, size_t bytes) {
  const char *text;
  char room[TOKEN_ROOM];
  for (size_t n; bytes > 0 && (n = id_text(x, t, t->n - 1, &text, room)) <= bytes; bytes -= n)
    t->n--;
  t->dropped = bytes;
  t->end = "stop";
}

void texts_append(const Texts *x, GeneratedText *t, int32_t id) {
  if (id == x->codec.end) {
    t->end = "end";
    return;
  }
  t->id[t->n++] = id;
  if (t->n - t->prompt >= x->most) t->end = "length";
  if (x->nstops == 0) return;
  Tail tail = tail_of(x, t, longest_stop(x));
  size_t bytes = bytes_from_stop(x, &tail);
  if (bytes > 0) drop_stop(x, t, bytes);
  free(tail.text);
}

// -- showing -------------------------------------------------------------------------------------

// Returns the bytes at the end of the tail that may be the begin of a stop.
static size_t bytes_of_begin(const Texts *x, const Tail *tail) {
  size_t held = 0;
  for (uint32_t i = 0; i < x->nstops; i++)
    for (size_t n = x->stop[i].n - 1; n > held; n--)
      if (n <= tail->n && memcmp(tail->text + tail->n - n, x->stop[i].text, n) == 0) held = n;
  return held;
}

// Returns how many ids of t are sure to be a part of the text: the last ones may begin a stop.
static int64_t sure(const Texts *x, const GeneratedText *t) {
  if (t->end || x->nstops == 0 || t->n <= t->prompt) return t->n;
  Tail tail = tail_of(x, t, longest_stop(x));
  size_t held = bytes_of_begin(x, &tail), seen = 0;
  int64_t n = t->n;
  const char *text;
  char room[TOKEN_ROOM];
  for (; seen < held; n--) seen += id_text(x, t, n - 1, &text, room);
  free(tail.text);
  return n;
}

// Writes the text of ids from..to-1 to f.
static void put_ids(const Texts *x, const GeneratedText *t, int64_t from, int64_t to, bool first,
                    FILE *f) {
  char room[TOKEN_ROOM];
  for (int64_t i = from; i < to; i++) {
    size_t n;
    const char *text = token_text(&x->codec, t->id[i], first && i == from, room, &n);
    (void)fwrite(text, 1, n - (i == t->n - 1 ? t->dropped : 0), f);
  }
}

char *texts_bytes(const Texts *x, const GeneratedText *t, int64_t from, int64_t to, size_t *bytes) {
  char *text;
  FILE *f = mem_stream(&text, bytes);
  put_ids(x, t, from, to, true, f);
  mem_stream_close(f);
  return text;
}

// Shows the ids of a text up to number `to`.
static bool show_ids(const Texts *x, uint32_t text, int64_t to) {
  GeneratedText *t = &x->text[text];
  int64_t first = x->new_only ? t->prompt : 0;
  char *bytes;
  size_t n;
  if (t->shown < first) t->shown = first;
  if (to <= t->shown && !t->end) return true;
  FILE *f = mem_stream(&bytes, &n);
  put_ids(x, t, t->shown, to, t->shown == first, f);
  mem_stream_close(f);
  if (to > t->shown) t->shown = to;
  bool more = x->show(x->context, text, bytes, n, t->end != NULL);
  free(bytes);
  return more;
}

bool texts_show(Texts *x) {
  for (; x->show && x->shown < x->n; x->shown++) {
    if (!show_ids(x, x->shown, sure(x, &x->text[x->shown]))) return false;
    if (!x->text[x->shown].end) break;
  }
  return true;
}

bool texts_stop(const Texts *x, const char *text, Pos at, StopText *out) {
  TokenList ids;
  size_t n = strlen(text);
  char *numbers;
  *out = (StopText){text, n};
  if (!token_encode(&x->codec, x->arena, text, n, x->diag, at, &ids)) return false;
  if (!ids.n) return diag_error(x->diag, DIAG_USAGE, at, "a text to stop at is empty");
  if (x->codec.kind != TOKEN_NUMBERS) return true;
  const GeneratedText t = {.n = ids.n, .id = ids.id};
  FILE *f = mem_stream(&numbers, &out->n);
  put_ids(x, &t, 0, ids.n, false, f);
  mem_stream_close(f);
  out->text = arena_copy(x->arena, numbers, out->n + 1);
  free(numbers);
  return true;
}
