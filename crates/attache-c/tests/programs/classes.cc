// The classes for C++.
//
// Arguments: a model that adds two inputs of [1,2,2,3] floats, one with the signatures "square" and "negate", and one of
// two operators with the tensor 1 between them.

#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "tensorflow/lite/delegates/xnnpack/xnnpack_delegate.h"
#include "tflite/kernels/register.h"
#include "tflite/model.h"

class Counter : public tflite::ErrorReporter {
 public:
  int Report(const char*, va_list) override { return ++count; }
  int count = 0;
};

static void Errors() {
  Counter counter;
  CHECK(tflite::FlatBufferModel::BuildFromFile("/no/such/file", &counter) == nullptr);
  CHECK(tflite::FlatBufferModel::BuildFromBuffer("not a model", 11, &counter) == nullptr);
  CHECK(counter.count == 2);
  CHECK(tflite::FlatBufferModel::BuildFromFile("/no/such/file", nullptr) == nullptr);
}

static void Runs(const char* path) {
  std::unique_ptr<tflite::Interpreter> interpreter;
  {
    auto model = tflite::FlatBufferModel::BuildFromFile(path);
    tflite::ops::builtin::BuiltinOpResolver resolver;
    CHECK(tflite::InterpreterBuilder(*model, resolver)(&interpreter, 2) == kTfLiteOk);
  }
  CHECK(interpreter->inputs().size() == 2 && interpreter->outputs().size() == 1);
  CHECK(interpreter->tensors_size() == 3 && interpreter->variables().empty());
  CHECK(interpreter->SetNumThreads(-5) == kTfLiteError && interpreter->SetNumThreads(1) == kTfLiteOk);
  const TfLiteTensor* early = interpreter->input_tensor(0);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk);
  CHECK(early->data.f != nullptr);
  CHECK(interpreter->EnsureTensorDataIsReadable(interpreter->outputs()[0]) == kTfLiteOk);
  CHECK(interpreter->ResizeInputTensorStrict(interpreter->inputs()[0], {1, 2, 2, 3}) == kTfLiteOk);
  CHECK(interpreter->ResizeInputTensorStrict(interpreter->inputs()[0], {2, 2, 2, 3}) == kTfLiteError);
  CHECK(interpreter->typed_input_tensor<int8_t>(0) == nullptr);
  CHECK(interpreter->typed_input_tensor<std::string>(0) == nullptr);
  CHECK(interpreter->typed_input_tensor<float>(2) == nullptr);
  for (int i = 0; i < 12; ++i) {
    interpreter->typed_input_tensor<float>(0)[i] = 1.0f;
    interpreter->tensor(interpreter->inputs()[1])->data.f[i] = static_cast<float>(i);
  }
  CHECK(interpreter->Invoke() == kTfLiteOk);
  CHECK(interpreter->typed_output_tensor<float>(0)[11] == 12.0f);
  CHECK(interpreter->output_tensor(0)->dims->data[3] == 3);

  std::unique_ptr<TfLiteDelegate, decltype(&TfLiteXNNPackDelegateDelete)> delegate(
      TfLiteXNNPackDelegateCreate(nullptr), TfLiteXNNPackDelegateDelete);
  CHECK(interpreter->ModifyGraphWithDelegate(std::move(delegate)) == kTfLiteOk);
  CHECK(interpreter->Invoke() == kTfLiteOk);
  CHECK(interpreter->typed_output_tensor<float>(0)[11] == 12.0f);

  for (int input : interpreter->inputs()) CHECK(interpreter->ResizeInputTensor(input, {2, 2, 2, 3}) == kTfLiteOk);
  CHECK(interpreter->ResizeInputTensor(interpreter->outputs()[0], {1}) == kTfLiteError);
  CHECK(interpreter->AllocateTensors() == kTfLiteOk);
  CHECK(interpreter->output_tensor(0)->bytes == 96);
}

static void Signatures(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  tflite::ops::builtin::BuiltinOpResolver resolver;
  std::unique_ptr<tflite::Interpreter> interpreter;
  tflite::InterpreterBuilder(*model, resolver)(&interpreter);
  CHECK(interpreter->signature_keys().size() == 2);
  tflite::SignatureRunner* runner = interpreter->GetSignatureRunner("negate");
  CHECK(runner == interpreter->GetSignatureRunner("negate"));
  CHECK(interpreter->GetSignatureRunner(nullptr) == interpreter->GetSignatureRunner("square"));
  CHECK(interpreter->input_tensor_by_signature("in", "negate") == runner->input_tensor("in"));
  CHECK(interpreter->output_tensor_by_signature("out", "none") == nullptr);
  CHECK(runner->AllocateTensors() == kTfLiteOk);
  runner->input_tensor(runner->input_names()[0])->data.f[0] = 2.0f;
  CHECK(runner->Invoke() == kTfLiteOk);
  CHECK(runner->output_tensor(runner->output_names()[0])->data.f[0] == -2.0f);
}

static void Intermediates(const char* path) {
  auto model = tflite::FlatBufferModel::BuildFromFile(path);
  tflite::ops::builtin::BuiltinOpResolver resolver;
  for (bool preserves : {false, true}) {
    tflite::InterpreterOptions options;
    options.SetPreserveAllTensors(preserves);
    std::unique_ptr<tflite::Interpreter> interpreter;
    CHECK(tflite::InterpreterBuilder(*model, resolver, &options)(&interpreter) == kTfLiteOk);
    CHECK(interpreter->AllocateTensors() == kTfLiteOk && interpreter->Invoke() == kTfLiteOk);
    CHECK(interpreter->typed_output_tensor<float>(0)[0] == -1.0f);
    const float* between = interpreter->typed_tensor<float>(1);
    CHECK(preserves ? between && between[3] == 1.0f : !between);
  }
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  Errors();
  Runs(argv[1]);
  Signatures(argv[2]);
  Intermediates(argv[3]);
  return 0;
}
