#!/bin/sh
# The server without any of the optional libraries, and without omma-bench: configured with
# OMMA_WITHOUT=all and OMMA_BENCH=OFF, built in build/without, and asked by pytest for what it then
# has not; arguments go to pytest. --quick: configures in a folder of its own, compiles only what
# takes the libraries' places, and runs nothing.
set -eu
cd "$(dirname "$0")/.."
folder=build/without
case "${1:-}" in
  --help | -h) echo "usage: tools/test_without.sh [--quick | PYTEST_ARGUMENTS]"; exit 0 ;;
  --quick)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    ;;
esac
mkdir -p "$folder"
log=$folder/log

configure() { cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DOMMA_TESTS=OFF -DOMMA_BENCH=OFF "$@" > "$log" 2>&1; }
fail() { echo "FAILED: $1"; cat "$log"; exit 1; }

if configure -DOMMA_WITHOUT=curl,courl; then fail "OMMA_WITHOUT takes a name of no library"; fi
grep -q "OMMA_WITHOUT: no optional library 'courl', expected some of: curl, " "$log" || fail "a name of no library: says something else"
configure -DOMMA_WITHOUT=all || fail "cmake"

# NAME_none.c takes the place of NAME_LIBRARY.c: here all of the former, none of the latter.
targets=$(ninja -C "$folder" -t targets all)
for none in $(find src -name '*_none.c'); do
  for source in "${none%_none.c}"_*.c; do
    [ "$source" = "$none" ] && continue
    case $targets in *"/${source##*/}.o: "*) fail "$source is in the build" ;; esac
  done
  case $none in src/bench_client/*) continue ;; esac
  case $targets in *"/${none##*/}.o: "*) ;; *) fail "$none is not in the build" ;; esac
done
case $targets in *bench_client* | *"omma-bench: "*) fail "omma-bench is in the build" ;; esac

if [ "${1:-}" = --quick ]; then
  # Words of a list of objects are meant to be split.
  # shellcheck disable=SC2046
  ninja -C "$folder" $(echo "$targets" | sed -n 's/^\([^: ]*_none\.c\.o\): .*/\1/p') > "$log" 2>&1 || fail "ninja"
  echo "without optional libraries: configured, and what takes their places is compiled"
  exit 0
fi
ninja -C "$folder" omma > "$log" 2>&1 || fail "ninja"
exec build/venv/bin/python -m pytest -q -p no:cacheprovider tests/without --omma "$folder/omma" "$@"
