// The texts that the command generate makes: where they end, and how they are printed.
#include "frontend/command/generate_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t id_text(const Generate *x, const GeneratedText *t, int64_t i, const char **text,
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
static Tail tail_of(const Generate *x, const GeneratedText *t, size_t bytes) {
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

static size_t longest_stop(const Generate *x) {
  size_t n = 0;
  for (uint32_t i = 0; i < x->nstops; i++)
    if (x->stop[i].n > n) n = x->stop[i].n;
  return n;
}

// Returns the bytes from the first stop in the tail that the last id completes to the end; 0 if it
// completes none. A piece of a vocabulary may go on behind the stop.
static size_t bytes_from_stop(const Generate *x, const Tail *tail) {
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
static void drop_stop(const Generate *x, GeneratedText *t, size_t bytes) {
  const char *text;
  char room[TOKEN_ROOM];
  for (size_t n; bytes > 0 && (n = id_text(x, t, t->n - 1, &text, room)) <= bytes; bytes -= n)
    t->n--;
  t->dropped = bytes;
  t->end = "stop";
}

void generate_append(const Generate *x, GeneratedText *t, int32_t id) {
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

void generate_context_ends(Generate *x) {
  for (uint32_t r = 0; r < x->nprompts; r++)
    if (!x->text[r].end) x->text[r].end = "context";
}

// -- printing ------------------------------------------------------------------------------------

// Returns the bytes at the end of the tail that may be the begin of a stop.
static size_t bytes_of_begin(const Generate *x, const Tail *tail) {
  size_t held = 0;
  for (uint32_t i = 0; i < x->nstops; i++)
    for (size_t n = x->stop[i].n - 1; n > held; n--)
      if (n <= tail->n && memcmp(tail->text + tail->n - n, x->stop[i].text, n) == 0) held = n;
  return held;
}

// Returns how many ids of t are sure to be a part of the text: the last ones may begin a stop.
static int64_t sure(const Generate *x, const GeneratedText *t) {
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

static void show_ids(const Generate *x, GeneratedText *t, int64_t end) {
  int64_t first = option_given(x->s->opt, OPTION_QUIET) ? t->prompt : 0;
  const char *text;
  char room[TOKEN_ROOM];
  if (t->shown < first) t->shown = first;
  for (; t->shown < end; t->shown++) {
    size_t n;
    text = token_text(&x->codec, t->id[t->shown], t->shown == first, room, &n);
    (void)fwrite(text, 1, n - (t->shown == t->n - 1 ? t->dropped : 0), stdout);
  }
}

bool generate_show(Generate *x) {
  if (!session_first(x->s) || option_given(x->s->opt, OPTION_JSON)) return true;
  for (; x->printed < x->nprompts; x->printed++) {
    GeneratedText *t = &x->text[x->printed];
    if (x->nprompts > 1 && !t->shown) printf("--- %u\n", x->printed + 1);
    show_ids(x, t, sure(x, t));
    if (!t->end) break;
    putchar('\n');
  }
  return fflush(stdout) == 0 || session_cannot_write(x->s, "standard output", (Pos){0});
}

// -- JSON ----------------------------------------------------------------------------------------

static json_t *text_json(const Generate *x, const GeneratedText *t, int64_t from, int64_t to) {
  char *all, room[TOKEN_ROOM];
  size_t bytes, n;
  FILE *f = mem_stream(&all, &bytes);
  for (int64_t i = from; i < to; i++) {
    const char *text = token_text(&x->codec, t->id[i], i == from, room, &n);
    (void)fwrite(text, 1, n - (i == t->n - 1 ? t->dropped : 0), f);
  }
  mem_stream_close(f);
  json_t *out = json_text(all);
  free(all);
  return out;
}

static json_t *one_json(const Generate *x, const GeneratedText *t) {
  json_t *out = json_object(), *ids = json_array();
  for (int64_t i = t->prompt; i < t->n; i++) json_array_append_new(ids, json_integer(t->id[i]));
  json_object_set_new(out, "prompt", text_json(x, t, 0, t->prompt));
  json_object_set_new(out, "text", text_json(x, t, t->prompt, t->n));
  json_object_set_new(out, "ids", ids);
  json_object_set_new(out, "end", json_string(t->end));
  return out;
}

void generate_json(const Generate *x) {
  json_t *out = json_object(), *texts = json_array();
  json_object_set_new(out, "schema", json_string("meshc.generate/1"));
  json_object_set_new(out, "model", json_text(x->s->opt->argument.at[0]));
  for (uint32_t i = 0; i < x->nprompts; i++) json_array_append_new(texts, one_json(x, &x->text[i]));
  json_object_set_new(out, "texts", texts);
  json_object_set_new(out, "prompt_seconds", json_real(x->first_seconds));
  json_object_set_new(out, "seconds", json_real(x->seconds));
  json_object_set_new(out, "tokens", json_integer(x->timed));
  json_finish(out);
}
