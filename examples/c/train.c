/* Trains the two-layer network of examples/mlp.mesh from C: first on arrays of this program, then
 * on the data that the model names.
 *
 *   cc train.c -o train $(pkg-config --cflags --libs meshc)
 *   ./train mlp.mesh 100 fed.safetensors [mesh layout]
 */
#include <meshc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 8, D = 4, O = 2 };

static void stop_on(meshc_error *error) {
  size_t i, n = meshc_error_count(error);
  for (i = 0; i < n; i++) {
    const meshc_message *m = meshc_error_at(error, i);
    fprintf(stderr, "%s:%d:%d: %s [%s]\n", m->file ? m->file : "-", m->line, m->column, m->text,
            m->code);
  }
  if (n) exit(1);
}

static int show(void *context, const meshc_progress *p) {
  int every = *(const int *)context;
  if (p->step % every == 0)
    printf("%s %ld %s %.9g\n", p->data, (long)p->step, p->name[0], p->value[0]);
  return 0; /* not 0: the training ends */
}

int main(int argc, char **argv) {
  meshc_error *error = NULL;
  meshc_options *options = meshc_options_new();
  /* x[d, b], as a transposed array of numpy: its first axis has the smaller stride */
  float x[B][D], target[B][O], loss;
  const char *x_dims[] = {"d", "b"};
  const int64_t x_stride[] = {sizeof(float), D * sizeof(float)};
  const meshc_array in[] = {
      {.name = "x", .rank = 2, .dim = x_dims, .stride = x_stride, .data = x},
      {.name = "target", .rank = 2, .data = target},
  };
  const meshc_array out = {.name = "loss", .data = &loss};
  int every = 25, i, k, steps = argc > 2 ? atoi(argv[2]) : 100;
  if (argc > 5) {
    meshc_options_set(options, "mesh", argv[4]);
    meshc_options_set(options, "layout", argv[5]);
  }
  meshc_model *model = meshc_open_file(argc > 1 ? argv[1] : "mlp.mesh", options, &error);
  stop_on(error);
  meshc_options_free(options);

  meshc_program *step = meshc_compile(model, MESHC_TRAIN, NULL, 0, &error);
  stop_on(error);
  for (i = 0; i < B; i++) {
    for (k = 0; k < D; k++) x[i][k] = (float)(i + k) * 0.1f;
    for (k = 0; k < O; k++) target[i][k] = (float)(i * k) * 0.1f;
  }
  for (i = 1; i <= steps; i++) {
    meshc_run(step, in, 2, &out, 1, &error);
    stop_on(error);
    if (i % every == 0) printf("fed %d loss %.9g\n", i, loss);
  }
  meshc_save(model, argc > 3 ? argv[3] : "fed.safetensors", &error);
  stop_on(error);
  meshc_close(model);

  model = meshc_open_file(argc > 1 ? argv[1] : "mlp.mesh", NULL, &error);
  stop_on(error);
  meshc_train(model, steps, show, &every, &error);
  stop_on(error);
  meshc_save(model, "trained.safetensors", &error);
  stop_on(error);
  meshc_close(model);
  return 0;
}
