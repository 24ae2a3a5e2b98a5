# shellcheck shell=sh disable=SC2034,SC2120 # what is defined here serves those that source it
# What the shell runners share: paths, a folder for temporary files, counters, comparisons, the closing line. A runner
# begins with `. "$(dirname "$0")/common.sh"`, which leaves it at the root of the repository, and ends with `finish`.
set -u

# Under nohup SIGHUP is ignored, also by programs that are started there: a runner takes the default again.
if [ -z "${MESHC_TEST_HUP:-}" ] && env --default-signal=HUP true 2>/dev/null; then
  exec env --default-signal=HUP MESHC_TEST_HUP=default "$0" "$@"
fi

# absolute PATH: the caller's paths may be relative to the folder in which it started the runner
absolute() { case $1 in /*) echo "$1" ;; *) echo "$PWD/$1" ;; esac; }
meshc=${MESHC:+$(absolute "$MESHC")} data=${MESHC_DATA:+$(absolute "$MESHC_DATA")}
cd "$(dirname "$0")/.." || exit 1
root=$PWD
meshc=${meshc:-$root/build/release/meshc}
data=${data:-$root/../shared/data}
build=$(dirname "$meshc")
tmp=$(mktemp -d) || exit 1

# A runner that has more to remove than its files defines `clean` again.
clean() { :; }
trap 'cd /; clean; rm -rf "$tmp"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

passed=0 failed=0 skipped=0
pass() { passed=$((passed + 1)); }
fail() { echo "FAIL $*"; failed=$((failed + 1)); }
skip() { skipped=$((skipped + ${1:-1})); }
finish() {
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" = 0 ]
  exit
}

# run COMMAND...: its exit code in $code, its output in $tmp/out and $tmp/err
run() {
  "$@" >"$tmp/out" 2>"$tmp/err"
  code=$?
}
# says PATTERN: whether a line of that output matches; the empty pattern always does
says() { [ -z "$1" ] || grep -qaE -e "$1" "$tmp/out" "$tmp/err"; }
output() { cat "$tmp/out" "$tmp/err" | head -n "${1:-3}"; }
time_limit=120 # seconds that expect gives a command
# expect NAME CODE PATTERN COMMAND...: exit code and what standard output and error say
expect() {
  name=$1 wanted=$2 pattern=$3
  shift 3
  run timeout "$time_limit" "$@"
  if [ "$code" = "$wanted" ] && says "$pattern"; then pass; else fail "$name: exit $code, expected $wanted and /$pattern/: $(output 5)"; fi
}
# must COMMAND...: a step that later ones build on
must() {
  run "$@"
  [ $code = 0 ] || fail "$*: exit $code: $(output)"
}
check() { # NAME CONDITION...
  name=$1
  shift
  if "$@"; then pass; else fail "$name: not true: $*"; fi
}
holds() { if [ "$2" = "$3" ]; then pass; else fail "$1: $2, not $3"; fi; }      # NAME FOUND WANTED
same() { if cmp -s "$2" "$3"; then pass; else fail "$1: $2 and $3 differ"; fi; } # NAME FILE FILE

# in_order FILE FILE: the first line of the first file that the second lacks, in this order; `...` matches any text
in_order() {
  awk -v list="$1" 'function fits(text, pattern,   part, k, i, at) {
      k = split(pattern, part, /\.\.\./)
      for (i = 1; i <= k; i++) {
        at = index(text, part[i])
        if (!at || (i == 1 && at != 1)) return 0
        text = substr(text, at + length(part[i]))
      }
      return part[k] == "" || text == ""
    }
    BEGIN { at = 1; while ((getline text < list) > 0) want[++n] = text }
    { while (at <= n && (want[at] == "" || want[at] == "...")) at++; if (at <= n && fits($0, want[at])) at++ }
    END { while (at <= n && (want[at] == "" || want[at] == "...")) at++; if (at <= n) print want[at] }' "$2"
}

# -- several processes --------------------------------------------------------------------------------------------

# use_mpi: settings of Open MPI; $have_mpi is empty where there is none. What MPI leaves lies in $tmp, and not among that
# of other runs.
use_mpi() {
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  mkdir "$tmp/ompi" "$tmp/shm"
  export OMPI_MCA_orte_tmpdir_base="$tmp/ompi" OMPI_MCA_btl_vader_backing_directory="$tmp/shm"
  ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}" # MPI itself leaks
  export ASAN_OPTIONS
  have_mpi=""
  [ ! -e "$build/meshc_mpi.so" ] || ! command -v mpirun >/dev/null || have_mpi=1
}
# needs_mpi WAY: whether WAY (np, or one by mpirun) can be tried here; counted as skipped where not
needs_mpi() {
  [ "$1" = np ] || [ -n "$have_mpi" ] && return 0
  skip
  return 1
}
# one_sentence PATTERN: whether $tmp/err has one error, and a line that matches
one_sentence() {
  lines=$(grep -c 'error:' "$tmp/err")
  [ "$lines" = 1 ] && grep -Eq "$1" "$tmp/err"
}
# rows_model: $tmp/rows.mesh, each of whose four ranks reads one row of rows.csv
rows_model() {
  cat >"$tmp/rows.mesh" <<'END'
dim b = 4, c = 2
input x[b, c]
param w[c] ~ normal(0, 1)
loss = mean(square(sum[c](x * w)))
train loss { optimizer = sgd(lr = 0.1), steps = 8 }
data train over b { x = csv("rows.csv", columns = 0..2) }
mesh p = 4
layout b -> p
END
}

# digits STEPS: the model $tmp/digits.mesh, a classifier that trains so many steps on made-up data
digits() {
  cat >"$tmp/digits.mesh" <<END
dim b = 20, pixels = 49, h = 33, classes = 10
input x[b, pixels]
input digit[b]: i32
param w[pixels, h] ~ he(pixels)
param w_bias[h]
param v[h, classes] ~ glorot(h, classes)
param v_bias[classes]
hidden = relu(sum[pixels](x * w) + w_bias)
logits[b, classes] = sum[h](hidden * v) + v_bias
loss = mean[b](cross_entropy[classes](logits, digit))
metric accuracy = mean[b](argmax[classes](logits) == digit)
output probs[b, classes] = softmax[classes](logits)
data train over b { x = synthetic(normal), digit = synthetic(integers(0, 10)) }
data test over b { x = synthetic(normal), digit = synthetic(integers(0, 10)) }
train loss { optimizer = adam(lr = 1e-2), steps = $1 }
END
}
# talk VOCAB: a small causal model of ids below VOCAB, up to its logits
talk() {
  cat <<END
dim b = 4, t = 48, s = t, vocab = $1, d = 16
input ids[b, t]: i32
param table[vocab, d] ~ normal(std = 1)
param places[t, d] ~ normal(std = 1)
param w[d] ~ normal(std = 1)
x = take[vocab](table, ids) + places
keys = rename[t -> s](x * w)
p = softmax[s](where(index[s] <= index[t], sum[d](x * keys), -inf))
y = tanh(cumsum[t](x) * 0.1) + sum[s](p * rename[t -> s](x))
logits[b, t, vocab] = sum[d](y * table) * 0.4
END
}
# with MODEL DATA: a copy of tests/models/MODEL.mesh that trains on made-up data
with() {
  { cat "tests/models/$1.mesh"; echo "$2"; } >"$tmp/$1.mesh"
}
