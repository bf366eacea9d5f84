/* A page on its way from pixels to blocks (layout.h): what a model is asked, and what is made of
 * its answers.
 *
 * With a recipe that has a layout: layout_request -> layout_read -> for each block
 * element_request -> its answer as "content" -> finish. Else: a page's only block, of type text,
 * and the same. */
#pragma once

#include <omma/status.h>

#include "families/reading_recipe.h"
#include "image/image.h"
#include "reading/layout.h"

/* The body of a chat completion about the whole page for its layout. Errors: MEMORY, LIMIT,
 * INTERNAL. */
enum omma_status ommai_page_layout_request(const struct ommai_reading_recipe *recipe, const struct ommai_image *page,
                                           json_t **body, struct omma_error *error);

/* The one block of a page that is read as a whole. NULL when memory is out. */
json_t *ommai_page_whole(void);

/* The body about one block; NULL where it is not asked about. `prompt` NULL: the recipe's.
 * Errors as above. */
enum omma_status ommai_page_element_request(const struct ommai_reading_recipe *recipe, const char *prompt,
                                            const struct ommai_image *page, const json_t *block, json_t **body,
                                            struct omma_error *error);

/* A block's pixels, cut out and upright; with `fitted` as the model gets them. *crop is NULL where
 * nothing is left of it. Errors: MEMORY, LIMIT. */
enum omma_status ommai_page_crop(const struct ommai_reading_recipe *recipe, const struct ommai_image *page, const json_t *block,
                                 bool fitted, struct ommai_image **crop, struct omma_error *error);

/* Makes of the answers what they mean: tables become HTML (the answer stays as "otsl"), formulas
 * are repaired and joined, placeholders and groups go. `whole`: the page was read as a whole,
 * and its answer stays as it is. False when memory is out. */
bool ommai_page_finish(json_t *blocks, bool whole);
