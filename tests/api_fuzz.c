// Calls the library with random and hostile sequences while allocations fail: every call returns,
// with an error object where it failed, and the process goes on.
//
//   api_fuzz SEED ROUNDS fail      the n-th allocation of many calls fails
//   api_fuzz SEED ROUNDS whole     none does: the leak checker of a sanitizer may look at the rest
//
// A round opens one or two models, whole or damaged, and makes up to 20 calls. At the end it prints
// how many calls failed, and what is left of memory, threads and descriptors.
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/meshc.h"
#include "ir/base/mem.h"

static const char *const texts[] = {
    "dim b = 8, d = 4, h = 6, o = 2\ninput x[b, d]\ninput target[b, o]\n"
    "param w[d, h] ~ glorot(d, h)\nparam v[h, o] ~ glorot(h, o)\n"
    "hidden = relu(sum[d](x * w))\ny = sum[h](hidden * v)\nloss = mean(square(y - target))\n"
    "output y\ntrain loss { optimizer = adam(lr = 0.1), steps = 5 }\n"
    "data train over b { x = synthetic(normal), target = synthetic(uniform) }\n"
    "data test over b { x = synthetic(normal), target = synthetic(uniform) }\n"
    "mesh p = 2\nlayout b -> p\n",
    "dim b = 3, t = 4\ninput x[b, t]\nstate s[b] = 0\noutput y = cumsum[t](x) + s\n"
    "update s = s + sum[t](x)\n",
    "dim n = 4\ninput k[n]: i32\ninput m[n]: bool\nparam e[n] ~ normal(0, 1)\n"
    "output y = where(m, e, e * k)\n",
    "dim b = 4, d = 3, c = 2\ninput x[b, d]\ninput k[b]: i32\nparam w[d, c] ~ glorot(d, c)\n"
    "y = sum[d](x * w)\nloss = mean(square(y - k))\noutput y\n"
    "train loss { optimizer = sgd(lr = 0.01), steps = 5 }\n"
    "data train over b { x = csv(\"rows.csv\", columns = 0..3, missing = mean),\n"
    "  k = csv(\"rows.csv\", column = 3, classes = auto) }\n"
    "data test over b { x = csv(\"rows.csv\", columns = 0..3, missing = mean),\n"
    "  k = csv(\"rows.csv\", column = 3, classes = auto) }\n",
    "dim b = 4\ninput x[b\n",
    "dim b = 4\ninput x[b]\noutput y = x + z\nmesh a = 2\nlayout q -> a\n",
    "",
};
enum { WHOLE = 4 }; // number of texts, at the start of the list, without a fault
enum { TEXTS = sizeof texts / sizeof texts[0], ROOM = 4096, ARRAYS = 4, CALLS = 20 };

static unsigned long long state;
static unsigned pick(unsigned n) { // xorshift: Marsaglia 2003
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return (unsigned)(state >> 11) % n;
}

static bool fails;
static long calls, failed, injected;
static char folder[] = "/tmp/api_fuzz_XXXXXX";

static void check(bool good, const char *what) {
  if (good) return;
  fprintf(stderr, "FAIL api_fuzz: %s\n", what);
  exit(1);
}

// The call that follows has a failing allocation in some of the rounds.
static void arm(void) {
  calls++;
  if (fails && pick(2)) mem_fail_at(1 + pick(pick(3) ? 60 : 4000));
}

static void disarm(int code, meshc_error *error) {
  mem_fail_at(0);
  check((code != 0) == (meshc_error_count(error) > 0), "a code without an error, or the reverse");
  for (size_t i = 0; i < meshc_error_count(error); i++) {
    const meshc_message *m = meshc_error_at(error, i);
    check(m && m->text && *m->text && m->code && m->severity, "a message without text");
    injected += strcmp(m->code, "E0804") == 0;
  }
  check(meshc_error_at(error, meshc_error_count(error)) == NULL, "a message beyond the last");
  failed += code != 0;
  meshc_error_free(error);
}

// -- arguments ----------------------------------------------------------------------------------

static const char *name(void) {
  static const char *const names[] = {"x", "target",  "w",        "v", "y",       "loss",
                                      "k", "m",       "s",        "e", "grad(w)", "hidden",
                                      "",  "no such", "\xff\x01", NULL};
  return names[pick(sizeof names / sizeof names[0])];
}

