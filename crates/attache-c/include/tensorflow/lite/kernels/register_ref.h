// The library's operators under the name of TensorFlow Lite's reference kernels: there is one set of kernels here.

#ifndef TENSORFLOW_LITE_KERNELS_REGISTER_REF_H_
#define TENSORFLOW_LITE_KERNELS_REGISTER_REF_H_

#include "tensorflow/lite/kernels/register.h"

namespace tflite {
namespace ops {
namespace builtin {

using BuiltinRefOpResolver = BuiltinOpResolver;

}  // namespace builtin
}  // namespace ops
}  // namespace tflite

#endif
