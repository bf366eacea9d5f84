#!/bin/sh
# Runs tests of the release build on x86-64 processors that lack its newer instructions, emulated by qemu, so that none leaks out of
# the kernels made for it: on one without AVX-512, and on one without AVX. An instruction that the processor lacks ends a test.
# Arguments go to ctest. Takes about three minutes of one core.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_oldcpu.sh [CTEST_ARGUMENTS]"; exit 0 ;;
esac
if [ "$(uname -m)" != x86_64 ]; then
  echo "tools/test_oldcpu.sh: not an x86-64 machine" >&2
  exit 2
fi
tools/install_packages.sh oldcpu
make --no-print-directory TESTS=ON release > build/log-oldcpu 2>&1 || { cat build/log-oldcpu; exit 1; }

# One test per program and processor, in a folder of its own for ctest.
folder=build/oldcpu
mkdir -p $folder
for cpu in Haswell Nehalem; do
  for test in test_attention test_attention_kernels test_attention_plan test_row_ops test_image_resize; do
    echo "add_test([=[$test on $cpu]=] qemu-x86_64 -cpu $cpu $PWD/build/release/tests/$test)"
    echo "set_tests_properties([=[$test on $cpu]=] PROPERTIES TIMEOUT 900)"
  done
done > $folder/CTestTestfile.cmake
exec ctest --test-dir $folder -j 2 --output-on-failure "$@"
