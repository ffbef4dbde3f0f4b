// Interpreters, in C++: a thin layer over the C API, which states what is valid how long.

#ifndef TENSORFLOW_LITE_INTERPRETER_H_
#define TENSORFLOW_LITE_INTERPRETER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/lite/c/c_api_experimental.h"
#include "tensorflow/lite/signature_runner.h"

namespace tflite {
namespace internal {

// The type of tensors whose elements are of a type of C++.
template <typename T>
constexpr TfLiteType TypeOf() = delete;
template <>
constexpr TfLiteType TypeOf<float>() { return kTfLiteFloat32; }
template <>
constexpr TfLiteType TypeOf<double>() { return kTfLiteFloat64; }
template <>
constexpr TfLiteType TypeOf<int8_t>() { return kTfLiteInt8; }
template <>
constexpr TfLiteType TypeOf<uint8_t>() { return kTfLiteUInt8; }
template <>
constexpr TfLiteType TypeOf<int16_t>() { return kTfLiteInt16; }
template <>
constexpr TfLiteType TypeOf<uint16_t>() { return kTfLiteUInt16; }
template <>
constexpr TfLiteType TypeOf<int32_t>() { return kTfLiteInt32; }
template <>
constexpr TfLiteType TypeOf<uint32_t>() { return kTfLiteUInt32; }
template <>
constexpr TfLiteType TypeOf<int64_t>() { return kTfLiteInt64; }
template <>
constexpr TfLiteType TypeOf<uint64_t>() { return kTfLiteUInt64; }
template <>
constexpr TfLiteType TypeOf<bool>() { return kTfLiteBool; }

}  // namespace internal

// Runs a model. InterpreterBuilder makes it. One thread at a time uses it, except for Cancel.
class Interpreter {
 public:
  // Takes an interpreter of the C API over.
  explicit Interpreter(TfLiteInterpreter* interpreter) : interpreter_(interpreter) {
    const int32_t input_count = TfLiteInterpreterGetInputTensorCount(interpreter_);
    const int* indices = TfLiteInterpreterInputTensorIndices(interpreter_);
    inputs_.assign(indices, indices + input_count);
    const int32_t output_count = TfLiteInterpreterGetOutputTensorCount(interpreter_);
    indices = TfLiteInterpreterOutputTensorIndices(interpreter_);
    outputs_.assign(indices, indices + output_count);
    const int32_t signature_count = TfLiteInterpreterGetSignatureCount(interpreter_);
    for (int32_t i = 0; i < signature_count; ++i) {
      signature_keys_.push_back(new std::string(TfLiteInterpreterGetSignatureKey(interpreter_, i)));
    }
  }
  ~Interpreter() {
    runners_.clear();
    for (const std::string* key : signature_keys_) delete key;
    TfLiteInterpreterDelete(interpreter_);
  }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Indices of tensors.
  const std::vector<int>& inputs() const { return inputs_; }
  const std::vector<int>& outputs() const { return outputs_; }
  const char* GetInputName(int index) const { return TfLiteTensorName(input_tensor(index)); }
  const char* GetOutputName(int index) const { return TfLiteTensorName(output_tensor(index)); }

