// Arrays of C as ranges of C++.

#ifndef TENSORFLOW_LITE_CONTEXT_UTIL_H_
#define TENSORFLOW_LITE_CONTEXT_UTIL_H_

#include <cstddef>

#include "tensorflow/lite/c/common.h"

namespace tflite {

// The elements of an array. Null has none.
class TfLiteIntArrayView {
 public:
  explicit TfLiteIntArrayView(const TfLiteIntArray* array) : array_(array) {}
  typedef const int* const_iterator;
  const_iterator begin() const { return array_ ? array_->data : nullptr; }
  const_iterator end() const { return begin() + size(); }
  size_t size() const { return array_ ? static_cast<size_t>(array_->size) : 0; }
  int operator[](size_t index) const { return array_->data[index]; }

 private:
  const TfLiteIntArray* array_;
};

}  // namespace tflite

#endif
