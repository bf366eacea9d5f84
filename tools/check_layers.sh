#!/bin/sh
# Checks the rules of this tree that a compiler does not: who includes whom, where a family's name
# may stand, which symbols and functions are used, that public headers stand alone, and plain style.
# One line per violation. The awk and sh programs below stand in single quotes on purpose.
# shellcheck disable=SC2016
set -u
LC_ALL=C
export LC_ALL

usage() {
  cat <<'TEXT'
usage: tools/check_layers.sh [--root DIR] [--build DIR]

Prints one line per violation, "file:line: rule: what", and exits with 1 when there is any, 2 on a usage error.

  --root DIR   the tree to check (default: the one this script lies in)
  --build DIR  where the libraries were built; the symbol rules are skipped for libraries that are not there and for
               --build none (default: build/release under the root)

Environment: CC and CXX compile the public headers (default cc and c++).

Rules:
  include       folders of src/ include one way only, by "folder/file.h" or <omma/file.h>
  handle        src/engine has no pointers to float: what is computed stays in the runner
  circle        no headers that include each other, directly or by way of others
  intrinsics    intrinsics headers only in src/kernels
  family        a model family's name (src/families/family.h lists them) only in src/families, never in the rest of src/ or
                in include/
  symbol        global symbols start with omma_ or ommai_, exported ones with omma_; no writable static data
                (but what jansson's hooks, which have no argument, need: base/json_parse.c; and a process's answer
                about AMX, and the place of its trial: kernels/x86/amx_ready.c, amx_self_test.c)
  header        each public header compiles alone as C11 and C++17
  once          our own headers begin with #pragma once, which no move or new name of a file can make wrong; public ones,
                which any compiler reads, have guards
  banned        functions that overflow, exit, print, allocate or read the environment where that is not allowed
  whitespace    no tabs, no trailing blanks, a newline at the end
  marker        no notes about unfinished work
  dead-code     no commented-out code, no #if 0
  mention       no paths of a developer's machine
  length        no source of more than 700 lines, and outside tests no function of more than 45, from the line of its name to
                the closing brace in column 1
  name          file names in src/ are snake_case and unique
  flags         nothing that gives up exact arithmetic or the common CPU by default
TEXT
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 2
build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --root) [ $# -ge 2 ] || { usage >&2; exit 2; }; root=$2; shift 2 ;;
    --build) [ $# -ge 2 ] || { usage >&2; exit 2; }; build=$2; shift 2 ;;
    *) echo "check_layers: unknown argument: $1" >&2; usage >&2; exit 2 ;;
  esac
done
cd -- "$root" || exit 2
if [ ! -d src ] || [ ! -d include ]; then
  echo "check_layers: $root: no src/ and include/ there" >&2
  exit 2
fi

# existing NAME...: those of the names that are there.
existing() {
  for name in "$@"; do
    if [ -e "$name" ]; then echo "$name"; fi
  done
}

# The folders with our own sources, and those with any text of ours. Test data comes from elsewhere.
code_folders=$(existing src include examples tests bench fuzz tools python CMakeLists.txt cmake Makefile)
text_folders=$(existing src include examples tests bench fuzz tools python CMakeLists.txt cmake Makefile docs deploy .github \
  CMakePresets.json README.md CHANGELOG.md CONTRIBUTING.md)

# in_files FOLDERS EXPRESSION...: find over the files of the folders (one per line), test data left
# out.
in_files() {
  folders=$1
  shift
  # The folder names hold no blanks; splitting them is wanted.
  # shellcheck disable=SC2086
  find $folders \( -path tests/data -o -name __pycache__ -o -name node_modules \) -prune -o -type f "$@"
}

