#!/bin/sh
# Real clients (openai, anthropic, cohere, litellm, langchain, llama-index, llm, prometheus_client,
# mineru-vl-utils, one generated from /openapi.json) against the server with the demo model, and for
# vectors and scores with small random ones. They come from PyPI into build/venv-clients, in the
# versions of tests/requirements-clients.txt; arguments go to pytest.
set -u
cd "$(dirname "$0")/.." || exit
environment=build/venv-clients
wanted=tests/requirements-clients.txt
if ! cmp -s "$wanted" "$environment/installed.txt"; then
  rm -rf "$environment"
  python3 -m venv "$environment" && "$environment/bin/pip" install -q --disable-pip-version-check -r "$wanted" &&
    cp "$wanted" "$environment/installed.txt" || exit 1
fi
exec "$environment/bin/python" -m pytest -q -p no:cacheprovider tests/clients --omma build/release/omma "$@"
