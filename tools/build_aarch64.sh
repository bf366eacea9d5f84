#!/bin/sh
# Builds targets of everything for 64-bit ARM in build/aarch64, with a cross compiler and Debian's
# libraries for arm64 (build/aarch64-root, without root): as a package of arm64 would install it,
# with the tests.
set -eu
case "${1:-}" in
  "" | --help | -h) echo "usage: tools/build_aarch64.sh TARGET..."; exit 0 ;;
esac
cd "$(dirname "$0")/.."
tools/install_packages.sh aarch64
mkdir -p build
{
  tools/aarch64_root.sh build/aarch64-root &&
    tools/check_build_folder.sh build/aarch64 &&
    cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
      -DOMMA_AARCH64_ROOT="$PWD/build/aarch64-root" -DOMMA_ATTENTION_ONLY=OFF -DOMMA_TESTS=ON \
      -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib/aarch64-linux-gnu &&
    ninja -C build/aarch64 "$@"
} > build/log-aarch64 2>&1 || { cat build/log-aarch64; exit 1; }
