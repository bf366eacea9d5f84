#!/bin/sh
# A build folder that was copied or moved: make prints in one line what to do, and touches nothing.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
work=$(cd -P "$work" && pwd)
fail() { echo "FAILED: $1"; cat "$work/said"; exit 1; }

# A tree with make's part of the sources, and a build folder as CMake leaves it: PATH SOURCES
# MADE_AT.
mkdir -p "$work/tree/tools" "$work/other/build/release" "$work/link"
cp "$root/Makefile" "$work/tree"
cp "$root/tools/check_build_folder.sh" "$work/tree/tools"
cache() {
  mkdir -p "$1"
  printf 'CMAKE_CACHEFILE_DIR:INTERNAL=%s\nCMAKE_HOME_DIRECTORY:INTERNAL=%s\n' "$3" "$2" > "$1/CMakeCache.txt"
}
build() { make --no-print-directory -C "$work/tree" TESTS=OFF release > "$work/said" 2>&1; }

# refused WHAT SOURCES MADE_AT
refused() {
  cache "$work/tree/build/release" "$2" "$3"
  if build; then fail "$1: built"; fi
  [ "$(grep -c "build/release was made as $3 for the sources in $2.*make clean" "$work/said")" = 1 ] || fail "$1: prints something else"
  [ "$(grep -vc '^make' "$work/said")" = 1 ] || fail "$1: prints more"
  [ "$(ls "$work/tree/build/release")" = CMakeCache.txt ] || fail "$1: something was written"
}
refused "copied from another tree" "$work/other" "$work/other/build/release"
refused "of a tree that is gone" "$work/gone" "$work/gone/build/release"
refused "copied from another variant" "$work/tree" "$work/other/build/release"

# accepted WHAT SOURCES MADE_AT: the folder passes; by another name of the same place too.
accepted() {
  cache "$work/tree/build/release" "$2" "$3"
  (cd "$work/tree" && tools/check_build_folder.sh build/release) > "$work/said" 2>&1 || fail "$1: refused"
}
accepted "made here" "$work/tree" "$work/tree/build/release"
ln -s "$work/tree" "$work/link/tree"
accepted "made here, through a link" "$work/link/tree" "$work/link/tree/build/release"
rm "$work/tree/build/release/CMakeCache.txt"
(cd "$work/tree" && tools/check_build_folder.sh build/release && tools/check_build_folder.sh build/none) > "$work/said" 2>&1 ||
  fail "folders without a build: refused"
