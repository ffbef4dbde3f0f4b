// Operators of the program's, in C++.

#ifndef TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_
#define TENSORFLOW_LITE_MUTABLE_OP_RESOLVER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/core/api/op_resolver.h"
#include "tensorflow/lite/schema/schema_generated.h"

namespace tflite {

// The operators that a program adds.
class MutableOpResolver : public OpResolver {
 public:
  MutableOpResolver() = default;
  MutableOpResolver(const MutableOpResolver& other) : OpResolver(other) { *this = other; }
  MutableOpResolver& operator=(const MutableOpResolver& other) {
    if (this == &other) return *this;
    delegate_creators_ = other.delegate_creators_;
    opaque_delegate_creators_ = other.opaque_delegate_creators_;
    may_directly_contain_user_defined_ops_ = other.may_directly_contain_user_defined_ops_;
    builtins_ = other.builtins_;
    customs_ = other.customs_;
    // Names are in the keys of the own map.
    for (auto& entry : customs_) entry.second.custom_name = entry.first.first.c_str();
    others_ = other.others_;
    return *this;
  }

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
    if (this == &other) return;
    for (const auto& entry : other.builtins_) builtins_[entry.first] = entry.second;
    for (const auto& entry : other.customs_) {
      AddCustom(entry.first.first.c_str(), &entry.second, entry.first.second);
    }
    others_.insert(others_.end(), other.others_.begin(), other.others_.end());
  }

  // What was added for an operator, here or else in a resolver behind this one; null if nothing was.
  const TfLiteRegistration* FindOp(BuiltinOperator op, int version) const override {
    const auto found = builtins_.find(std::make_pair(static_cast<int>(op), version));
    return found == builtins_.end() ? Ask(op, version) : &found->second;
  }
  const TfLiteRegistration* FindOp(const char* name, int version) const override {
    const auto found = customs_.find(std::make_pair(std::string(name ? name : ""), version));
    return found == customs_.end() ? Ask(name, version) : &found->second;
  }
  const TfLiteRegistration* FindOp(TfLiteBuiltinOperator op, int version) const {
    return FindOp(static_cast<BuiltinOperator>(op), version);
  }

  TfLiteDelegateCreators GetDelegateCreators() const override { return delegate_creators_; }
  TfLiteOpaqueDelegateCreators GetOpaqueDelegateCreators() const override { return opaque_delegate_creators_; }

 protected:
  // Asks another resolver, which exists as long as this one, for what is not added here.
  void ChainOpResolver(const OpResolver* other) { others_.push_back(other); }

  TfLiteDelegateCreators delegate_creators_;
  TfLiteOpaqueDelegateCreators opaque_delegate_creators_;
  // A note without effect.
  bool may_directly_contain_user_defined_ops_ = false;

 private:
  static TfLiteRegistration As(TfLiteRegistration registration, int code, const char* name, int version) {
    registration.builtin_code = code;
    registration.custom_name = name;
    registration.version = version;
    return registration;
  }

  template <typename Operator>
  const TfLiteRegistration* Ask(Operator op, int version) const {
    for (const OpResolver* other : others_) {
      if (const TfLiteRegistration* found = other->FindOp(op, version)) return found;
    }
    return nullptr;
  }

  // By code or name, and version.
  std::map<std::pair<int, int>, TfLiteRegistration> builtins_;
  std::map<std::pair<std::string, int>, TfLiteRegistration> customs_;
  std::vector<const OpResolver*> others_;
};

}  // namespace tflite

#endif
