#!/bin/sh
# Fuzzes what reads hostile input: specs of the attention operator, requests, model directories,
# quantised ones, images, tokenizers, texts, replies, chat templates, schemas and patterns, tool
# calls, answers about documents, and a whole server's connections. With clang the targets are built
# for libFuzzer under the address and undefined behaviour sanitizers; without, with gcc's and a
# driver that mutates at random. New inputs that reach new code are kept in build/fuzz/corpus. Ends
# with one line 'N passed, N failed'.
set -u
cd "$(dirname "$0")/.."
targets="attention_plan attention_run chat chat_template gguf gguf_model grammar http bench_client model image quantized reading redis_reply request safetensors sampler terminal text tokenizer tool_calls"
usage="usage: tools/fuzz.sh [--seconds N] [TARGET...]
  --seconds N  for each target (default 600); two targets run at a time
  TARGET       $targets (default: all)"
seconds=600
case "${1:-}" in
  --help | -h) echo "$usage"; exit 0 ;;
  --seconds) [ $# -ge 2 ] || { echo "$usage" >&2; exit 2; }; seconds=$2; shift 2 ;;
esac
# The names hold no blanks; splitting them is wanted.
# shellcheck disable=SC2086
[ $# -gt 0 ] || set -- $targets
seed=$(date +%s)

folders_of() {
  case " $targets " in *" $1 "*) ;; *) echo "tools/fuzz.sh: no target $1" >&2; return 2 ;; esac
  if [ -d "fuzz/corpus/$1" ]; then echo "fuzz/corpus/$1"; fi
  case $1 in
    chat_template) echo "tests/data/chat/templates tests/data/chat/published tests/data/chat/own" ;;
    gguf) echo "tests/data/gguf" ;;
    safetensors) echo "tests/data/weights tests/data/weights/sharded" ;;
    image) echo "tests/data/image" ;;
    tokenizer) echo "tests/data/text/capitals tests/data/text/digits tests/data/text/plain tests/data/text/marked" ;;
  esac
}
for target in "$@"; do folders_of "$target" > /dev/null || exit 2; done

tools/install_packages.sh fuzz || echo "going on without clang"
mkdir -p build
if command -v clang > /dev/null; then
  kind=libFuzzer
  flags="-DCMAKE_C_COMPILER=clang -DOMMA_FUZZ=ON"
else
  kind=driver
  flags=-DOMMA_TESTS=ON
fi
{
  tools/check_build_folder.sh build/fuzz &&
    cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DOMMA_SANITIZE=address,undefined -DOMMA_TESTS=OFF $flags &&
    ninja -C build/fuzz $(printf ' fuzz_%s' "$@")
} > build/log-fuzz 2>&1 || { cat build/log-fuzz; echo "0 passed, 1 failed"; exit 1; }
echo "$kind, seed $seed, $seconds s for each of: $*"

export LSAN_OPTIONS="suppressions=$PWD/tests/support/leaks.supp:print_suppressions=0"

# Runs one target; its failing input stays in its folder.
run() {
  folder=build/fuzz/run-$1
  mkdir -p "build/fuzz/corpus/$1" "$folder"
  root=$PWD
  inputs=$root/build/fuzz/corpus/$1
  for name in $(folders_of "$1"); do inputs="$inputs $root/$name"; done
  words=
  if [ -f "fuzz/$1.dict" ]; then words=-dict=$root/fuzz/$1.dict; fi
  if [ $kind = libFuzzer ]; then
    (cd "$folder" && "$root/build/fuzz/fuzz/fuzz_$1" -seed="$seed" -max_total_time="$seconds" -max_len=65536 -timeout=60 \
      -rss_limit_mb=4096 -verbosity=0 -print_final_stats=1 $words $inputs) > "$folder/log" 2>&1
  else
    (cd "$folder" && "$root/build/fuzz/fuzz/fuzz_$1" --seed "$seed" --seconds "$seconds" $inputs) > "$folder/log" 2>&1
  fi
}

passed=0
failed=0
report() {
  if [ "$2" -eq 0 ]; then
    passed=$((passed + 1))
    echo "fuzz_$1: $(sed -n 's/^stat::number_of_executed_units: *\([0-9]*\)/\1 inputs/; /^[0-9]* inputs$/p' "build/fuzz/run-$1/log")"
  else
    failed=$((failed + 1))
    echo "fuzz_$1: FAILED; log and input are in build/fuzz/run-$1"
    tail -n 40 "build/fuzz/run-$1/log"
  fi
}
while [ $# -gt 0 ]; do
  run "$1" &
  first=$!
  if [ $# -gt 1 ]; then
    run "$2"
    report "$2" $?
  fi
  wait $first
  report "$1" $?
  if [ $# -gt 1 ]; then shift; fi
  shift
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
