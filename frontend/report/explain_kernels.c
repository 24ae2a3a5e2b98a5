// Writes the kernels of the step as a drawing and as a table. In the drawing each kernel is a box
// that shows its operations, the bytes that it moves and saves, and its time. Rounds of a loop
// whose kernels look alike are one box, and the first of these rounds has a drawing of its own that
// can be opened. In a step with many kernels every round is such a box.
#include "frontend/report/explain.h"
#include "frontend/report/kernel_facts.h"
#include "frontend/report/step_facts.h"
#include "frontend/report/svg_internal.h"

#include <string.h>

enum { PAD = 8, HEAD_LINES = 3, OP_HEIGHT = 18, OPS_WIDTH = 420, MOST_OPS = 20, MANY_KERNELS = 60 };

// The drawing of the operations of a kernel, which is placed inside the kernel's box.
typedef struct Inside {
  Drawn drawn;
  const char **text;
} Inside;

// A box of the drawing: one kernel, or all rounds of a loop whose kernels look alike. A round is
// one iteration of a `for` of the model.
typedef struct Item {
  uint32_t group;  // fusion group of the kernel; for rounds, the first group of the first round
  uint32_t rounds; // number of rounds; 0: the box is a kernel
  const char *line[HEAD_LINES];
  Inside inside;
} Item;

// The kernels of one round (iteration of a loop) that belong to one pass: forward, backward or
// update of the parameters.
typedef struct Round {
  const char *name, *loop, *look;
  // n: number of kernels; alike: index into Kernels.rounds of the first round that looks like this
  // one
  uint32_t n, alike;
  double seconds;
  int64_t bytes, saved;
} Round;

typedef struct Kernels {
  Arena *a;
  const Explain *e;
  KernelFact *fact;      // indexed by fusion group
  const StepFact **step; // by instruction: the facts of `explain --kernels`
  int *round;        // indexed by fusion group: index into `rounds`; -1: the group is in no round
  uint32_t nkernels; // number of groups that have an instruction; the others only rename values
  VEC(Round) rounds;
  int *item_of; // indexed by fusion group: index into `item` in the current drawing; -1: not in it
  VEC(Item) item;
} Kernels;

static const Fusion *fusion_of(const Kernels *k) { return k->e->made->fusion; }
static bool runs(const Kernels *k, uint32_t group) { return kernel_runs(k->e->made, group); }
static const StepFact *step_fact(const Kernels *k, uint32_t group) {
  return k->step[k->e->made->compiled->group[group].instr - 1];
}

// -- rounds -------------------------------------------------------------------------------------

// Returns true if all values that fusion group g stores are of one loop round. `name` is the last
// of these values, and its first `length` characters name the round. A bucket (several collectives
// in one call) may store values of several rounds: then the result is false.
static bool of_one_round(const Kernels *k, const Group *g, const char *name, size_t length) {
  for (uint32_t i = 0; g->kind == GROUP_COLLECTIVE && i < g->nstored; i++) {
    const char *other = origin_subject(graph_node(fusion_of(k)->graph, g->stored[i])->origin);
    if (other && strncmp(other, name, length + 1) != 0) return false;
  }
  return true;
}

// Returns the index of the loop round that a fusion group belongs to, after adding the round if it
// is new. Returns -1 if the group belongs to no round.
static int find_round(Kernels *k, uint32_t group) {
  static const char *const phase[] = {"", ", backward", ", update"};
  const KernelFact *fact = &k->fact[group];
  size_t loop = 0, n = fact->of ? round_prefix(fact->of, &loop) : 0;
  if (!n || !of_one_round(k, &fusion_of(k)->group[group], fact->of, n)) return -1;
  const char *which = phase[fact->update ? 2 : fact->backward];
  const char *name = arena_printf(k->a, "%.*s%s", (int)n, fact->of, which);
  for (uint32_t i = k->rounds.n; i-- > 0;)
    if (!strcmp(k->rounds.at[i].name, name)) return (int)i;
  vec_push(k->a, k->rounds) = (Round){
      .name = name, .loop = arena_printf(k->a, "%.*s%s", (int)loop, fact->of, which), .look = ""};
  return (int)k->rounds.n - 1;
}

// Returns a text that is equal for kernels that look alike in the drawing: those with equal
// operations, bytes and flops.
static const char *look_of(const Kernels *k, uint32_t group) {
  const Group *g = &fusion_of(k)->group[group];
  const char *text = arena_printf(k->a, "%s %lld %lld", k->fact[group].kind,
                                  (long long)k->fact[group].bytes, (long long)k->fact[group].flops);
  for (uint32_t i = 0; i < g->nnodes; i++)
    text = arena_printf(k->a, "%s %u", text,
                        (unsigned)graph_node(fusion_of(k)->graph, g->node[i])->op);
  return text;
}

