/* Opens a package and prints its outputs as `meshc run` prints no array: one number a line, as
 * bits.
 *   packaged DIR            every input is 0, 0.1, 0.2, ... 0.9, 0, ...
 *   packaged DIR STEPS      so many training steps on that batch; prints the loss of each
 *   packaged DIR time       milliseconds from before the opening to the first outputs
 *   packaged DIR train DATA FILE STEPS...   trains on the data block, whose files are in DATA, once
 * for
 *                           each number of steps, and writes the parameters to FILE
 * It is compiled against meshc.h alone and linked with -lmeshc_run or -lmeshc. */
#include <meshc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int fail(const meshc_error *e) {
  for (size_t i = 0; i < meshc_error_count(e); i++) {
    const meshc_message *m = meshc_error_at(e, i);
    fprintf(stderr, "%s: %s [%s]%s%s\n", m->severity, m->text, m->code, m->hint ? "; " : "",
            m->hint ? m->hint : "");
  }
  return 1;
}

static int64_t elements(const meshc_tensor *t) {
  int64_t n = 1;
  for (int i = 0; i < t->rank; i++) n *= t->size[i];
  return n;
}

/* Fills a list with a buffer of f32 (or i32) for each tensor of a kind. */
static size_t buffers(const meshc_program *p, meshc_kind kind, meshc_array *out) {
  size_t n = meshc_program_tensor_count(p, kind);
  for (size_t i = 0; i < n; i++) {
    const meshc_tensor *t = meshc_program_tensor_at(p, kind, i);
    int64_t m = elements(t);
    int is_int = t->type == MESHC_I32 || t->type == MESHC_U8;
    void *data = calloc((size_t)m + 1, 4);
    for (int64_t k = 0; k < m && !is_int; k++) ((float *)data)[k] = (float)(k % 10) * 0.1f;
    out[i] = (meshc_array){
        .name = t->name, .type = is_int ? MESHC_I32 : MESHC_F32, .rank = t->rank, .data = data};
  }
  return n;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int show(void *context, const meshc_progress *p) {
  (void)context;
  if (p->step == p->steps)
    for (size_t i = 0; i < p->count; i++) printf("%s %a\n", p->name[i], p->value[i]);
  return 0;
}

static int train(char **argv) {
  meshc_error *error = NULL;
  meshc_options *options = meshc_options_new();
  int code = meshc_options_set(options, "data-dir", argv[3]);
  meshc_model *m = code ? NULL : meshc_open_package(argv[1], options, &error);
  if (!m) return fail(error);
  for (int i = 5; argv[i] && !code; i++) code = meshc_train(m, atol(argv[i]), show, NULL, &error);
  if (code || meshc_save(m, argv[4], &error)) return fail(error);
  printf("steps %ld\n", (long)meshc_steps(m));
  meshc_options_free(options);
  meshc_close(m);
  return 0;
}

int main(int argc, char **argv) {
  meshc_error *error = NULL;
  meshc_array in[64], out[64];
  double start = now();
  int times = argc > 2 && !strcmp(argv[2], "time");
  long steps = argc > 2 && !times ? atol(argv[2]) : 0;
  if (argc < 2) return 2;
  if (argc > 4 && !strcmp(argv[2], "train")) return train(argv);
  meshc_model *m = meshc_open_package(argv[1], NULL, &error);
  meshc_program *p =
      m ? meshc_compile(m, steps ? MESHC_TRAIN : MESHC_PREDICT, NULL, 0, &error) : NULL;
  if (!p) return fail(error);
  size_t nin = buffers(p, MESHC_INPUT, in), nout = buffers(p, MESHC_OUTPUT, out);
  for (long i = 0; i < (steps ? steps : 1); i++) {
    if (meshc_run(p, in, nin, out, nout, &error)) return fail(error);
    for (size_t k = 0; k < nout && steps; k++)
      if (out[k].rank == 0) printf("%s %a\n", out[k].name, (double)*(float *)out[k].data);
  }
  if (times) printf("%.3f\n", now() - start);
  for (size_t k = 0; k < nout && !steps && !times; k++)
    for (int64_t i = 0; i < elements(meshc_program_tensor_at(p, MESHC_OUTPUT, k)); i++)
      printf("%s %a\n", out[k].name, (double)((float *)out[k].data)[i]);
  meshc_close(m);
  return 0;
}
