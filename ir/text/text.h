// What printer and reader of graph text share: names of enum values, and the fields of spec
// records, so that what is printed is what is read. A new field of a record is one row.
#ifndef IR_TEXT_H
#define IR_TEXT_H

#include "ir/graph/graph.h"

// Names by value.
typedef struct EnumNames {
  int n;
  const char *const *text;
} EnumNames;
extern const EnumNames init_kinds, source_kinds, optimizer_kinds, schedule_kinds, decl_kinds,
    name_kinds;
// The value named by text, or -1.
int enum_find(const EnumNames *c, const char *text);

typedef enum FieldKind {
  FIELD_REAL, // double
  FIELD_INT,  // int
  FIELD_LONG, // int64_t
  FIELD_SEED, // uint64_t
  FIELD_BOOL, // bool
  FIELD_TEXT, // const char *, may be NULL
  FIELD_ENUM, // an enum
} FieldKind;

typedef struct RecordField {
  const char *name;
  FieldKind kind;
  size_t offset;
  const EnumNames *names;
} RecordField;

// The fields of a record; those of value zero are not printed.
typedef struct Record {
  int n;
  const RecordField *field;
} Record;
extern const Record init_record, source_record, block_record, optimizer_record, train_record;

// Characters of a word that needs no quotes.
static inline bool is_word_char(unsigned char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '+' || c == '*' || c == '-';
}
// The same in the comment of a line, where parts end at ": ".
static inline bool is_comment_char(unsigned char c) {
  return c > 0x20 && c < 0x7f && c != '"' && c != ':' && c != '\\';
}

#endif
