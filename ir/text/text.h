// Tables that printer and reader of graph text share: names of enum values, and the fields of
// structs that the text shows as {name = value, ...}. A new field is one row in text.c.
#ifndef IR_TEXT_H
#define IR_TEXT_H

#include "ir/graph/graph.h"

// The names of the values of an enum, indexed by value.
typedef struct EnumNames {
  int n;
  const char *const *text;
} EnumNames;
extern const EnumNames init_kinds, source_kinds, optimizer_kinds, schedule_kinds, decl_kinds,
    name_kinds, synthetic_kinds, best_choices, nonfinite_choices, monoid_kinds;
// Returns the value with the name `text`, or -1.
int enum_find(const EnumNames *c, const char *text);

typedef enum FieldKind {
  FIELD_REAL,   // double
  FIELD_INT,    // an integer of 2, 4 or 8 bytes
  FIELD_SEED,   // uint64_t
  FIELD_BOOL,   // bool: the name alone means true
  FIELD_TEXT,   // const char *, may be NULL
  FIELD_ENUM,   // an enum
  FIELD_DECL,   // DeclId, as the name of the declaration
  FIELD_DIMS,   // uint8_t, the number of dims, and `list`, a const DimId *
  FIELD_AXES,   // Axes
  FIELD_NUM,    // double[2]: the second number is left out if it is 0
  FIELD_REALS,  // int64_t, the number of doubles, and `list`, a const double *
  FIELD_AFFINE, // Affine
} FieldKind;

// A field of a struct as graph text shows it: `name = value`.
typedef struct RecordField {
  const char *name;
  FieldKind kind;
  size_t offset, size;    // of the field in the struct, in bytes
  size_t list;            // offset of the pointer to the elements, for FIELD_DIMS and FIELD_REALS
  int64_t most;           // FIELD_INT: the text must have 1 ... most; 0: any value of the type
  const EnumNames *names; // FIELD_ENUM
} RecordField;

// The fields of a struct. Fields whose bytes are all zero are not printed.
typedef struct Record {
  int n;
  const RecordField *field;
  const EnumNames *kinds; // names of the enum that is the first member; NULL: there is none
} Record;
extern const Record init_record, source_record, block_record, optimizer_record, train_record;
extern const Record node_record; // the attributes of a Node
enum { NODE_NUM = 1 };           // index of the field "num" of node_record
// Words of the scopes of layout rules, by LayoutScope, for scopes without a pattern; else NULL.
extern const char *const layout_scopes[LAYOUT_TENSOR + 1];

// Returns true for a character that a word can have without quotes.
static inline bool is_word_char(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '+' || c == '*' || c == '-';
}
// Returns true for a character that a part of an origin can have without quotes; ":" ends the part.
static inline bool is_comment_char(unsigned char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != ':' && c != '\\';
}

#endif
