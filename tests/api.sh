#!/bin/sh
# The library from outside: an installation in a folder of its own; programs in C that are built with pkg-config or with
# the CMake package, and give the numbers and facts of the program meshc; a C++ program; the symbols that leave the
# library. Ends in `N passed, N failed, N skipped`.
. "$(dirname "$0")/common.sh"
[ -e "$build/libmeshc.so" ] || { fail "$build/libmeshc.so is missing"; finish; }
XDG_CACHE_HOME=$tmp/cache
export XDG_CACHE_HOME
export ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}"
sanitized=$(ldd "$build/libmeshc.so" | sed -n 's/^[[:space:]]*lib\([at]\)san.*/\1/p' | sort -u)
case $sanitized in a) cflags="-fsanitize=address,undefined" ;; t) cflags="-fsanitize=thread" ;; *) cflags="" ;; esac

# -- symbols: nothing but what the header declares ----------------------------------------------------------------
nm -D --defined-only "$build/libmeshc.so" | awk '$2 ~ /[A-Z]/ && $2 != "A" {sub(/@.*/, "", $3); print $3}' | sort >"$tmp/exported"
sed -n 's/^MESHC_API.*[ *]\(meshc_[a-z_]*\)(.*/\1/p' include/meshc.h | sort >"$tmp/declared"
check "the header declares functions" test -s "$tmp/declared"
same "exported symbols" "$tmp/exported" "$tmp/declared"
nm -g --defined-only "$build/libmeshc.a" 2>/dev/null | awk 'NF == 3 {print $3}' | sort >"$tmp/static"
same "symbols of the static library" "$tmp/static" "$tmp/declared"
abi=$(sed -n 's/^#define MESHC_ABI_VERSION //p' include/meshc.h)
holds "soname" "$(readelf -d "$build/libmeshc.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')" "libmeshc.so.$abi"

# -- installation -------------------------------------------------------------------------------------------------
must cmake --install "$build" --prefix "$tmp/prefix"
for file in bin/meshc include/meshc.h lib/libmeshc.so lib/libmeshc.a lib/pkgconfig/meshc.pc lib/cmake/meshc/meshcConfig.cmake \
  share/meshc/examples/mlp.mesh share/meshc/examples/c/train.c share/meshc/machines; do
  check "$file is installed" test -e "$tmp/prefix/$file"
done
# what is generated names every command, option, keyword and function
share=$tmp/prefix/share
for file in man/man1/meshc.1 man/man1/meshc-train.1 bash-completion/completions/meshc zsh/site-functions/_meshc \
  fish/vendor_completions.d/meshc.fish vim/vimfiles/syntax/mesh.vim vim/vimfiles/ftdetect/mesh.vim meshc/vscode/package.json meshc/vscode/mesh.tmLanguage.json; do
  check "$file is installed" test -s "$share/$file"
