#!/bin/sh
# Plants violations of every rule of tools/check_layers.sh in a small tree and expects exactly the
# right lines; a tree full of things that only look like violations must pass.
set -u
LC_ALL=C
export LC_ALL

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
check=$here/../../tools/check_layers.sh
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
failed=0

# file PATH TEXT: writes a file; TEXT is for printf %b, so that this script does not hold the
# violations itself.
file() {
  mkdir -p "$tree/$(dirname "$1")"
  printf '%b' "$2" >"$tree/$1"
}

# plant PATH TEXT EXPECTED...: a file and the lines, without its path, that the check must print
# about it.
plant() {
  path=$1
  file "$1" "$2"
  shift 2
  for line in "$@"; do printf '%s:%s\n' "$path" "$line" >>"$tree/expected"; done
}

# run_check: the output of the check into $tree/found, its status into $status.
run_check() {
  "$check" --root "$tree" "$@" >"$tree/found" 2>"$tree/messages"
  status=$?
}

expect_status() {
  if [ "$status" -ne "$1" ]; then
    echo "FAILED: $2: expected exit status $1, found $status"
    cat "$tree/found" "$tree/messages"
    failed=1
  fi
}

# expect_lines NAME: found and expected lines are the same, in any order.
expect_lines() {
  sort "$tree/expected" >"$tree/expected.sorted"
  sort "$tree/found" >"$tree/found.sorted"
  if ! diff -u "$tree/expected.sorted" "$tree/found.sorted"; then
    echo "FAILED: $1: lines with - were expected and not found, lines with + found and not expected"
    failed=1
  fi
}

clean_tree() {
  rm -rf "${tree:?}"/*
  : >"$tree/expected"
  file CMakeLists.txt 'add_compile_options(-O3) # never -ffast-math\n'
  file include/omma/status.h '#ifdef __cplusplus\nextern "C" {\n#endif\nint omma_a(void);\n#ifdef __cplusplus\n}\n#endif\n'
  file src/base/error.h '/* Nothing. */\n'
  file src/families/family.h '#define LIST(X) \\\n  X(qwen9_vl, "qwen") \\\n  X(kimi_vl, "kimi moonvit deepseek")\n'
}

clean_tree
file src/kernels/x86/dot_avx2.c '#include <immintrin.h>\n#include "kernels/cpu.h"\n'
file src/kernels/cpu.c 'const char *level(void) { return getenv("OMMA_ISA"); }\n'
file src/linear/linear.c '#include <stdio.h>\n\n#include "base/error.h"\n#include "kernels/cpu.h"\n'
file src/engine/engine_api.c '#include "runner/cpu_runner.h"\n#include "runner/runner.h"\nfloat share;\n'
file src/runner/cpu_steps.c '#include "language/decode.h"\n#include "vision/vision_run.h"\n'
file src/image/resize.c '#include <omma/status.h>\n\n#include "base/error.h"\n#include "kernels/cpu.h"\n'
file src/families/qwen.c '/* Qwen and Kimi. */\n#include "vision/block.h"\n#include "weights/tensor.h"\n#include "text/bpe.h"\n'
file src/cli/main.c '#include "server/server.h"\nint main(void) { printf("x"); exit(1); }\n'
file src/bench/bench_main.c '#include "bench_client/client.h"\n#include "cli/core/options.h"\nint main(void) { printf("x"); exit(1); }\n'
file src/text/words.c '/* strcpy(a, b) is not used; see\n * sprintf (n); #include "engine/x.h" */\nconst char *s = "atoi(x) // */ \\" gets(y)";\nchar c = \047"\047;\nint n = snprintf(b, 2, "x") + object->free(p) + object.exit(1) + my_rand(); /* half;\n * of x = y */\n'
file src/base/assertion.h '_Static_assert(sizeof(int) == 4, "int");\n'
file tests/unit/test_x.c 'void t(void) { strcpy(a, b); printf("x"); } /* XXXXXX, mastodon */\n'
file tests/data/config.json '{"TO\0104O": "\057work/x\t"}  '
file docs/qwen.md 'Qwen, see docs\057work/x, https://example.org\057work/ and \057workspace\n'
file src/text/outer.h '#include "text/middle.h"\n#include "text/inner.h"\n'
file src/text/middle.h '#include "text/inner.h"\n'
file src/text/inner.h '#include <omma/status.h>\n'
file src/base/full.c "$(printf '%0700d' 0 | sed 's/0/int x;\\n/g')"
file src/base/long.c "int g(void) {\n$(printf '%043d' 0 | sed 's/0/  x(1);\\n/g')}\nstruct s table[] = {X(\n$(printf '%050d' 0 | sed 's/0/  1,\\n/g')};\n"
file tests/unit/test_long.c "void t(void) {\n$(printf '%050d' 0 | sed 's/0/  x(1);\\n/g')}\n"
file Makefile 'all:\n\ttrue\n'
run_check
expect_status 0 "clean tree"
expect_lines "clean tree"

