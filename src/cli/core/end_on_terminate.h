/* What the program does where a C++ library ends it. */
#pragma once

/* From now on std::terminate, which oneDNN calls where memory runs out while it makes code (2.6),
 * prints a line and ends the process with status 1, where the C++ runtime would abort. Nothing
 * where no such runtime is linked. For the program alone: a host of libomma chooses by
 * itself. */
void ommai_end_on_terminate(void);
