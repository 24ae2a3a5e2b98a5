// Rows of the tables of fields (pack.h): each names a member of a struct, and derives its place and
// its size from the declaration. A file includes this only if it has such tables.
#ifndef IR_PACK_FIELDS_H
#define IR_PACK_FIELDS_H

#include "ir/program/pack.h"

#define SIZE(T, member) sizeof(((T *)0)->member)
#define ROW(T, member, kind_, ...)                                                                 \
  {                                                                                                \
    .name = #T "." #member, .kind = PACK_##kind_, .at = offsetof(T, member),                       \
    .bytes = SIZE(T, member), __VA_ARGS__                                                          \
  }
#define INT(T, member, least, most) ROW(T, member, INT, .low = (least), .high = (most))
#define COUNT(T, member, most) INT(T, member, 0, most)
// an integer that is not negative, and any integer
#define SIZED(T, member) INT(T, member, 0, (INT64_MAX >> 8))
#define ANY(T, member) INT(T, member, INT64_MIN, INT64_MAX)
#define BOOL(T, member) ROW(T, member, BOOL, .low = 0, .high = 1)
#define REAL(T, member) ROW(T, member, REAL, .n = 0)
#define TEXT(T, member) ROW(T, member, TEXT, .n = 0)
#define POS(T, member) ROW(T, member, POS, .n = 0)
#define LEFT(T, member) ROW(T, member, LEFT, .n = 0)
#define HAS(T, member, table) ROW(T, member, RECORD, .record = &table##_record)
// an index into a list, -1: none; and 1 + an index, 0: none
#define INDEX(T, member, list) ROW(T, member, INT, .low = -1, .high = -1, .of = OF_##list)
#define ITEM(T, member, list) ROW(T, member, INT, .low = 0, .high = -1, .of = OF_##list)
#define ONE_BASED(T, member, list) ROW(T, member, INT, .low = 0, .high = 0, .of = OF_##list)
#define ROW_OF(T, member, kind_, ...)                                                              \
  {                                                                                                \
    .name = #T "." #member, .kind = PACK_##kind_, .at = offsetof(T, member),                       \
    .bytes = SIZE(T, member[0]), __VA_ARGS__                                                       \
  }
#define COUNTED(T, counter) .count_at = offsetof(T, counter), .count_bytes = SIZE(T, counter)
// arrays in the struct, of which `counter` elements are used, or all `size`
#define USED(T, member, kind_, counter, ...)                                                       \
  ROW_OF(T, member, kind_, .place = PLACE_ROWS, COUNTED(T, counter), __VA_ARGS__)
#define ALL(T, member, kind_, size, ...) ROW_OF(T, member, kind_, .n = (size), __VA_ARGS__)
// elements at a pointer: `counter` of them, or as many as `rule` says
#define LIST(T, member, counter, table)                                                            \
  ROW_OF(T, member, RECORD, .place = PLACE_POINTER, .count = COUNT_MEMBER, COUNTED(T, counter),    \
         .record = &table##_record)
#define BY_RULE(T, member, kind_, rule, ...)                                                       \
  ROW_OF(T, member, kind_, .place = PLACE_POINTER, .count = COUNT_##rule, __VA_ARGS__)
// Records of pack_program.c that the tables of other files contain, too.
extern const PackRecord axes_record, mesh_record, affine_record, footprint_record, initial_record;
#define RECORD(T, table)                                                                           \
  const PackRecord table##_record = {#T, sizeof(T), countof(table##_fields), table##_fields}

#endif
