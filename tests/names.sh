#!/bin/sh
# Names of values and the lines they are on decide nothing: a model with all values renamed and its lines shifted
# compiles to the same program, and its steps compute the same numbers.
#   MESHC=build/release/meshc tests/names.sh
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
meshc=${MESHC:-$root/build/release/meshc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# Renames each NAME to zNAMEz and shifts the lines.
renamed() { # MODEL NAME...
  model=$1; shift
  printf '# one\n\n# two\n'
  for name; do printf 's/\\b%s\\b/z%sz/g\n' "$name" "$name"; done > "$tmp/rules"
  sed -f "$tmp/rules" "$model" | sed 's/^$/# more\n\n/'
}

# Text without places, under the old names and without the scope of a function `net`.
plain() {
  sed -E 's/\bz([A-Za-z]+)z\b/\1/g; s/\bnet\.//g; s/[A-Za-z0-9_.\/-]*\.mesh(:[0-9]+(:[0-9]+)?)?//g; s/\(?(at )?line [0-9]+\)?//g; s/ +/ /g'
}

# Both models give the same text from a command.
same() { # NAME MODEL COMMAND...
  name=$1 model=$2; shift 2
  if "$meshc" "$@" "$model" > "$tmp/a" 2> "$tmp/error" && "$meshc" "$@" "$tmp/renamed.mesh" > "$tmp/b" 2> "$tmp/error" &&
    plain < "$tmp/a" > "$tmp/a.plain" && plain < "$tmp/b" > "$tmp/b.plain" && cmp "$tmp/a.plain" "$tmp/b.plain"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAIL $name"
    head -3 "$tmp/error"
  fi
}

gpt=$root/examples/gpt.mesh mlp=$root/examples/mlp.mesh
renamed "$gpt" ids next scale shift wq wk wv wo wi bi bo q keys v score causal p bytes places x logits loss > "$tmp/renamed.mesh"
for layout in b=x,t=y,parameters/all=x b=x,heads=y,ff=y,parameters/all=x b=x,heads=y,ff=y,vocab=y,gradients/all=x; do
  same "gpt $layout: program" "$gpt" dump --stage program --mesh x=2,y=2 --layout "$layout"
  same "gpt $layout: ledger" "$gpt" check --mesh x=2,y=2 --layout "$layout"
done
same "gpt in a budget: program" "$gpt" dump --stage program --mesh x=4 --layout b=x,parameters/all=x --memory 9MiB
renamed "$mlp" x target w v hidden y loss > "$tmp/renamed.mesh"
for layout in b=rows,h=cols b=rows,parameters/all=cols; do
  same "mlp $layout: program" "$mlp" dump --stage program --layout "$layout"
done
renamed "$mlp" hidden y loss > "$tmp/renamed.mesh" # draws are keyed by the names of declared tensors: these stay
for model in "$mlp" "$tmp/renamed.mesh"; do
  "$meshc" train "$model" --save-params "$tmp/$(basename "$model").npz" > "$tmp/log" 2>&1
done
if cmp "$tmp/mlp.mesh.npz" "$tmp/renamed.mesh.npz"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "FAIL mlp: training"; fi

# Parameters of a function, and the same parameters without one: they are gathered in the same calls.
head="dim b = 8, d = 4, h = 6, o = 2
input x[b, d]
input target[b, o]"
params="param w[d, h] ~ glorot(d, h)
param v[h, o] ~ glorot(h, o)"
tail="train loss { optimizer = sgd(lr = 0.1), steps = 100 }
mesh rows = 2
layout b -> rows
layout parameters: all -> rows"
printf "%s\nfn net(x) {\n%s\nreturn sum[h](relu(sum[d](x * w)) * v)\n}\nloss = mean(square(net(x) - target))\n%s\n" \
  "$head" "$params" "$tail" > "$tmp/scope.mesh"
printf "%s\n%s\nloss = mean(square(sum[h](relu(sum[d](x * w)) * v) - target))\n%s\n" \
  "$head" "$params" "$tail" > "$tmp/renamed.mesh"
same "scopes of parameters: program" "$tmp/scope.mesh" dump --stage program
same "scopes of parameters: ledger" "$tmp/scope.mesh" check

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
