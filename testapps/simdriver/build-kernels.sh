#!/usr/bin/env bash
# Compiles the kernels for the host, for the simulated driver to run.
#
#   build-kernels.sh OUTPUT_DIR
#
# kernels/NAME.cu becomes OUTPUT_DIR/NAME.host.so. Only what is older than its source or the kernel headers is compiled again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kernels=$(cd "$here/../../kernels" && pwd)
out=${1:?usage: build-kernels.sh OUTPUT_DIR}
mkdir -p "$out"

for source in "$kernels"/*.cu; do
  object=$out/$(basename "$source" .cu).host.so
  stale=
  for input in "$source" "$kernels"/*.h "$here/build-kernels.sh"; do
    if [ ! -e "$object" ] || [ "$input" -nt "$object" ]; then stale=1; fi
  done
  [ -n "$stale" ] || continue
  # -Bsymbolic and -fno-gnu-unique: every loaded instance has globals of its own, whatever the program exports.
  g++ -std=c++17 -O1 -g -Wall -Wextra -Werror -fno-gnu-unique -shared -fPIC -Wl,-Bsymbolic -Wl,-z,defs -x c++ "$source" \
    -I "$kernels" -o "$object.new" -pthread
  mv "$object.new" "$object"
done
