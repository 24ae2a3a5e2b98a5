// The device of a run (--device): checks what it supports, opens the GPU, and words it for headers.
#include "collectives/local/devices.h"
#include "frontend/driver/session.h"

#include <string.h>

bool session_for_gpu(const Session *s) {
  const char *device = option_text(s->opt, OPTION_DEVICE);
  return device && strcmp(device, "cuda") == 0;
}

// A package runs on one GPU of the machine that it comes to.
bool session_has_gpu(const Session *s) {
  return s->gpu || (session_for_gpu(s) && s->opt->command == COMMAND_COMPILE);
}

bool session_runs_steps(const Session *s) {
  CommandId c = s->opt->command;
  return c == COMMAND_RUN || c == COMMAND_TRAIN || c == COMMAND_EVAL || c == COMMAND_PREDICT ||
         c == COMMAND_GENERATE || c == COMMAND_BENCH;
}

bool session_check_device(const Session *s) {
  static const char *const devices[] = {"cpu", "cuda"};
  int device;
  return option_word(s->opt, OPTION_DEVICE, countof(devices), devices, s->diag, &device);
}

// Refuses ranks whose processors are no box of the mesh. Returns false after an error.
static bool ranks_fit(const Session *s) {
  if (!s->ranks || devices_fit(&s->model->mesh, ranks_processors(s->ranks))) return true;
  long long n = mesh_size(&s->model->mesh);
  diag_error(s->diag, DIAG_UNAVAILABLE, option_use(s->opt, OPTION_DEVICE)->pos,
             "--device cuda: %d ranks do not divide the axes of the mesh %s evenly",
             ranks_count(s->ranks), mesh_text(s->arena, &s->model->mesh));
  return diag_hint(s->diag,
                   "the processors of a rank follow one another and must be a box of the mesh: "
                   "change the order of its axes, start %lld ranks (--np %lld), or one process",
                   n, n);
}

// Chooses the figures of a machine. A run in one process has one GPU for all processors. With ranks
// the figures are those of a host with a GPU for each rank, and for what only describes a program
// with one for each processor.
void session_device_machine(Session *s) {
  if (!session_for_gpu(s) || option_given(s->opt, OPTION_MACHINE)) return;
  bool h200 = s->gpu && strstr(gpu_facts(s->gpu)->name, "H200"),
       alone = session_has_gpu(s) && !s->ranks;
  if (option_given(s->opt, OPTION_GPUS)) alone = false;

  s->machine_name = h200 ? alone ? "h200" : "h200x8" : alone ? "h100" : "h100x8";
  if (!machine_named(&s->machine, s->machine_name)) BUG("no machine %s", s->machine_name);
  if (s->gpu && s->ranks && ranks_processors(s->ranks) > 1)
    s->machine.cores = (double)ranks_count(s->ranks); // processors share a GPU
  s->machine.tf32 = session_tf32(s);
}

bool session_open_device(Session *s) {
  if (!session_for_gpu(s) || s->gpu) return true;
  if (!ranks_fit(s)) return false;
  s->gpu = gpu_open(s->ranks, s->diag);
  if (!s->gpu) return false;
  const char *folder = cache_folder(s);
  if (folder) gpu_keep(s->gpu, &(GpuKeeper){folder, cache_recall, cache_keep});
  session_device_machine(s);
  return true;
}

void session_close_device(Session *s) {
  gpu_close(s->gpu, !diag_errors(s->diag));
  s->gpu = NULL;
}

const char *device_text(const Session *s, const Exec *e) {
  if (s->gpu)
    return arena_printf(s->arena, "cuda (%s, products by %s%s)", gpu_facts(s->gpu)->name,
                        s->products, s->ranks ? ", collectives by NCCL" : "");
  return arena_printf(s->arena, "cpu (%d thread%s, %s, products by %s)", exec_workers(e),
                      plural(exec_workers(e)), code_cpu(), s->products);
}
