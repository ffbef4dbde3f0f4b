// Makes the library's own operators, in C++.

#ifndef TENSORFLOW_LITE_CREATE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_CREATE_OP_RESOLVER_H_

#include <memory>

#include "tensorflow/lite/kernels/register.h"

namespace tflite {

inline std::unique_ptr<MutableOpResolver> CreateOpResolver() {
  return std::unique_ptr<MutableOpResolver>(new ops::builtin::BuiltinOpResolver());
}

}  // namespace tflite

#endif
