// The command dump: prints the result of one stage of the compiler as text, JSON, dot or HTML; or
// of all stages, one after another or each in its own file. With --from the compile starts from a
// dumped graph.
#include "frontend/command/dump_internal.h"
#include "frontend/report/dot_internal.h"
#include "frontend/report/kernel_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Dump {
  Session *s;
  Form form;
  CodeOptions code;
  Compilation made;
} Dump;

// -- graphs as JSON and dot ---------------------------------------------------------------------

// Returns the object as text in the arena and frees it.
static char *dumped(const Dump *d, json_t *object) {
  char *text = json_dumps(object, JSON_INDENT(1)),
       *kept = text ? arena_printf(d->s->arena, "%s\n", text) : NULL;
  free(text);
  json_decref(object);
  return kept;
}

static json_t *node_json(const Graph *g, NodeId id, const char *note) {
  const Node *n = graph_node(g, id);
  json_t *out = json_object(), *args = json_array(), *dims = json_array();
  for (int i = 0; i < n->nargs; i++) json_array_append_new(args, json_integer(n->args[i]));
  for (int i = 0; i < n->dims->n; i++)
    json_array_append_new(dims, json_text(dim_get(g->dims, n->dims->at[i])->name));
  json_object_set_new(out, "id", json_integer(id));
  json_object_set_new(out, "op", json_text(op_row((Op)n->op)->text));
  json_object_set_new(out, "args", args);
  json_object_set_new(out, "type", json_text(dtype_text((Dtype)n->type)));
  json_object_set_new(out, "dims", dims);
  json_object_set_new(out, "line", json_integer(n->origin->pos.line));
  if (n->origin->value) json_object_set_new(out, "value", json_text(n->origin->value));
  if (n->origin->why) json_object_set_new(out, "why", json_text(n->origin->why));
  if (note) json_object_set_new(out, "note", json_text(note));
  return out;
}

static char *graph_json(const Dump *d, const Graph *g, const char *stage, GraphNote *note,
                        const void *table) {
  json_t *out = json_object(), *nodes = json_array(), *outputs = json_array();
  for (NodeId i = 1; i <= graph_count(g); i++)
    json_array_append_new(nodes, node_json(g, i, note ? note(table, i) : NULL));
  for (uint32_t i = 0; i < g->output.n; i++) {
    json_t *one = json_object();
    json_object_set_new(one, "name", json_text(g->output.at[i].name));
    json_object_set_new(one, "node", json_integer(g->output.at[i].value));
    json_object_set_new(one, "update", json_boolean(g->output.at[i].kind == OUT_UPDATE));
    json_array_append_new(outputs, one);
  }
  json_object_set_new(out, "schema", json_string("meshc.graph/1"));
  json_object_set_new(out, "stage", json_text(stage));
  json_object_set_new(out, "nodes", nodes);
  json_object_set_new(out, "outputs", outputs);
  return dumped(d, out);
}

