/* Trains two different models at the same time from two threads, and compares every reported loss
 * and every parameter, bit for bit, with those of the same models trained one after the other.
 *
 *   two_threads ROUNDS [DEVICE]    prints "two_threads: ROUNDS rounds equal"; exit code 1 after an
 *                                  error
 */
#include <meshc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES = 4096, OPTIONS = 3 };
static const char *device = "cpu";

/* A model with its options, and what a training of it gave: losses, then parameters and states. */
typedef struct Job {
  const char *text;
  const char *option[OPTIONS][2]; /* name and value; the list ends at a NULL name */
  size_t n;
  double value[VALUES];
  int failed;
} Job;

static const Job jobs[2] = {
    {.text = "dim b = 16, d = 12, h = 24, o = 3\ninput x[b, d]\ninput kind[b, o]\n"
             "param w[d, h] ~ glorot(d, h)\nparam v[h, o] ~ glorot(h, o)\n"
             "y = sum[h](dropout(gelu(sum[d](x * w)), 0.1) * v)\nloss = mean(square(y - kind))\n"
             "metric worst = max(abs(y - kind))\n"
             "train loss { optimizer = adamw(lr = 0.01), steps = 40, evaluate = 10 }\n"
             "data train over b { x = synthetic(normal), kind = synthetic(uniform) }\n"
             "data test over b { x = synthetic(normal), kind = synthetic(uniform) }\n",
     .option = {{"mesh", "p=2"}, {"layout", "b=p"}}},
    {.text = "dim b = 4, t = 9, k = 8\ninput x[b, t, k]\nparam u[k, j] ~ normal(0, 0.1)\n"
             "dim j = 8\nstate seen[k] = 0\n"
             "scan t (h[b, j] = 0) { h = tanh(sum[k](x * u) + 0.5 * h); yield h as hs }\n"
             "z = softmax[j](hs)\nloss = mean(square(cumsum[t](z) - 0.3))\n"
             "update seen = 0.9 * seen + 0.1 * mean[b, t](x)\n"
             "train loss { optimizer = sgd(lr = 0.05, momentum = 0.9), steps = 40, evaluate = 7 }\n"
             "data train over b { x = synthetic(uniform) }\n"
             "data test over b { x = synthetic(uniform) }\n",
     .option = {{"seed", "7"}}}};

/* Prints the messages of a call that failed. */
static void fail(Job *j, meshc_error *error) {
  size_t i;
  for (i = 0; i < meshc_error_count(error); i++)
    fprintf(stderr, "two_threads: %s\n", meshc_error_at(error, i)->text);
  meshc_error_free(error);
  j->failed = 1;
}

static int keep_values(void *job, const meshc_progress *p) {
  Job *j = job;
  size_t i;
  for (i = 0; i < p->count && j->n < VALUES; i++) j->value[j->n++] = p->value[i];
  return 0;
}

/* Appends all tensors of a kind to the values of j. */
static void read_tensors(Job *j, meshc_model *model, meshc_kind kind) {
  meshc_error *error = NULL;
  size_t i;
  for (i = 0; i < meshc_tensor_count(model, kind); i++) {
    const meshc_tensor *t = meshc_tensor_at(model, kind, i);
    meshc_array out = {0};
    size_t n = 1;
    int d;
    for (d = 0; d < t->rank; d++) n *= (size_t)t->size[d];
    if (j->n + n > VALUES) {
      j->failed = 1;
      return;
    }
    out.name = t->name, out.type = MESHC_F64, out.rank = t->rank, out.data = j->value + j->n;
    if (meshc_read(model, &out, &error) != 0) fail(j, error);
    j->n += n;
  }
}

/* Opens, trains and closes the model of a Job. */
static void *train(void *job) {
  Job *j = job;
  meshc_error *error = NULL;
  meshc_options *options = meshc_options_new();
  meshc_model *model;
  int i;
  for (i = 0; i < OPTIONS && j->option[i][0]; i++)
    (void)meshc_options_set(options, j->option[i][0], j->option[i][1]);
  (void)meshc_options_set(options, "device", device);
  (void)meshc_options_set(options, "no-cache", NULL);
  (void)meshc_options_set(options, "threads", "2");
  model = meshc_open_text(j->text, strlen(j->text), NULL, options, &error);
  meshc_options_free(options);
  if (!model || meshc_train(model, 0, keep_values, j, &error) != 0) {
    fail(j, error);
  } else {
    read_tensors(j, model, MESHC_PARAMETER);
    read_tensors(j, model, MESHC_STATE);
  }
  meshc_close(model);
  return NULL;
}

/* Trains both models at the same time. Returns 1 unless they give the values of `alone`. */
static int differs(const Job alone[2]) {
  static Job together[2];
  pthread_t thread[2];
  int i, bad = 0;
  for (i = 0; i < 2; i++) together[i] = jobs[i];
  for (i = 0; i < 2; i++)
    if (pthread_create(&thread[i], NULL, train, &together[i]) != 0) exit(1);
  for (i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (i = 0; i < 2; i++) {
    if (together[i].failed || together[i].n != alone[i].n ||
        memcmp(together[i].value, alone[i].value, alone[i].n * sizeof *alone[i].value) != 0) {
      fprintf(stderr, "two_threads: model %d differs from its training alone\n", i);
      bad = 1;
    }
  }
  return bad;
}

int main(int argc, char **argv) {
  static Job alone[2];
  int i, rounds = argc > 1 ? atoi(argv[1]) : 1;
  if (argc > 2) device = argv[2];
  for (i = 0; i < 2; i++) {
    alone[i] = jobs[i];
    train(&alone[i]);
    if (alone[i].failed || alone[i].n < 100) return 1;
  }
  for (i = 0; i < rounds; i++)
    if (differs(alone)) return 1;
  printf("two_threads: %d rounds equal, %d and %d values\n", rounds, (int)alone[0].n,
         (int)alone[1].n);
  return 0;
}
