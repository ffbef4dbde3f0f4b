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
#include "tensorflow/lite/portable_type_to_tflitetype.h"
#include "tensorflow/lite/signature_runner.h"

namespace tflite {
// A delegate, and the function that deletes it.
using TfLiteDelegatePtr = std::unique_ptr<TfLiteDelegate, void (*)(TfLiteDelegate*)>;

// Runs a model. InterpreterBuilder makes it. One thread at a time uses it, except for Cancel.
class Interpreter {
 public:
  using TfLiteDelegatePtr = tflite::TfLiteDelegatePtr;

  // Takes an interpreter of the C API over.
  explicit Interpreter(TfLiteInterpreter* interpreter) : interpreter_(interpreter) {
    const int32_t input_count = TfLiteInterpreterGetInputTensorCount(interpreter_);
    const int* indices = TfLiteInterpreterInputTensorIndices(interpreter_);
    inputs_.assign(indices, indices + input_count);
    const int32_t output_count = TfLiteInterpreterGetOutputTensorCount(interpreter_);
    indices = TfLiteInterpreterOutputTensorIndices(interpreter_);
    outputs_.assign(indices, indices + output_count);
    while (TfLiteInterpreterGetTensor(interpreter_, static_cast<int>(tensors_size_))) ++tensors_size_;
    const int32_t variable_count = TfLiteInterpreterGetVariableTensorCount(interpreter_);
    for (int32_t i = 0; i < variable_count; ++i) {
      const TfLiteTensor* variable = TfLiteInterpreterGetVariableTensor(interpreter_, i);
      variables_.push_back(static_cast<int>(variable - TfLiteInterpreterGetTensor(interpreter_, 0)));
    }
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
  const std::vector<int>& variables() const { return variables_; }
  size_t tensors_size() const { return tensors_size_; }
  const char* GetInputName(int index) const { return TfLiteTensorName(input_tensor(index)); }
  const char* GetOutputName(int index) const { return TfLiteTensorName(output_tensor(index)); }

  // A tensor by its index; null if there is none. The field data of inputs, outputs and constants is set from
  // AllocateTensors to the next resize.
  TfLiteTensor* tensor(int tensor_index) { return TfLiteInterpreterGetTensor(interpreter_, tensor_index); }
  const TfLiteTensor* tensor(int tensor_index) const { return TfLiteInterpreterGetTensor(interpreter_, tensor_index); }
  // A tensor by its position in inputs() or outputs().
  TfLiteTensor* input_tensor(size_t index) { return tensor(At(inputs_, index)); }
  const TfLiteTensor* input_tensor(size_t index) const { return tensor(At(inputs_, index)); }
  TfLiteTensor* output_tensor(size_t index) { return tensor(At(outputs_, index)); }
  const TfLiteTensor* output_tensor(size_t index) const { return tensor(At(outputs_, index)); }

  // The elements of a tensor; null if they are of another type.
  template <typename T>
  T* typed_tensor(int tensor_index) {
    return Elements<T>(TfLiteInterpreterGetTensor(interpreter_, tensor_index));
  }
  template <typename T>
  const T* typed_tensor(int tensor_index) const {
    return Elements<T>(TfLiteInterpreterGetTensor(interpreter_, tensor_index));
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
  // As ResizeInputTensor, and changes only those extents that the model leaves to the program.
  TfLiteStatus ResizeInputTensorStrict(int tensor_index, const std::vector<int>& dims) {
    const TfLiteTensor* input = tensor(tensor_index);
    if (!input) return kTfLiteError;
    const TfLiteIntArray* signature = input->dims_signature;
    const TfLiteIntArray* fixed = signature && signature->size ? signature : input->dims;
    if (static_cast<int>(dims.size()) != fixed->size) return kTfLiteError;
    for (int i = 0; i < fixed->size; ++i) {
      if (fixed->data[i] != -1 && fixed->data[i] != dims[static_cast<size_t>(i)]) return kTfLiteError;
    }
    return ResizeInputTensor(tensor_index, dims);
  }
  // Puts a tensor into memory of the program's; c_api_experimental.h says when.
  TfLiteStatus SetCustomAllocationForTensor(
      int tensor_index, const TfLiteCustomAllocation& allocation, int64_t flags = kTfLiteCustomAllocationFlagsNone) {
    return TfLiteInterpreterSetCustomAllocationForTensor(interpreter_, tensor_index, &allocation, flags);
  }
  TfLiteStatus EnsureTensorDataIsReadable(int tensor_index) {
    return TfLiteInterpreterEnsureTensorDataIsReadable(interpreter_, tensor_index);
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
  TfLiteStatus SetNumThreads(int num_threads) { return num_threads < -1 ? kTfLiteError : kTfLiteOk; }
  // Accepted: options of delegates decide the precision.
  void SetAllowFp16PrecisionForFp32(bool) {}

  const std::vector<const std::string*>& signature_keys() const { return signature_keys_; }
  // Null if there is no such signature. A null key stands for the first one.
  SignatureRunner* GetSignatureRunner(const char* key) {
    if (!key) {
      if (signature_keys_.empty()) return nullptr;
      key = signature_keys_[0]->c_str();
    }
    auto found = runners_.find(key);
    if (found == runners_.end()) {
      TfLiteSignatureRunner* runner = TfLiteInterpreterGetSignatureRunner(interpreter_, key);
      if (!runner) return nullptr;
      found = runners_.emplace(key, std::unique_ptr<SignatureRunner>(new SignatureRunner(runner))).first;
    }
    return found->second.get();
  }

  // Null if there is no such signature, or none with this input or output.
  TfLiteTensor* input_tensor_by_signature(const char* input_name, const char* key) {
    SignatureRunner* runner = GetSignatureRunner(key);
    return runner ? runner->input_tensor(input_name) : nullptr;
  }
  const TfLiteTensor* output_tensor_by_signature(const char* output_name, const char* key) {
    SignatureRunner* runner = GetSignatureRunner(key);
    return runner ? runner->output_tensor(output_name) : nullptr;
  }

  TfLiteInterpreter* c_interpreter() { return interpreter_; }

 private:
  static int At(const std::vector<int>& list, size_t index) { return index < list.size() ? list[index] : -1; }

  template <typename T>
  static T* Elements(TfLiteTensor* tensor) {
    const TfLiteType type = typeToTfLiteType<T>();
    const bool fits = tensor && type != kTfLiteNoType && tensor->type == type;
    return fits ? static_cast<T*>(tensor->data.data) : nullptr;
  }

  // Delegates of the program's are destroyed after the interpreter.
  std::vector<std::shared_ptr<TfLiteDelegate>> delegates_;
  TfLiteInterpreter* interpreter_;
  std::vector<int> inputs_;
  std::vector<int> outputs_;
  std::vector<int> variables_;
  size_t tensors_size_ = 0;
  std::vector<const std::string*> signature_keys_;
  std::map<std::string, std::unique_ptr<SignatureRunner>> runners_;
};

}  // namespace tflite

#endif
