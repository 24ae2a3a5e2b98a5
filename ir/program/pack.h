// Records: structs of C that are written to bytes and read back by a table of their fields.
//
// A table names each member of a struct once, and drives writer and reader, so that neither can
// forget one. Bytes that were damaged or made by somebody else are refused with a reason: every
// number is checked against its range, every index against the list that it is for, every length
// against the bytes that are left.
//
//   bytes    u64 of the layout of all records (pack_layout), then a list of the texts, then the
//            fields of the root in the order of its table, without padding or names
//   integer  variable length, 7 bits a byte, lowest first; the sign is the lowest bit
//   real     8 bytes, IEEE 754, lowest byte first
//   text     the number of the text in the list, from 1; 0: NULL
//   pointer  a byte that is 0 for NULL, else 1 and the elements; their number is a field before it
#ifndef IR_PACK_H
#define IR_PACK_H

#include <stddef.h>

#include "ir/base/diag.h"
#include "ir/base/intern.h"

typedef enum PackKind {
  PACK_INT, // an integer or an enum of 1, 2, 4 or 8 bytes
  PACK_BOOL,
  PACK_REAL,
  PACK_TEXT,
  PACK_POS,    // a place in the model's files (Pos)
  PACK_RECORD, // a struct with a table of its own
  PACK_CHOICE, // a union: the record of its member that `count_at`, an integer, selects
  PACK_LEFT    // not written; 0 or NULL after reading
} PackKind;

// Where the elements of a field are, and how many they are.
typedef enum PackPlace {
  PLACE_HERE,    // one or, with `n`, an array of n elements inside the struct
  PLACE_ROWS,    // such an array, of which a member of the struct says how many are used
  PLACE_POINTER, // at an address that may be NULL
} PackPlace;

// How many elements are at a pointer.
typedef enum PackCount {
  COUNT_ONE,
  COUNT_MEMBER,   // an integer of the struct says it, which comes before in the table
  COUNT_DEPTH,    // LOOP_DEPTH
  COUNT_PTRS,     // ProgKernel.nptr of the kernel of the launch
  COUNT_SLOTS,    // ProgKernel.nslot
  COUNT_NUMS,     // ProgKernel.nnum
  COUNT_ELEMENTS, // the product of the sizes of the whole dims of a ProgTensor
} PackCount;

// The list for which an integer is an index; OF_AXIS_SETS: all sets of axes of the mesh (AxisSet).
typedef enum PackList {
  OF_NONE,
  OF_AXES,
  OF_AXIS_SETS,
  OF_SLOTS,
  OF_TENSORS,
  OF_KERNELS,
  OF_INSTRS
} PackList;

typedef struct PackRecord PackRecord;
typedef struct PackField {
  const char *name;
  PackKind kind;
  PackPlace place;
  PackCount count;
  size_t at, bytes; // offset of the member in the struct; bytes of an element
  uint32_t n;       // elements of an array in the struct; of a pointer: 1: it may be NULL
  size_t count_at, count_bytes;    // the member with their number, or that selects a choice
  const PackRecord *record;        // the table of a record
  const PackRecord *const *choice; // tables of the members of a union; NULL: it has nothing
  int64_t low, high;               // an integer: its least and its greatest value
  PackList of;                     // an index: `high` is then counted from the end of this list
} PackField;
struct PackRecord {
  const char *name;
  size_t bytes; // of the struct
  uint32_t n;
  const PackField *field;
};

// Returns a number that changes when a table that `root` leads to changes.
uint64_t pack_layout(const PackRecord *root);
// Returns the bytes of a record: malloc'd, *n long. name_of(context, source) gives the name of the
// file in which a Pos is.
char *pack_write(const PackRecord *root, const void *from, const char *(*name_of)(void *, uint32_t),
                 void *context, size_t *n);
// Reads what pack_write has written, to *to. All memory is allocated in `a`, and texts that are
// equal have one address, that of `names` unless it is NULL. The files of positions are those of
// the same name in d, or are registered there. Returns false with a reason in why[0..PACK_WHY) if
// the bytes are not those of such a record.
enum { PACK_WHY = 200 };
MUST_USE bool pack_read(Arena *a, Intern *names, const PackRecord *root, const char *bytes,
                        size_t n, Diag *d, void *to, char *why);

// pack_program.c: the record of a Program (ir/program/program.h). pack_gpu.c: that of a GpuLaunches
// (ir/program/gpu.h). pack_data.c: that of a DataBlock (ir/program/spec.h).
extern const PackRecord pack_of_program, pack_of_launches, pack_of_data_block;
// Checks what the ranges of single fields do not say: loops nest, and places are in the memory of
// their tensor. Returns false with a reason in why[0..PACK_WHY).
struct Program;
MUST_USE bool program_sound(const struct Program *p, char *why);
// The same of a DataBlock.
struct DataBlock;
MUST_USE bool data_block_sound(const struct DataBlock *b, char *why);
// The same of a GpuLaunches of program p.
struct GpuLaunches;
MUST_USE bool launches_sound(const struct GpuLaunches *l, const struct Program *p, char *why);

#endif
