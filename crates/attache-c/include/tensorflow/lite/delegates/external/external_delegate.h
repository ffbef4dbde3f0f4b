/* Delegates in libraries, given by the path of the library. */

#ifndef TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_
#define TENSORFLOW_LITE_DELEGATES_EXTERNAL_EXTERNAL_DELEGATE_H_

#include "tensorflow/lite/c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

#define kExternalDelegateMaxOptions 256

/* The library, and options by their keys. Texts are not copied, and stay valid until the delegate is made. */
typedef struct TfLiteExternalDelegateOptions {
  const char* lib_path;
  int count;
  const char* keys[kExternalDelegateMaxOptions];
  const char* values[kExternalDelegateMaxOptions];
  TfLiteStatus (*insert)(struct TfLiteExternalDelegateOptions* options, const char* key, const char* value);
} TfLiteExternalDelegateOptions;

TFL_CAPI_EXPORT TfLiteStatus TfLiteExternalDelegateOptionsInsert(
    TfLiteExternalDelegateOptions* options, const char* key, const char* value);
TFL_CAPI_EXPORT TfLiteExternalDelegateOptions TfLiteExternalDelegateOptionsDefault(const char* lib_path);
/* The library stays loaded until the process ends. Null if it cannot be loaded or makes no delegate. */
TFL_CAPI_EXPORT TfLiteDelegate* TfLiteExternalDelegateCreate(const TfLiteExternalDelegateOptions* options);
TFL_CAPI_EXPORT void TfLiteExternalDelegateDelete(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif

#endif