typedef struct Buffers {
  _Alignas(16) char data[ARRAYS][ROOM];
  int64_t size[ARRAYS][4], stride[ARRAYS][4];
  const char *dim[ARRAYS][4];
  meshc_array at[ARRAYS];
} Buffers;

// As the tensor is, at random with other types, strides, orders of dims, and sometimes wrong.
static void fill(Buffers *b, int i, const meshc_tensor *t) {
  static const meshc_type types[] = {MESHC_F32, MESHC_F64, MESHC_BF16, MESHC_F16,
                                     MESHC_I32, MESHC_U8,  MESHC_BOOL, MESHC_I64};
  meshc_array *a = &b->at[i];
  memset(b->data[i], pick(2) ? 0 : 1, ROOM);
  *a = (meshc_array){.name = t ? t->name : name(), .data = b->data[i]};
  if (!t) {
    a->type = (meshc_type)pick(10);
    a->rank = (int)pick(6) - 1;
    if (a->rank > 4) a->rank = 4;
    return;
  }
  a->type = pick(4) ? t->type : types[pick(8)];
  a->rank = t->rank;
  for (int k = 0; k < t->rank && k < 4; k++) {
    b->size[i][k] = t->size[k];
    b->dim[i][k] = t->dim[t->rank - 1 - k];
    b->stride[i][k] = 8 * (int64_t)pick(8);
  }
  if (pick(3) == 0) a->size = b->size[i];
  if (pick(4) == 0) a->dim = b->dim[i], a->size = NULL;
  if (pick(4) == 0) a->stride = b->stride[i];
  if (pick(40) == 0) a->rank = (int)pick(20) - 2, a->dim = NULL, a->size = NULL, a->stride = NULL;
  if (pick(40) == 0) a->data = NULL;
  if (pick(40) == 0) a->name = name();
}

static size_t fill_all(Buffers *b, const meshc_program *p, meshc_kind kind) {
  size_t n = p ? meshc_program_tensor_count(p, kind) : 0;
  if (n > ARRAYS) n = ARRAYS;
  for (size_t i = 0; i < n; i++) fill(b, (int)i, meshc_program_tensor_at(p, kind, i));
  if (pick(30)) return n;
  size_t other = pick(ARRAYS);
  // what an earlier call left there has the names of a model that may be closed
  for (; n < other; n++) fill(b, (int)n, NULL);
  return other;
}

static int progress(void *context, const meshc_progress *p) {
  check(p->count == 0 || (p->name[0] && p->value), "a report without values");
  return --*(int *)context < 0;
}

// -- calls --------------------------------------------------------------------------------------

static meshc_options *options(void) {
  static const char *const option[][2] = {
      {"set", "b=4"},     {"set", "b=-1"},   {"mesh", "p=4"},     {"mesh", "p="},
      {"layout", "b=p"},  {"layout", "d=p"}, {"threads", "3"},    {"seed", "x"},
      {"device", "cuda"}, {"exact", NULL},   {"machine", "none"}, {"nothing", "1"},
      {"no-cache", NULL}, {"quiet", NULL},   {"layout", "auto"}};
  meshc_options *o = meshc_options_new();
  for (unsigned n = pick(3); n > 0; n--) {
    unsigned i = pick(sizeof option / sizeof option[0]);
    (void)meshc_options_set(o, option[i][0], option[i][1]);
  }
  return o;
}

static meshc_model *open_one(void) {
  meshc_error *error;
  char text[ROOM];
  unsigned which = pick(8) ? pick(WHOLE) : pick(TEXTS);
  size_t n = strlen(texts[which]);
  memcpy(text, texts[which], n);
  for (unsigned k = pick(8) ? 0 : 1 + pick(3); n && k > 0; k--)
    text[pick((unsigned)n)] = (char)pick(256);
  meshc_options *o = pick(4) ? NULL : options();
  arm();
  meshc_model *m = meshc_open_text(text, n, pick(2) ? "fuzz.mesh" : NULL, o, &error);
  disarm(m ? 0 : 1, error);
  meshc_options_free(o);
  return m;
}

