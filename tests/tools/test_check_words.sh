#!/bin/sh
# Plants old words, wide and ragged lines in a small tree and expects exactly the right lines; what
# only looks like them must pass.
# shellcheck disable=SC2016
set -u
LC_ALL=C.UTF-8
export LC_ALL

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/image" "$tree/tests/data" "$tree/docs"
wide=$(printf 'word %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21)

printf '/* A %s. */\nint %s_size;\nint %s;\n' 'picture' 'picture' 'image_plan' > "$tree/src/a.c"
printf '/* %s */\n  /* first\n   * %s */\nchar s[] = "/* no comment %s";\n' "$wide" "$wide" "$wide" > "$tree/src/b.c"
printf 'double %s = 1;\n' 'stretch' > "$tree/src/image/resize.c"
printf 'int is_%s, %sx;\n' 'told' 'told' > "$tree/src/d.c"
mkdir -p "$tree/src/language"
printf 'int n_%sed;\nint in_%s, %sful;\n/* %s answers */\n' 'guess' 'thought' 'thought' 'structured' > "$tree/src/f.c"
printf 'int n_%ses;\n' 'guess' > "$tree/src/language/token_cut.c"
# Lines 1, 2, 8, 13 and 16 end early; the others are a sentence's end, tables, labels and lines as
# full as they can be.
cat > "$tree/src/e.c" <<'TEXT'
/* What
 * ends so early that
 * all of it would have fitted into one. One sentence ends here.
 * another  a table, with two blanks
 * row      of it */
struct s {
  int n; /* members are left alone */
  /* but this one is
   * too short for its words, as are some whose next word has_a_very_long_name_of_its_own_and_more
   * abcdefghi */
};
/* Lists:
 * - one whose line
 *   could go on
 * - another
 *   workers   take calls
 *             one by one
 *   one: a label of
 *   two: code
 *   as is */
TEXT
printf '%s\n' 'picture' > "$tree/tests/data/official.txt"
printf '# %s\n\n| %s |\n\n    %s\n\n```\n%s\n```\n\n%s\n' "$wide" "$wide" "$wide" "$wide" "$wide" > "$tree/docs/page.md"
# Lines 1, 4, 9 and 16 are too wide; the others are code, strings, usage in a docstring, or pragmas.
cat > "$tree/tool.py" <<TEXT
"""$wide

    usage: $wide
$wide
"""
text = "# $wide"
lines = '''
# $wide'''
call("it's", '\"#')  # $wide
call()  # noqa: E731 $wide


def f():
    other = """
$wide""" + "\"# $wide"
    # $wide
    # https://example.org/$(printf '%s' "$wide" | tr ' ' '/')
TEXT
printf '#!/bin/sh\n# %s\necho "%s"\n# shellcheck disable=SC2016 %s\n' "$wide" "$wide" "$wide" > "$tree/tool.sh"
printf 'Ask "What is in this %s?".\nNot %s.\n' 'picture' 'so long' > "$tree/docs/short.md"

cat > "$tree.expected" <<'TEXT'
docs/page.md:11: columns: a line of 105 columns
docs/short.md:2: word: " so long.": write that many, that long
src/a.c:1: word: "pictur": write image
src/a.c:2: word: "pictur": write image
src/a.c:3: word: "image_plan": write image_sizes
src/b.c:1: columns: a comment of 111 columns
src/b.c:2: ragged: "word" would have fitted after column 10
src/b.c:3: columns: a comment of 113 columns
src/d.c:1: word: "_told,": write printed, reported, logged or returned
src/e.c:13: ragged: "could" would have fitted after column 19
src/e.c:16: ragged: "one" would have fitted after column 25
src/e.c:1: ragged: "ends" would have fitted after column 7
src/e.c:2: ragged: "all" would have fitted after column 21
src/e.c:8: ragged: "too" would have fitted after column 20
src/f.c:1: word: "guess": write draft (of speculative decoding), or estimate
src/f.c:2: word: "_thought,": write reasoning
src/f.c:3: word: "structured answer": write structured output (what is asked for), or grammar (what enforces it)
tool.py:16: columns: a comment of 111 columns
tool.py:1: columns: a docstring of 108 columns
tool.py:4: columns: a docstring of 105 columns
tool.py:9: columns: a comment of 128 columns
tool.sh:2: columns: a comment of 107 columns
TEXT
"$here/../../tools/check_words.sh" --root "$tree" 2> /dev/null | sort > "$tree.found"
status=0
diff "$tree.expected" "$tree.found" || status=1
rm -f "$tree.expected" "$tree.found"
exit "$status"
