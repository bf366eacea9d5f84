/* The bytes of page/page.html with the style and the scripts of its folder, put into the program by
 * cmake/embed.cmake. */
#pragma once

#include <stddef.h>

extern const unsigned char ommai_page_file[];
extern const size_t ommai_page_file_size;
