#!/bin/sh
# Asks the demo model about the shipped images: tools/run_demo.sh [PATH_OF_OMMA]
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
case "${1:-}" in
  --help | -h) echo "usage: tools/run_demo.sh [PATH_OF_OMMA]"; exit 0 ;;
esac
omma=${1:-$here/build/release/omma}
images=$here/models/demo/images
tab=$(printf '\t')

# questions.json holds one key a line.
awk -F'"' '/"image":/ {p = $4} /"question":/ {q = $4} /"answer":/ {print p "\t" q}' "$images/questions.json" |
  while IFS="$tab" read -r image question; do
    echo
    echo "image   models/demo/images/$image"
    echo "question  $question"
    printf 'answer    '
    "$omma" chat --model "$here/models/demo" --image "$images/$image" --prompt "$question" --max-tokens 64 < /dev/null
  done

echo
echo "Ask your own: $omma chat IMAGE \"QUESTION\""
