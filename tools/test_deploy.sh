#!/bin/sh
# Tests the files of deploy/ with all programs that read them: HAProxy, promtool, systemd-analyze,
# nginx, Caddy (Debian: haproxy prometheus systemd nginx-light caddy) and Kubernetes' schemas from
# PyPI; and replicas behind vLLM's router, also from PyPI. `make test` does the part for which it
# finds the programs.
set -eu

cd "$(dirname "$0")/.."

# environment NAME REQUIREMENTS: build/NAME with what is pinned there.
environment() {
  stamp=build/$1/requirements.txt
  cmp -s "$2" "$stamp" 2> /dev/null && return
  python3 -m venv "build/$1"
  "build/$1/bin/pip" install -q --disable-pip-version-check -r "$2"
  cp "$2" "$stamp"
}

environment venv-deploy tests/deploy/requirements.txt
environment venv-routers tests/deploy/requirements-routers.txt
exec build/venv-deploy/bin/python -m pytest -q -p no:cacheprovider tests/deploy --omma build/release/omma --full "$@"
