// The device of a run (--device): checks what it supports, opens the GPU, and words it for headers.
#include "frontend/driver/session.h"

#include <string.h>

bool session_for_gpu(const Session *s) {
  const char *device = option_text(s->opt, OPTION_DEVICE);
  return device && strcmp(device, "cuda") == 0;
}

static bool runs_steps(const Session *s) {
  CommandId c = s->opt->command;
  return c == COMMAND_RUN || c == COMMAND_TRAIN || c == COMMAND_EVAL || c == COMMAND_PREDICT ||
         c == COMMAND_BENCH;
}

// Refuses options that --device cuda does not support yet. Returns false after an error.
static bool options_supported(const Session *s) {
  static const struct {
    OptionId id;
    const char *instead;
  } later[] = {
      {OPTION_NP, "leave out --np: one process runs all processors of the mesh on one GPU"},
      {OPTION_TRACE, "use `meshc bench --device cuda`, which times each instruction"},
  };
  for (size_t i = 0; i < countof(later); i++) {
    if (!option_given(s->opt, later[i].id)) continue;
    diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, later[i].id)->pos,
               "--device cuda does not support %s yet", option_name(later[i].id));
    return diag_hint(s->diag, "%s", later[i].instead);
  }
  return true;
}

bool session_check_device(const Session *s) {
  static const char *const devices[] = {"cpu", "cuda"};
  int device;
  if (!option_word(s->opt, OPTION_DEVICE, countof(devices), devices, s->diag, &device))
    return false;
  if (device == 0) return true;
  if (s->keeps)
    return diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_DEVICE)->pos,
                      "the library does not support --device cuda yet: programs run on the CPU");
  if (s->ranks)
    return diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_DEVICE)->pos,
                      "--device cuda does not support several processes yet");
  return options_supported(s);
}

bool session_open_device(Session *s) {
  if (!session_for_gpu(s) || !runs_steps(s)) return true;
  if (!s->gpu) s->gpu = gpu_open(s->diag);
  return s->gpu != NULL;
}

void session_close_device(Session *s) {
  gpu_close(s->gpu);
  s->gpu = NULL;
}

const char *device_text(const Session *s, const Exec *e) {
  if (s->gpu)
    return arena_printf(s->arena, "cuda (%s, products by %s)", gpu_facts(s->gpu)->name,
                        s->products);
  return arena_printf(s->arena, "cpu (%d thread%s, %s, products by %s)", exec_workers(e),
                      plural(exec_workers(e)), code_cpu(), s->products);
}