// Finds the loop round (iteration) of each fusion group, adds up the costs of each round, and finds
// rounds that look alike.
static void find_rounds(Kernels *k) {
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++) {
    k->round[g] = runs(k, g) ? find_round(k, g) : -1;
    if (k->round[g] < 0) continue;
    Round *r = &k->rounds.at[k->round[g]];
    r->n++;
    r->seconds += k->fact[g].seconds / k->fact[g].together;
    r->bytes += k->fact[g].bytes * k->fact[g].rounds;
    r->saved += k->fact[g].saved * k->fact[g].rounds;
    r->look = arena_printf(k->a, "%s\n%s", r->look, look_of(k, g));
  }
  for (uint32_t i = 0; i < k->rounds.n; i++) {
    Round *r = &k->rounds.at[i];
    r->alike = i;
    for (uint32_t j = 0; j < i; j++)
      if (k->rounds.at[j].alike == j && !strcmp(k->rounds.at[j].loop, r->loop) &&
          !strcmp(k->rounds.at[j].look, r->look)) {
        r->alike = j;
        break;
      }
  }
}

static uint32_t count_alike(const Kernels *k, uint32_t round) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < k->rounds.n; i++) n += k->rounds.at[i].alike == round;
  return n;
}

// Returns true if a loop round (iteration) is shown as one box, because it looks like others or
// because the step has many kernels.
static bool is_folded(const Kernels *k, uint32_t round) {
  return count_alike(k, round) > 1 ||
         (k->nkernels > MANY_KERNELS && k->rounds.at[round].alike == round &&
          k->rounds.at[round].n > 1);
}

// -- operations of a kernel ---------------------------------------------------------------------

static const char *node_text(const Kernels *k, const Group *g, NodeId n) {
  const Node *x = graph_node(fusion_of(k)->graph, n);
  bool stored = false;
  for (uint32_t i = 0; i < g->nstored; i++) stored |= g->stored[i] == n;
  const char *op = node_source_name(fusion_of(k)->graph, n);
  return stored && x->origin->value ? arena_printf(k->a, "%s: %s", op, x->origin->value) : op;
}

static DrawnBox op_box(const char *text) {
  return (DrawnBox){.width = (double)strlen(text) * SVG_LETTER + 10, .height = OP_HEIGHT};
}

static uint32_t count_shown(const Kernels *k, uint32_t group) {
  const Group *g = &fusion_of(k)->group[group];
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->nnodes; i++) n += kernel_shows(k->e->made, g->node[i]);
  return n;
}

// The operations of a kernel as they are drawn.
typedef struct Boxes {
  bool counted;       // a box for each kind of operation, with their number and without edges
  uint32_t n, *times; // boxes, and the operations of each
  uint32_t *of;       // indexed as Group.node: 1 + the node's box, 0: none
  VEC(DrawnEdge) edge;
} Boxes;

// Adds the operation of node number i of the group to the boxes, and its edges from nodes before.
static void add_op(const Kernels *k, const Group *g, uint32_t i, Boxes *b, Inside *out) {
  const Node *x = graph_node(fusion_of(k)->graph, g->node[i]);
  const char *text = node_text(k, g, g->node[i]);
  uint32_t at = b->counted ? 0 : b->n;
  while (at < b->n && strcmp(out->text[at], text) != 0) at++;
  if (at == b->n) out->text[b->n++] = text;
  b->times[at]++;
  b->of[i] = at + 1;
  for (uint32_t j = 0; !b->counted && j < i; j++)
    for (int arg = 0; b->of[j] && arg < x->nargs; arg++)
      if (x->args[arg] == g->node[j]) {
        vec_push(k->a, b->edge) = (DrawnEdge){.from = b->of[j] - 1, .to = at};
        break;
      }
}

