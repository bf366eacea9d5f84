#!/bin/sh
# Runs the two commands of README.md on a bare Debian: a fresh root with git, make and
# ca-certificates, a clone of this repository's committed state, and nothing else of this machine.
set -eu

usage() {
  cat <<'TEXT'
usage: tools/bare_root.sh [options] [FOLDER] [-- COMMAND...]

Makes a minimal Debian root in FOLDER (missing or empty; it stays; default: a temporary folder that is removed at the end),
clones the commit that is checked out here into it, and runs each COMMAND there with sh -c, in a chroot, with an empty
environment. Without commands: "make demo" and "make test". Prints the time of each; the first that fails ends the run with
its exit status. Needs root and the Debian packages debootstrap and util-linux.

  --suite NAME        Debian release (default bookworm)
  --mirror URL        where its packages come from (default: the first source of this machine for that release, else
                      debootstrap's own default)
  --host-mirrors      use this machine's package sources, pip settings, proxy variables and locally added certificates
                      inside too (default)
  --no-host-mirrors   none of these
  --copy FILE         put a copy of FILE into /root of the new root (may be given more than once)
  --keep              keep the temporary folder
  --help              this text

Example: tools/bare_root.sh --keep -- "make demo" "make check"
TEXT
}

say() { echo "bare_root: $*" >&2; }
fail() { say "$*"; exit 1; }
usage_error() { say "$* (see --help)"; exit 2; }

suite=bookworm
mirror=
host_mirrors=yes
keep=no
root=
copies=
child=
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --suite | --mirror | --copy)
      if [ $# -lt 2 ] || [ -z "$2" ]; then usage_error "$1 needs a value"; fi
      case $1 in
        --suite) suite=$2 ;;
        --mirror) mirror=$2 ;;
        --copy) [ -f "$2" ] || usage_error "$2: no such file"; copies="$copies $2" ;;
      esac
      shift ;;
    --host-mirrors) host_mirrors=yes ;;
    --no-host-mirrors) host_mirrors=no ;;
    --keep) keep=yes ;;
    --) shift; break ;;
    -*) usage_error "unknown option: $1" ;;
    *) [ -z "$root" ] || usage_error "more than one folder: $1"; root=$1 ;;
  esac
  shift
