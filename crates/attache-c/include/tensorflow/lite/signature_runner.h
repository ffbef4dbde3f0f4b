// Signatures, in C++.

#ifndef TENSORFLOW_LITE_SIGNATURE_RUNNER_H_
#define TENSORFLOW_LITE_SIGNATURE_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "attache/graph.h"
#include "tensorflow/lite/c/c_api_experimental.h"

namespace tflite {

// Runs a signature of an interpreter, which owns it.
class SignatureRunner {
 public:
  // Takes a runner of the C API over.
  SignatureRunner(
      TfLiteInterpreter* interpreter, TfLiteSignatureRunner* runner, const std::string& key, int subgraph)
      : interpreter_(interpreter), runner_(runner), key_(key) {
    for (size_t i = 0; i < input_size(); ++i) {
      input_names_.push_back(TfLiteSignatureRunnerGetInputName(runner_, static_cast<int32_t>(i)));
    }
    for (size_t i = 0; i < output_size(); ++i) {
      output_names_.push_back(TfLiteSignatureRunnerGetOutputName(runner_, static_cast<int32_t>(i)));
    }
    int32_t count = 0;
    const int* indices = attache_interpreter_inputs(interpreter, subgraph, &count);
    for (int32_t i = 0; i < count; ++i) {
      const TfLiteTensor* tensor = attache_interpreter_tensor(interpreter, subgraph, indices[i]);
      for (const char* name : input_names_) {
        if (input_tensor(name) == tensor) subgraph_input_names_.push_back(name);
      }
    }
    indices = attache_interpreter_outputs(interpreter, subgraph, &count);
    for (int32_t i = 0; i < count; ++i) {
      const TfLiteTensor* tensor = attache_interpreter_tensor(interpreter, subgraph, indices[i]);
      for (const char* name : output_names_) {
        if (output_tensor(name) == tensor) subgraph_output_names_.push_back(name);
      }
    }
  }
  ~SignatureRunner() { TfLiteSignatureRunnerDelete(runner_); }
  SignatureRunner(const SignatureRunner&) = delete;
  SignatureRunner& operator=(const SignatureRunner&) = delete;

  const std::string& signature_key() const { return key_; }
  size_t input_size() const { return TfLiteSignatureRunnerGetInputCount(runner_); }
  size_t output_size() const { return TfLiteSignatureRunnerGetOutputCount(runner_); }
  // Names in their own order.
  const std::vector<const char*>& input_names() const { return input_names_; }
  const std::vector<const char*>& output_names() const { return output_names_; }
  // Names in the order of the subgraph's inputs and outputs.
  const std::vector<const char*>& subgraph_input_names() const { return subgraph_input_names_; }
  const std::vector<const char*>& subgraph_output_names() const { return subgraph_output_names_; }

  // Null if there is none of this name. The field data is set from AllocateTensors to the next resize.
  TfLiteTensor* input_tensor(const char* name) { return TfLiteSignatureRunnerGetInputTensor(runner_, name); }
  const TfLiteTensor* output_tensor(const char* name) const {
    return TfLiteSignatureRunnerGetOutputTensor(runner_, name);
  }

  // Sets the extents of an input. AllocateTensors has to follow.
  TfLiteStatus ResizeInputTensor(const char* name, const std::vector<int>& shape) {
    TfLiteTensor* input = input_tensor(name);
    return input ? attache_tensor_resize(input, shape.data(), static_cast<int32_t>(shape.size())) : kTfLiteError;
  }
  // As ResizeInputTensor, and changes only those extents that the model leaves to the program.
  TfLiteStatus ResizeInputTensorStrict(const char* name, const std::vector<int>& shape) {
    return TfLiteSignatureRunnerResizeInputTensor(runner_, name, shape.data(), static_cast<int32_t>(shape.size()));
  }
  // Puts an input or an output into memory of the program's; c_api_experimental.h says when.
  TfLiteStatus SetCustomAllocationForInputTensor(
      const char* name, const TfLiteCustomAllocation& allocation, int64_t flags = kTfLiteCustomAllocationFlagsNone) {
    TfLiteTensor* input = input_tensor(name);
    return input ? attache_tensor_set_custom_allocation(input, &allocation, flags) : kTfLiteError;
  }
  TfLiteStatus SetCustomAllocationForOutputTensor(
      const char* name, const TfLiteCustomAllocation& allocation, int64_t flags = kTfLiteCustomAllocationFlagsNone) {
    TfLiteTensor* output = const_cast<TfLiteTensor*>(output_tensor(name));
    return output ? attache_tensor_set_custom_allocation(output, &allocation, flags) : kTfLiteError;
  }

  // Handles of buffers; c_api_experimental.h says what becomes of them. The delegate of a tensor always frees the one that
  // was set before: keeping it is an error.
  TfLiteStatus SetInputBufferHandle(
      const char* name, TfLiteBufferHandle handle, TfLiteDelegate* delegate, bool releases_existing = true) {
    return SetBufferHandle(input_tensor(name), handle, delegate, releases_existing);
  }
  TfLiteStatus SetOutputBufferHandle(
      const char* name, TfLiteBufferHandle handle, TfLiteDelegate* delegate, bool releases_existing = true) {
    return SetBufferHandle(const_cast<TfLiteTensor*>(output_tensor(name)), handle, delegate, releases_existing);
  }
  // For all signatures of the interpreter.
  void SetAllowBufferHandleOutput(bool allow) { TfLiteSetAllowBufferHandleOutput(interpreter_, allow); }

  TfLiteStatus AllocateTensors() { return TfLiteSignatureRunnerAllocateTensors(runner_); }
  TfLiteStatus Invoke() { return TfLiteSignatureRunnerInvoke(runner_); }
  TfLiteStatus Cancel() { return TfLiteSignatureRunnerCancel(runner_); }

 private:
  TfLiteStatus SetBufferHandle(
      TfLiteTensor* tensor, TfLiteBufferHandle handle, TfLiteDelegate* delegate, bool releases_existing) {
    const bool has_other = tensor && tensor->buffer_handle != kTfLiteNullBufferHandle;
    if (!tensor || (has_other && !releases_existing)) return kTfLiteError;
    return TfLiteInterpreterSetBufferHandle(
        interpreter_, tensor, handle, reinterpret_cast<TfLiteOpaqueDelegate*>(delegate));
  }

  TfLiteInterpreter* interpreter_;
  TfLiteSignatureRunner* runner_;
  std::string key_;
  std::vector<const char*> input_names_;
  std::vector<const char*> output_names_;
  std::vector<const char*> subgraph_input_names_;
  std::vector<const char*> subgraph_output_names_;
};

}  // namespace tflite

#endif
