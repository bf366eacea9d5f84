/* Facts for people to read. */
#pragma once

#include <omma/model.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Bytes with a unit: "1.5 GiB". */
const char *ommai_format_bytes(int64_t bytes, char *out, size_t size);

/* In millions or billions: "1.16 billion". */
const char *ommai_format_count(int64_t count, char *out, size_t size);

/* Seconds with a unit: "12 ms". */
const char *ommai_format_seconds(double seconds, char *out, size_t size);

/* A line of a list of facts: two blanks, the name padded to 26 columns, the text as plain_text.h
 * makes it. */
void ommai_print_fact(FILE *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

struct omma_model_info;
/* One thing that the model's generation_config.json sets of sampling. */
struct ommai_sampling_fact {
  const char *name;
  double value;
};
enum { OMMAI_MAX_SAMPLING_FACTS = 9 };
/* Takes them all; returns how many. */
size_t ommai_sampling_facts(const struct omma_model_info *model, struct ommai_sampling_fact facts[OMMAI_MAX_SAMPLING_FACTS]);
/* The same as a text: "temperature 0.7, top_k 20"; empty where it sets nothing. */
const char *ommai_format_sampling(const struct omma_model_info *model, char *out, size_t size);
void ommai_print_model(FILE *out, const struct omma_model_info *model);

struct omma_memory_estimate;
/* Why there are no more requests at once. */
const char *ommai_sequence_bound_words(const struct omma_memory_estimate *estimate);
void ommai_print_memory_estimate(FILE *out, const struct omma_memory_estimate *estimate);

/* A line of the same form: what this process may still take. Nothing where that is not known. */
void ommai_print_free_memory(FILE *out);

/* "generate", "embed" or "score". */
const char *ommai_task_name(enum omma_model_task task);
