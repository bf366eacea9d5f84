#!/bin/sh
# Checks that every larger folder of src has a README.md,
# and that a README names only files of its folder that are there.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  "") ;;
  --help | -h) echo "usage: tools/check_readmes.sh"; exit 0 ;;
  *) echo "usage: tools/check_readmes.sh" >&2; exit 2 ;;
esac

larger=8 # files
failures=0

fail() {
  echo "$1" >&2
  failures=$((failures + 1))
}

for folder in src/*/; do
  readme=${folder}README.md
  if [ ! -f "$readme" ]; then
    [ "$(find "$folder" -maxdepth 1 -type f | wc -l)" -lt "$larger" ] ||
      fail "$readme is missing: say what the folder does, and in which order to read it"
    continue
  fi
  for name in $(grep -oE '`[a-z0-9_]+\.[ch]`' "$readme" | tr -d '`' | sort -u); do
    [ "$name" = omma.h ] || [ -f "$folder$name" ] || fail "$readme names $name, which is not there"
  done
done

[ "$failures" -eq 0 ]
