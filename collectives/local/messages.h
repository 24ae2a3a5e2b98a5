// Collectives as messages between devices (GPUs) that have one or several processors each
// (devices.h). A library of the devices (NCCL) carries the messages.
//
// The elements of a transfer (a box of elements, transfer.h) travel in a slot: memory in which the
// box lies row-major, with the strides of the largest box of the part in a full batch. So sender
// and receiver agree on a message whatever their blocks look like. A call has three steps:
//
//   pack       kernels copy boxes from operands to slots, or combine those of a device's members
//   messages   from slots to slots; what lies in a block as it would in a slot needs none
//   unpack     kernels copy boxes from slots to results, or combine those of several devices
//
// So a sum of bf16 over four processors on two devices is rounded twice: after the two operands of
// each device are added, and after the two sums are. In one process all four are added in order.
//
// An all_gather of three processors, each with 2 x 5 elements, to 6 x 5 elements is one message
// without slots. To 2 x 15 elements it is a message to three slots, and three boxes to unpack.
//
//   when the program is compiled   message_plans says which kernels each part needs
//   when it is bound to memory     message_call lists what one device does in a call
#ifndef COLLECTIVES_MESSAGES_H
#define COLLECTIVES_MESSAGES_H

#include "collectives/local/transfer_plan.h"

// How one part of a collective travels.
typedef struct MessagePart {
  bool moves;      // false: no batch has elements to move
  bool combines;   // `unpack` combines; false: it copies, and the library combines
  PartPlan pack;   // from an operand, or those of a device's members of a group, to a slot
  PartPlan unpack; // from a slot, or slots of all devices of a group, to a result
  int64_t stride[MAX_RANK], most[MAX_RANK]; // strides and largest sizes of a box, in elements
  int64_t elements;                         // of the largest box
  int64_t slot; // bytes of a slot: those of the largest box, rounded up to SLOT_ALIGN
} MessagePart;
enum { SLOT_ALIGN = 16 }; // kernels load and store so many bytes at once

// Returns the plans of all parts of collective c of program p, in an array that is allocated in a.
// The caller sets the kernels of the PartPlans. A device has `each` processors, which fit
// (devices_fit), and a group of the collective has several devices (devices_along).
MessagePart *message_plans(Arena *a, const Program *p, const Collective *c, int64_t each);

typedef enum MessageKind {
  MESSAGE_REDUCE,         // `count` elements of all devices are combined; all get the result
  MESSAGE_REDUCE_SCATTER, // device k gets elements k * count to (k + 1) * count - 1 of the result
  MESSAGE_GATHER,         // all get the elements of device k from element k * count on
  MESSAGE_SEND,           // to device `peer`
  MESSAGE_RECEIVE         // from device `peer`
} MessageKind;
// Devices are counted within a group: device_index(mesh, MessageCall.axes, ...). All groups of a
// device have the same devices.
typedef struct Message {
  MessageKind kind;
  const void *from; // NULL: it receives
  void *to;         // NULL: it sends
  int64_t count;    // elements of one member's block
  Dtype type;       // TYPE_U8 for what is only copied
  Monoid monoid;
  int64_t peer;
} Message;

// What one device does in a call. Sets of one kernel are neighbours.
typedef struct MessageCall {
  Axes axes; // along which the members of a group differ
  uint32_t npacks, nmessages, nunpacks;
  TransferSet *pack, *unpack; // those of a list may run in any order and at the same time
  // To be carried out all at once. Each combining or gathering message is in the lists of all
  // devices of the group, and each send has its receive in another list. All lists follow one order
  // of the messages of the group. So a list may be carried out in several parts, wherever it is
  // split: devices never wait for one another in a circle.
  Message *message;
  int64_t staging; // bytes of all slots
} MessageCall;
// Returns what the device with processors first..first + each - 1 does in a call, in memory of a.
// `part` is the result of message_plans. Only the members on this device need addresses. The slots
// begin at `staging`, a multiple of MEMORY_ALIGN. The function accesses neither blocks nor slots:
// with `staging` NULL it finds out how many bytes the slots need. by_kernels: only kernels write
// the results, so that a caller who does not run them leaves the results as they are; what could be
// received there directly takes a slot and an unpacking more.
MessageCall message_call(Arena *a, const MessagePart *part, const Mesh *m, const CommCall *call,
                         int64_t first, int64_t each, bool by_kernels, char *staging);

#endif