done
for option in $(sed -n 's/^OPTION([A-Z_]*, *"--\([a-z-]*\)".*/\1/p' frontend/driver/options.def | sort -u); do
  troff=$(printf '%s' "$option" | sed 's/-/\\\\-/g')
  if grep -q -- "--$option[ \"]" "$share/bash-completion/completions/meshc" && grep -q -- "'--$option[=\[-]" "$share/zsh/site-functions/_meshc" &&
    grep -q -- "-l $option " "$share/fish/vendor_completions.d/meshc.fish" && cat "$share"/man/man1/*.1 | grep -q -- "fB\\\\-\\\\-$troff\\\\fR"; then pass; else fail "--$option is missing in a manual page or a completion"; fi
done
for word in $(sed -n 's/^KEYWORD("\([a-z]*\)".*/\1/p' frontend/syntax/token.def) $(sed -n 's/^BUILTIN(\([a-z_0-9]*\),.*/\1/p' frontend/model/builtin.def); do
  if grep -qw "$word" "$share/vim/vimfiles/syntax/mesh.vim" && grep -qw "$word" "$share/meshc/vscode/mesh.tmLanguage.json"; then pass; else fail "$word is missing in a syntax file"; fi
done
if command -v bash >/dev/null; then check "bash reads its completion" bash -n "$share/bash-completion/completions/meshc"; else skip; fi
for file in mesh.tmLanguage.json package.json; do
  if "$build/one_json" any <"$share/meshc/vscode/$file"; then pass; else fail "$file is not JSON"; fi
done

PKG_CONFIG_PATH=$tmp/prefix/lib/pkgconfig
LD_LIBRARY_PATH=$tmp/prefix/lib
export PKG_CONFIG_PATH LD_LIBRARY_PATH
installed=$tmp/prefix/bin/meshc
expect "the installed program" 0 "^meshc [0-9]" "$installed" --version

# -- programs against it ------------------------------------------------------------------------------------------
cd "$tmp" || exit 1
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -Wall -Wextra -Werror -pedantic $cflags "$tmp/prefix/share/meshc/examples/c/train.c" -o train $(pkg-config --cflags --libs meshc)
cat >use.cpp <<'END'
#include <meshc.h>
#include <cstring>
/* Hints name no options of the program: "give it, or say --params-partial ...". */
static bool lacks_option(meshc_error **error) {
  const char *one = "dim b = 2\nparam w[b] = 1\noutput y = w\n", *two = "dim b = 2\nparam w[b] = 1\nparam v[b] = 1\noutput y = w + v\n";
  meshc_model *from = meshc_open_text(one, std::strlen(one), nullptr, nullptr, error);
  meshc_model *to = meshc_open_text(two, std::strlen(two), nullptr, nullptr, error);
  bool loads = !from || !to || meshc_save(from, "one.safetensors", error) || !meshc_load(to, "one.safetensors", error);
  bool good = !loads && *error && std::strcmp(meshc_error_at(*error, 0)->hint, "give it") == 0;
  meshc_error_free(*error);
  *error = nullptr;
  meshc_close(from);
  meshc_close(to);
  return good;
}
int main() {
  meshc_error *error = nullptr;
  if (!lacks_option(&error)) return 3;
  const char *text = "input x[b]\ndim b = 2\noutput y = x * 2\n";
  meshc_model *model = meshc_open_text(text, std::strlen(text), nullptr, nullptr, &error);
  if (!model || meshc_abi_version() != MESHC_ABI_VERSION) return 1;
  meshc_options *o = meshc_options_new(); /* NULL is the value of switches only */
  if (meshc_options_set(o, "no-cache", nullptr) || meshc_options_set(o, "mesh", nullptr) != 2) return 2;
  meshc_options_free(o);
  meshc_program *p = meshc_compile(model, MESHC_PREDICT, nullptr, 0, &error);
  float x[2] = {1, 2}, y[2] = {0, 0};
  meshc_array in = {}, out = {};
  in.name = "x", in.rank = 1, in.data = x;
  out.name = "y", out.rank = 1, out.data = y;
  int code = p ? meshc_run(p, &in, 1, &out, 1, &error) : 1;
  meshc_close(model);
  return code || y[0] != 2 || y[1] != 4;
}
END
# shellcheck disable=SC2046,SC2086
if command -v c++ >/dev/null; then
  must c++ -std=c++17 -Wall -Wextra -Werror -pedantic $cflags use.cpp -o use $(pkg-config --cflags --libs meshc)
  expect "a C++ program" 0 "" ./use
else
  skip
fi

# Two models, each trained by a thread of its own at the same time, give the bits that they give one after the other.
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/two_threads.c" -o two_threads $(pkg-config --cflags --libs meshc) -pthread
expect "two models in two threads" 0 "^two_threads: 3 rounds equal" ./two_threads 3

# A step of micro-batches, fed by the program and by meshc.
printf '%s\n' 'dim b = 4, d = 2' 'output x[b, d] = 1.0 * index[b] + 2 * index[d]' >x.mesh
printf '%s\n' 'dim b = 4, d = 2' 'input x[b, d]' 'param w[d] = 1' 'loss = mean[b](square(sum[d](x * w) - 1))' 'data train over b { }' \
  'train loss { optimizer = sgd(lr = 0.01), accumulate = 2, steps = 2 }' >accumulate.mesh
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/accumulate.c" -o accumulate $(pkg-config --cflags --libs meshc)
must "$installed" run x.mesh --out feed
"$installed" run accumulate.mesh --steps 2 --feed x=feed/x.npy --fetch w,loss >want.txt 2>&1
./accumulate >got.txt 2>&1
same "micro-batches that are fed" want.txt got.txt

# on a GPU: errors where there is none; with stand-ins for NVIDIA's libraries the values of the CPU
# shellcheck disable=SC2046,SC2086
must cc -std=c99 -Wall -Wextra -Werror -pedantic $cflags "$root/tests/api/on_gpu.c" -o on_gpu $(pkg-config --cflags --libs meshc) -pthread -lm
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then skip; else expect "a GPU without a driver" 1 'driver.*E0807' ./on_gpu; fi
if [ -e "$build/standin/libcuda.so.1" ]; then
  libraries=$LD_LIBRARY_PATH:$build/standin
  for layout in "" "p=2 b=p" "p=2,q=2 b=p,h=q"; do
    # shellcheck disable=SC2086
    expect "a model on a GPU${layout:+ on $layout}" 0 '^on_gpu: [0-9]* values agree' env LD_LIBRARY_PATH="$libraries" ./on_gpu $layout
  done
  expect "two models in two threads on a GPU" 0 "^two_threads: 1 rounds equal" env LD_LIBRARY_PATH="$libraries" ./two_threads 1 cuda
else
  skip 4
fi

# a project that finds the library by its CMake package
mkdir consumer
cat >consumer/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer C)
find_package(meshc 0.2 REQUIRED)
add_executable(facts facts.c)
target_link_libraries(facts PRIVATE meshc::meshc)
END
cat >consumer/facts.c <<'END'
#include <meshc.h>
#include <stdio.h>
int main(int argc, char **argv) {
  meshc_error *error = NULL;
  meshc_model *model = argc == 3 ? meshc_open_file(argv[2], NULL, &error) : NULL;
  char *text = model ? meshc_json(model, argv[1], MESHC_TRAIN, &error) : NULL;
  if (text) puts(text);
  meshc_free(text);
  meshc_close(model);
  if (error) fprintf(stderr, "%s\n", meshc_error_at(error, 0)->text);
  meshc_error_free(error);
  return !text;
}
END
must cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$tmp/prefix" -DCMAKE_C_FLAGS="$cflags"
must cmake --build consumer/build
cp "$tmp/prefix/share/meshc/examples/mlp.mesh" .
for command in check explain plan; do
  run ./consumer/build/facts "$command" mlp.mesh
  sed '/"search_seconds"/d' "$tmp/out" >library.json
  run "$installed" "$command" mlp.mesh --json
  sed '/"search_seconds"/d' "$tmp/out" >program.json
  check "facts of $command" test -s library.json
  same "facts of $command" library.json program.json
