// Signatures, in C++.

#ifndef TENSORFLOW_LITE_SIGNATURE_RUNNER_H_
#define TENSORFLOW_LITE_SIGNATURE_RUNNER_H_

#include <vector>

#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/c/common.h"

namespace tflite {

// Runs a signature of an interpreter, which owns it.
class SignatureRunner {
 public:
  explicit SignatureRunner(TfLiteSignatureRunner* runner) : runner_(runner) {
    for (size_t i = 0; i < input_size(); ++i) {
      input_names_.push_back(TfLiteSignatureRunnerGetInputName(runner_, static_cast<int32_t>(i)));
    }
    for (size_t i = 0; i < output_size(); ++i) {
      output_names_.push_back(TfLiteSignatureRunnerGetOutputName(runner_, static_cast<int32_t>(i)));
    }
  }
  ~SignatureRunner() { TfLiteSignatureRunnerDelete(runner_); }
  SignatureRunner(const SignatureRunner&) = delete;
  SignatureRunner& operator=(const SignatureRunner&) = delete;

  size_t input_size() const { return TfLiteSignatureRunnerGetInputCount(runner_); }
  size_t output_size() const { return TfLiteSignatureRunnerGetOutputCount(runner_); }
  const std::vector<const char*>& input_names() const { return input_names_; }
  const std::vector<const char*>& output_names() const { return output_names_; }

  // The field data is set from AllocateTensors to the next resize.
  TfLiteTensor* input_tensor(const char* name) {
    return TfLiteSignatureRunnerGetInputTensor(runner_, name);
  }
  const TfLiteTensor* output_tensor(const char* name) const {
    return TfLiteSignatureRunnerGetOutputTensor(runner_, name);
  }

  TfLiteStatus ResizeInputTensor(const char* name, const std::vector<int>& shape) {
    return TfLiteSignatureRunnerResizeInputTensor(runner_, name, shape.data(), static_cast<int32_t>(shape.size()));
  }
  TfLiteStatus AllocateTensors() { return TfLiteSignatureRunnerAllocateTensors(runner_); }
  TfLiteStatus Invoke() { return TfLiteSignatureRunnerInvoke(runner_); }
  TfLiteStatus Cancel() { return TfLiteSignatureRunnerCancel(runner_); }

 private:
  TfLiteSignatureRunner* runner_;
  std::vector<const char*> input_names_;
  std::vector<const char*> output_names_;
};

}  // namespace tflite

#endif
