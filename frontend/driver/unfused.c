// A program with one kernel for each operation, in which a value that is not finite can be found,
// and the note that says where it begins. For train and run with --check finite.
#include "frontend/driver/unfused.h"

#include "runtime/train/log.h"

bool unfused_open(Session *s, const Graph *g, const char *purpose, const Exec *share,
                  Unfused *out) {
  *out = (Unfused){.session = *s};
  out->session.unfused = out->session.trial = true;
  if (!session_compile(&out->session, g, purpose, NULL, NULL, &out->made)) return false;
  out->exec = session_exec(&out->session, &out->made, share, NULL);
  return out->exec != NULL;
}

void unfused_free(Unfused *u) {
  exec_free(u->exec);
  compilation_free(&u->made);
}

// Returns the processor of a value as text, or "" if there is only one.
static const char *processor_text(const Session *s, const NotFinite *f) {
  const Mesh *m = &s->model->mesh;
  char place[1024];
  const char *who = "";
  if (m->naxes)
    who = arena_printf(s->arena, " on processor %lld (%s)", (long long)f->processor,
                       mesh_coordinates(m, f->processor, ", ", place, sizeof place));
  if (!s->ranks) return who;
  return arena_printf(s->arena, "%s of rank %lld", who,
                      (long long)(f->processor / ranks_processors(s->ranks)));
}

void unfused_note(const Session *s, const NotFinite *f, Diag *d) {
  Arena *a = s->arena;
  char b[METRIC_NUMBER];
  const char *at = *f->where ? arena_printf(a, "[%s]", f->where) : "", *who = processor_text(s, f),
             *number = metric_number(f->value, b);
  const char *round =
      f->round >= 0 ? arena_printf(a, ", in step %lld of its loop", (long long)f->round) : "";
  const char *name = f->name ? f->name : "a value without a name";
  if (f->given)
    diag_note(d, f->pos, "the step begins with %s%s = %s%s", name, at, number, who);
  else
    diag_note(
        d, f->pos,
        "the first value that is not finite: %s%s = %s, which %s makes in the %s pass%s%s%s%s",
        name, at, number, f->op, f->backward ? "backward" : "forward", round, who,
        *f->why ? ": " : "", f->why);
}
