// Models, in C++.

#ifndef TENSORFLOW_LITE_MODEL_BUILDER_H_
#define TENSORFLOW_LITE_MODEL_BUILDER_H_

#include <memory>

#include "tensorflow/lite/c/c_api.h"
#include "tensorflow/lite/error_reporter.h"

namespace tflite {

// A model file that was opened and checked. Interpreters stay valid when it is destroyed.
class FlatBufferModel {
 public:
  // Returns null if the file cannot be read or is no valid model. A null reporter stands for the default one.
  static std::unique_ptr<FlatBufferModel> BuildFromFile(
      const char* filename, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return Of(TfLiteModelCreateFromFileWithErrorReporter(filename, internal::ReportTo, error_reporter), error_reporter);
  }

  // The bytes are not copied: they stay unchanged until the model and its interpreters are destroyed.
  static std::unique_ptr<FlatBufferModel> BuildFromBuffer(
      const char* buffer, size_t buffer_size, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return Of(
        TfLiteModelCreateWithErrorReporter(buffer, buffer_size, internal::ReportTo, error_reporter), error_reporter);
  }

  // Models are always verified.
  static std::unique_ptr<FlatBufferModel> VerifyAndBuildFromFile(
      const char* filename, void* = nullptr, ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return BuildFromFile(filename, error_reporter);
  }
  static std::unique_ptr<FlatBufferModel> VerifyAndBuildFromBuffer(
      const char* buffer, size_t buffer_size, void* = nullptr,
      ErrorReporter* error_reporter = DefaultErrorReporter()) {
    return BuildFromBuffer(buffer, buffer_size, error_reporter);
  }

  ~FlatBufferModel() { TfLiteModelDelete(model_); }
  FlatBufferModel(const FlatBufferModel&) = delete;
  FlatBufferModel& operator=(const FlatBufferModel&) = delete;

  bool initialized() const { return model_ != nullptr; }
  bool operator!() const { return !initialized(); }
  ErrorReporter* error_reporter() const { return error_reporter_; }
  const TfLiteModel* c_model() const { return model_; }

 private:
  FlatBufferModel(TfLiteModel* model, ErrorReporter* error_reporter)
      : model_(model), error_reporter_(error_reporter ? error_reporter : DefaultErrorReporter()) {}

  static std::unique_ptr<FlatBufferModel> Of(TfLiteModel* model, ErrorReporter* error_reporter) {
    return std::unique_ptr<FlatBufferModel>(model ? new FlatBufferModel(model, error_reporter) : nullptr);
  }

  TfLiteModel* model_;
  ErrorReporter* error_reporter_;
};

}  // namespace tflite

#endif
