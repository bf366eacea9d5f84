#!/bin/sh
# Checks that every larger folder of src has a README.md, that a README names only files of its
# folder that are there, and that each link of a Markdown page has its file and its heading.
# The awk programs below stand in single quotes on purpose.
# shellcheck disable=SC2016
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
  for name in $(grep -oE '`[a-z0-9_/]+\.[ch]`' "$readme" | tr -d '`' | sort -u); do
    [ "$name" = omma.h ] || [ -f "$folder$name" ] || [ -f "src/$name" ] || fail "$readme names $name, which is not there"
  done
done

# Targets of the links in a page, one a line; code has none.
links='
/^[ \t]*(```|~~~)/ { fence = !fence }
fence { next }
{
  gsub(/`[^`]*`/, "")
  while (match($0, /\]\([^() ]+\)/)) { print substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) }
}'
# Anchors of the headings of a page, as GitHub makes them.
anchors='
/^[ \t]*(```|~~~)/ { fence = !fence }
!fence && sub(/^#+ +/, "") {
  gsub(/\]\([^)]*\)/, ""); $0 = tolower($0); gsub(/[^a-z0-9_ -]/, ""); gsub(/ /, "-"); print
}'
pages=$(find . \( -name build -o -name .git -o -name node_modules \) -prune -o -name '*.md' -print | sort)
for page in $pages; do
  targets=$(awk "$links" "$page")
  for link in $targets; do
    case $link in *://* | mailto:*) continue ;; esac
    file=${link%%#*}
    if [ -z "$file" ]; then file=$page; else file=$(dirname "$page")/$file; fi
    if [ ! -e "$file" ]; then
      fail "$page: the link $link has no file"
    else
      case $link in *.md#* | "#"*) awk "$anchors" "$file" | grep -qxF -- "${link#*#}" || fail "$page: the link $link has no heading" ;; esac
    fi
  done
done

[ "$failures" -eq 0 ]
