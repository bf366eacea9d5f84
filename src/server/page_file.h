/* The bytes of page.html, put into the program by cmake/embed.cmake. */
#pragma once

#include <stddef.h>

extern const unsigned char ommai_page_file[];
extern const size_t ommai_page_file_size;
