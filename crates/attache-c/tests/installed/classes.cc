// A program in C++ that uses the installed library.

#include "tensorflow/lite/kernels/register.h"
#include "tensorflow/lite/model.h"

int main(int argc, char** argv) {
  auto model = tflite::FlatBufferModel::BuildFromFile(argc > 1 ? argv[1] : "model.tflite");
  if (!model) return 1;
  tflite::ops::builtin::BuiltinOpResolver resolver;
  std::unique_ptr<tflite::Interpreter> interpreter;
  return tflite::InterpreterBuilder(*model, resolver)(&interpreter) == kTfLiteOk ? 0 : 1;
}
