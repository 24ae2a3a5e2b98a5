// Writes the graph of every processor of the mesh in TensorBoard's format (GraphDef). Nodes are
// named rows=0,cols=1/hidden/relu_7, their device is the mesh coordinate, and a collective has the
// arguments of all processors of its group.
#include "frontend/report/log_directory.h"
#include "runtime/train/proto.h"

#include <ctype.h>
#include <string.h>

enum { GRAPH_NODE = 1, GRAPH_VERSIONS = 4, VERSIONS_PRODUCER = 1 };
enum { NODE_NAME = 1, NODE_OP, NODE_INPUT, NODE_DEVICE };
enum { MOST_NODES = 20000 }; // a graph with more nodes shows the first processor only

static const char *coordinate(const Session *s, int64_t r) {
  const Mesh *m = &s->model->mesh;
  const char *text = "";
  for (int a = 0; a < m->naxes; a++)
    text = arena_printf(s->arena, "%s%s%s-%lld", text, a ? "_" : "", m->axis[a].name,
                        (long long)mesh_coord(m, r, a));
  return m->naxes ? text : "processor";
}

// Returns the text with underscores instead of characters that TensorBoard does not allow in names:
// all except letters, digits and . _ / -.
static const char *clean(Arena *a, const char *text) {
  char *out = arena_text(a, text, strlen(text));
  for (char *c = out; *c; c++)
    if (!isalnum((unsigned char)*c) && !strchr("._/-", *c)) *c = '_';
  return out;
}

static const char *node_name(const Session *s, const Graph *g, NodeId id, const char *place) {
  const Node *n = graph_node(g, id);
  const char *value = n->origin->value ? clean(s->arena, n->origin->value) : NULL;
  return arena_printf(s->arena, "%s/%s%s%s_%u", place, value ? value : "", value ? "/" : "",
                      op_row((Op)n->op)->text, id);
}

static void put_inputs(const Session *s, const Graph *g, const Node *n, int64_t r,
                       const char *const *place, Proto *out) {
  bool meets = op_row((Op)n->op)->cls == COLLECTIVE && n->attr->axes.n > 0;
  int64_t group = meets ? axes_size(g->mesh, n->attr->axes) : 1;
  for (int64_t k = 0; k < group; k++) {
    int64_t peer = meets ? axes_peer(g->mesh, n->attr->axes, r, k) : r;
    for (int i = 0; i < n->nargs; i++)
      proto_text(out, NODE_INPUT, node_name(s, g, n->args[i], place[peer]));
  }
}

void *graph_def(Session *s, const Graph *g, size_t *bytes) {
  int64_t processors = mesh_size(&s->model->mesh);
  bool all = processors * (int64_t)graph_count(g) <= MOST_NODES;
  const char **place = arena_array(s->arena, const char *, processors);
  Proto out = {0}, node = {0}, versions = {0};
  for (int64_t r = 0; r < processors; r++) place[r] = coordinate(s, all ? r : 0);
  for (int64_t r = 0; r < (all ? processors : 1); r++)
    for (NodeId id = 1; id <= graph_count(g); id++) {
      const Node *n = graph_node(g, id);
      proto_text(&node, NODE_NAME, node_name(s, g, id, place[r]));
      proto_text(&node, NODE_OP, op_row((Op)n->op)->text);
      put_inputs(s, g, n, r, place, &node);
      proto_text(&node, NODE_DEVICE, arena_printf(s->arena, "/device:%s", place[r]));
      proto_message(&out, GRAPH_NODE, &node);
    }
  proto_integer(&versions, VERSIONS_PRODUCER, 22);
  proto_message(&out, GRAPH_VERSIONS, &versions);
  proto_free(&node);
  proto_free(&versions);
  *bytes = out.n;
  return out.at;
}
