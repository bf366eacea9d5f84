#!/bin/sh
# Gives an importable tree the metadata by which vLLM finds its plugin:
# tools/write_plugin_metadata.sh TREE Name, version and entry point come from the plugin's
# pyproject.toml.
set -eu
project=$(dirname "$0")/../python/vllm_ommatidia/pyproject.toml
tree=${1:?usage: tools/write_plugin_metadata.sh TREE}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$project")
entry=$(sed -n '/^\[project.entry-points."vllm.general_plugins"\]/{n;s/ *= */ = /;s/"//g;p;}' "$project")
folder=$tree/vllm_ommatidia-$version.dist-info
mkdir -p "$folder"
printf 'Metadata-Version: 2.1\nName: vllm-ommatidia\nVersion: %s\n' "$version" > "$folder/METADATA"
printf '[vllm.general_plugins]\n%s\n' "$entry" > "$folder/entry_points.txt"
