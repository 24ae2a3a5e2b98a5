// State and functions that the files of frontend/model and frontend/builtin share while they build
// a Graph from an Ast.
//
// A *scope* is a prefix of full names ("layer.0.attention"). A *frame* maps names to their
// meanings: there is one for the file and one for each call. A loop changes the scope but not the
// frame. A call of a function that declares no `param`, `state` or `dim`, and that has no
// `name = ...`, changes the frame but not the scope.
//
// *Poison* is the value of an expression with an error. Operations on it give no further errors. A
// value is *weak* if it has no type of its own: it takes the type of the operand that it is
// combined with (weak.c). A *position* is an element of index[d], or the number of the training
// step; a *draw* is a call of a random function. A *composite* is the group of nodes that one call
// of a built-in such as softmax makes. A loop is *open* while its body is being built. A *row* is
// one index of a batch dim. A Pos with line 0 means that there is no position.
#ifndef FRONTEND_BUILD_H
#define FRONTEND_BUILD_H

#include "frontend/frontend.h"
#include "frontend/syntax/habits.h"
#include "ir/base/map.h"

// -- values -------------------------------------------------------------------------------------
typedef enum ValueKind {
  VALUE_POISON, // the expression has an error
  VALUE_NUMBER, // known at compile time; takes the type of the operand that it is combined with
  VALUE_STRING,
  VALUE_TENSOR,
  VALUE_TUPLE,    // several results of a call
  VALUE_TRUTH,    // a bool known at compile time; only the value of a binding (value_of_name)
  VALUE_FUNCTION, // a function that is given to a function; `text` is its name
} ValueKind;

typedef struct Value Value;
struct Value {
  ValueKind kind;
  bool
      integer; // true for a number that is an integer literal, or is computed from integer literals
  double number; // of VALUE_TRUTH: 1 for true, 0 for false
  // if the number depends on the rows of a batch: its index in Model.numbers plus 1; else 0
  uint32_t rows;
  const char *text; // the characters of a string; the name of a function
  NodeId node;
  uint32_t n;
  Value *item; // the n values of a tuple
};
extern const Value value_poison;
static inline Value value_number(double x, bool integer) {
  return (Value){.kind = VALUE_NUMBER, .number = x, .integer = integer};
}
// Returns node n as a value; poison for n = 0, which means that an error was reported.
static inline Value value_tensor(NodeId n) {
  return (Value){.kind = n ? VALUE_TENSOR : VALUE_POISON, .node = n};
}

// -- scopes and frames --------------------------------------------------------------------------
typedef struct Function {
  const char *name;
  const Ast *ast;
  bool scoped;    // declares a parameter or state, directly or in a function that it calls
  bool has_dims;  // declares dims of its own
  bool active;    // a call of it is being built
  bool followed;  // functions_check has visited the functions that it calls
  bool recursive; // functions_check has reported calls that lead back to it, or from it to such
} Function;

typedef struct Scope {
  const char *path;   // the prefix of full names, without the last dot; "" for the file
  const Function *fn; // the function whose call opened it, or NULL
  NameMap next;       // name of a function or loop -> number of its next child scope (names.c)
  bool shared;        // uses the parameters of an earlier call
  bool bare;          // a round of a loop that declares nothing: another scope may take its place
} Scope;

typedef struct Binding {
  Value value;
  const Graph *graph; // the graph that contains the node value.node
  // the scope in which the name was bound first; a binding in a loop is registered there too.
  // NULL: the scope in which the frame began (Frame.base)
  const Scope *home;
  const struct Binding *before; // the previous binding of the name in this frame, or NULL
  Pos pos;
  bool stated; // rank and dims hold the order of dims that the left side states
  uint8_t rank;
  DimId dims[MAX_RANK];
} Binding;

// The values that a loop collects under a name: one for each round of a `for`, a single one for a
// scan.
typedef struct Yield {
  const char *name;
  Pos pos;
  const Ast *ast;
  DimId dim; // 0 after an error
  VEC(Value) value;
} Yield;
typedef VEC(Yield) Yields;

// The binding that a name had before a loop bound it. The end of the loop restores it.
typedef struct Hidden {
  const char *name;
  Binding *before; // NULL: the name was not bound
} Hidden;

