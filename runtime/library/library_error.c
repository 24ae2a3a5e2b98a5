// The boundary of the library: every call runs under a guard, and its diagnostics become an error
// object. An error object is one block from malloc. If malloc fails, a static object is returned.
#include "runtime/library/library.h"

#include <stdlib.h>
#include <string.h>

struct meshc_error {
  size_t n;
  meshc_message at[];
};

static struct {
  size_t n;
  meshc_message at[1];
} no_memory = {1, {{.severity = "error", .code = "E0804", .text = "out of memory"}}};

size_t meshc_error_count(const meshc_error *e) { return e ? e->n : 0; }
const meshc_message *meshc_error_at(const meshc_error *e, size_t i) {
  return e && i < e->n ? &e->at[i] : NULL;
}
void meshc_error_free(meshc_error *e) {
  if ((void *)e != (void *)&no_memory) free(e);
}

// -- making an error object ---------------------------------------------------------------------

// An error object that is being made from messages.
typedef struct Builder {
  meshc_error *error; // NULL: messages and bytes are only counted
  char *text;         // address for the next text, after the texts that are already in the object
  size_t n, bytes;    // number of messages, and bytes of all their texts
} Builder;

static const char *put_text(Builder *b, const char *text) {
  if (!text) return NULL;
  size_t n = strlen(text) + 1;
  b->bytes += n;
  if (!b->error) return NULL;
  char *at = memcpy(b->text, text, n);
  b->text += n;
  return at;
}

static void put_message(Builder *b, const meshc_message *m) {
  meshc_message copy = *m;
  copy.severity = put_text(b, m->severity);
  copy.code = put_text(b, m->code);
  copy.text = put_text(b, m->text);
  copy.hint = put_text(b, m->hint);
  copy.file = put_text(b, m->file);
  if (b->error) b->error->at[b->n] = copy;
  b->n++;
}

typedef void PutAll(Builder *b, const void *context);

// Builds an error object from the messages that `put` adds. It calls `put` twice: first to count
// the messages, then to copy them.
static meshc_error *build(PutAll *put, const void *context) {
  Builder count = {0}, copy = {0};
  put(&count, context);
  size_t head = sizeof(meshc_error) + count.n * sizeof(meshc_message);
  copy.error = malloc(head + count.bytes);
  if (!copy.error) return (meshc_error *)(void *)&no_memory;
  copy.error->n = count.n;
  copy.text = (char *)copy.error + head;
  put(&copy, context);
  return copy.error;
}

typedef struct Said {
  const Diag *diag;
  uint32_t from;
  bool warnings_only;
} Said;

static void put_said(Builder *b, const void *context) {
  const Said *s = context;
  for (uint32_t i = s->from; i < diag_count(s->diag); i++) {
    DiagEntry e = diag_entry(s->diag, i);
    bool warning = strcmp(e.severity, "warning") == 0, place = e.at.line > 0;
    const meshc_message m = {.severity = e.severity,
                             .code = e.code,
                             .text = e.text,
                             .hint = e.hint,
                             .file = e.at.source ? diag_source_name(s->diag, e.at.source) : NULL,
                             .line = place ? (int)e.at.line : 0,
                             .column = place ? (int)e.at.col : 0,
                             .length = place ? (int)e.at.len : 0};
    if (warning || !s->warnings_only) put_message(b, &m);
  }
}

meshc_error *library_errors(const Diag *d, uint32_t from, bool warnings_only) {
  const Said said = {d, from, warnings_only};
  return build(put_said, &said);
}

static void put_one(Builder *b, const void *message) { put_message(b, message); }

int library_refuse(DiagId id, const char *text, const char *hint, meshc_error **error) {
  const meshc_message m = {.severity = "error", .code = diag_code(id), .text = text, .hint = hint};
  if (error) *error = build(put_one, &m);
  return diag_exit_code(id);
}

int library_failed(const Failure *f, meshc_error **error) {
  if (f->internal)
    return library_refuse(DIAG_FAILURE, f->text,
                          "this is a fault of meshc: please report it with the model", error);
  return library_refuse(DIAG_NO_MEMORY, f->text, diag_default_hint(DIAG_NO_MEMORY), error);
}

// -- the boundary: one call of meshc.h ----------------------------------------------------------

typedef struct Call {
  meshc_model *model;
  LibraryWork *work;
  void *context;
  bool good;
} Call;

static void run(void *call) {
  Call *c = call;
  c->good = c->work(c->model, c->context);
}

static int warnings_since(const Diag *d, uint32_t from) {
  int n = 0;
  for (uint32_t i = from; i < diag_count(d); i++)
    n += strcmp(diag_entry(d, i).severity, "warning") == 0;
  return n;
}

static void put_both(Builder *b, const void *context) {
  const meshc_model *m = context;
  const Said said = {m->diag, m->said, true};
  for (size_t i = 0; i < meshc_error_count(m->warnings); i++) put_message(b, &m->warnings->at[i]);
  put_said(b, &said);
}

// Adds the warnings of the current call to the model's. library_call then removes them from the
// Diag, because a Diag drops a message that it already has, and a later call may give that warning
// again.
static void keep_warnings(meshc_model *m) {
  if (!warnings_since(m->diag, m->said)) return;
  meshc_error *all = build(put_both, m);
  meshc_error_free(m->warnings);
  m->warnings = all;
}

int library_call(meshc_model *m, LibraryWork *work, void *context, meshc_error **error) {
  Call c = {m, work, context, false};
  Failure why;
  if (error) *error = NULL;
  if (!m) return library_refuse(DIAG_USAGE, "the handle is NULL", NULL, error);
  if (m->broken)
    return library_refuse(DIAG_FAILURE, "an earlier call with this model failed halfway",
                          "close the model and open it again", error);
  DiagMark before = diag_mark(m->diag);
  m->said = diag_count(m->diag);
  if (!guard_run(run, &c, &why)) {
    m->broken = true;
    return library_failed(&why, error);
  }
  bool errors = diag_errors(m->diag) > before.counted[0];
  int code = errors ? diag_exit(m->diag) : 0;
  if (errors && error) *error = library_errors(m->diag, m->said, false);
  keep_warnings(m);
  diag_rewind(m->diag, before);
  if (c.good || errors) return code;
  return library_refuse(DIAG_FAILURE, "the call failed without a message", NULL, error);
}

const meshc_error *meshc_warnings(const meshc_model *m) { return m ? m->warnings : NULL; }
