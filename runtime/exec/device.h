// A device that runs the steps of an Exec in place of the workers of the CPU, such as a GPU. The
// executor calls it through a table of functions and knows nothing else of it.
//
// The Exec keeps its memory on the host, and the device has a copy of it. Each tensor is up to date
// on at least one side: exec_write and the initial values change the host, steps change the device.
// The device copies a tensor when the other side needs it.
#ifndef RUNTIME_DEVICE_H
#define RUNTIME_DEVICE_H

#include "runtime/runtime.h"

typedef struct DeviceWork DeviceWork; // what a device keeps for one Exec
// One thread at a time calls these functions for an Exec and those that share its tensors.
struct ExecDevice {
  bool ranks; // it runs one processor of several ranks; false: all processors of the mesh
  // Prepares the device for the steps of e, whose memory has addresses and initial values. Returns
  // NULL after an error in d, such as too little memory.
  DeviceWork *(*begin)(const ExecDevice *device, Exec *e, Diag *d);
  void (*end)(DeviceWork *w); // w may be NULL
  // Runs the step that e describes (Exec.step, Exec.commit): its instructions up to INSTR_COMMIT,
  // then exec_judge, then the instructions after it unless Exec.stop is set. Returns false if the
  // device has failed.
  bool (*step)(DeviceWork *w);
  // Tells that tensor t has new values on the host.
  void (*wrote)(DeviceWork *w, uint32_t t);
  // Copies the blocks of tensor t to the host if the device has newer ones. Returns false if the
  // device has failed.
  bool (*fetch)(DeviceWork *w, uint32_t t);
  // Copies `bytes` bytes to the host, where they begin at address `at`. Returns false if the device
  // has failed.
  bool (*fetch_bytes)(DeviceWork *w, const void *at, int64_t bytes);
  // Waits for all that the device does for the Exec. Returns false if the device has failed.
  bool (*wait)(DeviceWork *w);
  // Adds the error that made the device fail to d.
  void (*why)(const DeviceWork *w, Diag *d);
};

// device.c: each does nothing for an Exec that the CPU runs, and then succeeds.
void exec_wrote(const Exec *e, uint32_t t);
MUST_USE bool exec_fetch(const Exec *e, uint32_t t);
MUST_USE bool exec_fetch_bytes(const Exec *e, const void *at, int64_t bytes);
// Checks the options of an Exec that a device is to run: what the device lacks is an error in d.
// Returns false after an error.
MUST_USE bool device_check(const ExecOptions *opt, Diag *d);

#endif