// A loop body that is being built. At the end of a round of a `for`, names first bound in it are
// removed. At the end of a scan, all names bound in it get their previous bindings back.
typedef struct Round {
  struct Round *outer;
  bool scan;
  uint32_t number; // number of the round of a `for`, from 0
  Yields *yields;
  VEC(Hidden) hidden;
} Round;

// A scan over dim t whose body is being built. In the body, a value that has t means its slice at
// the current step (loop_view).
//
// Of a guarded region (`side`), dim t has one position and is in no value. A value from outside
// enters the region as a constant carry.
typedef struct Loop {
  const struct Loop *outer;
  const Graph *graph; // the graph that contains the region
  RegionId region;
  DimId t;
  Pos pos;
  struct Side *side; // of a guarded region (build_side.c); NULL for a scan
} Loop;

typedef struct Frame {
  Function *fn;    // NULL: the file
  const Ast *call; // the call that made the frame, or NULL
  Scope *base;     // the scope in which the frame began
  Scope *scope;    // the current scope: in a loop it is below the base
  bool anonymous;  // the call opened no scope, so that values have no full names
  NameMap values;  // name -> Binding
  NameMap dims;    // name -> DimId: dim formals and dims that the function or file declares
  Round *round;    // the innermost `for` or scan of this frame, or NULL
  uint32_t ifs;    // number of `if` statements around the current statement
  bool returned;   // a return statement was built
  Value result;    // the returned value
} Frame;

// A parameter that is zero because its declaration states no initial value.
typedef struct Zero {
  DeclId decl;
  const Ast *ast;
} Zero;

// A dim whose size is that of a batch, or is computed from one.
typedef struct RowSize {
  DimId d;
  uint32_t number; // index of its size in Model.numbers
} RowSize;

// Operands without a common dim, so that the result is an outer product. It is an error unless
// another operand of the same expression has all dims of the result.
typedef struct OuterProduct {
  Pos pos;
  Dims left, right; // the dims of two of the operands
  Dims all;         // the dims of the result
} OuterProduct;

// A call of square_sum. A parameter that is declared after it must not match its pattern
// (square_sums_check).
typedef struct SquareSum {
  const char *pattern;
  Pos pos;
  uint32_t ndecls; // number of tensors declared before the call
} SquareSum;

// The type of a weak carry: one that starts from a value without a type of its own. The type
// follows from the body, so the model is built again until no carry changes (build_one).
typedef struct CarryType {
  bool known;
  Dtype type;
} CarryType;
typedef struct CarryTypes {
  VEC(CarryType) at; // index: number of the weak carry, in the order in which they are built
  Pos changed;       // position of a carry whose type changed in this pass
} CarryTypes;

// The numbers of a VALUES node, or the fill value of a window, before rounding to f32. They are
// used if the node is built again in f64.
typedef struct ExactValues {
  NodeId node;
  const double *data;
} ExactValues;
// A CARRY node that takes its type from the body of its scan. An inner carry that starts from such
// a node takes its type from the inner body.
typedef struct WeakCarry {
  NodeId node;
  bool integer; // its initial value is an integer literal
} WeakCarry;
// Which nodes of the graph under construction have a weak type (weak.c).
typedef struct Weak {
  VEC(bool) is;     // index: NodeId; true if the node is weak
  VEC(NodeId) wide; // index: NodeId; the copy of the node in f64; 0: none
  VEC(ExactValues) values;
  VEC(WeakCarry) carry;
} Weak;

