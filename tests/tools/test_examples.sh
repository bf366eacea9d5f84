#!/bin/sh
# Installs a build into a temporary folder and builds the C examples against that, as a user would,
# with the shared and with the static library.
# Usage: tests/tools/test_examples.sh BUILD_FOLDER [C_FLAGS]
set -eu
build=$1
flags=${2:-}
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/installed" > "$work/log" || { cat "$work/log"; exit 1; }
library=$(find "$work/installed" -name libomma-attention.so)
# Alone: the shared library wants no .pc file of another package.
PKG_CONFIG_LIBDIR=$(dirname "$library")/pkgconfig
LD_LIBRARY_PATH=$(dirname "$library")
export PKG_CONFIG_LIBDIR LD_LIBRARY_PATH

# What softmax in double precision gives for the first number.
try_attention() {
  "$1" > "$work/said"
  cat "$work/said"
  grep -qxE '[a-z0-9_]+, workers: [0-9]+, out\[0\] = 0\.0271' "$work/said"
}

try_ask() {
  "$1" "$demo" "$root/models/demo/images/cross.png" > "$work/said"
  diff - "$work/said" << 'ANSWERS'
What is in this picture?
  The picture shows an orange cross on a white background.
  (12 tokens)
Hello!
  Hello! Show me a simple drawing and ask me about it.
  (14 tokens)
ANSWERS
}

# Words of flags are meant to be split.
# shellcheck disable=SC2046,SC2086
for source in "$root"/examples/attention.c; do
  echo "== $(basename "$source"), shared"
  ${CC:-cc} -std=c11 -O1 -Wall -Wextra -Werror $flags "$source" $(pkg-config --cflags --libs libomma-attention) -o "$work/shared"
  try_attention "$work/shared"
  echo "== $(basename "$source"), static"
  ${CC:-cc} -std=c11 -O1 $flags "$source" $(pkg-config --cflags libomma-attention) "${library%.so}.a" \
    $(pkg-config --static --libs-only-other libomma-attention) -lm -o "$work/static"
  try_attention "$work/static"
done

echo "== attention.c by CMake, with the lines of examples/README.md"
mkdir "$work/project"
{
  printf 'cmake_minimum_required(VERSION 3.20)\nproject(program C)\nadd_executable(program "%s")\n' "$root/examples/attention.c"
  grep -E '^    (find_package|target_link_libraries)\(' "$root/examples/README.md"
} > "$work/project/CMakeLists.txt"
{
  CFLAGS=$flags cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/installed" &&
    cmake --build "$work/project/build"
} > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
try_attention "$work/project/build/program"

# With the whole library, where this build has it, and the demo model's weights are there.
demo=$work/installed/share/ommatidia/demo
if [ -e "$PKG_CONFIG_LIBDIR/libomma.pc" ] && [ -e "$demo/model.safetensors" ]; then
  echo "== ask.c, shared"
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} -std=c11 -O1 -Wall -Wextra -Werror $flags "$root/examples/ask.c" $(pkg-config --cflags --libs libomma) -lpthread -o "$work/ask"
  try_ask "$work/ask"

  echo "== ask.c, with the library that has the endpoints too"
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} -std=c11 -O1 -Wall -Wextra -Werror -include omma/service.h $flags "$root/examples/ask.c" \
    $(pkg-config --cflags --libs libomma-service) -lpthread -o "$work/ask-service"
  try_ask "$work/ask-service"

  echo "== ask.c, static"
  # shellcheck disable=SC2046,SC2086
  ${CC:-cc} -std=c11 -O1 $flags "$root/examples/ask.c" $(pkg-config --cflags libomma) "${library%-attention.so}.a" \
    $(pkg-config --static --libs libomma | sed 's/-lomma //') -lpthread -o "$work/ask-static"
  try_ask "$work/ask-static"
fi
