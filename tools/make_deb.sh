#!/bin/sh
# Debian packages of the working tree, in build/deb: lintian must find no error and nothing to warn
# of, files have the modes that `make install` gives them, and the unpacked program must answer
# about the demo model's image. Needs debhelper, dpkg-dev and lintian.
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

# Whatever the umask of who builds: files that all may read and root alone may write.
for package in build/deb/*.deb; do
  dpkg-deb --contents "$package" | awk '$1 !~ /^(drwxr-xr-x|-rw-r--r--|-rwxr-xr-x|lrwxrwxrwx)$/ || $2 != "root/root" { print; bad = 1 } END { exit bad }' ||
    { echo "$package: a file with another mode or owner" >&2; exit 1; }
done

unpacked=build/deb/unpacked
dpkg -x "build/deb/ommatidia_${version}_$(dpkg --print-architecture).deb" "$unpacked"
answer=$("$unpacked/usr/bin/omma" chat --image "$unpacked/usr/share/ommatidia/demo/images/cross.png" --prompt "What color is the cross?")
[ "$answer" = "The cross is orange." ] || { echo "the packaged omma answered: $answer" >&2; exit 1; }
for file in man/man1/omma.1.gz man/man1/omma-chat.1.gz bash-completion/completions/omma zsh/vendor-completions/_omma \
  fish/vendor_completions.d/omma.fish; do
  [ -s "$unpacked/usr/share/$file" ] || { echo "the package lacks usr/share/$file" >&2; exit 1; }
done
rm -rf "$unpacked"
ls "$root"/build/deb/*.deb
