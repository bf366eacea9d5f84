#!/bin/sh
# Builds and runs the tests and ends with one line 'N passed, N failed'. --full adds the longer
# tiers.
set -u
cd "$(dirname "$0")/.."
full=no
case "${1:-}" in
  --full) full=yes ;;
  --help | -h) echo "usage: tools/run_tests.sh [--full]"; exit 0 ;;
  "") ;;
  *) echo "usage: tools/run_tests.sh [--full]" >&2; exit 2 ;;
esac
mkdir -p build
passed=0
failed=0

# The heading of a part; how long the one before took goes into the list that is printed in the end.
part=
part_start=0
parts=
begin() {
  now=$(date +%s)
  [ -z "$part" ] || parts="$parts$(printf '%6d s  %s' $((now - part_start)) "$part")
"
  part=$1
  part_start=$now
  [ -z "$part" ] || echo "== $part"
}

# Adds the counts of a JUnit file: tests, failures, errors, skipped of its <testsuite> elements.
count() {
  for attribute in tests failures errors skipped; do
    sum=$(tr '\n\t' '  ' < "$1" | grep -o '<testsuite [^>]*' | grep -o " $attribute=\"[0-9]*\"" | tr -dc '0-9\n' |
      awk '{s += $1} END {print s + 0}')
    eval "$attribute=\$sum"
  done
  passed=$((passed + tests - failures - errors - skipped))
  failed=$((failed + failures + errors))
}

# Where the JUnit file of the run NAME goes; there is none yet.
new_junit() {
  junit=$PWD/build/junit-$(echo "$1" | tr -c 'a-z0-9\n' '-').xml
  rm -f "$junit"
}
count_junit() {
  if [ -s "$junit" ]; then count "$junit"; else failed=$((failed + 1)); fi
}

# One ctest run, next to which others go first: NAME VARIANT ENVIRONMENT CTEST_ARGUMENTS...
ctest_niceness=5
run_ctest() {
  name=$1
  variant=$2
  setting=$3
  shift 3
  begin "$name"
  new_junit "$name"
  nice -n $ctest_niceness env $setting ctest --test-dir "build/$variant" -j 2 --output-on-failure --output-junit "$junit" "$@" || true
  count_junit
}

# A script that ends in one line 'N passed, N failed': NAME SCRIPT ARGUMENTS...
run_counted() {
  begin "$1"
  shift
  "$@" > build/log-counted 2>&1 || true
  cat build/log-counted
  line=$(tail -n 1 build/log-counted)
  case $line in
    [0-9]*" passed, "[0-9]*" failed")
      passed=$((passed + ${line%% passed*}))
      line=${line#* passed, }
      failed=$((failed + ${line%% failed}))
      ;;
    *) failed=$((failed + 1)) ;;
  esac
}

# A script that ends in one ctest run: NAME SCRIPT
run_script() {
  begin "$1"
  new_junit "$1"
  "$2" --output-junit "$junit" || true
  count_junit
}

# Fewer rounds and sizes of the same C tests (test_small() in tests/support) for runs that repeat
# what the first run does in full: lower CPU levels, sanitizers; and at lower levels only what a
# level changes. --full has all everywhere.
small=OMMA_TEST_SMALL=1
by_level='^by-level$'
# Tests of programs run in one of both builds: tests/support/builds.py. --full runs all in both.
release_part="--part release"
sanitized_part="--part sanitizers"
if [ $full = yes ]; then
  small=
  by_level='^(unit|golden|fault)$'
  release_part=
  sanitized_part=
fi

# A build, at another priority: VARIANT [NICENESS]
build() {
  begin "build $1"
  if ! nice -n "${2:-0}" make --no-print-directory TESTS=ON "$1" > "build/log-$1" 2>&1; then
    cat "build/log-$1"
    failed=$((failed + 1))
    return 1
  fi
}

# The CPU levels of this machine but the one that is used. Fails where they are not printed.
other_levels() {
  build/release/omma info --json > build/info.json && grep -q '"levels":\["' build/info.json || return
  used=$(sed -n 's/.*"operation":"cpu level","kernel":"\([^"]*\)".*/\1/p' build/info.json)
  for level in $(sed -n 's/.*"levels":\[\([^]]*\)\].*/\1/p' build/info.json | tr -d '"' | tr ',' ' '); do
    [ "$level" = "$used" ] || echo "$level"
  done
}

# The Python environments: of the tests, with pytest and real clients from PyPI, and of the page's.
# They are made while C is built and tested; what needs one waits, and makes it again in sight where
# that has failed.
has_venv() {
  [ -x build/venv/bin/pytest ] && build/venv/bin/python -c 'import aiohttp, httpx, jsonschema, ml_dtypes, msgspec, numpy, openai, PIL, prometheus_client, rfc3987, yaml, zmq' 2> /dev/null
}
has_page_venv() {
  build/venv-page/bin/python -c 'import pytest, selenium, selenium_axe_python' 2> /dev/null
}
has_browser() {
  command -v chromium > /dev/null && command -v chromedriver > /dev/null
}
# FOLDER REQUIREMENTS
create_venv() {
  python3 -m venv "$1" && "$1/bin/pip" install -q --disable-pip-version-check -r "$2"
}
prepare_venvs() {
  has_venv || create_venv build/venv tests/requirements.txt
  if has_browser; then has_page_venv || create_venv build/venv-page tests/page/requirements.txt; fi
}
make_venv() {
  wait
  has_venv && return
  begin "Python environment"
  create_venv build/venv tests/requirements.txt && return
  failed=$((failed + 1))
  return 1
}

