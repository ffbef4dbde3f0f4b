/* Options of the GPU delegate. */

#ifndef TENSORFLOW_LITE_DELEGATES_GPU_DELEGATE_OPTIONS_H_
#define TENSORFLOW_LITE_DELEGATES_GPU_DELEGATE_OPTIONS_H_

#include "tensorflow/lite/c/c_api_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the delegate is for. */
enum TfLiteGpuInferenceUsage {
  TFLITE_GPU_INFERENCE_PREFERENCE_FAST_SINGLE_ANSWER = 0,
  TFLITE_GPU_INFERENCE_PREFERENCE_SUSTAINED_SPEED = 1,
  TFLITE_GPU_INFERENCE_PREFERENCE_BALANCED = 2
};

/* What counts more than what. */
enum TfLiteGpuInferencePriority {
  TFLITE_GPU_INFERENCE_PRIORITY_AUTO = 0,
  TFLITE_GPU_INFERENCE_PRIORITY_MAX_PRECISION = 1,
  TFLITE_GPU_INFERENCE_PRIORITY_MIN_LATENCY = 2,
  TFLITE_GPU_INFERENCE_PRIORITY_MIN_MEMORY_USAGE = 3
};

/* A set of bits. */
enum TfLiteGpuExperimentalFlags {
  TFLITE_GPU_EXPERIMENTAL_FLAGS_NONE = 0,
  /* Quantized models run with and without it. */
  TFLITE_GPU_EXPERIMENTAL_FLAGS_ENABLE_QUANT = 1,
  /* Have no effect: the device is opened through any API there is. */
  TFLITE_GPU_EXPERIMENTAL_FLAGS_CL_ONLY = 2,
  TFLITE_GPU_EXPERIMENTAL_FLAGS_GL_ONLY = 4,
  /* Stores what was prepared in serialization_dir. */
  TFLITE_GPU_EXPERIMENTAL_FLAGS_ENABLE_SERIALIZATION = 8
};

typedef struct {
  /* -1: the priorities count. 0: MAX_PRECISION first. Others: MIN_LATENCY first. */
  int32_t is_precision_loss_allowed;
  int32_t inference_preference;
  int32_t inference_priority1;
  int32_t inference_priority2;
  int32_t inference_priority3;
  int64_t experimental_flags;
  /* The largest partitions are taken; 1 if it is 0 or less. */
  int32_t max_delegated_partitions;
  /* A folder. */
  const char* serialization_dir;
  /* A text that stands for the weights of the model. */
  const char* model_token;
} TfLiteGpuDelegateOptionsV2;

/* MAX_PRECISION, one partition, no serialization. */
TFL_CAPI_EXPORT TfLiteGpuDelegateOptionsV2 TfLiteGpuDelegateOptionsV2Default(void);

#ifdef __cplusplus
}
#endif

#endif
