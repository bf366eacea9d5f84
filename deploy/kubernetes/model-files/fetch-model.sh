#!/bin/sh
# Brings a model's files before the server starts: fetch-model.sh URL DIR.
#
# URL is where they lie in an object store or on any web server; its file SHA256SUMS lists them
# (sha256sum * > SHA256SUMS). A file that is there and has its sum stays, one that broke off goes on
# where it stopped. DIR has the model when this ends with 0, and is left alone when it is complete.
# A header for the store, such as "Authorization: Bearer TOKEN", may lie in the file that
# MODEL_HEADER_FILE names.
set -eu

url=${1%/} directory=$2
mkdir -p "$directory"
cd "$directory"

get() { # get NAME: from the store, continued where it broke off
  set -- "$1" --fail --silent --show-error --location --retry 5 --retry-all-errors --connect-timeout 20
  [ -z "${MODEL_HEADER_FILE:-}" ] || set -- "$@" --header "@$MODEL_HEADER_FILE"
  name=$1
  shift
  curl "$@" --continue-at - --output ".part-$name" "$url/$name"
}

has() { # has FILE: with the sum of the line
  echo "$sum  $1" | sha256sum -c > /dev/null 2>&1
}

rm -f .part-SHA256SUMS
get SHA256SUMS
while read -r sum name; do
  name=${name#\*}
  case $name in
    '' | */* | .*) echo "fetch-model: SHA256SUMS: not the name of a file here: $name" >&2; exit 1 ;;
  esac
  if has "$name"; then continue; fi
  # 22: an answer that is none, as some give where the part is longer than the file
  if ! has ".part-$name"; then get "$name" || [ $? = 22 ]; fi
  if ! has ".part-$name"; then # the part was another file's
    rm -f ".part-$name"
    get "$name"
  fi
  if ! has ".part-$name"; then
    rm -f ".part-$name"
    echo "fetch-model: $name: not the file that SHA256SUMS has" >&2
    exit 1
  fi
  mv ".part-$name" "$name"
  echo "fetch-model: $name"
done < .part-SHA256SUMS
mv .part-SHA256SUMS SHA256SUMS
