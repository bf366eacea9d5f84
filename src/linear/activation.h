/* The activations that a linear layer can apply to its result. */
#pragma once

/* GELU_TANH: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (PyTorch's gelu with
 * approximate="tanh"). GELU_ERF: 0.5 x (1 + erf(x / sqrt(2))) (Hendrycks and Gimpel 2016). SILU: x
 * / (1 + exp(-x)) (Elfwing et al. 2017). QUICK_GELU: x / (1 + exp(-1.702 x)) (the sigmoid
 * approximation of GELU by Hendrycks and Gimpel, as CLIP uses it). */
enum ommai_activation {
  OMMAI_ACTIVATION_NONE,
  OMMAI_ACTIVATION_GELU_TANH,
  OMMAI_ACTIVATION_GELU_ERF,
  OMMAI_ACTIVATION_SILU,
  OMMAI_ACTIVATION_QUICK_GELU,
  OMMAI_ACTIVATIONS
};
