/* Repairs of what models write of formulas, as mineru-vl-utils 2.0.7 does them, but for unequal
 * numbers of \left and \right. Results are released with free(); NULL when memory is out. */
#pragma once

/* A formula in LaTeX: without \[ and \] around it, without twofold subscripts and braces that have
 * no counterpart. */
char *ommai_formula_repair(const char *latex);

/* A text with formulas in \( and \): displayed ones become inline, macros are separated from what
 * follows, long underscores leave the formula. */
char *ommai_formula_repair_text(const char *text);
