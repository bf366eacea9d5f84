#!/bin/sh
# Debian packages and the wheel for 64-bit ARM, cross-built, unpacked, and run under qemu: `omma
# info`, `omma verify` and an answer from the packages; from the wheel the same program, and the
# import and an answer in Debian's Python for arm64 with NumPy from PyPI. Needs debhelper, dpkg-dev,
# lintian.
set -eu
cd "$(dirname "$0")/.."
case "${1:-}" in
  --help | -h) echo "usage: tools/test_aarch64_packages.sh"; exit 0 ;;
esac
root=$PWD/build/aarch64-root
run="qemu-aarch64 -L $root"

echo "== Debian packages"
tools/build_aarch64.sh omma omma-bench omma_manual omma_static omma_shared omma_service_shared omma_attention_static omma_attention_shared
tools/make_deb.sh --aarch64

echo "== wheel"
made=build/aarch64-wheel
unpacked=$PWD/$made/unpacked
rm -rf "$made"
# The name of the platform in the wheel's name is that of the Python that builds, without this.
_PYTHON_HOST_PLATFORM=linux-aarch64 python3 -m pip wheel -q --disable-pip-version-check --no-deps -w "$made" ./python \
  -Ccmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" -Ccmake.define.OMMA_AARCH64_ROOT="$root"
wheel=$(ls "$made"/*.whl)
case $wheel in
  *-py3-none-linux_aarch64.whl) ;;
  *) echo "a wheel for another platform: $wheel" >&2; exit 1 ;;
esac
python3 -m zipfile -e "$wheel" "$unpacked"
python3 -m pip install -q --disable-pip-version-check --no-deps --target "$unpacked" --platform manylinux_2_28_aarch64 \
  --platform manylinux2014_aarch64 --python-version 3.11 --only-binary=:all: numpy
scripts=$(ls -d "$unpacked"/ommatidia-*.data/scripts)
data=$(ls -d "$unpacked"/ommatidia-*.data/data)
# The modes of scripts are set by who installs a wheel.
chmod +x "$scripts/omma"
$run "$scripts/omma" info
$run "$scripts/omma" verify
demo=$data/share/ommatidia/demo
answer=$(PYTHONPATH=$unpacked $run "$root/usr/bin/python3.11" -c '
import sys
from pathlib import Path
from ommatidia import Model

with Model(sys.argv[1]) as model:
    print(model.chat("What color is the cross?", image=Path(sys.argv[1], "images/cross.png"), temperature=0))' "$demo")
[ "$answer" = "The cross is orange." ] || { echo "the wheel's answer: $answer" >&2; exit 1; }
echo "$wheel: $answer"
