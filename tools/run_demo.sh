#!/bin/sh
# Asks the demo model about the shipped pictures: tools/run_demo.sh [PATH_OF_OMMA]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
case "${1:-}" in
  --help | -h) echo "usage: tools/run_demo.sh [PATH_OF_OMMA]"; exit 0 ;;
esac
omma=${1:-$here/build/release/omma}
pictures=$here/models/demo/pictures
tab=$(printf '\t')

# questions.json holds one key a line.
awk -F'"' '/"picture":/ {p = $4} /"question":/ {q = $4} /"answer":/ {print p "\t" q}' "$pictures/questions.json" |
  while IFS="$tab" read -r picture question; do
    echo
    echo "picture   models/demo/pictures/$picture"
    echo "question  $question"
    printf 'answer    '
    "$omma" chat --model "$here/models/demo" --image "$pictures/$picture" --prompt "$question" --max-tokens 64 < /dev/null
  done

echo
echo "Ask your own: $omma chat --image PICTURE --prompt QUESTION"
