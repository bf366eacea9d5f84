/* The JSON object of a tool call, read byte by byte: where the name and the arguments are in it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What a byte is. BROKEN: no object can go on like this, and later bytes must not come. */
enum ommai_tool_byte {
  OMMAI_TOOL_BYTE_OTHER,
  OMMAI_TOOL_BYTE_NAME,      /* of the name's value: JSON, with its quotation marks */
  OMMAI_TOOL_BYTE_ARGUMENTS, /* of the value of "arguments" or "parameters" */
  OMMAI_TOOL_BYTE_END,       /* the object's last */
  OMMAI_TOOL_BYTE_BROKEN
};

/* Zeroed at the beginning of an object. */
struct ommai_tool_object {
  int state;
  enum ommai_tool_byte value; /* whose value is read */
  int depth;                  /* of brackets in the value */
  bool string, escaped;       /* inside a string; after its backslash */
  char key[16];
  size_t key_size; /* one more than the room for it: an unknown key */
  bool name_ended; /* the name's value is complete */
};

/* The next byte. Strings and brackets are followed, not the rest of JSON's rules: values are to be
 * parsed when they are complete. */
enum ommai_tool_byte ommai_tool_object_take(struct ommai_tool_object *object, char byte);
