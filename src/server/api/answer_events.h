/* The callbacks of an answer, on the engine's thread: tokens are collected, and sent as events of a
 * stream or as one reply. */
#pragma once

#include "server/api/answer_object.h"

/* What the engine calls for a choice. Everything that it reads is set before the first submit. */
struct omma_callbacks ommai_answer_choice_callbacks(struct ommai_answer_choice *choice);

/* Sends the images as a comment of the stream. */
void ommai_call_answer_push_images(struct ommai_call_answer *answer);
