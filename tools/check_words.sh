#!/bin/sh
# Checks that names and prose use the field's words, and that comments and Markdown keep to 100
# columns.
# The awk programs below stand in single quotes on purpose.
# shellcheck disable=SC2016
set -u
LC_ALL=C.UTF-8
export LC_ALL

usage() {
  cat <<'TEXT'
usage: tools/check_words.sh [--root DIR] [--rule NAME]

Prints one line per violation, "file:line: rule: what", and exits with 1 when there is any, 2 on a usage error.

  --root DIR   the tree to check (default: the one this script lies in)
  --rule NAME  only this rule

Rules:
  word     a word that another one has replaced, in a name or in prose
  columns  a comment of a C source, a Python source or a shell script, a docstring, or a line of
           Markdown, of more than 100 columns; tables, code, headings, links and what has no blank
           to break at are left alone
  ragged   a line within a sentence of a C comment that ends early: the next word would have fitted
           with six columns to spare
TEXT
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd) || exit 2
rule=all
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --root) [ $# -ge 2 ] || { usage >&2; exit 2; }; root=$2; shift 2 ;;
    --rule) [ $# -ge 2 ] || { usage >&2; exit 2; }; rule=$2; shift 2 ;;
    *) echo "check_words: unknown argument: $1" >&2; usage >&2; exit 2 ;;
  esac
done
case $rule in
  all | word | columns | ragged) ;;
  *) echo "check_words: no rule $rule" >&2; exit 2 ;;
esac
cd -- "$root" || exit 2

