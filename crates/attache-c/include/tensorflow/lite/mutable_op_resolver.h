// Operators of the program's, in C++.

#ifndef TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_

#include <functional>
#include <string>
#include <vector>

#include "tensorflow/lite/c/c_api_experimental.h"

namespace tflite {

// Operators that a program adds to those of the library, or puts in place of them.
class OpResolver {
 public:
  virtual ~OpResolver() = default;
  // Adds the operators to options of the C API.
  virtual void AddTo(TfLiteInterpreterOptions* options) const = 0;
};

class MutableOpResolver : public OpResolver {
 public:
  void AddBuiltin(TfLiteBuiltinOperator op, const TfLiteRegistration* registration, int version = 1) {
    AddBuiltin(op, registration, version, version);
  }
  void AddBuiltin(
      TfLiteBuiltinOperator op, const TfLiteRegistration* registration, int min_version, int max_version) {
    const TfLiteRegistration copy = *registration;
    added_.push_back([=](TfLiteInterpreterOptions* options) {
      TfLiteInterpreterOptionsAddBuiltinOp(options, op, &copy, min_version, max_version);
    });
  }
  void AddCustom(const char* name, const TfLiteRegistration* registration, int version = 1) {
    AddCustom(name, registration, version, version);
  }
  void AddCustom(const char* name, const TfLiteRegistration* registration, int min_version, int max_version) {
    const TfLiteRegistration copy = *registration;
    const std::string owned = name;
    added_.push_back([=](TfLiteInterpreterOptions* options) {
      TfLiteInterpreterOptionsAddCustomOp(options, owned.c_str(), &copy, min_version, max_version);
    });
  }

  void AddTo(TfLiteInterpreterOptions* options) const override {
    for (const auto& add : added_) add(options);
  }

 private:
  std::vector<std::function<void(TfLiteInterpreterOptions*)>> added_;
};

}  // namespace tflite

#endif
