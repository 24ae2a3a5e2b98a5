// Private to the semantics of models: what stands between Ast and Graph while a model is built.
//
// A *scope* is a place in full names ("layer.0.attention"); a *frame* is what names mean: the
// file's or that of one call. A loop changes the scope but not the frame, a function without
// parameters the frame but not the scope.
#ifndef FRONTEND_BUILD_H
#define FRONTEND_BUILD_H

#include "frontend/frontend.h"
#include "frontend/syntax/habits.h"
#include "ir/base/map.h"

// -- values -------------------------------------------------------------------------------------
typedef enum ValueKind {
  VALUE_POISON, // of an expression with an error: silences what follows from it
  VALUE_NUMBER, // known at compile time, takes the type of what it meets
  VALUE_STRING,
  VALUE_TENSOR,
  VALUE_TUPLE, // several results of a call
} ValueKind;

typedef struct Value Value;
struct Value {
  ValueKind kind;
  bool integer; // of a number: an integer literal or made of such
  double number;
  uint32_t rows; // of a number that depends on the rows of a batch: its index in Model.numbers plus
                 // 1; else 0
  const char *text; // of a string
  NodeId node;
  uint32_t n;
  Value *item; // of a tuple
};
extern const Value value_poison;
static inline Value value_number(double x, bool integer) {
  return (Value){.kind = VALUE_NUMBER, .number = x, .integer = integer};
}
// Poison for node 0, which stands for an error already said.
static inline Value value_tensor(NodeId n) {
  return (Value){.kind = n ? VALUE_TENSOR : VALUE_POISON, .node = n};
}

// -- scopes and frames --------------------------------------------------------------------------
typedef struct Function {
  const char *name;
  const Ast *ast;
  bool scoped;   // declares a parameter or state, directly or deeper
  bool has_dims; // declares dims of its own
  bool active;   // is being called
  bool followed; // what it calls was looked at
} Function;

typedef struct Scope {
  const char *path;   // "" for the file
  const Function *fn; // that opened it, or NULL
  NameMap next;       // base name of child scopes -> Counter
  bool shared;        // runs again over the parameters of an earlier call
} Scope;

typedef struct Binding {
  Value value;
  const Graph *graph; // that value.node belongs to
  const Scope
      *home; // where the name was bound first (a loop carries it there); NULL: the frame's base
  const struct Binding *before; // what the name meant in this frame until then, or NULL
  Pos pos;
  bool stated;
  uint8_t rank;
  DimId dims[MAX_RANK];
} Binding;

// What a loop collects under a name, one value a round (a scan: one in all).
typedef struct Yield {
  const char *name;
  Pos pos;
  const Ast *ast;
  DimId dim; // 0 after an error
  VEC(Value) value;
} Yield;
typedef VEC(Yield) Yields;

// What a name meant before a loop bound it.
typedef struct Hidden {
  const char *name;
  Binding *before; // NULL: nothing
} Hidden;

// A body that is being built. Names first bound in a round of a `for` end with it; those bound in a
// scan mean afterwards what they meant before.
typedef struct Round {
  struct Round *outer;
  bool scan;
  uint32_t number; // of the round
  Yields *yields;
  VEC(Hidden) hidden;
} Round;

// A scan whose body is being built: inside, what has dim t is seen at the current t.
typedef struct Loop {
  const struct Loop *outer;
  const Graph *graph; // that it is a part of
  RegionId region;
  DimId t;
  Pos pos;
} Loop;

typedef struct Frame {
  Function *fn;    // NULL: the file
  const Ast *call; // of that function
  Scope *base;     // when the frame began
  Scope *scope;    // now: deeper inside a loop
  bool anonymous;  // under a function without a scope: values have no full names
  NameMap values;  // name -> Binding
  NameMap dims;    // formals and dims of a function -> Dim
  Round *round;    // innermost loop, or NULL
  bool returned;
  Value result;
} Frame;

// A parameter that is zero because its declaration states no start.
typedef struct Zero {
  DeclId decl;
  const Ast *ast;
} Zero;

// A dim whose size is that of a batch, or computed from it: the index of its size in Model.numbers.
typedef struct RowSize {
  DimId d;
  uint32_t number;
} RowSize;

// A square_sum: no parameter that comes later may match it.
typedef struct SquareSum {
  const char *pattern;
  Pos pos;
  uint32_t ndecls; // tensors declared before it
} SquareSum;

// What a scan that starts from a weak value carries, by number in order of the text: its type
// follows from the body, so the model is built again until no carry changes (build_one).
typedef struct CarryType {
  bool known;
  Dtype type;
} CarryType;
typedef struct CarryTypes {
  VEC(CarryType) at;
  Pos changed; // in this pass, line 0: none
} CarryTypes;

