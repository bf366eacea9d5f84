#!/bin/sh
# Builds the libraries against oneDNN 3.2 (from PyPI, into build/onednn3-venv; Debian 12 has 2.6)
# and runs what its linear layers reach: the tests of src/linear, among them the equal bits of a row
# in tiles of every size, and the golden tests of whole models. Arguments go to ctest.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_onednn3.sh [CTEST_ARGUMENTS]"; exit 0 ;;
esac
if [ "$(uname -m)" != x86_64 ]; then
  echo "tools/test_onednn3.sh: PyPI has oneDNN 3.2 for x86-64 alone" >&2
  exit 2
fi
version=2023.2.0
venv=$PWD/build/onednn3-venv
folder=build/onednn3
tests="test_linear test_golden_generate test_golden_stages"

mkdir -p $folder
if [ ! -e "$venv/made-for-$version" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check onednn-cpu-gomp==$version onednn-devel-cpu-gomp==$version
  : > "$venv/made-for-$version"
fi
{
  tools/check_build_folder.sh $folder &&
    cmake -S . -B $folder -G Ninja -DCMAKE_BUILD_TYPE=Release -DOMMA_TESTS=ON \
      -DOMMA_DNNL_LIBRARY="$venv/lib/libdnnl.so.3" -DOMMA_DNNL_INCLUDE="$venv/include" &&
    ninja -C $folder $tests
} > build/log-onednn3 2>&1 || { cat build/log-onednn3; exit 1; }
exec ctest --test-dir $folder --output-on-failure -R "^($(echo $tests | tr ' ' '|'))\$" "$@"
