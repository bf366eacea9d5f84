#!/bin/sh
# Refuses a build folder that was copied or moved here: CMake cannot continue in one. A folder that
# does not exist, or has no build, passes.
# Usage: tools/check_build_folder.sh FOLDER, from the root of the sources
set -eu
folder=$1
cache=$folder/CMakeCache.txt
[ -f "$cache" ] || exit 0

# same WHERE FOLDER: whether both name one folder.
same() { [ -d "$1" ] && [ "$(cd -P "$1" && pwd)" = "$(cd -P "$2" && pwd)" ]; }

sources=$(sed -n 's/^CMAKE_HOME_DIRECTORY:INTERNAL=//p' "$cache")
made_at=$(sed -n 's/^CMAKE_CACHEFILE_DIR:INTERNAL=//p' "$cache")
if ! same "$sources" . || ! same "$made_at" "$folder"; then
  echo "$folder was made as $made_at for the sources in $sources, and copied or moved: remove it with 'rm -rf $folder', or all builds with 'make clean', then run make again" >&2
  exit 1
fi
