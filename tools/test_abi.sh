#!/bin/sh
# Compares the functions and structs of the three shared libraries with those of release 0.1.0, kept
# in packaging/abi, and prints what differs. Fails where a program that was linked to that release
# would find a library of its soname and break: a function is gone, or a member of a public struct
# has moved or changed its type. Structs of options may grow at their end (omma/omma.h,
# struct_size). Needs abidiff (Debian: abigail-tools) and xz.
#
#     tools/test_abi.sh              compare; builds the libraries with debugging information
#     tools/test_abi.sh --save DIR   write the files of this tree's version, for the next release
set -eu
cd "$(dirname "$0")/.."
release=0.1.0
names="omma omma-attention omma-service"
case "${1:-}" in
  "") save= ;;
  --save) save=${2:?"a folder is missing after --save"} ;;
  *) echo "usage: tools/test_abi.sh [--save DIR]" >&2; exit 2 ;;
esac
for program in abidiff abidw xz; do
  command -v $program > /dev/null || { echo "test_abi.sh: $program is missing (Debian: abigail-tools, xz-utils)" >&2; exit 1; }
done
mkdir -p build
{
  cmake -S . -B build/abi -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOMMA_TESTS=OFF &&
    ninja -C build/abi libomma.so libomma-attention.so libomma-service.so
} > build/log-abi 2>&1 || { cat build/log-abi >&2; exit 1; }
if [ "$save" ]; then
  version=$(sed -n 's/^project(ommatidia VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  for name in $names; do
    abidw --no-show-locs --no-corpus-path --no-comp-dir-path "build/abi/lib$name.so" | xz -9 > "$save/lib$name-$version.abi.xz"
    echo "$save/lib$name-$version.abi.xz"
  done
  exit
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# What the headers only declare is no part of the ABI.
{
  printf '[suppress_type]\n  name_regexp = ^ommai_\n'
  # shellcheck disable=SC2013
  for type in $(sed -n 's/^struct \(omma_[a-z_]*\);$/\1/p' include/omma/*.h | sort -u); do
    grep -q "^struct $type {" include/omma/*.h || printf '[suppress_type]\n  name = %s\n' "$type"
  done
} > "$work/private"
failed=0
for name in $names; do
  echo "== lib$name"
  xz -dc "packaging/abi/lib$name-$release.abi.xz" > "$work/before.abi"
  before=$(sed -n "s/.* soname='\([^']*\)'.*/\1/p" "$work/before.abi" | head -n 1)
  now=$(readelf -d "build/abi/lib$name.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
  status=0
  abidiff --suppressions "$work/private" "$work/before.abi" "build/abi/lib$name.so" > "$work/report" || status=$?
  cat "$work/report"
  if [ $((status & 3)) -ne 0 ]; then
    failed=1
  elif grep -q "[1-9][0-9]* Removed\|^ *'.*' offset changed\|^ *type of '.*' changed" "$work/report"; then
    if [ "$before" = "$now" ]; then
      echo "lib$name breaks programs of $release and has its soname, $now: raise OMMA_SOVERSION in CMakeLists.txt"
      failed=1
    else
      echo "lib$name breaks programs of $release, and its soname is another: $before, now $now"
    fi
  else
    echo "lib$name runs programs of $release"
  fi
done
exit $failed
