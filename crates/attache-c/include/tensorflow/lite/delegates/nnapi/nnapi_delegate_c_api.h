/* NNAPI's delegate, which is part of Android: making one is an error elsewhere. */

#ifndef TENSORFLOW_LITE_DELEGATES_NNAPI_NNAPI_DELEGATE_C_API_H_
#define TENSORFLOW_LITE_DELEGATES_NNAPI_NNAPI_DELEGATE_C_API_H_

#include "tensorflow/lite/c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TfLiteNnapiDelegateOptions {
  int execution_preference;
  const char* accelerator_name;
  const char* cache_dir;
  const char* model_token;
  int disallow_nnapi_cpu;
  int allow_fp16;
  int max_number_delegated_partitions;
  void* nnapi_support_library_handle;
} TfLiteNnapiDelegateOptions;

TFL_CAPI_EXPORT TfLiteNnapiDelegateOptions TfLiteNnapiDelegateOptionsDefault(void);
/* Returns null. */
TFL_CAPI_EXPORT TfLiteDelegate* TfLiteNnapiDelegateCreate(const TfLiteNnapiDelegateOptions* options);
TFL_CAPI_EXPORT void TfLiteNnapiDelegateDelete(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif

#endif
