#!/bin/sh
# Installs the peers of bench/run with pip, each in a Python environment of its own: jax, tensorflow, torch.
#   bench/setup-peers.sh [FOLDER]     (default: meshc/peers in the user's cache folder, where bench/run looks)
# PyTorch is the largest: 5 GB with the libraries of its GPU build, which it needs to start. An index of CPU builds
# that pip knows (PIP_EXTRA_INDEX_URL) saves 4 of them. torch.compile needs g++.
# Idempotent. Exit 1 if a peer cannot be installed; the others are.
set -u
folder=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/meshc/peers}
code=0

# peer NAME MODULE PACKAGE...: the environment FOLDER/NAME, in which MODULE can be imported
peer() {
  name=$1 module=$2
  shift 2
  python=$folder/$name/bin/python
  if "$python" -c "import $module" 2>/dev/null; then
    echo "$name: there"
    return
  fi
  echo "$name: installing $*"
  if python3 -m venv "$folder/$name" && "$python" -m pip install -q --disable-pip-version-check "$@" && "$python" -c "import $module"; then
    echo "$name: done"
  else
    echo "$name: cannot be installed" >&2
    code=1
  fi
}

mkdir -p "$folder" || exit 1
peer jax optax jax==0.10.2 jaxlib==0.10.2 optax==0.2.8
peer tensorflow tensorflow tensorflow-cpu==2.21.0
peer torch torch torch==2.15.0 numpy
exit $code
