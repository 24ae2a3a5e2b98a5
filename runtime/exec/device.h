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
  // Returns how many steps may be under way: started, and not finished.
  int (*ahead)(const DeviceWork *w);
  // Starts the step that e describes (Exec.step, Exec.commit): its instructions up to INSTR_COMMIT,
  // the decision whether the step is committed, then the instructions after it. A step behind
  // others under way follows them (exec_start), and changes nothing if one of them is not good.
  // Returns false if the device has failed.
  bool (*start)(DeviceWork *w);
  // Waits for the first step under way and sets Exec.step, commit, fault, result and stop to those
  // of this step, and scalar outputs to its values. If it is not good, the steps behind it are
  // forgotten. Returns false if the device has failed.
  bool (*finish)(DeviceWork *w);
  // Tells that the host is about to write blocks of tensor t. If it is an input, this may set
  // Context.tensor of inputs to other memory.
  void (*writes)(DeviceWork *w, uint32_t t);
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
void exec_writes(const Exec *e, uint32_t t);
void exec_wrote(const Exec *e, uint32_t t);
MUST_USE bool exec_fetch(const Exec *e, uint32_t t);
MUST_USE bool exec_fetch_bytes(const Exec *e, const void *at, int64_t bytes);
// Checks the options of an Exec that a device is to run: what the device lacks is an error in d.
// Returns false after an error.
MUST_USE bool device_check(const ExecOptions *opt, Diag *d);

#endif