typedef struct Build {
  Arena *a;
  Intern *names;
  Diag *d;
  const ModelOptions *opt;
  Model *model;
  Graph *g;                 // the model's; for an initial value a separate, small graph
  Frame *frame, *file;      // the current frame, and that of the file
  NameMap functions;        // name -> Function
  NameMap consts;           // name -> Binding: numbers and strings, also visible in functions
  NameMap decls;            // full name -> DeclId
  NameMap fetched;          // full name -> index in g->name plus 1
  NameMap scopes;           // path -> Scope
  NameMap updated;          // full name of a state -> Binding of its update
  NameMap data_dims;        // names of the batch dims of the data blocks
  NameMap settings;         // path -> the last Setting of that path
  NameMap draws;            // path of a scope -> number of random draws in it so far
  const char *initial;      // full name of the tensor whose initial value is computed, or NULL
  const Loop *loop;         // innermost scan, also outside the current function; or NULL
  bool outer;               // outer products are allowed here
  VEC(OuterProduct) outers; // those of the expression that is being built (build_whole)
  int depth;                // nesting depth of expressions and calls
  uint32_t composites;      // number of composites (group_begin) so far
  int fors;                 // nesting depth of `for` loops, across calls
  bool full;                // the graph has too many operations: further statements are not built
  uint32_t unrolled;        // calls and rounds of loops so far
  VEC(SquareSum) square_sums;
  VEC(Zero) zero;  // in ascending order of decl
  int looks;       // number of walks over the graph by warn_param_alone, which limits them
  const Ast *text; // the Ast of the file
  VEC(RowSize) rows;
  bool rows_read;   // the size that is being computed depends on the rows of a batch
  bool incomplete;  // the statements have errors: a parameter may be missing
  bool mesh_broken; // an axis of the mesh has an error: that it is missing is none
  Dtype real;       // the default float type: f32, or f64 if all declared floats are f64
  Weak weak;
  CarryTypes *carries;
  uint32_t ncarries; // number of weak carries so far
} Build;

// -- row_numbers.c ------------------------------------------------------------------------------
// Returns true if the size of d is that of a batch, or is computed from one.
bool dim_has_rows(const Build *b, DimId d);
// Records that d is a batch dim.
void rows_add(Build *b, DimId d);
// Records that the size of d was computed by expression e, which reads the size of a batch dim.
void rows_add_computed(Build *b, DimId d, const Ast *e);
// Returns size(d) as a number. Sets b->rows_read if it depends on rows.
Value number_of_size(Build *b, DimId d);
// Returns the number x, the result of `op` on the n <= 2 numbers v; `integer` says whether it is an
// integer. It depends on the rows of a batch if one of the numbers v does.
Value number_of(Build *b, Op op, int n, const Value *v, double x, bool integer);

// -- names.c ------------------------------------------------------------------------------------
// Returns "path.name", interned; `name` itself for the file's scope, whose path is "".
const char *name_join(Build *b, const char *path, const char *name);
// Returns the binding of `name` in the current frame, or NULL.
Binding *binding_find(const Build *b, const char *name);
// Binds `name` to v in the current frame and registers its full names for fetching. `stated_order`
// is the order of dims that the left side states, or NULL.
Binding *binding_set(Build *b, const char *name, Value v, Pos pos, NameKind kind,
                     const DimList *stated_order);
// Binds `name` to v in `map`, without a full name: it cannot be fetched.
void binding_put(Build *b, NameMap *map, const char *name, Value v, Pos pos);
// Adds the full name `full`, with the value of `from`, to the names of the graph, or replaces the
// value of that name. A number becomes a node. Reports an error if the name is an output or a
// metric.
void name_register(Build *b, const char *full, NameKind kind, const Binding *from);
// Returns a new scope `base` below the current one, for a call of fn or a loop (fn NULL). If `base`
// is taken, the scope is named base_1, base_2 ...; with `exact` this is an error at pos, and NULL.
Scope *scope_open(Build *b, const char *base, bool exact, const Function *fn, Pos pos);
// Returns the value of a name in an expression; poison after an error if it has none.
Value value_of_name(Build *b, const char *name, Pos pos);

// -- dims.c -------------------------------------------------------------------------------------
// Returns the dim of that name in the current frame or the file; 0 after an error at pos.
DimId dim_lookup(Build *b, const char *name, Pos pos);
// Returns the dim of that name in the current frame or the file; 0, without an error, if there is
// none.
DimId dim_visible(const Build *b, const char *name);
// Declares the dims and consts of the file, with the values of --set.
void dims_declare_file(Build *b, const Ast *file);
// Declares the dims of a dim statement in a function.
void dims_declare_local(Build *b, const Ast *statement);
// Evaluates integer arithmetic over dims and numbers. Returns false after an error.
MUST_USE bool dims_integer(Build *b, const Ast *e, int64_t *out);
// Reads the dims in the brackets of a declaration or target, in stated order; a repeated dim is an
// error. Returns false after an error.
MUST_USE bool dims_stated(Build *b, const Ast *t, DimList *order);
// Returns the set of the n dims, at most MAX_RANK.
Dims dims_set(const Build *b, int n, const DimId *dims);
// Returns the names of the dims as "[b, h]".
const char *dims_listed(Build *b, const DimList *s);
// Returns true if a tensor over s is not too large. Otherwise reports an error that calls it
// `what`.
MUST_USE bool dims_fit(Build *b, const Dims *s, Pos pos, const char *what);
// Returns the last --set of that path, or NULL. Marks the earlier ones as used: the last one
// overrides them, so that they are not reported as unused.
Setting *setting_find(const Build *b, const char *path);
// Fills b->settings from the options of the command line; call it before setting_find.
void settings_index(Build *b);