# What is checked: everything of ours but test data, the demo model's texts and this list.
ours() {
  if [ -e .git ]; then
    git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
      if [ -f "$file" ]; then echo "$file"; fi
    done
  else
    find . \( -name build -o -name .git \) -prune -o -type f -print | sed 's#^\./##' | if [ $# -eq 0 ]; then cat; else
      grep -E "$(printf '%s\n' "$@" | sed 's/[.]/\\./g; s/[*]/.*/g; s/$/$/' | paste -sd'|' -)"
    fi
  fi |
    grep -vE '^(tests/data|tests/golden/[^/]*/|fuzz/corpus|models|docs/images|LICENSE|tools/check_words\.sh|tests/tools/test_check_words\.sh)'
}

# PATTERN|what to write. Extended regular expressions, case ignored; names count with their parts.
words='pictur|image
loadtest|bench_client
ommai_exchange|http_call
connection_clock|connection
vision_clock|vision_profile
few_rows|gemv
ladder|row_steps, or row steps
latent[ _]attention|MLA
chat[ _]form|chat template
published_processor|default_processor
src/models|src/families
(^|[^a-z])company|batch
(^|[^a-z_])stretch(es)?([^a-z]|$)|span
whole numbers?|integer
made ready|prepared
wrong.use|usage error
is no multiple|is not a multiple
linear_engine|linear_context
image_plan|image_sizes
memory_plan|memory_estimate
text_plan|text_cost
dense parts?|shared expert, or the MLP of a dense layer
foresee|predict
(^|[^a-z])so (many|long)([^a-z]|$)|that many, that long
(^|[^a-z])films?([^a-z]|$)|video
(^|[^a-z_>])beside([^a-z_]|$)|next to, besides, or compared with
(^|[^a-z])told([^a-z]|$)|printed, reported, logged or returned
guess|draft (of speculative decoding), or estimate
(^|[^a-z])thoughts?([^a-z]|$)|reasoning
structured[ _-]answer|structured output (what is asked for), or grammar (what enforces it)'

# FILE:PATTERN of lines that may have such a word, each with its reason.
allowed='
# Prompts to models and their answers, which are texts of the vocabulary that the demo model was
# trained on
.*:(in|Describe|show me) (this|the) picture
.*:(What is|What does|Does|Which|The|In the|first|second|next) .*picture
^tools/(demo_|fixture_(golden|tiktoken|tokenizer)|make_text_fixtures).*:.
^bench/http_cost\.py:"picture"
^src/families/reading_recipe\.c:"picture"
^tools/train_demo_vectors\.py:.*"a picture of a
# The official chat template writes "Picture 1: "
.*:Picture ([0-9]|" )
# A filter of an image is stretched
^src/image/resize\.c:stretch
# CSS
\.(html|css|svg):stretch
# Names of test functions and variables
^tests/unit/test_encoder_cache\.c:beside
_beside_
# The glossary spells the abbreviation out
^docs/glossary\.md:latent attention
# "Among so many" is the plain meaning
^tests/unit/test_attention\.c:among so many
# Thresholds of a search are guessed from samples
^src/language/token_cut\.[ch]:(guess|GUESS)
# What the page shows ("Thought for 3 s"), its parts with that name, and their tests
^(src/server/page|tests/page)/.*:[Tt]hought
# Names of cases in test data
^tools/make_chat_templates\.py:(thought|THOUGHT)
# Names of 0.1.0
^CHANGELOG\.md:(GUESSED_TOKENS|in_thought)
'

check_words() {
  patterns=$(printf '%s\n' "$words" | sed 's/|[^|]*$//' | sed 's/^/(/; s/$/)/' | paste -sd'|' -)
  exceptions=$(printf '%s\n' "$allowed" | grep -vE '^(#|$)' | sed 's/^/(/; s/$/)/; s/:/:.*/' | paste -sd'|' -)
  ours | tr '\n' '\0' | xargs -0 grep -HnIiE "$patterns" -- 2>/dev/null |
    sed -E 's/^([^:]*):([0-9]+):/\2:\1:/' | while IFS=: read -r line file text; do
      printf '%s:%s\001%s\n' "$file" "$text" "$line"
    done | grep -vE "$exceptions" |
    awk -F '\001' -v list="$words" '
      BEGIN {
        n = split(list, rows, "\n")
        for (i = 1; i <= n; i++) {
          at = length(rows[i])
          while (substr(rows[i], at, 1) != "|") at--
          pattern[i] = tolower(substr(rows[i], 1, at - 1)); use[i] = substr(rows[i], at + 1)
        }
      }
      {
        at = index($1, ":"); file = substr($1, 1, at - 1); text = tolower(substr($1, at + 1))
        for (i = 1; i <= n; i++)
          if (match(text, pattern[i])) { printf "%s:%s: word: \"%s\": write %s\n", file, $2, substr(text, RSTART, RLENGTH), use[i]; break }
      }'
}

# Lines of comments that go beyond column 100. Strings may hold what begins a comment.
c_columns='
FNR == 1 { inside = 0 }
{
  rest = $0; comment = inside
  while (rest != "") {
    if (inside) { at = index(rest, "*/"); if (!at) break; rest = substr(rest, at + 2); inside = 0; continue }
    if (!match(rest, /["\047]|\/\*|\/\//)) break
    start = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
    if (start == "//") { comment = rest != ""; break }
    if (start == "/*") { inside = comment = 1; continue }
    if (start == "\"") literal = match(rest, /^([^"\\]|\\.)*"/); else literal = match(rest, /^([^\047\\]|\\.)*\047/)
    if (!literal) break
    rest = substr(rest, RLENGTH + 1)
  }
  if (comment && length($0) > 100 && $0 !~ /\\$/) printf "%s:%d: columns: a comment of %d columns\n", FILENAME, FNR, length($0)
}'
md_columns='
FNR == 1 { fence = 0 }
/^[ \t]*(```|~~~)/ { fence = !fence; next }
fence || /^(    |[ \t]*[|#<]|[ \t]*!?\[[^]]*\][:(])/ { next }
length($0) > 100 {
  text = $0
  while (match(text, /`[^`]*`|\]\([^)]*\)/)) text = substr(text, 1, RSTART - 1) "x" substr(text, RSTART + RLENGTH)
  if (length(text) > 60) printf "%s:%d: columns: a line of %d columns\n", FILENAME, FNR, length($0)
}'

# Docstrings are strings in triple quotes that begin a line; what is indented deeper in them is code
# or a table. Pragmas (noqa, type: ignore) must stay on their line.
py_columns='
FNR == 1 { quote = "" }
{
  rest = $0; prose = ""
  match($0, /^[ \t]*/); deep = RLENGTH
  if (quote == "" && match($0, /^[ \t]*[rRuU]?("""|\047\047\047)/)) { docstring = 1; indent = deep }
  while (rest != "") {
    if (quote != "") {
      if (docstring && deep <= indent) prose = "docstring"
      at = index(rest, quote); if (!at) break
      rest = substr(rest, at + 3); quote = ""; docstring = 0; continue
    }
    if (!match(rest, /"""|\047\047\047|["\047#]/)) break
    start = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
    if (start == "#") { if (rest !~ /^ *(noqa|type:|pyright:|pragma:)/) prose = "comment"; break }
    if (length(start) == 3) { quote = start; continue }
    if (start == "\"") literal = match(rest, /^([^"\\]|\\.)*"/); else literal = match(rest, /^([^\047\\]|\\.)*\047/)
    if (!literal) break
    rest = substr(rest, RLENGTH + 1)
  }
  if (prose != "" && length($0) > 100 && $0 !~ /^[ \t#]*[^ \t]+$/)
    printf "%s:%d: columns: a %s of %d columns\n", FILENAME, FNR, prose, length($0)
}'
sh_columns='
length($0) > 100 && /^[ \t]*#[^!]/ && !/^[ \t]*# *shellcheck / && !/^[ \t#]*[^ \t]+$/ {
  printf "%s:%d: columns: a comment of %d columns\n", FILENAME, FNR, length($0)
}'

# A line of a comment and the one after it at the same depth, whose first word is long enough away
# from column 100. A dash, or a word and two blanks, begin a text that goes on at its depth. Other
# lines with two blanks somewhere are tables or code; they, labels with a colon and sentences' ends
# are left alone.
c_ragged='
FNR == 1 { text = "" }
{
  last = text; last_depth = depth; columns = before; text = ""; before = length($0)
  if (match($0, /^[ \t]*\/\*+ /)) { text = substr($0, RLENGTH + 1); last = "" }
  else if (match($0, /^[ \t]*\* /)) text = substr($0, RLENGTH + 1)
  else next
  depth = RLENGTH
  ended = sub(/ *\*\/.*$/, "", text)
  if (match(text, /^ *(- |[^ ]+  +)/)) { label = depth += RLENGTH; text = substr(text, RLENGTH + 1); last = "" }
  else if (match(text, /^ +/) && depth + RLENGTH == label) { depth = label; text = substr(text, RLENGTH + 1) }
  else label = 0
  if (text ~ /  / || text ~ /^[|]/) text = ""
  if (depth == last_depth && last ~ /[a-z,]$/ && text ~ /^[a-z(`]/ && text !~ /^[a-z_]+:/) {
    split(text, words, " ")
    if (columns + 1 + length(words[1]) <= 94)
      printf "%s:%d: ragged: \"%s\" would have fitted after column %d\n", FILENAME, FNR - 1, words[1], columns
  }
  if (ended) text = ""
}'

check_ragged() {
  ours '*.c' '*.h' | tr '\n' '\0' | xargs -0 awk "$c_ragged"
}

check_columns() {
  ours '*.c' '*.h' '*.cc' '*.cpp' | tr '\n' '\0' | xargs -0 awk "$c_columns"
  ours '*.md' | tr '\n' '\0' | xargs -0 awk "$md_columns"
  ours '*.py' | tr '\n' '\0' | xargs -0 awk "$py_columns"
  ours '*.sh' .ci/run | tr '\n' '\0' | xargs -0 awk "$sh_columns"
}

violations=$(
  case $rule in all | word) check_words ;; esac
  case $rule in all | columns) check_columns ;; esac
  case $rule in all | ragged) check_ragged ;; esac
)
[ -n "$violations" ] || exit 0
printf '%s\n' "$violations"
printf 'check_words: violations: %d\n' "$(printf '%s\n' "$violations" | wc -l)" >&2
exit 1
