#!/bin/sh
# Debian packages of the working tree, in build/deb; lintian must have nothing to say. Needs debhelper, dpkg-dev and lintian.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
version=$(sed -n 's/^project(ommatidia VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tree=build/deb/ommatidia-$version
for program in dh dpkg-buildpackage lintian; do
  command -v $program > /dev/null || { echo "make deb needs $program (apt-get install debhelper dpkg-dev lintian)" >&2; exit 1; }
done
grep -q "^ommatidia ($version)" packaging/debian/changelog || { echo "packaging/debian/changelog has another version than $version" >&2; exit 1; }
rm -rf build/deb
mkdir -p "$tree"
git ls-files -z | tar -c --null -T - | tar -x -C "$tree"
cp -R packaging/debian "$tree/debian"
(cd "$tree" && dpkg-buildpackage -b -us -uc > ../build.log 2>&1) || { tail -n 40 build/deb/build.log >&2; exit 1; }
rm -rf "$tree"
lintian --fail-on error,warning --allow-root build/deb/*.changes
ls "$root"/build/deb/*.deb
