// Checks of model files by the program, in C++.

#ifndef TENSORFLOW_LITE_CORE_API_VERIFIER_H_
#define TENSORFLOW_LITE_CORE_API_VERIFIER_H_

#include "tensorflow/lite/error_reporter.h"

namespace tflite {

class TfLiteVerifier {
 public:
  // Returns whether the program accepts the bytes of a model.
  virtual bool Verify(const char* data, int length, ErrorReporter* reporter) = 0;
  virtual ~TfLiteVerifier() = default;
};

}  // namespace tflite

#endif