// The numbers of a VALUES node, or what a window has outside, before they were rounded to f32.
typedef struct ExactValues {
  NodeId node;
  const double *data;
} ExactValues;
// A carry that takes its type from its body; so does an inner carry that starts from it.
typedef struct WeakCarry {
  NodeId node;
  bool integer; // starts from an integer literal
} WeakCarry;
// Of the graph that is being built (weak.c).
typedef struct Weak {
  VEC(bool) is;     // by node, as far as was asked
  VEC(NodeId) wide; // by node: the same in f64, 0: not yet
  VEC(ExactValues) values;
  VEC(WeakCarry) carry;
} Weak;

typedef struct Build {
  Arena *a;
  Intern *names;
  Diag *d;
  const ModelOptions *opt;
  Model *model;
  Graph *g; // the model's; while an initial value is computed a small one of its own
  Frame *frame, *file;
  NameMap functions;   // name -> Function
  NameMap consts;      // name -> Binding: numbers and strings that functions see too
  NameMap decls;       // full name -> Decl in g
  NameMap fetched;     // full name -> Slot of g->name
  NameMap scopes;      // path -> Scope
  NameMap updated;     // full name of a state -> Binding of its update
  NameMap data_dims;   // names of dims that the rows of data run over
  NameMap settings;    // path -> Setting, the last of that path
  NameMap draws;       // path -> number of draws in that scope so far
  const char *initial; // full name of the tensor whose initial value is computed, or NULL
  const Loop *loop;    // innermost scan, through calls, or NULL
  bool outer;          // outer products are meant here
  int depth;           // of expressions and calls inside one another
  uint32_t composites; // so far
  int fors;            // `for` loops inside one another, through calls
  bool full;           // it has too many operations: nothing more is built
  uint32_t unrolled;   // calls and rounds of loops so far
  VEC(SquareSum) square_sums;
  VEC(Zero) zero;  // ascending
  int looks;       // of warn_param_alone, at the graph
  const Ast *text; // the file
  VEC(RowSize) rows;
  bool rows_read; // by the size that is being computed
  Dtype real;     // of floats that nothing decides: f32, or f64 where all declared floats are f64
  Weak weak;
  CarryTypes *carries;
  uint32_t ncarries; // weak ones so far
} Build;

// -- row_numbers.c ------------------------------------------------------------------------------
// Whether the size of d is that of a batch, or computed from it.
bool dim_has_rows(const Build *b, DimId d);
// d is a dim that rows run over.
void rows_add(Build *b, DimId d);
// The size of d was computed as e from that of others, one of which depends on rows.
void rows_add_computed(Build *b, DimId d, const Ast *e);
// size(d).
Value number_of_size(Build *b, DimId d);
// x, which an operation on n <= 2 numbers gives: where one of them depends on rows, it does too.
Value number_of(Build *b, Op op, int n, const Value *v, double x, bool integer);

// -- names.c ------------------------------------------------------------------------------------
// path.name, interned; name itself in the file's scope.
const char *name_join(Build *b, const char *path, const char *name);
Binding *binding_find(const Build *b, const char *name);
// Binds name in the current frame and registers its full names for fetching. Numbers get a node
// when fetched.
Binding *binding_set(Build *b, const char *name, Value v, Pos pos, NameKind kind,
                     const Dims *stated_order);
void name_register(Build *b, const char *full, NameKind kind, const Binding *from);
// The scope of a call or loop `base` (numbered base_1 ... when taken, unless `exact`) under the
// current one; NULL after an error at pos.
Scope *scope_open(Build *b, const char *base, bool exact, const Function *fn, Pos pos);
// The meaning of a name in an expression; says what is wrong and gives poison if it has none.
Value value_of_name(Build *b, const char *name, Pos pos);

// -- dims.c -------------------------------------------------------------------------------------
DimId dim_lookup(Build *b, const char *name, Pos pos); // 0 after an error
DimId dim_visible(const Build *b, const char *name);   // 0: none
// Declares the dims and consts of the file, --set applied.
void dims_declare_file(Build *b, const Ast *file);
// A dim statement in a function.
void dims_declare_local(Build *b, const Ast *statement);
// Integer arithmetic over dims and numbers; false after an error.
MUST_USE bool dims_integer(Build *b, const Ast *e, int64_t *out);
// The dims between the brackets of a declaration or target, in stated order, each once.
MUST_USE bool dims_stated(Build *b, const Ast *t, Dims *order);
const char *dims_listed(Build *b, const Dims *s); // "[b, h]"
// False with an error when a tensor over s would be too large.
MUST_USE bool dims_fit(Build *b, const Dims *s, Pos pos, const char *what);
Setting *setting_find(const Build *b, const char *path); // the last of that path, or NULL
void settings_index(Build *b);                           // before the first setting_find

