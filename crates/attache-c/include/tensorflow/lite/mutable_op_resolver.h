// Operators of the program's, in C++.

#ifndef TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_

#include <map>
#include <string>
#include <utility>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/schema/schema_generated.h"

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
    for (int version = min_version; registration && version <= max_version; ++version) {
      builtins_[std::make_pair(static_cast<int>(op), version)] = As(*registration, op, nullptr, version);
    }
  }
  void AddBuiltin(BuiltinOperator op, const TfLiteRegistration* registration, int version = 1) {
    AddBuiltin(static_cast<TfLiteBuiltinOperator>(op), registration, version, version);
  }
  void AddBuiltin(BuiltinOperator op, const TfLiteRegistration* registration, int min_version, int max_version) {
    AddBuiltin(static_cast<TfLiteBuiltinOperator>(op), registration, min_version, max_version);
  }
  void AddCustom(const char* name, const TfLiteRegistration* registration, int version = 1) {
    AddCustom(name, registration, version, version);
  }
  void AddCustom(const char* name, const TfLiteRegistration* registration, int min_version, int max_version) {
    for (int version = min_version; registration && version <= max_version; ++version) {
      const auto place = customs_.insert({std::make_pair(std::string(name), version), *registration}).first;
      place->second = As(*registration, kTfLiteBuiltinCustom, place->first.first.c_str(), version);
    }
  }
  // Adds all operators of another resolver, which take the place of those of the same name.
  void AddAll(const MutableOpResolver& other) {
    for (const auto& entry : other.builtins_) builtins_[entry.first] = entry.second;
    for (const auto& entry : other.customs_) {
      AddCustom(entry.first.first.c_str(), &entry.second, entry.first.second);
    }
  }

  // What was added for an operator; null if nothing was, also where the library has the operator.
  const TfLiteRegistration* FindOp(TfLiteBuiltinOperator op, int version) const {
    const auto found = builtins_.find(std::make_pair(static_cast<int>(op), version));
    return found == builtins_.end() ? nullptr : &found->second;
  }
  const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const {
    return FindOp(static_cast<TfLiteBuiltinOperator>(op), version);
  }
  const TfLiteRegistration* FindOp(const char* name, int version) const {
    const auto found = customs_.find(std::make_pair(std::string(name), version));
    return found == customs_.end() ? nullptr : &found->second;
  }

  void AddTo(TfLiteInterpreterOptions* options) const override {
    for (const auto& entry : builtins_) {
      const int version = entry.first.second;
      const auto op = static_cast<TfLiteBuiltinOperator>(entry.first.first);
      TfLiteInterpreterOptionsAddBuiltinOp(options, op, &entry.second, version, version);
    }
    for (const auto& entry : customs_) {
      const int version = entry.first.second;
      TfLiteInterpreterOptionsAddCustomOp(options, entry.first.first.c_str(), &entry.second, version, version);
    }
  }

 private:
  static TfLiteRegistration As(TfLiteRegistration registration, int code, const char* name, int version) {
    registration.builtin_code = code;
    registration.custom_name = name;
    registration.version = version;
    return registration;
  }

  // By code or name, and version.
  std::map<std::pair<int, int>, TfLiteRegistration> builtins_;
  std::map<std::pair<std::string, int>, TfLiteRegistration> customs_;
};

}  // namespace tflite

#endif