done
expect "facts of another command" 1 "facts are those of" ./consumer/build/facts run mlp.mesh

cat >x.mesh <<'END'
dim b = 8, d = 4, o = 2
output x[b, d] = (index[b] + index[d]) * 0.1
output target[b, o] = (index[b] * index[o]) * 0.1
END
model=$tmp/prefix/share/meshc/examples/mlp.mesh
must "$installed" run x.mesh --out feed
for layout in "" "p=4 b=p" "p=2 h=p"; do
  # shellcheck disable=SC2086
  set -- $layout
  expect "the example${layout:+ on $layout}" 0 "^fed 100 loss 0\.00" ./train "$model" 100 fed.safetensors "$@"
  must "$installed" run "$model" --feed x=feed/x.npy --feed target=feed/target.npy --steps 100 --save-params run.safetensors ${1:+--mesh "$1" --layout "$2"}
  same "parameters of fed steps${layout:+ on $layout}" fed.safetensors run.safetensors
done
must "$installed" train "$model" --save-params cli.safetensors
same "parameters of training on the model's data" trained.safetensors cli.safetensors
expect "a place in the model" 1 "bad.mesh:2:[0-9]*: .*E0" sh -c 'printf "dim b = 2\noutput y = z[b]\n" >bad.mesh; ./train bad.mesh'

# -- hostile calls ------------------------------------------------------------------------------------------------
rounds=${ROUNDS:-60}
for seed in ${SEEDS:-1 2}; do
  expect "hostile calls, seed $seed" 0 "^api_fuzz: .* left: 0 threads" timeout 600 "$build/api_fuzz" "$seed" "$rounds" whole
  expect "calls without memory, seed $seed" 0 "^api_fuzz: " timeout 600 "$build/api_fuzz" "$seed" "$rounds" fail
done
finish