// -- build_expr.c -------------------------------------------------------------------------------
typedef enum Typing {
  ARITHMETIC, // bool and u8 become i32
  FLOATING,   // integers become floats
  COMPARING,  // any type, result bool
  LOGICAL,    // bools only
  CHOOSING,   // where: a bool, then two of any type
} Typing;
Value build_expr(Build *b, const Ast *e);
// The value of one operation on n operands, types mixed as the language says.
Value build_pointwise(Build *b, Pos pos, Op op, Typing typing, int n, const Value *v);
// False with an error at pos when the operands fall apart into groups without a common dim.
MUST_USE bool build_joined(Build *b, Pos pos, int n, const Value *v);
// Adds a node with place `pos`; 0 after an error.
NodeId build_emit(Build *b, Pos pos, Op op, int nargs, const NodeId *args, const Attr *attr);
// The type that operands meet in, and an operand as a node of that type.
Dtype build_join(Build *b, Typing typing, int n, const Value *v);
NodeId build_node(Build *b, Value v, Dtype type);
NodeId build_natural(
    Build *b,
    Value v); // as a tensor of its own type: integers i32, other numbers the default float
NodeId build_float(Build *b, Value v);                  // likewise, integers and bools as floats
const Dims *build_dims(const Build *b, const Value *v); // of a number: none
// A number known at compile time; false after an error.
MUST_USE bool build_number(Build *b, const Ast *e, double *out);
MUST_USE bool build_integer(Build *b, const Ast *e, int64_t *out);
MUST_USE bool build_string(Build *b, const Ast *e, const char **out);
MUST_USE bool build_bool(Build *b, const Ast *e, bool *out);
// "{layer}" in a text replaced by what the name stands for.
MUST_USE bool build_template(Build *b, const char *text, Pos pos, const char **out);
// False, with an error unless it is poison, when v is not a tensor or a number.
MUST_USE bool value_is_tensor(Build *b, const Value *v, Pos pos);

// -- weak.c -------------------------------------------------------------------------------------
// Whether node n of b->g takes the type of what it meets. Of i32: positions and literals only.
bool node_is_weak(Build *b, NodeId n);
// Makes a carry of an undecided type weak.
void carry_open(Build *b, NodeId carry);
// Weak node n, a float, in f64; node_wide: 0 when it has not been asked for.
NodeId node_widened(Build *b, NodeId n);
NodeId node_wide(const Build *b, NodeId n);
// Notes the numbers of node n before they were rounded; they last as long as the build.
void values_exact(Build *b, NodeId n, const double *data);
// The type of floats in a file where nothing else decides it.
Dtype default_float(const Ast *file);
// A NAME as a type of the language, f32 for NULL; false after an error.
MUST_USE bool type_stated(Build *b, const Ast *type, Dtype *out);
// Whether v converts to `type` without loss, or has no type of its own.
bool type_takes(Build *b, const Value *v, Dtype type);
// The value of `name` in the type that was stated for it, no longer weak; 0 after an error at pos.
NodeId build_stated(Build *b, const char *name, Pos pos, Value v, Dtype type);
// n, in a node that is not weak.
NodeId build_strong(Build *b, NodeId n);

// -- build_power.c ------------------------------------------------------------------------------
// x ^ y. The type is a float unless both are integers and y is surely not negative.
Value build_power(Build *b, Pos pos, const Value *v);

// -- build_call.c -------------------------------------------------------------------------------
enum { MAX_FORMALS = 8 };
typedef struct Formal {
  const char *name; // NULL ends a list
  bool raw;         // the rule reads the Ast
  bool required;
  double value; // default, NAN: none
} Formal;

typedef enum Bracket {
  BRACKET_NONE,
  BRACKET_REDUCE, // optional, `all but` allowed
  BRACKET_ONE,
  BRACKET_SOME,
  BRACKET_MAP, // with arrows
  BRACKET_ANY,
} Bracket;

typedef struct Call Call;
typedef Value BuiltinRule(Build *b, const Call *c);
typedef struct Builtin {
  const char *name;
  Bracket bracket;
  BuiltinRule *rule;
  Op op;
  Typing typing;
  const Formal *formal;
} Builtin;

struct Call {
  const Ast *ast;
  const Builtin *row;
  Pos pos;
  uint32_t ndims;
  DimId dim[MAX_RANK];
  bool arrow[MAX_RANK];
  Value arg[MAX_FORMALS];      // as many as the row has formals
  const Ast *raw[MAX_FORMALS]; // NULL: not given
};

