/* signature_runner.h under another path. */

#ifndef TFLITE_SIGNATURE_RUNNER_H_
#define TFLITE_SIGNATURE_RUNNER_H_

#include "tensorflow/lite/signature_runner.h"

#endif
