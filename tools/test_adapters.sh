#!/bin/sh
# The adapters of the Python package (ommatidia.langchain, ommatidia.llama_index, ommatidia.encoder)
# with the real packages, from PyPI into build/venv-adapters, in the versions of
# tests/requirements-adapters.txt; arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
environment=build/venv-adapters
wanted=tests/requirements-adapters.txt
if ! cmp -s "$wanted" "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r "$wanted" &&
    cp "$wanted" "$environment/installed.txt" || exit 1
fi
PYTHONPATH=build/python exec "$environment/bin/python" -m pytest -q -rs -p no:cacheprovider tests/adapters "$@"