done
[ $# -gt 0 ] || set -- "make demo" "make test"

[ "$(id -u)" = 0 ] || fail "making a root and changing into it needs root"
for program in debootstrap unshare chroot git; do
  command -v "$program" > /dev/null || fail "$program is missing (apt-get install debootstrap util-linux git)"
done
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
git -C "$here" rev-parse -q --verify HEAD > /dev/null || fail "$here: no git repository with a commit"
[ -z "$(git -C "$here" status --porcelain)" ] || say "note: changes that are not committed are not part of the run"

if [ -z "$root" ]; then
  root=$(mktemp -d "${TMPDIR:-/tmp}/bare-root.XXXXXX")
  chmod 755 "$root"
else
  mkdir -p "$root"
  root=$(CDPATH='' cd -- "$root" && pwd)
  [ -z "$(ls -A "$root")" ] || fail "$root: expected an empty or missing folder"
  keep=yes
fi
log=$root.log

# Ends what still runs; the mounts vanish with it. Should any be left all the same, nothing is
# removed through it.
clean_up() {
  trap '' INT TERM HUP
  if [ -n "$child" ]; then
    kill -KILL "$child" 2> /dev/null || true
    wait "$child" 2> /dev/null || true
    sleep 1 # what died with it lets go of its files
  fi
  awk -v root="$root/" 'index($2 "/", root) == 1 {print $2}' /proc/mounts | sort -r | while IFS= read -r place; do
    umount "$place" || umount -l "$place"
  done
  if [ "$keep" = no ]; then rm -rf --one-file-system "$root" "$log"; else say "kept: $root"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# This machine's lists of package sources for the release, in either format.
host_sources() {
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    if grep -Eqs "^[^#]*[[:blank:]]$suite([[:blank:]]|\$)" "$file"; then echo "$file"; fi
  done
}

find_mirror() {
  [ $host_mirrors = yes ] || return 0
  host_sources | while IFS= read -r file; do
    awk '/^URIs:/ {print $2; exit} /^deb / {for (i = 2; i <= NF; i++) if ($i ~ /^[a-z]+:\/\//) {print $i; exit}}' "$file"
  done | head -n 1
}

# contained COMMAND...: runs it with its own mounts and processes, all of which end with it.
contained() {
  unshare --mount --pid --fork --kill-child --mount-proc "$@" < /dev/null &
  child=$!
  status=0
  wait "$child" || status=$?
  child=
  return "$status"
}

# inside COMMAND...: the same in the root, with an empty environment.
inside() {
  # The program below expands its own arguments.
  # shellcheck disable=SC2016
  contained sh -c '
    root=$1
    shift
    mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" && mount -t tmpfs tmpfs "$root/dev/shm" &&
      mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts" && exec chroot "$root" "$@"' \
    sh "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb "$@"
}

make_root() {
  say "making a root of Debian $suite in $root"
  # Without a mirror the argument is left out.
  contained debootstrap --variant=minbase --include=git,make,ca-certificates "$suite" "$root" ${mirror:+"$mirror"} > "$log" 2>&1 ||
    { tail -n 20 "$log" >&2; fail "debootstrap failed"; }
  rm -f "$log"
  rm -f "$root"/var/cache/apt/archives/*.deb
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -L /etc/hosts "$root/etc/hosts"
}

copy_host_mirrors() {
  sources=$(host_sources)
  if [ -n "$sources" ]; then
    rm -f "$root/etc/apt/sources.list"
    echo "$sources" | while IFS= read -r file; do cp -L "$file" "$root/etc/apt/sources.list.d/"; done
    if [ -f "$root/etc/apt/sources.list.d/sources.list" ]; then
      mv "$root/etc/apt/sources.list.d/sources.list" "$root/etc/apt/"
    fi
  fi
  apt-config dump | grep -E '^Acquire::(http|https|Check-|Retries)' > "$root/etc/apt/apt.conf.d/99host" || true
  for file in /etc/pip.conf "${HOME:-/root}/.pip/pip.conf" "${HOME:-/root}/.config/pip/pip.conf"; do
    if [ -f "$file" ]; then cat "$file" >> "$root/etc/pip.conf"; fi
  done
  if ls /usr/local/share/ca-certificates/*.crt > /dev/null 2>&1; then
    cp -L /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
    inside update-ca-certificates > /dev/null 2>&1 || fail "update-ca-certificates failed in the root"
  fi
}

# The variables that lead to mirrors, one "NAME=VALUE" a line; paths of this machine stay out.
mirror_variables() {
  env | grep -E '^(PIP_(INDEX_URL|EXTRA_INDEX_URL|TRUSTED_HOST|PROXY|DEFAULT_TIMEOUT)|(https?|no)_proxy|(HTTPS?|NO)_PROXY)=' ||
    true
  # pip brings its own certificates; the ones added here are known to the system's file only.
  if ls /usr/local/share/ca-certificates/*.crt > /dev/null 2>&1; then echo PIP_CERT=/etc/ssl/certs/ca-certificates.crt; fi
}

clone() {
  git init -q --bare --initial-branch=main "$root/srv/ommatidia.git"
  git -C "$here" push -q "$root/srv/ommatidia.git" HEAD:refs/heads/main
  inside git clone -q /srv/ommatidia.git /root/ommatidia || fail "git clone failed in the root"
}

megabytes() { du -sm --one-file-system "$@" 2> /dev/null | awk '{sum += $1} END {print sum + 0}'; }

# Packages stay in apt's folder, so that its growth is what a command has downloaded through apt.
run_command() {
  say "running: $1"
  before=$(megabytes "$root/var/cache/apt/archives" "$root/var/lib/apt/lists")
  begin=$(date +%s)
  status=0
  # The program expands its own argument.
  # shellcheck disable=SC2016
  inside sh -c 'cd /root/ommatidia; set -a; if [ -s /root/mirrors.env ]; then . /root/mirrors.env; fi; set +a; eval "$1"' sh "$1" ||
    status=$?
  after=$(megabytes "$root/var/cache/apt/archives" "$root/var/lib/apt/lists")
  say "done: $1: exit status $status, $(($(date +%s) - begin)) s, $((after - before)) MB of packages, root now $(megabytes "$root") MB"
  [ "$status" -eq 0 ] || exit "$status"
}

[ -n "$mirror" ] || mirror=$(find_mirror)
make_root
if [ $host_mirrors = yes ]; then
  copy_host_mirrors
  mirror_variables | sed "s/'/'\\\\''/g; s/=\(.*\)/='\1'/" > "$root/root/mirrors.env"
fi
clone
# Names of packages have no blanks.
# shellcheck disable=SC2086
[ -z "$copies" ] || cp $copies "$root/root/"
for command in "$@"; do run_command "$command"; done
