#!/bin/sh
# bench/run, the comparison with other programs: table, JSON lines, history, the check of losses, exit codes. The peers
# here are scripts that answer as bench/peers/common.py says; no time counts. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
"$meshc" version | grep -q LLVM || { skip; finish; }
MESHC=$meshc
export MESHC
export XDG_CACHE_HOME="${XDG_CACHE_HOME:-$tmp/cache}"

echo "cores = 1" >"$tmp/machine" # so that bench/run does not measure the machine
# -- without peers -------------------------------------------------------------------------------------------
expect "a table" 0 "^iris +[0-9.e-]+ +[0-9.e-]+ +- +- +- +- +- +- +[0-9.]+ +[0-9.]+$" \
  bench/run --rounds 1 --threads 1 --machine "$tmp/machine" --peers none --history "$tmp/history" iris
if says "^model +meshc ms +best +torch-eager +torch-compile +jax +jax-loop +tf-graph +ratio +roofline +predicted$"; then pass; else fail "the table has no head: $(output)"; fi
expect "lines of JSON" 0 '^\{"schema": "meshc.peers/1", .*"model": "iris", "meshc": \{"median_ms": .*"peers": \{\}, "best_peer": null, "ratio": null, .*\}$' \
  bench/run --rounds 1 --threads 1 --machine "$tmp/machine" --peers none --history "$tmp/history" --json iris
holds "the history grows by a line for each model" "$(grep -c '^{"schema": "meshc.peers/1", .*}$' "$tmp/history")" 2
expect "a model that is not there" 2 "there is no model resnet; models: iris" bench/run resnet
expect "an option that is not there" 2 "there is no option --round" bench/run --round 3
expect "an option without its argument" 2 "--rounds lacks its argument" bench/run --rounds
expect "a number of rounds" 2 "takes a number above 0, not 'x'" bench/run --rounds x
expect "a machine file that is not there" 1 "cannot open machine file" bench/run --rounds 1 --machine "$tmp/nowhere" --peers none iris
expect "no program" 2 "is missing" env MESHC="$tmp/nothing" bench/run iris
expect "a part of the goals that is not there" 2 "there is no part tables; parts: products table" bench/done.sh tables
expect "a model that a part does not measure" 2 "bf16 measures no iris; models: mlp1024 lm6" bench/done.sh bf16=iris

# -- with a peer ---------------------------------------------------------------------------------------------
# The first script stands for `python common.py MODEL FOLDER`, the second for a peer that trains as meshc does.
cat >"$tmp/data.mesh" <<'END'
dim b = 30, i = 4
output x[b, i] = cast(index[i], f32) - 0.1 * cast(index[b], f32)
output label[b] = cast(index[b] % 3, i32)
END
mkdir -p "$tmp/peers/jax/bin"
cat >"$tmp/peers/jax/bin/python" <<END
#!/bin/sh
case \$1 in
  *common.py)
    "$meshc" run "$tmp/data.mesh" --out "\$3" >/dev/null &&
      exec "$meshc" run "$root/bench/models/iris.mesh" --fetch w1,b1,w2,b2,w3,b3 --out "\$3/params.npz" >/dev/null ;;
esac
echo ready >"\$5"
while read -r word rest <"\$4"; do
  case \$word in
    check) cat "$tmp/losses" ;;
    time) echo "0.001 0.0009 1000000" ;;
    quit) exit ;;
  esac >"\$5"
done
END
chmod +x "$tmp/peers/jax/bin/python"
must "$tmp/peers/jax/bin/python" common.py iris "$tmp"
for n in 1 8; do
  "$meshc" run bench/models/iris.mesh --feed x="$tmp/x.npy" --feed label="$tmp/label.npy" --params "$tmp/params.npz" \
    --fetch loss --steps $n --json | awk '/"values": \[/ {getline; print $1; exit}'
done | paste -d ' ' - - >"$tmp/losses"
expect "a peer that agrees" 0 '"peers": \{"jax": \{"median_ms": 1, "best_ms": 0.9, "resident_bytes": 1000000\}, "jax-loop": .*"best_peer": "jax", "ratio": [0-9.]+' \
  bench/run --rounds 1 --threads 1 --machine "$tmp/machine" --peers "$tmp/peers" --json iris
awk '{print $1, $1 + ($2 - $1) * 1.2}' "$tmp/losses" >"$tmp/other" && mv "$tmp/other" "$tmp/losses"
expect "a peer that takes other steps" 1 "losses of iris differ: meshc [0-9.]+ then [0-9.]+, jax [0-9.]+ then" \
  bench/run --rounds 1 --threads 1 --machine "$tmp/machine" --peers "$tmp/peers" iris
printf '#!/bin/sh\necho "no module" >&2\nexit 1\n' >"$tmp/peers/jax/bin/python"
expect "a peer that does not start" 1 "run: the data of iris cannot be made: .*no module" bench/run --rounds 1 --threads 1 --machine "$tmp/machine" --peers "$tmp/peers" iris
if says "^iris +[0-9]"; then pass; else fail "no row of meshc beside a broken peer: $(output)"; fi
finish
