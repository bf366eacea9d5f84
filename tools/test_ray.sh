#!/bin/sh
# examples/ray_batch.py with Ray on this machine and the demo model. Ray comes from PyPI into
# build/venv-ray; arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
environment=build/venv-ray
wanted=tests/ray/requirements.txt
if ! cmp -s "$wanted" "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r "$wanted" &&
    cp "$wanted" "$environment/installed.txt" || exit 1
fi
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/ray --omma build/release/omma "$@"
