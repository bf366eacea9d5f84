#!/bin/sh
# Builds the images of deploy/Containerfile and Containerfile.proxy with buildah, in this tree with
# its builds, and runs them: their user, an answer. The base image comes from debootstrap, so no
# registry is asked. Needs root, buildah and debootstrap, some 10 minutes and 4 GB of disk.
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

# Builds NAME of FILE; `container` is then one of it, which runs as nobody.
make_container() {
  engine build -q --pull=never -t "$1" -f "deploy/$2" . > "$work/image" 2> "$work/log" || { tail -n 40 "$work/log" >&2; exit 1; }
  container=$(engine from --pull=never "$1")
  user=$(engine run "$container" -- id -u)
  [ "$user" = 65534 ] || { echo "the image $1 runs as user $user" >&2; exit 1; }
}
# expect WHAT FOUND PATTERN
expect() {
  case $2 in $3) ;; *) echo "$1: $2" >&2; exit 1 ;; esac
}
start='{{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.Cmd}}'

make_container ommatidia Containerfile
demo=/opt/ommatidia/share/ommatidia/demo
expect "the image answers" "$(engine run "$container" -- /opt/ommatidia/bin/omma chat $demo/images/cross.png "What color is the cross?")" \
  "The cross is orange."
expect "the image starts" "$(engine inspect --format "$start" "$container")" "[[]/opt/ommatidia/bin/omma] [[]serve /model *"
make_container omma-encoder-proxy Containerfile.proxy
proxy=/opt/omma-encoder-proxy/bin/omma-encoder-proxy
expect "the proxy is" "$(engine run "$container" -- $proxy --version)" "omma-encoder-proxy [0-9]*"
expect "the proxy starts" "$(engine inspect --format "$start" "$container")" "[[]$proxy] [[]--host 0.0.0.0 *"
expect "the proxy says" "$(engine run "$container" -- $proxy --port 0 --encoder http://127.0.0.1:1 --vllm http://127.0.0.1:1 --start-timeout 0.1 2>&1 || true)" \
  "*http://127.0.0.1:1 did not answer for 0.1 s*"
echo "both images run as user 65534; ommatidia answers, omma-encoder-proxy starts"
