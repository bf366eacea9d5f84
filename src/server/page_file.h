/* The bytes of page.html, put into the program by cmake/embed.cmake. */
#ifndef OMMAI_SERVER_PAGE_FILE_H
#define OMMAI_SERVER_PAGE_FILE_H

#include <stddef.h>

extern const unsigned char ommai_page_file[];
extern const size_t ommai_page_file_size;

#endif
