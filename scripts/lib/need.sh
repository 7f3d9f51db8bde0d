# shellcheck shell=bash
# Says plainly what a machine lacks before anything starts. Sourced, from the repository root.
# Must not install or change anything.

lg_missing=""

lg_lack() {
  lg_missing="${lg_missing}  $1"$'\n'
}

lg_have() {
  command -v "$1" >/dev/null 2>&1
}

# need_tools python|rust|cxx ...: exits with status 2 and one line for each thing that is not there.
need_tools() {
  local tool
  for tool in "$@"; do
    case "$tool" in
      python)
        if ! lg_have python3; then
          lg_lack "python3 (3.9 or newer): Debian and Ubuntu: apt install python3"
        elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' >/dev/null 2>&1; then
          lg_lack "python3 3.9 or newer: the one on PATH is older or does not start"
        fi
        ;;
      rust)
        lg_have cargo || lg_lack "cargo (a Rust toolchain; rustup installs one)"
        lg_have cc || lg_lack "cc (the linker that cargo starts): Debian and Ubuntu: apt install gcc"
        ;;
      cxx)
        if ! lg_have "${CXX:-g++}"; then
          lg_lack "${CXX:-g++} (a C++17 compiler; set CXX to use another): Debian and Ubuntu: apt install g++"
        elif ! printf '#include <cstdio>\n#include <dlfcn.h>\nint main() {}\n' |
          "${CXX:-g++}" -std=c++17 -x c++ -fsyntax-only - >/dev/null 2>&1; then
          lg_lack "the C++ library headers: ${CXX:-g++} is there and cannot compile a C++17 program"
        fi
        lg_have "${CC:-gcc}" || lg_have cc || lg_lack "gcc (the C compiler; set CC to use another): Debian and Ubuntu: apt install gcc"
        # CMake and Ninja are fetched where they are not there.
        lg_have ar || lg_lack "ar: Debian and Ubuntu: apt install binutils"
        ;;
    esac
  done
  if [ -n "$lg_missing" ]; then
    printf '%s: this machine lacks:\n%s' "${0##*/}" "$lg_missing" >&2
    exit 2
  fi
}