static const char *dims_list(Arena *a, const Graph *g, const Dims *dims) {
  const char *text = "";
  for (int i = 0; i < dims->n; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", dim_get(g->dims, dims->at[i])->name);
  return text;
}

typedef struct DotGraph {
  Arena *a;
  const Graph *g;
  GraphNote *note;
  const void *table;
} DotGraph;

static void put_dot_node(FILE *f, const void *context, uint32_t item, const char *indent) {
  const DotGraph *d = context;
  NodeId n = item + 1;
  const Node *node = graph_node(d->g, n);
  const char *said = d->note ? d->note(d->table, n) : NULL;
  bool moves = op_row((Op)node->op)->cls == COLLECTIVE;
  fprintf(f, "%sn%u [label=\"%%%u %s\\n%s[%s]", indent, n, n, op_row((Op)node->op)->text,
          dtype_text((Dtype)node->type), dims_list(d->a, d->g, node->dims));
  if (node->origin->value) fputs("\\n", f), dot_text(f, node->origin->value);
  if (said) fputs("\\n", f), dot_text(f, said);
  fprintf(f, "\"%s]\n", moves ? ", style=filled, fillcolor=lightsalmon" : "");
}

static void put_dot_edges(FILE *f, const Graph *g, NodeId n) {
  for (int k = 0; k < graph_node(g, n)->nargs; k++)
    fprintf(f, "  n%u -> n%u\n", graph_node(g, n)->args[k], n);
}

static char *graph_dot(const Dump *d, const Graph *g, const char *stage, GraphNote *note,
                       const void *table) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = mem_stream(&text, &n);
  DotGraph graph = {d->s->arena, g, note, table};
  bool many = graph_count(g) > DOT_PLAIN;
  fprintf(f, "digraph \"%s\" {\n  node [shape=box, fontname=monospace]\n", stage);
  if (many) {
    const char **path = arena_array(d->s->arena, const char *, graph_count(g) + 1);
    for (NodeId i = 1; i <= graph_count(g); i++)
      path[i - 1] = dot_path(d->s->arena, origin_subject(graph_node(g, i)->origin),
                             graph_node(g, i)->origin->backward);
    dot_scopes(f, graph_count(g), path, put_dot_node, &graph);
  }
  for (NodeId i = 1; i <= graph_count(g); i++) {
    if (!many) put_dot_node(f, &graph, i - 1, "  ");
    put_dot_edges(f, g, i);
  }
  for (uint32_t i = 0; i < g->output.n; i++) {
    const Output *o = &g->output.at[i];
    fprintf(f, "  o%u [label=\"%s", i, o->kind == OUT_UPDATE ? "update " : "");
    dot_text(f, o->name);
    fprintf(f, "\", shape=oval]\n  n%u -> o%u\n", o->value, i);
  }
  fprintf(f, "}\n");
  mem_stream_close(f);
  char *kept = arena_text(d->s->arena, text, n);
  free(text);
  return kept;
}

static char *graph_text(const Dump *d, const Graph *g, const char *stage, GraphNote *note,
                        const void *table) {
  if (d->form == FORM_JSON) return graph_json(d, g, stage, note, table);
  if (d->form == FORM_DOT) return graph_dot(d, g, stage, note, table);
  if (d->form == FORM_HTML) return dump_html_graph(d->s, g, stage, note, table);
  return graph_print(d->s->arena, g, d->s->diag, note, table);
}

// -- stages as text -----------------------------------------------------------------------------

// Returns all kernels; for a GPU each with the threads that compute it.
static char *kernels_text(const Dump *d) {
  const Compiled *c = d->made.compiled;
  Arena *a = d->s->arena;
  VEC(char) out = {0};
  for (uint32_t i = 0; i < c->program->nkernels; i++) {
    const char *text = kernel_print(a, c->kernels[i]);
    if (session_for_gpu(d->s))
      text = arena_printf(a, "%s  # GPU: %s\n", text, gpu_kernel_text(a, c->kernels[i]));
    for (; *text; text++) vec_push(a, out) = *text;
  }
  vec_push(a, out) = '\0';
  return out.at;
}

// Returns the text of a stage that is not a graph in the form of --format: unchanged, as JSON with
// a list of lines, or as an HTML page. Returns NULL after an error: such a stage has no dot form.
static char *plain(const Dump *d, const char *stage, char *text) {
  if (!text || d->form == FORM_TEXT) return text;
  if (d->form == FORM_HTML) return dump_html_text(d->s, stage, text);
  if (d->form == FORM_DOT) {
    diag_error(d->s->diag, DIAG_USAGE, option_use(d->s->opt, OPTION_FORMAT)->pos,
               "the stage %s is not a graph and has no dot form", stage);
    return NULL;
  }
  json_t *out = json_object(), *lines = json_array();
  for (const char *from = text; *from;) {
    size_t n = strcspn(from, "\n");
    json_array_append_new(lines, json_stringn(from, n));
    from += n + (from[n] == '\n');
  }
  json_object_set_new(out, "schema", json_string("meshc.text/1"));
  json_object_set_new(out, "stage", json_text(stage));
  json_object_set_new(out, "lines", lines);
  return dumped(d, out);
}

