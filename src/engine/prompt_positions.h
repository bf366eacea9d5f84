/* The three rotary positions of prompt tokens: text counts up in all axes; a picture's tokens keep the counter in time and add
 * their row and column; after a picture the counter goes on behind its longer side. Source: get_rope_index of the official code. */
#ifndef OMMAI_ENGINE_PROMPT_POSITIONS_H
#define OMMAI_ENGINE_PROMPT_POSITIONS_H

#include <stdint.h>

/* Places the next text token. */
void ommai_position_text(int32_t *counter, int32_t position[3]);

/* Places token (row, column) of a picture that began at *counter. */
void ommai_position_picture(int32_t counter, int64_t row, int64_t column, int32_t position[3]);

/* Moves the counter behind a picture of rows x columns tokens. */
void ommai_position_after_picture(int32_t *counter, int64_t rows, int64_t columns);

#endif
