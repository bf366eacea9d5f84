#!/bin/sh
# Installs the Debian packages that building (build), testing (test), testing for ARM (aarch64), on
# emulated old processors (oldcpu) or fuzzing (fuzz) needs, where they are missing. On other systems
# it only names them. Where the optional ones cannot be had, it goes on.
set -eu

build_packages="gcc cmake ninja-build pkg-config libjansson-dev libjpeg-dev libpng-dev libwebp-dev libgif-dev
  libpcre2-dev libutf8proc-dev libsodium-dev libmicrohttpd-dev libcurl4-openssl-dev"
optional_packages="libgnutls28-dev libhiredis-dev libzmq3-dev libmsgpack-dev libedit-dev librsvg2-dev libyaml-dev libheif-dev libtiff-dev poppler-utils"
test_packages="g++ libcmocka-dev python3 python3-venv"
optional_test_packages="chromium chromium-driver haproxy zsh fish"
aarch64_packages="cmake ninja-build gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
oldcpu_packages="$build_packages libcmocka-dev qemu-user"
fuzz_packages="$build_packages clang"

usage() {
  echo "usage: tools/install_packages.sh build|test|aarch64|oldcpu|fuzz, or --libraries to name those of libraries"
  echo "  build: $(echo $build_packages), and optional: $optional_packages"
  echo "  test:  $(echo $test_packages), and optional: $optional_test_packages"
  echo "  aarch64: $(echo $aarch64_packages)"
  echo "  oldcpu: $(echo $oldcpu_packages)"
  echo "  fuzz: $(echo $fuzz_packages)"
}

optional=
case "${1:-}" in
  build) wanted=$build_packages optional=$optional_packages ;;
  test) wanted=$test_packages optional=$optional_test_packages ;;
  aarch64) wanted=$aarch64_packages ;;
  oldcpu) wanted=$oldcpu_packages ;;
  fuzz) wanted=$fuzz_packages ;;
  --libraries) echo $build_packages $optional_packages $test_packages | tr ' ' '\n' | grep '^lib.*-dev$'; exit 0 ;;
  --help | -h) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
  echo "This is no Debian system; expecting the counterparts of these packages to be installed:" $wanted $optional
  exit 0
fi

# not_installed NAME...: those of the packages that are not.
not_installed() {
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || echo "$package"
  done
}
missing=$(echo $(not_installed $wanted))
missing_optional=$(echo $(not_installed $optional))
[ -n "$missing$missing_optional" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
  as_root=sudo
  if ! command -v sudo > /dev/null; then
    [ -n "$missing" ] || exit 0
    echo "These packages are missing, and installing them needs root or sudo: $missing" >&2
    exit 1
  fi
fi
echo "Installing: $missing $missing_optional"
# sudo passes no environment on, so it is set after it.
quiet_apt="env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -q"
install() { $as_root $quiet_apt install -y --no-install-recommends "$@" > /dev/null; }
if [ -n "$missing" ]; then
  $as_root $quiet_apt update > /dev/null
  install $missing
fi
if [ -n "$missing_optional" ]; then
  [ -n "$missing" ] || $as_root $quiet_apt update > /dev/null 2>&1 || true
  for package in $missing_optional; do
    install "$package" 2> /dev/null || echo "Going on without: $package"
  done
fi
