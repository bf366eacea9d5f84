#!/bin/sh
# The wheel of python/ as a user gets it: built in isolation, installed with the program omma into a
# fresh environment, tested there. From PyPI into build/venv-wheel; arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
environment=build/venv-wheel
rm -rf "$environment"
python3 -m venv "$environment" &&
  "$environment/bin/pip" install -q --disable-pip-version-check ./python -r tests/requirements.txt || exit 1
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/python --omma "$environment/bin/omma" "$@"
