/* A step of micro-batches (`accumulate`) whose input is fed: prints the loss of two steps and the
 * parameters after them. The program meshc prints the same numbers. */
#include <meshc.h>
#include <stdio.h>

static int failed(const meshc_error *error) {
  fprintf(stderr, "%s\n", error ? meshc_error_at(error, 0)->text : "failed");
  return 1;
}

int main(void) {
  meshc_error *error = NULL;
  float x[4][2], w[2], loss;
  meshc_array in = {0}, out = {0}, parameter = {0};
  meshc_model *model = meshc_open_file("accumulate.mesh", NULL, &error);
  meshc_program *step = model ? meshc_compile(model, MESHC_TRAIN, NULL, 0, &error) : NULL;
  if (!step) return failed(error);
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 2; k++) x[i][k] = (float)i + (float)(2 * k);
  in.name = "x", in.rank = 2, in.data = x;
  out.name = "loss", out.data = &loss;
  parameter.name = "w", parameter.rank = 1, parameter.data = w;
  for (int i = 0; i < 2; i++)
    if (meshc_run(step, &in, 1, &out, 1, &error)) return failed(error);
  if (meshc_read(model, &parameter, &error)) return failed(error);
  printf("w [d 2] f32\n  [%g, %g]\nloss f32 = %g\n", w[0], w[1], loss);
  meshc_close(model);
  return 0;
}