static void call(meshc_model *m, meshc_program **p) {
  static Buffers in, out;
  meshc_error *error = NULL;
  const char *fetch[2] = {name(), name()};
  char path[64];
  int code = 0, most = (int)pick(6);
  size_t nin, nout;
  snprintf(path, sizeof path, "%s/%s", folder,
           (const char *const[]){"p.npz", "p.safetensors", "ckpt", "no/such"}[pick(4)]);
  switch (pick(11)) {
  case 0:
  case 1: {
    arm();
    meshc_program *made = meshc_compile(m, (meshc_purpose)pick(pick(9) ? 3 : 9), fetch,
                                        pick(3) ? 0 : 1 + pick(2), &error);
    if (made) *p = made;
    code = m && !made;
    break;
  }
  case 2:
  case 3:
  case 4:
    nin = fill_all(&in, *p, MESHC_INPUT), nout = fill_all(&out, *p, MESHC_OUTPUT);
    arm();
    code = meshc_run(*p, in.at, nin, out.at, nout, &error);
    break;
  case 5:
    fill(&in, 0, m ? meshc_tensor_at(m, (meshc_kind)pick(5), pick(3)) : NULL);
    arm();
    code = pick(2) ? meshc_read(m, in.at, &error) : meshc_write(m, in.at, &error);
    break;
  case 6:
    arm();
    code = meshc_train(m, (int64_t)pick(9) - 1, pick(4) ? progress : NULL, &most, &error);
    break;
  case 7:
    arm();
    code = meshc_evaluate(m, (const char *const[]){"test", "valid", "x", NULL}[pick(4)], progress,
                          &most, &error);
    break;
  case 8:
    arm();
    code = pick(2) ? meshc_save(m, path, &error) : meshc_load(m, path, &error);
    break;
  case 9: {
    arm();
    char *text =
        meshc_json(m, pick(5) ? (const char *const[]){"check", "explain", "plan"}[pick(3)] : name(),
                   (meshc_purpose)pick(4), &error);
    mem_fail_at(0);
    code = !text;
    meshc_free(text);
    break;
  }
  default:
    (void)meshc_data(*p, (meshc_kind)pick(6), name());
    (void)meshc_error_count(meshc_warnings(m));
    (void)meshc_steps(m);
  }
  if (!m && !code) code = meshc_error_count(error) > 0;
  disarm(code, error);
}

static void one_round(void) {
  meshc_model *m[2] = {open_one(), pick(3) ? NULL : open_one()};
  meshc_program *p[2] = {NULL, NULL};
  for (unsigned n = pick(CALLS); n > 0; n--) {
    unsigned i = pick(2);
    if (m[i] || pick(20) == 0) call(m[i], &p[i]);
  }
  meshc_close(m[0]);
  meshc_close(m[1]);
}

// Writes the data of the texts that read a file, into the folder of this run, and goes there.
static bool write_rows(void) {
  if (!mkdtemp(folder) || chdir(folder) != 0) return false;
  FILE *f = fopen("rows.csv", "w");
  if (!f) return false;
  for (int i = 0; i < 12; i++)
    fprintf(f, "%d,%s,\"%d.5\",%s\n", i, i % 3 ? "2.25" : "", -i, i % 2 ? "left" : "\"ri\"\"ght\"");
  return fclose(f) == 0;
}

static int entries(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  state = 88172645463325252ull + strtoull(argv[1], NULL, 10) * 2654435761u;
  long rounds = strtol(argv[2], NULL, 10);
  fails = strcmp(argv[3], "fail") == 0;
  if (!write_rows()) return 1;
  int files = 0;
  size_t bytes = 0;
  for (long i = 0; i < rounds; i++) {
    one_round();
    if (i == rounds / 10) files = entries("/proc/self/fd"), bytes = mallinfo2().uordblks;
  }
  int threads = entries("/proc/self/task") - 3, more = entries("/proc/self/fd") - files;
  printf(
      "api_fuzz: %ld rounds, %ld calls, %ld failed, %ld of them without memory; left: %d threads, "
      "%d descriptors, %zu KiB\n",
      rounds, calls, failed, injected, threads, more, (mallinfo2().uordblks - bytes) >> 10);
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command) != 0;
}