# One pytest run: NAME PYTEST_ARGUMENTS...
run_pytest() {
  run_pytest_in build/venv "$@"
}

# The same in another environment: ENVIRONMENT NAME PYTEST_ARGUMENTS...
run_pytest_in() {
  venv=$1
  name=$2
  shift 2
  begin "$name"
  new_junit "$name"
  "$venv/bin/python" -m pytest -q -p no:cacheprovider --durations=8 --durations-min=3 --junitxml "$junit" "$@" || true
  count_junit
}

# Runs functions next to each other, each a row of pytest runs, which wait most of their time; shows
# what each said when all have ended, one after the other, and adds up their counts and times.
run_in_parallel() {
  begin ""
  # What runs in the background is deaf to the keyboard's interrupt.
  trap 'trap - INT; kill 0' INT
  for row in "$@"; do
    rm -f "build/counts-$row"
    (
      passed=0 failed=0 parts=
      "$row"
      begin ""
      printf '%s %s\n%s' "$passed" "$failed" "$parts" > "build/counts-$row"
    ) > "build/log-$row" 2>&1 &
  done
  wait
  trap - INT
  for row in "$@"; do
    cat "build/log-$row"
    if [ ! -s "build/counts-$row" ]; then
      failed=$((failed + 1))
      continue
    fi
    counts=$(head -n 1 "build/counts-$row")
    passed=$((passed + ${counts% *}))
    failed=$((failed + ${counts#* }))
    parts="$parts$(tail -n +2 "build/counts-$row")
"
  done
}

# Rows that take about as long as each other: they wait for most of their time.
servers() {
  run_pytest "server, a to d" tests/server/test_[a-d]*.py $on_release $more
  run_pytest "server, f to k" tests/server/test_[f-k]*.py $on_release $more
  if [ $full = no ]; then
    run_pytest "server, what sanitizers hinder" tests/server/test_clock.py tests/server/test_security_page.py --fake build/release/tests/omma_fake_server
    return
  fi
  run_pytest "grammars" tests/grammar --walk build/release/tests/grammar_walk $more
  run_pytest "chat templates" tests/jinja --render build/release/tests/jinja_render $more
}

more_servers() {
  run_pytest "server, e" tests/server/test_e*.py $on_release $more
  # What depends on the model, on the families that the demo model is not of; the files named here
  # are the same with any.
  ignored=
  # In the full tier those whose requests may go to any model run on these too.
  any_model="traces keys generation_config hostile_grammars engines field_types clock framing slow_clients bursts crowd openapi cross_origin
    page vllm_metrics"
  if [ $full = yes ]; then any_model=; fi
  for name in connections load http_conformance failed_calls image_flood descriptors shared_encodings hostile_images access service tls forced_bytes kv_events draft_models encoder_proxy \
    encoder_proxy_faults vectors sleep $any_model; do
    ignored="$ignored --ignore tests/server/test_$name.py"
  done
  for model in qwen2_5_vl_tied kimi_vl; do
    run_pytest "server on $model" tests/server --omma build/release/omma --model tests/golden/$model $ignored
  done
}

last_servers() {
  run_pytest "server, l to z" tests/server/test_[l-z]*.py $on_release $more
}

page_and_documents() {
  run_page
  run_pytest "commands of the documents" tests/docs --build build/release
}

programs() {
  run_pytest "serving benchmark" tests/bench_client --omma build/release/omma $release_part
  run_pytest "command line" tests/cli --omma build/release/omma $release_part $more
}

run_python() {
  make_venv || return
  more=
  on_release="--omma build/release/omma --model models/demo"
  # What only tests use, the server over a scripted engine and the walks over grammars and
  # templates, runs under sanitizers, which notice what a release build does and more.
  if [ $full = yes ]; then
    more=--full
    on_release="$on_release --fake build/release/tests/omma_fake_server"
  fi
  run_in_parallel servers more_servers last_servers programs page_and_documents
  # Health checks have their times: not next to others that compute, unless these give way at once.
  run_in_parallel deployment first_sanitized
}

deployment() {
  run_pytest "deployment files" tests/deploy --omma build/release/omma
  build python && run_pytest "python package" tests/python --tree build/python
}

# What has time while the deployment's tests wait. Threads of the golden models meet after every
# few operations: next to programs that go first, their tests take five times as long.
first_sanitized() {
  build asan 19 || return
  ctest_niceness=19
  run_ctest "golden models under sanitizers" asan "$small" -L '^golden$'
}

sanitized_c() {
  run_ctest "address and undefined behaviour sanitizers" asan "$small" -LE '^(style|golden)$'
}

sanitized_server() {
  run_pytest "server under sanitizers" tests/server --fake build/asan/tests/omma_fake_server
  run_pytest "grammars under sanitizers" tests/grammar --walk build/asan/tests/grammar_walk
  run_pytest "chat templates under sanitizers" tests/jinja --render build/asan/tests/jinja_render
}

sanitized_programs() {
  run_pytest "serving benchmark under sanitizers" tests/bench_client --omma build/asan/omma $sanitized_part
  run_pytest "command line under sanitizers, a to c" tests/cli/test_[a-c]*.py --omma build/asan/omma $sanitized_part
  run_pytest "command line under sanitizers, u to z" tests/cli/test_[u-z]*.py --omma build/asan/omma $sanitized_part
}

more_sanitized_programs() {
  run_pytest "command line under sanitizers, d to t" tests/cli/test_[d-t]*.py --omma build/asan/omma $sanitized_part
}

# The page at / in a browser, with a Python environment of its own: where there is Chromium, and in
# the full tier in any case.
run_page() {
  if ! has_browser; then
    begin "page in Chromium"
    echo "skipped: no chromium and chromedriver (Debian: chromium chromium-driver)"
    if [ $full = yes ]; then failed=$((failed + 1)); fi
    return
  fi
  wait
  if ! has_page_venv; then
    begin "Python environment of the page's tests"
    create_venv build/venv-page tests/page/requirements.txt || {
      failed=$((failed + 1))
      return
    }
  fi
  run_pytest_in build/venv-page "page in Chromium" tests/page --omma build/release/omma --fake build/release/tests/omma_fake_server
}

# The wheel as a user gets it, in an environment of its own.
run_wheel() {
  begin "python package from its wheel"
  new_junit "python package from its wheel"
  tools/test_wheel.sh --junitxml "$junit" || true
  count_junit
}

# Masks of tokens compared with those of llguidance, in an environment of its own.
run_oracle() {
  begin "grammars compared with llguidance"
  rm -rf build/venv-oracle
  python3 -m venv build/venv-oracle &&
    build/venv-oracle/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt llguidance==1.9.1 || {
    failed=$((failed + 1))
    return
  }
  run_pytest_in build/venv-oracle "grammars compared with llguidance" tests/grammar/test_oracle.py --walk build/release/tests/grammar_walk
}

# Real clients, in an environment of their own.
run_clients() {
  begin "real clients"
  new_junit "real clients"
  tools/test_clients.sh --junitxml "$junit" || true
  count_junit
}

# A server without optional libraries and without omma-bench.
run_without() {
  begin "without optional libraries"
  new_junit "without optional libraries"
  tools/test_without.sh --junitxml "$junit" || true
  count_junit
}

# Memory of a tower under loads that no smaller test has: two minutes of both cores.
run_bounds() {
  begin "memory of large passes"
  if build/venv/bin/python bench/encoder_bounds.py; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
prepare_venvs > build/log-environments 2>&1 &
build release && {
  run_ctest "release" release ""
  levels=$(other_levels) || failed=$((failed + 1))
  for level in $levels; do
    run_ctest "unit and golden tests at $level" release "OMMA_ISA=$level $small" -L "$by_level" -LE '^every-level$'
  done
  run_python
}
# Again where the first time was cut short; else there is nothing to do.
build asan && {
  make_venv && run_in_parallel sanitized_c sanitized_server sanitized_programs more_sanitized_programs
}
if [ $full = yes ]; then
  make_venv && {
    run_pytest "many requests under sanitizers" tests/server/test_soak.py --full --omma build/asan/omma
    run_pytest "damaged checkpoints under sanitizers" tests/cli/test_mutated_checkpoints.py --full --omma build/asan/omma
  }
  for level in "" $levels; do
    run_ctest "many requests, all models${level:+ at $level}" release "OMMA_TEST_LARGE=1 OMMA_ISA=$level" -R '^test_(engine_batch|many_workers)$'
  done
  run_bounds
  run_wheel
  run_oracle
  run_clients
  run_without
  build tsan && {
    run_ctest "thread sanitizer" tsan "" -LE style
    make_venv && {
      run_pytest "server under thread sanitizer" tests/server --fake build/tsan/tests/omma_fake_server
      run_pytest "many requests under thread sanitizer" tests/server/test_soak.py --full --omma build/tsan/omma
    }
  }
  run_counted "fuzzing" tools/fuzz.sh --seconds 60
  run_script "attention on emulated arm" tools/test_aarch64.sh --attention
  if [ "$(uname -m)" = x86_64 ]; then
    run_script "kernels on emulated old processors" tools/test_oldcpu.sh
    if grep -q avx512_vnni /proc/cpuinfo; then
      run_script "the level amx by a model" tools/test_amx.sh
    else
      begin "the level amx by a model"
      echo "skipped: this CPU has no AVX-512 with VNNI"
    fi
  fi
fi
wait
begin ""
echo
printf '%s' "$parts"
echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
