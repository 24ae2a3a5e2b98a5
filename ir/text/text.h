// Tables that the printer and the reader of graph text share: the names of the values of enums, and
// the fields of structs (records), which the text shows as {name = value, ...}. A new field needs
// one more row in text.c.
#ifndef IR_TEXT_H
#define IR_TEXT_H

#include "ir/graph/graph.h"

// The names of the values of an enum: text[v] is the name of value v.
typedef struct EnumNames {
  int n;
  const char *const *text;
} EnumNames;
extern const EnumNames init_kinds, source_kinds, optimizer_kinds, schedule_kinds, decl_kinds,
    name_kinds, synthetic_kinds, missing_rules, class_rules, best_choices, nonfinite_choices,
    monoid_kinds;
// Returns the value whose name is `text`, or -1 if there is none.
int enum_find(const EnumNames *c, const char *text);

typedef enum FieldKind {
  FIELD_REAL, // double
  FIELD_INT,  // an integer of 2, 4 or 8 bytes
  FIELD_SEED, // uint64_t
  FIELD_BOOL, // bool, printed only if true, as its name alone
  FIELD_TEXT, // const char *, may be NULL
  FIELD_ENUM, // an enum
  FIELD_DECL, // DeclId, printed as the name of the declaration
  FIELD_DIMS, // a list of dims: their number, a uint8_t, at `offset`; a const DimId * at `list`
  FIELD_AXES, // Axes
  FIELD_NUM,  // double[2], printed without the second number if that is 0
  // A list of numbers: their count, an int64_t, at `offset`; a const double * at `list`.
  FIELD_REALS,
  FIELD_AFFINE, // Affine
} FieldKind;

// A field of a struct as graph text shows it: `name = value`.
typedef struct RecordField {
  const char *name;
  FieldKind kind;
  size_t offset, size; // offset of the field in the struct, and its size, in bytes
  size_t list;         // FIELD_DIMS, FIELD_REALS: offset of the pointer to the elements, in bytes
  int64_t most;        // FIELD_INT: the reader accepts 1 to `most`; 0: any value of the type
  const EnumNames *names; // FIELD_ENUM: the names of its values
} RecordField;

// A struct that the text shows: its fields, in order. Fields whose bytes are all zero are not
// printed.
typedef struct Record {
  int n;
  const RecordField *field;
  // Names of the enum that is the first member of the struct; NULL: it has none.
  const EnumNames *kinds;
} Record;
extern const Record init_record, source_record, block_record, optimizer_record, train_record;
// What the braces of a node's line show.
typedef struct NodeText {
  Attr attr;
  uint32_t instance;
  Origin origin;
} NodeText;
extern const Record node_record; // of a NodeText
enum { NODE_NUM = 1 };           // index of the field "num" of node_record
// Words for the scopes of layout rules, indexed by LayoutScope; NULL for a scope that has none.
extern const char *const layout_scopes[LAYOUT_TENSOR + 1];

// Returns true for a character that can be in a word without quotes.
static inline bool is_word_char(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '+' || c == '*' || c == '-';
}
// Returns true for a character that can be without quotes in a part of an origin (place: value:
// why). ":" needs quotes, because it ends the part.
static inline bool is_comment_char(unsigned char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != ':' && c != '\\';
}

#endif