// -- build_expr.c -------------------------------------------------------------------------------
// How the types of operands are combined.
typedef enum Typing {
  ARITHMETIC, // bool and u8 become i32
  FLOATING,   // integers become floats
  COMPARING,  // any type, result bool
  LOGICAL,    // bools only
  CHOOSING,   // where: a bool, then two of any type
} Typing;
// Returns the value of expression e; poison after an error.
Value build_expr(Build *b, const Ast *e);
// Returns the value of `op` on the n <= 3 operands v, converted to a common type by `typing`;
// poison after an error at pos.
Value build_pointwise(Build *b, Pos pos, Op op, Typing typing, int n, const Value *v);
// Returns the value of e, an expression that is not an operand of another one. Poison after an
// error, such as an outer product in it that nothing allows.
Value build_whole(Build *b, const Ast *e);
// Checks that shared dims connect all operands that have dims. Example: [a, b] connects [a] and
// [b]. If they do not, and outer products are not allowed here, adds the operation at pos to
// b->outers.
void build_joined(Build *b, Pos pos, int n, const Value *v);
// Takes those outer products off b->outers that another operand allows. Those of operand i are
// b->outers.at[from[i]] up to from[i + 1]; operand j != i allows one if it has all of its dims.
// from[0..n] are ascending, and from[n] is b->outers.n.
void outers_settle(Build *b, int n, const uint32_t *from, const Value *v);
// Reports the outer products from number `mark` on and takes them off b->outers. Returns true if
// there are none.
bool outers_end(Build *b, uint32_t mark);
// Adds a node with origin `pos`; 0 after an error.
NodeId build_emit(Build *b, Pos pos, Op op, int nargs, const NodeId *args, const Attr *attr);
// build_join chooses the type of an operation. build_node gives an operand that type, build_natural
// its own type, build_float a float type. build_stated checks that a conversion loses nothing.
// Returns the common type of n operands.
Dtype build_join(Build *b, Typing typing, int n, const Value *v);
// Returns a number or tensor as a node of the given type.
NodeId build_node(Build *b, Value v, Dtype type);
// Returns v as a node of its own type: an integer as i32, another number as the default float.
NodeId build_natural(Build *b, Value v);
// Returns v as a node of a float type; integers and bools are converted.
NodeId build_float(Build *b, Value v);
// Returns the dims of v; a number has none.
const Dims *build_dims(const Build *b, const Value *v);
// Each evaluates e, which must be known at compile time, to a number, integer, string or bool in
// *out. Returns false after an error.
MUST_USE bool build_number(Build *b, const Ast *e, double *out);
MUST_USE bool build_integer(Build *b, const Ast *e, int64_t *out);
MUST_USE bool build_string(Build *b, const Ast *e, const char **out);
MUST_USE bool build_bool(Build *b, const Ast *e, bool *out);
// Returns true if v is a scalar bool that is known at compile time, and sets *out to it.
bool value_is_truth(const Build *b, const Value *v, bool *out);
// Returns true if v is a number or a constant, which a stated left side broadcasts over its dims.
bool value_fills(const Build *b, const Value *v);
// Replaces names in braces, such as "{layer}", in a text by their values. Returns false after an
// error.
MUST_USE bool build_template(Build *b, const char *text, Pos pos, const char **out);
// Returns true if v is a tensor or a number. Otherwise reports an error, unless v is poison.
MUST_USE bool value_is_tensor(Build *b, const Value *v, Pos pos);