clean_tree
plant src/kernels/a.c '#include "attention/plan.h"\n' '1: include: kernels must not include attention/plan.h'
plant src/base/b.c '#include <stdio.h>\n\n#  include "kernels/cpu.h"\n' '3: include: base must not include kernels/cpu.h'
plant src/vision/c.c '#include "language/mlp.h"\n#include "weights/tensor.h"\n' \
  '1: include: vision must not include language/mlp.h' '2: include: vision must not include weights/tensor.h'
plant src/language/d.c '#include "vision/block.h"\n' '1: include: language must not include vision/block.h'
plant src/weights/e.c '#include "image/png.h"\n' '1: include: weights must not include image/png.h'
plant src/text/f.c '#include "kernels/cpu.h"\n' '1: include: text must not include kernels/cpu.h'
plant src/linear/stored.c '#include "weights/stored_matrix.h"\n#include "weights/tensor.h"\n' \
  '2: include: linear must not include weights/tensor.h'
plant src/attention/g.c '#include "linear/linear.h"\n' '1: include: attention must not include linear/linear.h'
plant src/families/h.c '#include "engine/session.h"\n' '1: include: families must not include engine/session.h'
plant src/engine/i.c '#include "server/server.h"\n' '1: include: engine must not include server/server.h'
plant src/engine/i2.c '#include "language/sampler.h"\n#include "runner/runner.h"\n#include "runner/cpu_runner.h"\n' \
  '1: include: engine must not include language/sampler.h' \
  '3: include: runner/cpu_runner.h is the inside of a runner: the engine speaks to runner/runner.h'
plant src/engine/i3.h '/* float *x; */\nfloat share, *rows(void);\nvoid f(const float *x, float y);\nfloat const *z;\n' \
  '3: handle: the engine holds no numbers of a runner' '4: handle: the engine holds no numbers of a runner'
plant src/runner/i4.h '#include "model/model.h"\n#include "language/decode.h"\n' \
  '2: include: runner must not include language/decode.h'
plant src/server/j.c '#include "engine/session.h"\n#include "cli/main.h"\n' \
  '1: include: server must not include engine/session.h' '2: include: server must not include cli/main.h'
plant src/cli/k.c '#include "server/http.h"\n#include "text/bpe.h"\n#include "bench_client/client.h"\n' \
  '1: include: cli must not include server/http.h' '2: include: cli must not include text/bpe.h' \
  '3: include: cli must not include bench_client/client.h'
plant src/bench/k2.c '#include "server/server.h"\n' '1: include: bench must not include server/server.h'
plant src/bench_client/l.c '#include "engine/session.h"\n' '1: include: bench_client must not include engine/session.h'
plant src/base/m.c '#include "error.h"\n#include "../base/error.h"\n#include "omma/status.h"\n' \
  '1: include: error.h: write "folder/file.h", relative to src' \
  '2: include: ../base/error.h: write "folder/file.h", relative to src' \
  '3: include: omma/status.h is public: write <omma/status.h>'
file src/weights/one.h '#include <omma/status.h>\n#include "weights/two.h"\n'
file src/weights/three.h '#include "base/error.h"\n#include "weights/one.h"\n'
plant src/weights/two.h '#include <stdio.h>\n#include "weights/three.h"\n' \
  '1: circle: headers include each other: src/weights/two.h src/weights/three.h src/weights/one.h'
plant src/utils/n.c '#include "base/error.h"\n' '1: include: folder src/utils is not in the list of layers'
plant src/linear/p.c '#include <immintrin.h>\n#include <arm_neon.h>\n' \
  '1: intrinsics: immintrin.h outside src/kernels' '2: intrinsics: arm_neon.h outside src/kernels'
plant tests/unit/test_p.c '#include <emmintrin.h>\n' '1: intrinsics: emmintrin.h outside src/kernels'
plant src/vision/q.c '/* as in Qwen3 */\nint is_KIMI; /* MoonViT */\n' '1: family: "Qwen" outside src/families' \
  '2: family: "KIMI" outside src/families' '2: family: "MoonViT" outside src/families'
plant src/vision/q2.c 'int llava; /* in no list */\nint qwen9;\n' '2: family: "qwen" outside src/families'
plant src/language/deepseek.c 'int x;\n' '1: family: a family in the file name'
plant src/server/r.c 'void r(void) {\n  strcpy(a, b); }\nint x = atoi(s) + rand();\nchar *h = getenv("HOME");\n' \
  '2: banned: strcpy: not allowed in src' '3: banned: atoi: not allowed in src' \
  '4: banned: getenv: settings are flags and arguments'
for name in strcat sprintf gets strtok atof alloca system popen rand; do
  plant "src/cli/use_$name.c" "int x = $name (1);\n" "1: banned: $name: not allowed in src"
done
for name in abort exit assert printf puts; do
  plant "src/engine/use_$name.c" "\nvoid f(void) { $name(1); }\n" "2: banned: $name: a library neither prints nor ends the process"