  // A tensor by its index; null if there is none. The field data of inputs, outputs and constants is set from
  // AllocateTensors to the next resize.
  TfLiteTensor* tensor(int tensor_index) { return Readable(tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const { return Readable(tensor_index); }
  // A tensor by its position in inputs() or outputs().
  TfLiteTensor* input_tensor(size_t index) { return Readable(At(inputs_, index)); }
  const TfLiteTensor* input_tensor(size_t index) const { return Readable(At(inputs_, index)); }
  TfLiteTensor* output_tensor(size_t index) { return Readable(At(outputs_, index)); }
  const TfLiteTensor* output_tensor(size_t index) const { return Readable(At(outputs_, index)); }

  // The elements of a tensor; null if they are of another type.
  template <typename T>
  T* typed_tensor(int tensor_index) {
    return Elements<T>(Readable(tensor_index));
  }
  template <typename T>
  const T* typed_tensor(int tensor_index) const {
    return Elements<T>(Readable(tensor_index));
  }
  template <typename T>
  T* typed_input_tensor(int index) {
    return typed_tensor<T>(At(inputs_, static_cast<size_t>(index)));
  }
  template <typename T>
  const T* typed_input_tensor(int index) const {
    return typed_tensor<T>(At(inputs_, static_cast<size_t>(index)));
  }
  template <typename T>
  T* typed_output_tensor(int index) {
    return typed_tensor<T>(At(outputs_, static_cast<size_t>(index)));
  }
  template <typename T>
  const T* typed_output_tensor(int index) const {
    return typed_tensor<T>(At(outputs_, static_cast<size_t>(index)));
  }

  // Sets the extents of an input, given by its index among all tensors. AllocateTensors has to follow.
  TfLiteStatus ResizeInputTensor(int tensor_index, const std::vector<int>& dims) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i] == tensor_index) {
        return TfLiteInterpreterResizeInputTensor(
            interpreter_, static_cast<int32_t>(i), dims.data(), static_cast<int32_t>(dims.size()));
      }
    }
    return kTfLiteError;
  }
  TfLiteStatus AllocateTensors() { return TfLiteInterpreterAllocateTensors(interpreter_); }
  TfLiteStatus Invoke() { return TfLiteInterpreterInvoke(interpreter_); }
  TfLiteStatus Cancel() { return TfLiteInterpreterCancel(interpreter_); }
  TfLiteStatus ResetVariableTensors() { return TfLiteInterpreterResetVariableTensors(interpreter_); }

  // Adds a delegate, and allocates tensors where the shapes of inputs are known.
  TfLiteStatus ModifyGraphWithDelegate(TfLiteDelegate* delegate) {
    return TfLiteInterpreterModifyGraphWithDelegate(interpreter_, delegate);
  }
  // Keeps the delegate as long as the interpreter.
  template <typename Deleter>
  TfLiteStatus ModifyGraphWithDelegate(std::unique_ptr<TfLiteDelegate, Deleter> delegate) {
    TfLiteDelegate* raw = delegate.get();
    delegates_.push_back(std::shared_ptr<TfLiteDelegate>(std::move(delegate)));
    return ModifyGraphWithDelegate(raw);
  }

  // The number of threads is set with InterpreterBuilder::SetNumThreads: an interpreter keeps it.
  TfLiteStatus SetNumThreads(int) { return kTfLiteOk; }

  const std::vector<const std::string*>& signature_keys() const { return signature_keys_; }
  // Null if there is no such signature.
  SignatureRunner* GetSignatureRunner(const char* key) {
    auto found = runners_.find(key);
    if (found == runners_.end()) {
      TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter_, key);
      if (!runner) return nullptr;
      found = runners_.emplace(key, std::unique_ptr<SignatureRunner>(new SignatureRunner(runner))).first;
    }
    return found->second.get();
  }

  TfLiteInterpreter* c_interpreter() { return interpreter_; }

 private:
  static int At(const std::vector<int>& list, size_t index) { return index < list.size() ? list[index] : -1; }

  TfLiteTensor* Readable(int tensor_index) const {
    TfLiteTensor* tensor = TfLiteInterpreterGetTensor(interpreter_, tensor_index);
    if (tensor) TfLiteTensorData(tensor);
    return tensor;
  }

  template <typename T>
  static T* Elements(TfLiteTensor* tensor) {
    const bool fits = tensor && tensor->type == internal::TypeOf<T>();
    return fits ? static_cast<T*>(tensor->data.data) : nullptr;
  }

  // Delegates of the program's are destroyed after the interpreter.
  std::vector<std::shared_ptr<TfLiteDelegate>> delegates_;
  TfLiteInterpreter* interpreter_;
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<const std::string*> signature_keys_;
  std::map<std::string, std::unique_ptr<SignatureRunner>> runners_;
};

}  // namespace tflite

#endif
