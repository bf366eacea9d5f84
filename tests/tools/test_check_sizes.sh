#!/bin/sh
# Plants small files in a small tree and expects exactly the right lines; what a README gives a
# reason for, what is large enough with its versions, and what is large must pass.
# shellcheck disable=SC2016
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base/x86" "$tree/src/cli"

# NAME LINES
lines() {
  yes 'int n;' | head -n "$2" > "$tree/src/$1"
}
# 30 + 9 lines; 39 alone; 20 + 10 + 10, one of them in a folder of kernels; 40; 39 with a reason
lines base/pair.h 30 && lines base/pair_none.c 9
lines cli/alone.c 39
lines base/many.h 20 && lines base/many.c 10 && lines base/x86/many_avx2.c 10
lines cli/enough.c 40
lines cli/reason.h 39
lines cli/large.h 41
printf '# Words\n\n## Files under 40 lines\n\n- `reason.h`: all need it, `large.h` too\n\n## More\n\n`alone.c`\n' > "$tree/src/cli/README.md"

check() {
  "$here/../../tools/check_sizes.py" --root "$tree"
}
# STATUS EXPECTED
expect() {
  found=$(check)
  status=$?
  places=$(printf '%s\n' "$found" | cut -d ' ' -f 1,2,3)
  if [ "$status" -ne "$1" ] || [ "$places" != "$2" ]; then
    printf 'exit %s, found:\n%s\nexpected:\n%s\n' "$status" "$found" "$2" >&2
    exit 1
  fi
}
expect 1 'src/base/pair.h: 39 lines:
src/cli/alone.c: 39 lines:
src/cli/large.h: is not'

lines base/pair_none.c 10 && lines cli/alone.c 40 && lines cli/large.h 1
expect 0 ''
rm "$tree/src/cli/large.h"
expect 1 'src/cli/large.h: is not'
"$here/../../tools/check_sizes.py" --root "$tree" --print | grep -qx 'under: 1' || exit 1
