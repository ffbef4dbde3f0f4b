// The library's own operators, in C++.

#ifndef TENSORFLOW_LITE_KERNELS_REGISTER_H_
#define TENSORFLOW_LITE_KERNELS_REGISTER_H_

#include "tensorflow/lite/mutable_op_resolver.h"

namespace tflite {
namespace ops {
namespace builtin {

// The library's own operators, which every interpreter has. Others can be added.
class BuiltinOpResolver : public MutableOpResolver {};
class BuiltinOpResolverWithoutDefaultDelegates : public BuiltinOpResolver {};

}  // namespace builtin
}  // namespace ops
}  // namespace tflite

#endif
