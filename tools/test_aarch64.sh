#!/bin/sh
# Builds everything for 64-bit ARM with a cross compiler and Debian's libraries for arm64 (below
# build, without root) and runs it under qemu on a CPU of each level: the tests of kernels, of
# linear layers over integers, weight formats, experts, attention's layouts, towers, decoders,
# engine and golden models, `omma info`, `omma verify` and an answer of the demo model. Arguments go
# to ctest. --attention first: the attention operator, at all levels, and all kernels, which need no
# libraries.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_aarch64.sh [--attention] [CTEST_ARGUMENTS]"; exit 0 ;;
esac
mkdir -p build
export OMMA_TEST_SMALL=1

if [ "${1:-}" = --attention ]; then
  shift
  tools/install_packages.sh aarch64
  folder=build/aarch64_attention
  {
    tools/check_build_folder.sh $folder &&
      cmake -S . -B $folder -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DOMMA_TESTS=ON -DOMMA_ATTENTION_ONLY=ON &&
      ninja -C $folder
  } > build/log-aarch64 2>&1 || { cat build/log-aarch64; exit 1; }
  exec ctest --test-dir $folder -j 2 --output-on-failure "$@"
fi

tests="test_cpu test_kernels test_weight_formats test_experts test_linear_int8 test_linear_integer
  test_attention_layouts test_attention_schedule test_tower test_decoder_run test_engine
  test_engine_images test_engine_encoder_only test_engine_queue test_golden_stages test_golden_bf16"
# shellcheck disable=SC2086
tools/build_aarch64.sh omma $tests

folder=build/aarch64/levels
mkdir -p $folder
# on CPU LEVEL NAME PROGRAM ARGUMENTS...: a program of the build on a CPU that has no higher level:
# instructions of one would end it.
on() {
  cpu=$1 level=$2 name=$3
  shift 3
  echo "add_test([=[$name at $level]=] qemu-aarch64 -cpu $cpu -L $PWD/build/aarch64-root $PWD/build/aarch64/$*)"
  echo "set_tests_properties([=[$name at $level]=] PROPERTIES TIMEOUT 3600 ENVIRONMENT OMMA_TEST_LEVEL=$level)"
}
{
  for pair in cortex-a72:neon neoverse-n1:neon_dotprod max:neon_bf16; do
    cpu=${pair%:*} level=${pair#*:}
    for test in $tests; do on "$cpu" "$level" "$test" "tests/$test"; done
    for command in info verify; do on "$cpu" "$level" "omma $command" "omma $command"; done
    on "$cpu" "$level" "demo answer" "omma chat --model $PWD/models/demo --image $PWD/models/demo/images/cross.png" \
      "--prompt 'Where is the orange cross?'"
    echo "set_tests_properties([=[demo answer at $level]=] PROPERTIES PASS_REGULAR_EXPRESSION [=[\"orange cross\"]=])"
  done
} | sed "s/'/\"/g" > $folder/CTestTestfile.cmake
exec ctest --test-dir $folder -j 2 --output-on-failure "$@"
