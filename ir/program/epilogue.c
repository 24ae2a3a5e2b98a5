// Epilogues of products (GemmEpilogue): their operands, and the functions that they apply.
#include <math.h>

#include "ir/program/program.h"

static const struct {
  const char *text;
  bool reads; // the auxiliary matrix
} acts[] = {
#define GEMM_ACT(id, text, reads) {text, reads},
#include "ir/program/gemm_act.def"
#undef GEMM_ACT
};

const char *gemm_act_text(GemmAct act) { return acts[act].text; }

Ref *gemm_extra(const Gemm *g, int i) {
  return g->epilogue && g->epilogue->has[i] ? &g->epilogue->extra[i] : NULL;
}

bool gemm_writes_extra(const Gemm *g, int i) {
  return i == GEMM_AUX && gemm_extra(g, i) && !acts[g->epilogue->act].reads;
}

// Whether an epilogue has an auxiliary matrix.
typedef enum AuxUse { NO, READ, STORED } AuxUse;
enum { F64 = 1 << TYPE_F64, F32 = 1 << TYPE_F32, BF16 = 1 << TYPE_BF16 };

static const struct {
  GemmAct act;
  bool bias;
  AuxUse aux;
  DtypeSet types;
} library[] = {
#define GEMM_LIBRARY(act, bias, aux, types, theirs) {GEMM_##act, bias, aux, types},
#include "ir/program/gemm_library.def"
#undef GEMM_LIBRARY
};

int gemm_library(const Gemm *g) {
  AuxUse aux = !gemm_extra(g, GEMM_AUX) ? NO : gemm_writes_extra(g, GEMM_AUX) ? STORED : READ;
  GemmAct act = g->epilogue ? g->epilogue->act : GEMM_NONE;
  bool bias = gemm_extra(g, GEMM_BIAS);
  if (act && gemm_extra(g, GEMM_ADDEND)) return -1;
  for (size_t i = 0; i < countof(library); i++)
    if (library[i].act == act && library[i].bias == bias && library[i].aux == aux &&
        (library[i].types & dtype_bit(g->type)))
      return (int)i;
  return -1;
}

Gemm gemm_of_row(int row, GemmEpilogue *e) {
  *e = (GemmEpilogue){.act = library[row].act,
                      .has = {[GEMM_BIAS] = library[row].bias, [GEMM_AUX] = library[row].aux}};
  Dtype type = library[row].types & BF16 ? TYPE_BF16 : TYPE_F32;
  return (Gemm){.factors = type, .type = type, .epilogue = e};
}

// gelu_tanh(x) = x s(z), where s is the sigmoid and z = sqrt(8/pi) (x + 0.044715 x^3). Beyond SMALL
// both functions are 0 or their limit in every type.
static const double SCALE = 1.5957691216057308, CUBE = 0.044715, SMALL = 24;

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static double gelu(double x) {
  return x < -SMALL ? -0.0 : x * sigmoid(SCALE * x * (1 + CUBE * x * x));
}

static double gelu_slope(double x) {
  if (isnan(x)) return x;
  double c = fmin(fmax(x, -SMALL), SMALL), z = SCALE * c * (1 + CUBE * c * c),
         by_x = SCALE * c * (1 + 3 * CUBE * c * c);
  return sigmoid(z) * (1 + by_x * sigmoid(-z));
}

double gemm_act(GemmAct act, double v, double aux) {
  switch (act) {
  case GEMM_NONE: return v;
  case GEMM_GELU: return gelu(v);
  case GEMM_GELU_SLOPE: return v * gelu_slope(aux);
  case GEMM_ACT_COUNT: break;
  }
  BUG("a product with function %d", (int)act);
}
