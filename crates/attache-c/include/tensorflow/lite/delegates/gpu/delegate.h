/* The GPU delegate. */

#ifndef TENSORFLOW_LITE_DELEGATES_GPU_DELEGATE_H_
#define TENSORFLOW_LITE_DELEGATES_GPU_DELEGATE_H_

#include "tensorflow/lite/c/common.h"
#include "tensorflow/lite/delegates/gpu/delegate_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a GPU. Options may be null. Returns null, with an error on the standard error output, if there is no GPU. Software
   adapters count only if the environment variable ATTACHE_SOFTWARE is 1. */
TFL_CAPI_EXPORT TfLiteDelegate* TfLiteGpuDelegateV2Create(const TfLiteGpuDelegateOptionsV2* options);

/* Interpreters that use the delegate stay valid. */
TFL_CAPI_EXPORT void TfLiteGpuDelegateV2Delete(TfLiteDelegate* delegate);

#ifdef __cplusplus
}

/* The same for options by value, as the guide writes it. */
inline TfLiteDelegate* TfLiteGpuDelegateV2Create(const TfLiteGpuDelegateOptionsV2& options) {
  return TfLiteGpuDelegateV2Create(&options);
}
#endif

#endif
