#!/bin/sh
# Runs the level amx on a CPU without AMX: builds with C code in place of its instructions
# (tests/amx/README.md) and runs at that level the tests of kernels, linear layers, attention, of
# towers and decoders cut in every way, of the engine's batches, and of the golden models. Arguments
# go to ctest. Takes about two minutes of processor time once it is built.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_amx.sh [CTEST_ARGUMENTS]"; exit 0 ;;
esac
if [ "$(uname -m)" != x86_64 ] || ! grep -q avx512_vnni /proc/cpuinfo; then
  echo "tools/test_amx.sh: not an x86-64 machine with AVX-512 and VNNI" >&2
  exit 2
fi
mkdir -p build
make --no-print-directory TESTS=ON amx_model > build/log-amx 2>&1 || { cat build/log-amx; exit 1; }

folder=build/amx
mkdir -p $folder
# NAME PROGRAM ARGUMENTS...
on() {
  name=$1
  shift
  echo "add_test([=[$name at amx]=] $PWD/build/amx_model/tests/$*)"
  echo "set_tests_properties([=[$name at amx]=] PROPERTIES TIMEOUT 1800 ENVIRONMENT \"OMMA_ISA=amx;OMMA_TEST_LEVEL=amx\")"
}
{
  on test_kernels test_kernels --test '*_amx*'
  for test in test_linear test_linear_int8 test_linear_integer; do on $test $test amx; done
  for test in test_cpu test_tile_model test_weight_formats linear_accuracy \
    test_attention test_attention_window test_attention_layouts test_attention_schedule test_attention_sharing \
    test_vision_run test_tower test_experts test_decoder_run test_decoder_kinds test_prompt_scores \
    test_engine test_engine_batch test_engine_images test_engine_encoder_only test_engine_queue \
    test_golden_stages test_golden_bf16 test_golden_generate test_golden_int8 test_memory_estimate; do
    on $test $test
  done
} > $folder/CTestTestfile.cmake
exec ctest --test-dir $folder -j 2 --output-on-failure "$@"