// Lays out the operations of a kernel as boxes with edges. A kernel with many operations has a box
// for each kind of operation, with the number of its operations and without edges. The drawing is
// empty if it is too large.
static Inside inside_of(const Kernels *k, uint32_t group) {
  const Group *g = &fusion_of(k)->group[group];
  Inside out = {.drawn = {.most_width = OPS_WIDTH}};
  Boxes b = {.counted = count_shown(k, group) > MOST_OPS,
             .times = arena_array(k->a, uint32_t, g->nnodes + 1),
             .of = arena_array(k->a, uint32_t, g->nnodes + 1)};
  out.text = arena_array(k->a, const char *, g->nnodes + 1);
  out.drawn.box = arena_array(k->a, DrawnBox, g->nnodes + 1);
  for (uint32_t i = 0; i < g->nnodes; i++)
    if (kernel_shows(k->e->made, g->node[i])) add_op(k, g, i, &b, &out);
  for (uint32_t i = 0; i < b.n; i++) {
    if (b.times[i] > 1) out.text[i] = arena_printf(k->a, "%s x%u", out.text[i], b.times[i]);
    out.drawn.box[i] = op_box(out.text[i]);
  }
  out.drawn.nboxes = b.n;
  out.drawn.edge = b.edge.at;
  out.drawn.nedges = b.edge.n;
  if (!layered_draw(k->a, &out.drawn)) out.drawn.nboxes = out.drawn.nedges = 0;
  return out;
}

// -- boxes of the drawing -----------------------------------------------------------------------

static void add_kernel(Kernels *k, uint32_t group) {
  const KernelFact *fact = &k->fact[group];
  k->item_of[group] = (int)k->item.n;
  vec_push(k->a, k->item) =
      (Item){.group = group,
             .line = {arena_printf(k->a, "#%u %s", group, fact->kind), fact->value, fact->cost},
             .inside = inside_of(k, group)};
}

// Adds one box for all loop rounds that look like `round`. Enters the index of the box in item_of
// for the fusion groups of these rounds.
static void add_rounds(Kernels *k, uint32_t round) {
  const Round *r = &k->rounds.at[round];
  uint32_t n = count_alike(k, round), last = round;
  for (uint32_t i = round; i < k->rounds.n; i++)
    if (k->rounds.at[i].alike == round) last = i;
  const char *saved = r->saved ? arena_printf(k->a, ", saves %s", bytes_text(k->a, r->saved)) : "";
  Item item = {.rounds = n,
               .line = {r->name, arena_printf(k->a, "%u kernel%s, below", r->n, plural(r->n))}};
  item.line[2] = arena_printf(k->a, "%smoves %s%s, %s", n > 1 ? "each " : "",
                              bytes_text(k->a, r->bytes), saved, seconds_text(k->a, r->seconds));
  if (n > 1) item.line[0] = arena_printf(k->a, "%s ... %s", r->name, k->rounds.at[last].name);
  if (n > 1)
    item.line[1] = arena_printf(k->a, "%u alike, %u kernel%s each, below", n, r->n, plural(r->n));
  for (uint32_t g = fusion_of(k)->ngroups; g-- > 0;)
    if (k->round[g] >= 0 && k->rounds.at[k->round[g]].alike == round) {
      k->item_of[g] = (int)k->item.n;
      if (k->round[g] == (int)round) item.group = g;
    }
  vec_push(k->a, k->item) = item;
}

static DrawnBox size_of_item(const Item *i) {
  size_t longest = 0;
  for (int line = 0; line < HEAD_LINES; line++)
    longest = strlen(i->line[line]) > longest ? strlen(i->line[line]) : longest;
  double width = (double)longest * SVG_LETTER + 14, inner = i->inside.drawn.width + 2 * PAD;
  return (DrawnBox){.width = width > inner ? width : inner,
                    .height = SVG_LINE * HEAD_LINES + 8 +
                              (i->inside.drawn.nboxes ? i->inside.drawn.height + PAD : 0)};
}

// Adds an edge from box x to box y of the drawing if a kernel in y reads values of a kernel in x.
// There is at most one edge for each pair of boxes.
static void connect(const Kernels *k, Drawn *d) {
  VEC(DrawnEdge) edge = {0};
  // stamp: 1 + the box y of group g; seen[x]: the last stamp with an edge from box x
  uint32_t *seen = arena_array(k->a, uint32_t, (size_t)k->item.n * 2 + 1), stamp = 0;
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++) {
    uint32_t n = 0, *from = k->item_of[g] >= 0 ? kernel_sources(k->a, k->e->made, g, &n) : NULL;
    stamp = k->item_of[g] >= 0 ? (uint32_t)k->item_of[g] + 1 : 0;
    for (uint32_t i = 0; i < n; i++) {
      int x = k->item_of[from[i]];
      if (x < 0 || x == k->item_of[g] || seen[x] == stamp) continue;
      seen[x] = stamp;
      vec_push(k->a, edge) = (DrawnEdge){.from = (uint32_t)x, .to = stamp - 1};
    }
  }
  d->edge = edge.at;
  d->nedges = edge.n;
}

// -- the drawing --------------------------------------------------------------------------------

