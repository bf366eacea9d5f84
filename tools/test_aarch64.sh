#!/bin/sh
# Builds everything for 64-bit ARM with a cross compiler and Debian's libraries for arm64 (below
# build, without root) and runs the C tests under qemu: on a CPU of each level, which has no
# instructions of a higher one, what a level changes, `omma info`, `omma verify` and an answer of
# the demo model; all others once. Fewer cases of the same kinds than `make test` has
# (OMMA_TEST_SMALL). Arguments go to ctest. --attention first: the attention operator, at all
# levels, and all kernels, which need no libraries.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_aarch64.sh [--attention] [CTEST_ARGUMENTS]"; exit 0 ;;
esac
mkdir -p build
export OMMA_TEST_SMALL=1 OMMA_TEST_EMULATED=1

if [ "${1:-}" = --attention ]; then
  shift
  tools/install_packages.sh aarch64
  folder=build/aarch64_attention
  {
    tools/check_build_folder.sh $folder &&
      cmake -S . -B $folder -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -DOMMA_TESTS=ON -DOMMA_ATTENTION_ONLY=ON &&
      ninja -C $folder
  } > build/log-aarch64 2>&1 || { cat build/log-aarch64; exit 1; }
  QEMU_CPU=max ctest --test-dir $folder -j 2 --output-on-failure "$@"
  exit
fi

tools/build_aarch64.sh all
failed=

# NAME CTEST_ARGUMENTS...
run() {
  name=$1
  shift
  echo "== $name"
  ctest --test-dir build/aarch64 -j 2 --output-on-failure "$@" || failed="$failed
  $name"
}

# PROGRAM_ARGUMENTS...: the program, with what it prints in build/log-aarch64-omma.
omma() {
  qemu-aarch64 -L build/aarch64-root build/aarch64/omma "$@" > build/log-aarch64-omma 2>&1
}

# The level is that of the emulated CPU by itself.
informs() {
  omma info && grep -q "cpu level  *$1\$" build/log-aarch64-omma
}

verifies() {
  omma verify
}

answers() {
  omma chat --model models/demo --image models/demo/images/cross.png --prompt 'Where is the orange cross?' &&
    grep -q '"orange cross"' build/log-aarch64-omma
}

# Tests of what a level changes that compute with no integer weights, which alone have kernels of
# their own at neon_dotprod: there they would run neon's code again.
floats="test_attention.*|test_linear|test_tower|test_vision_run|test_decoder_run|test_decoder_kinds|test_prompt_scores"
floats="$floats|test_golden_stages|test_golden_bf16|test_engine|test_engine_images|test_engine_encoder_only|test_engine_queue"
floats="$floats|test_many_workers|test_memory_estimate"

for pair in cortex-a72:neon neoverse-n1:neon_dotprod max:neon_bf16; do
  level=${pair#*:}
  export QEMU_CPU="${pair%:*}" OMMA_TEST_LEVEL="$level"
  except='^$'
  if [ "$level" = neon_dotprod ]; then
    except="^($floats)\$"
    echo "left out at $level, which has neon's code for what they test: $floats"
  fi
  run "what a level changes, at $level" -L '^by-level$' -E "$except" "$@"
  for what in informs verifies answers; do
    if $what "$level"; then
      echo "the program $what at $level"
    else
      cat build/log-aarch64-omma
      failed="$failed
  the program $what at $level"
    fi
  done
done
unset OMMA_TEST_LEVEL
export QEMU_CPU=cortex-a72
run "what no level changes" -LE '^(by-level|style|examples)$' -E '^test_kernel_options$' "$@"
echo "left out: check_* and other scripts without compiled code, which make test runs; examples and test_kernel_options,"
echo "  which start programs of the build by themselves, without qemu; of test_memory_estimate what measures memory,"
echo "  which would be the emulator's"
echo "processor time of this script, and of what it ran:"
times
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