Value build_call(Build *b, const Ast *call);
extern const Builtin builtins[]; // builtin_table.c; the last row has no name
const Builtin *builtin_find(const char *name);
// Assigns the arguments of a call to formals, by position and by name. False after errors.
MUST_USE bool call_bind(Build *b, const Ast *call, const Formal *formal, const Ast **out);
// The same where all are numbers.
MUST_USE bool call_numbers(Build *b, const Ast *call, const Formal *formal, double *out);
// range.c: false with an error at pos when argument `argument` of call `of` ("train": a key of a
// train block) may not be x.
MUST_USE bool range_ok(Build *b, Pos pos, const char *of, const char *argument, double x);

// -- build_habits.c -----------------------------------------------------------------------------
// The operands of a call as the user wrote them, and a dim that they share.
HabitNames habit_names(const Build *b, const Ast *call);
// A hint for "x.sum" or "x.T" where x is a value; call: the call of that name, or NULL. False:
// none.
bool habit_of_member(Build *b, const char *name, const Ast *call);
// A hint for x[i], where x is a value.
void habit_of_index(Build *b, const Ast *call);

// -- functions.c --------------------------------------------------------------------------------
// Which functions open scopes.
void functions_scan(Build *b);
// Heads with a name twice; functions that call themselves, called or not.
void functions_check(Build *b, const Ast *file);

// -- build.c ------------------------------------------------------------------------------------
// Counts calls or rounds; false, with an error, when the model unrolls beyond all measure.
MUST_USE bool build_unroll(Build *b, int64_t times, Pos pos);
void build_block(Build *b, const Ast *block);
// A right side; where its target states all dims, outer products are meant.
Value build_outer(Build *b, const Ast *e, bool stated);
// Whether v has just the dims that are stated of `name`; else it has said what is wrong.
MUST_USE bool build_matches(Build *b, const char *name, Pos pos, const Dims *stated,
                            const Value *v);

// -- build_loop.c -------------------------------------------------------------------------------
enum { MAX_CARRIES = 100 };
void build_for(Build *b, const Ast *s);
void build_scan(Build *b, const Ast *s);
void build_yield(Build *b, const Ast *s);
// A name is about to be bound that meant `before`.
void round_note(Build *b, const char *name, Binding *before);
// A value as the body of the open scans sees it: at their current steps; poison after an error at
// pos.
Value loop_view(Build *b, Value v, Pos pos);
// Adds the dims of the open scans: what is drawn anew in each step has them. False: too many.
MUST_USE bool loop_dims(const Build *b, Dims *dims);

// -- builtin_*.c --------------------------------------------------------------------------------
#define BUILTIN(name, bracket, rule, op, typing, ...) BuiltinRule builtin_##rule;
#include "frontend/model/builtin.def"
#undef BUILTIN
// The dims that a reduction takes away from an operand of dims `have`; false after an error.
MUST_USE bool call_over(Build *b, const Call *c, const Dims *have, Dims *over);
// Errors for parameters that a square_sum before them would have missed.
void square_sums_check(Build *b);
// A composite begins: nodes from here on have its place and a group of their own. Pass the
// result to group_end.
Origin group_begin(Build *b, Pos pos);
void group_end(Build *b, Origin before);

// -- builtin_random.c ---------------------------------------------------------------------------
// A draw of f32 or f64 over `dims`, with the key of the next call in the current scope; 0 after an
// error.
NodeId build_draw(Build *b, Pos pos, Op op, Dtype type, const Dims *dims);

// -- init.c -------------------------------------------------------------------------------------
// The start of a PARAM or STATE statement with declaration d; false after an error.
MUST_USE bool init_build(Build *b, const Ast *statement, const Decl *d, Init *out);

// -- blocks.c -----------------------------------------------------------------------------------
void data_build(Build *b, const Ast *file);
void mesh_build(Build *b, const Ast *file);
void layout_build(Build *b, const Ast *file);
// The entries of a data or train statement with --set PREFIX.key applied, in order.
typedef struct Entry {
  const char *key;
  const Ast *value;
  Pos pos;
} Entry;
typedef struct Entries {
  uint32_t n;
  Entry *at;
  NameMap index; // key -> Entry
} Entries;
Entries entries_read(Build *b, const Ast *statement, uint32_t first, const char *prefix);
// Applies --set PREFIX.key to entries that were read.
void entries_set(Build *b, Entries *e, const char *prefix);

// -- train.c ------------------------------------------------------------------------------------
void train_build(Build *b, const Ast *file);
// What products and activations are computed in: --precision, --set, or a train block. Before the
// first statement, for cast(x, f32) pins a value where that is narrow.
void precision_read(Build *b, const Ast *file);

#endif
