/* The columns of the tables that omma/layout.h describes. A file that includes this header lists
 * structs and members between the braces of an array. */
#pragma once

#include <omma/layout.h>

#define OMMAI_STRUCT(name) {#name, NULL, 0, sizeof(struct name)},
#define OMMAI_MEMBER(name, member) {#name, #member, offsetof(struct name, member), sizeof(((struct name *)0)->member)},
#define OMMAI_CONSTANT(name) {NULL, #name, name, 0},
