/* Tables of lines with "|" in Markdown. */
#pragma once

/* A text that has two lines or more between pipes, with its tables in HTML: a line is a row of
 * <td>, lines that follow one another are one table. As the benchmark does it, lines with "---" or
 * ":" inside of tables are left out, also cells, and so is the line before a table. Frees the text;
 * NULL stays NULL: memory is out. */
char *ommai_pipe_tables(char *text);
