#!/bin/sh
# Runs clang-tidy with .clang-tidy's list over src, for this machine's architecture, and ends with a
# line that says how many files it has read. Needs clang-tidy and what a build needs.
set -eu
cd "$(dirname "$0")/.."
command -v clang-tidy > /dev/null || { echo "lint.sh: clang-tidy is missing (Debian: clang-tidy)" >&2; exit 1; }
mkdir -p build
CC=clang cmake -S . -B build/lint -G Ninja -DCMAKE_BUILD_TYPE=Release -DOMMA_TESTS=OFF > build/log-lint || { cat build/log-lint; exit 1; }
sed -n 's/^  "file": "\(.*\)",\{0,1\}$/\1/p' build/lint/compile_commands.json | grep "^$PWD/src/" | sort -u > build/lint/files
xargs -P "$(nproc)" -n 8 clang-tidy -p build/lint --quiet < build/lint/files 2> build/lint/counts
echo "lint.sh: nothing in $(wc -l < build/lint/files) files"
