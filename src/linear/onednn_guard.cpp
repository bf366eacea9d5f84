#include "linear/onednn_guard.h"

#include <new>

dnnl_status_t ommai_onednn_guarded(dnnl_status_t (*call)(void *), void *context) {
  try {
    return call(context);
  } catch (const std::bad_alloc &) {
    return dnnl_out_of_memory;
  } catch (...) {
    return dnnl_runtime_error;
  }
}
