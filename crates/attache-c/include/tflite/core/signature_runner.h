/* signature_runner.h under another path. */

#ifndef TFLITE_CORE_SIGNATURE_RUNNER_H_
#define TFLITE_CORE_SIGNATURE_RUNNER_H_

#include "tensorflow/lite/core/signature_runner.h"

#endif
