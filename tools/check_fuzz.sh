#!/bin/sh
# Checks that every source which reads foreign bytes (files, requests, replies) is named in
# fuzz/readers.txt with the fuzz target that feeds it, or with the reason why none does. One line
# per violation; exits with 1 when there is any.
set -u
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.." || exit 2
list=fuzz/readers.txt

# Calls with which a source gets at such bytes, or takes them apart.
calls='json_load[a-z]*|ommai_json_(parse|load|load_file|whole)|ommai_json_cursor_[a-z]+|ommai_file_(read|map_open)|sodium_base642bin'
calls="$calls|ommai_field_[a-z]+|jpeg_read_header|png_read_info|WebP[A-Za-z]*Decode[A-Za-z]*|WebPGetFeatures|DGif[A-Za-z]+|getline|sscanf"

violations=$(
  grep -lE "(^|[^A-Za-z0-9_])($calls)\(" -r src --include='*.c' | sort | while IFS= read -r source; do
    grep -q "^$source " "$list" || echo "$source: reads foreign bytes and is not in $list"
  done
  grep -v '^#' "$list" | while read -r source target reason; do
    [ -f "$source" ] || echo "$list: $source: no such file"
    if [ "$target" = - ]; then
      [ -n "$reason" ] || echo "$list: $source: neither a target nor a reason"
    else
      [ -f "fuzz/fuzz_$target.c" ] || echo "$list: $source: no target $target"
    fi
  done
)
[ -z "$violations" ] && exit 0
echo "$violations"
exit 1
