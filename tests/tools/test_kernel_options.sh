#!/bin/sh
# The kernel tester's own command line: names, patterns, and what a window's speed is compared with.
# Usage: tests/tools/test_kernel_options.sh TESTER
set -eu
tester=$1
fail() { echo "FAILED: $1"; exit 1; }

"$tester" --list | grep -qx attention_tile_f32_scalar || fail "--list lacks the scalar tile"
[ "$("$tester" --list | sort | uniq -d)" = "" ] || fail "--list names a kernel twice"

if message=$("$tester" --test 'no_such_*' 2>&1); then fail "a pattern without a kernel passed"; fi
case $message in *"no_such_*"*--list*) ;; *) fail "found: $message" ;; esac

refused() {
  expected=$1
  shift
  if message=$("$tester" "$@" 2>&1); then fail "$* passed"; fi
  case $message in "$expected"*usage:*) ;; *) fail "found: $message" ;; esac
}
refused "test_kernels: no option --no-such-option" --no-such-option
refused "test_kernels: no option --no-such-option" --no-such-option 3
refused "test_kernels: --rounds: a value is missing" --rounds
refused "test_kernels: --rounds: not a value for it: 0" --rounds 0

# Of a window where this machine has one, next to the plain tiles of its level and the scalar one:
# all others would take seconds. Columns from the right: times scalar, then the shape "R
# rows, N keys, D d".
compared() {
  "$tester" --rounds 1 --bench --seconds 0 --test "$1" | sed -n 's/^attention_window_bf16_.* ok .* \([^ ]*\)  [0-9]* rows.*/\1/p'
}
if "$tester" --rounds 1 --test 'attention_window_bf16_*' 2>&1 | grep -q '^attention_window_bf16_.* ok '; then
  case $(compared 'attention_[tw]i*[ew]_bf16_[sa]*[r6]') in 0.0 | - | "") fail "the window is not compared with the scalar tile" ;; esac
  [ "$(compared 'attention_window_*')" = - ] || fail "compared with a time that was not taken"
else
  echo "left out: windows are compared with tiles only where the CPU has a window kernel (avx512_bf16)"
fi
