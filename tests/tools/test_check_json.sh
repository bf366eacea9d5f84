#!/bin/sh
# Plants JSON that is put together by hand in a small tree and expects exactly the right lines; what
# only looks like it must pass.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base" "$tree/src/reading"

# All calls are such; the third goes over three lines.
cat > "$tree/src/a.c" <<'TEXT'
void write(struct ommai_text *out, FILE *file) {
  ommai_text_add(out, "{\"id\":");
  ommai_text_format(out, ",\"%s\":%d", "key", 1);
  ommai_text_format(
      out, first(out) ? "{\"index\":%d"
                      : "none", 1);
  snprintf(body, sizeof body, "{\"error\": null}");
  fputs("[\"a\"]", file);
  ommai_text_add(out, n ? "," : "]");
}
TEXT
# Metrics, markup, examples in messages, constants that are read, comments.
cat > "$tree/src/b.c" <<'TEXT'
/* ommai_text_add(out, "{\"id\":"); */
static const char standard[] = "{\"min_pixels\": 3136}";
void write(struct ommai_text *out, FILE *file) {
  ommai_text_format(out, "cpus{limit=\"cores\",kind=\"%s\"} %d\n", "a", 1);
  fprintf(file, "<p class=\"a\" id=\"b\">");
  ommai_usage_error("give {\"tokens\": [1]}");
  ommai_text_add(out, "data: ");
  ommai_put_begin(out, "choices", "[{");
  ommai_text_format(out, "%s=%d, (none)", "a", 1);
}
TEXT
printf 'void f(void) { ommai_text_add(out, "{"); }\n' > "$tree/src/base/json_writer.c"
printf 'void f(void) { fputs("{\\"source\\": ", out); }\n' > "$tree/src/reading/document_writer.c"

expected='src/a.c:2:
src/a.c:3:
src/a.c:5:
src/a.c:7:
src/a.c:8:
src/a.c:9:
src/a.c:9:'
found=$("$here/../../tools/check_json.py" --root "$tree")
status=$?
places=$(printf '%s\n' "$found" | grep -o '^[^:]*:[0-9]*:')
if [ "$status" -ne 1 ] || [ "$places" != "$expected" ]; then
  printf 'exit %s, found:\n%s\nexpected places:\n%s\n' "$status" "$found" "$expected" >&2
  exit 1
fi

# An accepted file that writes none is named.
rm "$tree/src/a.c"
"$here/../../tools/check_json.py" --root "$tree" || { echo "a clean tree was refused" >&2; exit 1; }
printf 'int nothing;\n' > "$tree/src/reading/document_writer.c"
if found=$("$here/../../tools/check_json.py" --root "$tree"); then
  echo "an exception without need passed" >&2
  exit 1
fi
case $found in
  *document_writer*"writes no JSON"*) ;;
  *) echo "unexpected: $found" >&2; exit 1 ;;
esac
