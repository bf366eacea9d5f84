#!/bin/sh
# Installs the Debian packages in a bare root, without recommended packages, and builds and runs
# there what examples/README.md shows for C. `make deb` makes the packages first. Needs root and
# debootstrap.
set -eu
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(ommatidia VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
architecture=$(dpkg --print-architecture)
copies=
for package in ommatidia ommatidia-bench libomma1 libomma-service1 libomma-attention0 libomma-dev; do
  file=build/deb/${package}_${version}_$architecture.deb
  [ -s "$file" ] || { echo "$file is missing: make deb makes it" >&2; exit 1; }
  copies="$copies --copy $file"
done
commands=$(sed -n 's/^    \(cc .*\|\.\/ask .*\)$/\1/p' examples/README.md)
[ "$(echo "$commands" | wc -l)" = 3 ] || { echo "examples/README.md has other lines for C than this test knows" >&2; exit 1; }
# Words of a list of files are meant to be split.
# shellcheck disable=SC2086
exec tools/bare_root.sh $copies -- \
  "apt-get update -qq && apt-get install -y -qq --no-install-recommends /root/*.deb gcc libc6-dev pkg-config > /root/apt.log 2>&1 || { cat /root/apt.log; false; }" \
  "set -e
$commands
./attention
omma bench serve --help | head -n 1 | grep '^Usage: omma bench serve '
omma chat models/demo/images/cross.png 'What colour is the cross?' | grep -x 'The cross is orange.'"
