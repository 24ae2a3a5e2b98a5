// Places, dims and shardings of the ledger as text.
#include "partition/explain/ledger_internal.h"

#include <string.h>

// Returns the text of a block dim: "t" if unsplit, "b/rows" if split along axis rows, "y/rows+halo"
// for the interval that a window reads.
static const char *dim_text(Arena *a, const Ledger *l, DimId d) {
  const Dim *dim = dim_get(l->graph->dims, d);
  if (!dim->out) return dim->name;
  const Dim *of = dim_get(l->graph->dims, dim->out);
  return arena_printf(a, "%s%s%s+halo", dim_get(l->graph->dims, dim->whole)->name,
                      of->axes.n ? "/" : "",
                      of->axes.n ? axes_text(a, l->graph->mesh, of->axes) : "");
}

const char *ledger_sharding(Arena *a, const Ledger *l, const LedgerSide *side) {
  const char *text = side->partial.n ? arena_printf(a, "%s over %s", monoid_text(side->monoid),
                                                    axes_text(a, l->graph->mesh, side->partial))
                                     : "";
  for (int i = 0; i < side->dims.n; i++)
    if (dim_get(l->graph->dims, side->dims.at[i])->whole != side->dims.at[i])
      text = arena_printf(a, "%s%s%s", text, *text ? " " : "", dim_text(a, l, side->dims.at[i]));
  return *text ? text : "replicated";
}

const char *ledger_place(Arena *a, const Ledger *l, Pos pos) {
  if (!pos.line) return "";
  const char *file =
      l->diag && pos.source ? diag_source_name(l->diag, pos.source) : l->placement->graph->model;
  if (!file) return arena_printf(a, "line %u", pos.line);
  return *file == '-' ? file : arena_printf(a, "%s:%u", file, pos.line);
}

const char *ledger_dims(Arena *a, const Ledger *l, const LedgerSide *side) {
  const char *text = "";
  for (int i = 0; i < side->dims.n; i++)
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", dim_text(a, l, side->dims.at[i]));
  return arena_printf(a, "[%s]", text);
}
