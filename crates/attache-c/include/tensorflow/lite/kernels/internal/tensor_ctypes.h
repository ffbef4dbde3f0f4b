// The elements of tensors in operators, in C++.

#ifndef TENSORFLOW_LITE_KERNELS_INTERNAL_TENSOR_CTYPES_H_
#define TENSORFLOW_LITE_KERNELS_INTERNAL_TENSOR_CTYPES_H_

#include "tensorflow/lite/c/common.h"

namespace tflite {

// Null for a null tensor. The type is not checked.
template <typename T>
T* GetTensorData(TfLiteTensor* tensor) {
  return tensor ? static_cast<T*>(tensor->data.data) : nullptr;
}
template <typename T>
const T* GetTensorData(const TfLiteTensor* tensor) {
  return tensor ? static_cast<const T*>(tensor->data.data) : nullptr;
}

}  // namespace tflite

#endif
