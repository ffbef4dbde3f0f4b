// The snippets of TensorFlow Lite's GPU delegate guide and of the post that presented the delegate, filled in to a program.
//
// Arguments: a model that squares a float input of [4], and a folder for what the delegate stores.

#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>

#include "attache/attache.h"
#include "check.h"
#include "tensorflow/lite/delegates/gpu/delegate.h"
#include "tensorflow/lite/delegates/gpu/gl_delegate.h"
#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"

using namespace tflite;

static const char* kTmpDir;
static const char* kModelToken = "square";

static void WriteToInputTensor(float* values) {
  for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(i);
}

static void ReadFromOutputTensor(const float* values) {
  for (int i = 0; i < 4; ++i) CHECK(values[i] == static_cast<float>(i * i));
}

static bool Default(const char* model_path) {
  auto model = FlatBufferModel::BuildFromFile(model_path);
  if (!model) return false;
  ops::builtin::BuiltinOpResolver op_resolver;
  std::unique_ptr<Interpreter> interpreter;
  InterpreterBuilder(*model, op_resolver)(&interpreter);

  auto* delegate = TfLiteGpuDelegateV2Create(/*default options=*/nullptr);
  if (interpreter->ModifyGraphWithDelegate(delegate) != kTfLiteOk) return false;

  WriteToInputTensor(interpreter->typed_input_tensor<float>(0));
  if (interpreter->Invoke() != kTfLiteOk) return false;
  ReadFromOutputTensor(interpreter->typed_output_tensor<float>(0));

  TfLiteGpuDelegateV2Delete(delegate);
  return true;
}

static bool Serialized(const char* model_path) {
  auto model = FlatBufferModel::BuildFromFile(model_path);
  if (!model) return false;
  ops::builtin::BuiltinOpResolver op_resolver;
  std::unique_ptr<Interpreter> interpreter;
  InterpreterBuilder(*model, op_resolver)(&interpreter);

  TfLiteGpuDelegateOptionsV2 options = TfLiteGpuDelegateOptionsV2Default();
  options.experimental_flags |= TFLITE_GPU_EXPERIMENTAL_FLAGS_ENABLE_SERIALIZATION;
  options.serialization_dir = kTmpDir;
  options.model_token = kModelToken;

  auto* delegate = TfLiteGpuDelegateV2Create(options);
  if (interpreter->ModifyGraphWithDelegate(delegate) != kTfLiteOk) return false;

  WriteToInputTensor(interpreter->typed_input_tensor<float>(0));
  if (interpreter->Invoke() != kTfLiteOk) return false;
  ReadFromOutputTensor(interpreter->typed_output_tensor<float>(0));
  TfLiteGpuDelegateV2Delete(delegate);
  return true;
}

static bool Post(const char* model_path) {
  auto model = FlatBufferModel::BuildFromFile(model_path);
  if (!model) return false;
  ops::builtin::BuiltinOpResolver op_resolver;
  std::unique_ptr<Interpreter> interpreter;
  InterpreterBuilder(*model, op_resolver)(&interpreter);

  const GpuDelegateOptions options = {
      .metadata = NULL,
      .compile_options =
          {
              .precision_loss_allowed = 1,  // FP16
              .preferred_gl_object_type = TFLITE_GL_OBJECT_TYPE_FASTEST,
              .dynamic_batch_enabled = 0,  // Not fully functional yet
          },
  };
  auto* delegate = NewGpuDelegate(&options);

  if (interpreter->ModifyGraphWithDelegate(delegate) != kTfLiteOk) return false;

  WriteToInputTensor(interpreter->typed_input_tensor<float>(0));
  if (interpreter->Invoke() != kTfLiteOk) return false;
  ReadFromOutputTensor(interpreter->typed_output_tensor<float>(0));

  DeleteGpuDelegate(delegate);
  return true;
}

static void Report(void* user_data, const char* format, va_list args) {
  char text[256];
  std::vsnprintf(text, sizeof(text), format, args);
  static_cast<std::string*>(user_data)->append(text);
}

/* Attaché's own function, which says why there is no delegate. */
static void Reported() {
  std::string reported;
  TfLiteGpuDelegateOptionsV2 options = TfLiteGpuDelegateOptionsV2Default();
  auto* delegate = attache_gpu_delegate_create(&options, Report, &reported);
  CHECK(delegate != nullptr && reported.empty());
  TfLiteGpuDelegateV2Delete(delegate);
  options.inference_preference = 77;
  CHECK(attache_gpu_delegate_create(&options, Report, &reported) == nullptr);
  CHECK(reported.find("inference_preference") != std::string::npos && reported.find("77") != std::string::npos);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  kTmpDir = argv[2];
  CHECK(Default(argv[1]));
  CHECK(Serialized(argv[1]));
  CHECK(Post(argv[1]));
  Reported();
  return 0;
}
