#include "linear/onednn_guard.h"

#include <new>
#ifdef __GLIBC__
#include <execinfo.h>
#endif

dnnl_status_t ommai_onednn_guarded(dnnl_status_t (*call)(void *), void *context) {
  try {
    return call(context);
  } catch (const std::bad_alloc &) {
    return dnnl_out_of_memory;
  } catch (...) {
    return dnnl_runtime_error;
  }
}

bool ommai_onednn_guard_ready(void) {
#ifdef __GLIBC__
  void *frame;
  return backtrace(&frame, 1) > 0;
#else
  return true;
#endif
}