static void put_inside(FILE *f, const Item *item, const DrawnBox *box) {
  Drawn d = item->inside.drawn;
  double x = box->x + (box->width - d.width) / 2, y = box->y + SVG_LINE * HEAD_LINES + 8;
  for (uint32_t i = 0; i < d.nedges; i++) {
    for (uint32_t p = 0; p < d.edge[i].npoints; p++)
      d.edge[i].point[p].x += x, d.edge[i].point[p].y += y;
    svg_edge(f, &d.edge[i], true, "e");
  }
  for (uint32_t i = 0; i < d.nboxes; i++) {
    DrawnBox b = d.box[i];
    b.x += x, b.y += y;
    svg_box(f, &b, "op");
    svg_text(f, NULL, b.x + 5, b.y + 13, item->inside.text[i]);
  }
}

static void put_item(FILE *f, const Kernels *k, const Item *item, const DrawnBox *box) {
  static const int colour[] = {
      [GROUP_KERNEL] = 1, [GROUP_GEMM] = 2, [GROUP_COLLECTIVE] = 3, [GROUP_ORDERED] = 4};
  const Group *g = &fusion_of(k)->group[item->group];
  fprintf(f, "<g class=\"kernel\"><title>");
  if (!item->rounds)
    html_text(f, arena_printf(k->a, "%s. Limit: %s. Ends: %s", g->why ? g->why : "",
                              step_fact(k, item->group)->limit,
                              step_ends_text(k->a, step_fact(k, item->group))));
  fprintf(f, "</title>");
  svg_box(f, box, arena_printf(k->a, "c%d", item->rounds ? 0 : colour[g->kind]));
  if (item->rounds)
    fprintf(f, "<a href=\"#kernels%d\">", k->round[item->group]);
  else
    fprintf(f, "<a href=\"#kernel%u\">", item->group);
  svg_text(f, "h", box->x + 7, box->y + SVG_LINE - 1, item->line[0]);
  fprintf(f, "</a>");
  svg_text(f, NULL, box->x + 7, box->y + 2 * SVG_LINE - 1, item->line[1]);
  svg_text(f, "s", box->x + 7, box->y + 3 * SVG_LINE - 1, item->line[2]);
  put_inside(f, item, box);
  fprintf(f, "</g>\n");
}

static void draw(FILE *f, Kernels *k, const char *label) {
  Drawn d = {.nboxes = k->item.n, .most_width = SVG_WIDTH};
  d.box = arena_array(k->a, DrawnBox, d.nboxes + 1);
  for (uint32_t i = 0; i < d.nboxes; i++) d.box[i] = size_of_item(&k->item.at[i]);
  connect(k, &d);
  if (!layered_draw(k->a, &d)) {
    svg_too_large(f, d.nboxes);
    return;
  }
  svg_begin(f, d.width, d.height, label);
  for (uint32_t i = 0; i < d.nedges; i++) svg_edge(f, &d.edge[i], false, "e");
  for (uint32_t i = 0; i < d.nboxes; i++) put_item(f, k, &k->item.at[i], &d.box[i]);
  svg_end(f);
}

static void clear(Kernels *k) {
  k->item.n = 0;
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++) k->item_of[g] = -1;
}

// Writes the drawing of the kernels of a step, then one drawing for each loop round that the first
// drawing shows as one box.
static void put_drawings(FILE *f, Kernels *k) {
  clear(k);
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++) {
    int round = k->round[g];
    uint32_t alike = round < 0 ? 0 : k->rounds.at[round].alike;
    if (!runs(k, g) || k->item_of[g] >= 0) continue;
    if (round >= 0 && is_folded(k, alike))
      add_rounds(k, alike);
    else
      add_kernel(k, g);
  }
  draw(f, k, "the kernels of the step and what each reads");
  for (uint32_t r = 0; r < k->rounds.n; r++) {
    uint32_t n = count_alike(k, r);
    if (k->rounds.at[r].alike != r || !is_folded(k, r)) continue;
    clear(k);
    for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++)
      if (k->round[g] == (int)r) add_kernel(k, g);
    fprintf(f, "<details id=\"kernels%u\"><summary>", r);
    html_in(f, "kernels of ", k->rounds.at[r].name, "");
    if (n > 1) fprintf(f, ", the first of %u rounds alike", n);
    fprintf(f, "</summary>\n");
    draw(f, k, k->rounds.at[r].name);
    fprintf(f, "</details>\n");
  }
}

// -- the table ----------------------------------------------------------------------------------

