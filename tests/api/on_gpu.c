/* Uses a model on two devices, the CPU and a GPU, with the same calls, and compares what they give.
 *
 *   on_gpu [MESH LAYOUT]    prints "on_gpu: N values agree"; exit code 1 after an error
 */
#include <math.h>
#include <meshc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 8, D = 6, H = 20, O = 3, STEPS = 5, VALUES = 4096 };

static const char text[] =
    "dim b = 8, d = 6, h = 20, o = 3\ninput x[b, d]\ninput kind[b]: i32\n"
    "param w[d, h] ~ glorot(d, h)\nparam v[h, o] ~ glorot(h, o)\nstate seen[d] = 0\n"
    "hidden = gelu(sum[d](x * w))\ny[b, o] = sum[h](hidden * v)\noutput y\n"
    "loss = mean[b](cross_entropy[o](y, kind))\nmetric hits = mean[b](argmax[o](y) == kind)\n"
    "update seen = 0.9 * seen + 0.1 * mean[b](x)\n"
    "train loss { optimizer = adam(lr = 0.01), steps = 4, evaluate = 2 }\n"
    "data train over b { x = synthetic(normal), kind = synthetic(integers(0, 3)) }\n"
    "data test over b { x = synthetic(normal), kind = synthetic(integers(0, 3)) }\n";

/* What the calls on one device have given. */
typedef struct Use {
  meshc_model *model;
  double value[VALUES];
  size_t n;
} Use;

static void stop_on(meshc_error *error) {
  size_t i;
  for (i = 0; i < meshc_error_count(error); i++)
    fprintf(stderr, "on_gpu: %s [%s]\n", meshc_error_at(error, i)->text,
            meshc_error_at(error, i)->code);
  if (error) exit(1);
}

static void keep(Use *u, const void *values, size_t n, int wide) {
  size_t i;
  for (i = 0; i < n && u->n < VALUES; i++)
    u->value[u->n++] = wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void open_model(Use *u, const char *device, char **layout) {
  meshc_error *error = NULL;
  meshc_options *options = meshc_options_new();
  meshc_options_set(options, "device", device);
  if (layout) meshc_options_set(options, "mesh", layout[0]);
  if (layout) meshc_options_set(options, "layout", layout[1]);
  u->model = meshc_open_text(text, sizeof text - 1, NULL, options, &error);
  meshc_options_free(options);
  stop_on(error);
}

/* Trains on buffers, and reads the outputs of a second program after each step, whose input is at
 * the address of its own memory if it has one. */
static void run_steps(Use *u, int on_cpu_alone) {
  meshc_error *error = NULL;
  float x[B][D], y[B][O], loss;
  int kind[B], i, k, s;
  const meshc_array in[] = {{.name = "x", .rank = 2, .data = x},
                            {.name = "kind", .type = MESHC_I32, .rank = 1, .data = kind}};
  const meshc_array out = {.name = "loss", .data = &loss};
  const meshc_array result = {.name = "y", .rank = 2, .data = y};
  meshc_program *step, *predict = meshc_compile(u->model, MESHC_PREDICT, NULL, 0, &error);
  stop_on(error);
  step = meshc_compile(u->model, MESHC_TRAIN, NULL, 0, &error);
  stop_on(error);
  if ((meshc_data(predict, MESHC_INPUT, "x") != NULL) != on_cpu_alone) {
    fprintf(stderr, "on_gpu: meshc_data gives an address, or none\n");
    exit(1);
  }
  for (s = 0; s < STEPS; s++) {
    for (i = 0; i < B; i++) {
      kind[i] = (i + s) % O;
      for (k = 0; k < D; k++) x[i][k] = (float)((i * 7 + k * 3 + s) % 11) * 0.2f - 1;
    }
    meshc_run(step, in, 2, &out, 1, &error);
    stop_on(error);
    keep(u, &loss, 1, 0);
    meshc_run(predict, in, 1, &result, 1, &error);
    stop_on(error);
    keep(u, y, (size_t)B * O, 0);
  }
  kind[3] = O; /* no class: the step changes nothing */
  if (meshc_run(step, in, 2, &out, 1, &error) == 0) exit(1);
  if (strcmp(meshc_error_at(error, 0)->code, "E0708")) stop_on(error);
  meshc_error_free(error);
}

static int keep_progress(void *use, const meshc_progress *p) {
  keep(use, p->value, p->count, 1);
  return 0;
}

/* Writes a parameter, trains and evaluates on the model's data, and reads all parameters. */
static void train(Use *u) {
  meshc_error *error = NULL;
  float v[H][O], w[D][H], seen[D];
  const meshc_array array[] = {{.name = "w", .rank = 2, .data = w},
                               {.name = "v", .rank = 2, .data = v},
                               {.name = "seen", .rank = 1, .data = seen}};
  int i;
  meshc_read(u->model, &array[1], &error);
  stop_on(error);
  for (i = 0; i < H; i++) v[i][0] += 0.25f;
  meshc_write(u->model, &array[1], &error);
  stop_on(error);
  meshc_train(u->model, 0, keep_progress, u, &error);
  stop_on(error);
  meshc_evaluate(u->model, "test", keep_progress, u, &error);
  stop_on(error);
  for (i = 0; i < 3; i++) {
    meshc_read(u->model, &array[i], &error);
    stop_on(error);
  }
  keep(u, w, (size_t)D * H, 0);
  keep(u, v, (size_t)H * O, 0);
  keep(u, seen, D, 0);
}

/* A model may be closed by another thread than the one that has used it. */
static void *close_model(void *use) {
  meshc_close(((Use *)use)->model);
  return NULL;
}

int main(int argc, char **argv) {
  static Use use[2];
  static const char *const device[2] = {"cpu", "cuda"};
  char **layout = argc > 2 ? argv + 1 : NULL;
  size_t i, k, wrong = 0;
  pthread_t thread;
  for (i = 0; i < 2; i++) {
    open_model(&use[i], device[i], layout);
    run_steps(&use[i], i == 0 && !layout);
    train(&use[i]);
    if (pthread_create(&thread, NULL, close_model, &use[i]) != 0) return 1;
    pthread_join(thread, NULL);
  }
  for (k = 0; k < use[0].n; k++) {
    double a = use[0].value[k], b = use[1].value[k];
    if (k < use[1].n && fabs(a - b) <= 2e-4 * (1 + fabs(a))) continue;
    if (wrong++ < 5) fprintf(stderr, "on_gpu: value %d is %g and %g\n", (int)k, a, b);
  }
  if (wrong || use[0].n != use[1].n) return 1;
  printf("on_gpu: %d values agree\n", (int)use[0].n);
  return 0;
}