// -- weak.c -------------------------------------------------------------------------------------
// Returns true if node n of b->g is weak. A float node is weak if it is computed from numbers,
// positions and draws only; an i32 node, from positions and literals only.
bool node_is_weak(Build *b, NodeId n);
// Marks a CARRY node as weak. Used if no earlier build has found the type of the carry
// (CarryType.known is false).
void carry_open(Build *b, NodeId carry);
// Returns a node that computes the weak float node n in f64.
NodeId node_widened(Build *b, NodeId n);
// Returns the node that node_widened has made of node n; 0 if it has not been called for n.
NodeId node_wide(const Build *b, NodeId n);
// Records `data` as the numbers of node n before they were rounded to f32. `data` must live as long
// as the build.
void values_exact(Build *b, NodeId n, const double *data);
// Returns the default float type of a file: f64 if all floats that it declares are f64, else f32.
Dtype default_float(const Ast *file);
// Reads an AST_NAME as a type of the language; NULL gives f32. Returns false after an error.
MUST_USE bool type_stated(Build *b, const Ast *type, Dtype *out);
// Returns true if v converts to `type` without loss, or has no type of its own.
bool type_takes(Build *b, const Value *v, Dtype type);
// Returns the value v of `name` as a node of `type`, the type that the model states for that name.
// The node is not weak. Reports an error at pos and returns 0 if the conversion would lose digits
// or range.
NodeId build_stated(Build *b, const char *name, Pos pos, Value v, Dtype type);
// Returns n, or a cast to its own type if n is weak: a CAST node is never weak.
NodeId build_strong(Build *b, NodeId n);

// -- build_power.c ------------------------------------------------------------------------------
// Returns v[0] ^ v[1]. The result is a float unless both are integers and v[1] is known not to be
// negative.
Value build_power(Build *b, Pos pos, const Value *v);

// -- build_call.c -------------------------------------------------------------------------------
enum { MAX_FORMALS = 16 };
// A formal argument of a built-in, an optimizer, a schedule, a draw or a data source.
typedef struct Formal {
  const char *name; // NULL ends a list
  bool raw;         // not evaluated: the rule reads the Ast
  bool required;
  double value; // default; NAN: none
} Formal;

// What a built-in function takes in brackets.
typedef enum Bracket {
  BRACKET_NONE,
  BRACKET_REDUCE, // dims, optional; `all but` is allowed
  BRACKET_ONE,    // one dim
  BRACKET_SOME,   // one or more dims
  BRACKET_MAP,    // dims with arrows: [from -> to]
  BRACKET_ANY,    // checked by the rule
} Bracket;

typedef struct Call Call;
// Builds the nodes of a call of a built-in and returns its value; poison after an error.
typedef Value BuiltinRule(Build *b, const Call *c);
// A row of builtin.def.
typedef struct Builtin {
  const char *name;
  Bracket bracket;
  BuiltinRule *rule;
  Op op;
  Typing typing;
  const Formal *formal;
} Builtin;

// A call of a built-in whose brackets and arguments have been checked.
struct Call {
  const Ast *ast;
  const Builtin *row;
  Pos pos;
  uint32_t ndims;
  DimId dim[MAX_RANK];         // the dims in the brackets
  bool arrow[MAX_RANK];        // an arrow precedes the dim
  Value arg[MAX_FORMALS];      // by formal: the value given, or the default
  const Ast *raw[MAX_FORMALS]; // by formal: the expression given, or NULL
};

// Returns the value of a call of a built-in or of a function of the model; poison after an error.
Value build_call(Build *b, const Ast *call);
// Returns the value of e as an argument of a function: the name of a function is a value, too. A
// bool that is known at compile time stays known in the function.
Value build_argument(Build *b, const Ast *e);
extern const Builtin builtins[];               // builtin_table.c; the last row has no name
const Builtin *builtin_find(const char *name); // NULL: none
// Returns how a call of that name is written, as builtin.def has it; NULL if the brackets and the
// formals of its row say it.
const char *builtin_form(const char *name);
// Assigns the arguments of a call to formals, by position and by name. out[i] is the expression for
// formal[i], or NULL. Returns false after errors.
MUST_USE bool call_bind(Build *b, const Ast *call, const Formal *formal, const Ast **out);
// Binds the arguments as call_bind does and evaluates them to numbers, with defaults and range
// checks. Returns false after errors.
MUST_USE bool call_numbers(Build *b, const Ast *call, const Formal *formal, double *out);
// range.c: returns true if x is allowed for `argument` of call `of` ("train": a key of a train
// block). Otherwise reports an error at pos.
MUST_USE bool range_ok(Build *b, Pos pos, const char *of, const char *argument, double x);

