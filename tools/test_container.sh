#!/bin/sh
# Builds the image of deploy/Containerfile with buildah, in this tree with its builds, and runs it:
# its user and an answer. The base image comes from debootstrap, so no registry is asked. Needs
# root, buildah and debootstrap.
set -eu
cd "$(dirname "$0")/.."
for program in buildah debootstrap; do
  command -v $program > /dev/null || { echo "skipped: no $program (Debian: buildah debootstrap)"; exit 0; }
done
[ -f build/release/CMakeCache.txt ] || { echo "build/release is missing: make builds it" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "skipped: making a root needs root"; exit 0; }
mkdir -p build
work=$(mktemp -d "$PWD/build/container.XXXXXX")
trap 'buildah --root "$work/storage" --runroot "$work/run" rm --all > /dev/null 2>&1 || true; rm -rf --one-file-system "$work"' EXIT
BUILDAH_ISOLATION=chroot
STORAGE_DRIVER=vfs
export BUILDAH_ISOLATION STORAGE_DRIVER
engine() { buildah --root "$work/storage" --runroot "$work/run" "$@"; }

tools/bare_root.sh "$work/base" -- "rm -rf /root/ommatidia /srv/ommatidia.git"
base=$(engine from scratch)
engine add -q "$base" "$work/base" / > /dev/null
engine commit -q "$base" docker.io/library/debian:bookworm-slim > /dev/null
rm -rf --one-file-system "$work/base"

engine build -q --pull=never -t ommatidia -f deploy/Containerfile . > "$work/image"
container=$(engine from --pull=never ommatidia)
user=$(engine run "$container" -- id -u)
[ "$user" = 65534 ] || { echo "the image runs as user $user" >&2; exit 1; }
demo=/opt/ommatidia/share/ommatidia/demo
answer=$(engine run "$container" -- /opt/ommatidia/bin/omma chat $demo/images/cross.png "What color is the cross?")
[ "$answer" = "The cross is orange." ] || { echo "the image answered: $answer" >&2; exit 1; }
entry=$(engine inspect --format '{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}' "$container")
case $entry in "[/opt/ommatidia/bin/omma] [serve /model "*) ;; *) echo "the image starts $entry" >&2; exit 1 ;; esac
echo "the image runs as user $user and answers"
