#!/bin/sh
# Makes commits with good and bad messages in a repository of its own and expects a line for each
# bad one.
set -u
if ! command -v git > /dev/null; then
  echo "skipped: no git"
  exit 0
fi
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
cd "$tree" || exit 1
GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_CONFIG_NOSYSTEM GIT_CONFIG_GLOBAL
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

fail() {
  echo "test_check_commits: $1" >&2
  exit 1
}
check() { "$here/../../tools/check_commits.py" "$@"; }

# FILE N MESSAGE...: N lines more in the file.
commit() {
  file=$1
  seq "$2" >> "$file"
  shift 2
  git add -A
  git commit -q "$@"
}

git init -q -b start . || exit 1
mkdir src
check > out 2>&1 || fail "fails where there is nothing to compare with"
grep -q skipped out || fail "does not say that it checks nothing"
rm out
commit src/a.c 1 -m 'anything at all.'
git branch main
commit src/a.c 20 -m 'engine: small enough'
commit src/a.c 21 -m 'engine: large' -m 'Because.'
commit notes.md 50 -m 'docs: not below src'
check > out 2>&1 || fail "refuses good messages: $(cat out)"
[ ! -s out ] || fail "speaks of good messages: $(cat out)"
rm out
commit src/a.c 21 -m 'engine: large'
commit src/a.c 1 -m 'no area'
commit src/a.c 1 -m 'engine: ends.'
commit src/a.c 1 -m "engine: $(seq -s ' ' 60)"
! check 2> out || fail "accepts bad messages"
[ "$(wc -l < out)" -eq 4 ] || fail "expected four lines: $(cat out)"
for words in '21 lines' 'no area' 'full stop' 'columns'; do
  grep -q "$words" out || fail "no line with '$words': $(cat out)"
done
rm out
! check nowhere 2> out || fail "accepts a base that is not there"
grep -q 'no revision nowhere' out || fail "does not say that the base is not there"
check HEAD~1 > /dev/null 2>&1 && fail "accepts the last message"
exit 0
