/* Calls into oneDNN whose exceptions end here. */
#ifndef OMMAI_LINEAR_ONEDNN_GUARD_H
#define OMMAI_LINEAR_ONEDNN_GUARD_H

#include <oneapi/dnnl/dnnl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* call(context). oneDNN is written in C++, and its C functions let std::bad_alloc through (2.6, 3.2): it becomes dnnl_out_of_memory, any
 * other exception dnnl_runtime_error. What `call` itself holds is not released then. */
dnnl_status_t ommai_onednn_guarded(dnnl_status_t (*call)(void *), void *context);

#ifdef __cplusplus
}
#endif

#endif
