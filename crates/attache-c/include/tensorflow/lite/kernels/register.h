// The library's own operators, in C++.

#ifndef TENSORFLOW_LITE_KERNELS_REGISTER_H_
#define TENSORFLOW_LITE_KERNELS_REGISTER_H_

#include "attache/operators.h"
#include "tensorflow/lite/mutable_op_resolver.h"

namespace tflite {
namespace ops {
namespace builtin {

// The library's own operators. Others can be added, or put in place of them.
class BuiltinOpResolver : public MutableOpResolver {
 public:
  BuiltinOpResolver() {
#define ATTACHE_ADD(name, version) AddBuiltin(BuiltinOperator_##name, Register_##name(), 1, version);
    ATTACHE_BUILTIN_OPERATORS(ATTACHE_ADD)
#undef ATTACHE_ADD
#define ATTACHE_ADD(function, name) AddCustom(name, custom::Register_##function());
    ATTACHE_CUSTOM_OPERATORS(ATTACHE_ADD)
#undef ATTACHE_ADD
  }
};
class BuiltinOpResolverWithoutDefaultDelegates : public BuiltinOpResolver {};

}  // namespace builtin
}  // namespace ops
}  // namespace tflite

#endif
