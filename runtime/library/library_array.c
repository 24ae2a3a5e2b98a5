// Copies between buffers of the caller and tensors of a program. A buffer may differ from the
// tensor in the order of dims, in strides and in type; names and sizes of dims are checked.
//
// A buffer in C order with the tensor's type is copied directly to or from the blocks of the
// processors. Any other buffer is copied through a buffer in C order that the program keeps for the
// tensor.
#include "runtime/library/library.h"

#include <stdlib.h>
#include <string.h>

// A caller's buffer, with its axes in the declared order of the tensor's dims.
typedef struct View {
  Dtype type, tensor_type;
  int rank;
  // Along each axis: the number of elements, and the bytes from one element to the next.
  int64_t size[MAX_RANK], stride[MAX_RANK];
  int64_t elements;
  char *data;
} View;

static bool refuse(const meshc_program *p, DiagId id, const char *name, const char *what) {
  return diag_error(p->model->diag, id, (Pos){0}, "%s %s", name, what);
}

// Returns the axis of the buffer that is dim i of the tensor, or -1 if there is none or several.
static int axis_of(const meshc_array *x, const meshc_tensor *t, int i) {
  int found = -1;
  if (!x->dim) return i;
  for (int k = 0; k < x->rank; k++) {
    if (!x->dim[k] || strcmp(x->dim[k], t->dim[i]) != 0) continue;
    if (found >= 0) return -1;
    found = k;
  }
  return found;
}

static bool check_sizes(const meshc_program *p, const meshc_array *x, const meshc_tensor *t) {
  char want[256], got[256];
  bool same = x->rank == t->rank;
  for (int i = 0; same && i < t->rank; i++) {
    int axis = axis_of(x, t, i);
    if (axis < 0)
      return diag_error(p->model->diag, DIAG_DATA_SHAPE, (Pos){0}, "the buffer of %s has no dim %s",
                        t->name, t->dim[i]);
    same = !x->size || x->size[axis] == t->size[i];
  }
  if (same) return true;
  return diag_error(
      p->model->diag, DIAG_DATA_SHAPE, (Pos){0}, "%s has sizes %s, the model says %s", t->name,
      x->size && x->rank >= 0 && x->rank <= MAX_RANK ? sizes_text(x->rank, x->size, got, sizeof got)
                                                     : "of another rank",
      sizes_text(t->rank, t->size, want, sizeof want));
}

static bool view(const meshc_program *p, const meshc_array *x, const meshc_tensor *t, View *out) {
  int64_t dense[MAX_RANK], n;
  *out = (View){.rank = t->rank, .data = x->data, .elements = 1};
  (void)library_dtype(t->type, &out->tensor_type);
  if (!library_dtype(x->type, &out->type))
    return refuse(p, DIAG_DATA_TYPE, t->name, "has a buffer of no element type");
  if (!check_sizes(p, x, t)) return false;
  for (int i = 0; i < t->rank; i++) out->elements *= t->size[i];
  if (!x->data && out->elements) return refuse(p, DIAG_DATA_SHAPE, t->name, "has a buffer at NULL");
  n = dtype_bytes(out->type);
  for (int k = x->rank; k-- > 0;) { // axis k of the buffer is dim i of the tensor
    int i = 0;
    while (axis_of(x, t, i) != k) i++;
    dense[k] = n;
    n *= t->size[i];
    out->size[i] = t->size[i];
    out->stride[i] = x->stride ? x->stride[k] : dense[k];
  }
  return true;
}

static bool is_dense(const View *v) {
  int64_t n = dtype_bytes(v->type);
  for (int i = v->rank; i-- > 0; n *= v->size[i])
    if (v->size[i] > 1 && v->stride[i] != n) return false;
  return true;
}

// Called for each element of a view in C order, with its address and its number in that order.
// Returns false to stop.
typedef bool Element(void *context, char *at, int64_t index);

static bool each(const View *v, Element *element, void *context) {
  int64_t at[MAX_RANK] = {0}, index = 0;
  char *p = v->data;
  if (!v->elements) return true;
  for (;;) {
    if (!element(context, p, index++)) return false;
    int i = v->rank;
    while (i-- > 0) {
      p += v->stride[i];
      if (++at[i] < v->size[i]) break;
      p -= v->size[i] * v->stride[i];
      at[i] = 0;
    }
    if (i < 0) return true;
  }
}

