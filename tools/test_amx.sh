#!/bin/sh
# Runs the level amx on a CPU without AMX: builds with C code in place of its instructions
# (tests/amx/README.md) and runs at that level the tests of what a level changes: kernels, linear
# layers, attention, towers and decoders cut in every way, the engine's batches, the golden models.
# Arguments go to ctest. --asan first: the same under ASan and UBSan, fewer cases.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_amx.sh [--asan] [CTEST_ARGUMENTS]"; exit 0 ;;
esac
if [ "$(uname -m)" != x86_64 ] || ! grep -q avx512_vnni /proc/cpuinfo; then
  echo "tools/test_amx.sh: not an x86-64 machine with AVX-512 and VNNI" >&2
  exit 2
fi
variant=amx_model
if [ "${1:-}" = --asan ]; then
  shift
  variant=asan_amx_model
  export OMMA_TEST_SMALL=1
fi
mkdir -p build
make --no-print-directory TESTS=ON $variant > build/log-amx 2>&1 || { cat build/log-amx; exit 1; }

export OMMA_ISA=amx OMMA_TEST_LEVEL=amx
exec ctest --test-dir build/$variant -j 2 --output-on-failure -L '^by-level$' "$@"