// The stages as indices in stage_names.
enum {
  AST,
  GRAPH,
  GRAD,
  SIMPLIFY,
  PLACE,
  LOWER,
  COLLECTIVES,
  ORDER,
  FUSE,
  KERNELS,
  PLAN,
  PROGRAM,
  LLVM,
  ASM,
  PTX,
  SASS
};

// The compute capabilities of the stages ptx, of which any later GPU takes the text, and sass.
enum { PTX_CAPABILITY = 80, SASS_CAPABILITY = 90 };

// Returns the PTX of all kernels, or NULL after an error.
static char *ptx_text(const Dump *d, int capability) {
  const Compiled *c = d->made.compiled;
  GpuCodeOptions opt = {.target = GPU_PTX, .capability = capability, .opt = d->code.opt};
  return gpu_code_text(d->s->arena, c->program, c->kernels, &opt, d->s->diag);
}

// Returns the text of a stage in the form of --format, or NULL after an error.
static char *print_stage(const Dump *d, int stage) {
  const Compilation *c = &d->made;
  const char *name = stage_names[stage].name;
  Arena *a = d->s->arena;
  switch (stage) {
  case AST: return plain(d, name, ast_print(a, d->s->ast));
  case GRAPH: return graph_text(d, d->s->model->graph, name, NULL, NULL);
  case GRAD: return graph_text(d, c->selected, name, NULL, NULL);
  case SIMPLIFY: return graph_text(d, c->simplified, name, NULL, NULL);
  case PLACE: return graph_text(d, c->simplified, name, placement_note, c->placement);
  case LOWER: return graph_text(d, c->lowered, name, NULL, NULL);
  case COLLECTIVES: return graph_text(d, c->collected, name, NULL, NULL);
  case ORDER: return graph_text(d, c->order->graph, name, order_note, c->order);
  case FUSE:
    if (d->form == FORM_DOT) return kernels_dot(d->s, c);
    return plain(d, name, fusion_print(a, c->fusion, d->s->diag));
  case KERNELS: return plain(d, name, kernels_text(d));
  case PLAN: return plain(d, name, plan_print(a, c->compiled));
  case PROGRAM: return plain(d, name, program_print(a, c->compiled->program));
  case PTX: return plain(d, name, ptx_text(d, PTX_CAPABILITY));
  case SASS: return plain(d, name, sass_text(d->s, ptx_text(d, SASS_CAPABILITY), SASS_CAPABILITY));
  default:
    return plain(d, name,
                 code_text(a, c->compiled->program, c->compiled->kernels, &d->code, stage == ASM,
                           d->s->diag));
  }
}

// -- the command --------------------------------------------------------------------------------

static bool find_stage(const Dump *d, const char *name, Pos pos, int *out) {
  const char *names[SASS + 2];
  for (*out = 0; *out < stage_name_count; ++*out) {
    names[*out] = stage_names[*out].name;
    if (strcmp(name, names[*out]) == 0) return true;
  }
  names[stage_name_count] = "all";
  diag_error(d->s->diag, DIAG_USAGE, pos, "unknown stage '%s'", name);
  diag_hint(d->s->diag, "meshc stages lists them");
  return diag_nearest(d->s->diag, name, names, (size_t)stage_name_count + 1);
}

static bool write_stage(const Dump *d, int stage, const char *text) {
  static const char *const ending[] = {"txt", "json", "dot", "html"};
  const char *folder = option_text(d->s->opt, OPTION_DIR);
  if (!folder) return fputs(text, stdout) >= 0;
  const char *path = arena_printf(d->s->arena, "%s/%02d-%s.%s", folder, stage + 1,
                                  stage_names[stage].name, ending[d->form]);
  return session_write(d->s, path, text, strlen(text), true, (Pos){0});
}

// Returns whether a stage can be printed in the form of --format; --stage all omits stages that
// cannot, and the code of a GPU. Machine code needs the LLVM back end, and dot needs a graph.
static bool has_text(const Dump *d, int stage) {
  if (stage >= PTX || (stage > PROGRAM && !code_available())) return false;
  return d->form != FORM_DOT || (stage > 0 && stage <= FUSE);
}

