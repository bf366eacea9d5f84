#include <math.h>
#include <omma/vectors.h>

double omma_vectors_max_sim(const struct omma_vectors *query, const struct omma_vectors *document) {
  const int64_t width = query->width;
  double score = 0;
  if (width != document->width) return (double)NAN;
  for (int64_t i = 0; i < query->n_rows; i++) {
    double largest = -INFINITY;
    for (int64_t j = 0; j < document->n_rows; j++) {
      const float *a = query->values + i * width, *b = document->values + j * width;
      double product = 0;
      for (int64_t k = 0; k < width; k++) product += (double)a[k] * b[k];
      largest = fmax(largest, product);
    }
    score += largest;
  }
  return score;
}