done
plant src/image/s.c 'int x = fprintf(stderr, "x");\nchar *p = malloc(3);\nvoid g(void) { free(p); }\n' \
  '1: banned: fprintf: a library does not print' '2: banned: malloc: memory comes from the allocator of the caller' \
  '3: banned: free: memory comes from the allocator of the caller'
plant src/base/t.c 'int\tx;\nint y; \nint z;\r\nint last;' '1: whitespace: tab' '2: whitespace: trailing blank' \
  '3: whitespace: trailing blank' '4: whitespace: no newline at the end'
plant tools/u.py 'x = 1 \n# FIX\0115E\n' '1: whitespace: trailing blank' '2: marker: unfinished work noted'
plant src/base/v.c '/* TO\0104O: more */\nint x; /* X\0130X */\n' '1: marker: unfinished work noted' \
  '2: marker: unfinished work noted'
plant src/base/w.c '#if 0\nint x;\n#endif\n// x = y + 1;\n/* old(a, b); */\n/* a->b[2] = 3;\n   return x; */\n' \
  '1: dead-code: #if 0' '4: dead-code: a comment that reads like code' '5: dead-code: a comment that reads like code' \
  '6: dead-code: a comment that reads like code' '7: dead-code: a comment that reads like code'
plant docs/y.md 'See \057work/x.\nsee shared\057design.\n' '1: mention: a path of a developer machine' \
  '2: mention: a path of a developer machine'
plant src/base/z.c "$(printf '%0701d' 0 | sed 's/0/int x;\\n/g')" '701: length: 701 lines, at most 700 are allowed'
plant src/base/long.c "int declared(int a,\n             int b);\nstatic int f(int a,\n             int b) {\n$(printf '%043d' 0 | sed 's/0/  x(a);\\n/g')}\n" \
  '3: length: a function of 46 lines, at most 45 are allowed'
plant src/base/guard.h '#ifndef OMMAI_GUARD_H\n#define OMMAI_GUARD_H\n#endif\n' '1: once: write #pragma once instead of a guard' \
  '2: once: write #pragma once instead of a guard'
plant include/omma/once.h '#pragma once\nint omma_once(void);\n' '1: once: a public header has a guard'
plant src/text/Upper.c 'int x;\n' '1: name: file names are snake_case'
plant src/base/same.h 'int x;\n'
plant src/text/same.h 'int x;\n' '1: name: src/base/same.h has the same name'
plant src/CMakeLists.txt 'set(F -ffast\055math)\nset(G "-O2;-march\075native")\n' '1: flags: -ffast-math' '2: flags: -march=native'
run_check --build none
expect_status 1 "planted violations"
expect_lines "planted violations"

clean_tree
file include/omma/alone.h 'size_t omma_size(void);\n'
file include/omma/c_only.h 'int omma_new(int class);\n'
run_check
expect_status 1 "headers"
for line in 'include/omma/alone.h:1: header: does not compile alone as c11: ' \
  'include/omma/alone.h:1: header: does not compile alone as c++17: ' \
  'include/omma/c_only.h:1: header: does not compile alone as c++17: '; do
  if ! grep -qF "$line" "$tree/found"; then
    echo "FAILED: headers: expected \"$line\""
    cat "$tree/found"
    failed=1
  fi
done
if grep -qF 'c_only.h:1: header: does not compile alone as c11' "$tree/found"; then
  echo "FAILED: headers: c_only.h is good C"
  failed=1
fi

clean_tree
mkdir -p "$tree/built"
file lib.c '#define API __attribute__((visibility("default")))\nint omma_a(void); int omma_a(void) { return 1; }\nint ommai_b(void); int ommai_b(void) { return 2; }\nint wrong(void); int wrong(void) { static int calls; return ++calls; }\nstatic const char *const names[] = {"a", "b"};\nconst char *ommai_c(int i); const char *ommai_c(int i) { return names[i]; }\nint ommai_d = 3;\n'
(cd "$tree" && "${CC:-cc}" -fPIC -c lib.c -o built/lib.o && ar rc built/libomma.a built/lib.o &&
  "${CC:-cc}" -shared built/lib.o -o built/libomma.so && rm built/lib.o lib.c) || exit 1
run_check --build built
expect_status 1 "symbols"
sed -E -i 's/calls\.[0-9]+/calls/' "$tree/found"
cat >"$tree/expected" <<'TEXT'
built/libomma.a:0: symbol: global wrong in lib.o: expected omma_ or ommai_
built/libomma.a:0: symbol: writable static data calls in lib.o
built/libomma.a:0: symbol: writable static data ommai_d in lib.o
built/libomma.so:0: symbol: exported ommai_b: expected omma_
built/libomma.so:0: symbol: exported ommai_c: expected omma_
built/libomma.so:0: symbol: exported ommai_d: expected omma_
built/libomma.so:0: symbol: exported wrong: expected omma_
TEXT
expect_lines "symbols"

run_check --nonsense
expect_status 2 "unknown argument"
run_check --help
expect_status 0 "help"
grep -q '^usage:' "$tree/found" || { echo "FAILED: help"; failed=1; }

exit "$failed"
