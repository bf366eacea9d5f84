#!/bin/sh
# The wheel of python/ with everything it needs: tools/make_wheel.sh FOLDER. auditwheel copies the
# libraries that a system may lack next to it, and names the oldest C library that it runs on. It
# comes from PyPI into build/venv-auditwheel, in the version of tests/requirements-wheel.txt.
set -u
cd "$(dirname "$0")/.." || exit
folder=${1:?folder of the wheel}
environment=build/venv-auditwheel
wanted=tests/requirements-wheel.txt
if ! cmp -s "$wanted" "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r "$wanted" &&
    cp "$wanted" "$environment/installed.txt" || exit 1
fi
rm -rf "$folder"
mkdir -p "$folder/linux" || exit
"$environment/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$folder/linux" \
  -C cmake.define.OMMA_ATTENTION_ONLY=false ./python || exit 1
PATH=$PWD/$environment/bin:$PATH
# A newer C library than that of the first platform has the second one.
for platform in "manylinux_2_36_$(uname -m)" auto; do
  auditwheel repair --plat "$platform" -w "$folder" "$folder"/linux/*.whl && break
done || exit 1
rm -r "$folder/linux"
ls "$folder"/*.whl
