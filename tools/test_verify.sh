#!/bin/sh
# Runs tools/verify_release.py on the golden checkpoints and the demo model, in an environment of
# its own (build/venv-verify) with torch and transformers from PyPI.
set -eu
cd "$(dirname "$0")/.."
venv=build/venv-verify
if ! cmp -s tests/verify/requirements.txt $venv/requirements.txt; then
  python3 -m venv $venv
  $venv/bin/pip install -q --disable-pip-version-check -r tests/verify/requirements.txt
  cp tests/verify/requirements.txt $venv/requirements.txt
fi
exec $venv/bin/python -m pytest -q -p no:cacheprovider tests/verify "$@"
