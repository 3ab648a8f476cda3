/* page.h: page/index.html, put into the program by the build. */
#ifndef CONTROLLER_PAGE_H
#define CONTROLLER_PAGE_H

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_len;

#endif
