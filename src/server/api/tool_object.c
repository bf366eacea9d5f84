#include "server/api/tool_object.h"

#include <string.h>

enum { OPEN, FIRST_KEY, KEY_START, KEY, COLON, VALUE_START, VALUE, AFTER, CLOSED };

static bool is_blank(char byte) { return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t'; }

static void add_to_key(struct ommai_tool_object *object, char byte) {
  if (object->key_size < sizeof object->key) {
    object->key[object->key_size++] = byte;
  } else {
    object->key_size = sizeof object->key + 1;
  }
}

static bool is_key(const struct ommai_tool_object *object, const char *key) {
  return object->key_size == strlen(key) && memcmp(object->key, key, object->key_size) == 0;
}

static enum ommai_tool_byte value_of_key(const struct ommai_tool_object *object) {
  if (is_key(object, "name")) return OMMAI_TOOL_BYTE_NAME;
  return is_key(object, "arguments") || is_key(object, "parameters") ? OMMAI_TOOL_BYTE_ARGUMENTS : OMMAI_TOOL_BYTE_OTHER;
}

/* After the closing quotation mark: false. */
static bool stays_in_string(struct ommai_tool_object *object, char byte) {
  if (object->escaped) {
    object->escaped = false;
  } else if (byte == '\\') {
    object->escaped = true;
  } else if (byte == '"') {
    object->string = false;
  }
  return object->string;
}

static enum ommai_tool_byte end_value(struct ommai_tool_object *object) {
  object->state = AFTER;
  if (object->value == OMMAI_TOOL_BYTE_NAME) object->name_ended = true;
  return object->value;
}

static enum ommai_tool_byte take_after(struct ommai_tool_object *object, char byte) {
  if (is_blank(byte)) return OMMAI_TOOL_BYTE_OTHER;
  if (byte == ',') {
    object->state = KEY_START;
    return OMMAI_TOOL_BYTE_OTHER;
  }
  if (byte != '}') return OMMAI_TOOL_BYTE_BROKEN;
  object->state = CLOSED;
  return OMMAI_TOOL_BYTE_END;
}

static enum ommai_tool_byte take_value(struct ommai_tool_object *object, char byte) {
  if (object->string) {
    if (!stays_in_string(object, byte) && object->depth == 0) return end_value(object);
  } else if (byte == '"') {
    object->string = true;
  } else if (byte == '{' || byte == '[') {
    object->depth++;
  } else if (object->depth > 0) {
    if ((byte == '}' || byte == ']') && --object->depth == 0) return end_value(object);
  } else if (byte == ',' || byte == '}' || is_blank(byte)) {
    /* A number or word ends where something else begins. */
    end_value(object);
    return take_after(object, byte);
  }
  return object->value;
}

static enum ommai_tool_byte take_key(struct ommai_tool_object *object, char byte) {
  if (stays_in_string(object, byte)) {
    add_to_key(object, byte);
  } else {
    object->state = COLON;
  }
  return OMMAI_TOOL_BYTE_OTHER;
}

static enum ommai_tool_byte begin_key(struct ommai_tool_object *object, char byte) {
  if (byte == '}' && object->state == FIRST_KEY) return take_after(object, byte);
  if (byte != '"') return OMMAI_TOOL_BYTE_BROKEN;
  object->state = KEY;
  object->key_size = 0;
  object->string = true;
  return OMMAI_TOOL_BYTE_OTHER;
}

static enum ommai_tool_byte begin_value(struct ommai_tool_object *object, char byte) {
  if (byte == ',' || byte == '}' || byte == ']') return OMMAI_TOOL_BYTE_BROKEN;
  object->state = VALUE;
  object->value = value_of_key(object);
  object->depth = 0;
  return take_value(object, byte);
}

/* A mark that must come here. */
static enum ommai_tool_byte expect(struct ommai_tool_object *object, char byte, char wanted, int next) {
  if (byte != wanted) return OMMAI_TOOL_BYTE_BROKEN;
  object->state = next;
  return OMMAI_TOOL_BYTE_OTHER;
}

enum ommai_tool_byte ommai_tool_object_take(struct ommai_tool_object *object, char byte) {
  if (object->state == KEY) return take_key(object, byte);
  if (object->state == VALUE) return take_value(object, byte);
  if (is_blank(byte)) return OMMAI_TOOL_BYTE_OTHER;
  switch (object->state) {
    case OPEN: return expect(object, byte, '{', FIRST_KEY);
    case FIRST_KEY:
    case KEY_START: return begin_key(object, byte);
    case COLON: return expect(object, byte, ':', VALUE_START);
    case VALUE_START: return begin_value(object, byte);
    case AFTER: return take_after(object, byte);
    default: return OMMAI_TOOL_BYTE_BROKEN;
  }
}
