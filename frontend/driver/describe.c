// Describes meshes, layouts, collectives and compiled programs in JSON, as the commands print them.
// Input: the session and a Compilation.
#include <string.h>

#include "frontend/driver/session.h"

int64_t parameter_count(const Graph *g) {
  int64_t total = 0;
  for (uint32_t i = 0; i < g->decl.n; i++) {
    const Decl *decl = &g->decl.at[i];
    int64_t n = 1;
    for (int k = 0; k < decl->rank; k++) n *= dim_get(g->dims, decl->dims[k])->size;
    if (decl->kind == DECL_PARAM) total += n;
  }
  return total;
}

int64_t count_instructions(const Program *p, InstrKind kind) {
  int64_t n = 0;
  for (uint32_t i = 0; i < p->ninstrs; i++) n += p->instr[i].kind == kind;
  return n;
}

json_t *axes_json(const Mesh *m, Axes axes) {
  json_t *out = json_array();
  for (int i = 0; i < axes.n; i++) json_array_append_new(out, json_text(m->axis[axes.at[i]].name));
  return out;
}

const char *line_file(const Session *s, Pos pos) {
  return pos.source ? diag_source_name(s->diag, pos.source) : s->opt->argument.at[0];
}

json_t *collectives_json(const Session *s, const CollFacts *facts) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < facts->n; i++) {
    const CollFact *f = &facts->fact[i];
    json_t *one = json_object();
    json_object_set_new(one, "kind", json_text(coll_text(f->kind)));
    json_object_set_new(one, "axes", axes_json(&s->model->mesh, f->axes));
    json_object_set_new(one, "group", json_integer(f->group));
    json_object_set_new(one, "dtype", json_text(dtype_text(f->type)));
    json_object_set_new(one, "elements", json_integer(f->elements));
    json_object_set_new(one, "bytes", json_integer(f->bytes));
    json_object_set_new(one, "wire_bytes", json_integer(f->wire_bytes));
    json_object_set_new(one, "times", json_integer(f->times));
    json_object_set_new(one, "phase", json_text(f->backward ? "backward" : "forward"));
    json_object_set_new(one, "value", json_text(f->value ? f->value : ""));
    json_object_set_new(one, "line", json_integer(f->pos.line));
    json_object_set_new(one, "file", json_text(line_file(s, f->pos)));
    json_object_set_new(one, "why", json_text(f->why ? f->why : ""));
    json_array_append_new(list, one);
  }
  return list;
}

json_t *mesh_json(const Mesh *m) {
  json_t *out = json_object();
  for (int i = 0; i < m->naxes; i++)
    json_object_set_new(out, m->axis[i].name, json_integer(m->axis[i].size));
  return out;
}

json_t *shape_json(int rank, const int64_t *size) {
  json_t *out = json_array();
  for (int i = 0; i < rank; i++) json_array_append_new(out, json_integer(size[i]));
  return out;
}

json_t *layout_json(const Session *s) {
  json_t *out = json_object();
  for (uint32_t i = 0; i < s->model->layout.n; i++) {
    const LayoutRule *r = &s->model->layout.rule[i];
    json_object_set_new(out, rule_key(s->arena, r), axes_json(&s->model->mesh, r->axes));
  }
  return out;
}

void program_json(json_t *out, const Compilation *c) {
  const Program *p = c->compiled->program;
  json_t *memory = json_object();
  json_object_set_new(out, "kernels", json_integer(count_instructions(p, INSTR_KERNEL)));
  json_object_set_new(out, "products", json_integer(count_instructions(p, INSTR_GEMM)));
  json_object_set_new(memory, "parameters", json_integer(c->partition.parameter_bytes));
  json_object_set_new(memory, "optimizer", json_integer(c->partition.optimizer_bytes));
  json_object_set_new(memory, "activations", json_integer(c->compiled->activation_bytes));
  json_object_set_new(memory, "peak", json_integer(program_bytes(p)));
  json_object_set_new(memory, "sort", json_integer(program_scratch(p)));
  json_object_set_new(memory, "again", json_text(c->again_text ? c->again_text : ""));
  json_object_set_new(out, "memory", memory);
}

size_t round_prefix(const char *name, size_t *loop) {
  for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
    size_t n = strspn(dot + 1, "0123456789");
    if (!n || dot[1 + n] != '.') continue;
    *loop = (size_t)(dot - name);
    return *loop + 1 + n;
  }
  return 0;
}
