/* What of a text, a formula or a table OmniDocBench compares. All by malloc; NULL: memory is
 * out. */
#pragma once

/* Letters, digits and "_": formulas between $ or \( \) as ommai_latex_text has them. */
char *ommai_normal_text(const char *text);

/* The letters and digits alone, of a text whose formulas were replaced. */
char *ommai_normal_letters(char *text);

/* Without its delimiters, fonts, spaces and environments; in small letters. */
char *ommai_normal_formula(const char *latex);

/* One table in a body: <td> alone, without sections, styles and fonts; "" where there is none. */
char *ommai_normal_table(const char *html);

/* HTML's entities as characters, of a text by malloc, which it frees. */
char *ommai_unescaped(char *text);