// -- elements -----------------------------------------------------------------------------------

typedef struct Copy {
  const View *view;
  char *room;
  int64_t bad; // number in C order of an element that the new type cannot represent, or -1
} Copy;

// Returns whether x may be converted. A floating-point number is rounded to another floating-point
// type, and never becomes an integer; an integer must be exact in the new type.
static bool fits(double x, Dtype from, Dtype to) {
  if (dtype_is_float(from) && !dtype_is_float(to)) return false;
  return dtype_is_float(from) || dtype_round(to, x) == x;
}

static bool is_bool(void *context, char *at, int64_t index) {
  Copy *c = context;
  c->bad = index;
  return *(unsigned char *)at <= 1;
}

// Copies one element and converts it. Returns false if the new type cannot represent it.
static bool convert(const char *from, Dtype of_from, char *to, Dtype of_to) {
  if (of_from == of_to) {
    memcpy(to, from, (size_t)dtype_bytes(of_to));
    return true;
  }
  double x = dtype_load(of_from, from);
  if (!fits(x, of_from, of_to)) return false;
  dtype_store(of_to, to, dtype_round(of_to, x));
  return true;
}

static bool take_element(void *context, char *at, int64_t index) {
  Copy *c = context;
  const View *v = c->view;
  c->bad = index;
  return (v->type != TYPE_BOOL || v->tensor_type != TYPE_BOOL || is_bool(context, at, index)) &&
         convert(at, v->type, c->room + index * dtype_bytes(v->tensor_type), v->tensor_type);
}

static bool give_element(void *context, char *at, int64_t index) {
  Copy *c = context;
  const View *v = c->view;
  c->bad = index;
  return convert(c->room + index * dtype_bytes(v->tensor_type), v->tensor_type, at, v->type);
}

static bool no_fit(const meshc_program *p, const meshc_tensor *t, const View *v, const Copy *c) {
  return diag_error(p->model->diag, DIAG_DATA_VALUE, (Pos){0},
                    "element %lld of %s cannot be copied between %s and %s", (long long)c->bad,
                    t->name, dtype_text(v->type), dtype_text(v->tensor_type));
}

// Returns the buffer in C order for a tensor, allocated at its first use. Returns NULL after an
// error.
static char *room(meshc_program *p, meshc_kind kind, int64_t i, const View *v) {
  void **at = &p->room[kind][i];
  int64_t bytes;
  if (!*at && size_mul(v->elements, dtype_bytes(v->tensor_type), &bytes))
    *at = malloc((size_t)bytes + 1);
  if (!*at)
    diag_error(p->model->diag, DIAG_NO_MEMORY, (Pos){0}, "out of memory: no room for a copy of %s",
               p->tensor[kind].at[i].name);
  return *at;
}

bool library_put(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *from) {
  const meshc_tensor *t = &p->tensor[kind].at[i];
  TensorKind of = library_tensor_kind(kind);
  View v;
  if (!view(p, from, t, &v)) return false;
  void *own = exec_direct(p->exec, of, t->name);
  bool straight = v.type == v.tensor_type && is_dense(&v);
  Copy c = {.view = &v, .room = v.data};
  if (straight && v.type == TYPE_BOOL && !each(&v, is_bool, &c)) return no_fit(p, t, &v, &c);
  if (straight && own == v.data) return true;
  if (!straight) {
    c.room = room(p, kind, i, &v);
    if (!c.room) return false;
    if (!each(&v, take_element, &c)) return no_fit(p, t, &v, &c);
  }
  exec_write(p->exec, of, t->name, v.tensor_type, c.room);
  return true;
}

bool library_get(meshc_program *p, meshc_kind kind, int64_t i, const meshc_array *to) {
  const meshc_tensor *t = &p->tensor[kind].at[i];
  TensorKind of = library_tensor_kind(kind);
  View v;
  if (!view(p, to, t, &v)) return false;
  bool straight = v.type == v.tensor_type && is_dense(&v);
  Copy c = {.view = &v, .room = straight ? v.data : room(p, kind, i, &v)};
  if (!c.room) return v.elements == 0;
  if (straight && exec_direct(p->exec, of, t->name) == v.data) return true;
  exec_read(p->exec, of, t->name, c.room);
  return straight || each(&v, give_element, &c) || no_fit(p, t, &v, &c);
}
