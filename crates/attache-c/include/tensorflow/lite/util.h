// Arrays of C from those of C++.

#ifndef TENSORFLOW_LITE_UTIL_H_
#define TENSORFLOW_LITE_UTIL_H_

#include <vector>

#include "tensorflow/lite/c/common.h"

namespace tflite {

// The alignment, in bytes, that memory of a program has to have for tensors.
constexpr int kDefaultTensorAlignment = 64;

// Returns an array in memory of malloc.
inline TfLiteIntArray* ConvertArrayToTfLiteIntArray(int size, const int* elements) {
  TfLiteIntArray* array = TfLiteIntArrayCreate(size);
  for (int i = 0; array && i < size; ++i) array->data[i] = elements[i];
  return array;
}
inline TfLiteIntArray* ConvertVectorToTfLiteIntArray(const std::vector<int>& elements) {
  return ConvertArrayToTfLiteIntArray(static_cast<int>(elements.size()), elements.data());
}

inline bool EqualArrayAndTfLiteIntArray(const TfLiteIntArray* a, int b_size, const int* b) {
  return a && TfLiteIntArrayEqualsArray(a, b_size, b);
}

}  // namespace tflite

#endif