// Returns what a kernel is; on a GPU also which threads compute it.
static const char *what_it_is(const Kernels *k, uint32_t group) {
  const Compiled *c = k->e->made->compiled;
  const char *why = fusion_of(k)->group[group].why ? fusion_of(k)->group[group].why : "";
  const Instr *in = &c->program->instr[c->group[group].instr - 1];
  if (in->kind != INSTR_KERNEL || !session_for_gpu(k->e->session)) return why;
  return arena_printf(k->a, "%s; %s", why, gpu_kernel_text(k->a, c->kernels[in->u.kernel.kernel]));
}

static void put_row(FILE *f, const Kernels *k, uint32_t group) {
  const KernelFact *fact = &k->fact[group];
  const Group *g = &fusion_of(k)->group[group];
  fprintf(f, "<tr id=\"kernel%u\"><td class=\"n\" data-n=\"%u\">#%u</td>", group, group, group);
  html_in(f, "<td>", fact->kind, "</td>");
  html_in(f, "<td>", fact->value, "</td>");
  html_number(f, g->nnodes, arena_printf(k->a, "%u", g->nnodes));
  html_number(f, (double)fact->bytes, bytes_text(k->a, fact->bytes));
  html_number(f, (double)fact->saved, fact->saved ? bytes_text(k->a, fact->saved) : "");
  html_number(f, (double)fact->flops, fact->flops ? flops_text(k->a, (double)fact->flops) : "");
  html_number(f, (double)fact->rounds, arena_printf(k->a, "%lld", (long long)fact->rounds));
  html_number(f, fact->seconds,
              arena_printf(k->a, fact->together > 1 ? "%s for %u" : "%s",
                           seconds_text(k->a, fact->seconds), fact->together));
  html_in(f, "<td class=\"why\">", what_it_is(k, group), "</td>");
  html_in(f, "<td>", step_fact(k, group)->limit, "</td>");
  html_in(f, "<td class=\"why\">", step_ends_text(k->a, step_fact(k, group)), "</td></tr>\n");
}

static void put_table(FILE *f, const Kernels *k) {
  fprintf(f, "<details><summary>all kernels as a table</summary><div class=\"scroll\">");
  html_table(f, " class=\"sort\"",
             "#|kind|stores|operations|moves|saves|flops|runs|time|what it is|"
             "limit|why it ends");
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++)
    if (runs(k, g)) put_row(f, k, g);
  html_table_end(f);
  fprintf(f, "</div></details>\n");
}

static void find_steps(Kernels *k) {
  const Explain *e = k->e;
  StepFacts *facts = step_facts(e->session, e->made, e->step, NULL, 1);
  k->step = arena_array(k->a, const StepFact *, e->made->compiled->program->ninstrs + 1);
  for (uint32_t i = 0; i < facts->n; i++) k->step[facts->at[i].instr] = &facts->at[i];
}

static void find_facts(Kernels *k) {
  const Explain *e = k->e;
  uint32_t n = e->made->fusion->ngroups;
  k->fact = arena_array(k->a, KernelFact, n + 1);
  k->round = arena_array(k->a, int, n + 1);
  k->item_of = arena_array(k->a, int, n + 1);
  for (uint32_t g = 0; g < n; g++) {
    if (!runs(k, g)) continue;
    k->nkernels++;
    k->fact[g] = kernel_fact(k->a, e->made, e->step, g);
  }
}

static void put_about(FILE *f, const Kernels *k) {
  int64_t moved = 0, saved = 0;
  for (uint32_t g = 0; g < fusion_of(k)->ngroups; g++) {
    const KernelFact *fact = &k->fact[g];
    if (fusion_of(k)->group[g].kind != GROUP_COLLECTIVE) moved += fact->bytes * fact->rounds;
    saved += fact->saved * fact->rounds;
  }
  fprintf(f,
          "<h2>Kernels</h2>\n<p>What one processor runs in a step, with the operations that are "
          "fused in each kernel (of many only how often each is there). Its kernels and products "
          "read and write %s; "
          "fusion saves %s, which operations would write and read again as kernels of their own. "
          "<span class=\"key\" style=\"background:var(--c1)\"></span> kernel "
          "<span class=\"key\" style=\"background:var(--c2)\"></span> library product <span "
          "class=\"key\" style=\"background:var(--c3)\"></span> collective "
          "<span class=\"key\" style=\"background:var(--c4)\"></span> ordered. Flops and bytes are "
          "those of one run, times are those of a step, predicted.</p>\n",
          bytes_text(k->a, moved), bytes_text(k->a, saved));
}

void html_kernels(FILE *f, const Explain *e) {
  Arena *scratch = arena_new();
  Kernels k = {.a = scratch, .e = e};
  find_facts(&k);
  find_rounds(&k);
  find_steps(&k);
  put_about(f, &k);
  put_drawings(f, &k);
  put_table(f, &k);
  arena_free(scratch);
}
