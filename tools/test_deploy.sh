#!/bin/sh
# Tests the files of deploy/ with all programs that read them: HAProxy, promtool, systemd-analyze, nginx, Caddy (Debian: haproxy prometheus
# systemd nginx-light caddy) and Kubernetes' schemas from PyPI. `make test` does the part for which it finds the programs.
set -eu

cd "$(dirname "$0")/.."
if ! build/venv-deploy/bin/python -c 'import kubernetes_validate, pytest' 2> /dev/null; then
  python3 -m venv build/venv-deploy
  build/venv-deploy/bin/pip install -q --disable-pip-version-check -r tests/deploy/requirements.txt
fi
exec build/venv-deploy/bin/python -m pytest -q -p no:cacheprovider tests/deploy --omma build/release/omma --full "$@"
