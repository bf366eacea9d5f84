#!/bin/sh
# Debian packages of the working tree, in build/deb: lintian must find no error and nothing to warn
# of, files have the modes that `make install` gives them, and the unpacked program must answer
# about the demo model's image. Needs debhelper, dpkg-dev and lintian. --aarch64: packages for arm64
# of the build that tools/build_aarch64.sh made, in build/deb-aarch64, whose program is run by qemu.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
folder=build/deb
architecture=$(dpkg --print-architecture)
arguments=
run=
case "${1:-}" in
  "") ;;
  --aarch64)
    folder=build/deb-aarch64
    architecture=arm64
    arguments="-aarm64 -d" # what it would be built with here is not looked at
    run="qemu-aarch64 -L $root/build/aarch64-root"
    export OMMA_BUILT="$root/build/aarch64" OMMA_BUILT_LIBRARIES="$root/build/aarch64-root/usr/lib/aarch64-linux-gnu"
    ;;
  *) echo "usage: tools/make_deb.sh [--aarch64]"; exit 0 ;;
esac
version=$(sed -n 's/^project(ommatidia VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
tree=$folder/ommatidia-$version
for program in dh dpkg-buildpackage lintian; do
  command -v $program > /dev/null || { echo "make deb needs $program (apt-get install debhelper dpkg-dev lintian)" >&2; exit 1; }
done
grep -q "^ommatidia ($version)" packaging/debian/changelog || { echo "packaging/debian/changelog has another version than $version" >&2; exit 1; }
rm -rf "$folder"
mkdir -p "$tree"
git ls-files -z | tar -c --null -T - | tar -x -C "$tree"
cp -R packaging/debian "$tree/debian"
[ -z "$run" ] || cp build/aarch64-root/shlibs "$tree/debian/shlibs.local"
# shellcheck disable=SC2086
(cd "$tree" && dpkg-buildpackage -b -us -uc $arguments > ../build.log 2>&1) || { tail -n 40 "$folder/build.log" >&2; exit 1; }
rm -rf "$tree"
lintian --fail-on error,warning --allow-root "$folder"/*.changes

# Whatever the umask of who builds: files that all may read and root alone may write.
for package in "$folder"/*.deb; do
  dpkg-deb --contents "$package" | awk '$1 !~ /^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx)$/ || $2 != "root/root" { print; bad = 1 } END { exit bad }' ||
    { echo "$package: a file with another mode or owner" >&2; exit 1; }
done

unpacked=$folder/unpacked
dpkg -x "$folder/ommatidia_${version}_$architecture.deb" "$unpacked"
answer=$($run "$unpacked/usr/bin/omma" chat --image "$unpacked/usr/share/ommatidia/demo/images/cross.png" --prompt "What color is the cross?")
[ "$answer" = "The cross is orange." ] || { echo "the packaged omma answered: $answer" >&2; exit 1; }
for file in man/man1/omma.1.gz man/man1/omma-chat.1.gz bash-completion/completions/omma zsh/vendor-completions/_omma \
  fish/vendor_completions.d/omma.fish; do
  [ -s "$unpacked/usr/share/$file" ] || { echo "the package lacks usr/share/$file" >&2; exit 1; }
done
# The client of a server is in a package of its own, and is missed without it.
missed=$(PATH=/usr/bin:/bin $run "$unpacked/usr/bin/omma" bench serve 2>&1) || true
case $missed in
  *ommatidia-bench*) ;;
  *) echo "the packaged omma without omma-bench: $missed" >&2; exit 1 ;;
esac
dpkg -x "$folder/ommatidia-bench_${version}_$architecture.deb" "$unpacked"
[ "$($run "$unpacked/usr/bin/omma-bench" --version)" = "omma $version" ] || { echo "the packaged omma-bench prints another version" >&2; exit 1; }
[ -s "$unpacked/usr/share/man/man1/omma-bench-serve.1.gz" ] || { echo "the package lacks the page omma-bench-serve(1)" >&2; exit 1; }
if [ -n "$run" ]; then
  $run "$unpacked/usr/bin/omma" info
  $run "$unpacked/usr/bin/omma" verify
fi
rm -rf "$unpacked"
ls "$root/$folder"/*.deb
