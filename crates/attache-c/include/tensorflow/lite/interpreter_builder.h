// Makes interpreters, in C++.

#ifndef TENSORFLOW_LITE_INTERPRETER_BUILDER_H_
#define TENSORFLOW_LITE_INTERPRETER_BUILDER_H_

#include <memory>

#include "attache/attache.h"
#include "tensorflow/lite/interpreter.h"
#include "tensorflow/lite/interpreter_options.h"
#include "tensorflow/lite/model_builder.h"
#include "tensorflow/lite/mutable_op_resolver.h"

namespace tflite {

// Makes interpreters of a model. The model and the operators may be destroyed afterwards.
class InterpreterBuilder {
 public:
  InterpreterBuilder(
      const FlatBufferModel& model, const OpResolver& op_resolver,
      const InterpreterOptions* options_experimental = nullptr)
      : model_(model.c_model()), error_reporter_(model.error_reporter()), options_(TfLiteInterpreterOptionsCreate()) {
    TfLiteInterpreterOptionsSetErrorReporter(options_, internal::ReportTo, model.error_reporter());
    op_resolver.AddTo(options_);
    if (options_experimental && options_experimental->GetPreserveAllTensors()) PreserveAllTensorsExperimental();
  }
  ~InterpreterBuilder() { TfLiteInterpreterOptionsDelete(options_); }
  InterpreterBuilder(const InterpreterBuilder&) = delete;
  InterpreterBuilder& operator=(const InterpreterBuilder&) = delete;

  // Sets the interpreter to null if the model cannot be run.
  TfLiteStatus operator()(std::unique_ptr<Interpreter>* interpreter) {
    if (!interpreter) return kTfLiteError;
    TfLiteInterpreter* made = TfLiteInterpreterCreate(model_, options_);
    interpreter->reset(made ? new Interpreter(made, error_reporter_) : nullptr);
    return made ? kTfLiteOk : kTfLiteError;
  }
  TfLiteStatus operator()(std::unique_ptr<Interpreter>* interpreter, int num_threads) {
    if (SetNumThreads(num_threads) == kTfLiteOk) return (*this)(interpreter);
    if (interpreter) interpreter->reset();
    return kTfLiteError;
  }

  // -1 for the library's choice. An error for numbers below it.
  TfLiteStatus SetNumThreads(int num_threads) {
    if (num_threads < -1) return kTfLiteError;
    TfLiteInterpreterOptionsSetNumThreads(options_, num_threads);
    return kTfLiteOk;
  }
  // Lets intermediate tensors keep the values of the last run, for debugging.
  InterpreterBuilder& PreserveAllTensorsExperimental() {
    attache_interpreter_options_set_preserve_all_tensors(options_, true);
    return *this;
  }
  // The delegate stays valid as long as the interpreters.
  void AddDelegate(TfLiteDelegate* delegate) { TfLiteInterpreterOptionsAddDelegate(options_, delegate); }

 private:
  const TfLiteModel* model_;
  ErrorReporter* error_reporter_;
  TfLiteInterpreterOptions* options_;
};

}  // namespace tflite

#endif
