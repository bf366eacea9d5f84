/* LaTeX as plain text, as far as letters and digits are concerned: those that pylatexenc 3.0a30
 * makes of it. Greek letters, names of functions, alphabets (\mathbf and the like), accents,
 * fractions; other commands are nothing, and their arguments stay. */
#pragma once

/* By malloc; NULL when memory is out. Groups and environments that do not end cut the text there;
 * an end without a beginning leaves nothing. */
char *ommai_latex_text(const char *latex);
