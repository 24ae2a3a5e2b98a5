/* Generates text: generate MODEL|PACKAGE PROMPT [TEMPERATURE TOP_K SEED STOP]. Without more it
 * takes the most probable ids, 24 of them. Prints the new text, each part as it comes, then a
 * newline. Ends the text itself after STOP parts if STOP is a number. Linked with -lmeshc_run or
 * -lmeshc. */
#include <meshc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long parts, most;

static int show(void *context, const char *text, size_t size) {
  (void)context;
  fwrite(text, 1, size, stdout);
  return ++parts == most;
}

static int fail(const meshc_error *e) {
  for (size_t i = 0; i < meshc_error_count(e); i++) {
    const meshc_message *m = meshc_error_at(e, i);
    fprintf(stderr, "%s: %s [%s]%s%s\n", m->severity, m->text, m->code, m->hint ? "; " : "",
            m->hint ? m->hint : "");
  }
  return 1;
}

int main(int argc, char **argv) {
  meshc_error *error = NULL;
  meshc_sampling how = {0};
  if (argc < 3) return 2;
  how.max_tokens = 24;
  if (argc > 3) how.temperature = atof(argv[3]);
  if (argc > 4) how.top_k = atol(argv[4]);
  if (argc > 5) how.seed = (uint64_t)atol(argv[5]);
  if (argc > 6 && atol(argv[6]) > 0) most = atol(argv[6]);
  const char *stop = argc > 6 ? argv[6] : "";
  if (argc > 6 && !most) how.stop = &stop, how.stops = 1;
  size_t n = strlen(argv[1]);
  int text = n > 5 && !strcmp(argv[1] + n - 5, ".mesh");
  meshc_model *m =
      text ? meshc_open_file(argv[1], NULL, &error) : meshc_open_package(argv[1], NULL, &error);
  if (!m) return fail(error);
  for (int twice = 0; twice < 2; twice++) { /* the second text does not depend on the first */
    parts = 0;
    if (meshc_generate(m, argv[2], strlen(argv[2]), &how, show, NULL, &error)) return fail(error);
    printf("\n");
  }
  meshc_close(m);
  return 0;
}
