/* The GPU delegate under the names of its first version, and of the post that presented it. New programs use delegate.h. */

#ifndef TENSORFLOW_LITE_DELEGATES_GPU_GL_DELEGATE_H_
#define TENSORFLOW_LITE_DELEGATES_GPU_GL_DELEGATE_H_

#include "tensorflow/lite/c/common.h"

#ifdef __cplusplus
extern "C" {
#endif

enum TfLiteGlObjectType {
  TFLITE_GL_OBJECT_TYPE_FASTEST = 0,
  TFLITE_GL_OBJECT_TYPE_TEXTURE = 1,
  TFLITE_GL_OBJECT_TYPE_BUFFER = 2
};

#define GL_OBJECT_TYPE_FASTEST TFLITE_GL_OBJECT_TYPE_FASTEST

/* Programs may leave out the members that newer versions added. */
#ifdef __cplusplus
#define TFLITE_GL_DEFAULT_ZERO = 0
#else
#define TFLITE_GL_DEFAULT_ZERO
#endif

/* Only precision_loss_allowed has an effect. */
typedef struct TfLiteGlCompileOptions {
  int32_t precision_loss_allowed;
  int32_t preferred_gl_object_type;
  int32_t dynamic_batch_enabled;
  int32_t inline_parameters TFLITE_GL_DEFAULT_ZERO;
} TfLiteGlCompileOptions;

typedef struct TfLiteGpuDelegateOptions {
  const uint8_t* metadata;
  TfLiteGlCompileOptions compile_options;
} TfLiteGpuDelegateOptions;

typedef TfLiteGpuDelegateOptions GpuDelegateOptions;

/* Options may be null. Returns null, with an error on the standard error output, if there is no GPU. */
TFL_CAPI_EXPORT TfLiteDelegate* TfLiteGpuDelegateCreate(const TfLiteGpuDelegateOptions* options);
TFL_CAPI_EXPORT void TfLiteGpuDelegateDelete(TfLiteDelegate* delegate);

/* The same, as the post writes it. */
TFL_CAPI_EXPORT TfLiteDelegate* NewGpuDelegate(const TfLiteGpuDelegateOptions* options);
TFL_CAPI_EXPORT void DeleteGpuDelegate(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif

#endif
