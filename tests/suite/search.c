// The search for a layout against brute force: of every example on small meshes all layouts are priced, and the
// least price must be what the search finds with its bounds.
//
//   search [MODEL]    one model
#include <glob.h>
#include <math.h>
#include <string.h>

#include "frontend/planner.h"

enum { MOST = 400 }; // layouts that are still priced one by one

static int passed, failed, skipped;

static bool load(Session *s, Options *o, const char *path, const char *mesh) {
  char *argv[] = {(char[]){"meshc"}, (char[]){"plan"}, arena_text(s->arena, path, strlen(path)), (char[]){"--mesh"},
                  arena_text(s->arena, mesh, strlen(mesh)), (char[]){"--layout"}, (char[]){"none"}, NULL};
  s->opt = o;
  return options_parse(o, s->arena, s->diag, 7, argv) && session_load(s);
}

// NULL: the search is right.
static const char *wrong_of(Session *s, const SearchTask *task) {
  SearchTask all = *task, best = *task;
  all.keep = MOST;
  best.keep = 1;
  const SearchResult *r = search_layouts(s->arena, &all), *b = search_layouts(s->arena, &best);
  if (!r->n || !b->n) return "nothing was found";
  const char *least = layout_text(s->arena, r->at[0].mesh, &r->at[0].layout), *found = layout_text(s->arena, b->at[0].mesh, &b->at[0].layout);
  printf("  %s: %.0f layouts, %llu priced by the search; %s, %.6f ms\n", s->opt->argument.at[0], r->candidates,
         (unsigned long long)b->priced, found, 1e3 * b->at[0].price.seconds);
  if (b->at[0].price.seconds <= r->at[0].price.seconds * (1 + 1e-12)) return NULL;
  return arena_printf(s->arena, "%s costs %.9g s, the search found %s at %.9g s", least, r->at[0].price.seconds, found, b->at[0].price.seconds);
}

static void check_model(const char *path, const char *mesh) {
  Session s = {.arena = arena_new()};
  Options o;
  SearchTask task;
  s.names = intern_new(s.arena);
  s.diag = diag_new(s.arena);
  const char *wrong = "the model cannot be planned";
  if (load(&s, &o, path, mesh) && planner_task(&s, 1, &s.model->mesh, 1, &task)) {
    SearchTask one = task;
    double layouts = search_layouts(s.arena, &one)->candidates;
    if (layouts > MOST) skipped++;
    wrong = layouts > MOST ? NULL : wrong_of(&s, &task);
    passed += !wrong && layouts <= MOST;
  }
  if (wrong) printf("FAIL %s on %s: %s\n", path, mesh, wrong), failed++;
  if (wrong) diag_print(s.diag, stdout, false);
  arena_free(s.arena);
}

int main(int argc, char **argv) {
  static const char *const meshes[] = {"rows=3", "rows=2,cols=2"};
  glob_t files;
  if (glob("examples/*.mesh", 0, NULL, &files) != 0) return 1;
  for (size_t m = 0; m < countof(meshes); m++)
    for (size_t i = 0; i < files.gl_pathc; i++)
      if (argc < 2 || !strcmp(argv[1], files.gl_pathv[i])) check_model(files.gl_pathv[i], meshes[m]);
  globfree(&files);
  printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  return failed > 0;
}