// Writes the stages `first` to `last`; several on stdout as texts with a headline before each, or
// as a list of JSON objects. Returns false after an error.
static bool write_stages(const Dump *d, int first, int last) {
  const char *folder = option_text(d->s->opt, OPTION_DIR);
  bool several = !folder && first != last, list = several && d->form == FORM_JSON, good = true;
  int written = 0;
  if (folder && !session_folder(d->s, folder)) return false;
  for (int i = first; i <= last && good; i++) {
    if (first != last && !has_text(d, i)) continue;
    char *text = print_stage(d, i);
    if (several && d->form == FORM_TEXT && text)
      printf("# stage %s: %s\n", stage_names[i].name, stage_names[i].holds);
    if (list && text) fputs(written++ ? "," : "[", stdout);
    good = text && write_stage(d, i, text);
  }
  if (list) fputs(written ? "]\n" : "[]\n", stdout);
  return good;
}

// Reads the graph of `--from STAGE FILE`, which replaces the selected graph. *first gets the index
// of STAGE in stage_names. Returns false after an error.
static bool read_graph(Dump *d, int *first) {
  const OptionUse *use = option_use(d->s->opt, OPTION_FROM);
  size_t n;
  if (!find_stage(d, use->text, use->pos, first)) return false;
  if (*first < GRAD || *first > ORDER)
    return diag_error(d->s->diag, DIAG_USAGE, use->pos,
                      "a compile goes on from a graph after grad or later, not from %s", use->text);
  char *text = file_text(d->s->arena, use->second, &n);
  if (!text)
    return diag_error(d->s->diag, DIAG_NO_MODEL, use->pos, "cannot read %s: %s", use->second,
                      strerror(errno));
  uint32_t source = diag_source(d->s->diag, use->second, text, n);
  d->made.selected = graph_read(d->s->arena, d->s->names, d->s->diag, source, text, n);
  return d->made.selected != NULL;
}

// Sets *first and *last to the first and last stage that --stage names. On entry *first is the
// first stage that can be printed: that of --from, or 0. Returns false after an error.
static bool choose_stages(const Dump *d, int *first, int *last) {
  const OptionUse *use = option_use(d->s->opt, OPTION_STAGE);
  *last = stage_name_count - 1;
  if (!use) {
    diag_error(d->s->diag, DIAG_USAGE, (Pos){0}, "dump needs --stage STAGE, or --stage all");
    return diag_hint(d->s->diag, "meshc stages lists them");
  }
  if (strcmp(use->text, "all") == 0) return true;
  int wanted;
  if (!find_stage(d, use->text, use->pos, &wanted)) return false;
  if (wanted < *first)
    return diag_error(d->s->diag, DIAG_USAGE, use->pos, "the stage %s comes before %s", use->text,
                      stage_names[*first].name);
  *first = *last = wanted;
  return true;
}

static bool compile_for(Dump *d, int last) {
  Selected of = {.graph = d->made.selected, .purpose = "run"};
  if (!of.graph && !session_select(d->s, &of)) return false;
  // The dot graph of the stage fuse shows costs of kernels, which need the program.
  if (d->form == FORM_DOT && last == FUSE) last = PROGRAM;
  // The compile ends with the program: write_stages generates code as text and does not load it, so
  // that dumps are equal on every machine.
  return session_compile(d->s, of.graph, of.purpose, of.over,
                         stage_names[last > PROGRAM ? PROGRAM : last].name, &d->made);
}

int cmd_dump(Session *s) {
  Dump d = {.s = s};
  int64_t opt;
  int first = 0, last;
  if (!(s->opt->argument.n ? session_load(s) : session_read_machine(s)) ||
      !option_form(s->opt, s->diag, &d.form) ||
      (option_given(s->opt, OPTION_FROM) && !read_graph(&d, &first)) ||
      !choose_stages(&d, &first, &last) ||
      !option_integer(s->opt, OPTION_OPT, 2, 0, 3, s->diag, &opt))
    return 0;
  d.code.opt = (int)opt;
  if (last < GRAD || compile_for(&d, last)) (void)write_stages(&d, first, last);
  return 0;
}