// -- build_habits.c -----------------------------------------------------------------------------
// Returns the operands of a call as the user wrote them, and a dim that they share.
HabitNames habit_names(const Build *b, const Ast *call);
// Returns the last dim of the operand $x that $y lacks; $d if there is none or an operand is not
// known.
const char *dim_apart(const Build *b, const HabitNames *names);
// Adds a hint to the last error of b->d for a name such as "x.sum" or "x.T" where x is a value.
// `call` is the call of that name, or NULL. Returns false if there is no hint.
bool habit_of_member(Build *b, const char *name, const Ast *call);
// Adds a hint to the last error for x[i], where x is a value.
void habit_of_index(Build *b, const Ast *call);

// -- functions.c --------------------------------------------------------------------------------
// Sets Function.scoped and has_dims of every function.
void functions_scan(Build *b);
// Reports functions with two formals of one name and functions that call themselves, whether or not
// the model calls them.
void functions_check(Build *b, const Ast *file);
// Returns true if the statements of block declare a parameter or a state, directly or in a function
// that they call.
bool block_declares(Build *b, const Ast *block);

// -- build.c ------------------------------------------------------------------------------------
// Adds `times` to the number of calls and rounds of loops that the model unrolls to. Returns false
// after an error at pos if it is more than 250,000.
MUST_USE bool build_unroll(Build *b, int64_t times, Pos pos);
// Builds the statements of a file or a body.
void build_block(Build *b, const Ast *block);
// Returns the value of e, the right side of a statement. Outer products are allowed if the left
// side states its dims (`stated`).
Value build_outer(Build *b, const Ast *e, bool stated);
// Returns true if v has exactly the dims `stated` for `name`. Otherwise reports an error at pos.
MUST_USE bool build_matches(Build *b, const char *name, Pos pos, const DimList *stated,
                            const Value *v);

// -- build_for.c --------------------------------------------------------------------------------
// Each builds the statement of its name: a `for`, whose rounds are unrolled, and an `if`, of which
// one branch is built.
void build_for(Build *b, const Ast *s);
void build_if(Build *b, const Ast *s);

// -- build_loop.c -------------------------------------------------------------------------------
enum { MAX_CARRIES = 100 };
// Reads the options of loop s: the name of its scope into *base, and `checkpoint` into *again. If
// base is NULL (for a scan, which has no scope), the option `name` is an error. Returns false after
// an error.
MUST_USE bool loop_options(Build *b, const Ast *s, const char **base, bool *again);
// Returns the innermost open loop of the graph that is being built; 0: none.
RegionId loop_region(const Build *b);
// Ends a body: gives the names that it hides their previous bindings back.
void round_end(Build *b, const Round *r);
// Each builds the statement of its name.
void build_scan(Build *b, const Ast *s);
void build_yield(Build *b, const Ast *s);
// Records in the open loops that `name` is about to be bound. `before` is its present binding, or
// NULL. At its end a loop restores `before`, or removes the name if `before` is NULL.
void round_note(Build *b, const char *name, Binding *before);
// Returns v as the body of the open scans reads it: a value that has the dim of a scan is read at
// the current step. Returns poison after an error at pos.
Value loop_view(Build *b, Value v, Pos pos);
// Adds the dims of the open scans to `dims`. A draw in a scan has them, because it differs in each
// step. Returns false if there are too many dims.
MUST_USE bool loop_dims(const Build *b, Dims *dims);

