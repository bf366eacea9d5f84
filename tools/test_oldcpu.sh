#!/bin/sh
# Runs tests of the release build on x86-64 processors that lack its newer instructions, emulated by
# qemu, so that none leaks out of the kernels made for it: on one without AVX-512, and on one
# without AVX. An instruction that the processor lacks ends a test. Arguments go to ctest. Takes
# about four minutes of one core.
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

# One test per program and processor, in a folder of its own for ctest. The long test_attention
# would see nothing new on the second.
folder=build/oldcpu
mkdir -p $folder
on() {
  cpu=$1
  shift
  for test in "$@"; do
    echo "add_test([=[$test on $cpu]=] qemu-x86_64 -cpu $cpu $PWD/build/release/tests/$test)"
    echo "set_tests_properties([=[$test on $cpu]=] PROPERTIES TIMEOUT 1800)"
  done
}
short="test_kernels test_attention_plan test_image_resize"
{
  on Haswell test_attention $short test_golden_stages
  on Nehalem $short test_linear test_golden_stages
} > $folder/CTestTestfile.cmake
export OMMA_TEST_SMALL=1
exec ctest --test-dir $folder -j 2 --output-on-failure "$@"
