/* Renders a chat template: {"template": ..., "variables": {...}} a line on stdin, {"text": ...} or
 * {"error": ...} a line on stdout. */
#include "jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocator.h"

static json_t *render(const json_t *template, const json_t *variables) {
  struct ommai_jinja *jinja = NULL;
  struct omma_error error = {0};
  char *text = NULL;
  size_t size = 0;
  json_t *result;
  enum omma_status status =
      ommai_jinja_create(json_string_value(template), json_string_length(template), &ommai_default_allocator, &jinja, &error);
  if (status == OMMA_OK) status = ommai_jinja_render(jinja, variables, (size_t)8 << 20, &text, &size, &error);
  if (status == OMMA_OK) {
    result = json_pack("{s:s%}", "text", text, size);
    ommai_release(&ommai_default_allocator, text, size + 1, 1);
  } else {
    result = json_pack("{s:s, s:i}", "error", error.message, "status", (int)status);
  }
  ommai_jinja_destroy(jinja);
  return result;
}

int main(void) {
  char *line = NULL;
  size_t capacity = 0;
  for (ssize_t size; (size = getline(&line, &capacity, stdin)) > 0;) {
    json_t *request = json_loadb(line, (size_t)size, JSON_ALLOW_NUL, NULL);
    json_t *result = render(json_object_get(request, "template"), json_object_get(request, "variables"));
    json_dumpf(result, stdout, JSON_COMPACT);
    puts("");
    fflush(stdout);
    json_decref(result);
    json_decref(request);
  }
  free(line);
  return 0;
}