// -- build_side.c -------------------------------------------------------------------------------
enum { MAX_ENTRIES = 250 };
// A value from outside a guarded region, and the constant carry that brings it in.
typedef struct SideEntry {
  NodeId outside, carry;
} SideEntry;
// A guarded region that is being built: one side of `cond`, or a step of a scan with `while`. Its
// results become carries.
typedef struct Side {
  Loop loop;
  VEC(SideEntry) entry;    // entry 0 is the guard
  VEC(NodeId) start, next; // of each result: its value if the region does not run, and if it runs
  bool full;               // more than MAX_ENTRIES values enter, which has been reported
} Side;
// Opens a guarded region that runs if `guard`, a bool scalar, is true. Values that are read from
// now on enter it.
void side_open(Build *b, Side *s, NodeId guard, Pos pos);
// Stops reading values into the region.
void side_leave(Build *b, const Side *s);
// Adds a result, whose value is `start` if the region does not run and `next` if it does. Both have
// the same type and dims. Returns its number.
uint32_t side_result(Build *b, Side *s, NodeId start, NodeId next);
// Ends the region. out[k] gets result k, outside of the region.
void side_close(Build *b, Side *s, NodeId *out);
// Returns node n, which is outside of the region, as the region reads it.
NodeId side_enter(Build *b, Side *s, NodeId n);
// Returns a condition as a bool scalar: 0 after an error at pos. `what` is cond or while.
NodeId side_condition(Build *b, const Value *v, const char *what, Pos pos);
// Returns the innermost scan that is open, without guarded regions; NULL if there is none.
const Loop *loop_scanned(const Loop *l);

// -- builtin_*.c --------------------------------------------------------------------------------
#define BUILTIN(name, bracket, rule, op, typing, ...) BuiltinRule builtin_##rule;
#include "frontend/model/builtin.def"
#undef BUILTIN
// Sets *over to the dims that call c reduces, for an operand over `have`: those in the brackets,
// all others for `all but`, or all. Returns false after an error.
MUST_USE bool call_over(Build *b, const Call *c, const Dims *have, Dims *over);
// Reports parameters that match the pattern of a square_sum but are declared after it.
void square_sums_check(Build *b);
// Begins a composite: nodes that are added until group_end get position pos and the number of the
// composite. Returns the previous origin, to be passed to group_end.
Origin group_begin(Build *b, Pos pos);
void group_end(Build *b, Origin before);

// -- builtin_random.c ---------------------------------------------------------------------------
// Adds a draw (`op`) of type f32 or f64 over `dims`. Its random key is computed from the current
// scope and the number of earlier draws in that scope. Returns 0 after an error.
NodeId build_draw(Build *b, Pos pos, Op op, Dtype type, const Dims *dims);

// -- init.c -------------------------------------------------------------------------------------
// Reads the initial value of a PARAM or STATE statement with declaration d. Returns false after an
// error.
MUST_USE bool init_build(Build *b, const Ast *statement, const Decl *d, Init *out);
// Reads `start`, the initial value that declaration d has after `=`. Returns false after an error.
MUST_USE bool init_start(Build *b, const Ast *start, const Decl *d, Init *out);

// -- blocks.c -----------------------------------------------------------------------------------
// data_build reads the data blocks of the file, mesh_build its mesh line and layout_build its
// layout rules into the model. --set, --mesh and --layout replace what the file says. Errors go to
// b->d.
void data_build(Build *b, const Ast *file);
void mesh_build(Build *b, const Ast *file);
void layout_build(Build *b, const Ast *file);
// Reports that the mesh has no axis `name`; nothing if its own errors may be why. Returns false.
bool axis_unknown(Build *b, const char *name, Pos pos);
// The entries `key = value` of a data or train statement, in order.
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
// Returns the entries of a statement, with each --set PREFIX.key applied. The kids of the statement
// from number `first` on are its entries.
Entries entries_read(Build *b, const Ast *statement, uint32_t first, const char *prefix);
// Applies each --set PREFIX.key to the entries e.
void entries_set(Build *b, Entries *e, const char *prefix);

// -- train.c ------------------------------------------------------------------------------------
// Reads the train blocks of the file into b->g->spec, and sets the loss of the model.
void train_build(Build *b, const Ast *file);
// Sets b->model->precision, the type of products and activations, from --precision, --set or a
// train block. Call it before the first statement is built, because with bf16 or f16 a cast(x, f32)
// in a statement keeps x in f32.
void precision_read(Build *b, const Ast *file);

#endif
