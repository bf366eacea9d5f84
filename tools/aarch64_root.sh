#!/bin/sh
# Makes a folder with Debian's packages for arm64 that a cross build of everything needs, and
# programs under qemu. Needs apt and no root: the machine's own packages stay as they are. Some 110
# MB are downloaded.
set -eu
case "${1:-}" in
  "" | --help | -h) echo "usage: tools/aarch64_root.sh FOLDER"; exit 0 ;;
esac
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
root=$(cd "$1" && pwd)
[ -e "$root/complete" ] && exit 0
packages="libc6-dev $("$here/install_packages.sh" --libraries)"

apt=$root/apt
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial"
: > "$apt/status"
cat > "$apt/apt.conf" << END
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
END
export APT_CONFIG="$apt/apt.conf"
apt-get -q update
apt-get -q install -y --no-install-recommends --download-only $packages

mkdir -p "$root/usr/lib" "$root/usr/bin" "$root/usr/sbin"
for folder in lib bin sbin; do ln -sfn "usr/$folder" "$root/$folder"; done
for package in "$apt"/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root" -f - --exclude './usr/share/doc' --exclude './usr/share/man'
done
# What each library's dependents depend on, in the form of a package's shlibs files.
for package in "$apt"/cache/archives/*.deb; do dpkg-deb -I "$package" shlibs 2> /dev/null || true; done > "$root/shlibs"
# Links to absolute paths would lead out of the folder.
find "$root/usr" -type l -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
done
rm -rf "$apt"
touch "$root/complete"