# Everything about C that can be seen line by line. Comments and strings are taken apart first, so
# that words in them do not count as code.
c_rules='
BEGIN {
  allowed["base"] = "base"
  allowed["kernels"] = "base kernels"
  allowed["attention"] = "base kernels attention"
  allowed["linear"] = "base kernels linear"
  allowed["machine"] = "base kernels linear machine"
  allowed["vision"] = "base kernels attention linear image vision"
  allowed["language"] = "base kernels attention linear language"
  allowed["image"] = "base kernels image"
  allowed["weights"] = "base weights"
  allowed["text"] = "base text"
  allowed["grammar"] = "base text grammar"
  allowed["jinja"] = "base text jinja"
  allowed["families"] = "base kernels attention linear vision language image weights text jinja families"
  allowed["model"] = allowed["families"] " grammar model"
  allowed["request"] = "base text grammar families model request"
  allowed["runner"] = "base model runner"
  allowed["runner/cpu_"] = allowed["model"] " runner"
  allowed["engine"] = "base text grammar model request runner engine"
  allowed["scores"] = "base scores"
  allowed["image_out"] = "base image image_out"
  allowed["bench_client"] = "base image text image_out bench_client"
  allowed["reading"] = "base families image image_out reading"
  allowed["server"] = "base image_out reading server"
  allowed["cli"] = "base cli image_out reading scores"
  allowed["bench"] = "base cli bench bench_client"
  for (folder in allowed) {
    count = split(allowed[folder], list, " ")
    for (i = 1; i <= count; i++) may_include[folder, list[i]] = 1
  }
  for (folder in allowed) library[folder] = 1
  delete library["server"]; delete library["cli"]; delete library["bench"]; delete library["bench_client"]; delete library["reading"]; delete library["image_out"]; delete library["scores"]
  unsafe = "strcpy|strcat|sprintf|vsprintf|gets|strtok|atoi|atol|atoll|atof|alloca|system|popen|rand|srand"
  quiet = "abort|exit|_exit|quick_exit|assert|printf|vprintf|puts|putchar|perror"
  heap = "malloc|calloc|realloc|free"
  before = "(^|[^A-Za-z0-9_.>])("
  after = ")[ \t]*\\("
  marker = "(^|[^A-Za-z0-9_])(TO" "DO|FIX" "ME|X" "XX)([^A-Za-z0-9_]|$)"
}
function report(rule, what) { printf "%s:%d: %s: %s\n", FILENAME, FNR, rule, what }
function check_length() { if (lines > 700) printf "%s:701: length: %d lines, at most 700 are allowed\n", file, lines }
function start_file(part) {
  check_length()
  file = FILENAME
  in_comment = 0
  function_start = 0
  split(file, part, "/")
  top = part[1]
  folder = top == "src" ? part[2] : ""
  if (folder == "runner" && part[3] ~ /^cpu_/) folder = "runner/cpu_"
}
# Puts the line into code and comment; strings and characters leave empty quotes in the code.
function take_apart(rest) {
  code = ""
  comment = ""
  while (rest != "") {
    if (in_comment) {
      at = index(rest, "*/")
      if (!at) { comment = comment rest; return }
      comment = comment substr(rest, 1, at - 1)
      rest = substr(rest, at + 2)
      in_comment = 0
    } else if (match(rest, /["\047]|\/\*|\/\//)) {
      code = code substr(rest, 1, RSTART - 1)
      start = substr(rest, RSTART, RLENGTH)
      rest = substr(rest, RSTART + RLENGTH)
      if (start == "//") { comment = comment rest; return }
      if (start == "/*") { in_comment = 1; continue }
      if (start == "\"") literal = match(rest, /^([^"\\]|\\.)*"/); else literal = match(rest, /^([^\047\\]|\\.)*\047/)
      if (!literal) return
      code = code start start
      rest = substr(rest, RLENGTH + 1)
    } else {
      code = code rest
      return
    }
  }
}
function check_include(line, path, quoted, target, slash) {
  if (!match(line, /["<][^">]*[">]/)) return
  quoted = substr(line, RSTART, 1) == "\""
  path = substr(line, RSTART + 1, RLENGTH - 2)
  if (folder != "kernels" && FILENAME !~ /tests\/amx\// && path ~ /(^|\/)([a-z]*mmintrin|immintrin|x86intrin|x86gprintrin|arm_neon|arm_sve|arm_sme|arm_bf16|arm_fp16|arm_acle)\.h$/)
    report("intrinsics", path " outside src/kernels")
  if (top == "include") {
    if (quoted) report("include", "a public header includes " path)
    return
  }
  if (top != "src" || (!quoted && path !~ /^omma\//)) return
  slash = index(path, "/")
  target = slash ? substr(path, 1, slash - 1) : ""
  if (target == "omma" && !quoted) return
  if (target == "omma") report("include", path " is public: write <" path ">")
  else if (target == "" || target == ".." || target == ".") report("include", path ": write \"folder/file.h\", relative to src")
  else if (!(folder in allowed)) report("include", "folder src/" folder " is not in the list of layers")
  else if (folder == "engine" && path ~ /^runner\/cpu_/ && file !~ /^src\/engine\/(engine_api|memory_estimate)\.c$/)
    report("include", path " is the inside of a runner: the engine speaks to runner/runner.h")
  else if (folder == "linear" && path == "weights/stored_matrix.h") return
  else if (folder == "cli" && (path == "server/server.h" || path == "server/api/batch_request.h" || path == "server/api/batch_slots.h" || path == "server/api/page_loop.h" || path == "server/publish/encoding_store.h" || path == "server/publish/kv_publisher.h")) return
  else if (!((folder, target) in may_include)) report("include", folder " must not include " path)
}
# Names one banned function of the line; "names" is an alternation.
function check_banned(names, why, word) {
  if (!match(code, before names after)) return
  word = substr(code, RSTART, RLENGTH)
  gsub(/[^A-Za-z0-9_]/, "", word)
  report("banned", word ": " why)
}
# Sources are formatted: a function begins with a name and a parenthesis in column 1 and ends
# with a brace there; types and tables end with "};".
function check_function() {
  if (code ~ /^[A-Za-z_]/) function_start = code ~ /\(/ && code !~ /;[ \t]*$/ ? FNR : 0
  if (code !~ /^}/) return
  if (code ~ /^}[ \t]*$/ && function_start && FNR - function_start + 1 > 45)
    printf "%s:%d: length: a function of %d lines, at most 45 are allowed\n", file, function_start, FNR - function_start + 1
  function_start = 0
}
FNR == 1 { start_file() }
{
  lines = FNR
  if (index($0, "\t")) report("whitespace", "tab")
  if ($0 ~ /[ \t\r]$/) report("whitespace", "trailing blank")
  if ($0 ~ marker) report("marker", "unfinished work noted")
  was_comment = in_comment
  take_apart($0)
  if (!was_comment && $0 ~ /^[ \t]*#[ \t]*include/) check_include($0)
  if (code ~ /^[ \t]*#[ \t]*if[ \t]+0[ \t]*$/) report("dead-code", "#if 0")
  if (file ~ /\.c$/ && comment ~ /^[ \t*]*((if|for|while|return|else|break|continue)[^a-z].*|[A-Za-z_][A-Za-z0-9_.>\[\]-]*[ ]?([-+*\/|&]?=[^=].*|\([^;]*\)));[ \t]*$/)
    report("dead-code", "a comment that reads like code")
  if (top != "tests") check_function()
  if (top != "src") next
  check_banned(unsafe, "not allowed in src")
  if (folder == "engine" && code ~ /(^|[^A-Za-z0-9_])float[ \t]*(const[ \t]*)?\*/) report("handle", "the engine holds no numbers of a runner")
  if (file !~ /^src\/(kernels\/cpu|cli\/core\/paths|cli\/serve\/serve_settings|cli\/serve\/service_manager)\.c$/) check_banned("getenv|secure_getenv|setenv|putenv", "settings are flags and arguments")
  if (folder in library) {
    if (file != "src/base/assert.h") check_banned(quiet, "a library neither prints nor ends the process")
    check_banned("fprintf|vfprintf|fputs|dprintf", "a library does not print")
    if (file != "src/base/allocator.c") check_banned(heap, "memory comes from the allocator of the caller")
  }
}
END { check_length() }
'

check_c() {
  in_files "$(existing src include examples tests bench fuzz python)" \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.cpp' \) \
    -exec awk "$c_rules" {} +
}

# tsort writes one line for each circle, then one for each header in it, to its standard error.
check_circles() {
  in_files "$(existing src include)" -name '*.h' -exec awk '
    /^[ \t]*#[ \t]*include/ && match($0, /["<][^">]*[">]/) {
      path = substr($0, RSTART + 1, RLENGTH - 2)
      print FILENAME, (path ~ /^omma\// ? "include/" : "src/") path
    }' {} + | sort | tsort 2>&1 >/dev/null | awk '
    /contains a loop/ { if (line) print line; line = ""; next }
    { line = line ? line " " $2 : $2 ":1: circle: headers include each other: " $2 }
    END { if (line) print line }'
}

# Scripts, build files and pages: the rules that need no knowledge of the language. A Makefile needs
# its tabs.
check_other_sources() {
  in_files "$code_folders" \( -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.js' \
    -o -name '*.css' -o -name '*.html' -o -name '*.toml' -o -name '*.y*ml' \) -exec awk '
    function report(rule, what) { printf "%s:%d: %s: %s\n", FILENAME, FNR, rule, what }
    index($0, "\t") { report("whitespace", "tab") }
    /[ \t\r]$/ { report("whitespace", "trailing blank") }
    /(^|[^A-Za-z0-9_])(TO[D]O|FIX[M]E|X[X]X)([^A-Za-z0-9_]|$)/ { report("marker", "unfinished work noted") }' {} +
}

check_last_newline() {
  in_files "$code_folders" \( -name '*.[ch]' -o -name '*.cc' -o -name '*.cpp' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' \
    -o -name CMakeLists.txt -o -name Makefile -o -name '*.js' -o -name '*.css' -o -name '*.html' \) -size +0 -exec sh -c '
    for file do
      if [ -n "$(tail -c 1 "$file")" ]; then
        printf "%s:%d: whitespace: no newline at the end\n" "$file" "$(($(wc -l <"$file") + 1))"
      fi
    done' sh {} +
}

# The words are those of the list of families; a tree without one has none.
check_family_names() {
  list=src/families/family.h
  [ -f "$list" ] || return 0
  pattern=$(sed -n 's/^ *X([a-z0-9_]*, "\([a-z ]*\)").*/\1/p' "$list" | tr ' ' '\n' | sort -u | paste -s -d '|' -)
  if [ -z "$pattern" ]; then
    echo "$list:1: family: no list of families, as X(model_type, \"words\")"
    return 0
  fi
  in_files "src include" ! -path 'src/families/*' -exec grep -HnoiE -I "$pattern" {} + |
    sed -E 's/^([^:]*:[0-9]+):(.*)$/\1: family: "\2" outside src\/families/'
  in_files "src include" ! -path 'src/families/*' -print | grep -iE "$pattern" | sed 's/$/:1: family: a family in the file name/'
}

# A name in capitals that ends in _H belongs to a guard.
check_once() {
  in_files "$(existing src tests fuzz)" -name '*.h' -exec grep -HnE '^#(ifndef|define) [A-Z0-9_]+_H$' {} + |
    sed -E 's/^([^:]*:[0-9]+):.*$/\1: once: write #pragma once instead of a guard/'
  [ ! -d include ] || in_files include -name '*.h' -exec grep -Hn '^#pragma once' {} + |
    sed -E 's/^([^:]*:[0-9]+):.*$/\1: once: a public header has a guard/'
}

check_mentions() {
  in_files "$text_folders" -exec grep -HnoE -I '(^|[^A-Za-z0-9_.~/-])(/[w]ork(/|[^A-Za-z0-9_-]|$)|shared/([d]esign|[t]ools))' {} + |
    sed -E 's/^([^:]*:[0-9]+):.*$/\1: mention: a path of a developer machine/'
}

check_flags() {
  in_files "$(existing src include tests CMakeLists.txt cmake Makefile CMakePresets.json)" \
    \( -name 'CMake*' -o -name '*.cmake' -o -name Makefile -o -name '*.[ch]' \) -exec awk '
    { line = $0 }
    FILENAME !~ /\.[ch]$/ { sub(/(^|[ \t])#.*/, "", line) }
    match(line, /-[f]fast-math|-[O]fast|-[f]unsafe-math-optimizations|-[f]associative-math|-[m](arch|cpu|tune)=native|optimize *\(.*fast-math/) {
      printf "%s:%d: flags: %s\n", FILENAME, FNR, substr(line, RSTART, RLENGTH)
    }' {} +
}

check_names() {
  in_files src \( -name '*.c' -o -name '*.h' \) -print | sort | awk -F/ '
    $NF !~ /^[a-z][a-z0-9_]*\.[ch]$/ { print $0 ":1: name: file names are snake_case" }
    $NF in seen { print $0 ":1: name: " seen[$NF] " has the same name" }
    { seen[$NF] = $0 }'
}

# compile_alone LANGUAGE STANDARD COMPILER HEADER: the first complaint of the compiler, as a
# violation.
compile_alone() {
  message=$(printf '#include <%s>\n' "${4#include/}" |
    "$3" -x "$1" -std="$2" -fsyntax-only -pedantic -Wall -Wextra -Werror -Iinclude - 2>&1) && return
  printf '%s:1: header: does not compile alone as %s: %s\n' "$4" "$2" \
    "$(printf '%s\n' "$message" | grep -m 1 -E 'error|not found' || printf '%s\n' "$message" | head -n 1)"
}

check_headers() {
  find include -name '*.h' | sort | while IFS= read -r header; do
    compile_alone c c11 "${CC:-cc}" "$header"
    compile_alone c++ c++17 "${CXX:-c++}" "$header"
  done
}

# Global symbols of a static library, and the sections that the program writes to. Constant tables
# with addresses in them lie in .data.rel.ro, which is read-only after the start. DW.ref. are the
# compiler's own, for catching exceptions.
check_static_library() {
  nm -A -g --defined-only "$1" 2>/dev/null | awk -v library="$1" '
    { split($1, place, ":") }
    $NF !~ /^(omma_|ommai_|DW\.ref\.)/ { print library ":0: symbol: global " $NF " in " place[2] ": expected omma_ or ommai_" }'
  objdump -t "$1" 2>/dev/null | awk -v library="$1" '
    / file format / { object = $1; sub(/:$/, "", object) }
    NF >= 5 && $3 == "O" || $4 == "O" || / \*COM\*/ {
      if ($0 ~ / (\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && $0 !~ / \.data\.rel\.ro/ && object !~ /^(json_parse|amx_ready|amx_self_test)\.c\./ &&
          $NF !~ /^DW\.ref\./)
        print library ":0: symbol: writable static data " $NF " in " object
    }'
}

check_symbols() {
  [ "$build" != none ] || return 0
  for library in libomma libomma-attention; do
    if [ -f "$build/$library.a" ]; then check_static_library "$build/$library.a"; fi
    if [ -f "$build/$library.so" ]; then
      nm -D --defined-only "$build/$library.so" | awk -v library="$build/$library.so" '
        $NF !~ /^omma_/ { print library ":0: symbol: exported " $NF ": expected omma_" }'
    fi
  done
}

violations=$(
  check_c
  check_circles
  check_other_sources
  check_last_newline
  check_family_names
  check_once
  check_mentions
  check_flags
  check_names
  check_headers
  check_symbols
)
[ -n "$violations" ] || exit 0
printf '%s\n' "$violations"
printf 'check_layers: violations: %d\n' "$(printf '%s\n' "$violations" | wc -l)" >&2
exit 1
