/* The three rotary positions of prompt tokens: text counts up in all axes; an image's tokens keep
 * the counter in time and add their row and column, a video's add the time of their temporal patch
 * too; after either the counter goes on after its longer side in space. Source: get_rope_index of
 * the official code. */
#pragma once

#include <stdint.h>

/* Places the next text token. */
void ommai_position_text(int32_t *counter, int32_t position[3]);

/* The time position of a video's temporal patch, counted from its begin. seconds: of a temporal
 * patch. Computed in f32 and cut to an integer, as the official code does. */
int32_t ommai_position_time(int64_t temporal_patch, double seconds, double tokens_per_second);

/* Places token (row, column) of an image, or of a temporal patch at `time`, that began at
 * counter. */
void ommai_position_image(int32_t counter, int32_t time, int64_t row, int64_t column, int32_t position[3]);

/* Moves the counter after an image of rows x columns tokens. */
void ommai_position_after_image(int32_t *counter, int64_t rows, int64_t columns);
