#!/bin/sh
# Builds the attention operator and its tests for 64-bit ARM with a cross compiler and runs them
# under qemu, at the levels scalar, neon and neon_bf16. Arguments go to ctest. Takes about four
# minutes of one core.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_aarch64.sh [CTEST_ARGUMENTS]"; exit 0 ;;
esac
tools/install_packages.sh aarch64
mkdir -p build
{
  tools/check_build_folder.sh build/aarch64 &&
    cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DOMMA_ATTENTION_ONLY=ON -DOMMA_TESTS=ON &&
    ninja -C build/aarch64
} > build/log-aarch64 2>&1 || { cat build/log-aarch64; exit 1; }
export OMMA_TEST_SMALL=1
exec ctest --test-dir build/aarch64 -j 2 --output-on-failure "$@"
