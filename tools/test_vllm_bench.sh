#!/bin/sh
# Compares `omma bench serve` with `vllm bench serve`: bodies, arrivals and figures against the same
# scripted server, figures against `omma serve`. Takes some minutes.
set -eu
cd "$(dirname "$0")/.."

venv=build/vllm-venv
case "${1:-}" in
  "") tools/make_vllm_venv.sh && "$venv/bin/pip" install -q --disable-pip-version-check datasets pandas scipy ;;
  --venv) [ $# -eq 2 ] || { echo "usage: tools/test_vllm_bench.sh [--venv DIR]" >&2; exit 2; }; venv=$2 ;;
  --help | -h) echo "usage: tools/test_vllm_bench.sh [--venv DIR]: in an environment with vllm, datasets, pandas and scipy"; exit 0 ;;
  *) echo "usage: tools/test_vllm_bench.sh [--venv DIR]" >&2; exit 2 ;;
esac

"$venv/bin/python" -c 'import pytest' 2> /dev/null || "$venv/bin/pip" install -q --disable-pip-version-check pytest
"$venv/bin/python" -m pytest -q -p no:cacheprovider --disable-warnings --junitxml build/junit-vllm-bench.xml tests/bench_client/compare_vllm.py \
  --omma build/release/omma
