#!/bin/sh
# Permutes the declared dims of a model: reads a model, writes one with the dims of each `param` in random order.
#   bench/permute_dims.sh SEED [-i] <MODEL >VARIANT      -i: also those of each `input`, if the model has no data block
# Seed 0 changes nothing. Dims have names, so the meaning of the model does not depend on their order.
seed=$1
awk -v seed="$seed" -v inputs="$2" '
# Returns the entries of a list "a, b, c" in random order.
function permuted(list,   n, part, i, k, t, out) {
  n = split(list, part, /, */)
  for (i = n; i > 1; i--) {
    k = 1 + int(rand() * i)
    t = part[i]; part[i] = part[k]; part[k] = t
  }
  out = part[1]
  for (i = 2; i <= n; i++) out = out ", " part[i]
  return out
}
BEGIN {srand(seed)}
{line[NR] = $0; if ($0 ~ /^ *data[ {]/) data = 1}
END {
  for (i = 1; i <= NR; i++) {
    s = line[i]
    if (seed > 0 && (s ~ /^ *param [^[]*\[/ || (inputs && !data && s ~ /^ *input [^[]*\[/))) {
      open = index(s, "[")
      shut = open + index(substr(s, open), "]") - 1
      s = substr(s, 1, open) permuted(substr(s, open + 1, shut - open - 1)) substr(s, shut)
    }
    print s
  }
}'
