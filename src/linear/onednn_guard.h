/* Calls into oneDNN whose exceptions end here. */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* call(context). oneDNN is written in C++, and its C functions let std::bad_alloc through (2.6,
 * 3.2): it becomes dnnl_out_of_memory, any other exception dnnl_runtime_error. What `call` itself
 * holds is not released then. */
dnnl_status_t ommai_onednn_guarded(dnnl_status_t (*call)(void *), void *context);

/* Has the C library find its unwinder, which it otherwise does when an exception first passes one
 * of its frames, as those of oneDNN's std::call_once pass pthread_once: and ends the process where
 * memory is short then. False: no memory for it now. */
bool ommai_onednn_guard_ready(void);

#ifdef __cplusplus
}
#endif
