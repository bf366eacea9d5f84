/* Tables in OTSL ("<fcel>a<lcel><nl>...") to HTML.
 *
 * <fcel> begins a cell with text, <ecel> an empty one; <lcel>, <ucel> and <xcel> belong to the cell
 * to the left, above, or both; <nl> ends a row. Short rows are filled with empty cells. The rules,
 * for broken tables too, are those of mineru-vl-utils 2.0.7. */
#pragma once

/* The table in one line without an end; release with free(). Text that is an HTML table already is
 * copied; where no cell is, the result is "". NULL when memory is out or the table has more than
 * 1,000,000 cells. */
char *ommai_otsl_to_html(const char *text);
