// Executables that generate text: prompts from the command line or standard input, texts to
// standard output, as `meshc generate` prints them.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/mem.h"
#include "runtime/library/runner.h"
#include "runtime/package/package_batch.h"
#include "runtime/package/package_text.h"

enum { MOST_PROMPT = 64 << 20 }; // bytes of a prompt from a file or standard input

typedef struct Printing {
  const Runner *r;
  uint32_t texts, begun;
} Printing;

static bool print(void *context, uint32_t text, const char *bytes, size_t n, bool last) {
  Printing *p = context;
  if (p->texts > 1 && text >= p->begun) printf("--- %u\n", text + 1);
  p->begun = text + 1;
  (void)fwrite(bytes, 1, n, stdout);
  if (last) putchar('\n');
  return fflush(stdout) == 0 ||
         diag_error(p->r->diag, DIAG_NO_DISK, (Pos){0}, "cannot write standard output");
}

// from: the file or the option with the prompt, for messages.
static bool add_prompt(Texts *x, const char *from, const char *text, size_t n, TokenList *out) {
  if (!token_encode(&x->codec, x->arena, text, n, x->diag, (Pos){0}, out)) {
    diag_note(x->diag, (Pos){0}, "in %s", from);
    return false;
  }
  if (out->n) return true;
  diag_error(x->diag, DIAG_USAGE, (Pos){0}, "%s is empty, and the model needs an id to begin with",
             from);
  return diag_hint(x->diag, "begin the text: --prompt TEXT");
}

// Adds all that a stream has, which may be a pipe.
static bool add_stream(Texts *x, const char *from, FILE *in, TokenList *out) {
  enum { PIECE = 1 << 12 };
  char room[PIECE], *text;
  size_t n = 0, most = 0;
  FILE *f = mem_stream(&text, &n);
  for (size_t k; most <= MOST_PROMPT && (k = fread(room, 1, PIECE, in)) > 0; most += k)
    (void)fwrite(room, 1, k, f);
  mem_stream_close(f);
  bool good = !ferror(in) && most <= MOST_PROMPT;
  if (good)
    good = add_prompt(x, from, text, n, out);
  else
    diag_error(x->diag, DIAG_FILE_MISSING, (Pos){0}, "cannot read %s: %s", from,
               ferror(in) ? strerror(errno) : "it has more than 64 MiB");
  free(text);
  return good;
}

static bool add_file(Texts *x, const char *path, TokenList *out) {
  FILE *f = mem_fopen(path, "rb");
  if (!f) {
    diag_error(x->diag, DIAG_FILE_MISSING, (Pos){0}, "cannot read the prompt %s: %s", path,
               strerror(errno));
    return diag_hint(x->diag, "check the path");
  }
  bool good = add_stream(x, path, f, out);
  (void)fclose(f);
  return good;
}

static bool read_prompts(const Runner *r, Texts *x) {
  uint32_t texts = r->text.prompt.n, files = r->text.file.n;
  x->n = texts + files ? texts + files : 1;
  TokenList *prompt = arena_array(r->arena, TokenList, x->n);
  x->prompt = prompt;
  for (uint32_t i = 0; i < texts; i++) {
    const char *text = r->text.prompt.at[i], *from = arena_printf(r->arena, "--prompt '%s'", text);
    if (!add_prompt(x, from, text, strlen(text), &prompt[i])) return false;
  }
  for (uint32_t i = 0; i < files; i++)
    if (!add_file(x, r->text.file.at[i], &prompt[texts + i])) return false;
  if (texts + files) return true;
  return add_stream(x, "standard input", stdin, &prompt[0]);
}

static bool read_stops(const Runner *r, Texts *x) {
  StopText *stop = arena_array(r->arena, StopText, r->text.stop.n + 1);
  x->stop = stop;
  x->nstops = r->text.stop.n;
  for (uint32_t i = 0; i < r->text.stop.n; i++)
    if (!texts_stop(x, r->text.stop.at[i], (Pos){0}, &stop[i])) return false;
  return true;
}

static bool generate(const Runner *r, PackageGenerator *g, Texts *x) {
  const TextOptions *o = &r->text;
  Printing printing = {.r = r};
  *x = (Texts){.arena = r->arena,
               .diag = r->diag,
               .decoder = &g->decoder,
               .codec = g->codec,
               .most = o->most,
               .beams = o->beams,
               .new_only = o->quiet,
               .show = print,
               .context = &printing};
  bool draws = o->top_k > 0 || o->top_p < 1; // alone they imply a temperature of 1
  x->sampling = (SamplerOptions){.temperature = o->temperature >= 0 ? o->temperature : draws,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .seed = (uint64_t)o->seed};
  if (o->beams && (draws || o->temperature >= 0))
    return diag_error(r->diag, DIAG_USAGE, (Pos){0}, "--beams: beam search draws no ids");
  if (!read_prompts(r, x) || !read_stops(r, x)) return false;
  printing.texts = x->n;
  return texts_run(x);
}

void runner_text(Runner *r, const Package *p) {
  const ExecOptions options = {.threads = (int)r->threads, .seed = p->seed};
  PackageGenerator g;
  Texts x = {0};
  int64_t steps;
  const PackageTextAsk ask = {.prompts = r->text.prompt.n + r->text.file.n, .beams = r->text.beams};
  bool ok = package_generator_open(r->arena, p, &options, &ask, r->diag, &g);
  if (ok && r->params)
    ok = package_read_values(g.decoder.step.program, g.step, r->params, &steps, r->diag);
  if (ok) (void)!generate(r, &g, &x);
  texts_free(&x);
  package_generator_free(&g);
}
