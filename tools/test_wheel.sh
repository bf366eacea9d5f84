#!/bin/sh
# The wheel of python/ as a user gets it, installed with the program omma into a fresh environment,
# tested there: built in isolation by pip, or with --manylinux what tools/make_wheel.sh left in
# build/wheel. From PyPI into build/venv-wheel or build/venv-manylinux; arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
environment=build/venv-wheel
package=./python
if [ "${1:-}" = --manylinux ]; then
  shift
  environment=build/venv-manylinux
  package=$(ls build/wheel/*manylinux*.whl) || exit 1
fi
rm -rf "$environment"
python3 -m venv "$environment" &&
  "$environment/bin/pip" install -q --disable-pip-version-check "$package" -r tests/requirements.txt || exit 1
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/python --omma "$environment/bin/omma" "$@"
