#!/usr/bin/env bash
# Builds the simulated driver and its conformance program with nothing but g++.
#
#   build.sh OUTPUT_DIR [CUDA_DIR]
#
# OUTPUT_DIR gets libcuda.so.1, libcuda.so (for -lcuda) and conformance, and in OUTPUT_DIR/12040, 12000 and 11070 the same library
# without the exports that came later, for programs that use dlsym. CUDA_DIR holds include/cuda.h; default target/cuda of the
# repository. A source is compiled again only when it, or any header, is newer than its object.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${1:?usage: build.sh OUTPUT_DIR [CUDA_DIR]}
cuda=${2:-$root/target/cuda}
mkdir -p "$out/objects"
out=$(cd "$out" && pwd)

flags=(-std=c++17 -O2 -g -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ftls-model=initial-exec
       -Wall -Wextra -Werror -isystem "$cuda/include" -I "$root/kernels")

newer() {  # newer FILE THAN...: true when FILE is missing or older than any of the others
  local target=$1 other
  shift
  [ -e "$target" ] || return 0
  for other in "$@"; do [ "$other" -nt "$target" ] && return 0; done
  return 1
}

shared=("$here"/*.hpp "$here"/*.inc "$here/build.sh" "$root/kernels/kernel_table.h")
stale=()
for source in "$here"/*.cpp; do
  object=$out/objects/$(basename "$source" .cpp).o
  if newer "$object" "$source" "${shared[@]}"; then stale+=("$source"); fi
done
if [ ${#stale[@]} -gt 0 ]; then
  compile() {
    g++ "${@:2}" -c "$1" -o "$out/objects/$(basename "$1" .cpp).o"
  }
  export -f compile
  export out
  printf '%s\0' "${stale[@]}" | xargs -0 -P "${LGSIM_BUILD_JOBS:-2}" -I{} bash -c 'compile "$@"' compile {} "${flags[@]}"
fi

library=$out/libcuda.so.1
objects=()
for source in "$here"/*.cpp; do objects+=("$out/objects/$(basename "$source" .cpp).o"); done
if newer "$library" "${objects[@]}" "$here/exports.map"; then
  g++ -shared -o "$library.new" "${objects[@]}" -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete \
    -Wl,--version-script="$here/exports.map" -pthread -ldl
  # Every export has to be a function of the CUDA headers. cuProfiler* stand in a header that is not installed with the others.
  declared=$(sed -n 's/^SYMBOL(.*, \(cu[A-Za-z0-9_]*\))$/\1/p' "$here/symbols.inc"; printf '%s\n' cuProfilerInitialize cuProfilerStart cuProfilerStop)
  exported=$(nm -D --defined-only "$library.new" | awk '$2 == "T" { print $3 }')
  strays=$(comm -13 <(sort -u <<<"$declared") <(sort -u <<<"$exported"))
  missing=$(comm -23 <(sort -u <<<"$declared") <(sort -u <<<"$exported"))
  if [ -n "$strays$missing" ]; then
    printf 'exports that no header declares: %s\ndeclared and not exported: %s\n' "${strays//$'\n'/ }" "${missing//$'\n'/ }" >&2
    exit 1
  fi
  mv "$library.new" "$library"
fi
ln -sf libcuda.so.1 "$out/libcuda.so"

for version in 12040 12000 11070; do
  older=$out/$version/libcuda.so.1
  if newer "$older" "$library"; then
    mkdir -p "$out/$version"
    {
      echo '{ global:'
      sed -n 's/^SYMBOL(\([^,]*\), \([0-9]*\), .*, \(cu[A-Za-z0-9_]*\))$/\2 \3/p' "$here/symbols.inc" |
        awk -v version="$version" '$1 <= version { print $2 ";" }'
      echo 'cuProfiler*; local: *; };'
    } >"$out/objects/exports-$version.map"
    g++ -shared -o "$older.new" "${objects[@]}" -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,nodelete \
      -Wl,--version-script="$out/objects/exports-$version.map" -Wl,-s -pthread -ldl
    mv "$older.new" "$older"
  fi
done

if compgen -G "$here/conformance/*.cpp" >/dev/null && newer "$out/conformance" "$here"/conformance/* "$here/build.sh" "$library"; then
  g++ -std=c++17 -O1 -g -Wall -Wextra -Werror -isystem "$cuda/include" -I "$root/testapps/common" "$here"/conformance/*.cpp -o "$out/conformance" \
    -L "$out" -lcuda -pthread
fi
